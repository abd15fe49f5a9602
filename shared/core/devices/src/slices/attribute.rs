//! The values of devices' attributes.

use serde::{Deserialize, Serialize};

/// The value of an attribute of a device.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(from = "Wire", into = "Wire")]
pub enum Attribute {
    /// A text.
    String(String),
    /// A whole number.
    Int(i64),
    /// True or false.
    Bool(bool),
    /// A version of semver.org 2.0.0.
    Version(String),
    /// A value of a type that is not supported, such as a list, or one that is only known once the device is published.
    Unknown,
}

/// An attribute as the API has it: one of the fields is set.
#[derive(Default, Serialize, Deserialize)]
struct Wire {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    string: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    int: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    bool: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    version: Option<String>,
}

impl From<Wire> for Attribute {
    fn from(wire: Wire) -> Self {
        match wire {
            Wire { int: Some(value), .. } => Self::Int(value),
            Wire { bool: Some(value), .. } => Self::Bool(value),
            Wire { string: Some(value), .. } => Self::String(value),
            Wire { version: Some(value), .. } => Self::Version(value),
            Wire { string: None, int: None, bool: None, version: None } => Self::Unknown,
        }
    }
}

impl From<Attribute> for Wire {
    fn from(attribute: Attribute) -> Self {
        let none = Self::default();
        match attribute {
            Attribute::String(value) => Self { string: Some(value), ..none },
            Attribute::Int(value) => Self { int: Some(value), ..none },
            Attribute::Bool(value) => Self { bool: Some(value), ..none },
            Attribute::Version(value) => Self { version: Some(value), ..none },
            Attribute::Unknown => none,
        }
    }
}
