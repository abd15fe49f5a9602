//! The constraints of a claim for the devices of its requests.

use crate::claim::ClaimConstraint;
use crate::slices::attribute::Attribute;
use crate::slices::slice::{Device, qualified};

/// A constraint, and the values of the devices that are allocated already.
#[derive(Clone, Debug)]
pub(crate) struct Constraint<'a> {
    requests: &'a [String],
    attribute: &'a str,
    is_distinct: bool,
    values: Vec<&'a Attribute>,
}

/// The value of a device for a constraint.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Value<'a> {
    Known(&'a Attribute),
    /// With the devices that are allocated, it violates the constraint.
    Violates,
    /// The attribute is not known.
    Unknown,
}

/// Whether a device meets a constraint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Meets,
    Violates,
    /// The attribute is not known.
    Unknown,
}

impl<'a> Constraint<'a> {
    /// `None` for a kind of constraint that is not known.
    pub(crate) fn new(constraint: &'a ClaimConstraint) -> Option<Self> {
        let (attribute, is_distinct) = match (&constraint.match_attribute, &constraint.distinct_attribute) {
            (Some(attribute), _) => (attribute, false),
            (None, Some(attribute)) => (attribute, true),
            (None, None) => return None,
        };
        Some(Self { requests: &constraint.requests, attribute, is_distinct, values: Vec::new() })
    }

    /// The name of the attribute.
    pub(crate) const fn attribute(&self) -> &'a str {
        self.attribute
    }

    /// Adds a device of a request, `None` for the alternative if it has none, unless it violates the constraint.
    pub(crate) fn add(&mut self, name: &str, alternative: Option<&str>, driver: &str, device: &'a Device) -> Verdict {
        if !self.is_for(name, alternative) {
            return Verdict::Meets;
        }
        match self.value(driver, device) {
            Value::Unknown => Verdict::Unknown,
            Value::Known(value) => {
                self.values.push(value);
                Verdict::Meets
            }
            Value::Violates => Verdict::Violates,
        }
    }

    /// The value of a device, if it meets the constraint beside those that are allocated.
    pub(crate) fn value(&self, driver: &str, device: &'a Device) -> Value<'a> {
        let (domain, id) = qualified(self.attribute, driver);
        let value = match device.attribute(driver, domain, id) {
            None if device.is_predicted => return Value::Unknown,
            None => return Value::Violates,
            Some(Attribute::Unknown) => return Value::Unknown,
            Some(value) => value,
        };
        let meets = if self.is_distinct {
            !self.values.contains(&value)
        } else {
            self.values.first().is_none_or(|first| *first == value)
        };
        if meets { Value::Known(value) } else { Value::Violates }
    }

    /// Whether all devices must have the same value, and none has been allocated yet.
    pub(crate) const fn is_open(&self) -> bool {
        !self.is_distinct && self.values.is_empty()
    }

    pub(crate) const fn is_distinct(&self) -> bool {
        self.is_distinct
    }

    /// Takes back the last device, which was of this request.
    pub(crate) fn remove(&mut self, name: &str, alternative: Option<&str>) {
        if self.is_for(name, alternative) {
            self.values.pop();
        }
    }

    /// Forgets all devices.
    pub(crate) fn clear(&mut self) {
        self.values.clear();
    }

    /// Whether it is for a request, or for an alternative of it.
    pub(crate) fn is_for(&self, name: &str, alternative: Option<&str>) -> bool {
        let names = |listed: &String| match alternative {
            None => listed == name,
            Some(alternative) => listed == name || listed.split_once('/') == Some((name, alternative)),
        };
        self.requests.is_empty() || self.requests.iter().any(names)
    }
}
