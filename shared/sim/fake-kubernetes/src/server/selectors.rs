//! Label and field selectors.

use crate::server::path::{Path as _, text};
use serde_json::Value;

use super::definition::Definition;
use super::status::Status;

/// A parsed label selector.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LabelSelector {
    requirements: Vec<Requirement>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Requirement {
    key: String,
    operator: Operator,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Operator {
    In(Vec<String>),
    NotIn(Vec<String>),
    Exists,
    DoesNotExist,
    Greater(i64),
    Less(i64),
}

impl LabelSelector {
    /// Parses the text form, as in `kubectl get -l`: `app=web,tier!=db,zone in (a,b),!legacy`.
    ///
    /// # Errors
    /// A bad request, when the text is not a selector.
    pub fn parse(selector: &str) -> Result<Self, Status> {
        let requirements = split_outside_parentheses(selector)
            .into_iter()
            .map(str::trim)
            .filter(|part| !part.is_empty())
            .map(Requirement::parse)
            .collect::<Result<_, _>>()
            .map_err(|detail| Status::bad_request(format!("unable to parse requirement: {detail}")))?;
        Ok(Self { requirements })
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
            requirements.push(Requirement { key: key.clone(), operator: Operator::In(vec![value.to_owned()]) });
        }
        let expressions = if structured { selector.get("matchExpressions").and_then(Value::as_array) } else { None };
        for expression in expressions.into_iter().flatten() {
            let values = || {
                let values = expression.get("values").and_then(Value::as_array).into_iter().flatten();
                values.filter_map(Value::as_str).map(str::to_owned).collect::<Vec<_>>()
            };
            let operator = match text(expression, "/operator") {
                "In" => Operator::In(values()),
                "NotIn" => Operator::NotIn(values()),
                "Exists" => Operator::Exists,
                "DoesNotExist" => Operator::DoesNotExist,
                other => {
                    return Err(Status::bad_request(format!("{other:?} is not a valid label selector operator")));
                }
            };
            requirements.push(Requirement { key: text(expression, "/key").to_owned(), operator });
        }
        Ok(Some(Self { requirements }))
    }

    /// Whether the selector matches everything.
    pub fn is_empty(&self) -> bool {
        self.requirements.is_empty()
    }

    /// Whether an object's `metadata.labels` match.
    pub fn matches(&self, object: &Value) -> bool {
        let labels = object.get("metadata").and_then(|metadata| metadata.get("labels"));
        self.matches_labels(labels.unwrap_or(&Value::Null))
    }

    /// Whether a map of labels matches.
    pub fn matches_labels(&self, labels: &Value) -> bool {
        self.requirements.iter().all(|requirement| {
            let value = labels.get(&requirement.key).and_then(Value::as_str);
            match &requirement.operator {
                Operator::In(values) => value.is_some_and(|value| values.iter().any(|other| other == value)),
                Operator::NotIn(values) => !value.is_some_and(|value| values.iter().any(|other| other == value)),
                Operator::Exists => value.is_some(),
                Operator::DoesNotExist => value.is_none(),
                Operator::Greater(bound) => number(value).is_some_and(|value| value > *bound),
                Operator::Less(bound) => number(value).is_some_and(|value| value < *bound),
            }
        })
    }

    /// The text form.
    pub fn to_text(&self) -> String {
        let parts: Vec<String> = self.requirements.iter().map(Requirement::to_text).collect();
        parts.join(",")
    }
}

fn number(value: Option<&str>) -> Option<i64> {
    value.and_then(|value| value.parse().ok())
}

impl Requirement {
    fn parse(part: &str) -> Result<Self, String> {
        let make = |key: &str, operator| {
            let key = key.trim();
            if key.is_empty() || key.contains(char::is_whitespace) || key.contains(['(', ')', ',', '=', '!']) {
                return Err(format!("{part:?} has no valid label key"));
            }
            Ok(Self { key: key.to_owned(), operator })
        };
        if let Some(key) = part.strip_prefix('!') {
            return make(key, Operator::DoesNotExist);
        }
        if let Some((key, value)) = part.split_once("!=") {
            return make(key, Operator::NotIn(vec![label_value(value)?]));
        }
        if let Some((key, value)) = part.split_once("==").or_else(|| part.split_once('=')) {
            return make(key, Operator::In(vec![label_value(value)?]));
        }
        for (separator, greater) in [('>', true), ('<', false)] {
            if let Some((key, bound)) = part.split_once(separator) {
                let bound = bound.trim().parse().map_err(|_| format!("{part:?} compares with no integer"))?;
                return make(key, if greater { Operator::Greater(bound) } else { Operator::Less(bound) });
            }
        }
        let Some((head, rest)) = part.split_once('(') else { return make(part, Operator::Exists) };
        let inside = rest.trim_end().strip_suffix(')').ok_or_else(|| format!("{part:?} lacks a closing ')'"))?;
        let values = inside.split(',').map(label_value).collect::<Result<_, _>>()?;
        match head.split_whitespace().collect::<Vec<_>>().as_slice() {
            [key, "in"] => make(key, Operator::In(values)),
            [key, "notin"] => make(key, Operator::NotIn(values)),
            _ => Err(format!("{part:?} needs an operator: in or notin")),
        }
    }

    fn to_text(&self) -> String {
        let key = &self.key;
        match &self.operator {
            Operator::In(values) if values.len() == 1 => format!("{key}={}", values[0]),
            Operator::In(values) => format!("{key} in ({})", values.join(",")),
            Operator::NotIn(values) if values.len() == 1 => format!("{key}!={}", values[0]),
            Operator::NotIn(values) => format!("{key} notin ({})", values.join(",")),
            Operator::Exists => key.clone(),
            Operator::DoesNotExist => format!("!{key}"),
            Operator::Greater(bound) => format!("{key}>{bound}"),
            Operator::Less(bound) => format!("{key}<{bound}"),
        }
    }
}

/// The value of a label in a selector. The API server rejects an invalid label value.
fn label_value(text: &str) -> Result<String, String> {
    let value = text.trim();
    let is_end = |byte: Option<&u8>| byte.is_none_or(u8::is_ascii_alphanumeric);
    let bytes = value.as_bytes();
    let is_valid = bytes.len() <= 63
        && is_end(bytes.first())
        && is_end(bytes.last())
        && bytes.iter().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(byte));
    if is_valid { Ok(value.to_owned()) } else { Err(format!("{value:?} is no value of a label")) }
}

fn split_outside_parentheses(text: &str) -> Vec<&str> {
    let (mut parts, mut depth, mut start) = (Vec::new(), 0_u32, 0);
    for (index, character) in text.char_indices() {
        match character {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                parts.push(&text[start..index]);
                start = index + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[start..]);
    parts
}

/// A parsed field selector, checked against the selectable fields of the resource.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct FieldSelector {
    /// JSON pointer, value, whether they must be equal.
    requirements: Vec<(String, String, bool)>,
}

impl FieldSelector {
    pub(crate) fn parse(definition: &Definition, selector: &str) -> Result<Self, Status> {
        let mut requirements = Vec::new();
        for part in selector.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let (field, value, equal) = if let Some((field, value)) = part.split_once("!=") {
                (field, value, false)
            } else if let Some((field, value)) = part.split_once("==").or_else(|| part.split_once('=')) {
                (field, value, true)
            } else {
                return Err(Status::bad_request(format!("invalid selector: {selector:?}; can't understand {part:?}")));
            };
            let pointer = pointer_for(definition, field).ok_or_else(|| {
                Status::bad_request(format!(
                    "Unable to find {:?} that match label selector \"\", field selector {selector:?}: \
                     field label not supported: {field}",
                    format!("{}, Resource={}", definition.resource.api_version(), definition.resource.plural)
                ))
            })?;
            requirements.push((pointer, value.to_owned(), equal));
        }
        Ok(Self { requirements })
    }

    /// Whether the selector matches everything.
    pub(crate) fn is_empty(&self) -> bool {
        self.requirements.is_empty()
    }

    /// Whether an object's fields match.
    pub(crate) fn matches(&self, object: &Value) -> bool {
        self.requirements.iter().all(|(pointer, expected, equal)| {
            let actual = match object.at(pointer) {
                Some(Value::String(text)) => text.clone(),
                Some(Value::Bool(flag)) => flag.to_string(),
                Some(Value::Number(number)) => number.to_string(),
                _ if pointer == "/spec/unschedulable" || pointer == "/spec/hostNetwork" => "false".into(),
                _ => String::new(),
            };
            (actual == *expected) == *equal
        })
    }
}

fn pointer_for(definition: &Definition, field: &str) -> Option<String> {
    let resource = &definition.resource;
    let pointer = || format!("/{}", field.replace('.', "/"));
    if field == "metadata.name" || (field == "metadata.namespace" && resource.namespaced) {
        return Some(pointer());
    }
    if let Some(custom) = &definition.custom {
        return custom.selectable_fields.iter().any(|path| path.trim_start_matches('.') == field).then(pointer);
    }
    let known: &[&str] = match resource.plural.as_ref() {
        "pods" => &[
            "spec.nodeName",
            "spec.restartPolicy",
            "spec.schedulerName",
            "spec.serviceAccountName",
            "spec.hostNetwork",
            "status.phase",
            "status.podIP",
            "status.nominatedNodeName",
        ],
        "events" => &[
            "involvedObject.kind",
            "involvedObject.namespace",
            "involvedObject.name",
            "involvedObject.uid",
            "involvedObject.apiVersion",
            "involvedObject.resourceVersion",
            "involvedObject.fieldPath",
            "reason",
            "type",
        ],
        "nodes" => &["spec.unschedulable"],
        "namespaces" => &["status.phase"],
        "secrets" => &["type"],
        "services" => &["spec.clusterIP", "spec.type"],
        "replicasets" | "replicationcontrollers" => &["status.replicas"],
        "jobs" => &["status.successful"],
        _ => &[],
    };
    if resource.plural == "events" {
        match field {
            "reportingComponent" | "reportingController" => return Some("/reportingComponent".into()),
            "source" => return Some("/source/component".into()),
            _ => {}
        }
        if let Some(rest) = field.strip_prefix("regarding.") {
            let field = format!("involvedObject.{rest}");
            return known.contains(&field.as_str()).then(|| format!("/{}", field.replace('.', "/")));
        }
    }
    known.contains(&field).then(pointer)
}
