//! Applying and removing one object.

use super::{InstallError, Outcome, Step};
use crate::api::{self, PatchKind};
use crate::connection::Connection;
use crate::merge::string;
use nodeless_ports::PortError;
use serde_json::{Value, json};

const OPERATION: &str = "Kubernetes install";

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
    Ok(connection.get(OPERATION, &path(object)?).await.map_err(PortError::from)?)
}

/// Applies an object, and returns whether that changed anything.
pub(super) async fn apply(connection: &Connection, object: &Value, note: String) -> Result<Step, InstallError> {
    let version = |object: &Value| string(object, "/metadata/resourceVersion").map(str::to_owned);
    let before = present(connection, object).await?;
    let after = connection.patch(OPERATION, &path(object)?, PatchKind::Apply, object).await.map_err(PortError::from)?;
    let outcome = match before {
        None => Outcome::Created,
        Some(before) if version(&before) == version(&after) => Outcome::Unchanged,
        Some(_) => Outcome::Updated,
    };
    Ok(Step { object: title(object), outcome, note })
}

/// Deletes an object.
pub(super) async fn remove(connection: &Connection, object: &Value) -> Result<Step, InstallError> {
    let removed = connection.delete(OPERATION, &path(object)?, &json!({})).await.map_err(PortError::from)?;
    let outcome = if removed { Outcome::Removed } else { Outcome::Absent };
    Ok(Step { object: title(object), outcome, note: String::new() })
}
