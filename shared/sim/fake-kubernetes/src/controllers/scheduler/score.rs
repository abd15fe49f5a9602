//! The best of the feasible nodes, by the sum of scores of kube-scheduler's default profile.

use super::filter::Cluster;
use super::info::{NodeInfo, PodInfo};
use super::topology::Spread;
use nodeless_model::{ResourceList, Taint, TaintEffect};

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
        let resources = least_allocated(pod, nodes[at]) + balanced_allocation(pod, nodes[at]);
        resources + TAINTS * repelled[at] + AFFINITY * preferred[at] + SPREAD * crowded[at]
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

/// The score of `NodeResourcesFit` with `LeastAllocated`: the mean of the percentages of cpu and memory that would be left.
fn least_allocated(pod: &PodInfo, node: &NodeInfo) -> i64 {
    let left = |name: &str| {
        let whole = node.allocatable.get(name).milli();
        let used = (node.scored.get(name) + pod.scored_requests.get(name)).milli();
        (whole > 0).then(|| percent(i128::from(whole - used).max(0), i128::from(whole)))
    };
    let parts: Vec<i64> = ["cpu", "memory"].into_iter().filter_map(left).collect();
    parts.iter().sum::<i64>().checked_div(i64::try_from(parts.len()).unwrap_or(0)).unwrap_or(0)
}

/// The score of `NodeResourcesBalancedAllocation` of Kubernetes 1.36: how much the pod changes the balance between the used shares of
/// cpu and memory. A pod that requests neither has no score.
fn balanced_allocation(pod: &PodInfo, node: &NodeInfo) -> i64 {
    if ["cpu", "memory"].iter().all(|name| pod.requests.get(name).milli() == 0) {
        return 0;
    }
    let mut requested = node.requested.clone();
    let without = balance(node, &requested);
    requested.add(&pod.requests);
    50 + (50 + balance(node, &requested) - without) / 2
}

/// 100 less the standard deviation of the used percentages of cpu and memory, rounded down.
fn balance(node: &NodeInfo, requested: &ResourceList) -> i64 {
    let share = |name: &str| {
        let whole = i128::from(node.allocatable.get(name).milli());
        (i128::from(requested.get(name).milli()).min(whole), whole)
    };
    let ((cpu, all_cpu), (memory, all_memory)) = (share("cpu"), share("memory"));
    let scale = 2 * all_cpu * all_memory;
    percent(scale - (cpu * all_memory - memory * all_cpu).abs(), scale)
}

/// A part of a whole in percent, rounded down; 100 of a whole of zero.
fn percent(part: i128, whole: i128) -> i64 {
    (part * 100).checked_div(whole).and_then(|percent| i64::try_from(percent).ok()).unwrap_or(100)
}

#[cfg(test)]
mod tests {
    use super::{NodeInfo, PodInfo, balanced_allocation, least_allocated};
    use serde_json::json;

    fn node(cpu: &str, memory: &str) -> NodeInfo {
        let status = json!({ "allocatable": { "cpu": cpu, "memory": memory } });
        NodeInfo::new(&json!({ "metadata": { "name": "a" }, "status": status })).unwrap()
    }

    fn pod(requests: &serde_json::Value) -> PodInfo {
        let containers = json!([{ "name": "c", "resources": { "requests": requests } }]);
        PodInfo::new(&json!({ "metadata": { "name": "p" }, "spec": { "containers": containers } })).unwrap()
    }

    #[test]
    fn least_allocated_is_the_mean_of_what_is_left() {
        assert_eq!(least_allocated(&pod(&json!({ "cpu": "1", "memory": "1Gi" })), &node("4", "2Gi")), 62);
        assert_eq!(least_allocated(&pod(&json!({})), &node("1", "400Mi")), 70, "100m and 200Mi by default");
        assert_eq!(least_allocated(&pod(&json!({ "cpu": "1" })), &node("4", "0")), 75, "memory has no weight");
    }

    #[test]
    fn a_pod_that_evens_out_the_shares_is_preferred() {
        let used = std::sync::Arc::new(pod(&json!({ "cpu": "2" })));
        let mut uneven = node("4", "4Gi");
        uneven.add(used);
        let evens = pod(&json!({ "memory": "2Gi" }));
        assert_eq!(balanced_allocation(&evens, &uneven), 87, "75 without it, 100 with it");
        assert_eq!(balanced_allocation(&evens, &node("4", "4Gi")), 62, "100 without it, 75 with it");
        assert_eq!(balanced_allocation(&pod(&json!({})), &uneven), 0, "a pod without requests is not scored");
    }
}
