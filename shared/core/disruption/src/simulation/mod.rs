//! The cluster as a scheduling problem: whether the pods of nodes fit elsewhere, and what new nodes for them cost.

pub(crate) mod buffers;
pub(crate) mod launch_types;
pub(crate) mod node_prices;
pub(crate) mod packed;
pub(crate) mod preferences;

use crate::cluster::{Cluster, ClusterNode, Options};
use crate::pods::{self, DisruptionBudgetIndex};
use crate::reasons::KeptReason;
use jiff::Timestamp;
use nodeless_model::hashed::{HashMap, HashSet};
use nodeless_model::{Node, Pod, labels};
use nodeless_scheduling::{BoundPods, ExistingNode, ExistingNodes, Problem, solve};
use std::collections::BTreeMap;

/// The expected pods of nodes: pending pods, and pods whose nodes are terminating.
#[derive(Debug, Default)]
pub(crate) struct Expected<'a> {
    /// By the node where they fit.
    pub(crate) by_node: BTreeMap<String, Vec<&'a Pod>>,
    /// The pending pods among them.
    waiting: BTreeMap<String, Vec<&'a Pod>>,
    /// By host, a claim for its local volume.
    local_volumes: BTreeMap<&'a str, &'a str>,
}

/// The target of a pod by a command.
pub(crate) enum Home<'k> {
    Node(&'k str),
    /// A node that is launched for it.
    New,
}

/// The targets of pods by commands in progress, by `namespace/name`.
#[derive(Default)]
pub(crate) struct Known<'k>(HashMap<&'k str, Option<&'k str>>);

impl<'k> Known<'k> {
    pub(crate) fn new(cluster: &Cluster<'k>) -> Self {
        // A node that does not exist any more takes no pods.
        let staying: HashSet<&str> =
            cluster.nodes.iter().filter(|node| !node.is_leaving()).map(|node| node.name()).collect();
        let mut known = HashMap::default();
        for command in &cluster.under_way {
            let placed = command.placements.iter().filter(|to| staying.contains(to.node.as_str()));
            known.extend(placed.map(|to| (to.pod.as_str(), Some(to.node.as_str()))));
            known.extend(command.replacements.iter().flat_map(|one| &one.pods).map(|pod| (pod.as_str(), None)));
        }
        if !known.is_empty() {
            // Once the claim of a replacement is written, its capacity is reserved.
            for node in cluster.nodes.iter().filter(|node| staying.contains(node.name())) {
                let made = node.claim.filter(|claim| !claim.spec.replaces.is_empty());
                for pod in made.into_iter().flat_map(|claim| &claim.spec.nominated_pods) {
                    if let Some(home @ None) = known.get_mut(pod.as_str()) {
                        *home = node_name(node);
                    }
                }
            }
        }
        Self(known)
    }

    pub(crate) fn home(&self, pod: &Pod) -> Option<Home<'k>> {
        if self.0.is_empty() {
            return None;
        }
        self.0.get(pod.key().as_str()).map(|node| node.map_or(Home::New, Home::Node))
    }
}

/// In terms of the snapshot, unlike [`ClusterNode::name`].
fn node_name<'k>(node: &ClusterNode<'k>) -> Option<&'k str> {
    node.node.map(|node| node.name.as_str()).or_else(|| node.claim.map(|claim| claim.name.as_str()))
}

impl<'a> Expected<'a> {
    pub(crate) fn new(cluster: &Cluster<'a>, options: &Options, now: Timestamp) -> Self {
        let hosts = cluster.facts.volume_hosts.iter();
        let local = hosts.flat_map(|(claim, hosts)| hosts.iter().map(|host| (host.as_str(), claim.as_str())));
        let mut expected = Self { local_volumes: local.collect(), ..Self::default() };
        let known = Known::new(cluster);
        let budget_index = DisruptionBudgetIndex::new(cluster.disruption_budgets);
        let mut moving: Vec<&'a Pod> = Vec::new();
        let leaving = cluster.nodes.iter().filter(|node| node.is_leaving());
        // A pod that may stay on its node for a long time prevents no other node's removal.
        let leaving = leaving.flat_map(|node| {
            let budget_index = &budget_index;
            // The successor of a surge is a pod of its own.
            let surged = move |pod: &Pod| node.claim.is_some_and(|claim| claim.status.replaces_pod(&pod.uid));
            pods::reschedulable(&node.pods).filter(move |pod| !surged(pod) && !budget_index.holds(pod, node.claim, now))
        });
        for pod in leaving {
            match known.home(pod) {
                Some(Home::Node(node)) => expected.by_node.entry(node.to_owned()).or_default().push(pod),
                Some(Home::New) => {}
                None => moving.push(pod),
            }
        }
        moving.extend(pods::reschedulable(&cluster.orphans).filter(|pod| known.home(pod).is_none()));
        let planned: usize = expected.by_node.values().map(Vec::len).sum();
        let waiting = cluster.pending_pods.len();
        let all: Vec<&Pod> = cluster.pending_pods.iter().copied().chain(moving).collect();
        if all.is_empty() {
            return expected;
        }
        let mut problem = problem(cluster, |_| true);
        if problem.nodes.is_empty() {
            return expected;
        }
        if planned > 0 {
            expected.subtract_expected(&mut problem);
        }
        // Launches are irrelevant here.
        problem.node_pools.clear();
        problem.pods = all;
        let solution = solve(&problem, &options.scheduling);
        for placement in solution.placements {
            let node = &problem.nodes[placement.node].name;
            let pod = problem.pods[placement.pod];
            expected.by_node.entry(node.clone()).or_default().push(pod);
            if placement.pod < waiting {
                expected.waiting.entry(node.clone()).or_default().push(pod);
            }
        }
        expected
    }

    /// The expected pods: those that have to leave a node, and pending ones.
    pub(crate) fn coming_to(&self, node: &str) -> (Vec<&'a Pod>, Vec<&'a Pod>) {
        let waiting = self.waiting.get(node).cloned().unwrap_or_default();
        let all = self.by_node.get(node).into_iter().flatten().copied();
        let leaving = all.filter(|pod| !waiting.iter().any(|one| std::ptr::eq(*one, *pod)));
        (leaving.collect(), waiting)
    }

    /// The pending pods of a cluster that fit on no node.
    pub(crate) fn unplaced(&self, cluster: &Cluster<'a>) -> Vec<&'a Pod> {
        let placed: HashSet<*const Pod> = self.waiting.values().flatten().map(|pod| std::ptr::from_ref(*pod)).collect();
        let waiting = cluster.pending_pods.iter().copied();
        waiting.filter(|pod| !placed.contains(&std::ptr::from_ref(*pod))).collect()
    }

    /// Subtracts the requests of the expected pods from the nodes of a problem, and counts these pods only on their target nodes.
    pub(crate) fn subtract_expected(&self, problem: &mut Problem<'a>) {
        if self.by_node.is_empty() {
            return;
        }
        let moved: HashSet<(&str, &str)> =
            self.by_node.values().flatten().map(|pod| (pod.namespace.as_str(), pod.name.as_str())).collect();
        for bound in &mut problem.bound_pods {
            bound.pods.retain(|pod| !moved.contains(&(pod.namespace.as_str(), pod.name.as_str())));
            bound.pods.extend(self.by_node.get(bound.name).into_iter().flatten());
        }
        for node in &mut problem.nodes {
            for pod in self.by_node.get(&node.name).into_iter().flatten() {
                node.available.subtract(pod.template.next_requests());
                node.host_ports.extend(pod.template.host_ports.iter().cloned());
            }
        }
    }

    /// Why a node stays that has the data of pods: they could use it on no other node.
    pub(crate) fn local_volume(&self, node: &Node) -> Option<KeptReason> {
        let claim = self.local_volumes.get(node.labels.get(labels::HOSTNAME).unwrap_or(&node.name).as_str())?;
        Some(KeptReason::LocalVolume { claim: (*claim).to_owned() })
    }

    /// Why a node stays: a pod that fits there, the first by name, pending pods before those that have to move.
    pub(crate) fn reason_to_keep(&self, node: &str) -> Option<KeptReason> {
        let pods = self.by_node.get(node)?;
        let first = |pods: &[&Pod]| pods.iter().map(|pod| pod.key()).min();
        match self.waiting.get(node).and_then(|pods| first(pods)) {
            Some(pod) => Some(KeptReason::PendingPod(pod)),
            None => first(pods).map(KeptReason::MovingPod),
        }
    }
}

/// The nodes of the cluster that can take pods, except for those in zones that are shifted away from.
fn places(cluster: &Cluster<'_>, keep: impl Fn(&ClusterNode<'_>) -> bool) -> Vec<ExistingNode> {
    let staying = cluster.nodes.iter().filter(|node| !node.is_leaving() && keep(node));
    let staying = staying.filter(|node| cluster.shifted(node).is_none());
    let mut converted = ExistingNodes::new(cluster.daemon_sets);
    staying.filter_map(|node| node.existing(&mut converted)).collect()
}

/// The running pods, by node, for topology constraints, including those of terminating nodes until they are scheduled elsewhere.
pub(crate) fn bound_pods<'a>(cluster: &Cluster<'a>) -> Vec<BoundPods<'a>> {
    let nodes = cluster.nodes.iter().filter_map(|node| Some((node.node?, &node.pods)));
    nodes.map(|(node, pods)| BoundPods::on(node, pods.clone())).collect()
}

/// The cluster as a scheduling problem, without pods, with the nodes for which `keep` is true.
pub(crate) fn problem<'a>(cluster: &Cluster<'a>, keep: impl Fn(&ClusterNode<'_>) -> bool) -> Problem<'a> {
    Problem {
        pods: Vec::new(),
        nodes: places(cluster, keep),
        node_pools: cluster.node_pools.clone(),
        daemon_sets: cluster.daemon_sets,
        bound_pods: bound_pods(cluster),
        facts: cluster.facts,
    }
}
