//! Validation of types, limits and patterns.

use super::compile::{Kind, ListKind, Node};
use super::{FieldError, join};
use serde_json::{Map, Value};
use std::collections::{HashMap, HashSet};

/// Checks a value against a schema, and adds the errors.
///
/// A value that is equal to the one that it replaces is not checked: an object that was stored under an earlier definition can still be
/// changed elsewhere, as in the API server (ratcheting).
pub(super) fn validate(node: &Node, value: &Value, old: Option<&Value>, path: &str, errors: &mut Vec<FieldError>) {
    if old == Some(value) || (value.is_null() && node.nullable) {
        return;
    }
    if let Err(message) = check_type(node, value) {
        errors.push(FieldError { path: path.to_owned(), message });
        return;
    }
    let mut fail = |message: String| errors.push(FieldError { path: path.to_owned(), message });
    if let Some(allowed) = &node.enumeration
        && !allowed.contains(value)
    {
        let allowed: Vec<String> = allowed.iter().map(Value::to_string).collect();
        fail(format!("Unsupported value: {value}: supported values: {}", allowed.join(", ")));
    }
    match value {
        Value::String(text) => check_string(node, text, &mut fail),
        Value::Number(number) => check_number(node, number.as_f64().unwrap_or(f64::NAN), &mut fail),
        Value::Array(items) => {
            check_list(node, items, &mut fail);
            if let Some(child) = &node.items {
                let counterparts = Counterparts::new(node, old);
                for (index, item) in items.iter().enumerate() {
                    let before = counterparts.get(item);
                    validate(child, item, before, &format!("{path}[{index}]"), errors);
                }
            }
        }
        Value::Object(fields) => {
            check_object(node, fields, path, errors);
            for (name, field) in fields {
                if let Some(child) = node.field(name) {
                    validate(child, field, old.and_then(|old| old.get(name)), &join(path, name), errors);
                }
            }
        }
        Value::Null | Value::Bool(_) => {}
    }
}

/// The items of an old list by their keys, which the items of the new list with the same keys replace. Items of a list without keys
/// replace none.
#[derive(Default)]
struct Counterparts<'a> {
    keys: &'a [String],
    items: HashMap<Vec<Option<&'a Value>>, &'a Value>,
}

impl<'a> Counterparts<'a> {
    fn new(node: &'a Node, old: Option<&'a Value>) -> Self {
        let (Some(ListKind::Map(keys)), Some(old)) = (&node.list, old.and_then(Value::as_array)) else {
            return Self::default();
        };
        let items = old.iter().rev().map(|item| (keys.iter().map(|key| item.get(key)).collect(), item));
        Self { keys, items: items.collect() }
    }

    fn get(&self, item: &'a Value) -> Option<&'a Value> {
        self.items.get(&self.keys.iter().map(|key| item.get(key)).collect::<Vec<_>>()).copied()
    }
}

fn check_type(node: &Node, value: &Value) -> Result<(), String> {
    let is_integer =
        |value: &Value| value.is_i64() || value.is_u64() || value.as_f64().is_some_and(|n| n.fract() == 0.0);
    if node.int_or_string {
        let fits = value.is_string() || is_integer(value);
        return if fits { Ok(()) } else { Err(format!("Invalid value: {value}: must be an integer or a string")) };
    }
    let (fits, name) = match node.kind {
        None => return Ok(()),
        Some(Kind::Object) => (value.is_object(), "object"),
        Some(Kind::Array) => (value.is_array(), "array"),
        Some(Kind::String) => (value.is_string(), "string"),
        Some(Kind::Integer) => (value.is_number() && is_integer(value), "integer"),
        Some(Kind::Number) => (value.is_number(), "number"),
        Some(Kind::Boolean) => (value.is_boolean(), "boolean"),
    };
    if fits { Ok(()) } else { Err(format!("Invalid value: {value}: must be of type {name}")) }
}

fn check_string(node: &Node, text: &str, fail: &mut impl FnMut(String)) {
    let length = text.chars().count() as u64;
    if let Some(most) = node.max_length.filter(|most| length > *most) {
        fail(format!("Too long: may not be more than {most} characters"));
    }
    if let Some(least) = node.min_length.filter(|least| length < *least) {
        fail(format!("Invalid value: {text:?}: should be at least {least} chars long"));
    }
    if let Some(pattern) = node.pattern.as_ref().filter(|pattern| !pattern.is_match(text)) {
        fail(format!("Invalid value: {text:?}: should match '{pattern}'"));
    }
    if node.format.as_deref() == Some("date-time") && text.parse::<jiff::Timestamp>().is_err() {
        fail(format!("Invalid value: {text:?}: must be of type date-time, such as 2026-01-31T12:00:00Z"));
    }
}

fn check_number(node: &Node, number: f64, fail: &mut impl FnMut(String)) {
    if let Some(least) = node.minimum.filter(|least| number < *least) {
        fail(format!("Invalid value: {number}: should be greater than or equal to {least}"));
    }
    if let Some(most) = node.maximum.filter(|most| number > *most) {
        fail(format!("Invalid value: {number}: should be less than or equal to {most}"));
    }
    let out_of_range =
        node.format.as_deref() == Some("int32") && (number < f64::from(i32::MIN) || number > f64::from(i32::MAX));
    if out_of_range {
        fail(format!("Invalid value: {number}: must be a 32-bit integer"));
    }
}

fn check_list(node: &Node, items: &[Value], fail: &mut impl FnMut(String)) {
    let count = items.len() as u64;
    if let Some(most) = node.max_items.filter(|most| count > *most) {
        fail(format!("Too many: {count}: must have at most {most} items"));
    }
    if let Some(least) = node.min_items.filter(|least| count < *least) {
        fail(format!("Invalid value: should have at least {least} items"));
    }
    let key = |item: &Value| match &node.list {
        None | Some(ListKind::Atomic) => None,
        Some(ListKind::Set) => Some(item.clone()),
        Some(ListKind::Map(keys)) => Some(keys.iter().map(|key| item.get(key).cloned().unwrap_or_default()).collect()),
    };
    let keys: Vec<Value> = items.iter().filter_map(key).collect();
    let mut known = HashSet::with_capacity(keys.len());
    for (index, duplicate) in keys.iter().enumerate().filter(|(_, key)| !known.insert(*key)) {
        fail(format!("Duplicate value: item {index} is the second with {duplicate}"));
    }
}

fn check_object(node: &Node, fields: &Map<String, Value>, path: &str, errors: &mut Vec<FieldError>) {
    let count = fields.len() as u64;
    if let Some(most) = node.max_properties.filter(|most| count > *most) {
        errors.push(FieldError {
            path: path.to_owned(),
            message: format!("Too many: {count}: must have at most {most} properties"),
        });
    }
    if let Some(least) = node.min_properties.filter(|least| count < *least) {
        errors.push(FieldError {
            path: path.to_owned(),
            message: format!("Invalid value: should have at least {least} properties"),
        });
    }
    for name in node.required.iter().filter(|name| !fields.contains_key(*name)) {
        errors.push(FieldError { path: join(path, name), message: "Required value".to_owned() });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn schema() -> Node {
        let taint = json!({ "type": "object", "required": ["effect"], "properties": {
            "key": { "type": "string" }, "effect": { "type": "string", "enum": ["NoSchedule"] },
        } });
        let keyed = json!({
            "type": "array", "items": taint, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["key"],
        });
        let spec = json!({ "type": "object", "properties": {
            "weight": { "type": "integer", "maximum": 100 },
            "limits": { "type": "object", "additionalProperties": { "type": "string" } },
            "taints": keyed,
            "values": { "type": "array", "items": { "type": "string", "maxLength": 3 } },
        } });
        let schema = json!({ "type": "object", "properties": { "spec": spec, "status": { "type": "object" } } });
        Node::compile(&schema, "").unwrap()
    }

    fn errors(old: Option<&Value>, new: &Value) -> Vec<String> {
        let mut errors = Vec::new();
        validate(&schema(), new, old, "", &mut errors);
        let mut paths: Vec<String> = errors.into_iter().map(|error| error.path).collect();
        paths.sort();
        paths
    }

    #[test]
    fn only_changed_fields_of_a_stored_object_are_checked() {
        let old = json!({ "spec": { "weight": 1000, "limits": { "cpu": 5 } } });
        assert_eq!(errors(None, &old), ["spec.limits.cpu", "spec.weight"]);
        let mut new = old.clone();
        new["status"] = json!({ "nodes": 1 });
        assert!(errors(Some(&old), &new).is_empty(), "the spec is unchanged");
        new["spec"]["limits"]["memory"] = json!("1Gi");
        assert!(errors(Some(&old), &new).is_empty(), "a valid field is added");
        new["spec"]["limits"]["memory"] = json!(1);
        assert_eq!(errors(Some(&old), &new), ["spec.limits.memory"]);
        new["spec"] = json!({ "weight": 2000, "limits": { "cpu": 5 } });
        assert_eq!(errors(Some(&old), &new), ["spec.weight"]);
    }

    #[test]
    fn items_are_compared_by_their_keys_and_without_keys_as_a_whole_list() {
        let old = json!({ "spec": { "taints": [{ "key": "a" }], "values": ["long text"] } });
        let mut new = old.clone();
        new["spec"]["taints"] = json!([{ "key": "b", "effect": "NoSchedule" }, { "key": "a" }]);
        assert!(errors(Some(&old), &new).is_empty(), "the invalid taint has moved and is unchanged");
        new["spec"]["taints"] = json!([{ "key": "a", "effect": "Never" }, { "key": "c" }]);
        assert_eq!(errors(Some(&old), &new), ["spec.taints[0].effect", "spec.taints[1].effect"]);
        new["spec"]["taints"] = old["spec"]["taints"].clone();
        new["spec"]["values"] = json!(["long text", "b"]);
        assert_eq!(errors(Some(&old), &new), ["spec.values[0]"]);
    }
}
