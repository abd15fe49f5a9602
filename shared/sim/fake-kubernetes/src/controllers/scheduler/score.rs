//! The best of the feasible nodes: the least allocated one, as by default in Kubernetes, after preferences.

use super::filter::Cluster;
use super::info::{NodeInfo, PodInfo};
use super::topology::Spread;
use nodeless_model::{Taint, TaintEffect};

/// Weights of the kube-scheduler's default profile.
const TAINTS: i64 = 3;
const AFFINITY: i64 = 2;
const SPREAD: i64 = 2;

/// The index of the best of these nodes; of equal ones the first by name.
pub(super) fn best(cluster: &Cluster, pod: &PodInfo, fitting: &[usize], spreads: &[Spread<'_>]) -> Option<usize> {
    let nodes: Vec<&NodeInfo> = fitting.iter().map(|index| &cluster.nodes[*index]).collect();
    let repelled = normalized(nodes.iter().map(|node| repelling_taints(pod, node)), true);
    let preferred = normalized(nodes.iter().map(|node| preference(pod, node)), false);
    let crowded = normalized(nodes.iter().map(|node| spreads.iter().map(|it| it.neighbours(node)).sum()), true);
    let score = |at: usize| {
        least_allocated(pod, nodes[at]) + TAINTS * repelled[at] + AFFINITY * preferred[at] + SPREAD * crowded[at]
    };
    let mut order: Vec<usize> = (0..nodes.len()).collect();
    order.sort_by_key(|at| (std::cmp::Reverse(score(*at)), nodes[*at].name.clone()));
    order.first().map(|at| fitting[*at])
}

/// Scales the scores to 0 to 100; reversed, the highest score gets 0.
fn normalized(values: impl Iterator<Item = i64>, reversed: bool) -> Vec<i64> {
    let values: Vec<i64> = values.collect();
    let greatest = values.iter().copied().max().unwrap_or(0);
    let share = |value: i64| if greatest == 0 { 0 } else { value * 100 / greatest };
    values.into_iter().map(|value| if reversed { 100 - share(value) } else { share(value) }).collect()
}

fn repelling_taints(pod: &PodInfo, node: &NodeInfo) -> i64 {
    let repels = |taint: &&Taint| taint.effect == TaintEffect::PreferNoSchedule && !pod.tolerates(taint);
    i64::try_from(node.taints.iter().filter(repels).count()).unwrap_or(i64::MAX)
}

fn preference(pod: &PodInfo, node: &NodeInfo) -> i64 {
    pod.preferred.iter().filter(|(_, term)| term.matches(node)).map(|(weight, _)| weight).sum()
}

/// The fraction of cpu and memory that would be left, from 0 to 100.
fn least_allocated(pod: &PodInfo, node: &NodeInfo) -> i64 {
    let left = |name: &str| {
        let whole = node.allocatable.get(name).milli();
        let used = (node.requested.get(name) + pod.requests.get(name)).milli();
        if whole <= 0 { 0 } else { i64::try_from(i128::from(whole - used) * 100 / i128::from(whole)).unwrap_or(0) }
    };
    (left("cpu") + left("memory")) / 2
}
