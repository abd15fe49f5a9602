//! How many nodes topology forces, whatever they cost.

use crate::classes::Class;
use crate::filling::Demand;
use crate::groups::{GroupId, Kind};
use crate::packing::{Context, Unit};
use crate::topology::Topology;
use std::collections::HashMap;

/// Pods that may not share a node beyond a count, by group over the host name.
#[derive(Debug, Default)]
pub(crate) struct Forced(HashMap<GroupId, Apart>);

#[derive(Debug)]
struct Apart {
    waiting: u32,
    each: u32,
}

/// Nodes that are forced are at most so much larger than what the pods would fill evenly.
const SLACK: f64 = 1.5;

impl Forced {
    pub(crate) fn of(demands: &[Demand], context: Context<'_, '_>, units: &[Unit], topology: &Topology<'_>) -> Self {
        let mut forced: HashMap<GroupId, Apart> = HashMap::new();
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
        Self(forced)
    }

    /// Counts pods that have their node.
    pub(crate) fn take(&mut self, class: &Class<'_>, level: usize, count: u32) {
        if self.0.is_empty() {
            return;
        }
        for group in own_groups(class, level) {
            if class.is_selected_by(*group)
                && let Some(apart) = self.0.get_mut(group)
            {
                apart.waiting = apart.waiting.saturating_sub(count);
            }
        }
    }

    /// How many nodes the pods of the class need at the least, together with those they keep apart from.
    pub(crate) fn nodes_for(&self, class: &Class<'_>, level: usize) -> u32 {
        let groups = own_groups(class, level).iter().filter(|group| class.is_selected_by(**group));
        groups.filter_map(|group| self.0.get(group)).map(Apart::nodes).max().unwrap_or(0)
    }

    /// How large a node may be at the most if all that waits, worth so much, is to fill the nodes that are forced.
    pub(crate) fn largest(&self, waiting: f64) -> f64 {
        let nodes = self.0.values().map(Apart::nodes).max().unwrap_or(0);
        if nodes == 0 { f64::INFINITY } else { waiting / f64::from(nodes) * SLACK }
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
