//! Applying and removing one object.

use super::{InstallError, Outcome, Step};
use crate::api;
use crate::connection::Connection;
use nodeless_cluster::merge::string;
use nodeless_cluster::{PatchKind, unless_gone};
use nodeless_ports::PortError;
use serde_json::{Value, json};

const OPERATION: &str = "Kubernetes install";
/// The label of the version that applied an object.
pub(super) const VERSION: &str = "/metadata/labels/app.kubernetes.io~1version";
/// The version that applies the objects: all crates have the same one.
const OWN: &str = env!("CARGO_PKG_VERSION");

/// The kind and name of an object, for messages.
pub(super) fn title(object: &Value) -> String {
    let part = |pointer| string(object, pointer).unwrap_or("?");
    format!("{} {}", part("/kind"), part("/metadata/name"))
}

/// The path of an object of a kind that is installed.
pub(super) fn path(object: &Value) -> Result<String, InstallError> {
    let (group, kind) =
        (string(object, "/apiVersion").unwrap_or_default(), string(object, "/kind").unwrap_or_default());
    let plural = match kind {
        "ClusterRole" => "clusterroles",
        "ClusterRoleBinding" => "clusterrolebindings",
        "ValidatingWebhookConfiguration" => "validatingwebhookconfigurations",
        "CustomResourceDefinition" => "customresourcedefinitions",
        _ => {
            let reason = "the installer does not install objects of this kind".to_owned();
            return Err(InstallError::Embedded { object: title(object), reason });
        }
    };
    let name = string(object, "/metadata/name").unwrap_or_default();
    Ok(api::object(&format!("/apis/{group}/{plural}"), name))
}

/// The existing object of this kind and name.
pub(super) async fn present(connection: &Connection, object: &Value) -> Result<Option<Value>, InstallError> {
    Ok(connection.find(OPERATION, &path(object)?).await.map_err(PortError::from)?)
}

/// States the own version in an object that is applied.
pub(super) fn with_version(mut object: Value) -> Value {
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        let labels = metadata.entry("labels").or_insert_with(|| Value::Object(serde_json::Map::new()));
        labels["app.kubernetes.io/version"] = Value::String(OWN.to_owned());
    }
    object
}

/// What users set in an object, without what the API server adds to each write.
fn content(mut object: Value) -> Value {
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.retain(|field, _| field == "labels" || field == "annotations");
    }
    if let Some(fields) = object.as_object_mut() {
        fields.remove("status");
    }
    object
}

/// Applies an object, and returns whether that changes anything.
pub(super) async fn apply(connection: &Connection, object: &Value, note: String) -> Result<Step, InstallError> {
    let before = present(connection, object).await?;
    let after = connection.patch(OPERATION, &path(object)?, PatchKind::Apply, object).await.map_err(PortError::from)?;
    let outcome = match before {
        None => Outcome::Created,
        Some(before) if content(before.clone()) == content(after) => Outcome::Unchanged,
        Some(_) => Outcome::Updated,
    };
    Ok(Step { object: title(object), outcome, note })
}

/// Deletes an object.
pub(super) async fn remove(connection: &Connection, object: &Value) -> Result<Step, InstallError> {
    let deleted = connection.delete(OPERATION, &path(object)?, &json!({})).await;
    let removed = unless_gone(deleted).map_err(PortError::from)?;
    let outcome = if removed.is_some() { Outcome::Removed } else { Outcome::Absent };
    Ok(Step { object: title(object), outcome, note: String::new() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_object_that_is_applied_states_the_version() {
        let labelled = json!({ "metadata": { "name": "a", "labels": { "app.kubernetes.io/managed-by": "nodeless" } } });
        for object in [labelled, json!({ "metadata": { "name": "a" } })] {
            let applied = with_version(object.clone());
            assert_eq!((string(&applied, VERSION), string(&object, VERSION)), (Some(OWN), None));
            assert_eq!(applied["metadata"]["name"], "a");
        }
        assert!(OWN.chars().all(|character| character.is_ascii_alphanumeric() || ".-_".contains(character)), "a label");
    }
}
