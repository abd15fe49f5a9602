//! NodeClaim objects: the record has the rest.

use super::meta;
use crate::custom::common::{NodeClassReference, Requirement, Taint};
use crate::custom::nodeclaim::ResourceRequirements;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Deserialize;

/// A NodeClaim, of which only its own marks are read.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, kube::Resource)]
#[resource(inherit = crate::NodeClaim)]
#[serde(default)]
pub struct NodeClaim {
    /// Name, labels and so on.
    #[serde(deserialize_with = "meta::slim")]
    pub metadata: ObjectMeta,
    /// The node.
    pub spec: NodeClaimSpec,
    /// The status.
    pub status: NodeClaimStatus,
}

/// The node that a NodeClaim describes. Only the expiry and the drain time of one that has a NodePool are used.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeClaimSpec {
    /// The age at which it is replaced by force, or `Never`.
    pub expire_after: Option<String>,
    /// How long the drain may take.
    pub termination_grace_period: Option<String>,
    /// The EC2NodeClass.
    pub node_class_ref: Option<NodeClassReference>,
    /// The requirements for the node's labels.
    pub requirements: Vec<Requirement>,
    /// Taints that the node keeps.
    pub taints: Vec<Taint>,
    /// Taints that something in the cluster removes.
    pub startup_taints: Vec<Taint>,
    /// The minimum resources.
    pub resources: Option<ResourceRequirements>,
}

/// The status of a NodeClaim.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct NodeClaimStatus {
    /// The instance, as the Node names it.
    #[serde(rename = "providerID")]
    pub provider_id: Option<String>,
    /// The conditions.
    pub conditions: Vec<NodeClaimCondition>,
}

/// A condition, without its message and its time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct NodeClaimCondition {
    /// The type, such as `Ready`.
    #[serde(rename = "type")]
    pub kind: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// The reason, in CamelCase.
    pub reason: String,
}
