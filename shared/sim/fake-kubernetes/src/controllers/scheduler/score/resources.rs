//! `NodeResourcesFit` with `LeastAllocated`, and `NodeResourcesBalancedAllocation`.

use super::MAX;
use crate::controllers::scheduler::info::{NodeInfo, PodInfo};
use nodeless_model::ResourceList;

/// The mean of the percentages of cpu and memory that are left with the pod on the node.
pub(super) fn least_allocated(pod: &PodInfo, node: &NodeInfo) -> i64 {
    let left = |name: &str| {
        let whole = amount(&node.allocatable, name);
        let used = amount(&node.scored, name) + amount(&pod.scored_requests, name);
        (whole > 0).then(|| (whole - used).max(0) * MAX / whole)
    };
    let parts: Vec<i64> = ["cpu", "memory"].into_iter().filter_map(left).collect();
    parts.iter().sum::<i64>().checked_div(i64::try_from(parts.len()).unwrap_or(0)).unwrap_or(0)
}

/// The score of the change that the pod makes to the balance between the used fractions of cpu and memory, by the formula of Kubernetes
/// 1.36; 1.33 scores the balance with the pod. A pod that requests neither scores 0.
pub(super) fn balanced_allocation(pod: &PodInfo, node: &NodeInfo) -> i64 {
    if ["cpu", "memory"].iter().all(|name| amount(&pod.requests, name) == 0) {
        return 0;
    }
    let mut requested = node.requested.clone();
    let without = balance(node, &requested);
    requested.add(&pod.requests);
    MAX / 2 + (MAX / 2 + balance(node, &requested) - without) / 2
}

/// 100 less the standard deviation of the used percentages of cpu and memory, rounded down. Floating point, because kube-scheduler
/// rounds down what its floating point numbers give.
fn balance(node: &NodeInfo, requested: &ResourceList) -> i64 {
    let fraction = |name: &str| {
        let whole = amount(&node.allocatable, name);
        (whole != 0).then(|| (amount(requested, name) as f64 / whole as f64).min(1.0))
    };
    let deviation = match (fraction("cpu"), fraction("memory")) {
        (Some(cpu), Some(memory)) => ((cpu - memory) / 2.0).abs(),
        _ => 0.0,
    };
    ((1.0 - deviation) * MAX as f64) as i64
}

/// Thousandths of cpu, bytes of memory.
fn amount(list: &ResourceList, name: &str) -> i64 {
    let quantity = list.get(name);
    if name == "cpu" { quantity.milli() } else { quantity.units() }
}
