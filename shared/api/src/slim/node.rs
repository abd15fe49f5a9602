//! Nodes.

use super::meta;
use crate::custom::common::ResourceList;
use k8s_openapi::api::core::v1 as corev1;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use serde::Deserialize;

/// A node.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, kube::Resource)]
#[resource(inherit = corev1::Node)]
#[serde(default)]
pub struct Node {
    /// Name, labels and so on.
    #[serde(deserialize_with = "meta::slim")]
    pub metadata: ObjectMeta,
    /// The taints and the instance.
    pub spec: NodeSpec,
    /// The resources and conditions.
    pub status: NodeStatus,
}

/// The taints and the instance of a node.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeSpec {
    /// The instance, as `aws:///ZONE/INSTANCE`.
    #[serde(rename = "providerID")]
    pub provider_id: Option<String>,
    /// The taints.
    pub taints: Vec<NodeTaint>,
    /// Whether the node is cordoned.
    pub unschedulable: bool,
}

/// A taint as a Node has it. Nothing but the API server checked it, so the effect is a text here.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeTaint {
    /// The key.
    pub key: String,
    /// The value.
    pub value: String,
    /// The effect.
    pub effect: String,
    /// When it was added, for some of Kubernetes' own.
    pub time_added: Option<Time>,
}

/// The resources and conditions of a node.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeStatus {
    /// Everything.
    pub capacity: ResourceList,
    /// The resources that pods may use.
    pub allocatable: ResourceList,
    /// Ready and the like.
    pub conditions: Vec<NodeCondition>,
    /// The operating system.
    pub node_info: NodeInfo,
}

/// The operating system of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct NodeInfo {
    /// Another one after each boot.
    #[serde(rename = "bootID")]
    pub boot_id: String,
}

/// A condition of a node.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeCondition {
    /// The type, such as `Ready`.
    #[serde(rename = "type")]
    pub type_: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// Why.
    pub reason: Option<String>,
    /// When the status last changed.
    pub last_transition_time: Option<Time>,
}
