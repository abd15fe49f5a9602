//! Reading the objects of the simulated cluster.

use crate::local::LocalWorld;
use nodeless_fake_kubernetes::ListOptions;
use nodeless_fake_kubernetes::resource::{NODES, PODS, Resource};
use serde_json::Value;
use std::sync::Arc;

impl LocalWorld {
    /// All objects of a kind; none if its definition is not installed.
    pub(crate) fn objects(&self, resource: &Resource) -> Vec<Arc<Value>> {
        self.api.list(resource, &ListOptions::default()).map(|list| list.items).unwrap_or_default()
    }

    /// All pods.
    pub(crate) fn pods(&self) -> Vec<Arc<Value>> {
        self.objects(&PODS)
    }

    /// All nodes.
    pub(crate) fn nodes(&self) -> Vec<Arc<Value>> {
        self.objects(&NODES)
    }
}

/// A string in an object; empty if it is missing.
pub(crate) fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// An object's name.
pub(crate) fn name(object: &Value) -> &str {
    text(object, "/metadata/name")
}

/// The length of a list in an object.
pub(crate) fn length(object: &Value, pointer: &str) -> usize {
    object.pointer(pointer).and_then(Value::as_array).map_or(0, Vec::len)
}

/// The status condition of this type.
pub(crate) fn condition<'a>(object: &'a Value, kind: &str) -> Option<&'a Value> {
    object.pointer("/status/conditions")?.as_array()?.iter().find(|condition| condition["type"] == kind)
}

/// Whether the status condition of this type is true.
pub(crate) fn is_true(object: &Value, kind: &str) -> bool {
    condition(object, kind).is_some_and(|condition| condition["status"] == "True")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn conditions_are_found_by_type() {
        let node = json!({"status": {"conditions": [
            {"type": "MemoryPressure", "status": "False"}, {"type": "Ready", "status": "True"}]}});
        assert!(is_true(&node, "Ready") && !is_true(&node, "MemoryPressure") && !is_true(&node, "DiskPressure"));
        assert!(!is_true(&json!({}), "Ready"));
    }
}
