//! `InterPodAffinity`: preferred affinity and anti-affinity between the pod and the pods that run, in both directions.

use super::MAX;
use crate::controllers::scheduler::cluster::Cluster;
use crate::controllers::scheduler::info::{NodeInfo, PodInfo};
use crate::controllers::scheduler::spec::PodTerm;
use crate::controllers::scheduler::topology::meant;
use std::collections::BTreeMap;

/// `hardPodAffinityWeight`: the weight of the required affinity of a running pod to the pod.
const REQUIRED: i64 = 1;

/// The scores of these nodes.
pub(super) fn scores(cluster: &Cluster, pod: &PodInfo, nodes: &[&NodeInfo]) -> Vec<i64> {
    let sums = sums(cluster, pod);
    let of = |node: &NodeInfo| {
        let there = |(key, value): &(&str, &str)| node.labels.get(*key).is_some_and(|label| label == value);
        sums.iter().filter(|(domain, _)| there(domain)).map(|(_, sum)| sum).sum::<i64>()
    };
    let raw: Vec<i64> = nodes.iter().map(|node| of(node)).collect();
    normalized(&raw)
}

/// The sums of weights by topology key and domain.
fn sums<'a>(cluster: &'a Cluster, pod: &'a PodInfo) -> BTreeMap<(&'a str, &'a str), i64> {
    let mut sums = BTreeMap::new();
    for node in &cluster.nodes {
        let mut add = |term: &'a PodTerm, weight: i64| {
            if let Some(domain) = node.labels.get(&term.topology_key) {
                *sums.entry((term.topology_key.as_str(), domain.as_str())).or_insert(0) += weight;
            }
        };
        for other in &node.pods {
            let preferred = pod.preferred_pods.iter().filter(|(_, term)| meant(cluster, pod, term, other));
            preferred.for_each(|(weight, term)| add(term, *weight));
            let required = other.attracted.iter().filter(|term| meant(cluster, other, term, pod));
            required.for_each(|term| add(term, REQUIRED));
            let preferring = other.preferred_pods.iter().filter(|(_, term)| meant(cluster, other, term, pod));
            preferring.for_each(|(weight, term)| add(term, *weight));
        }
    }
    sums
}

/// `NormalizeScore` of the plugin: from the lowest to the highest.
fn normalized(scores: &[i64]) -> Vec<i64> {
    let least = scores.iter().copied().min().unwrap_or(0);
    let difference = scores.iter().copied().max().unwrap_or(0) - least;
    let share = |score: i64| if difference > 0 { (score - least) as f64 / difference as f64 } else { 0.0 };
    scores.iter().map(|score| (MAX as f64 * share(*score)) as i64).collect()
}
