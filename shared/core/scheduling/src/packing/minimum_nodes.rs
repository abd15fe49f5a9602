//! The minimum number of nodes that topology constraints require, regardless of the price.

use crate::classes::Class;
use crate::constraints::groups::{GroupId, Kind};
use crate::packing::bin::{Context, Unit};
use crate::packing::demand::Demand;
use crate::topology::Topology;
use nodeless_model::hashed::HashMap;

/// Pods that may not share a node beyond a count, by group over the host name.
#[derive(Debug, Default)]
pub(crate) struct Forced {
    groups: HashMap<GroupId, Apart>,
    /// The pending pods of all groups; pods of several groups count several times.
    waiting: u32,
    /// The maximum size of required nodes, relative to an even distribution of the pods.
    slack: f64,
}

#[derive(Debug)]
struct Apart {
    waiting: u32,
    each: u32,
}

/// [`Forced::slack`] if a group is at least [`LARGE`] of all pods: most nodes are required by it.
const SLACK_OF_LARGE: f64 = 1.5;

/// [`Forced::slack`] otherwise: pods of many small groups share the nodes, and each group needs only some of them.
const SLACK_OF_SMALL: f64 = 2.5;

/// The fraction of all pods from which a group is large.
const LARGE: f64 = 0.1;

impl Forced {
    pub(crate) fn new(demands: &[Demand], context: Context<'_, '_>, units: &[Unit], topology: &Topology<'_>) -> Self {
        let mut forced: HashMap<GroupId, Apart> = HashMap::default();
        for demand in demands {
            let class = &context.classes.list[demand.class];
            for &group in own_groups(class, context.level) {
                let each = match topology.kind(group) {
                    Kind::Anti => 1,
                    Kind::Spread { max_skew, .. } => max_skew.max(1),
                    Kind::Affinity => continue,
                };
                if class.is_selected_by(group) {
                    forced.entry(group).or_insert(Apart { waiting: 0, each }).waiting += units[demand.unit].pending;
                }
            }
        }
        let waiting = forced.values().map(|apart| apart.waiting).sum();
        let pods: u32 = demands.iter().map(|demand| units[demand.unit].pending).sum();
        let large = forced.values().any(|apart| f64::from(apart.waiting) >= f64::from(pods) * LARGE);
        let slack = if large { SLACK_OF_LARGE } else { SLACK_OF_SMALL };
        Self { groups: forced, waiting, slack }
    }

    /// Counts pods that have their node.
    pub(crate) fn take(&mut self, class: &Class<'_>, level: usize, count: u32) {
        if self.is_over() {
            return;
        }
        for group in own_groups(class, level) {
            if class.is_selected_by(*group)
                && let Some(apart) = self.groups.get_mut(group)
            {
                let taken = count.min(apart.waiting);
                apart.waiting -= taken;
                self.waiting -= taken;
            }
        }
    }

    /// Whether no more nodes are required.
    pub(crate) const fn is_over(&self) -> bool {
        self.waiting == 0
    }

    /// The minimum number of nodes for the pods of the class, together with those that they have anti-affinity with.
    pub(crate) fn nodes_for(&self, class: &Class<'_>, level: usize) -> u32 {
        let groups = own_groups(class, level).iter().filter(|group| class.is_selected_by(**group));
        groups.filter_map(|group| self.groups.get(group)).map(Apart::nodes).max().unwrap_or(0)
    }

    /// The maximum number of pods of the class on one node, if a group that selects them limits it.
    pub(crate) fn pods_per_node(&self, class: &Class<'_>, level: usize) -> Option<u32> {
        let groups = own_groups(class, level).iter().filter(|group| class.is_selected_by(**group));
        groups.filter_map(|group| self.groups.get(group)).map(|apart| apart.each).min()
    }

    /// The number of required nodes.
    pub(crate) fn nodes(&self) -> u32 {
        self.groups.values().map(Apart::nodes).max().unwrap_or(0)
    }

    /// The share of a node that a pod of the class accounts for, given the number of required nodes: zero if other pods require
    /// them.
    pub(crate) fn part_of_node(&self, class: &Class<'_>, level: usize, nodes: u32) -> f64 {
        let groups = own_groups(class, level).iter().filter(|group| class.is_selected_by(**group));
        let forcing = groups.filter_map(|group| self.groups.get(group)).filter(|apart| apart.nodes() == nodes);
        forcing.map(|apart| 1.0 / f64::from(apart.each)).fold(0.0, f64::max)
    }

    /// The maximum size of a node if the pending pods, with this total value, have to fill all required nodes.
    pub(crate) fn largest(&self, waiting: f64) -> f64 {
        let nodes = self.nodes();
        if nodes == 0 { f64::INFINITY } else { waiting / f64::from(nodes) * self.slack }
    }
}

impl Apart {
    fn nodes(&self) -> u32 {
        self.waiting.div_ceil(self.each)
    }
}

fn own_groups<'c>(class: &'c Class<'_>, level: usize) -> &'c [GroupId] {
    class.level(level).map_or(&[], |level| &level.hosts)
}
