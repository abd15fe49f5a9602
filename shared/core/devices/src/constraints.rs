//! The constraints of a claim for the devices of its requests.

use crate::attribute::Attribute;
use crate::claim::ClaimConstraint;
use crate::slice::{Device, qualified};

/// A constraint, and the values of the devices that are allocated already.
#[derive(Clone, Debug)]
pub(crate) struct Constraint<'a> {
    requests: &'a [String],
    attribute: &'a str,
    is_distinct: bool,
    values: Vec<&'a Attribute>,
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
    pub(crate) fn of(constraint: &'a ClaimConstraint) -> Option<Self> {
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
    pub(crate) fn add(&mut self, request: Request<'_>, driver: &str, device: &'a Device) -> Verdict {
        if !self.is_for(request) {
            return Verdict::Meets;
        }
        let (domain, id) = qualified(self.attribute, driver);
        let value = match device.attribute(driver, domain, id) {
            None if device.is_predicted => return Verdict::Unknown,
            None => return Verdict::Violates,
            Some(Attribute::Unknown) => return Verdict::Unknown,
            Some(value) => value,
        };
        let meets = if self.is_distinct {
            !self.values.contains(&value)
        } else {
            self.values.first().is_none_or(|first| *first == value)
        };
        if meets {
            self.values.push(value);
        }
        if meets { Verdict::Meets } else { Verdict::Violates }
    }

    /// Takes back the last device, which was of this request.
    pub(crate) fn remove(&mut self, request: Request<'_>) {
        if self.is_for(request) {
            self.values.pop();
        }
    }

    fn is_for(&self, (name, alternative): Request<'_>) -> bool {
        let names = |listed: &String| match alternative {
            None => listed == name,
            Some(alternative) => listed == name || listed.split_once('/') == Some((name, alternative)),
        };
        self.requests.is_empty() || self.requests.iter().any(names)
    }
}

/// The name of a request, and of the alternative.
pub(crate) type Request<'r> = (&'r str, Option<&'r str>);
