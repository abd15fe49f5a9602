//! NodeClaim objects: the record has the rest.

use super::meta;
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
    /// How long its node lives, and how long it may drain.
    pub spec: NodeClaimSpec,
    /// What it shows.
    pub status: NodeClaimStatus,
}

/// How long a node lives, and how long it may drain.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeClaimSpec {
    /// The age at which it is replaced by force, or `Never`.
    pub expire_after: Option<String>,
    /// How long its drain may take.
    pub termination_grace_period: Option<String>,
}

/// What a NodeClaim shows.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct NodeClaimStatus {
    /// Its instance, as its Node names it.
    #[serde(rename = "providerID")]
    pub provider_id: Option<String>,
    /// Its conditions.
    pub conditions: Vec<NodeClaimCondition>,
}

/// A condition, without its message and its time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct NodeClaimCondition {
    /// Which.
    #[serde(rename = "type")]
    pub kind: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// One word why.
    pub reason: String,
}
