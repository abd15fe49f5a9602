//! What a device publishes, for expressions.

use super::Read;
use crate::slices::attribute::Attribute;
use crate::slices::slice::{Device, qualified};
use nodeless_expressions::{EvaluationError, Facts, Value};
use std::collections::BTreeSet;

/// A device of a driver.
pub(super) struct Published<'a> {
    pub(super) driver: &'a str,
    pub(super) device: &'a Device,
}

impl Facts for Published<'_> {
    fn value(&self, path: &[&str]) -> Result<Option<Value>, EvaluationError> {
        let (is_capacity, domain, id) = match path {
            [_, "driver"] => return Ok(Some(Value::string(self.driver))),
            [_, "allowMultipleAllocations"] => {
                return Ok(Some(Value::Bool(self.device.allow_multiple_allocations == Some(true))));
            }
            [_] | [_, "attributes" | "capacity"] | [_, _, _] => return Ok(None),
            [_, kind, domain, id] => (*kind == "capacity", (*domain).to_owned(), (*id).to_owned()),
            _ => return Err(EvaluationError::Missing { what: format!("field {}", path.last().unwrap_or(&"device")) }),
        };
        let read = Read { is_capacity, domain, id };
        match self.published(&read)? {
            None if self.device.is_predicted => Err(EvaluationError::NotPublished { what: read.to_string() }),
            None => Err(EvaluationError::Missing { what: read.to_string() }),
            value => Ok(value),
        }
    }

    fn names(&self, path: &[&str]) -> Result<BTreeSet<&str>, EvaluationError> {
        let is_capacity = match path {
            [_, kind, ..] => *kind == "capacity",
            _ => return Ok(BTreeSet::from(["driver", "attributes", "capacity", "allowMultipleAllocations"])),
        };
        if self.device.is_predicted {
            let what = if is_capacity { "the list of capacities" } else { "the list of attributes" };
            return Err(EvaluationError::NotPublished { what: what.to_owned() });
        }
        let (attributes, capacity) = (self.device.attributes.keys(), self.device.capacity.keys());
        let names = attributes.filter(|_| !is_capacity).chain(capacity.filter(|_| is_capacity));
        let names = names.map(|name| qualified(name, self.driver));
        Ok(match path {
            [_, _, domain] => names.filter(|(of, _)| of == domain).map(|(_, id)| id).collect(),
            _ => names.map(|(domain, _)| domain).collect(),
        })
    }
}

impl Published<'_> {
    /// An attribute or a capacity; `None` if the device does not have it.
    fn published(&self, read: &Read) -> Result<Option<Value>, EvaluationError> {
        let Read { is_capacity, domain, id } = read;
        if *is_capacity {
            return Ok(self.device.capacity(self.driver, domain, id).map(Value::Quantity));
        }
        Ok(Some(match self.device.attribute(self.driver, domain, id) {
            None => return Ok(None),
            Some(Attribute::String(text)) => Value::string(text),
            Some(Attribute::Int(value)) => Value::Int(*value),
            Some(Attribute::Bool(value)) => Value::Bool(*value),
            Some(Attribute::Version(text)) => Value::version(text)?,
            Some(Attribute::Unknown) if self.device.is_predicted => return Ok(None),
            Some(Attribute::Unknown) => {
                return Err(EvaluationError::Type(format!("{read} has a type that is not supported")));
            }
        }))
    }
}
