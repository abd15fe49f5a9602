//! Merge patches that contain only the differences, so that an unchanged object is not written.

use serde_json::{Map, Value};

/// The JSON merge patch that changes `current` to `desired`; `None` when they are equal.
#[must_use]
pub fn difference(current: &Value, desired: &Value) -> Option<Value> {
    match (current, desired) {
        (Value::Object(current), Value::Object(desired)) => {
            let mut patch = Map::new();
            for (key, value) in desired {
                let change = match current.get(key) {
                    Some(present) => difference(present, value),
                    None => Some(value.clone()),
                };
                if let Some(change) = change {
                    patch.insert(key.clone(), change);
                }
            }
            for key in current.keys().filter(|key| !desired.contains_key(*key)) {
                patch.insert(key.clone(), Value::Null);
            }
            (!patch.is_empty()).then_some(Value::Object(patch))
        }
        (current, desired) if current == desired => None,
        (_, desired) => Some(desired.clone()),
    }
}

/// The strings in the list at a JSON pointer, such as `/metadata/finalizers`.
#[must_use]
pub fn strings(object: &Value, pointer: &str) -> Vec<String> {
    let list = object.pointer(pointer).and_then(Value::as_array);
    list.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}

/// The string at a JSON pointer.
#[must_use]
pub fn string<'a>(object: &'a Value, pointer: &str) -> Option<&'a str> {
    object.pointer(pointer).and_then(Value::as_str)
}

/// Whether the object is being deleted.
#[must_use]
pub fn is_deleting(object: &Value) -> bool {
    string(object, "/metadata/deletionTimestamp").is_some()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn reports_only_differences() {
        let current =
            json!({ "nodes": 2, "resources": { "cpu": "4", "gpu": "1" }, "conditions": [{ "type": "Ready" }] });
        assert_eq!(difference(&current, &current), None);
        let desired = json!({ "nodes": 3, "resources": { "cpu": "4" }, "conditions": [] });
        assert_eq!(
            difference(&current, &desired),
            Some(json!({ "nodes": 3, "resources": { "gpu": null }, "conditions": [] }))
        );
        assert_eq!(difference(&Value::Null, &desired), Some(desired));
    }
}
