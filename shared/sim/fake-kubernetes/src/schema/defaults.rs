//! Defaulting and pruning.

use super::compile::Node;
use crate::size::encoded_size;
use serde_json::Value;

/// Adds defaults, including nested ones within an added default. A `null` where none is allowed counts as absent if there is a
/// default for it. After the one that exceeds the bytes that remain no default is added: the object is too
/// large to be stored.
pub(super) fn apply(node: &Node, value: &mut Value, remaining: &mut usize) {
    match value {
        Value::Object(fields) => {
            for (name, child) in &node.properties {
                let Some(default) = &child.default else { continue };
                let absent = fields.get(name).is_none_or(|present| present.is_null() && !child.nullable);
                if absent && *remaining > 0 {
                    *remaining = remaining.saturating_sub(encoded_size(default));
                    fields.insert(name.clone(), default.clone());
                }
            }
            for (name, field) in fields.iter_mut() {
                if let Some(child) = node.field(name) {
                    apply(child, field, remaining);
                }
            }
        }
        Value::Array(items) => {
            if let Some(child) = &node.items {
                items.iter_mut().for_each(|item| apply(child, item, remaining));
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
