//! Everything that a report adds up.

use super::rows::{Costs, RecordOfCluster};
use crate::hour::{Amounts, Ended, HourRecord};
use crate::open::hours;
use jiff::{SignedDuration, Timestamp};
use nodeless_model::CapacityType;
use serde::Serialize;
use std::collections::BTreeMap;

/// Everything together.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Totals {
    /// The costs of all nodes.
    #[serde(flatten)]
    pub costs: Costs,
    /// The part of the dollars that pods requested.
    pub requested_dollars: f64,
    /// The allocatable resources of initialized nodes.
    pub allocatable: Amounts,
    /// Hours of instances whose price is not known: they are not in the dollars.
    pub unpriced_node_hours: f64,
    /// The volumes of all nodes, which are not in the other amounts.
    pub volumes: Volumes,
    /// Spot instances.
    pub spot: Spot,
    /// Instances in capacity reservations.
    pub reserved: Reserved,
    /// The nodes that consolidation removed.
    pub consolidation: Consolidated,
    /// The nodes that EC2 interrupted.
    pub interruptions: Interrupted,
    /// The instances that ended, by reason.
    pub ended: BTreeMap<String, Ended>,
}

/// The volumes of nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Volumes {
    /// Dollars by list prices.
    pub dollars: f64,
    /// Hours of instances whose volumes have no known price: they are not in the dollars.
    pub unpriced_node_hours: f64,
}

/// Spot instances.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Spot {
    /// Hours.
    pub node_hours: f64,
    /// The costs of the instances.
    pub dollars: f64,
    /// The costs of the same instances at on-demand prices.
    pub on_demand_dollars: f64,
    /// The difference.
    pub saved_dollars: f64,
}

/// Instances in capacity reservations, which are billed whether they are used or not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Reserved {
    /// Hours.
    pub node_hours: f64,
    /// The costs of the same instances at on-demand prices.
    pub on_demand_dollars: f64,
}

/// The nodes that consolidation removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Consolidated {
    /// The number of nodes.
    pub nodes: u32,
    /// The price of the nodes, less that of their replacements.
    pub dollars_per_hour: f64,
    /// This price from the hour after each removal to the end of the time: the costs if the nodes had stayed until then.
    pub dollars_until_the_end: f64,
}

/// The nodes that EC2 interrupted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Interrupted {
    /// The number of nodes that have ended.
    pub nodes: u32,
    /// The costs of the nodes from the notice to the end.
    pub dollars: f64,
}

impl Totals {
    /// Adds up records, until `to`.
    pub(super) fn new(entries: &[RecordOfCluster<'_>], to: Timestamp) -> Self {
        let mut totals = Self::default();
        entries.iter().for_each(|entry| totals.add(entry.record, to));
        let Costs { dollars, idle_dollars, starting_dollars, terminating_dollars, .. } = totals.costs;
        totals.requested_dollars = (dollars - idle_dollars - starting_dollars - terminating_dollars).max(0.0);
        totals.spot.saved_dollars = totals.spot.on_demand_dollars - totals.spot.dollars;
        totals
    }

    fn add(&mut self, record: &HourRecord, to: Timestamp) {
        self.costs.add(Costs::new(record));
        self.allocatable.add(record.allocatable);
        self.volumes.dollars += record.volumes.dollars;
        self.volumes.unpriced_node_hours += (record.seconds() - record.volumes.seconds).max(0.0) / 3600.0;
        for it in &record.offerings {
            self.unpriced_node_hours += it.unpriced_seconds / 3600.0;
            match it.capacity_type {
                CapacityType::Spot => {
                    self.spot.node_hours += it.seconds / 3600.0;
                    self.spot.dollars += it.dollars;
                    self.spot.on_demand_dollars += it.on_demand_dollars;
                }
                CapacityType::Reserved => {
                    self.reserved.node_hours += it.seconds / 3600.0;
                    self.reserved.on_demand_dollars += it.on_demand_dollars;
                }
                CapacityType::OnDemand => {}
            }
        }
        let end = record.hour.checked_add(SignedDuration::from_hours(1)).unwrap_or(to);
        let removed = record.consolidation;
        self.consolidation.nodes += removed.nodes;
        self.consolidation.dollars_per_hour += removed.dollars_per_hour;
        self.consolidation.dollars_until_the_end += removed.dollars_per_hour * hours(end, to);
        self.interruptions.nodes += record.interruptions.nodes;
        self.interruptions.dollars += record.interruptions.dollars;
        for (reason, ended) in &record.ended {
            let own = self.ended.entry(reason.clone()).or_default();
            own.nodes += ended.nodes;
            own.dollars_per_hour += ended.dollars_per_hour;
        }
    }
}
