//! Node repair: nodes that have been unhealthy for too long are replaced forcefully, unless too many are unhealthy at once.

use crate::cluster::{Cluster, ClusterNode};
use crate::policy::budgets::Budgets;
use crate::reasons::zonal_shift;
use jiff::{SignedDuration, Timestamp};
use nodeless_model::node::NodeCondition;
use nodeless_model::{DisruptionReason, Node, labels};
use nodeless_scheduling::failed_to_initialize;
use std::collections::{BTreeMap, BTreeSet};

/// The toleration duration of a condition.
struct Policy {
    condition: &'static str,
    /// The unhealthy status; `None` means unknown.
    bad: Option<bool>,
    toleration: SignedDuration,
}

const fn policy(condition: &'static str, bad: Option<bool>, minutes: i64) -> Policy {
    Policy { condition, bad, toleration: SignedDuration::from_mins(minutes) }
}

/// Karpenter's policies for EC2: the kubelet's own condition, and those of EKS's node monitoring agent.
const POLICIES: [Policy; 7] = [
    policy("Ready", Some(false), 30),
    policy("Ready", None, 30),
    policy("AcceleratedHardwareReady", Some(false), 10),
    policy("StorageReady", Some(false), 30),
    policy("NetworkingReady", Some(false), 30),
    policy("KernelReady", Some(false), 30),
    policy("ContainerRuntimeReady", Some(false), 30),
];

/// No node is repaired while more than this fraction of a NodePool's nodes, rounded up, is unhealthy: then the cause is
/// elsewhere, and replacing nodes does not help. Nodes that were never initialized are repaired nevertheless, because no pod serves
/// there.
const MAX_UNHEALTHY_PERCENT: usize = 20;

/// An unhealthy node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unhealthy {
    /// The Node.
    pub node: String,
    /// The NodeClaim.
    pub node_claim: String,
    /// The NodePool, if it has one.
    pub node_pool: Option<String>,
    /// The unhealthy condition, in one sentence.
    pub message: String,
    /// When its toleration duration ends.
    pub due: Timestamp,
    /// The action.
    pub verdict: Verdict,
}

/// The action for an unhealthy node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The node may recover until it is due.
    Wait,
    /// The node is terminated at once. Its pods are not evicted first, because it is unknown whether they still run.
    Repair,
    /// The node is due and not repaired, for example because too many are unhealthy at the same time. This is the message of the
    /// event `NodeRepairBlocked`.
    Blocked(String),
}

/// All managed nodes that are unhealthy, in the order of their names, and the action.
///
/// For the circuit breaker, a node counts as unhealthy from the moment a condition is unhealthy, as in Karpenter. Nodes that are
/// already terminating are not repaired, but count.
#[must_use]
pub fn unhealthy(cluster: &Cluster<'_>, now: Timestamp) -> Vec<Unhealthy> {
    let counts = counts(cluster);
    let mut found: Vec<Unhealthy> = cluster
        .nodes
        .iter()
        .filter(|node| !node.is_leaving())
        .filter_map(|node| one(cluster, node, &counts, now))
        .collect();
    // The nodes that have been unhealthy for longest are repaired first.
    found.sort_by(|a, b| (a.due, &a.node).cmp(&(b.due, &b.node)));
    apply_budgets(cluster, &mut found, now);
    found.sort_by(|a, b| a.node.cmp(&b.node));
    found
}

/// Blocks the repairs that the disruption budgets for the reason `Unhealthy` do not allow. A node that was never initialized serves no
/// pods: it needs no budget, and uses none.
fn apply_budgets(cluster: &Cluster<'_>, found: &mut [Unhealthy], now: Timestamp) {
    let initialized = cluster.nodes.iter().filter(|node| node.is_initialized()).filter_map(|node| node.node);
    let initialized: BTreeSet<&str> = initialized.map(|node| node.name.as_str()).collect();
    let mut budgets = Budgets::of_repair(cluster, now);
    for one in found.iter_mut().filter(|one| one.verdict == Verdict::Repair) {
        if !initialized.contains(one.node.as_str()) {
            continue;
        }
        // Without a NodePool there are no budgets.
        let Some(pool) = &one.node_pool else { continue };
        if let Err(why) = budgets.take(pool, DisruptionReason::Unhealthy) {
            one.verdict = Verdict::Blocked(why.to_string());
        }
    }
}

/// How many nodes there are, and how many of them are unhealthy.
type Counts<'c> = BTreeMap<Option<&'c str>, (usize, usize)>;

/// The counts of each NodePool, and of the whole cluster: those count for a node without a NodePool, as in Karpenter
/// (`isClusterHealthy` of `pkg/controllers/node/health/controller.go`).
fn counts<'c>(cluster: &'c Cluster<'_>) -> Counts<'c> {
    let mut counts = Counts::new();
    for (of, node) in cluster.nodes.iter().filter_map(|of| Some((of, of.node?))) {
        let bad = usize::from(worst(node).is_some());
        for key in of.node_pool().map(Some).into_iter().chain([None]) {
            let (total, unhealthy) = counts.entry(key).or_default();
            *total += 1;
            *unhealthy += bad;
        }
    }
    counts
}

fn one(cluster: &Cluster<'_>, of: &ClusterNode<'_>, counts: &Counts<'_>, now: Timestamp) -> Option<Unhealthy> {
    let (node, claim) = (of.node?, of.claim?);
    let (due, message) = worst(node)?;
    let (total, bad) = counts.get(&of.node_pool()).copied().unwrap_or_default();
    let most = (total * MAX_UNHEALTHY_PERCENT).div_ceil(100);
    let verdict = if due > now {
        Verdict::Wait
    } else if let Some((zone, until)) = cluster.shifted(of) {
        // During a zonal shift the cause is known, and not the node.
        Verdict::Blocked(format!("{}: no node there is repaired", zonal_shift(zone, until)))
    } else if node.annotations.get(labels::DO_NOT_REPAIR).is_some_and(|value| value == "true") {
        Verdict::Blocked(format!("Node {} has the annotation {}", node.name, labels::DO_NOT_REPAIR))
    } else if bad > most && !failed_to_initialize(node, of.claim, now) {
        let whose = of.node_pool().map_or("the cluster".to_owned(), |name| format!("NodePool {name}"));
        Verdict::Blocked(format!(
            "{bad} of {total} nodes of {whose} are unhealthy, more than {MAX_UNHEALTHY_PERCENT}%: none is repaired"
        ))
    } else {
        Verdict::Repair
    };
    Some(Unhealthy {
        node: node.name.clone(),
        node_claim: claim.name.clone(),
        node_pool: claim.node_pool.clone(),
        message,
        due,
        verdict,
    })
}

/// The unhealthy condition of a node whose toleration duration ends first, and that time.
fn worst(node: &Node) -> Option<(Timestamp, String)> {
    let bad = node.conditions.iter().filter_map(|condition| {
        let policy =
            POLICIES.iter().find(|policy| policy.condition == condition.kind && policy.bad == condition.status)?;
        // A condition without a transition time may have changed just now, so it does not count.
        let since = condition.since?;
        Some((since.checked_add(policy.toleration).ok()?, message(condition, since)))
    });
    bad.min()
}

fn message(condition: &NodeCondition, since: Timestamp) -> String {
    let status = match condition.status {
        Some(true) => "True",
        Some(false) => "False",
        None => "Unknown",
    };
    format!("its condition {} has been {status} since {since}", condition.kind)
}
