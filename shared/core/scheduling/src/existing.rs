//! Existing nodes and launching claims as nodes for pods.

use crate::constraints::daemons;
use crate::daemon_sets::{self, OnNode, Ranked};
use crate::problem::ExistingNode;
use jiff::Timestamp;
use nodeless_model::claim::REGISTRATION_TIMEOUT;
use nodeless_model::pod::HostPort;
use nodeless_model::{DaemonSet, Node, NodeClaim, Phase, Pod, Requirements, ResourceList, SharedLabels, Taint, labels};
use std::fmt;
use std::time::Duration;

/// Why a node takes no pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Excluded {
    /// Neither a Node nor a NodeClaim was given.
    Nothing,
    /// The Node is being deleted.
    Deleting,
    /// The NodeClaim is terminating.
    Leaving,
    /// The node is kept warm, and its instance is or will be stopped.
    Warm,
    /// The node was selected for disruption.
    Disrupted,
    /// The node is cordoned.
    Cordoned,
}

impl fmt::Display for Excluded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Nothing => "there is neither a Node nor a NodeClaim",
            Self::Deleting => "the Node is being deleted",
            Self::Leaving => "the NodeClaim is going away",
            Self::Warm => "it is kept as a warm node",
            Self::Disrupted => "it was chosen for disruption",
            Self::Cordoned => "the Node is cordoned",
        })
    }
}

/// The free capacity of a node, from its Node, its NodeClaim, or both, and the pods that are bound to it.
///
/// For many nodes, [`ExistingNodes`] does what is equal for them once.
///
/// # Errors
/// Why no pod must be scheduled there.
pub fn existing_node(
    node: Option<&Node>,
    claim: Option<&NodeClaim>,
    pods: &[&Pod],
    daemon_sets: &[DaemonSet],
) -> Result<ExistingNode, Excluded> {
    ExistingNodes::new(daemon_sets).node(node, claim, pods)
}

/// Converts the nodes of a cluster. What many of them have in common, their labels and the requirements of DaemonSets, is converted and
/// stored once.
#[derive(Debug)]
pub struct ExistingNodes<'d> {
    /// The DaemonSets, in the order in which they get capacity.
    daemon_sets: Vec<Ranked<'d>>,
    labels: SharedLabels,
}

impl<'d> ExistingNodes<'d> {
    /// For the nodes of a cluster with these DaemonSets.
    #[must_use]
    pub fn new(daemon_sets: &'d [DaemonSet]) -> Self {
        Self { daemon_sets: daemon_sets::ranked(daemon_sets, |_| true), labels: SharedLabels::default() }
    }

    /// The free capacity of a node, from its Node, its NodeClaim, or both, and the pods that are bound to it.
    ///
    /// Until a managed node is initialized, its startup taints and the ephemeral taints of Kubernetes do not count, and
    /// resources that the kubelet does not report yet are taken from the claim; until it is registered, its labels and
    /// taints are the claim's. A claim that is not launched yet offers exactly the requests that it was made for.
    ///
    /// # Errors
    /// Why no pod must be scheduled there.
    pub fn node(
        &mut self,
        node: Option<&Node>,
        claim: Option<&NodeClaim>,
        pods: &[&Pod],
    ) -> Result<ExistingNode, Excluded> {
        if let Some(why) = excluded(node, claim) {
            return Err(why);
        }
        let initialized = is_initialized(node, claim);
        let requirements = node_requirements(node, claim, &mut self.labels);
        let taints = effective_taints(node, claim, initialized);
        let present = || pods.iter().filter(|pod| !pod.is_terminal());
        let mut available = allocatable(node, claim);
        let daemons = OnNode::new(&self.daemon_sets, &requirements, &taints, &available);
        let mut reserved = daemons.requests.clone();
        for pod in present() {
            available.subtract(&pod.template.requests);
            if pod.is_owned_by_daemon_set() && !daemons.leaves_out(pod) {
                reserved.subtract(&pod.template.requests);
            }
        }
        for (resource, quantity) in reserved.iter() {
            if quantity.milli() > 0 {
                available.set(resource, available.get(resource) - quantity);
            }
        }
        // Beside pods that leave no space for them, the pods of DaemonSets stay pending.
        let is_overdrawn = available.iter().any(|(_, left)| left.milli() < 0);
        let expected = if is_overdrawn { Vec::new() } else { daemons.expected(pods) };
        let daemon_ports = daemons.sets.iter().flat_map(|(_, set)| &set.template.template.host_ports);
        let mut host_ports: Vec<HostPort> =
            present().flat_map(|pod| &pod.template.host_ports).chain(daemon_ports).cloned().collect();
        host_ports.sort();
        host_ports.dedup();
        Ok(ExistingNode {
            name: node
                .map(|node| node.name.clone())
                .or_else(|| claim.map(|claim| claim.name.clone()))
                .unwrap_or_default(),
            node_claim: claim.map(|claim| claim.name.clone()),
            node_pool: match claim {
                Some(claim) => claim.node_pool.clone(),
                None => node.and_then(Node::node_pool).map(str::to_owned),
            },
            initialized,
            requirements,
            taints,
            available,
            host_ports,
            daemon_sets: expected,
            nominated: claim.map(|claim| claim.spec.nominated_pods.clone()).unwrap_or_default(),
        })
    }
}

/// Whether the labels of a node, and these taints of it, allow a pod of a DaemonSet.
#[must_use]
pub fn may_carry(node: &Node, set: &DaemonSet, taints: &[Taint]) -> bool {
    daemons::runs_on_node(&set.template, &node_requirements(Some(node), None, &mut SharedLabels::default()), taints)
}

/// The first of these taints that keeps the pods of a DaemonSet off a node.
#[must_use]
pub fn first_not_tolerated<'a>(set: &DaemonSet, taints: &'a [Taint]) -> Option<&'a Taint> {
    taints.iter().find(|taint| !daemons::tolerates(&set.template, std::slice::from_ref(taint)))
}

/// Whether a managed node was never initialized and has been not ready for longer than the time that a launched instance has to
/// register. Such a node is not expected to become ready any more, so no pod must be scheduled there.
#[must_use]
pub fn failed_to_initialize(node: &Node, claim: Option<&NodeClaim>, now: Timestamp) -> bool {
    let ready = node.conditions.iter().find(|condition| condition.kind == "Ready");
    let since = match ready {
        Some(ready) if ready.status == Some(true) => None,
        Some(ready) => ready.since.or(node.created),
        None => node.created,
    };
    let timed_out = |since| Duration::try_from(now.duration_since(since)).is_ok_and(|it| it >= REGISTRATION_TIMEOUT);
    claim.is_some() && !is_initialized(Some(node), claim) && since.is_some_and(timed_out)
}

fn excluded(node: Option<&Node>, claim: Option<&NodeClaim>) -> Option<Excluded> {
    if node.is_none() && claim.is_none() {
        return Some(Excluded::Nothing);
    }
    if claim.is_some_and(|claim| claim.phase.is_leaving()) {
        return Some(Excluded::Leaving);
    }
    if claim.is_some_and(NodeClaim::is_warm) {
        return Some(Excluded::Warm);
    }
    let node = node?;
    if node.deletion_timestamp.is_some() {
        return Some(Excluded::Deleting);
    }
    if node.has_taint(&Taint::disrupted()) {
        return Some(Excluded::Disrupted);
    }
    node.unschedulable.then_some(Excluded::Cordoned)
}

/// Unmanaged nodes count as initialized: only Kubernetes prepares them. A node that is rebooted is to be initialized again, so that no
/// other is launched for its pods.
fn is_initialized(node: Option<&Node>, claim: Option<&NodeClaim>) -> bool {
    match (node, claim) {
        (None, _) => false,
        (Some(node), Some(claim)) => {
            claim.rebooting().is_none() && (claim.phase >= Phase::Initialized || node.is_initialized())
        }
        (Some(node), None) => node.node_pool().is_none() || node.is_initialized(),
    }
}

fn is_registered(node: &Node, claim: &NodeClaim) -> bool {
    claim.phase >= Phase::Registered || node.is_registered()
}

fn node_requirements(node: Option<&Node>, claim: Option<&NodeClaim>, shared: &mut SharedLabels) -> Requirements {
    match (node, claim) {
        (Some(node), Some(claim)) if !is_registered(node, claim) => claim_requirements(claim, &node.name, shared),
        (Some(node), _) => with_host_name(shared.requirements(&node.labels), &node.name),
        (None, Some(claim)) => claim_requirements(claim, &claim.name, shared),
        (None, None) => Requirements::new(),
    }
}

/// A launched claim has its labels; a claim that is not launched yet may get any value of its requirements.
fn claim_requirements(claim: &NodeClaim, host_name: &str, shared: &mut SharedLabels) -> Requirements {
    let mut requirements = shared.requirements(&claim.node_labels());
    if claim.status.instance.is_none() {
        for (key, requirement) in claim.spec.requirements.iter() {
            if requirements.get(key).is_none() {
                requirements.add(key, requirement.clone());
            }
        }
    }
    with_host_name(requirements, host_name)
}

fn with_host_name(mut requirements: Requirements, host_name: &str) -> Requirements {
    if requirements.get(labels::HOSTNAME).is_none() {
        requirements.add(labels::HOSTNAME, nodeless_model::Requirement::one_of([host_name]));
    }
    requirements
}

fn effective_taints(node: Option<&Node>, claim: Option<&NodeClaim>, initialized: bool) -> Vec<Taint> {
    let actual = match (node, claim) {
        (Some(node), Some(claim)) if !is_registered(node, claim) => &claim.spec.taints,
        (Some(node), _) => &node.taints,
        (None, Some(claim)) => &claim.spec.taints,
        (None, None) => return Vec::new(),
    };
    let startup = claim.map_or(&[][..], |claim| &claim.spec.startup_taints);
    let goes_by_itself = |taint: &Taint| taint.is_ephemeral() || startup.iter().any(|known| known.matches(taint));
    actual.iter().filter(|taint| initialized || !goes_by_itself(taint)).cloned().collect()
}

fn allocatable(node: Option<&Node>, claim: Option<&NodeClaim>) -> ResourceList {
    let mut allocatable = node.map(|node| node.allocatable.clone()).unwrap_or_default();
    let Some(claim) = claim else { return allocatable };
    if is_initialized(node, Some(claim)) {
        return allocatable;
    }
    let expected = if claim.status.allocatable.is_empty() { &claim.spec.requests } else { &claim.status.allocatable };
    for (resource, quantity) in expected.iter() {
        if allocatable.get(resource).is_zero() {
            allocatable.set(resource, quantity);
        }
    }
    allocatable
}
