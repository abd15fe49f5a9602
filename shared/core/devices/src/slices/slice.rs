//! ResourceSlices: what drivers publish about devices.

use crate::slices::attribute::Attribute;
use crate::slices::node_selector::NodeSelector;
use crate::slices::taint::DeviceTaint;
use nodeless_model::Quantity;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A ResourceSlice.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Slice {
    /// The name.
    pub name: String,
    /// What it publishes.
    pub spec: SliceSpec,
}

/// The `spec` of a ResourceSlice, in the form of the API.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SliceSpec {
    /// The name of the driver.
    pub driver: String,
    /// The pool that it is part of.
    pub pool: ResourcePool,
    /// The node that the devices are local to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_name: Option<String>,
    /// The nodes that can use the devices.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_selector: Option<NodeSelector>,
    /// Whether every node can use the devices.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub all_nodes: Option<bool>,
    /// Whether each device has its own `nodeName`, `nodeSelector` or `allNodes`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub per_device_node_selection: Option<bool>,
    /// The devices.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub devices: Vec<Device>,
    /// Counters that devices of the pool share.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub shared_counters: Vec<CounterSet>,
}

/// The pool of a slice.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ResourcePool {
    /// The name, often that of the node.
    pub name: String,
    /// The generation: slices of older generations do not count.
    #[serde(default)]
    pub generation: i64,
    /// The number of slices of the pool at this generation.
    #[serde(default)]
    pub resource_slice_count: i64,
}

/// A device.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Device {
    /// The name, which no other device of the pool has.
    pub name: String,
    /// Attributes by name, `domain/id`, or only `id` in the domain of the driver.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub attributes: BTreeMap<String, Attribute>,
    /// Capacities by name, as for attributes.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub capacity: BTreeMap<String, Capacity>,
    /// What it takes of the pool's counters.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub consumes_counters: Vec<CounterConsumption>,
    /// The node that it is local to, with `perDeviceNodeSelection`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_name: Option<String>,
    /// The nodes that can use it, with `perDeviceNodeSelection`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_selector: Option<NodeSelector>,
    /// Whether every node can use it, with `perDeviceNodeSelection`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub all_nodes: Option<bool>,
    /// Taints.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub taints: Vec<DeviceTaint>,
    /// Conditions that its driver sets before a pod is bound. Such devices are not allocated, as in clusters without
    /// `DRADeviceBindingConditions`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub binding_conditions: Vec<String>,
    /// Whether several claims may share it (consumable capacity).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allow_multiple_allocations: Option<bool>,
    /// Whether no driver has published it yet: attributes and capacities that it does not list are then unknown.
    #[serde(skip)]
    pub is_predicted: bool,
}

/// A capacity of a device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Capacity {
    /// The amount.
    pub value: Quantity,
}

/// Counters that devices share, such as the memory of a GPU that has partitions.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CounterSet {
    /// The name, which no other set of the pool has.
    pub name: String,
    /// The counters.
    #[serde(default)]
    pub counters: BTreeMap<String, Counter>,
}

/// The amount of a counter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counter {
    /// The amount.
    pub value: Quantity,
}

/// What a device takes of a set of counters.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CounterConsumption {
    /// The name of the set.
    pub counter_set: String,
    /// How much of each counter.
    #[serde(default)]
    pub counters: BTreeMap<String, Counter>,
}

impl Device {
    /// An attribute by its domain and id. Names without a domain are in the domain of the driver.
    pub(crate) fn attribute(&self, driver: &str, domain: &str, id: &str) -> Option<&Attribute> {
        find(&self.attributes, driver, domain, id)
    }

    /// A capacity by its domain and id.
    pub(crate) fn capacity(&self, driver: &str, domain: &str, id: &str) -> Option<Quantity> {
        find(&self.capacity, driver, domain, id).map(|capacity| capacity.value)
    }
}

fn find<'a, T>(map: &'a BTreeMap<String, T>, driver: &str, domain: &str, id: &str) -> Option<&'a T> {
    let unqualified = || map.get(id).filter(|_| domain == driver && !id.contains('/'));
    map.get(&format!("{domain}/{id}")).or_else(unqualified)
}

/// The domain and the id of a name.
pub(crate) fn qualified<'a>(name: &'a str, driver: &'a str) -> (&'a str, &'a str) {
    name.split_once('/').unwrap_or((driver, name))
}
