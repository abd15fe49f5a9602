//! Which nodes are unhealthy, and what node repair does about each.

use crate::cluster::{Cluster, ClusterNode, Options};
use crate::policy::budgets::Budgets;
use crate::reasons::zonal_shift;
use jiff::{SignedDuration, Timestamp};
use nodeless_model::node::NodeCondition;
use nodeless_model::{DisruptionReason, Node, labels};
use nodeless_scheduling::failed_to_initialize;
use std::collections::BTreeMap;
use std::time::Duration;

/// What is done about an unhealthy condition.
struct Policy {
    /// How long the condition is tolerated.
    toleration: SignedDuration,
    /// How long the drain may take before pods are deleted forcefully, or restart with the node.
    drain: Duration,
    /// Whether a reboot may help.
    reboots: bool,
}

/// An unhealthy condition of a node. The order is that in which their tolerations end.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Symptom {
    due: Timestamp,
    message: String,
    drain: Duration,
    reboots: bool,
}

/// The unhealthy conditions by Karpenter's policies for EC2, with the unhealthy status, of which `None` means unknown: the kubelet's own,
/// and those of EKS's node monitoring agent.
const CONDITIONS: [(&str, Option<bool>); 7] = [
    ("Ready", Some(false)),
    ("Ready", None),
    (ACCELERATORS, Some(false)),
    ("StorageReady", Some(false)),
    ("NetworkingReady", Some(false)),
    ("KernelReady", Some(false)),
    ("ContainerRuntimeReady", Some(false)),
];

/// The condition of GPUs and other accelerators.
const ACCELERATORS: &str = "AcceleratedHardwareReady";

/// The XID errors of NVIDIA's driver after which a GPU works no more, as in Karpenter's policies.
const FATAL_XIDS: [u32; 19] = [46, 48, 54, 62, 63, 64, 74, 79, 95, 109, 110, 119, 120, 136, 140, 143, 155, 156, 158];
/// Those of them that a reboot does not repair.
const REPLACED_XIDS: [u32; 5] = [64, 74, 79, 119, 120];

/// No node is repaired while more than this fraction of a NodePool's nodes, rounded up, is unhealthy: then the cause is
/// elsewhere, and replacing nodes does not help. Nodes that were never initialized are removed nevertheless, because no pod serves
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
    /// How long its drain may take before pods are deleted forcefully.
    pub drain: Duration,
    /// The action.
    pub verdict: Verdict,
}

/// The action for an unhealthy node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The node may recover until it is due.
    Wait,
    /// The node is replaced: a command launches what its pods need, and drains it then.
    Repair,
    /// The node is drained, and its instance rebooted.
    Reboot,
    /// The node, which was never initialized, is terminated at once. Its pods are not evicted first, because it is unknown whether they
    /// still run.
    Terminate,
    /// The node is due and not repaired, for example because too many are unhealthy at the same time. This is the message of the
    /// event `NodeRepairBlocked`.
    Blocked(String),
}

/// All managed nodes that are unhealthy, in the order of their names, and the action.
///
/// For the circuit breaker, a node counts as unhealthy from the moment a condition is unhealthy, as in Karpenter. Nodes that are
/// already terminating or being rebooted are not repaired, but count.
#[must_use]
pub fn unhealthy(cluster: &Cluster<'_>, options: &Options, now: Timestamp) -> Vec<Unhealthy> {
    let mut found = found(cluster, options, now);
    apply_budgets(cluster, &mut found, now);
    found.sort_by(|a, b| a.node.cmp(&b.node));
    found
}

/// The nodes to replace, whatever the budgets allow. Those that have been unhealthy for longest are first.
pub(super) fn due(cluster: &Cluster<'_>, options: &Options, now: Timestamp) -> Vec<Unhealthy> {
    let mut found = found(cluster, options, now);
    found.retain(|one| one.verdict == Verdict::Repair);
    found
}

fn found(cluster: &Cluster<'_>, options: &Options, now: Timestamp) -> Vec<Unhealthy> {
    let counts = counts(cluster);
    let staying = cluster.nodes.iter().filter(|node| !node.is_leaving() && !node.is_rebooting());
    let mut found: Vec<Unhealthy> = staying.filter_map(|node| one(cluster, node, &counts, options, now)).collect();
    found.sort_by(|a, b| (a.due, &a.node).cmp(&(b.due, &b.node)));
    found
}

/// Blocks the repairs that the disruption budgets for the reason `Unhealthy` do not allow. A node that was never initialized serves no
/// pods: it needs no budget, and uses none.
fn apply_budgets(cluster: &Cluster<'_>, found: &mut [Unhealthy], now: Timestamp) {
    let mut budgets = Budgets::of_repair(cluster, now);
    for one in found.iter_mut().filter(|one| matches!(one.verdict, Verdict::Repair | Verdict::Reboot)) {
        let Some(pool) = &one.node_pool else { continue };
        if let Err(why) = budgets.take(pool, DisruptionReason::Unhealthy) {
            one.verdict = Verdict::Blocked(why.to_string());
        }
    }
}

/// How many nodes each NodePool has, and how many of them are unhealthy.
type Counts<'c> = BTreeMap<&'c str, (usize, usize)>;

fn counts<'c>(cluster: &'c Cluster<'_>) -> Counts<'c> {
    let mut counts = Counts::new();
    for of in &cluster.nodes {
        let (Some(node), Some(pool)) = (of.node, of.node_pool()) else { continue };
        let (total, unhealthy) = counts.entry(pool).or_default();
        *total += 1;
        *unhealthy += usize::from(symptoms(node, None).next().is_some());
    }
    counts
}

fn one(
    cluster: &Cluster<'_>,
    of: &ClusterNode<'_>,
    counts: &Counts<'_>,
    options: &Options,
    now: Timestamp,
) -> Option<Unhealthy> {
    let (node, claim) = (of.node?, of.claim?);
    let Symptom { due, message, drain, .. } = symptoms(node, claim.back_since()).min()?;
    let overdue: Vec<Symptom> = symptoms(node, claim.back_since()).filter(|one| one.due <= now).collect();
    let verdict = match verdict(cluster, of, node, counts, now) {
        _ if due > now => Verdict::Wait,
        Verdict::Repair if may_reboot(of, node, &overdue, options, now) => Verdict::Reboot,
        verdict => verdict,
    };
    Some(Unhealthy {
        node: node.name.clone(),
        node_claim: claim.name.clone(),
        node_pool: claim.node_pool.clone(),
        message,
        due,
        // The shortest drain of all conditions that are no longer tolerated.
        drain: overdue.iter().map(|one| one.drain).min().unwrap_or(drain),
        verdict,
    })
}

/// Whether the instance of a node is rebooted before the node is replaced: for faults of GPUs that this may repair, twice within a day at
/// most, and not again if the node was not ready after that. The reboot is proved by the boot id.
fn may_reboot(of: &ClusterNode<'_>, node: &Node, overdue: &[Symptom], options: &Options, now: Timestamp) -> bool {
    options.reboot_for_repair
        && overdue.iter().all(|one| one.reboots)
        && !node.boot_id.is_empty()
        && of.undecoded.is_empty()
        && of.claim.is_some_and(|claim| claim.status.command.is_none() && claim.may_be_rebooted(now))
}

/// The action for a node whose condition is no longer tolerated.
fn verdict(cluster: &Cluster<'_>, of: &ClusterNode<'_>, node: &Node, counts: &Counts<'_>, now: Timestamp) -> Verdict {
    let Some(pool) = of.node_pool() else {
        return Verdict::Blocked(
            "its NodeClaim has no NodePool, which could launch a replacement: delete the NodeClaim if its pods may go"
                .to_owned(),
        );
    };
    // During a zonal shift the cause is known, and not the node.
    if let Some((zone, until)) = cluster.shifted(of) {
        return Verdict::Blocked(format!("{}: no node there is repaired", zonal_shift(zone, until)));
    }
    if node.annotations.get(labels::DO_NOT_REPAIR).is_some_and(|value| value == "true") {
        return Verdict::Blocked(format!("Node {} has the annotation {}", node.name, labels::DO_NOT_REPAIR));
    }
    let (total, bad) = counts.get(pool).copied().unwrap_or_default();
    let most = (total * MAX_UNHEALTHY_PERCENT).div_ceil(100);
    if bad > most && !failed_to_initialize(node, of.claim, now) {
        return Verdict::Blocked(format!(
            "{bad} of {total} nodes of NodePool {pool} are unhealthy, more than {MAX_UNHEALTHY_PERCENT}%: none is repaired"
        ));
    }
    if of.is_initialized() { Verdict::Repair } else { Verdict::Terminate }
}

/// The unhealthy conditions of a node, which was ready again at this time after a reboot, if it was rebooted.
fn symptoms(node: &Node, back_since: Option<Timestamp>) -> impl Iterator<Item = Symptom> {
    node.conditions.iter().filter_map(move |condition| {
        let Policy { toleration, drain, reboots } = policy(condition)?;
        // As in Karpenter, no condition is older than its node, and one without a transition time is as old. If both times are unknown,
        // it may have changed just now.
        let since = condition.since.max(node.created).max(back_since)?;
        Some(Symptom { due: since.checked_add(toleration).ok()?, message: message(condition, since), drain, reboots })
    })
}

fn policy(condition: &NodeCondition) -> Option<Policy> {
    let (kind, _) = CONDITIONS.iter().find(|(kind, bad)| *kind == condition.kind && *bad == condition.status)?;
    let code = xid(&condition.reason).filter(|code| *kind == ACCELERATORS && FATAL_XIDS.contains(code));
    let (toleration, drain) = if code.is_some() { (10, 5) } else { (30, 10) };
    Some(Policy {
        toleration: SignedDuration::from_mins(toleration),
        drain: Duration::from_mins(drain),
        reboots: code.is_some_and(|code| !REPLACED_XIDS.contains(&code)),
    })
}

/// The code in a reason such as `NvidiaXID79Error`.
fn xid(reason: &str) -> Option<u32> {
    let (_, code) = reason.split_once("XID")?;
    let end = code.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(code.len());
    code.get(..end)?.parse().ok()
}

fn message(condition: &NodeCondition, since: Timestamp) -> String {
    let status = match condition.status {
        Some(true) => "True",
        Some(false) => "False",
        None => "Unknown",
    };
    let reason = if condition.reason.is_empty() { String::new() } else { format!(" ({})", condition.reason) };
    format!("its condition {} has been {status} since {since}{reason}", condition.kind)
}
