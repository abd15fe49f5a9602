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

#[cfg(test)]
mod tests {
    use super::*;

    const ZONE: SetId = 1;

    fn demand(unit: usize, set: SetId) -> Demand {
        Demand { unit, class: unit, alternative: 0, set, worth: 1.0, size: 1.0, portions: 0 }
    }

    fn units(pending: &[u32]) -> Vec<Unit> {
        let one = |(class, pending): (usize, &u32)| Unit {
            class,
            alternatives: vec![0],
            target: Vec::new(),
            assigned: *pending,
            pending: *pending,
        };
        pending.iter().enumerate().map(one).collect()
    }

    fn few(pods_per_node: &[(usize, u32)]) -> Vec<FewPerNode> {
        pods_per_node
            .iter()
            .map(|(demand, pods_per_node)| FewPerNode { demand: *demand, pods_per_node: *pods_per_node })
            .collect()
    }

    #[test]
    fn groups_that_need_most_of_the_remaining_nodes_come_first() {
        // 100 pods on nodes of ten are ten nodes: groups of seven pods and more are urgent.
        let demands: Vec<Demand> = (0..5).map(|unit| demand(unit, BASE)).collect();
        let units = units(&[6, 7, 9, 0, 78]);
        let remaining = Remaining::of(&few(&[(0, 1), (1, 1), (2, 1), (3, 1)]), &demands, &units, 20.0);
        assert_eq!(remaining.urgent(&demands, 10.0), [2, 1]);
        // Smaller nodes are more nodes.
        assert!(remaining.urgent(&demands, 5.0).is_empty());
        assert_eq!(remaining.urgent(&demands, 20.0), [2, 1, 0]);
    }

    #[test]
    fn pods_that_may_share_a_node_need_fewer() {
        let demands: Vec<Demand> = (0..2).map(|unit| demand(unit, BASE)).collect();
        let units = units(&[10, 90]);
        let urgent = |each: u32| Remaining::of(&few(&[(0, each)]), &demands, &units, 10.0).urgent(&demands, 10.0);
        assert_eq!(urgent(1), [0]);
        assert!(urgent(2).is_empty());
    }

    #[test]
    fn pods_of_a_zone_are_compared_with_the_pods_there() {
        let demands = [demand(0, ZONE), demand(1, ZONE), demand(2, 2), demand(3, BASE)];
        let units = units(&[3, 27, 300, 3]);
        // Three of three nodes in the zone, but of 33 nodes in all zones.
        let remaining = Remaining::of(&few(&[(0, 1), (3, 1)]), &demands, &units, 10.0);
        assert_eq!(remaining.urgent(&demands, 10.0), [0]);
    }

    #[test]
    fn without_such_groups_no_pod_is_urgent() {
        let demands = [demand(0, BASE)];
        assert!(Remaining::of(&[], &demands, &units(&[100]), 10.0).urgent(&demands, 10.0).is_empty());
    }
}
