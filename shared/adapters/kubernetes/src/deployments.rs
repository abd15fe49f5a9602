//! The Deployments of pods that get their successors before their node is drained.

use crate::api::{self, PatchKind};
use crate::connection::Connection;
use kube::core::Request;
use kube::core::params::ListParams;
use nodeless_api::deployment;
use nodeless_model::labels;
use nodeless_ports::cluster::{DeploymentChange, OwningDeployment, RaisedDeployment};
use nodeless_ports::{ErrorKind, PortError};
use serde_json::Value;

const DEPLOYMENTS: &str = "/apis/apps/v1/deployments";
const REPLICA_SETS: &str = "/apis/apps/v1/replicasets";

fn path(collection: &str, namespace: &str, name: &str) -> String {
    api::object(&api::within(collection, namespace), name)
}

/// The Deployment that owns a ReplicaSet, if both exist.
pub(crate) async fn owning(
    connection: &Connection,
    namespace: &str,
    replica_set: &str,
) -> Result<Option<OwningDeployment>, PortError> {
    let set = connection.get("Kubernetes get ReplicaSet", &path(REPLICA_SETS, namespace, replica_set)).await?;
    let Some(set) = set else { return Ok(None) };
    let Some(owner) = deployment::owner(&set) else { return Ok(None) };
    let found = connection.get("Kubernetes get Deployment", &path(DEPLOYMENTS, namespace, owner)).await?;
    let Some(found) = found else { return Ok(None) };
    let pods = pods_of(connection, namespace, &found).await?;
    Ok(Some(deployment::owning(&found, &set, pods["items"].as_array().into_iter().flatten())))
}

/// The list of the pods that a Deployment selects.
async fn pods_of(connection: &Connection, namespace: &str, found: &Value) -> Result<Value, PortError> {
    const OPERATION: &str = "Kubernetes list Pod";
    let invalid = |message: String| PortError::new(ErrorKind::Invalid, OPERATION, message);
    let selector = deployment::selector(found).ok_or_else(|| {
        let name = found["metadata"]["name"].as_str().unwrap_or_default();
        invalid(format!("the selector of Deployment {namespace}/{name} cannot be read"))
    })?;
    let params = ListParams::default().labels(&selector);
    let request = Request::new(api::pods(namespace)).list(&params).map_err(|error| invalid(error.to_string()))?;
    let text = connection.read(OPERATION, request).await?;
    Ok(api::decode(OPERATION, &text)?)
}

/// The Deployments whose replicas are raised: the API server selects them by their label.
pub(crate) async fn raised(connection: &Connection) -> Result<Vec<RaisedDeployment>, PortError> {
    const OPERATION: &str = "Kubernetes list Deployment";
    let params = ListParams::default().labels(labels::SURGE);
    let request = Request::new(DEPLOYMENTS).list(&params);
    let request = request.map_err(|error| PortError::new(ErrorKind::Invalid, OPERATION, error.to_string()))?;
    let text = connection.read(OPERATION, request).await?;
    let list: Value = api::decode(OPERATION, &text)?;
    Ok(list["items"].as_array().into_iter().flatten().filter_map(deployment::raised).collect())
}

/// Changes a Deployment in the version that is read here, and returns whether there was anything to change.
pub(crate) async fn change(
    connection: &Connection,
    namespace: &str,
    name: &str,
    change: &DeploymentChange,
) -> Result<bool, PortError> {
    let operation = "Kubernetes patch Deployment";
    let path = path(DEPLOYMENTS, namespace, name);
    let Some(object) = connection.get(operation, &path).await? else { return Ok(false) };
    let body = deployment::patch(&object, change).map_err(|unexpected| {
        let message = format!("Deployment {namespace}/{name}: {unexpected}");
        PortError::new(ErrorKind::Conflict, operation, message)
    })?;
    let Some(body) = body else { return Ok(false) };
    connection.patch(operation, &path, PatchKind::Merge, &body).await?;
    Ok(true)
}
