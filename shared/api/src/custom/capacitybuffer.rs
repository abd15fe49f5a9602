//! CapacityBuffer: capacity that is kept free for pods that do not exist yet.

use crate::custom::common::{Condition, ResourceList};
use crate::custom::rules::{self, rules};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The capacity to keep free.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[kube(
    group = "autoscaling.x-k8s.io",
    version = "v1beta1",
    kind = "CapacityBuffer",
    plural = "capacitybuffers",
    singular = "capacitybuffer",
    shortname = "cb",
    category = "autoscaling",
    namespaced,
    status = "CapacityBufferStatus",
    derive = "PartialEq",
    derive = "Default",
    doc = "A CapacityBuffer keeps capacity free for pods that do not exist yet.",
    printcolumn(
        name = "Strategy",
        type_ = "string",
        json_path = ".spec.provisioningStrategy",
        description = "The strategy."
    ),
    printcolumn(
        name = "PodTemplate",
        type_ = "string",
        json_path = ".status.podTemplateRef.name",
        description = "The PodTemplate in use."
    ),
    printcolumn(
        name = "Replicas",
        type_ = "integer",
        json_path = ".status.replicas",
        description = "How many chunks it has."
    ),
    printcolumn(
        name = "ConditionsType",
        type_ = "string",
        json_path = ".status.conditions[*].type",
        description = "The types of its conditions."
    ),
    printcolumn(
        name = "ConditionsStatus",
        type_ = "string",
        json_path = ".status.conditions[*].status",
        description = "The statuses of its conditions."
    ),
    printcolumn(
        name = "ConditionsReason",
        type_ = "string",
        json_path = ".status.conditions[*].reason",
        description = "The reasons of its conditions."
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp", description = "Its age.")
)]
#[schemars(extend("x-kubernetes-validations" = rules(&[
    (
        "If podTemplateRef is set, replicas or limits must also be set",
        "!has(self.podTemplateRef) || has(self.replicas) || has(self.limits)",
    ),
    (
        "You must define either PodTemplateRef or ScalableRef, but not both",
        "!(has(self.podTemplateRef) && has(self.scalableRef))",
    ),
])))]
pub struct CapacityBufferSpec {
    /// The strategy by which the buffer is provided; `buffer.x-k8s.io/active-capacity` keeps nodes for it.
    #[serde(default = "default_strategy")]
    pub provisioning_strategy: String,
    /// The PodTemplate, in the same namespace, that defines what one chunk looks like.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod_template_ref: Option<PodTemplateReference>,
    /// The workload, in the same namespace, whose pods define what one chunk looks like.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scalable_ref: Option<ScalableReference>,
    /// The number of chunks. With `percentage` the greater of the two counts.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub replicas: Option<i32>,
    /// The number of chunks as a percentage of the workload's replicas, rounded up.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub percentage: Option<i32>,
    /// The maximum requests of all chunks together. Without `replicas` and `percentage` there are as many chunks as fit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "rules::resource_list")]
    pub limits: Option<ResourceList>,
}

fn default_strategy() -> String {
    nodeless_model::buffer::ACTIVE_CAPACITY.to_owned()
}

/// A PodTemplate by name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PodTemplateReference {
    /// The name of the PodTemplate.
    #[schemars(length(min = 1))]
    pub name: String,
}

/// A workload by name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ScalableReference {
    /// The API group, `apps`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api_group: Option<String>,
    /// The kind: Deployment, StatefulSet or ReplicaSet.
    #[schemars(length(min = 1))]
    pub kind: String,
    /// The name of the workload.
    #[schemars(length(min = 1))]
    pub name: String,
}

/// The status of a CapacityBuffer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CapacityBufferStatus {
    /// The PodTemplate in use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod_template_ref: Option<PodTemplateReference>,
    /// The generation of the PodTemplate in use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod_template_generation: Option<i64>,
    /// How many chunks it has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
    /// The strategy in use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provisioning_strategy: Option<String>,
    /// ReadyForProvisioning and Provisioning.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "rules::conditions")]
    pub conditions: Vec<Condition>,
}
