//! Pods.

use super::meta;
use super::storage::PersistentVolumeClaimSpec;
use crate::custom::common::ResourceList;
use k8s_openapi::api::core::v1::{self as corev1, Affinity, Toleration, TopologySpreadConstraint};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use serde::Deserialize;
use std::collections::BTreeMap;

/// A pod.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, kube::Resource)]
#[resource(inherit = corev1::Pod)]
#[serde(default)]
pub struct Pod {
    /// Name, labels and so on.
    #[serde(deserialize_with = "meta::slim")]
    pub metadata: ObjectMeta,
    /// The spec.
    pub spec: PodSpec,
    /// Where it stands.
    pub status: PodStatus,
}

/// The spec of a pod. Fields are named as in Kubernetes, which documents them.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[allow(missing_docs)]
pub struct PodSpec {
    pub node_name: Option<String>,
    pub node_selector: BTreeMap<String, String>,
    pub affinity: Option<Box<Affinity>>,
    pub tolerations: Vec<Toleration>,
    pub topology_spread_constraints: Vec<TopologySpreadConstraint>,
    pub containers: Vec<Container>,
    pub init_containers: Vec<Container>,
    pub overhead: ResourceList,
    /// Resources of the whole pod, which go before those of its containers.
    pub resources: Option<PodResources>,
    pub priority: Option<i32>,
    pub priority_class_name: Option<String>,
    pub termination_grace_period_seconds: Option<i64>,
    pub volumes: Vec<Volume>,
    pub scheduling_gates: Vec<Named>,
    pub resource_claims: Vec<PodClaim>,
    pub host_network: bool,
    pub scheduler_name: Option<String>,
    pub runtime_class_name: Option<String>,
    pub scheduling_group: Option<SchedulingGroup>,
}

/// The pods with which a pod is scheduled.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SchedulingGroup {
    /// A PodGroup, in the namespace of the pod.
    pub pod_group_name: Option<String>,
}

/// A claim for devices.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodClaim {
    /// The name within the pod.
    pub name: String,
    /// A ResourceClaim.
    pub resource_claim_name: Option<String>,
    /// A ResourceClaimTemplate, from which a ResourceClaim is made for the pod.
    pub resource_claim_template_name: Option<String>,
}

/// A ResourceClaim that was made for the pod.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct MadeClaim {
    /// The name within the pod.
    pub name: String,
    /// The name of the ResourceClaim.
    pub resource_claim_name: Option<String>,
}

/// Something of which only the name counts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct Named {
    /// The name.
    pub name: String,
}

/// Requests and limits.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct PodResources {
    /// The requests.
    pub requests: ResourceList,
    /// The limits.
    pub limits: ResourceList,
}

/// A container.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Container {
    /// The name, by which its status is found.
    pub name: String,
    /// The requests and limits.
    pub resources: PodResources,
    /// The ports.
    pub ports: Vec<ContainerPort>,
    /// `Always` makes a sidecar of an init container.
    pub restart_policy: Option<String>,
}

/// A port of a container.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ContainerPort {
    /// The port in the container.
    pub container_port: i32,
    /// The port on the node, if it takes one.
    pub host_port: Option<i32>,
    /// The node's address on which it takes the port; all when absent.
    #[serde(rename = "hostIP")]
    pub host_ip: Option<String>,
    /// `TCP` (when absent), `UDP` or `SCTP`.
    pub protocol: Option<String>,
}

/// A volume, if it is one that ties a pod to a place.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Volume {
    /// The name within the pod.
    pub name: String,
    /// A claim by name.
    pub persistent_volume_claim: Option<VolumeClaimSource>,
    /// A claim that is made for the pod, named after pod and volume.
    pub ephemeral: Option<EphemeralVolume>,
}

/// A claim by name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VolumeClaimSource {
    /// The claim's name, in the pod's namespace.
    pub claim_name: String,
}

/// The claim that is made for a pod.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct EphemeralVolume {
    /// The claim. Once it is made, it is read from the claim itself.
    pub volume_claim_template: ClaimTemplate,
}

/// A claim to be made.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct ClaimTemplate {
    /// The spec.
    pub spec: PersistentVolumeClaimSpec,
}

/// Where a pod stands.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodStatus {
    /// Pending, Running, Succeeded, Failed or Unknown.
    pub phase: Option<String>,
    /// PodScheduled, Ready and the like.
    pub conditions: Vec<PodCondition>,
    /// The node whose pods are being preempted for it.
    pub nominated_node_name: Option<String>,
    /// When the kubelet accepted it.
    pub start_time: Option<Time>,
    /// The ResourceClaims that were made for it from templates.
    #[serde(deserialize_with = "meta::null_as_empty")]
    pub resource_claim_statuses: Vec<MadeClaim>,
    /// The resources that the kubelet allocated to each container.
    pub container_statuses: Vec<ContainerStatus>,
    /// The resources that the kubelet allocated to each init container.
    pub init_container_statuses: Vec<ContainerStatus>,
}

/// A condition of a pod.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodCondition {
    /// The type, such as `PodScheduled`.
    #[serde(rename = "type")]
    pub type_: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// Why.
    pub reason: Option<String>,
    /// When the status last changed.
    pub last_transition_time: Option<Time>,
}

/// The resources that the kubelet allocated to a container, which differ from the spec while it is being resized.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ContainerStatus {
    /// The container's name.
    pub name: String,
    /// The allocated requests.
    pub allocated_resources: ResourceList,
    /// The requests and limits in force.
    pub resources: Option<PodResources>,
}
