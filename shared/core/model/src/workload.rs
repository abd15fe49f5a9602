//! DaemonSets and PodDisruptionBudgets, reduced to what planning and draining use.

use crate::{LabelSelector, Pod, StringMap};
use serde::{Deserialize, Serialize};

/// A DaemonSet: what every node that suits it will carry.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DaemonSet {
    /// The namespace.
    pub namespace: String,
    /// The name.
    pub name: String,
    /// A pod as the DaemonSet makes it, bound to no node.
    pub template: Pod,
}

/// A PodDisruptionBudget.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PodDisruptionBudget {
    /// The namespace.
    pub namespace: String,
    /// The name.
    pub name: String,
    /// The covered pods; `None` covers none, the empty selector all of the namespace.
    pub selector: Option<LabelSelector>,
    /// How many of the covered pods may be evicted now.
    pub disruptions_allowed: i32,
    /// Whether the budget never allows an eviction (`maxUnavailable` 0 or 0%, or `minAvailable` 100%).
    pub blocks_always: bool,
    /// Whether the budget requires all covered pods to be available, so that it allows no eviction before there are more.
    pub wants_all: bool,
    /// Whether pods that are not ready may always be evicted (`unhealthyPodEvictionPolicy: AlwaysAllow`).
    pub always_allows_unhealthy: bool,
}

impl PodDisruptionBudget {
    /// Whether the budget covers a pod.
    #[must_use]
    pub fn covers(&self, namespace: &str, labels: &StringMap) -> bool {
        self.namespace == namespace && self.selector.as_ref().is_some_and(|selector| selector.matches(labels))
    }
}
