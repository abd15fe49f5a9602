//! DaemonSets and PodDisruptionBudgets, reduced to what planning and draining use.

use crate::{LabelSelector, Pod, StringMap};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fmt;

/// The maximum number of DaemonSets that nodes wait for: each is read while nodes join.
const MAX_AWAITED: usize = 20;

/// A DaemonSet: what every node that suits it will carry.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DaemonSet {
    /// The namespace.
    pub namespace: String,
    /// The name.
    pub name: String,
    /// The uid of the object.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub uid: String,
    /// A pod as the DaemonSet makes it, bound to no node.
    pub template: Pod,
    /// The ResourceQuota of its namespace that allows it no pod, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused_by: Option<RefusingQuota>,
}

impl DaemonSet {
    /// Its name.
    #[must_use]
    pub fn key(&self) -> DaemonSetName {
        DaemonSetName { namespace: self.namespace.clone(), name: self.name.clone() }
    }
}

/// A ResourceQuota that allows no pod.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RefusingQuota {
    /// The name.
    pub quota: String,
    /// Its limit that one pod exceeds, or that requires what the pod does not state, such as `requests.cpu`.
    pub limit: String,
}

/// The name of a DaemonSet. It is written as `namespace/name`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DaemonSetName {
    /// The namespace.
    pub namespace: String,
    /// The name.
    pub name: String,
}

impl DaemonSetName {
    /// The DaemonSets of a list such as that of the annotation `nodeless.sh/wait-for-daemonsets`, each once; `None` if it is not a list of
    /// 1 to 20 DaemonSets.
    #[must_use]
    pub fn listed(text: &str) -> Option<BTreeSet<Self>> {
        let names: Option<BTreeSet<Self>> = text.split(',').map(|name| Self::parse(name.trim())).collect();
        names.filter(|names| names.len() <= MAX_AWAITED)
    }

    fn parse(text: &str) -> Option<Self> {
        let (namespace, name) = text.split_once('/')?;
        let is_name = |text: &str| {
            let allowed =
                |letter: u8| letter.is_ascii_lowercase() || letter.is_ascii_digit() || b"-.".contains(&letter);
            (1..=253).contains(&text.len())
                && text.bytes().all(allowed)
                && text.split('.').all(|part| !part.is_empty() && !part.starts_with('-') && !part.ends_with('-'))
        };
        (is_name(namespace) && is_name(name)).then(|| Self { namespace: namespace.to_owned(), name: name.to_owned() })
    }

    /// Whether it is the name of this DaemonSet.
    #[must_use]
    pub fn is_of(&self, set: &DaemonSet) -> bool {
        self.namespace == set.namespace && self.name == set.name
    }

    /// Whether this DaemonSet controls a pod.
    #[must_use]
    pub fn controls(&self, pod: &Pod) -> bool {
        pod.is_owned_by_daemon_set()
            && pod.namespace == self.namespace
            && pod.owner_name.as_deref() == Some(self.name.as_str())
    }
}

impl fmt::Display for DaemonSetName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(text: &str) -> Option<Vec<String>> {
        Some(DaemonSetName::listed(text)?.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn a_list_has_each_daemon_set_once() {
        assert_eq!(listed("kube-system/ebs-csi-node").unwrap(), ["kube-system/ebs-csi-node"]);
        assert_eq!(listed(" b/two.v1,a/one , b/two.v1").unwrap(), ["a/one", "b/two.v1"]);
    }

    #[test]
    fn another_text_is_no_list() {
        let many = (0..21).map(|number| format!("a/{number}")).collect::<Vec<_>>().join(",");
        let long = format!("a/{}", "b".repeat(254));
        for value in [
            "",
            " ",
            "ebs-csi-node",
            "a/b,",
            "a/b c/d",
            "a/b;c/d",
            "a/b/c",
            "/b",
            "a/",
            "A/b",
            "a/-b",
            "a/../b",
            &many,
            &long,
        ] {
            assert_eq!(listed(value), None, "{value:?}");
        }
    }
}
