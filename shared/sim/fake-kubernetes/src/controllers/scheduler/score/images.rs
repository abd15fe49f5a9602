//! `ImageLocality`: the more of a pod's images a node has, by their sizes, and the more nodes have them, the higher its score.

use super::MAX;
use crate::controllers::scheduler::cluster::Cluster;
use crate::controllers::scheduler::info::{NodeInfo, PodInfo};

/// The sum of sizes in bytes up to which the score is 0, and the sum for each container from which it is 100.
const MIN_BYTES: i64 = 23 << 20;
const MAX_BYTES: i64 = 1000 << 20;

/// The scores of these nodes.
pub(super) fn scores(cluster: &Cluster, pod: &PodInfo, nodes: &[&NodeInfo]) -> Vec<i64> {
    let spread = |image: &String| {
        let having = cluster.nodes.iter().filter(|node| node.images.contains_key(image)).count();
        having as f64 / cluster.nodes.len() as f64
    };
    let spreads: Vec<(&String, f64)> = pod.images.iter().map(|image| (image, spread(image))).collect();
    let max = MAX_BYTES * i64::try_from(pod.containers).unwrap_or(i64::MAX / MAX_BYTES);
    let score = |node: &NodeInfo| {
        let size = |(image, spread): &(&String, f64)| Some((*node.images.get(*image)? as f64 * spread) as i64);
        let sum: i64 = spreads.iter().filter_map(size).sum();
        if max <= MIN_BYTES { 0 } else { MAX * (sum.clamp(MIN_BYTES, max) - MIN_BYTES) / (max - MIN_BYTES) }
    };
    nodes.iter().map(|node| score(node)).collect()
}
