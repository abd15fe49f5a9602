//! `PodTopologySpread`: the fewer matching pods in the domains of a node, the higher its score.
//!
//! The constraints with `ScheduleAnyway` count, and for a pod without any constraints those of [`PodInfo::default_spread`].

use super::MAX;
use crate::controllers::scheduler::cluster::Cluster;
use crate::controllers::scheduler::info::{NodeInfo, PodInfo};
use crate::controllers::scheduler::spec::TopologySpread;
use std::collections::BTreeMap;

const HOSTNAME: &str = "kubernetes.io/hostname";

/// The scores of these nodes. Nodes without the label of a constraint of the pod itself get 0.
pub(super) fn scores(cluster: &Cluster, pod: &PodInfo, nodes: &[&NodeInfo]) -> Vec<i64> {
    let own = pod.topology_spread.iter().filter(|constraint| !constraint.is_hard());
    let constraints: Vec<&TopologySpread> =
        if pod.topology_spread.is_empty() { pod.default_spread.iter().collect() } else { own.collect() };
    if constraints.is_empty() {
        return vec![0; nodes.len()];
    }
    let labels_needed = !pod.topology_spread.is_empty();
    let counts = |node: &NodeInfo| {
        !labels_needed || constraints.iter().all(|constraint| node.labels.contains_key(&constraint.topology_key))
    };
    let candidates: Vec<&NodeInfo> = nodes.iter().copied().filter(|node| counts(node)).collect();
    let everywhere: Vec<&NodeInfo> = cluster.nodes.iter().filter(|node| counts(node)).collect();
    let counted: Vec<Counted<'_>> =
        constraints.iter().map(|constraint| Counted::new(pod, constraint, &candidates, &everywhere)).collect();
    let raw = |node: &NodeInfo| counted.iter().map(|it| it.score(pod, node)).sum::<f64>().round() as i64;
    let raw: Vec<Option<i64>> = nodes.iter().map(|node| counts(node).then(|| raw(node))).collect();
    normalized(&raw)
}

/// A constraint, with the number of matching pods in each domain of the candidates.
struct Counted<'a> {
    constraint: &'a TopologySpread,
    /// Empty for the host name: the pods of a node are counted when it is scored.
    domains: BTreeMap<Option<&'a String>, i64>,
    /// `topologyNormalizingWeight`: the logarithm of the number of domains and two.
    weight: f64,
}

impl<'a> Counted<'a> {
    fn new(
        pod: &PodInfo,
        constraint: &'a TopologySpread,
        candidates: &[&'a NodeInfo],
        everywhere: &[&'a NodeInfo],
    ) -> Self {
        let mut domains = BTreeMap::new();
        if constraint.topology_key != HOSTNAME {
            let domain = |node: &'a NodeInfo| node.labels.get(&constraint.topology_key);
            domains.extend(candidates.iter().map(|node| (domain(node), 0)));
            for node in everywhere.iter().filter(|node| constraint.includes(pod, node)) {
                if let Some(count) = domains.get_mut(&domain(node)) {
                    *count += constraint.matching_pods(pod, node);
                }
            }
        }
        let size = if constraint.topology_key == HOSTNAME { candidates.len() } else { domains.len() };
        Self { constraint, domains, weight: ((size + 2) as f64).ln() }
    }

    fn score(&self, pod: &PodInfo, node: &NodeInfo) -> f64 {
        let Some(domain) = node.labels.get(&self.constraint.topology_key) else { return 0.0 };
        let count = if self.constraint.topology_key == HOSTNAME {
            self.constraint.matching_pods(pod, node)
        } else {
            self.domains.get(&Some(domain)).copied().unwrap_or(0)
        };
        count as f64 * self.weight + (self.constraint.max_skew - 1) as f64
    }
}

/// `NormalizeScore` of the plugin.
fn normalized(scores: &[Option<i64>]) -> Vec<i64> {
    let known = || scores.iter().flatten().copied();
    let (least, greatest) = (known().min().unwrap_or(0), known().max().unwrap_or(0));
    let one = |score: &Option<i64>| match score {
        None => 0,
        Some(_) if greatest == 0 => MAX,
        Some(score) => MAX * (greatest + least - score) / greatest,
    };
    scores.iter().map(one).collect()
}
