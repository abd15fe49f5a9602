//! Pods of which a node may run few, and which therefore need most of the remaining nodes.
//!
//! A node takes the pods that match its free capacity best, which says nothing about anti-affinity and spread over hosts. If small
//! pods of such a group are left to the end, each of them needs a node, and nothing else is left to fill it. So a node first takes
//! the pods of the groups that need most of the nodes that are still to be opened.

use crate::bin::Unit;
use crate::filling::Demand;
use crate::pools::{BASE, SetId};
use std::cmp::Reverse;
use std::collections::HashMap;

/// A group that needs this fraction of the remaining nodes gets a place on the next one.
const MOST: f64 = 0.7;

/// A demand of which each node may run only so many pods.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FewPerNode {
    pub(crate) demand: usize,
    pub(crate) pods_per_node: u32,
}

/// The pods that are still pending when a node is opened.
#[derive(Debug, Default)]
pub(crate) struct Remaining {
    /// The number of nodes that a demand needs, and the demand: the most nodes first.
    needed: Vec<(u32, usize)>,
    /// The size of the pending pods by set, and of all.
    by_set: HashMap<SetId, f64>,
    all: f64,
}

impl Remaining {
    /// `largest` is the size of the largest node that may be opened.
    pub(crate) fn of(few: &[FewPerNode], demands: &[Demand], units: &[Unit], largest: f64) -> Self {
        let mut remaining = Self::default();
        if few.is_empty() {
            return remaining;
        }
        for demand in demands {
            let size = demand.size * f64::from(units[demand.unit].pending);
            *remaining.by_set.entry(demand.set).or_default() += size;
            remaining.all += size;
        }
        let needed =
            few.iter().map(|one| (units[demands[one.demand].unit].pending.div_ceil(one.pods_per_node), one.demand));
        let mut needed: Vec<(u32, usize)> = needed
            .filter(|(nodes, demand)| *nodes > 0 && remaining.is_urgent(*nodes, &demands[*demand], largest))
            .collect();
        needed.sort_unstable_by_key(|(nodes, demand)| (Reverse(*nodes), *demand));
        remaining.needed = needed;
        remaining
    }

    /// The demands of which a node of this size should take pods first.
    pub(crate) fn urgent(&self, demands: &[Demand], size: f64) -> Vec<usize> {
        let urgent = self.needed.iter().filter(|(nodes, demand)| self.is_urgent(*nodes, &demands[*demand], size));
        urgent.map(|(_, demand)| *demand).collect()
    }

    /// Whether pods need most of the nodes of a size that all pods with the same requirements fill; those without any can be on
    /// every node.
    fn is_urgent(&self, nodes: u32, demand: &Demand, size: f64) -> bool {
        let fills =
            if demand.set == BASE { self.all } else { self.by_set.get(&demand.set).copied().unwrap_or(self.all) };
        f64::from(nodes) * size >= fills * MOST
    }
}
