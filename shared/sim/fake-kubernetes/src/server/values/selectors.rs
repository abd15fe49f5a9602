//! Label selectors.

use crate::server::path::text;
use nodeless_model::label_query::{LabelQuery, LabelRequirement, QueryOperator};
use serde_json::Value;

use crate::server::status::Status;

/// A parsed label selector.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LabelSelector(LabelQuery);

impl LabelSelector {
    /// Parses the text form, as in `kubectl get -l`: `app=web,tier!=db,zone in (a,b),!legacy`.
    ///
    /// # Errors
    /// A bad request, when the text is not a selector.
    pub fn parse(selector: &str) -> Result<Self, Status> {
        let parsed = LabelQuery::parse(selector);
        parsed.map(Self).map_err(|detail| Status::bad_request(format!("unable to parse requirement: {detail}")))
    }

    /// Reads a `metav1.LabelSelector`, or a plain map of labels if it has neither `matchLabels` nor `matchExpressions`. An empty
    /// selector matches everything; `None` means that the selector is missing (null) and matches nothing.
    ///
    /// # Errors
    /// A bad request, when the object is not a selector.
    pub fn from_object(selector: &Value) -> Result<Option<Self>, Status> {
        let Some(map) = selector.as_object() else { return Ok(None) };
        let mut requirements = Vec::new();
        let structured = map.contains_key("matchLabels") || map.contains_key("matchExpressions");
        let labels = if structured { selector.get("matchLabels").and_then(Value::as_object) } else { Some(map) };
        for (key, value) in labels.into_iter().flatten() {
            let value = value.as_str().ok_or_else(|| Status::bad_request(format!("label {key:?} is no string")))?;
            requirements
                .push(LabelRequirement { key: key.clone(), operator: QueryOperator::In(vec![value.to_owned()]) });
        }
        let expressions = if structured { selector.get("matchExpressions").and_then(Value::as_array) } else { None };
        for expression in expressions.into_iter().flatten() {
            let values = || {
                let values = expression.get("values").and_then(Value::as_array).into_iter().flatten();
                values.filter_map(Value::as_str).map(str::to_owned).collect::<Vec<_>>()
            };
            let operator = match text(expression, "/operator") {
                "In" => QueryOperator::In(values()),
                "NotIn" => QueryOperator::NotIn(values()),
                "Exists" => QueryOperator::Exists,
                "DoesNotExist" => QueryOperator::DoesNotExist,
                other => {
                    return Err(Status::bad_request(format!("{other:?} is not a valid label selector operator")));
                }
            };
            requirements.push(LabelRequirement { key: text(expression, "/key").to_owned(), operator });
        }
        Ok(Some(Self(LabelQuery::new(requirements))))
    }

    /// Whether the selector matches everything.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether an object's `metadata.labels` match.
    pub fn matches(&self, object: &Value) -> bool {
        let labels = object.get("metadata").and_then(|metadata| metadata.get("labels"));
        self.matches_labels(labels.unwrap_or(&Value::Null))
    }

    /// Whether a map of labels matches.
    pub fn matches_labels(&self, labels: &Value) -> bool {
        self.0.matches(|key| labels.get(key).and_then(Value::as_str))
    }

    /// The text form.
    pub fn to_text(&self) -> String {
        self.0.to_string()
    }
}
