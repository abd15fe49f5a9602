//! The fields of an object that its kind does not have, and which ones were probably meant.

mod text;

use crate::messages::{JsonField, JsonMessage, json_message, message_name};
use crate::schema::{Schema, SchemaNode};
use nodeless_model::spelling::nearest;
use serde_json::Value;
use serde_json::value::RawValue;
use std::collections::{BTreeSet, VecDeque};

/// The message of the metadata of every kind.
const METADATA: &str = "apis.meta.v1.ObjectMeta";
/// The fields that every object with metadata has besides those of its schema.
const TYPE: [&str; 2] = ["apiVersion", "kind"];
/// What no manifest sets.
const NOT_MEANT: [&str; 2] = ["status", "metadata"];

/// A field that the kind of its object does not have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownField {
    /// The path, such as `spec.template.spec.containers[0].resources.request`.
    pub path: String,
    /// The field that was probably meant: its name if it is one of the same object, or else its path.
    pub meant: Option<String>,
}

impl UnknownField {
    /// Whether the field may be one of a later version: its name resembles no known one, and is written as those of fields.
    #[must_use]
    pub fn may_be_newer(&self) -> bool {
        let name = self.path.rsplit('.').next().unwrap_or_default();
        self.meant.is_none()
            && name.starts_with(|letter: char| letter.is_ascii_lowercase())
            && name.chars().all(|letter| letter.is_ascii_alphanumeric())
    }
}

/// Whether a version is one of a group of Kubernetes itself.
#[must_use]
pub fn is_of_kubernetes(api_version: &str) -> bool {
    let group = api_version.split_once('/').map_or("", |(group, _)| group);
    // The group of the VerticalPodAutoscaler, which is installed by itself.
    group != "autoscaling.k8s.io" && (!group.contains('.') || group.ends_with(".k8s.io"))
}

/// The unknown fields of an object of a built-in kind; `None` if the fields of this kind and version are not known.
#[must_use]
pub fn built_in(api_version: &str, kind: &str, object: &Value) -> Option<Vec<UnknownField>> {
    Some(found(Shape::of_kind(api_version, kind)?, object))
}

/// Whether the text of an object of a built-in kind has only known fields. May be false although it has.
#[must_use]
pub fn has_only_built_in(api_version: &str, kind: &str, object: &RawValue) -> bool {
    Shape::of_kind(api_version, kind).is_some_and(|shape| text::has_only_known(shape, object))
}

/// Removes the unknown fields of an object of a built-in kind.
pub(crate) fn prune(api_version: &str, kind: &str, object: &mut Value) {
    if let Some(message) = json_message(&message_name(api_version, kind)) {
        retain_known(Shape::Message(message), object);
    }
}

fn retain_known(shape: Shape<'_>, value: &mut Value) {
    match value {
        Value::Object(fields) if !matches!(shape, Shape::Open) => fields.retain(|name, value| {
            let of_field = shape.field(name);
            of_field.into_iter().for_each(|shape| retain_known(shape, value));
            of_field.is_some()
        }),
        Value::Array(items) => items.iter_mut().for_each(|item| retain_known(shape.element(), item)),
        _ => {}
    }
}

/// The unknown fields of an object of a custom resource.
#[must_use]
pub fn custom(schema: &Schema, object: &Value) -> Vec<UnknownField> {
    found(Shape::Root(schema.root()), object)
}

/// Whether the text of an object of a custom resource has only known fields. May be false although it has.
#[must_use]
pub fn has_only_custom(schema: &Schema, object: &RawValue) -> bool {
    text::has_only_known(Shape::Root(schema.root()), object)
}

/// What is known about a value.
#[derive(Clone, Copy)]
enum Shape<'s> {
    /// An object of a built-in kind, or a part of it.
    Message(&'static JsonMessage),
    /// A list of them.
    Messages(&'static JsonMessage),
    /// An object of a custom resource.
    Root(&'s SchemaNode),
    /// A part of it.
    Node(&'s SchemaNode),
    /// Anything.
    Open,
}

fn of_field(field: &JsonField) -> Shape<'static> {
    match field.message() {
        None => Shape::Open,
        Some(message) if field.is_list => Shape::Messages(message),
        Some(message) => Shape::Message(message),
    }
}

impl<'s> Shape<'s> {
    /// An object of a built-in kind; `None` if the fields of this kind and version are not known.
    fn of_kind(api_version: &str, kind: &str) -> Option<Self> {
        let is_known = is_of_kubernetes(api_version);
        is_known.then(|| json_message(&message_name(api_version, kind))).flatten().map(Self::Message)
    }

    /// The known fields of an object of this shape, each with its own shape.
    fn fields(self) -> Vec<(&'s str, Self)> {
        match self {
            Self::Message(message) => message.fields.iter().map(|field| (field.name, of_field(field))).collect(),
            Self::Root(node) | Self::Node(node) => {
                let known = node.properties.iter();
                known.map(|(name, child)| (name.as_str(), Self::Node(child))).collect()
            }
            Self::Messages(_) | Self::Open => Vec::new(),
        }
    }

    /// The shape of a field, if an object of this shape may have it.
    fn field(self, name: &str) -> Option<Self> {
        match self {
            // A directive of a strategic merge patch.
            _ if name.starts_with('$') => Some(Self::Open),
            Self::Message(message) => {
                if message.has_metadata && TYPE.contains(&name) {
                    return Some(Self::Open);
                }
                let place = message.fields.binary_search_by_key(&name, |field| field.name).ok()?;
                message.fields.get(place).map(of_field)
            }
            Self::Root(_) if name == "metadata" => json_message(METADATA).map(Self::Message),
            Self::Root(node) | Self::Node(node) => match node.field(name) {
                Some(child) => Some(Self::Node(child)),
                None => node.preserve_unknown.then_some(Self::Open),
            },
            Self::Messages(_) | Self::Open => Some(Self::Open),
        }
    }

    /// The shape of the elements of a list.
    fn element(self) -> Self {
        match self {
            Self::Messages(message) => Self::Message(message),
            Self::Node(node) => node.items.as_deref().map_or(Self::Open, Self::Node),
            _ => Self::Open,
        }
    }
}

fn found(root: Shape<'_>, object: &Value) -> Vec<UnknownField> {
    let mut found = Vec::new();
    for (name, value) in object.as_object().into_iter().flatten() {
        if !TYPE.contains(&name.as_str()) {
            field(root, root, name, value, &mut found, "");
        }
    }
    found
}

fn field(root: Shape<'_>, of: Shape<'_>, name: &str, value: &Value, found: &mut Vec<UnknownField>, path: &str) {
    let path = if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
    match of.field(name) {
        Some(shape) => walk(root, shape, value, &path, found),
        None => found.push(UnknownField { path, meant: meant(root, of, name) }),
    }
}

fn walk(root: Shape<'_>, shape: Shape<'_>, value: &Value, path: &str, found: &mut Vec<UnknownField>) {
    match value {
        _ if matches!(shape, Shape::Open) => {}
        // An object in place of a list is an error of its own.
        Value::Object(_) if matches!(shape, Shape::Node(node) if node.items.is_some()) => {}
        Value::Object(fields) => fields.iter().for_each(|(name, value)| field(root, shape, name, value, found, path)),
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                walk(root, shape.element(), item, &format!("{path}[{index}]"), found);
            }
        }
        _ => {}
    }
}

/// The field that was probably meant: a similar one of the same object, or the one of the kind that has this name.
fn meant(root: Shape<'_>, of: Shape<'_>, name: &str) -> Option<String> {
    let known = of.fields();
    if let Some((known, _)) = nearest(name, &known, |(known, _)| *known) {
        return Some((*known).to_owned());
    }
    // What containers request is one level deeper.
    let is_resource = name.contains('/') || ["cpu", "memory", "ephemeral-storage"].contains(&name);
    if is_resource && known.iter().any(|(known, _)| *known == "requests") {
        return Some(format!("requests.{name}"));
    }
    elsewhere(root, name)
}

/// The path of the field with this name that is the least deep.
fn elsewhere(root: Shape<'_>, name: &str) -> Option<String> {
    let mut seen = BTreeSet::new();
    let mut waiting = VecDeque::from([(root, String::new())]);
    while let Some((shape, path)) = waiting.pop_front() {
        let (shape, path) = match shape.element() {
            Shape::Open => (shape, path),
            element => (element, format!("{path}[]")),
        };
        if let Shape::Message(message) = shape
            && !seen.insert(message.name)
        {
            continue;
        }
        for (known, child) in shape.fields() {
            if path.is_empty() && NOT_MEANT.contains(&known) {
                continue;
            }
            let path = if path.is_empty() { known.to_owned() } else { format!("{path}.{known}") };
            if known == name {
                return Some(path);
            }
            waiting.push_back((child, path));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn lines(api_version: &str, kind: &str, object: &Value) -> Vec<String> {
        let found = built_in(api_version, kind, object).unwrap();
        let line = |one: &UnknownField| format!("{}: {}", one.path, one.meant.as_deref().unwrap_or("-"));
        found.iter().map(line).collect()
    }

    #[test]
    fn unknown_fields_are_named_with_what_was_meant() {
        let container = json!({
            "name": "c", "imagee": "x", "env": [{ "name": "A", "value": "b" }],
            "resources": { "request": { "cpu": 1 }, "cpu": 1, "limits": { "example.com/gpu": 1 } },
        });
        let template =
            json!({ "metadata": { "lables": {} }, "spec": { "containers": [container], "nodeselector": {} } });
        let object = json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": "d", "labels": { "any": "x" }, "annotation": {} },
            "spec": { "replica": 5, "tolerations": [], "unheardOf": 1, "un-field": 1, "template": template },
        });
        let found = lines("apps/v1", "Deployment", &object);
        assert_eq!(
            found,
            [
                "metadata.annotation: annotations",
                "spec.replica: replicas",
                "spec.template.metadata.lables: labels",
                "spec.template.spec.containers[0].imagee: image",
                "spec.template.spec.containers[0].resources.cpu: requests.cpu",
                "spec.template.spec.containers[0].resources.request: requests",
                "spec.template.spec.nodeselector: nodeSelector",
                "spec.tolerations: spec.template.spec.tolerations",
                "spec.un-field: -",
                "spec.unheardOf: -",
            ]
        );
        let newer = built_in("apps/v1", "Deployment", &object).unwrap();
        let newer: Vec<&str> = newer.iter().filter(|one| one.may_be_newer()).map(|one| one.path.as_str()).collect();
        assert_eq!(newer, ["spec.unheardOf"]);
    }

    #[test]
    fn every_form_of_a_field_is_known() {
        let volumes =
            json!([{ "name": "v", "emptyDir": {} }, { "name": "c", "persistentVolumeClaim": { "claimName": "c" } }]);
        let probe = json!({ "httpGet": { "path": "/", "port": "http" }, "periodSeconds": 1 });
        let containers = json!([{
            "name": "c", "livenessProbe": probe, "ports": [{ "containerPort": 1 }], "resources": { "requests": { "x.com/y": 1 } },
            "env": [{ "name": "A", "valueFrom": { "configMapKeyRef": { "name": "a", "key": "b" } } }],
        }]);
        let spec = json!({ "containers": containers, "volumes": volumes, "schedulingGroup": { "podGroupName": "g" } });
        let pod = json!({ "metadata": { "name": "p" }, "spec": spec });
        assert_eq!(lines("v1", "Pod", &pod), [""; 0]);
        let claim = json!({ "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": { "name": "d" } });
        let set = json!({ "apiVersion": "apps/v1", "kind": "StatefulSet", "spec": { "volumeClaimTemplates": [claim], "kind": 1 } });
        assert_eq!(lines("apps/v1", "StatefulSet", &set)[0].split(':').next(), Some("spec.kind"));
        let raw = |object: &Value| serde_json::value::to_raw_value(object).unwrap();
        assert!(has_only_built_in("v1", "Pod", &raw(&pod)));
        assert!(!has_only_built_in("apps/v1", "StatefulSet", &raw(&set)));
        let mut pruned = set.clone();
        prune("apps/v1", "StatefulSet", &mut pruned);
        let mut expected = set;
        expected["spec"].as_object_mut().unwrap().remove("kind");
        assert_eq!(pruned, expected);
        let scaler =
            json!({ "spec": { "metrics": [{ "type": "Resource", "resource": { "name": "cpu" } }], "minReplica": 2 } });
        assert_eq!(lines("autoscaling/v2", "HorizontalPodAutoscaler", &scaler), ["spec.minReplica: minReplicas"]);
        assert_eq!(built_in("apps/v9", "Deployment", &json!({})), None);
        assert!(!is_of_kubernetes("autoscaling.k8s.io/v1") && is_of_kubernetes("autoscaling/v2"));
        for other in ["example.com/v1", "apps.kruise.io/v1", "apps.x-k8s.io/v1"] {
            assert_eq!(built_in(other, "StatefulSet", &json!({})), None, "{other}");
        }
    }
}
