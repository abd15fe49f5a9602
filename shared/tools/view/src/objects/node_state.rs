//! The state of a node, and what its drain waits for.

use crate::objects::claim::ClaimFacts;
use crate::objects::pod::PodFacts;
use jiff::Timestamp;
use nodeless_model::claim::condition;
use nodeless_model::{Node, PodDisruptionBudget, Taint};
use serde::Serialize;
use std::sync::Arc;

/// The state of a node. Where several hold, the first in this order is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum NodeState {
    /// The instance is being terminated.
    Terminating,
    /// The pods are being evicted.
    Draining,
    /// The node was selected for disruption, and its replacements are not ready yet.
    Disrupted,
    /// The node has joined, and is not initialized.
    Joining,
    /// The condition Ready is not true.
    NotReady,
    /// The node is cordoned.
    Cordoned,
    /// The node is ready.
    Ready,
}

/// A pod that a drain waits for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Waiting {
    /// `namespace/name`.
    pub pod: String,
    /// Why it is still on the node.
    pub why: String,
    /// Whether it is being deleted, and so ends by itself.
    #[serde(skip)]
    pub(crate) ends: bool,
}

impl NodeState {
    /// The state of a node.
    pub(crate) fn new(node: &Node, claim: Option<&ClaimFacts>) -> Self {
        let has = |kind: &str| claim.is_some_and(|claim| claim.has(kind));
        let drains = claim
            .is_some_and(|claim| claim.deletion_timestamp.is_some() || claim.condition(condition::DRAINED).is_some());
        if has(condition::INSTANCE_TERMINATING) {
            Self::Terminating
        } else if drains || node.deletion_timestamp.is_some() {
            Self::Draining
        } else if has(condition::DISRUPTION_REASON) || node.has_taint(&Taint::disrupted()) {
            Self::Disrupted
        } else if node.node_pool().is_some() && !node.is_initialized() {
            Self::Joining
        } else if !node.is_ready() {
            Self::NotReady
        } else if node.unschedulable {
            Self::Cordoned
        } else {
            Self::Ready
        }
    }

    /// The name in text.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Terminating => "terminating",
            Self::Draining => "draining",
            Self::Disrupted => "disrupted",
            Self::Joining => "joining",
            Self::NotReady => "not ready",
            Self::Cordoned => "cordoned",
            Self::Ready => "ready",
        }
    }
}

/// The pods that a drain waits for.
pub(crate) fn waiting(pods: &[Arc<PodFacts>], budgets: &Blocking<'_>, now: Timestamp) -> Vec<Waiting> {
    let held = pods.iter().filter(|pod| pod.holds_drain(now));
    held.map(|pod| Waiting { pod: pod.key(), why: why(pod, budgets, now), ends: pod.ends.is_some() }).collect()
}

fn why(pod: &PodFacts, budgets: &Blocking<'_>, now: Timestamp) -> String {
    if let Some(end) = pod.ends {
        return format!("it is being deleted; its grace period ends at {end:.0}");
    }
    if pod.is_protected(now) {
        return "karpenter.sh/do-not-disrupt protects it".to_owned();
    }
    match budgets.budgets_for(pod).first() {
        Some(budget) => format!("PodDisruptionBudget {} allows no disruption", budget.name),
        None => "it is not evicted yet".to_owned(),
    }
}

/// The PodDisruptionBudgets that allow no disruption now.
pub(crate) struct Blocking<'b>(Vec<&'b PodDisruptionBudget>);

impl<'b> Blocking<'b> {
    pub(crate) fn new(budgets: impl Iterator<Item = &'b PodDisruptionBudget>) -> Self {
        Self(budgets.filter(|budget| budget.disruptions_allowed <= 0).collect())
    }

    /// The budgets that cover a pod.
    pub(crate) fn budgets_for(&self, pod: &PodFacts) -> Vec<&'b PodDisruptionBudget> {
        self.0.iter().copied().filter(|budget| budget.covers(&pod.namespace, &pod.labels)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{at, claim_value, cluster, node_value, pod_value};
    use crate::objects::decode::ShownKind;
    use crate::picture::Picture;
    use nodeless_catalog::Catalog;
    use serde_json::{Value, json};

    fn state_of(node: Value, claim: Option<Value>) -> NodeState {
        let claim = claim.map(|claim| (ShownKind::NodeClaim, claim));
        let cluster = cluster(&[(ShownKind::Node, node)].into_iter().chain(claim).collect::<Vec<_>>());
        Picture::new(&cluster, &Catalog::embedded().unwrap(), at(10)).nodes[0].state
    }

    #[test]
    fn the_state_is_that_of_conditions_taints_and_labels() {
        let node = || node_value("a", "m5.xlarge");
        let claim = |conditions: &[&str]| Some(claim_value("c", Some("a"), conditions));
        let all = ["Launched", "Registered", "Initialized"];
        assert_eq!(state_of(node(), None), NodeState::Ready);
        assert_eq!(state_of(node(), claim(&all)), NodeState::Ready);
        let with = |kind: &'static str| claim(&[&all[..], &[kind]].concat());
        assert_eq!(state_of(node(), with("DisruptionReason")), NodeState::Disrupted);
        assert_eq!(state_of(node(), with("Drained")), NodeState::Draining);
        assert_eq!(state_of(node(), with("InstanceTerminating")), NodeState::Terminating);
        let mut tainted = node();
        tainted["spec"]["taints"] = json!([{ "key": "karpenter.sh/disrupted", "effect": "NoSchedule" }]);
        assert_eq!(state_of(tainted, None), NodeState::Disrupted);
        let mut joining = node();
        joining["metadata"]["labels"].as_object_mut().unwrap().remove("karpenter.sh/initialized");
        assert_eq!(state_of(joining.clone(), None), NodeState::Joining);
        joining["metadata"]["labels"].as_object_mut().unwrap().remove("karpenter.sh/nodepool");
        assert_eq!(state_of(joining, None), NodeState::Ready, "a node of no NodePool is never initialized");
        let mut cordoned = node();
        cordoned["spec"]["unschedulable"] = json!(true);
        assert_eq!(state_of(cordoned, None), NodeState::Cordoned);
        let mut lost = node();
        lost["status"]["conditions"][0]["status"] = json!("Unknown");
        assert_eq!(state_of(lost, None), NodeState::NotReady);
    }

    #[test]
    fn a_drain_names_the_pods_it_waits_for_and_why() {
        let protected = |mut pod: Value| {
            pod["metadata"]["annotations"] = json!({ "karpenter.sh/do-not-disrupt": "true" });
            pod
        };
        let mut ends = pod_value("ends", Some("a"));
        ends["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:10:30Z");
        let mut stays = pod_value("stays", Some("a"));
        stays["spec"]["tolerations"] = json!([{ "operator": "Exists" }]);
        let budget = json!({
            "metadata": { "name": "db", "namespace": "shop" },
            "spec": { "maxUnavailable": 0, "selector": { "matchLabels": { "app": "db" } } },
            "status": { "disruptionsAllowed": 0 }
        });
        let cluster = cluster(&[
            (ShownKind::Node, node_value("a", "m5.xlarge")),
            (ShownKind::NodeClaim, claim_value("c", Some("a"), &["Initialized", "Drained"])),
            (ShownKind::Pod, pod_value("db", Some("a"))),
            (ShownKind::Pod, ends),
            (ShownKind::Pod, pod_value("free", Some("a"))),
            (ShownKind::Pod, protected(pod_value("kept", Some("a")))),
            (ShownKind::Pod, stays),
            (ShownKind::PodDisruptionBudget, budget),
        ]);
        let picture = Picture::new(&cluster, &Catalog::embedded().unwrap(), at(10));
        let all = picture.nodes[0].waits_for.iter().map(|one| format!("{}: {}", one.pod, one.why)).collect::<Vec<_>>();
        assert_eq!(
            all,
            [
                "shop/db: PodDisruptionBudget db allows no disruption",
                "shop/ends: it is being deleted; its grace period ends at 2026-01-01T00:10:30Z",
                "shop/free: it is not evicted yet",
                "shop/kept: karpenter.sh/do-not-disrupt protects it",
            ]
        );
    }
}
