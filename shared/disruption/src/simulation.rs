//! The cluster as a scheduling problem.

use crate::cluster::{Cluster, ClusterNode, Options};
use crate::pods;
use crate::reasons::KeptReason;
use nodeless_model::Pod;
use nodeless_scheduling::{BoundPods, ExistingNode, Problem, existing_node, solve};
use std::collections::BTreeMap;

/// The pods that are on their way to nodes: those that wait, and those whose nodes are going away.
#[derive(Debug, Default)]
pub(crate) struct Expected<'a> {
    /// By the node where they fit.
    pub(crate) by_node: BTreeMap<String, Vec<&'a Pod>>,
    /// How many of them wait rather than leave another node, by node: those come first in the lists.
    waiting: BTreeMap<String, usize>,
}

impl<'a> Expected<'a> {
    pub(crate) fn of(cluster: &Cluster<'a>, options: &Options) -> Self {
        let leaving = cluster.nodes.iter().filter(|node| node.is_leaving());
        let moving = leaving.flat_map(|node| pods::reschedulable(&node.pods));
        let waiting = cluster.pending_pods.len();
        let all: Vec<&Pod> = cluster.pending_pods.iter().copied().chain(moving).collect();
        if all.is_empty() {
            return Self::default();
        }
        let mut problem = problem(cluster, |_| true);
        // What would be launched does not matter here.
        problem.node_pools.clear();
        problem.pods = all;
        let solution = solve(&problem, &options.scheduling);
        let mut expected = Self::default();
        for placement in solution.placements {
            let node = &problem.nodes[placement.node].name;
            expected.by_node.entry(node.clone()).or_default().push(problem.pods[placement.pod]);
            if placement.pod < waiting {
                *expected.waiting.entry(node.clone()).or_default() += 1;
            }
        }
        expected
    }

    /// Why a node stays: a pod that fits there, the first by name, those that wait before those that have to move.
    pub(crate) fn wants(&self, node: &str) -> Option<KeptReason> {
        let pods = self.by_node.get(node)?;
        let waiting = self.waiting.get(node).copied().unwrap_or(0);
        let first = |pods: &[&Pod]| pods.iter().map(|pod| pod.key()).min();
        match first(&pods[..waiting]) {
            Some(pod) => Some(KeptReason::PendingPod(pod)),
            None => first(pods).map(KeptReason::MovingPod),
        }
    }
}

/// The nodes of the cluster as places for pods.
fn places(cluster: &Cluster<'_>, keep: impl Fn(&ClusterNode<'_>) -> bool) -> Vec<ExistingNode> {
    let staying = cluster.nodes.iter().filter(|node| !node.is_leaving() && keep(node));
    staying.filter_map(|node| existing_node(node.node, node.claim, &node.pods, cluster.daemon_sets).ok()).collect()
}

/// The pods that run, by node, for topology constraints: those of leaving nodes too, until they are placed elsewhere.
fn bound_pods<'a>(cluster: &Cluster<'a>) -> Vec<BoundPods<'a>> {
    let nodes = cluster.nodes.iter().filter_map(|node| Some((node.node?, &node.pods)));
    nodes.map(|(node, pods)| BoundPods::on(node, pods.clone())).collect()
}

/// The cluster as a scheduling problem, without pods, with those nodes that `keep` keeps.
pub(crate) fn problem<'a>(cluster: &Cluster<'a>, keep: impl Fn(&ClusterNode<'_>) -> bool) -> Problem<'a> {
    Problem {
        pods: Vec::new(),
        nodes: places(cluster, keep),
        node_pools: cluster.node_pools.clone(),
        daemon_sets: cluster.daemon_sets,
        volumes: cluster.volumes.clone(),
        volume_drivers: cluster.volume_drivers.clone(),
        volume_limits: cluster.volume_limits.clone(),
        bound_pods: bound_pods(cluster),
        namespaces: cluster.namespaces.clone(),
    }
}
