//! How lists and maps are merged: the keys of lists, for strategic merge and for server-side apply.

use std::collections::HashMap;

use serde_json::Value;

use crate::server::definition::Definition;

/// The merge strategy of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ListType {
    /// Replaced as a whole.
    Atomic,
    /// A set of values.
    Set,
    /// Objects identified by these fields.
    Map(Vec<String>),
}

fn keyed(keys: &[&str]) -> ListType {
    ListType::Map(keys.iter().map(|key| (*key).to_owned()).collect())
}

/// The list type at a path of field names (list elements are not part of the path), for server-side apply.
pub(crate) fn list_type(definition: &Definition, path: &[String]) -> ListType {
    if path.first().is_some_and(|first| first == "metadata") {
        return metadata_list(path);
    }
    if let Some(custom) = &definition.custom {
        return custom_list(schema_at(&custom.schema, path));
    }
    let kind = definition.resource.kind.as_ref();
    let Some(last) = path.last() else { return ListType::Atomic };
    match last.as_str() {
        "containers"
        | "initContainers"
        | "ephemeralContainers"
        | "env"
        | "volumes"
        | "resourceClaims"
        | "schedulingGates"
        | "podGroupTemplates"
        | "imagePullSecrets"
        | "webhooks"
        | "matchConditions" => keyed(&["name"]),
        "secrets" if kind == "ServiceAccount" => keyed(&["name"]),
        "drivers" if kind == "CSINode" => keyed(&["name"]),
        "volumeMounts" => keyed(&["mountPath"]),
        "volumeDevices" => keyed(&["devicePath"]),
        "reservedFor" if kind == "ResourceClaim" => keyed(&["uid"]),
        "hostAliases" | "podIPs" | "hostIPs" => keyed(&["ip"]),
        "ports" if kind == "Service" => keyed(&["port", "protocol"]),
        "ports" if !matches!(kind, "Endpoints" | "EndpointSlice") => keyed(&["containerPort", "protocol"]),
        "conditions" => keyed(&["type"]),
        "addresses" if kind == "Node" => keyed(&["type"]),
        "topologySpreadConstraints" => keyed(&["topologyKey", "whenUnsatisfiable"]),
        "podCIDRs" | "finalizers" => ListType::Set,
        _ => ListType::Atomic,
    }
}

/// The merge key of a strategic merge, where it differs from that of server-side apply for historical reasons.
pub(crate) fn strategic_list_type(definition: &Definition, path: &[String]) -> ListType {
    match list_type(definition, path) {
        ListType::Map(keys) if keys.len() > 1 => ListType::Map(keys[..1].to_vec()),
        other => other,
    }
}

/// Whether a map is owned and replaced as a whole by server-side apply.
pub(crate) fn is_atomic_map(definition: &Definition, path: &[String]) -> bool {
    if path.first().is_some_and(|first| first == "metadata") {
        return false;
    }
    if let Some(custom) = &definition.custom {
        return schema_at(&custom.schema, path).is_some_and(|schema| schema["x-kubernetes-map-type"] == "atomic");
    }
    let last = path.last().map(String::as_str).unwrap_or_default();
    matches!(
        last,
        "nodeSelector"
            | "selector"
            | "labelSelector"
            | "namespaceSelector"
            | "objectSelector"
            | "claimRef"
            | "involvedObject"
            | "related"
            | "secretRef"
            | "configMapKeyRef"
            | "secretKeyRef"
            | "fieldRef"
            | "resourceFieldRef"
            | "roleRef"
            | "nodeSelectorTerms"
            | "openAPIV3Schema"
    )
}

/// The default values of a missing merge key.
pub(crate) fn key_default(key: &str) -> Option<Value> {
    (key == "protocol").then(|| Value::String("TCP".into()))
}

fn metadata_list(path: &[String]) -> ListType {
    match path.get(1).map(String::as_str) {
        Some("ownerReferences") => keyed(&["uid"]),
        Some("finalizers") => ListType::Set,
        _ => ListType::Atomic,
    }
}

fn custom_list(schema: Option<&Value>) -> ListType {
    let Some(schema) = schema else { return ListType::Atomic };
    match schema["x-kubernetes-list-type"].as_str() {
        Some("set") => ListType::Set,
        Some("map") => {
            let keys = schema["x-kubernetes-list-map-keys"].as_array().into_iter().flatten();
            ListType::Map(keys.filter_map(Value::as_str).map(str::to_owned).collect())
        }
        _ => ListType::Atomic,
    }
}

fn schema_at<'a>(schema: &'a Value, path: &[String]) -> Option<&'a Value> {
    let mut current = schema;
    for field in path {
        while let Some(items) = current.get("items") {
            current = items;
        }
        current = match current.get("properties").and_then(|properties| properties.get(field)) {
            Some(property) => property,
            None => current.get("additionalProperties").filter(|value| value.is_object())?,
        };
    }
    Some(current)
}

/// The positions of the elements of a keyed list. A search of the list for each element of a patch would take minutes for a list of the
/// largest request.
pub(crate) struct Positions<'a> {
    keys: &'a [String],
    by_keys: HashMap<String, usize>,
}

impl<'a> Positions<'a> {
    /// The positions in a list; of elements with the same keys, that of the first one.
    pub(crate) fn new(list: &[Value], keys: &'a [String]) -> Self {
        let mut positions = Self { keys, by_keys: HashMap::with_capacity(list.len()) };
        for (index, element) in list.iter().enumerate() {
            positions.add(element, index);
        }
        positions
    }

    /// The position of the element that has the same keys as `expected`.
    pub(crate) fn get(&self, expected: &Value) -> Option<usize> {
        self.by_keys.get(&self.text(expected)).copied()
    }

    /// Adds an element.
    pub(crate) fn add(&mut self, element: &Value, index: usize) {
        self.by_keys.entry(self.text(element)).or_insert(index);
    }

    /// Removes the element that has the same keys as `expected`.
    pub(crate) fn remove(&mut self, expected: &Value) -> Option<usize> {
        self.by_keys.remove(&self.text(expected))
    }

    fn text(&self, element: &Value) -> String {
        self.keys.iter().map(|key| key_value(element, key).unwrap_or_default()).collect::<Value>().to_string()
    }
}

/// The value of a merge key in an element, with its default when missing.
pub(crate) fn key_value(element: &Value, key: &str) -> Option<Value> {
    element.get(key).cloned().or_else(|| key_default(key))
}
