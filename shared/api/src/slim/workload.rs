//! DaemonSets, LimitRanges, disruption budgets, namespaces, priority classes and events.

use super::meta;
use super::pod::PodSpec;
use super::storage::PersistentVolumeClaim;
use crate::custom::common::ResourceList;
use k8s_openapi::api::core::v1::{self as corev1, ObjectReference, Toleration};
use k8s_openapi::api::{apps, policy, scheduling};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta, Time};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use serde::Deserialize;
use std::collections::BTreeMap;

/// A DaemonSet.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, kube::Resource)]
#[resource(inherit = apps::v1::DaemonSet)]
#[serde(default)]
pub struct DaemonSet {
    /// Name, labels and so on.
    #[serde(deserialize_with = "meta::slim")]
    pub metadata: ObjectMeta,
    /// The template of the pods.
    pub spec: DaemonSetSpec,
}

/// The spec of a DaemonSet.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct DaemonSetSpec {
    /// The pod.
    pub template: PodTemplate,
}

/// A pod to be made.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct PodTemplate {
    /// The labels and annotations.
    #[serde(deserialize_with = "meta::slim")]
    pub metadata: ObjectMeta,
    /// The spec.
    pub spec: PodSpec,
}

/// A workload with replicas: a Deployment, StatefulSet or ReplicaSet, as far as a CapacityBuffer uses it.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Scalable {
    /// Name, labels and so on.
    #[serde(deserialize_with = "meta::slim")]
    pub metadata: ObjectMeta,
    /// The replicas, and the template of the pods.
    pub spec: ScalableSpec,
}

/// The replicas, and the template of the pods.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ScalableSpec {
    /// The number of pods; one when absent.
    pub replicas: Option<i32>,
    /// The pod.
    pub template: PodTemplate,
    /// The claims that are made for each pod of a StatefulSet, with the names of the volumes.
    #[serde(deserialize_with = "meta::null_as_empty")]
    pub volume_claim_templates: Vec<PersistentVolumeClaim>,
}

/// A ReplicaSet, StatefulSet or Deployment: the pods that it selects.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Controller {
    /// Name and so on.
    #[serde(deserialize_with = "meta::slim")]
    pub metadata: ObjectMeta,
    /// The selector.
    pub spec: ControllerSpec,
}

/// The selector of a [`Controller`].
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct ControllerSpec {
    /// The selected pods.
    pub selector: Option<LabelSelector>,
}

/// A Service or ReplicationController: the labels of the pods that it selects.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct SelectingByLabels {
    /// Name and so on.
    #[serde(deserialize_with = "meta::slim")]
    pub metadata: ObjectMeta,
    /// The selector.
    pub spec: SelectingByLabelsSpec,
}

/// The selector of a [`SelectingByLabels`].
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct SelectingByLabelsSpec {
    /// The labels of selected pods; no pod is selected without it.
    pub selector: Option<BTreeMap<String, String>>,
}

/// The kind PodTemplate: a pod to be made, kept as an object of its own.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct StoredPodTemplate {
    /// Name, generation and so on.
    #[serde(deserialize_with = "meta::slim")]
    pub metadata: ObjectMeta,
    /// The pod.
    pub template: PodTemplate,
}

/// A LimitRange.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, kube::Resource)]
#[resource(inherit = corev1::LimitRange)]
#[serde(default)]
pub struct LimitRange {
    /// Name and namespace.
    #[serde(deserialize_with = "meta::slim")]
    pub metadata: ObjectMeta,
    /// The spec.
    pub spec: LimitRangeSpec,
}

/// The spec of a LimitRange.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct LimitRangeSpec {
    /// The items, one for each type.
    pub limits: Vec<LimitRangeItem>,
}

/// An item of a LimitRange, without the ratio that it allows.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LimitRangeItem {
    /// `Container`, `Pod` or `PersistentVolumeClaim`.
    #[serde(rename = "type")]
    pub type_: String,
    /// The maximum limits.
    pub max: ResourceList,
    /// The minimum requests.
    pub min: ResourceList,
    /// The limits of containers without limits.
    #[serde(rename = "default")]
    pub default_limit: ResourceList,
    /// The requests of containers without requests.
    pub default_request: ResourceList,
}

/// A ResourceQuota.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, kube::Resource)]
#[resource(inherit = corev1::ResourceQuota)]
#[serde(default)]
pub struct ResourceQuota {
    /// Name and namespace.
    #[serde(deserialize_with = "meta::slim")]
    pub metadata: ObjectMeta,
    /// The spec.
    pub spec: ResourceQuotaSpec,
    /// The status.
    pub status: ResourceQuotaStatus,
}

/// The spec of a ResourceQuota.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct ResourceQuotaSpec {
    /// The limits.
    pub hard: ResourceList,
    /// The scopes of the pods that it counts.
    pub scopes: Vec<String>,
    /// The same, with priority classes.
    #[serde(rename = "scopeSelector")]
    pub scope_selector: ScopeSelector,
}

/// The scopes of the pods that a ResourceQuota counts.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ScopeSelector {
    /// The scopes, of which only the number matters.
    pub match_expressions: Vec<serde::de::IgnoredAny>,
}

/// The status of a ResourceQuota.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct ResourceQuotaStatus {
    /// The limits that the API server enforces.
    pub hard: ResourceList,
    /// What the objects of the namespace use.
    pub used: ResourceList,
}

/// A PodDisruptionBudget.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, kube::Resource)]
#[resource(inherit = policy::v1::PodDisruptionBudget)]
#[serde(default)]
pub struct PodDisruptionBudget {
    /// Name, labels and so on.
    #[serde(deserialize_with = "meta::slim")]
    pub metadata: ObjectMeta,
    /// The spec.
    pub spec: PodDisruptionBudgetSpec,
    /// The status.
    pub status: PodDisruptionBudgetStatus,
}

/// The spec of a PodDisruptionBudget.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodDisruptionBudgetSpec {
    /// The covered pods; none when absent, all of the namespace when empty.
    pub selector: Option<LabelSelector>,
    /// The minimum number of available pods.
    pub min_available: Option<IntOrString>,
    /// The maximum number of unavailable pods.
    pub max_unavailable: Option<IntOrString>,
    /// `AlwaysAllow`, or `IfHealthyBudget`, which is the default.
    pub unhealthy_pod_eviction_policy: Option<String>,
}

/// The status of a PodDisruptionBudget.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodDisruptionBudgetStatus {
    /// How many pods may be evicted.
    pub disruptions_allowed: i32,
    /// The required number of healthy pods.
    pub desired_healthy: i32,
    /// The number of pods that the budget covers.
    pub expected_pods: i32,
    /// The generation of the budget that this is about.
    pub observed_generation: Option<i64>,
}

/// A namespace: its labels.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, kube::Resource)]
#[resource(inherit = corev1::Namespace)]
#[serde(default)]
pub struct Namespace {
    /// Name, labels and so on.
    #[serde(deserialize_with = "meta::slim")]
    pub metadata: ObjectMeta,
}

/// A priority class.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, kube::Resource)]
#[resource(inherit = scheduling::v1::PriorityClass)]
#[serde(rename_all = "camelCase", default)]
pub struct PriorityClass {
    /// Name, labels and so on.
    #[serde(deserialize_with = "meta::slim")]
    pub metadata: ObjectMeta,
    /// The priority.
    pub value: i32,
    /// Whether pods without a class have this one.
    pub global_default: bool,
    /// `Never` keeps its pods from preempting others.
    pub preemption_policy: Option<String>,
}

/// An event, as the core API has it.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, kube::Resource)]
#[resource(inherit = corev1::Event)]
#[serde(rename_all = "camelCase", default)]
pub struct Event {
    /// Name, namespace and so on.
    #[serde(deserialize_with = "meta::slim")]
    pub metadata: ObjectMeta,
    /// The object that the Event is about.
    pub involved_object: ObjectReference,
    /// The reason, in CamelCase.
    pub reason: Option<String>,
    /// The message.
    pub message: Option<String>,
    /// `Normal` or `Warning`.
    #[serde(rename = "type")]
    pub type_: Option<String>,
    /// When it last happened.
    pub last_timestamp: Option<Time>,
    /// The number of times that it happened.
    pub count: Option<i32>,
}

/// A RuntimeClass.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct RuntimeClass {
    /// The name.
    #[serde(deserialize_with = "meta::slim")]
    pub metadata: ObjectMeta,
    /// What its pods take besides their containers.
    pub overhead: Overhead,
    /// Where its pods run.
    pub scheduling: RuntimeScheduling,
}

/// What pods of a RuntimeClass take besides their containers.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Overhead {
    /// The same for each pod.
    pub pod_fixed: ResourceList,
}

/// Where the pods of a RuntimeClass run.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RuntimeScheduling {
    /// The labels of their nodes.
    pub node_selector: BTreeMap<String, String>,
    /// The tolerations that they get.
    pub tolerations: Vec<Toleration>,
}
