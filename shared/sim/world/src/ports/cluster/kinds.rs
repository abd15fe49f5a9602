//! The kinds of objects, and their conversion into the types of planning.

use crate::resources::{CAPACITY_BUFFERS, NODE_CLAIMS, NODE_CLASSES, NODE_OVERLAYS, NODE_POOLS, PROVISIONING_REQUESTS};
use nodeless_api::daemon_sets::ReadDaemonSet;
use nodeless_api::limit_ranges::LimitRange;
use nodeless_api::managed::{self, Owned, RefersToClass};
use nodeless_api::{
    CapacityBufferStatus, EC2NodeClass, NodeOverlayStatus, NodePoolStatus, ProvisioningRequestStatus, slim,
};
use nodeless_fake_kubernetes::Resource;
use nodeless_fake_kubernetes::resource::{
    CSI_NODES, DAEMON_SETS, DEVICE_CLASSES, LIMIT_RANGES, NAMESPACES, NODES, PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES, POD_DISRUPTION_BUDGETS, PODS, RESOURCE_CLAIM_TEMPLATES, RESOURCE_CLAIMS, RESOURCE_QUOTAS,
    RESOURCE_SLICES, STORAGE_CLASSES, VOLUME_ATTACHMENTS,
};
use nodeless_model::node_pool::NodePool;
use nodeless_model::{CapacityBuffer, Node, NodeOverlay, Pod, PodDisruptionBudget, ProvisioningRequest, ResourceQuota};
use nodeless_ports::cluster::{MirroredClaim, OtherNodeClaim, OtherNodePool, PodRef, UnboundPod};
use serde::de::DeserializeOwned;
use serde_json::Value;

/// A kind of object, and its conversion.
pub(super) struct Kind<T> {
    pub(super) resource: fn() -> Resource,
    pub(super) reduce: fn(&Value) -> Result<T, String>,
    pub(super) fields: &'static str,
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
pub(super) static ALL_DAEMON_SETS: Kind<ReadDaemonSet> =
    Kind { resource: || DAEMON_SETS, reduce: converted::<slim::DaemonSet, ReadDaemonSet>, fields: "" };
pub(super) static ALL_LIMIT_RANGES: Kind<LimitRange> =
    Kind { resource: || LIMIT_RANGES, reduce: converted::<slim::LimitRange, LimitRange>, fields: "" };
pub(super) static ALL_QUOTAS: Kind<ResourceQuota> =
    Kind { resource: || RESOURCE_QUOTAS, reduce: converted::<slim::ResourceQuota, ResourceQuota>, fields: "" };
pub(super) static ALL_BUDGETS: Kind<PodDisruptionBudget> = Kind {
    resource: || POD_DISRUPTION_BUDGETS,
    reduce: converted::<slim::PodDisruptionBudget, PodDisruptionBudget>,
    fields: "",
};
pub(super) static ALL_NODE_POOLS: Kind<Owned<NodePool, OtherNodePool>> =
    Kind { resource: || NODE_POOLS, reduce: pool, fields: "" };
pub(super) static NODE_POOL_STATUSES: Kind<Owned<(String, NodePoolStatus), OtherNodePool>> =
    Kind { resource: || NODE_POOLS, reduce: pool_status, fields: "" };
pub(super) static ALL_NODE_OVERLAYS: Kind<(NodeOverlay, NodeOverlayStatus)> =
    Kind { resource: || NODE_OVERLAYS, reduce: overlay, fields: "" };
pub(super) static ALL_CAPACITY_BUFFERS: Kind<(CapacityBuffer, CapacityBufferStatus)> =
    Kind { resource: || CAPACITY_BUFFERS, reduce: buffer, fields: "" };
pub(super) static ALL_PROVISIONING_REQUESTS: Kind<(ProvisioningRequest, ProvisioningRequestStatus)> =
    Kind { resource: || PROVISIONING_REQUESTS, reduce: request, fields: "" };
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
pub(super) static ALL_DEVICE_CLASSES: Kind<slim::DeviceClass> =
    Kind { resource: || DEVICE_CLASSES, reduce: whole::<slim::DeviceClass>, fields: "" };
pub(super) static ALL_RESOURCE_SLICES: Kind<slim::ResourceSlice> =
    Kind { resource: || RESOURCE_SLICES, reduce: whole::<slim::ResourceSlice>, fields: "" };
pub(super) static ALL_RESOURCE_CLAIMS: Kind<slim::ResourceClaim> =
    Kind { resource: || RESOURCE_CLAIMS, reduce: whole::<slim::ResourceClaim>, fields: "" };
pub(super) static ALL_RESOURCE_CLAIM_TEMPLATES: Kind<slim::ResourceClaimTemplate> =
    Kind { resource: || RESOURCE_CLAIM_TEMPLATES, reduce: whole::<slim::ResourceClaimTemplate>, fields: "" };
pub(super) static ALL_NODE_CLASSES: Kind<EC2NodeClass> =
    Kind { resource: || NODE_CLASSES, reduce: whole::<EC2NodeClass>, fields: "" };
pub(super) static ALL_NODE_CLAIMS: Kind<Owned<MirroredClaim, OtherNodeClaim>> =
    Kind { resource: || NODE_CLAIMS, reduce: node_claim, fields: "" };
pub(super) static ALL_VOLUME_ATTACHMENTS: Kind<slim::VolumeAttachment> =
    Kind { resource: || VOLUME_ATTACHMENTS, reduce: whole::<slim::VolumeAttachment>, fields: "" };

/// A NodePool. If a part of it cannot be decoded, its readiness reports that.
fn pool(object: &Value) -> Result<Owned<NodePool, OtherNodePool>, String> {
    owned::<nodeless_api::NodePool, _>(object, |object| Ok(NodePool::from(&whole::<nodeless_api::NodePool>(object)?)))
}

/// The status of a NodePool that can be decoded. Others are reported separately.
fn pool_status(object: &Value) -> Result<Owned<(String, NodePoolStatus), OtherNodePool>, String> {
    owned::<nodeless_api::NodePool, _>(object, |object| {
        let pool = whole::<nodeless_api::NodePool>(object)?;
        Ok((pool.metadata.name.unwrap_or_default(), pool.status.unwrap_or_default()))
    })
}

fn node_claim(object: &Value) -> Result<Owned<MirroredClaim, OtherNodeClaim>, String> {
    owned::<slim::NodeClaim, _>(object, converted::<slim::NodeClaim, MirroredClaim>)
}

/// Decodes an object of nodeless.
fn owned<T: RefersToClass, M>(
    object: &Value,
    decode: impl FnOnce(&Value) -> Result<M, String>,
) -> Result<Owned<M, T::Other>, String> {
    match managed::other::<T>(object) {
        Some(other) => Ok(Owned::Other(other)),
        None => decode(object).map(Owned::Managed),
    }
}

fn overlay(object: &Value) -> Result<(NodeOverlay, NodeOverlayStatus), String> {
    let overlay = converted::<nodeless_api::NodeOverlay, NodeOverlay>(object)?;
    Ok((overlay, whole::<nodeless_api::NodeOverlay>(object)?.status.unwrap_or_default()))
}

fn buffer(object: &Value) -> Result<(CapacityBuffer, CapacityBufferStatus), String> {
    let buffer = converted::<nodeless_api::CapacityBuffer, CapacityBuffer>(object)?;
    Ok((buffer, whole::<nodeless_api::CapacityBuffer>(object)?.status.unwrap_or_default()))
}

fn request(object: &Value) -> Result<(ProvisioningRequest, ProvisioningRequestStatus), String> {
    let request = converted::<nodeless_api::ProvisioningRequest, ProvisioningRequest>(object)?;
    Ok((request, whole::<nodeless_api::ProvisioningRequest>(object)?.status.unwrap_or_default()))
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
