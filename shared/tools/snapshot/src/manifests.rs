//! The objects of manifests, to be compared with those of others.

use crate::decode::without_nulls;
use serde_json::Value;
use std::fmt;

/// The fields of the metadata that an API server sets.
const SET_BY_SERVER: [&str; 6] =
    ["creationTimestamp", "generation", "managedFields", "resourceVersion", "selfLink", "uid"];

/// The kind and name of an object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Identity {
    /// The kind.
    pub kind: &'static str,
    /// The namespace; empty for cluster-scoped objects.
    pub namespace: String,
    /// The name; its prefix if the API server generates it.
    pub name: String,
}

/// The content of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Manifest {
    /// JSON without the status and the fields that an API server sets. As text, which needs a fraction of the memory of a tree.
    json: String,
    /// Whether it has a name, and not only the prefix of one.
    pub(crate) is_named: bool,
    /// The number of pods that a workload gets; `None` for another kind.
    pub pods: Option<usize>,
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&described(self.kind, &self.namespace, &self.name))
    }
}

impl Manifest {
    pub(crate) fn new(object: Value) -> Self {
        let mut object = without_nulls(object);
        if let Some(fields) = object.as_object_mut() {
            fields.remove("status");
        }
        if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.retain(|field, _| !SET_BY_SERVER.contains(&field.as_str()));
        }
        let is_named = object.pointer("/metadata/name").and_then(Value::as_str).is_some_and(|name| !name.is_empty());
        Self { json: object.to_string(), is_named, pods: None }
    }

    /// The object without the status and the fields that an API server sets.
    #[must_use]
    pub fn object(&self) -> Value {
        serde_json::from_str(&self.json).unwrap_or_default()
    }

    /// The fields that differ, such as `spec.template.spec.containers[0].image`: not what is in them. A field that only one of them has is
    /// not followed further.
    #[must_use]
    pub fn differences(&self, other: &Self) -> Vec<String> {
        let mut found = Vec::new();
        if self.json != other.json {
            differences(&self.object(), &other.object(), "", &mut found);
        }
        found
    }
}

fn differences(one: &Value, other: &Value, path: &str, found: &mut Vec<String>) {
    match (one, other) {
        (Value::Object(ones), Value::Object(others)) => {
            let mut fields: Vec<&String> = ones.keys().chain(others.keys()).collect();
            fields.sort_unstable();
            fields.dedup();
            for field in fields {
                let path = if path.is_empty() { field.clone() } else { format!("{path}.{field}") };
                match (ones.get(field), others.get(field)) {
                    (Some(one), Some(other)) => differences(one, other, &path, found),
                    _ => found.push(path),
                }
            }
        }
        (Value::Array(ones), Value::Array(others)) if ones.len() == others.len() => {
            for (index, (one, other)) in ones.iter().zip(others).enumerate() {
                differences(one, other, &format!("{path}[{index}]"), found);
            }
        }
        _ if one == other => {}
        _ => found.push(path.to_owned()),
    }
}

/// `Deployment default/web`.
pub(crate) fn described(kind: &str, namespace: &str, name: &str) -> String {
    match (namespace, name) {
        (_, "") => format!("{kind} without a name"),
        ("", name) => format!("{kind} {name}"),
        (namespace, name) => format!("{kind} {namespace}/{name}"),
    }
}
