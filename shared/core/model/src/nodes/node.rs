//! Nodes, reduced to what planning and the lifecycle of claims use.

use crate::nodes::managed::may_be_managed;
use crate::{ResourceList, StringMap, Taint, labels};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// A node of the cluster, managed or not.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Node {
    /// The name.
    pub name: String,
    /// The unique id.
    pub uid: String,
    /// `aws:///ZONE/INSTANCE-ID`, once the kubelet or the cloud controller has set it.
    pub provider_id: Option<String>,
    /// Labels.
    pub labels: StringMap,
    /// Annotations.
    pub annotations: StringMap,
    /// Finalizers.
    pub finalizers: Vec<String>,
    /// Taints.
    pub taints: Vec<Taint>,
    /// Whether the node is cordoned.
    pub unschedulable: bool,
    /// The capacity.
    pub capacity: ResourceList,
    /// The allocatable resources.
    pub allocatable: ResourceList,
    /// The conditions, including `Ready`.
    pub conditions: Vec<NodeCondition>,
    /// The boot id that the kubelet reports, another one after each boot; empty if it reports none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub boot_id: String,
    /// When it was created.
    pub created: Option<Timestamp>,
    /// The deletion timestamp, if any.
    pub deletion_timestamp: Option<Timestamp>,
}

/// A condition that the kubelet or a monitor reports.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeCondition {
    /// The type, such as `Ready`.
    pub kind: String,
    /// The status; `None` means unknown.
    pub status: Option<bool>,
    /// Since when.
    pub since: Option<Timestamp>,
    /// Why, in one word; empty if it has none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
}

impl Node {
    /// Whether the Ready condition is true.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.conditions.iter().any(|condition| condition.kind == "Ready" && condition.status == Some(true))
    }

    /// When the Ready condition changed last.
    #[must_use]
    pub fn ready_changed(&self) -> Option<Timestamp> {
        self.conditions.iter().find(|condition| condition.kind == "Ready").and_then(|condition| condition.since)
    }

    /// The NodePool. A node that cannot be of nodeless has none, whatever its labels: that of another controller counts as one of a node
    /// group.
    #[must_use]
    pub fn node_pool(&self) -> Option<&str> {
        self.labels.get(labels::NODE_POOL).filter(|_| may_be_managed(&self.labels)).map(String::as_str)
    }

    /// Whether the node is registered.
    #[must_use]
    pub fn is_registered(&self) -> bool {
        self.has_label(labels::REGISTERED, "true")
    }

    /// Whether the node is initialized.
    #[must_use]
    pub fn is_initialized(&self) -> bool {
        self.has_label(labels::INITIALIZED, "true")
    }

    /// Whether a label has exactly this value.
    #[must_use]
    pub fn has_label(&self, key: &str, value: &str) -> bool {
        self.labels.get(key).is_some_and(|actual| actual == value)
    }

    /// Whether the node has a taint with this key and effect.
    #[must_use]
    pub fn has_taint(&self, taint: &Taint) -> bool {
        self.taints.iter().any(|present| present.matches(taint))
    }

    /// The EC2 instance id in its provider id.
    #[must_use]
    pub fn instance_id(&self) -> Option<&str> {
        instance_id(self.provider_id.as_deref()?)
    }
}

/// The EC2 instance id in a provider id of the form `aws:///ZONE/INSTANCE-ID`.
#[must_use]
pub fn instance_id(provider_id: &str) -> Option<&str> {
    let rest = provider_id.strip_prefix("aws://")?;
    rest.rsplit('/').next().filter(|id| id.starts_with("i-"))
}

/// The provider id of an instance.
#[must_use]
pub fn provider_id(zone: &str, instance_id: &str) -> String {
    format!("aws:///{zone}/{instance_id}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_instance_in_a_provider_id() {
        assert_eq!(instance_id("aws:///us-east-1a/i-0123"), Some("i-0123"));
        assert_eq!(instance_id(&provider_id("us-east-1b", "i-9")), Some("i-9"));
        assert_eq!(instance_id("gce:///zone/i-0123"), None);
        assert_eq!(instance_id("aws:///us-east-1a/fargate-10.0.0.1"), None);
    }

    #[test]
    fn a_node_of_another_controller_has_no_node_pool() {
        let labelled = |class: &str| Node {
            labels: [(labels::NODE_POOL, "general-purpose"), (class, "default")]
                .map(|(key, value)| (key.to_owned(), value.to_owned()))
                .into(),
            ..Node::default()
        };
        assert_eq!(labelled(labels::EC2_NODE_CLASS).node_pool(), Some("general-purpose"));
        assert_eq!(labelled("eks.amazonaws.com/nodeclass").node_pool(), None);
    }
}
