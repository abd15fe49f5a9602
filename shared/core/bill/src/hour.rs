//! The record of what the nodes of a NodePool cost within an hour.

use jiff::Timestamp;
use nodeless_model::CapacityType;
use serde::{Deserialize, Serialize, Serializer};
use std::collections::BTreeMap;

/// The most groups of a kind in a record. The others are added up as [`OTHER`].
pub const MAX_GROUPS: usize = 200;
/// The name of the groups that are added up, those that cost least.
pub const OTHER: &str = "(other)";
/// The group of the nodes without a NodePool. No NodePool can have this name.
pub const NO_NODE_POOL: &str = "(none)";

/// The start of the hour that a time is in.
#[must_use]
pub fn hour_of(at: Timestamp) -> Timestamp {
    Timestamp::from_second(at.as_second().div_euclid(3600) * 3600).unwrap_or(at)
}

/// The costs of the nodes of a NodePool within an hour. Dollars are those of EC2 instances, at the prices of the time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HourRecord {
    /// The start of the hour.
    pub hour: Timestamp,
    /// The NodePool, or [`NO_NODE_POOL`].
    pub node_pool: String,
    /// Whether a part of the hour was recorded late, so that it is not exact: nothing observed the nodes that ended in between.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub late: bool,
    /// The costs of each offering, in the order of type, zone and capacity type.
    pub offerings: Vec<OfferingCost>,
    /// The costs of the volumes, which are not in the other amounts.
    #[serde(default, skip_serializing_if = "VolumeCost::is_empty")]
    pub volumes: VolumeCost,
    /// The allocatable resources of initialized nodes.
    #[serde(default)]
    pub allocatable: Amounts,
    /// The requests of pods on these nodes.
    #[serde(default)]
    pub requested: Amounts,
    /// Dollars of initialized nodes for what no pod requested.
    #[serde(default, skip_serializing_if = "is_zero", serialize_with = "rounded")]
    pub idle: f64,
    /// Dollars of nodes from their launch until they are initialized.
    #[serde(default, skip_serializing_if = "is_zero", serialize_with = "rounded")]
    pub starting: f64,
    /// Dollars of nodes that terminate for what no pod requested any more.
    #[serde(default, skip_serializing_if = "is_zero", serialize_with = "rounded")]
    pub leaving: f64,
    /// The requests of pods, by namespace.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub namespaces: BTreeMap<String, Group>,
    /// The requests of pods, by controller: `namespace/Kind/name`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub controllers: BTreeMap<String, Group>,
    /// The requests of pods, by label and its value.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, BTreeMap<String, Group>>,
    /// The instances that ended, by reason.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub ended: BTreeMap<String, Ended>,
    /// The interruptions.
    #[serde(default)]
    pub interruptions: Interruptions,
    /// The nodes that consolidation removed.
    #[serde(default)]
    pub consolidation: Consolidation,
}

/// The costs of the instances of a type, zone and capacity type.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OfferingCost {
    /// The instance type.
    pub instance_type: String,
    /// The availability zone, by name.
    pub zone: String,
    /// The capacity type.
    pub capacity_type: CapacityType,
    /// For how many seconds instances ran, added up.
    #[serde(serialize_with = "rounded")]
    pub seconds: f64,
    /// Dollars at the price of the capacity type.
    #[serde(serialize_with = "rounded")]
    pub dollars: f64,
    /// Dollars at the price of on-demand.
    #[serde(serialize_with = "rounded")]
    pub on_demand_dollars: f64,
    /// The part of `seconds` for which no price is known.
    #[serde(default, skip_serializing_if = "is_zero", serialize_with = "rounded")]
    pub unpriced_seconds: f64,
}

/// The costs of the volumes of instances.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VolumeCost {
    /// Dollars by list prices, also those of stopped warm nodes.
    #[serde(serialize_with = "rounded")]
    pub dollars: f64,
    /// For how many seconds instances ran whose volumes have a known price, added up.
    #[serde(serialize_with = "rounded")]
    pub seconds: f64,
}

impl VolumeCost {
    fn is_empty(&self) -> bool {
        is_zero(&self.dollars) && is_zero(&self.seconds)
    }
}

/// Amounts of resources times hours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Amounts {
    /// vCPU hours.
    #[serde(default, skip_serializing_if = "is_zero", serialize_with = "rounded")]
    pub cpu: f64,
    /// GiB hours of memory.
    #[serde(default, skip_serializing_if = "is_zero", serialize_with = "rounded")]
    pub memory: f64,
    /// Hours of GPUs and other accelerators.
    #[serde(default, skip_serializing_if = "is_zero", serialize_with = "rounded")]
    pub gpu: f64,
}

/// The costs and requests of a group of pods.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Group {
    /// The pods' share of the dollars of their nodes.
    #[serde(serialize_with = "rounded")]
    pub dollars: f64,
    /// The requests.
    #[serde(flatten)]
    pub requested: Amounts,
}

/// Instances that ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Ended {
    /// The number of instances.
    pub nodes: u32,
    /// The price of the instances.
    #[serde(serialize_with = "rounded")]
    pub dollars_per_hour: f64,
}

/// Nodes that EC2 interrupted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Interruptions {
    /// The number of nodes that have ended.
    #[serde(default)]
    pub nodes: u32,
    /// The costs of these nodes from the notice on.
    #[serde(default, skip_serializing_if = "is_zero", serialize_with = "rounded")]
    pub dollars: f64,
}

/// Nodes that consolidation removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Consolidation {
    /// The number of nodes that have ended.
    #[serde(default)]
    pub nodes: u32,
    /// The price of these nodes, less that of their replacements.
    #[serde(default, skip_serializing_if = "is_zero", serialize_with = "rounded")]
    pub dollars_per_hour: f64,
}

impl Amounts {
    /// Adds other amounts.
    pub fn add(&mut self, other: Self) {
        self.cpu += other.cpu;
        self.memory += other.memory;
        self.gpu += other.gpu;
    }

    /// All of them, multiplied.
    #[must_use]
    pub fn times(self, factor: f64) -> Self {
        Self { cpu: self.cpu * factor, memory: self.memory * factor, gpu: self.gpu * factor }
    }
}

impl Group {
    /// Adds another group.
    pub fn add(&mut self, other: Self) {
        self.dollars += other.dollars;
        self.requested.add(other.requested);
    }
}

impl HourRecord {
    /// An empty record.
    #[must_use]
    pub fn new(hour: Timestamp, node_pool: &str) -> Self {
        Self { hour, node_pool: node_pool.to_owned(), ..Self::default() }
    }

    /// The costs of the instances, in dollars.
    #[must_use]
    pub fn dollars(&self) -> f64 {
        self.offerings.iter().map(|it| it.dollars).sum()
    }

    /// The costs of the instances at on-demand prices, in dollars.
    #[must_use]
    pub fn on_demand_dollars(&self) -> f64 {
        self.offerings.iter().map(|it| it.on_demand_dollars).sum()
    }

    /// For how many seconds instances ran, added up.
    #[must_use]
    pub fn seconds(&self) -> f64 {
        self.offerings.iter().map(|it| it.seconds).sum()
    }

    /// Whether nothing is recorded.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.offerings.is_empty() && self.ended.is_empty() && self.volumes.is_empty()
    }

    /// Adds what an instance cost.
    pub(crate) fn add_offering(&mut self, cost: OfferingCost) {
        let key = |it: &OfferingCost| (it.instance_type.clone(), it.zone.clone(), it.capacity_type);
        match self.offerings.binary_search_by_key(&key(&cost), key) {
            Ok(index) => {
                let own = &mut self.offerings[index];
                own.seconds += cost.seconds;
                own.dollars += cost.dollars;
                own.on_demand_dollars += cost.on_demand_dollars;
                own.unpriced_seconds += cost.unpriced_seconds;
            }
            Err(index) => self.offerings.insert(index, cost),
        }
    }

    /// Adds up the groups that cost least, so that at most this many of each kind are left.
    pub(crate) fn limit_groups(&mut self, most: usize) {
        limit(&mut self.namespaces, most);
        limit(&mut self.controllers, most);
        self.labels.values_mut().for_each(|groups| limit(groups, most));
    }
}

fn limit(groups: &mut BTreeMap<String, Group>, most: usize) {
    if groups.len() <= most {
        return;
    }
    let mut by_cost: Vec<(String, f64)> =
        groups.iter().filter(|(name, _)| *name != OTHER).map(|(name, group)| (name.clone(), group.dollars)).collect();
    by_cost.sort_by(|(a, first), (b, second)| second.total_cmp(first).then_with(|| a.cmp(b)));
    for (name, _) in by_cost.into_iter().skip(most.saturating_sub(1)) {
        if let Some(group) = groups.remove(&name) {
            groups.entry(OTHER.to_owned()).or_default().add(group);
        }
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
pub(crate) fn is_zero(value: &f64) -> bool {
    value.abs() < 5e-7
}

/// Six decimal places, as prices have: shorter, so that records take less space.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
pub(crate) fn rounded<S: Serializer>(value: &f64, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64((value * 1e6).round() / 1e6 + 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_groups_that_cost_least_are_added_up() {
        let mut record = HourRecord::default();
        for number in 0..300_u32 {
            let group = Group { dollars: f64::from(number), requested: Amounts { cpu: 1.0, ..Amounts::default() } };
            record.namespaces.insert(format!("n{number:03}"), group);
        }
        record.limit_groups(MAX_GROUPS);
        assert_eq!(record.namespaces.len(), MAX_GROUPS);
        let other = record.namespaces[OTHER];
        assert!((other.dollars - (0..101).map(f64::from).sum::<f64>()).abs() < 1e-9 && other.requested.cpu > 100.9);
        assert!(record.namespaces.contains_key("n101") && !record.namespaces.contains_key("n100"));
        // A second time, with one that is new, it stays within the limit and loses nothing.
        record.namespaces.insert("new".into(), Group { dollars: 0.5, ..Group::default() });
        record.limit_groups(MAX_GROUPS);
        assert_eq!(record.namespaces.len(), MAX_GROUPS);
        let total: f64 = record.namespaces.values().map(|group| group.dollars).sum();
        assert!((total - (0..300).map(f64::from).sum::<f64>() - 0.5).abs() < 1e-9);
    }

    #[test]
    fn an_hour_begins_at_its_full_hour() {
        let at = |text: &str| text.parse::<Timestamp>().unwrap();
        assert_eq!(hour_of(at("2026-11-23T13:59:59.999Z")), at("2026-11-23T13:00:00Z"));
        assert_eq!(hour_of(at("2026-11-23T13:00:00Z")), at("2026-11-23T13:00:00Z"));
        assert_eq!(hour_of(at("1969-12-31T23:30:00Z")), at("1969-12-31T23:00:00Z"));
    }
}
