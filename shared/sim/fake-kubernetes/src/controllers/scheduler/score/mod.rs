//! The scores of the feasible nodes, by the plugins of kube-scheduler's default profile and with its weights.
//!
//! Source: `pkg/scheduler/framework/plugins` and `pkg/scheduler/apis/config/v1/default_plugins.go` of Kubernetes 1.36. Each plugin
//! scores from 0 to 100 ([`MAX`]), and rounds as there. The model in `nodeless-scheduling` is not used here, because tests of
//! nodeless against this scheduler would not find an error that both share.

mod affinity;
mod images;
mod resources;
mod spread;

use super::cluster::Cluster;
use super::info::{NodeInfo, PodInfo};
use nodeless_model::{Taint, TaintEffect};

/// `MaxNodeScore`.
const MAX: i64 = 100;

/// The weights of the default profile that are not 1.
const TAINT_TOLERATION: i64 = 3;
const NODE_AFFINITY: i64 = 2;
const POD_TOPOLOGY_SPREAD: i64 = 2;
const INTER_POD_AFFINITY: i64 = 2;

/// The weighted sums of the scores of these nodes, by their indices.
pub(super) fn scores(cluster: &Cluster, pod: &PodInfo, fitting: &[usize]) -> Vec<i64> {
    let nodes: Vec<&NodeInfo> = fitting.iter().map(|index| &cluster.nodes[*index]).collect();
    let repelled = normalized(nodes.iter().map(|node| repelling_taints(pod, node)), true);
    let preferred = normalized(nodes.iter().map(|node| preference(pod, node)), false);
    let spread = spread::scores(cluster, pod, &nodes);
    let attracted = affinity::scores(cluster, pod, &nodes);
    let images = images::scores(cluster, pod, &nodes);
    let score = |at: usize| {
        let resources =
            resources::least_allocated(pod, nodes[at]) + resources::balanced_allocation(pod, nodes[at]) + images[at];
        let pods = POD_TOPOLOGY_SPREAD * spread[at] + INTER_POD_AFFINITY * attracted[at];
        resources + pods + TAINT_TOLERATION * repelled[at] + NODE_AFFINITY * preferred[at]
    };
    (0..nodes.len()).map(score).collect()
}

/// The index of the best of these nodes. With equal scores, the first by name; kube-scheduler chooses at random.
pub(super) fn best(cluster: &Cluster, pod: &PodInfo, fitting: &[usize]) -> Option<usize> {
    let scores = scores(cluster, pod, fitting);
    let name = |at: usize| &cluster.nodes[fitting[at]].name;
    let best = (0..fitting.len()).min_by_key(|at| (std::cmp::Reverse(scores[*at]), name(*at)));
    best.map(|at| fitting[at])
}

/// `DefaultNormalizeScore`: scaled so that the highest becomes [`MAX`]; reversed, the highest becomes 0.
fn normalized(values: impl Iterator<Item = i64>, reversed: bool) -> Vec<i64> {
    let values: Vec<i64> = values.collect();
    let greatest = values.iter().copied().max().unwrap_or(0);
    let share = |value: i64| if greatest == 0 { 0 } else { value * MAX / greatest };
    values.into_iter().map(|value| if reversed { MAX - share(value) } else { share(value) }).collect()
}

/// The score of `TaintToleration` before it is normalized.
fn repelling_taints(pod: &PodInfo, node: &NodeInfo) -> i64 {
    let repels = |taint: &&Taint| taint.effect == TaintEffect::PreferNoSchedule && !pod.tolerates(taint);
    i64::try_from(node.taints.iter().filter(repels).count()).unwrap_or(i64::MAX)
}

/// The score of `NodeAffinity` before it is normalized.
fn preference(pod: &PodInfo, node: &NodeInfo) -> i64 {
    pod.preferred.iter().filter(|(_, term)| term.matches(node)).map(|(weight, _)| weight).sum()
}

#[cfg(test)]
mod tests;
