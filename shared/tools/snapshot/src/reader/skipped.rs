//! Objects of kinds that planning does not know.

use super::{DEFAULT_NAMESPACE, Reader};
use crate::decode::tree;
use crate::documents::Body;
use crate::kinds::identity;
use crate::manifests::described;
use nodeless_model::quotes::shortened;
use serde_json::Value;

impl Reader {
    /// Counts an object, and notes it if pods would be created from it. Those of an object of a cluster, which has a uid, are in the export.
    pub(super) fn skip(&mut self, kind: &str, has_uid: bool, body: &Body<'_>) {
        *self.skipped.entry(shortened(kind).into_owned()).or_default() += 1;
        let may_have_template = match body {
            Body::Raw(raw) => raw.get().contains("\"containers\""),
            Body::Tree(_) => true,
        };
        if !has_uid && may_have_template && has_pod_template(&tree(body)) {
            let (namespace, name) = identity(body);
            let namespace = if namespace.is_empty() { DEFAULT_NAMESPACE } else { &namespace };
            self.not_planned.insert(described(&shortened(kind), &shortened(namespace), &shortened(&name)));
        }
    }
}

/// Whether a value contains a template with containers.
fn has_pod_template(value: &Value) -> bool {
    match value {
        Value::Object(fields) => fields.iter().any(|(name, value)| {
            let containers = value.pointer("/spec/containers").and_then(Value::as_array);
            let is_template = name.to_ascii_lowercase().ends_with("template");
            (is_template && containers.is_some_and(|containers| !containers.is_empty())) || has_pod_template(value)
        }),
        Value::Array(items) => items.iter().any(has_pod_template),
        _ => false,
    }
}
