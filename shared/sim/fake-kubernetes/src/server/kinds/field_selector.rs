//! Field selectors, in the syntax of `k8s.io/apimachinery/pkg/fields`.

use crate::server::definition::Definition;
use crate::server::path::Path as _;
use crate::server::status::Status;
use serde_json::Value;

/// A parsed field selector, checked against the selectable fields of the resource.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct FieldSelector {
    /// JSON pointer, value, whether they must be equal.
    requirements: Vec<(String, String, bool)>,
}

impl FieldSelector {
    pub(crate) fn parse(definition: &Definition, selector: &str) -> Result<Self, Status> {
        let mut requirements = Vec::new();
        for term in terms(selector).into_iter().filter(|term| !term.is_empty()) {
            let (field, equal, value) = split(term).ok_or_else(|| {
                Status::bad_request(format!("invalid selector: '{selector}'; can't understand '{term}'"))
            })?;
            let value = unescaped(value)?;
            let pointer = pointer_for(definition, field).ok_or_else(|| {
                Status::bad_request(match definition.resource.kind.as_ref() {
                    "Pod"
                    | "Node"
                    | "Namespace"
                    | "Secret"
                    | "Event"
                    | "ReplicationController"
                    | "CustomResourceDefinition" => {
                        format!("field label not supported: {field}")
                    }
                    _ => format!(
                        "{field:?} is not a known field selector: only \"metadata.name\", \"metadata.namespace\""
                    ),
                })
            })?;
            requirements.push((pointer, value, equal));
        }
        Ok(Self { requirements })
    }

    /// Whether the selector matches everything.
    pub(crate) fn is_empty(&self) -> bool {
        self.requirements.is_empty()
    }

    /// The value that a field must have, if the selector requires one; the field is a JSON pointer.
    pub(crate) fn required(&self, pointer: &str) -> Option<&str> {
        let found = self.requirements.iter().find(|(field, _, equal)| *equal && field == pointer);
        found.map(|(_, value, _)| value.as_str())
    }

    /// Whether an object's fields match.
    pub(crate) fn matches(&self, object: &Value) -> bool {
        self.requirements.iter().all(|(pointer, expected, equal)| {
            let is_expected = match object.at(pointer) {
                Some(Value::String(text)) => text == expected,
                Some(Value::Bool(flag)) => flag.to_string() == *expected,
                Some(Value::Number(number)) => number.to_string() == *expected,
                _ if pointer == "/spec/unschedulable" || pointer == "/spec/hostNetwork" => expected == "false",
                _ => expected.is_empty(),
            };
            is_expected == *equal
        })
    }
}

/// The terms between commas that are not escaped.
fn terms(selector: &str) -> Vec<&str> {
    let (mut terms, mut start, mut escaped) = (Vec::new(), 0, false);
    for (index, character) in selector.char_indices() {
        match character {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            ',' => {
                terms.push(&selector[start..index]);
                start = index + 1;
            }
            _ => {}
        }
    }
    terms.push(&selector[start..]);
    terms
}

/// The field of a term, whether it must be equal, and the value: at the first operator.
fn split(term: &str) -> Option<(&str, bool, &str)> {
    const OPERATORS: [(&str, bool); 3] = [("!=", false), ("==", true), ("=", true)];
    term.char_indices().find_map(|(index, _)| {
        let (field, rest) = term.split_at(index);
        OPERATORS.iter().find_map(|(operator, equal)| Some((field, *equal, rest.strip_prefix(operator)?)))
    })
}

/// A value without its escapes: `\`, `,` and `=` stand after a backslash.
fn unescaped(value: &str) -> Result<String, Status> {
    let invalid = |what: String| Status::bad_request(format!("invalid field selector: {what}"));
    let mut plain = String::new();
    let mut characters = value.chars();
    while let Some(character) = characters.next() {
        match character {
            '\\' => match characters.next() {
                Some(escaped @ ('\\' | ',' | '=')) => plain.push(escaped),
                other => {
                    let sequence: String = ['\\'].into_iter().chain(other).collect();
                    return Err(invalid(format!("invalid escape sequence: {sequence}")));
                }
            },
            // The number of the character, as the API server reports it.
            ',' | '=' => return Err(invalid(format!("unescaped character in value: {}", u32::from(character)))),
            other => plain.push(other),
        }
    }
    Ok(plain)
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
        "resourceslices" => &["spec.nodeName", "spec.driver"],
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_term_is_split_at_its_first_operator() {
        assert_eq!(split("a=b!=c"), Some(("a", true, "b!=c")));
        assert_eq!(split("a!=b==c"), Some(("a", false, "b==c")));
        assert_eq!(split("a===!"), Some(("a", true, "=!")));
        assert_eq!(split("a=="), Some(("a", true, "")));
        assert_eq!(split("a!"), None);
        assert_eq!(terms(r"a=b\,c,,d=\\,e"), [r"a=b\,c", "", r"d=\\", "e"]);
    }

    #[test]
    fn values_are_unescaped_as_the_api_server_does() {
        assert_eq!(unescaped(r"a\,b\=c\\").unwrap(), r"a,b=c\");
        for (value, message) in [
            ("=!", "invalid field selector: unescaped character in value: 61"),
            ("a,b", "invalid field selector: unescaped character in value: 44"),
            (r"\a", r"invalid field selector: invalid escape sequence: \a"),
            (r"a\", r"invalid field selector: invalid escape sequence: \"),
        ] {
            let refused = unescaped(value).unwrap_err();
            assert_eq!((refused.code, refused.message.as_str()), (400, message), "{value}");
        }
    }
}
