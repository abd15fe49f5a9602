//! The Deployments of pods that get their successors before their node is drained.

use super::objects::{get, patch, select_raw};
use nodeless_api::deployment;
use nodeless_fake_kubernetes::ApiServer;
use nodeless_fake_kubernetes::resource::{DEPLOYMENTS, PODS, REPLICA_SETS};
use nodeless_model::labels;
use nodeless_ports::cluster::{DeploymentChange, OwningDeployment, RaisedDeployment};
use nodeless_ports::{ErrorKind, PortError};
use serde_json::Value;
use std::sync::Arc;

/// The Deployment that owns a ReplicaSet, if both exist.
pub(super) fn owning(
    api: &ApiServer,
    namespace: &str,
    replica_set: &str,
) -> Result<Option<OwningDeployment>, PortError> {
    let set = get(api, "Kubernetes get ReplicaSet", &REPLICA_SETS, namespace, replica_set)?;
    let Some(set) = set else { return Ok(None) };
    let Some(owner) = deployment::owner(&set) else { return Ok(None) };
    let found = get(api, "Kubernetes get Deployment", &DEPLOYMENTS, namespace, owner)?;
    let Some(found) = found else { return Ok(None) };
    let pods = pods_of(api, namespace, &found)?;
    Ok(Some(deployment::owning(&found, &set, pods.iter().map(AsRef::as_ref))))
}

/// The pods that a Deployment selects.
fn pods_of(api: &ApiServer, namespace: &str, found: &Value) -> Result<Vec<Arc<Value>>, PortError> {
    let unreadable = || PortError::new(ErrorKind::Invalid, "Kubernetes list Pod", "the selector cannot be read");
    let selector = deployment::selector(found).ok_or_else(unreadable)?;
    select_raw(api, &PODS, Some(namespace), &selector)
}

/// The Deployments whose replicas are raised.
pub(super) fn raised(api: &ApiServer) -> Result<Vec<RaisedDeployment>, PortError> {
    Ok(select_raw(api, &DEPLOYMENTS, None, labels::SURGE)?
        .iter()
        .filter_map(|found| deployment::raised(found))
        .collect())
}

/// Changes a Deployment, and returns whether there was anything to change.
pub(super) fn change(
    api: &ApiServer,
    namespace: &str,
    name: &str,
    change: &DeploymentChange,
) -> Result<bool, PortError> {
    let operation = "Kubernetes patch Deployment";
    let Some(object) = get(api, operation, &DEPLOYMENTS, namespace, name)? else { return Ok(false) };
    let body = deployment::patch(&object, change).map_err(|unexpected| {
        let message = format!("Deployment {namespace}/{name}: {unexpected}");
        PortError::new(ErrorKind::Conflict, operation, message)
    })?;
    let Some(body) = body else { return Ok(false) };
    patch(api, operation, &DEPLOYMENTS, namespace, name, &body)?;
    Ok(true)
}
