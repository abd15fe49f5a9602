//! Why a setting or an object is not used.

use serde::{Deserialize, Serialize};

/// An annotation of nodeless that is not used as it is written. The message states what happens instead.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidAnnotation {
    /// The value is not a valid one.
    #[error("annotation {key} is {value:?}, {effect}: {why}write {valid}")]
    Value {
        /// The annotation.
        key: &'static str,
        /// The invalid value.
        value: String,
        /// The effect of the invalid annotation.
        effect: &'static str,
        /// What is wrong with it beyond not being a valid value, and a semicolon; or empty.
        why: String,
        /// The values that it may have.
        valid: String,
    },
    /// The annotation contradicts the spec of its object.
    #[error("annotation {key} is ignored, because {why}: {remedy}")]
    Contradiction {
        /// The annotation.
        key: &'static str,
        /// The part of the spec that it contradicts.
        why: &'static str,
        /// The fix.
        remedy: String,
    },
}

impl InvalidAnnotation {
    /// The annotation.
    #[must_use]
    pub const fn key(&self) -> &'static str {
        match self {
            Self::Value { key, .. } | Self::Contradiction { key, .. } => key,
        }
    }
}

/// Why an object is not used, as its conditions and Events report it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(transparent)]
#[error("{0}")]
pub struct Unusable(pub String);

impl From<String> for Unusable {
    fn from(why: String) -> Self {
        Self(why)
    }
}

impl From<&str> for Unusable {
    fn from(why: &str) -> Self {
        Self(why.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_stored_as_its_text() {
        let stored: Result<(), Unusable> = Err("spec.limits[cpu]: no quantity".into());
        let text = serde_json::to_string(&stored).unwrap();
        assert_eq!(text, r#"{"Err":"spec.limits[cpu]: no quantity"}"#);
        assert_eq!(serde_json::from_str::<Result<(), Unusable>>(&text).unwrap(), stored);
    }
}
