//! The attributes and capacities that an expression reads.

use super::compile::Expression;
use super::value::{Kind, Value};
use crate::attribute::Attribute;
use crate::slice::Device;
use nodeless_model::Quantity;
use std::collections::BTreeSet;
use std::fmt;

/// An attribute or a capacity.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Read {
    /// Whether it is a capacity.
    pub is_capacity: bool,
    /// The domain, which is that of the driver for most names.
    pub domain: String,
    /// The name in the domain.
    pub id: String,
}

impl Read {
    /// The text of the value of a device; `None` if it does not have it, or it is not known yet.
    #[must_use]
    pub fn text(&self, driver: &str, device: &Device) -> Option<String> {
        if self.is_capacity {
            return device.capacity(driver, &self.domain, &self.id).map(Quantity::to_binary_string);
        }
        Some(match device.attribute(driver, &self.domain, &self.id)? {
            Attribute::String(text) => format!("{text:?}"),
            Attribute::Version(version) => version.clone(),
            Attribute::Int(number) => number.to_string(),
            Attribute::Bool(value) => value.to_string(),
            Attribute::Unknown => return None,
        })
    }
}

impl fmt::Display for Read {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = if self.is_capacity { Kind::Capacity } else { Kind::Attributes };
        f.write_str(&kind.named(&self.domain, &self.id))
    }
}

/// Those that an expression names; names that it computes are missing.
pub(super) fn reads(expression: &Expression, found: &mut BTreeSet<Read>) {
    match expression {
        Expression::Select(operand, id) | Expression::Has(operand, id) => note(operand, id, found),
        Expression::Index(operand, key) => match &**key {
            Expression::Literal(Value::String(id)) => note(operand, id, found),
            other => [operand, other].into_iter().for_each(|part| reads(part, found)),
        },
        Expression::Binary(_, left, right) => {
            if let (Expression::Literal(Value::String(id)), Some(_)) = (&**left, domain(right)) {
                note(right, id, found);
            }
            [left, right].into_iter().for_each(|part| reads(part, found));
        }
        Expression::And(left, right) | Expression::Or(left, right) | Expression::Bind(_, left, right) => {
            [left, right].into_iter().for_each(|part| reads(part, found));
        }
        Expression::Not(operand) | Expression::NotStrictlyFalse(operand) | Expression::Negate(operand) => {
            reads(operand, found);
        }
        Expression::Conditional(parts) => parts.iter().for_each(|part| reads(part, found)),
        Expression::Call(_, target, arguments) => {
            target.as_deref().into_iter().chain(arguments).for_each(|part| reads(part, found));
        }
        Expression::List(elements) => elements.iter().for_each(|part| reads(part, found)),
        Expression::Map(entries) => {
            entries.iter().flat_map(|(key, value)| [key, value]).for_each(|it| reads(it, found));
        }
        Expression::Comprehension(it) => {
            [&it.range, &it.start, &it.condition, &it.step, &it.end].into_iter().for_each(|part| reads(part, found));
        }
        Expression::Literal(_) | Expression::Device | Expression::Variable(_) => {}
    }
}

fn note(operand: &Expression, id: &str, found: &mut BTreeSet<Read>) {
    match domain(operand) {
        Some((kind, domain)) => {
            let read = Read { is_capacity: kind == Kind::Capacity, domain: domain.to_owned(), id: id.to_owned() };
            found.insert(read);
        }
        None => reads(operand, found),
    }
}

/// `device.attributes["domain"]` or `device.capacity["domain"]`.
fn domain(expression: &Expression) -> Option<(Kind, &str)> {
    let (operand, domain) = match expression {
        Expression::Select(operand, domain) => (operand, &**domain),
        Expression::Index(operand, key) => match &**key {
            Expression::Literal(Value::String(domain)) => (operand, &**domain),
            _ => return None,
        },
        _ => return None,
    };
    match &**operand {
        Expression::Select(device, names) if matches!(**device, Expression::Device) => match &**names {
            "attributes" => Some((Kind::Attributes, domain)),
            "capacity" => Some((Kind::Capacity, domain)),
            _ => None,
        },
        _ => None,
    }
}
