//! ProvisioningRequest: capacity for all pods of a job, or for none.

use crate::custom::common::Condition;
use crate::custom::rules::{self, rules};
use kube::CustomResource;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

/// The name of a class or a PodTemplate.
const SUBDOMAIN: &str = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$";

/// The pods that need capacity together.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[kube(
    group = "autoscaling.x-k8s.io",
    version = "v1",
    kind = "ProvisioningRequest",
    plural = "provisioningrequests",
    singular = "provisioningrequest",
    shortname = "provreq",
    shortname = "provreqs",
    category = "autoscaling",
    namespaced,
    status = "ProvisioningRequestStatus",
    derive = "PartialEq",
    derive = "Default",
    doc = "A ProvisioningRequest asks for capacity for a number of pods together, and reports whether it exists.",
    printcolumn(
        name = "Class",
        type_ = "string",
        json_path = ".spec.provisioningClassName",
        description = "The class."
    ),
    printcolumn(
        name = "Provisioned",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Provisioned\")].status",
        description = "Whether the capacity exists."
    ),
    printcolumn(
        name = "Failed",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Failed\")].status",
        description = "Whether it failed."
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp", description = "Its age.")
)]
pub struct ProvisioningRequestSpec {
    /// The pods, by PodTemplate.
    #[schemars(length(min = 1, max = 32), extend("x-kubernetes-validations" = immutable()))]
    pub pod_sets: Vec<PodSet>,
    /// What is done for the request: `check-capacity.autoscaling.x-k8s.io` finds capacity on existing nodes;
    /// `best-effort-atomic-scale-up.autoscaling.x-k8s.io` also launches nodes, for all pods or for none.
    #[schemars(length(max = 253), regex(pattern = SUBDOMAIN), extend("x-kubernetes-validations" = immutable()))]
    pub provisioning_class_name: String,
    /// Parameters of the class, such as `ValidUntilSeconds`: the seconds after its creation at which a request fails that is not
    /// provisioned.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "parameters")]
    pub parameters: BTreeMap<String, String>,
}

/// Pods of one PodTemplate.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PodSet {
    /// The PodTemplate, in the same namespace, that defines the pods.
    pub pod_template_ref: NamedPodTemplate,
    /// The number of pods.
    #[schemars(range(min = 1))]
    pub count: i32,
}

/// A PodTemplate by name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NamedPodTemplate {
    /// The name of the PodTemplate.
    #[schemars(length(max = 253), regex(pattern = SUBDOMAIN))]
    pub name: String,
}

/// The status of a ProvisioningRequest.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProvisioningRequestStatus {
    /// Accepted, Provisioned, Failed and BookingExpired.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "rules::conditions")]
    pub conditions: Vec<Condition>,
    /// Further values of the class.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "details")]
    pub provisioning_class_details: BTreeMap<String, String>,
}

fn immutable() -> Value {
    rules(&[("Value is immutable", "self == oldSelf")])
}

fn parameters(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "maxProperties": 100,
        "additionalProperties": { "type": "string", "maxLength": 255 },
        "x-kubernetes-validations": immutable(),
    })
}

fn details(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "maxProperties": 64,
        "additionalProperties": { "type": "string", "maxLength": 32768 },
    })
}
