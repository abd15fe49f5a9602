//! The values of expressions.

use super::EvaluationError;
use nodeless_model::Quantity;
use std::cmp::Ordering;
use std::sync::Arc;

/// A value.
#[derive(Clone, Debug)]
pub enum Value {
    /// No value.
    Null,
    /// True or false.
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// A whole number that is not negative.
    Unsigned(u64),
    /// A number.
    Double(f64),
    /// A text.
    String(Arc<str>),
    /// A quantity of Kubernetes.
    Quantity(Quantity),
    /// A semantic version.
    Version(Arc<semver::Version>),
    /// A list.
    List(Arc<Vec<Value>>),
    /// A map literal.
    Map(Arc<Vec<(Value, Value)>>),
    /// What has names: a path of the [facts](crate::Facts).
    Names(Arc<[Arc<str>]>),
}

impl Value {
    /// A text.
    #[must_use]
    pub fn string(text: &str) -> Self {
        Self::String(Arc::from(text))
    }

    /// A version, which must be complete, as for `semver` without its second argument.
    ///
    /// # Errors
    /// Where the text is none.
    pub fn version(text: &str) -> Result<Self, EvaluationError> {
        let parsed = semver::Version::parse(text).map(|version| Self::Version(Arc::new(version)));
        parsed.map_err(|error| EvaluationError::Type(format!("{text} is no semantic version: {error}")))
    }

    /// The name of its type, for errors.
    pub(super) const fn kind(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool(_) => "bool",
            Self::Int(_) => "int",
            Self::Unsigned(_) => "uint",
            Self::Double(_) => "double",
            Self::String(_) => "string",
            Self::Quantity(_) => "quantity",
            Self::Version(_) => "semver",
            Self::List(_) => "list",
            Self::Map(_) | Self::Names(_) => "map",
        }
    }

    /// Whether it is true.
    ///
    /// # Errors
    /// Where it is no bool.
    pub fn as_bool(&self) -> Result<bool, EvaluationError> {
        match self {
            Self::Bool(value) => Ok(*value),
            other => Err(wrong("bool", other)),
        }
    }

    pub(super) fn as_str(&self) -> Result<&Arc<str>, EvaluationError> {
        match self {
            Self::String(text) => Ok(text),
            other => Err(wrong("string", other)),
        }
    }

    pub(super) fn as_quantity(&self) -> Result<Quantity, EvaluationError> {
        match self {
            Self::Quantity(quantity) => Ok(*quantity),
            other => Err(wrong("quantity", other)),
        }
    }

    pub(super) fn as_version(&self) -> Result<&semver::Version, EvaluationError> {
        match self {
            Self::Version(version) => Ok(version),
            other => Err(wrong("semver", other)),
        }
    }

    /// Whether two values are equal; values of different types are not, except numbers.
    pub(super) fn equals(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Null, Self::Null) => true,
            (Self::Bool(a), Self::Bool(b)) => a == b,
            (Self::String(a), Self::String(b)) => a == b,
            (Self::Quantity(a), Self::Quantity(b)) => a == b,
            (Self::Version(a), Self::Version(b)) => a == b,
            (Self::List(a), Self::List(b)) => a.len() == b.len() && a.iter().zip(b.iter()).all(|(a, b)| a.equals(b)),
            (Self::Map(a), Self::Map(b)) => {
                let has = |(key, value): &(Self, Self)| b.iter().any(|(k, v)| k.equals(key) && v.equals(value));
                a.len() == b.len() && a.iter().all(has)
            }
            (Self::Names(a), Self::Names(b)) => a == b,
            _ => self.number_cmp(other) == Some(Ordering::Equal),
        }
    }

    /// The order of two values that `<` and its like compare.
    pub(super) fn order(&self, other: &Self) -> Result<Ordering, EvaluationError> {
        let order = match (self, other) {
            (Self::Bool(a), Self::Bool(b)) => Some(a.cmp(b)),
            (Self::String(a), Self::String(b)) => Some(a.cmp(b)),
            _ => self.number_cmp(other),
        };
        order.ok_or_else(|| {
            EvaluationError::Type(format!("{} and {} have no order; use compareTo", self.kind(), other.kind()))
        })
    }

    fn number_cmp(&self, other: &Self) -> Option<Ordering> {
        match (self, other) {
            (Self::Double(a), b) => a.partial_cmp(&b.as_double()?),
            (a, Self::Double(b)) => a.as_double()?.partial_cmp(b),
            (a, b) => Some(a.as_whole()?.cmp(&b.as_whole()?)),
        }
    }

    const fn as_whole(&self) -> Option<i128> {
        match self {
            Self::Int(value) => Some(*value as i128),
            Self::Unsigned(value) => Some(*value as i128),
            _ => None,
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "CEL compares whole numbers with doubles as doubles")]
    pub(super) const fn as_double(&self) -> Option<f64> {
        match self {
            Self::Double(value) => Some(*value),
            Self::Int(value) => Some(*value as f64),
            Self::Unsigned(value) => Some(*value as f64),
            _ => None,
        }
    }
}

pub(super) fn wrong(expected: &str, given: &Value) -> EvaluationError {
    EvaluationError::Type(format!("expected a {expected}, not a {}", given.kind()))
}
