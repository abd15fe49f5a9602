//! Why other nodes do not take a pod, for the details of one node.

use super::round::{Round, Setting, prepared, takes_pods};
use crate::candidates::{Eligible, Lookup, consolidatable_from};
use crate::cluster::{Cluster, ClusterNode, Options};
use crate::reasons::zonal_shift;
use crate::simulation::Expected;
use crate::simulation::packed::Obstacle;
use jiff::Timestamp;
use nodeless_model::resources::compared;
use nodeless_model::{NillableDuration, Quantity};
use serde::Serialize;
use std::collections::BTreeMap;

/// A pod that fits on no other node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct UnplacedPod {
    /// The pod, `namespace/name`.
    pub pod: String,
    /// Every other node, in the order of their names.
    pub nodes: Vec<OtherNode>,
}

/// A node that does not take a pod.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct OtherNode {
    /// The node.
    pub node: String,
    /// The reason.
    pub why: String,
}

/// The first pod of a node, the largest first, that fits on no other node, and why each other node does not take it; `None` if
/// all pods fit individually.
pub(crate) fn unplaced<'c, 'a>(
    cluster: &'c Cluster<'a>,
    one: &Eligible<'c, 'a>,
    lookup: &Lookup<'c, 'a>,
    expected: &'c Expected<'a>,
    options: &Options,
    now: Timestamp,
) -> Option<UnplacedPod> {
    let mut prepared = prepared(&[], cluster, std::slice::from_ref(one), options);
    let mut round =
        Round::new(cluster, std::slice::from_ref(one), lookup, expected, Setting { options, now }, &mut prepared);
    let candidate = round.candidates.first()?;
    let (movers, own) = (candidate.movers.clone(), candidate.leaf);
    round.close(0);
    let moves = round.packed.place(&movers, false);
    round.packed.undo(&movers, &moves);
    let stuck = movers.get(*moves.left.first()?)?;
    let mut nodes: BTreeMap<String, String> = cluster
        .nodes
        .iter()
        .filter(|node| node.name() != one.of.name())
        .map(|node| (node.name().to_owned(), closed_to_all(cluster, node, now)))
        .collect();
    for (leaf, node) in round.packed.problem.nodes.iter().enumerate().filter(|(leaf, _)| *leaf != own) {
        nodes.insert(node.name.clone(), in_full(round.packed.obstacle(stuck.class, leaf)));
    }
    let nodes = nodes.into_iter().map(|(node, why)| OtherNode { node, why }).collect();
    Some(UnplacedPod { pod: stuck.pod.key(), nodes })
}

/// Why a node accepts no pods at all.
fn closed_to_all(cluster: &Cluster<'_>, node: &ClusterNode<'_>, now: Timestamp) -> String {
    if node.is_leaving() {
        return "it is terminating".to_owned();
    }
    if !node.is_initialized() && node.is_managed() {
        return "it is not initialized yet".to_owned();
    }
    if node.node.is_some_and(|node| node.unschedulable) {
        return "it is cordoned".to_owned();
    }
    if let Some((zone, until)) = cluster.shifted(node) {
        return zonal_shift(zone, until);
    }
    if let (Some(claim), false) = (node.claim, takes_pods(cluster, node, now)) {
        let pool = cluster.node_pools.iter().find(|offer| claim.is_of(&offer.pool.name));
        let after = pool.map_or(NillableDuration::Never, |offer| offer.pool.disruption.consolidate_after);
        if let Some((_, until)) = consolidatable_from(claim, after) {
            return format!("consolidateAfter protects it until {until:.0}");
        }
    }
    "it accepts no pods".to_owned()
}

fn in_full(obstacle: Obstacle<'_>) -> String {
    match obstacle {
        Obstacle::InsufficientResource { resource, asked, free } => {
            let [asked, free] = compared(resource, [asked, free.max(0)].map(Quantity::from_milli));
            format!("insufficient {resource}: {asked} requested, {free} free")
        }
        Obstacle::OtherPods => "it fits alone, but not together with the other pods that have to move".to_owned(),
        other => other.to_string(),
    }
}
