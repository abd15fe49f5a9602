//! The input and the output of an allocation.

use crate::slices::node_selector::{NodeSelector, NodeSelectorTerm};
use crate::slices::pools::PoolId;
use nodeless_model::requirement::RequirementTerm;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// The name of a device.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DeviceId {
    /// The driver.
    pub driver: String,
    /// The pool.
    pub pool: String,
    /// The name in the pool.
    pub device: String,
}

impl fmt::Display for DeviceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.driver, self.pool, self.device)
    }
}

/// The devices that claims have already.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Taken {
    pools: BTreeMap<PoolId, BTreeSet<String>>,
}

impl Taken {
    /// Counts a device as taken. Devices given with `adminAccess` are not taken.
    pub fn add(&mut self, device: &DeviceId) {
        let pool = PoolId { driver: device.driver.clone(), name: device.pool.clone() };
        self.pools.entry(pool).or_default().insert(device.device.clone());
    }

    /// Counts the devices of an allocation as taken.
    pub fn add_all(&mut self, allocation: &Allocation) {
        allocation.devices.iter().filter(|given| !given.admin_access).for_each(|given| self.add(&given.device));
    }

    /// Counts a device as free again.
    pub fn remove(&mut self, device: &DeviceId) {
        let pool = PoolId { driver: device.driver.clone(), name: device.pool.clone() };
        if let Some(devices) = self.pools.get_mut(&pool) {
            devices.remove(&device.device);
        }
    }

    /// The taken devices of a pool.
    pub(crate) fn of_pool(&self, pool: &PoolId) -> Option<&BTreeSet<String>> {
        self.pools.get(pool)
    }
}

impl<'a> FromIterator<&'a DeviceId> for Taken {
    fn from_iter<T: IntoIterator<Item = &'a DeviceId>>(devices: T) -> Self {
        let mut taken = Self::default();
        devices.into_iter().for_each(|device| taken.add(device));
        taken
    }
}

/// The devices that a claim gets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Allocation {
    /// The devices, in the order of the requests.
    pub devices: Vec<Given>,
    /// The nodes that can use all of them; `None` means every node.
    pub node_selector: Option<NodeSelector>,
}

/// A device that a request gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Given {
    /// The request, or `request/alternative`.
    pub request: String,
    /// The device.
    pub device: DeviceId,
    /// Whether others may have it too.
    pub admin_access: bool,
}

/// The nodes that can use devices, which have these selectors.
pub(crate) fn common_selector<'s>(
    of_devices: impl Iterator<Item = (Option<&'s str>, Option<&'s NodeSelector>)>,
) -> Option<NodeSelector> {
    let mut term = NodeSelectorTerm::default();
    for (node_name, selector) in of_devices {
        if let Some(name) = node_name {
            return Some(NodeSelector::of_node(name));
        }
        // The API server accepts slices with one term only.
        if let Some(conditions) = selector.and_then(|selector| selector.node_selector_terms.first()) {
            add_new(&mut term.match_expressions, &conditions.match_expressions);
            add_new(&mut term.match_fields, &conditions.match_fields);
        }
    }
    let is_empty = term.match_expressions.is_empty() && term.match_fields.is_empty();
    (!is_empty).then(|| NodeSelector { node_selector_terms: vec![term] })
}

fn add_new(known: &mut Vec<RequirementTerm>, more: &[RequirementTerm]) {
    for condition in more {
        if !known.contains(condition) {
            known.push(condition.clone());
        }
    }
}
