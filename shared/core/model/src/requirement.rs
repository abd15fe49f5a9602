//! The algebra of node requirements: what a node's labels may be.
//!
//! A [`Requirement`] is a set of label values, written either as the values themselves or as all values but some, and
//! narrowed by whole-number bounds. [`Requirements`] is one such set for each label key. Everything that scheduling,
//! launching and drift ask of labels is an intersection of these sets.

mod requirements;
mod shared_labels;

pub use requirements::Requirements;
pub use shared_labels::SharedLabels;

use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fmt;

/// The operator of a requirement, as in the API.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Operator {
    /// One of the values.
    In,
    /// None of the values; the label may be absent.
    NotIn,
    /// Any value.
    Exists,
    /// No value: the label is absent.
    DoesNotExist,
    /// A whole number greater than the value.
    Gt,
    /// A whole number less than the value.
    Lt,
    /// A whole number greater than or equal to the value.
    Gte,
    /// A whole number less than or equal to the value.
    Lte,
}

impl Operator {
    /// The name in the API.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::In => "In",
            Self::NotIn => "NotIn",
            Self::Exists => "Exists",
            Self::DoesNotExist => "DoesNotExist",
            Self::Gt => "Gt",
            Self::Lt => "Lt",
            Self::Gte => "Gte",
            Self::Lte => "Lte",
        }
    }
}

/// Why a requirement cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RequirementError {
    /// A bound needs exactly one whole number.
    #[error("{key} {operator} needs exactly one whole number that is not negative, not {values:?}", operator = operator.as_str())]
    Bound {
        /// The label's key.
        key: String,
        /// The operator as written.
        operator: Operator,
        /// The values as written.
        values: Vec<String>,
    },
    /// `In` and `NotIn` compare with at least one value.
    #[error("{key} {operator} needs at least one value", operator = operator.as_str())]
    NoValues {
        /// The label's key.
        key: String,
        /// The operator as written.
        operator: Operator,
    },
}

/// A requirement in the flat form of the API, in which it is also stored.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RequirementTerm {
    /// The label's key.
    pub key: String,
    /// The operator.
    pub operator: Operator,
    /// With what.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<String>,
    /// The least number of different values that the launch must be able to choose from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_values: Option<u32>,
}

/// The values that a label may have.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Requirement {
    /// Whether `values` are excluded rather than allowed.
    complement: bool,
    values: BTreeSet<String>,
    /// The least whole number allowed.
    at_least: Option<i64>,
    /// The greatest whole number allowed.
    at_most: Option<i64>,
    min_values: Option<u32>,
}

impl Requirement {
    /// Any value.
    #[must_use]
    pub const fn exists() -> Self {
        Self { complement: true, values: BTreeSet::new(), at_least: None, at_most: None, min_values: None }
    }

    /// No value: the label must be absent.
    #[must_use]
    pub const fn does_not_exist() -> Self {
        Self { complement: false, values: BTreeSet::new(), at_least: None, at_most: None, min_values: None }
    }

    /// A requirement for one of these values.
    #[must_use]
    pub fn one_of<S: Into<String>>(values: impl IntoIterator<Item = S>) -> Self {
        Self { values: values.into_iter().map(Into::into).collect(), ..Self::does_not_exist() }
    }

    /// Any value but these.
    #[must_use]
    pub fn none_of<S: Into<String>>(values: impl IntoIterator<Item = S>) -> Self {
        Self { complement: true, ..Self::one_of(values) }
    }

    /// Reads the API's form.
    ///
    /// # Errors
    /// When a bound is not exactly one whole number, or `In` or `NotIn` has no value.
    pub fn from_term(term: &RequirementTerm) -> Result<Self, RequirementError> {
        let bound = || match term.values.as_slice() {
            [value] => value.parse::<i64>().ok().filter(|bound| *bound >= 0),
            _ => None,
        };
        let bound_error =
            || RequirementError::Bound { key: term.key.clone(), operator: term.operator, values: term.values.clone() };
        if matches!(term.operator, Operator::In | Operator::NotIn) && term.values.is_empty() {
            return Err(RequirementError::NoValues { key: term.key.clone(), operator: term.operator });
        }
        let mut requirement = match term.operator {
            Operator::In => Self::one_of(&term.values),
            Operator::NotIn => Self::none_of(&term.values),
            Operator::Exists => Self::exists(),
            Operator::DoesNotExist => Self::does_not_exist(),
            Operator::Gt => match bound().ok_or_else(bound_error)?.checked_add(1) {
                Some(least) => Self { at_least: Some(least), ..Self::exists() },
                None => Self::does_not_exist(),
            },
            Operator::Gte => Self { at_least: Some(bound().ok_or_else(bound_error)?), ..Self::exists() },
            // Bounds are never negative, and so nothing is less than zero.
            Operator::Lt => match bound().ok_or_else(bound_error)? {
                0 => Self::does_not_exist(),
                bound => Self { at_most: Some(bound - 1), ..Self::exists() },
            },
            Operator::Lte => Self { at_most: Some(bound().ok_or_else(bound_error)?), ..Self::exists() },
        };
        requirement.min_values = term.min_values;
        Ok(requirement)
    }

    /// This requirement with a minimum number of different values.
    #[must_use]
    pub fn with_min_values(mut self, min_values: Option<u32>) -> Self {
        self.min_values = min_values;
        self
    }

    /// The least number of different values that the launch must be able to choose from.
    #[must_use]
    pub const fn min_values(&self) -> Option<u32> {
        self.min_values
    }

    /// Whether a label with this value satisfies the requirement.
    #[must_use]
    pub fn has(&self, value: &str) -> bool {
        self.values.contains(value) != self.complement && self.within_bounds(value)
    }

    /// The allowed values, when they can be listed.
    #[must_use]
    pub const fn values(&self) -> Option<&BTreeSet<String>> {
        if self.complement { None } else { Some(&self.values) }
    }

    /// The only allowed value, when there is exactly one.
    #[must_use]
    pub fn single(&self) -> Option<&str> {
        match self.values() {
            Some(values) if values.len() == 1 => values.first().map(String::as_str),
            _ => None,
        }
    }

    /// A value that satisfies the requirement, always the same; `None` when none is found. If any text satisfies it, the value is
    /// `true`; between bounds, the least number.
    #[must_use]
    pub fn some_value(&self) -> Option<String> {
        if let Some(values) = self.values() {
            return values.first().cloned();
        }
        let numbers = (self.at_least.or(self.at_most).unwrap_or(0)..).take(self.values.len() + 1);
        let numbers = numbers.map(|number| number.to_string());
        let text = (!self.has_bounds()).then(|| "true".to_owned());
        text.into_iter().chain(numbers).find(|value| self.has(value))
    }

    /// Whether no value satisfies the requirement (`DoesNotExist`, or a contradiction).
    #[must_use]
    pub fn is_empty(&self) -> bool {
        !self.complement && self.values.is_empty()
    }

    /// Whether an absent label satisfies the requirement (`NotIn` without bounds, or `DoesNotExist`).
    #[must_use]
    pub fn allows_absence(&self) -> bool {
        self.is_empty() || (self.complement && !self.values.is_empty() && !self.has_bounds())
    }

    /// The values that satisfy both.
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        let min_values = self.min_values.max(other.min_values);
        let Some((at_least, at_most)) = self.common_bounds(other) else {
            return Self::does_not_exist().with_min_values(min_values);
        };
        let bounded = Self { complement: true, values: BTreeSet::new(), at_least, at_most, min_values };
        let keep = |values: &BTreeSet<String>, allowed: &dyn Fn(&String) -> bool| -> BTreeSet<String> {
            values.iter().filter(|value| allowed(value) && bounded.within_bounds(value)).cloned().collect()
        };
        let concrete = |values| Self { values, ..Self::does_not_exist().with_min_values(min_values) };
        match (self.complement, other.complement) {
            (true, true) => Self { values: self.values.union(&other.values).cloned().collect(), ..bounded },
            (true, false) => concrete(keep(&other.values, &|value| !self.values.contains(value))),
            (false, true) => concrete(keep(&self.values, &|value| !other.values.contains(value))),
            (false, false) => concrete(keep(&self.values, &|value| other.values.contains(value))),
        }
    }

    /// Whether some value, or absence, satisfies both. Two requirements that both allow absence always agree.
    #[must_use]
    pub fn intersects(&self, other: &Self) -> bool {
        if self.allows_absence() && other.allows_absence() {
            return true;
        }
        if self.common_bounds(other).is_none() {
            return false;
        }
        // The intersection is not built: every plan evaluates this for every instance type.
        let both = |value: &String| self.has(value) && other.has(value);
        match (self.values(), other.values()) {
            (None, None) => true,
            (Some(own), Some(others)) if own.len() > others.len() => others.iter().any(both),
            (Some(values), _) | (None, Some(values)) => values.iter().any(both),
        }
    }

    /// The bounds that both set together; `None` where no number is within them.
    fn common_bounds(&self, other: &Self) -> Option<(Option<i64>, Option<i64>)> {
        let at_least = self.at_least.max(other.at_least);
        let at_most = match (self.at_most, other.at_most) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        let contradict = matches!((at_least, at_most), (Some(least), Some(most)) if least > most);
        (!contradict).then_some((at_least, at_most))
    }

    /// Whether there is a bound.
    const fn has_bounds(&self) -> bool {
        self.at_least.is_some() || self.at_most.is_some()
    }

    fn within_bounds(&self, value: &str) -> bool {
        if !self.has_bounds() {
            return true;
        }
        value.parse::<i64>().is_ok_and(|number| {
            self.at_least.is_none_or(|least| number >= least) && self.at_most.is_none_or(|most| number <= most)
        })
    }

    /// The API's form: one item, or two where both bounds stand.
    ///
    /// Bounds take the place of excluded values, which the API cannot express beside them, as in Karpenter.
    #[must_use]
    pub fn to_terms(&self, key: &str) -> Vec<RequirementTerm> {
        let term =
            |operator, values| RequirementTerm { key: key.to_owned(), operator, values, min_values: self.min_values };
        if self.has_bounds() {
            let least = self.at_least.map(|bound| term(Operator::Gte, vec![bound.to_string()]));
            let most = self.at_most.map(|bound| term(Operator::Lte, vec![bound.to_string()]));
            return least.into_iter().chain(most).collect();
        }
        let operator = match (self.complement, self.values.is_empty()) {
            (true, true) => Operator::Exists,
            (true, false) => Operator::NotIn,
            (false, true) => Operator::DoesNotExist,
            (false, false) => Operator::In,
        };
        vec![term(operator, self.values.iter().cloned().collect())]
    }
}

impl fmt::Display for Requirement {
    /// `In [a, b]`, `NotIn [a]`, `Exists`, `DoesNotExist`, `Gte 4, Lte 8`; long lists are cut after five values.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, term) in self.to_terms("").iter().enumerate() {
            let separator = if index == 0 { "" } else { ", " };
            write!(f, "{separator}{}", term.operator.as_str())?;
            match (term.operator, term.values.as_slice()) {
                (_, []) => {}
                (Operator::Gte | Operator::Lte, [bound, ..]) => write!(f, " {bound}")?,
                (_, values) => {
                    let shown = values.iter().take(5).map(String::as_str).collect::<Vec<_>>().join(", ");
                    let more =
                        if values.len() > 5 { format!(" and {} others", values.len() - 5) } else { String::new() };
                    write!(f, " [{shown}{more}]")?;
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
