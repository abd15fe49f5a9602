//! The labels of pods by whose values costs are divided.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// The most labels: each one adds up to 200 groups to every record.
pub const MAX_LABELS: usize = 5;

/// The labels of pods by whose values costs are divided, at most [`MAX_LABELS`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct CostLabels(Vec<String>);

impl Default for CostLabels {
    /// The name of the application, as Kubernetes recommends it.
    fn default() -> Self {
        Self(vec!["app.kubernetes.io/name".to_owned()])
    }
}

impl CostLabels {
    /// The keys.
    #[must_use]
    pub fn keys(&self) -> &[String] {
        &self.0
    }
}

impl fmt::Display for CostLabels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() { f.write_str("none") } else { f.write_str(&self.0.join(",")) }
    }
}

/// A list of labels that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CostLabelsError {
    /// The text is not the key of a label.
    #[error("{0:?} is not the key of a label, such as app.kubernetes.io/name")]
    Key(String),
    /// There are more than [`MAX_LABELS`].
    #[error("{0} labels are too many: at most {MAX_LABELS}")]
    TooMany(usize),
}

impl FromStr for CostLabels {
    type Err = CostLabelsError;

    /// Keys with commas between them; `none` or an empty text is no label.
    fn from_str(text: &str) -> Result<Self, CostLabelsError> {
        if text.trim() == "none" {
            return Ok(Self(Vec::new()));
        }
        let keys: Vec<String> =
            text.split(',').map(str::trim).filter(|key| !key.is_empty()).map(str::to_owned).collect();
        if let Some(wrong) = keys.iter().find(|key| !is_key(key)) {
            return Err(CostLabelsError::Key(wrong.clone()));
        }
        if keys.len() > MAX_LABELS {
            return Err(CostLabelsError::TooMany(keys.len()));
        }
        Ok(Self(keys))
    }
}

/// Whether a text has the form of a label's key: an optional domain, and a name of at most 63 characters.
fn is_key(text: &str) -> bool {
    let (domain, name) = text.split_once('/').map_or((None, text), |(domain, name)| (Some(domain), name));
    let allowed = |text: &str, more: &[u8]| {
        let ends = [text.bytes().next(), text.bytes().next_back()];
        ends.iter().all(|end| end.is_some_and(|byte| byte.is_ascii_alphanumeric()))
            && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || more.contains(&byte))
    };
    name.len() <= 63
        && allowed(name, b"-_.")
        && domain.is_none_or(|domain| domain.len() <= 253 && allowed(domain, b"-."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_a_short_list_of_keys() {
        let of = |text: &str| text.parse::<CostLabels>();
        for empty in ["", "none"] {
            assert_eq!(of(empty).unwrap().keys(), Vec::<String>::new());
        }
        assert_eq!(of("team, app.kubernetes.io/name,").unwrap().keys(), ["team", "app.kubernetes.io/name"]);
        assert_eq!(of("team,a b").unwrap_err(), CostLabelsError::Key("a b".into()));
        for wrong in ["-a", "a/", "/a", "a/b/c", "ä", &"a".repeat(64)] {
            assert!(of(wrong).is_err(), "{wrong}");
        }
        assert_eq!(of("a,b,c,d,e,f").unwrap_err().to_string(), "6 labels are too many: at most 5");
        assert_eq!(CostLabels::default().to_string().parse::<CostLabels>().unwrap(), CostLabels::default());
    }
}
