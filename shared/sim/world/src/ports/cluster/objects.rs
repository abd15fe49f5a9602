//! Reads objects into the types of planning, and writes them, with the errors of the port.

use super::FIELD_MANAGER;
use super::decoded::Decoded;
use crate::resources::{CAPACITY_BUFFERS, NODE_CLAIMS, NODE_CLASSES, NODE_OVERLAYS, NODE_POOLS};
use nodeless_api::{CapacityBufferStatus, EC2NodeClass, NodeOverlayStatus, NodePoolStatus, slim};
use nodeless_fake_kubernetes::resource::{
    CSI_NODES, DAEMON_SETS, NAMESPACES, NODES, PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, POD_DISRUPTION_BUDGETS,
    PODS, STORAGE_CLASSES, VOLUME_ATTACHMENTS,
};
use nodeless_fake_kubernetes::server::LabelSelector;
use nodeless_fake_kubernetes::{
    ApiServer, DeleteOptions, ListOptions, PatchOptions, PatchType, Resource, Status, UpdateOptions,
};
use nodeless_model::node_pool::NodePool;
use nodeless_model::{CapacityBuffer, DaemonSet, Node, NodeOverlay, Pod, PodDisruptionBudget};
use nodeless_ports::cluster::{InvalidObject, MirroredClaim, PodRef, UnboundPod};
use nodeless_ports::{ErrorKind, PortError};
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::sync::Arc;

/// A kind of object, and its conversion.
pub(super) struct Kind<T> {
    resource: fn() -> Resource,
    pub(super) reduce: fn(&Value) -> Result<T, String>,
    fields: &'static str,
}

/// Decodes into a slim type and converts that. The error does not contain the object's name, which the caller adds.
fn converted<S, T>(object: &Value) -> Result<T, String>
where
    S: DeserializeOwned,
    for<'a> T: TryFrom<&'a S, Error = nodeless_api::ConvertError>,
{
    let slim = S::deserialize(object).map_err(|error| error.to_string())?;
    T::try_from(&slim).map_err(|error| format!("{}: {}", error.field, error.problem))
}

fn whole<T: DeserializeOwned>(object: &Value) -> Result<T, String> {
    T::deserialize(object).map_err(|error| error.to_string())
}

pub(super) static ALL_NODES: Kind<Node> =
    Kind { resource: || NODES, reduce: converted::<slim::Node, Node>, fields: "" };
pub(super) static ALL_PODS: Kind<Pod> = Kind { resource: || PODS, reduce: converted::<slim::Pod, Pod>, fields: "" };
/// Terminated pods need no node.
pub(super) static NOT_ENDED_PODS: Kind<Pod> = Kind {
    resource: || PODS,
    reduce: converted::<slim::Pod, Pod>,
    fields: "status.phase!=Succeeded,status.phase!=Failed",
};
/// Pods that have no node.
pub(super) static UNBOUND_PODS: Kind<Pod> = Kind {
    resource: || PODS,
    reduce: converted::<slim::Pod, Pod>,
    fields: "spec.nodeName=,status.phase!=Succeeded,status.phase!=Failed",
};
/// Pods of the default scheduler that have no node, as they were read.
pub(super) static NOMINABLE_PODS: Kind<UnboundPod> = Kind {
    resource: || PODS,
    reduce: unbound,
    fields: "spec.nodeName=,spec.schedulerName=default-scheduler,status.phase!=Succeeded,status.phase!=Failed",
};
pub(super) static ALL_DAEMON_SETS: Kind<DaemonSet> =
    Kind { resource: || DAEMON_SETS, reduce: converted::<slim::DaemonSet, DaemonSet>, fields: "" };
pub(super) static ALL_BUDGETS: Kind<PodDisruptionBudget> = Kind {
    resource: || POD_DISRUPTION_BUDGETS,
    reduce: converted::<slim::PodDisruptionBudget, PodDisruptionBudget>,
    fields: "",
};
pub(super) static ALL_NODE_POOLS: Kind<NodePool> = Kind { resource: || NODE_POOLS, reduce: pool, fields: "" };
pub(super) static NODE_POOL_STATUSES: Kind<(String, NodePoolStatus)> =
    Kind { resource: || NODE_POOLS, reduce: pool_status, fields: "" };
pub(super) static ALL_NODE_OVERLAYS: Kind<(NodeOverlay, NodeOverlayStatus)> =
    Kind { resource: || NODE_OVERLAYS, reduce: overlay, fields: "" };
pub(super) static ALL_CAPACITY_BUFFERS: Kind<(CapacityBuffer, CapacityBufferStatus)> =
    Kind { resource: || CAPACITY_BUFFERS, reduce: buffer, fields: "" };
pub(super) static ALL_NAMESPACES: Kind<slim::Namespace> =
    Kind { resource: || NAMESPACES, reduce: whole::<slim::Namespace>, fields: "" };
pub(super) static ALL_VOLUME_CLAIMS: Kind<slim::PersistentVolumeClaim> =
    Kind { resource: || PERSISTENT_VOLUME_CLAIMS, reduce: whole::<slim::PersistentVolumeClaim>, fields: "" };
pub(super) static ALL_VOLUMES: Kind<slim::PersistentVolume> =
    Kind { resource: || PERSISTENT_VOLUMES, reduce: whole::<slim::PersistentVolume>, fields: "" };
pub(super) static ALL_STORAGE_CLASSES: Kind<slim::StorageClass> =
    Kind { resource: || STORAGE_CLASSES, reduce: whole::<slim::StorageClass>, fields: "" };
pub(super) static ALL_CSI_NODES: Kind<slim::CsiNode> =
    Kind { resource: || CSI_NODES, reduce: whole::<slim::CsiNode>, fields: "" };
pub(super) static ALL_NODE_CLASSES: Kind<EC2NodeClass> =
    Kind { resource: || NODE_CLASSES, reduce: whole::<EC2NodeClass>, fields: "" };
pub(super) static ALL_NODE_CLAIMS: Kind<MirroredClaim> =
    Kind { resource: || NODE_CLAIMS, reduce: converted::<slim::NodeClaim, MirroredClaim>, fields: "" };
pub(super) static ALL_VOLUME_ATTACHMENTS: Kind<slim::VolumeAttachment> =
    Kind { resource: || VOLUME_ATTACHMENTS, reduce: whole::<slim::VolumeAttachment>, fields: "" };

/// A NodePool. If a part of it cannot be decoded, its readiness reports that.
fn pool(object: &Value) -> Result<NodePool, String> {
    Ok(NodePool::from(&whole::<nodeless_api::NodePool>(object)?))
}

/// The status of a NodePool that can be decoded. Others are reported separately.
fn pool_status(object: &Value) -> Result<(String, NodePoolStatus), String> {
    let pool = whole::<nodeless_api::NodePool>(object)?;
    Ok((pool.metadata.name.unwrap_or_default(), pool.status.unwrap_or_default()))
}

fn overlay(object: &Value) -> Result<(NodeOverlay, NodeOverlayStatus), String> {
    let overlay = converted::<nodeless_api::NodeOverlay, NodeOverlay>(object)?;
    Ok((overlay, whole::<nodeless_api::NodeOverlay>(object)?.status.unwrap_or_default()))
}

fn buffer(object: &Value) -> Result<(CapacityBuffer, CapacityBufferStatus), String> {
    let buffer = converted::<nodeless_api::CapacityBuffer, CapacityBuffer>(object)?;
    Ok((buffer, whole::<nodeless_api::CapacityBuffer>(object)?.status.unwrap_or_default()))
}

fn unbound(object: &Value) -> Result<UnboundPod, String> {
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
    Ok(UnboundPod {
        pod: PodRef {
            namespace: text("/metadata/namespace"),
            name: text("/metadata/name"),
            uid: text("/metadata/uid"),
        },
        resource_version: text("/metadata/resourceVersion"),
        nominated_node: Some(text("/status/nominatedNodeName")).filter(|node| !node.is_empty()),
        is_terminating: object.pointer("/metadata/deletionTimestamp").is_some(),
    })
}

/// The objects of a kind with these labels and fields, and those that cannot be decoded.
pub(super) fn select<T: Clone + Send + 'static>(
    api: &ApiServer,
    decoded: &Decoded,
    kind: &Kind<T>,
    labels: &str,
    fields: &str,
) -> Result<(Vec<T>, Vec<InvalidObject>), PortError> {
    let resource = (kind.resource)();
    let operation = format!("Kubernetes list {}", resource.kind);
    let labels = LabelSelector::parse(labels).map_err(|error| failed(&operation, &error))?;
    let fields = if fields.is_empty() { kind.fields } else { fields };
    let options = ListOptions { namespace: None, labels, fields: fields.to_owned() };
    let list = api.list(&resource, &options).map_err(|error| failed(&operation, &error))?;
    let (mut taken, mut invalid) = (Vec::new(), Vec::new());
    for (object, reduced) in list.items.iter().zip(decoded.decode(kind, &list.items)) {
        match reduced {
            Ok(reduced) => taken.push(reduced),
            Err(message) => {
                let part = |field: &str| object["metadata"][field].as_str().unwrap_or_default().to_owned();
                let (namespace, name) = (part("namespace"), part("name"));
                let name = if namespace.is_empty() { name } else { format!("{namespace}/{name}") };
                invalid.push(InvalidObject { kind: resource.kind.to_string(), name, message });
            }
        }
    }
    Ok((taken, invalid))
}

/// The objects of a namespace with these labels, as they are.
pub(super) fn select_raw(
    api: &ApiServer,
    resource: &Resource,
    namespace: &str,
    labels: &str,
) -> Result<Vec<Arc<Value>>, PortError> {
    let operation = format!("Kubernetes list {}", resource.kind);
    let labels = LabelSelector::parse(labels).map_err(|error| failed(&operation, &error))?;
    let options = ListOptions { namespace: Some(namespace.to_owned()), labels, ..ListOptions::default() };
    Ok(api.list(resource, &options).map_err(|error| failed(&operation, &error))?.items)
}

/// One object of a cluster-scoped kind, converted.
pub(super) fn get_one<T>(api: &ApiServer, kind: &Kind<T>, name: &str) -> Result<Option<T>, PortError> {
    let resource = (kind.resource)();
    let operation = format!("Kubernetes get {}", resource.kind);
    let Some(object) = get(api, &operation, &resource, "", name)? else { return Ok(None) };
    (kind.reduce)(&object).map(Some).map_err(|error| {
        PortError::new(ErrorKind::Invalid, &operation, format!("{} {name} cannot be read: {error}", resource.kind))
    })
}

/// Fails if an object could not be decoded and the answer cannot report it.
pub(super) fn refuse_doubt(hides: bool, invalid: &[InvalidObject]) -> Result<(), PortError> {
    let Some(faulty) = invalid.first().filter(|_| hides) else { return Ok(()) };
    let InvalidObject { kind, name, message } = faulty;
    let message = format!("{kind} {name} cannot be read: {message}; repair or delete it");
    Err(PortError::new(ErrorKind::Invalid, format!("Kubernetes list {kind}"), message))
}

/// Maps an error of the API server to an error of the port.
pub(super) fn failed(operation: &str, status: &Status) -> PortError {
    let kind = match status.code {
        401 | 403 => ErrorKind::Denied,
        404 => ErrorKind::NotFound,
        409 => ErrorKind::Conflict,
        429 => ErrorKind::Throttled,
        400..=499 if status.code != 410 => ErrorKind::Invalid,
        _ => ErrorKind::Unavailable,
    };
    PortError::new(kind, operation, status.message.clone()).with_code(status.reason)
}

/// One object, if it exists.
pub(super) fn get(
    api: &ApiServer,
    operation: &str,
    resource: &Resource,
    namespace: &str,
    name: &str,
) -> Result<Option<Arc<Value>>, PortError> {
    match api.get(resource, namespace, name) {
        Ok(object) => Ok(Some(object)),
        Err(error) if error.code == 404 && error.name.is_some() => Ok(None),
        Err(error) => Err(failed(operation, &error)),
    }
}

/// Replaces an object in the version that was read.
pub(super) fn update(
    api: &ApiServer,
    operation: &str,
    resource: &Resource,
    object: Value,
) -> Result<Arc<Value>, PortError> {
    let options = UpdateOptions { field_manager: Some(FIELD_MANAGER.to_owned()), dry_run: false };
    api.update(resource, object, &options).map_err(|error| failed(operation, &error))
}

/// Applies a JSON merge patch.
pub(super) fn patch(
    api: &ApiServer,
    operation: &str,
    resource: &Resource,
    (namespace, name): (&str, &str),
    body: &Value,
) -> Result<(), PortError> {
    patch_part(api, operation, resource, (namespace, name), None, body)
}

/// Patches an object, or a subresource of it.
pub(super) fn patch_part(
    api: &ApiServer,
    operation: &str,
    resource: &Resource,
    (namespace, name): (&str, &str),
    subresource: Option<&str>,
    body: &Value,
) -> Result<(), PortError> {
    let options = PatchOptions { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchOptions::default() };
    let patched = api.patch(resource, namespace, name, subresource, PatchType::Merge, body, &options);
    patched.map(drop).map_err(|error| failed(operation, &error))
}

/// Replaces the status if it differs: nodeless owns the whole status.
pub(super) fn write_status(
    api: &ApiServer,
    operation: &str,
    resource: &Resource,
    object: &Value,
    desired: Value,
) -> Result<(), PortError> {
    let empty = serde_json::json!({});
    if object.get("status").unwrap_or(&empty) == &desired {
        return Ok(());
    }
    let mut changed = object.clone();
    changed["status"] = desired;
    let options = UpdateOptions { field_manager: Some(FIELD_MANAGER.to_owned()), dry_run: false };
    api.update_status(resource, changed, &options).map(drop).map_err(|error| failed(operation, &error))
}

/// Deletes an object, if it still is this one. A missing object counts as success.
pub(super) fn delete(
    api: &ApiServer,
    operation: &str,
    resource: &Resource,
    (namespace, name): (&str, &str),
    uid: Option<&str>,
    grace: Option<i64>,
) -> Result<(), PortError> {
    let mut options = DeleteOptions { grace_period_seconds: grace, ..DeleteOptions::default() };
    options.preconditions.uid = uid.map(str::to_owned);
    match api.delete(resource, namespace, name, &options) {
        // 409: another object has this name now, so the requested one is gone.
        Err(error) if !matches!(error.code, 404 | 409) => Err(failed(operation, &error)),
        _ => Ok(()),
    }
}

/// The strings in a list.
pub(super) fn strings(object: &Value, pointer: &str) -> Vec<String> {
    let list = object.pointer(pointer).and_then(Value::as_array);
    list.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}

/// Removes a finalizer from an object. A missing object counts as success.
pub(super) fn remove_finalizer(
    api: &ApiServer,
    operation: &str,
    resource: &Resource,
    name: &str,
    finalizer: &str,
) -> Result<(), PortError> {
    let Some(object) = get(api, operation, resource, "", name)? else { return Ok(()) };
    let mut left = strings(&object, "/metadata/finalizers");
    let before = left.len();
    left.retain(|present| present != finalizer);
    if left.len() == before {
        return Ok(());
    }
    let mut changed = object.as_ref().clone();
    changed["metadata"]["finalizers"] = serde_json::json!(left);
    match update(api, operation, resource, changed) {
        Err(error) if error.kind != ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
