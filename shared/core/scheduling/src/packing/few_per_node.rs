//! Pods of which a node may run few, and which therefore need most of the remaining nodes.
//!
//! A node takes the pods that match its free capacity best, whatever their anti-affinity and spread over hosts. If small pods of
//! such a group are left to the end, each of them needs a node, and nothing else is left to fill it. So a node first takes the
//! pods of the groups that need most of the nodes that are still to be opened.

use crate::packing::bin::Unit;
use crate::packing::demand::Demand;
use crate::pools::BASE;
use std::cmp::Reverse;

/// A group that needs this fraction of the remaining nodes gets a place on the next one.
const MIN_NODE_SHARE: f64 = 0.7;

/// A demand of which each node may run only so many pods.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FewPerNode {
    pub(crate) demand: usize,
    pub(crate) pods_per_node: u32,
}

/// The size of the pending pods, by set and of all: kept while pods are placed, because it is needed for each node.
#[derive(Debug, Default)]
pub(crate) struct PendingSizes {
    by_set: Vec<f64>,
    all: f64,
}

impl PendingSizes {
    pub(crate) fn new(demands: &[Demand], units: &[Unit]) -> Self {
        let sets = demands.iter().map(|demand| demand.set + 1).max().unwrap_or(0);
        let mut sizes = Self { by_set: vec![0.0; sets], all: 0.0 };
        demands.iter().for_each(|demand| sizes.add(demand, f64::from(units[demand.unit].pending)));
        sizes
    }

    /// Removes pods that were placed.
    pub(crate) fn remove(&mut self, demand: &Demand, pods: u32) {
        self.add(demand, -f64::from(pods));
    }

    fn add(&mut self, demand: &Demand, pods: f64) {
        self.by_set[demand.set] += demand.size * pods;
        self.all += demand.size * pods;
    }

    /// Whether pods need most of the nodes of a size that all pods with the same requirements fill. Pods without requirements can
    /// be on every node.
    fn are_mostly_on(&self, nodes: u32, demand: &Demand, size: f64) -> bool {
        let fills = if demand.set == BASE { self.all } else { self.by_set[demand.set] };
        f64::from(nodes) * size >= fills * MIN_NODE_SHARE
    }
}

/// The demands of which a node should take pods before others.
#[derive(Debug)]
pub(crate) struct Urgent<'s> {
    sizes: &'s PendingSizes,
    /// The number of nodes that a demand needs, and the demand: the most nodes first.
    needed: Vec<(u32, usize)>,
}

impl<'s> Urgent<'s> {
    /// `largest` is the size of the largest node that may be opened.
    pub(crate) fn new(
        few: &[FewPerNode],
        demands: &[Demand],
        units: &[Unit],
        sizes: &'s PendingSizes,
        largest: f64,
    ) -> Self {
        let needed =
            few.iter().map(|one| (units[demands[one.demand].unit].pending.div_ceil(one.pods_per_node), one.demand));
        let mut needed: Vec<(u32, usize)> = needed
            .filter(|(nodes, demand)| *nodes > 0 && sizes.are_mostly_on(*nodes, &demands[*demand], largest))
            .collect();
        needed.sort_unstable_by_key(|(nodes, demand)| (Reverse(*nodes), *demand));
        Self { sizes, needed }
    }

    /// The demands of which a node of this size should take pods first.
    pub(crate) fn on(&self, demands: &[Demand], size: f64) -> Vec<usize> {
        let urgent =
            self.needed.iter().filter(|(nodes, demand)| self.sizes.are_mostly_on(*nodes, &demands[*demand], size));
        urgent.map(|(_, demand)| *demand).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pools::SetId;

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

    fn urgent(few: &[FewPerNode], demands: &[Demand], units: &[Unit], largest: f64, size: f64) -> Vec<usize> {
        Urgent::new(few, demands, units, &PendingSizes::new(demands, units), largest).on(demands, size)
    }

    #[test]
    fn groups_that_need_most_of_the_remaining_nodes_come_first() {
        // 100 pods on nodes of ten are ten nodes: groups of seven pods and more are urgent.
        let demands: Vec<Demand> = (0..5).map(|unit| demand(unit, BASE)).collect();
        let units = units(&[6, 7, 9, 0, 78]);
        let on = |size: f64| urgent(&few(&[(0, 1), (1, 1), (2, 1), (3, 1)]), &demands, &units, 20.0, size);
        assert_eq!(on(10.0), [2, 1]);
        // Smaller nodes are more nodes.
        assert!(on(5.0).is_empty());
        assert_eq!(on(20.0), [2, 1, 0]);
    }

    #[test]
    fn pods_that_may_share_a_node_need_fewer() {
        let demands: Vec<Demand> = (0..2).map(|unit| demand(unit, BASE)).collect();
        let units = units(&[10, 90]);
        let with = |each: u32| urgent(&few(&[(0, each)]), &demands, &units, 10.0, 10.0);
        assert_eq!(with(1), [0]);
        assert!(with(2).is_empty());
    }

    #[test]
    fn pods_of_a_zone_are_compared_with_the_pods_there() {
        let demands = [demand(0, ZONE), demand(1, ZONE), demand(2, 2), demand(3, BASE)];
        let units = units(&[3, 27, 300, 3]);
        // Three of three nodes in the zone, but of 33 nodes in all zones.
        assert_eq!(urgent(&few(&[(0, 1), (3, 1)]), &demands, &units, 10.0, 10.0), [0]);
    }

    #[test]
    fn pods_that_were_placed_do_not_count() {
        let demands: Vec<Demand> = (0..2).map(|unit| demand(unit, ZONE)).collect();
        let (before, after) = (units(&[5, 95]), units(&[5, 5]));
        let mut sizes = PendingSizes::new(&demands, &before);
        let few = few(&[(0, 1)]);
        assert!(Urgent::new(&few, &demands, &before, &sizes, 10.0).on(&demands, 10.0).is_empty());
        sizes.remove(&demands[1], 90);
        assert_eq!(Urgent::new(&few, &demands, &after, &sizes, 10.0).on(&demands, 10.0), [0]);
    }

    #[test]
    fn without_such_groups_no_pod_is_urgent() {
        let demands = [demand(0, BASE)];
        assert!(urgent(&[], &demands, &units(&[100]), 10.0, 10.0).is_empty());
    }
}
