//! What an alternative changes, compared with today.

use super::cost::{Cost, Group, PodWithoutNode, Shape};
use crate::plural::counted;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// What an alternative costs more or less than today.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub(crate) enum Difference {
    /// The difference, in whole dollars a month; negative if the alternative costs less.
    Exact {
        dollars_per_month: i64,
        /// Of today's price; null if that is zero, or if the price of a node is unknown.
        percent: Option<f64>,
    },
    /// The alternative costs at least this much less, because the price of nodes that it replaces is unknown.
    AtMost { dollars_per_month: i64 },
    /// The difference is not stated.
    Unknown { why: String },
}

/// The nodes of one NodePool that an alternative does not have, and those that it has instead.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct NodePoolChange {
    /// Null for nodes that no NodePool manages.
    pub(crate) node_pool: Option<String>,
    /// The most expensive first.
    pub(crate) removed: Vec<Group>,
    pub(crate) added: Vec<Group>,
}

/// The difference between today's cost and that of an alternative.
pub(super) fn difference(today: &Cost, other: &Cost) -> Difference {
    let lost = lost(today, other);
    if !lost.is_empty() {
        let pods = counted(lost.len(), "pod");
        return Difference::Unknown { why: format!("{pods} would be unschedulable, so it is no comparison") };
    }
    let dollars_per_month = other.dollars_per_month - today.dollars_per_month;
    let stays: BTreeSet<&str> = other.without_price.iter().map(|one| one.node.as_str()).collect();
    let replaced = today.without_price.iter().filter(|one| !stays.contains(one.node.as_str())).count();
    match replaced {
        0 => {
            let known = today.without_price.is_empty() && today.dollars_per_month > 0;
            let percent = |()| 100.0 * dollars_per_month as f64 / today.dollars_per_month as f64;
            Difference::Exact { dollars_per_month, percent: known.then_some(()).map(percent) }
        }
        _ if dollars_per_month <= 0 => Difference::AtMost { dollars_per_month },
        _ => {
            let nodes = counted(replaced, "node");
            Difference::Unknown { why: format!("it replaces {nodes} whose price is unknown") }
        }
    }
}

/// The pods that the alternative cannot schedule and that are not pending today.
pub(super) fn lost<'c>(today: &Cost, other: &'c Cost) -> Vec<&'c PodWithoutNode> {
    let pending: BTreeSet<&str> = today.pods_without_node.iter().map(|one| one.pod.as_str()).collect();
    other.pods_without_node.iter().filter(|one| !pending.contains(one.pod.as_str())).collect()
}

/// The nodes that an alternative replaces, by NodePool.
pub(super) fn changes(today: &Cost, other: &Cost) -> Vec<NodePoolChange> {
    let mut changes: BTreeMap<Option<&str>, NodePoolChange> = BTreeMap::new();
    let surplus = |group: &Group, others: &Cost| {
        let same = others.groups.iter().find(|one| one.shape == group.shape).map_or(0, |one| one.nodes);
        let nodes = group.nodes.saturating_sub(same);
        let part = nodes as f64 / group.nodes.max(1) as f64;
        (nodes > 0).then(|| Group { nodes, price_per_hour: group.price_per_hour * part, ..group.clone() })
    };
    let entry =
        |shape: &Shape| NodePoolChange { node_pool: shape.node_pool.clone(), removed: Vec::new(), added: Vec::new() };
    for group in &today.groups {
        if let Some(removed) = surplus(group, other) {
            changes
                .entry(group.shape.node_pool.as_deref())
                .or_insert_with(|| entry(&group.shape))
                .removed
                .push(removed);
        }
    }
    for group in &other.groups {
        if let Some(added) = surplus(group, today) {
            changes.entry(group.shape.node_pool.as_deref()).or_insert_with(|| entry(&group.shape)).added.push(added);
        }
    }
    let mut changes: Vec<NodePoolChange> = changes.into_values().collect();
    for groups in changes.iter_mut().flat_map(|change| [&mut change.removed, &mut change.added]) {
        groups.sort_by(|one, two| two.price_per_hour.total_cmp(&one.price_per_hour));
    }
    changes
}
