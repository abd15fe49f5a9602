//! Defaulting and pruning.

use super::compile::Node;
use serde_json::Value;

/// Adds defaults, including nested ones within an added default. A `null` where none is allowed counts as absent if there is a
/// default for it.
pub(super) fn apply(node: &Node, value: &mut Value) {
    match value {
        Value::Object(fields) => {
            for (name, child) in &node.properties {
                let Some(default) = &child.default else { continue };
                let absent = fields.get(name).is_none_or(|present| present.is_null() && !child.nullable);
                if absent {
                    fields.insert(name.clone(), default.clone());
                }
            }
            for (name, field) in fields.iter_mut() {
                if let Some(child) = node.field(name) {
                    apply(child, field);
                }
            }
        }
        Value::Array(items) => {
            if let Some(child) = &node.items {
                items.iter_mut().for_each(|item| apply(child, item));
            }
        }
        _ => {}
    }
}

/// Removes fields that are not in the schema, unless it preserves unknown fields.
pub(super) fn prune(node: &Node, value: &mut Value) {
    match value {
        Value::Object(fields) => {
            if !node.preserve_unknown {
                fields.retain(|name, _| node.field(name).is_some());
            }
            for (name, field) in fields.iter_mut() {
                if let Some(child) = node.field(name) {
                    prune(child, field);
                }
            }
        }
        Value::Array(items) => {
            if let Some(child) = &node.items {
                items.iter_mut().for_each(|item| prune(child, item));
            }
        }
        _ => {}
    }
}
