//! The cluster as a scheduling problem.

use crate::cluster::{Cluster, ClusterNode, Options};
use nodeless_scheduling::{BoundPods, ExistingNode, Problem, existing_node, solve};
use std::collections::{BTreeMap, BTreeSet};

/// Nodes that pods which wait would fit on: the node's name, and one of the pods.
pub(crate) fn wanted_nodes(cluster: &Cluster<'_>, options: &Options) -> BTreeMap<String, String> {
    if cluster.pending_pods.is_empty() {
        return BTreeMap::new();
    }
    let mut problem = problem(cluster, |_| true);
    // What would be launched does not matter here.
    problem.node_pools.clear();
    problem.pods.clone_from(&cluster.pending_pods);
    let solution = solve(&problem, &options.scheduling);
    let mut wanted: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for placement in solution.placements {
        let node = problem.nodes[placement.node].name.clone();
        wanted.entry(node).or_default().insert(problem.pods[placement.pod].key());
    }
    wanted.into_iter().filter_map(|(node, pods)| Some((node, pods.into_iter().next()?))).collect()
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

/// The cluster as a scheduling problem, without pods.
pub(crate) fn problem<'a>(cluster: &Cluster<'a>, keep: impl Fn(&ClusterNode<'_>) -> bool) -> Problem<'a> {
    Problem {
        pods: Vec::new(),
        nodes: places(cluster, keep),
        node_pools: cluster.node_pools.clone(),
        daemon_sets: cluster.daemon_sets,
        volumes: cluster.volumes.clone(),
        bound_pods: bound_pods(cluster),
        ..Problem::default()
    }
}
