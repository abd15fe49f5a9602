//! Label selectors, as Kubernetes evaluates them.

use crate::StringMap;
use serde::{Deserialize, Serialize};

/// A selector of objects by their labels. The empty selector matches all objects.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LabelSelector {
    /// Labels that must have just these values.
    #[serde(skip_serializing_if = "StringMap::is_empty")]
    pub match_labels: StringMap,
    /// Further conditions, all of which must hold.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub match_expressions: Vec<LabelExpression>,
}

/// A condition on a label.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct LabelExpression {
    /// The label's key.
    pub key: String,
    /// The operator.
    pub operator: LabelOperator,
    /// The values for `In` and `NotIn`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<String>,
}

/// The operator of a condition on a label.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum LabelOperator {
    /// The value is one of those listed.
    In,
    /// The label is absent or its value is none of those listed.
    NotIn,
    /// The label is there.
    Exists,
    /// The label is absent.
    DoesNotExist,
}

impl LabelSelector {
    /// A selector of exactly these labels.
    #[must_use]
    pub fn from_labels(labels: StringMap) -> Self {
        Self { match_labels: labels, match_expressions: Vec::new() }
    }

    /// Whether the selector matches an object with these labels.
    #[must_use]
    pub fn matches(&self, labels: &StringMap) -> bool {
        self.match_labels.iter().all(|(key, value)| labels.get(key) == Some(value))
            && self.match_expressions.iter().all(|expression| expression.matches(labels))
    }
}

impl LabelExpression {
    /// Whether the condition holds for these labels.
    #[must_use]
    pub fn matches(&self, labels: &StringMap) -> bool {
        let value = labels.get(&self.key);
        match self.operator {
            LabelOperator::In => value.is_some_and(|value| self.values.contains(value)),
            LabelOperator::NotIn => value.is_none_or(|value| !self.values.contains(value)),
            LabelOperator::Exists => value.is_some(),
            LabelOperator::DoesNotExist => value.is_none(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn matches_as_kubernetes_does() {
        let labels = StringMap::from([("app".into(), "web".into())]);
        let expression = |key: &str, operator, values: &[&str]| LabelSelector {
            match_expressions: vec![LabelExpression {
                key: key.into(),
                operator,
                values: values.iter().map(|&value| value.to_owned()).collect(),
            }],
            ..LabelSelector::default()
        };
        assert!(LabelSelector::default().matches(&labels));
        assert!(LabelSelector::from_labels(labels.clone()).matches(&labels));
        assert!(expression("app", LabelOperator::In, &["web", "api"]).matches(&labels));
        assert!(!expression("app", LabelOperator::NotIn, &["web"]).matches(&labels));
        assert!(expression("tier", LabelOperator::NotIn, &["web"]).matches(&labels));
        assert!(!expression("tier", LabelOperator::Exists, &[]).matches(&labels));
        assert!(expression("tier", LabelOperator::DoesNotExist, &[]).matches(&labels));
    }
}
