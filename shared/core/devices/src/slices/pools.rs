//! The pools of devices that a node can use.

use crate::slices::node_selector::Place;
use crate::slices::slice::{CounterSet, Device, Slice};
use nodeless_model::RequirementError;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;

/// The name of a pool.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PoolId {
    /// The driver.
    pub driver: String,
    /// The name.
    pub name: String,
}

impl fmt::Display for PoolId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.driver, self.name)
    }
}

/// The published slices.
#[derive(Clone, Debug, Default)]
pub struct Inventory<'a> {
    slices: Vec<&'a Slice>,
    /// Those with a `nodeName`, by it.
    of_node: HashMap<&'a str, Vec<usize>>,
    /// Those that may be for several nodes.
    shared: Vec<usize>,
    of_pool: HashMap<(&'a str, &'a str), Vec<usize>>,
}

/// A pool that a node can use.
#[derive(Clone, Debug)]
pub struct Pool<'a> {
    /// The name.
    pub id: PoolId,
    pub(crate) state: State,
    /// The devices of slices for the node, by the name of the slice.
    pub(crate) devices: Vec<(&'a Slice, &'a Device)>,
    /// The devices of other slices, which take of the same counters.
    pub(crate) elsewhere: Vec<&'a Device>,
    pub(crate) counters: BTreeMap<&'a str, &'a CounterSet>,
}

/// Whether devices of a pool can be allocated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Usable,
    /// Not all slices are published.
    Incomplete,
    Invalid(String),
}

impl<'a> Inventory<'a> {
    /// Of these slices, in any order.
    pub fn new(slices: impl IntoIterator<Item = &'a Slice>) -> Self {
        let mut inventory = Self { slices: slices.into_iter().collect(), ..Self::default() };
        inventory.slices.sort_by(|a, b| a.name.cmp(&b.name));
        for (index, slice) in inventory.slices.iter().enumerate() {
            match slice.spec.node_name.as_deref().filter(|name| !name.is_empty()) {
                Some(node) => inventory.of_node.entry(node).or_default().push(index),
                None => inventory.shared.push(index),
            }
            let pool = (slice.spec.driver.as_str(), slice.spec.pool.name.as_str());
            inventory.of_pool.entry(pool).or_default().push(index);
        }
        inventory
    }

    /// An upper bound for the number of devices that this many nodes can use, those of several nodes counted for each.
    #[must_use]
    pub fn devices_on(&self, nodes: usize) -> usize {
        let of = |index: &usize| self.slices[*index].spec.devices.len();
        let shared: usize = self.shared.iter().map(of).sum();
        shared.saturating_mul(nodes).saturating_add(self.of_node.values().flatten().map(of).sum())
    }

    /// Whether nothing is published.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.slices.is_empty()
    }

    /// The slices that are local to a node, by its name.
    pub fn local_to(&self, node: &str) -> impl Iterator<Item = &'a Slice> {
        self.of_node.get(node).into_iter().flatten().map(|index| self.slices[*index])
    }

    /// The slices that a node may use, by its name: those that are local to it, and those that are not local to any node.
    pub fn usable_by(&self, node: &str) -> impl Iterator<Item = &'a Slice> {
        self.local_to(node).chain(self.shared.iter().map(|index| self.slices[*index]))
    }

    /// The pools of a node, in the order in which the kube-scheduler allocates them: by driver and name.
    ///
    /// # Errors
    /// Where the node selector of a slice is not valid.
    pub fn pools(&self, place: &Place<'_>) -> Result<Vec<Pool<'a>>, RequirementError> {
        let local = place.name.and_then(|name| self.of_node.get(name)).into_iter().flatten();
        let mut relevant: BTreeMap<PoolId, Vec<&'a Slice>> = BTreeMap::new();
        let mut candidates: Vec<usize> = local.chain(&self.shared).copied().collect();
        candidates.sort_unstable();
        for slice in candidates.into_iter().map(|index| self.slices[index]) {
            if !is_for(slice, place)? {
                continue;
            }
            let id = PoolId { driver: slice.spec.driver.clone(), name: slice.spec.pool.name.clone() };
            let known = relevant.entry(id).or_default();
            let newest = known.first().map_or(i64::MIN, |known| known.spec.pool.generation);
            if slice.spec.pool.generation > newest {
                known.clear();
            }
            if slice.spec.pool.generation >= newest {
                known.push(slice);
            }
        }
        Ok(relevant.into_iter().filter_map(|(id, slices)| self.pool(id, &slices)).collect())
    }

    /// The pool of slices of one generation; `None` if slices for other nodes are newer.
    fn pool(&self, id: PoolId, slices: &[&'a Slice]) -> Option<Pool<'a>> {
        let first = &slices.first()?.spec.pool;
        let (generation, expected) = (first.generation, usize::try_from(first.resource_slice_count).unwrap_or(0));
        let mut elsewhere: Vec<&'a Slice> = Vec::new();
        if slices.len() != expected {
            let all = self.of_pool.get(&(id.driver.as_str(), id.name.as_str())).into_iter().flatten();
            let all: Vec<&'a Slice> = all.map(|index| self.slices[*index]).collect();
            if all.iter().any(|slice| slice.spec.pool.generation > generation) {
                return None;
            }
            let same: Vec<&'a Slice> =
                all.into_iter().filter(|slice| slice.spec.pool.generation == generation).collect();
            if same.len() != expected {
                return Some(Pool::without_devices(id, State::Incomplete));
            }
            let is_relevant = |slice: &&Slice| slices.iter().any(|known| std::ptr::eq(*known, *slice));
            elsewhere.extend(same.into_iter().filter(|slice| !is_relevant(slice)));
        }
        Some(Pool::new(id, slices, &elsewhere))
    }
}

/// Whether the devices of a slice, or any of them, are for a node.
fn is_for(slice: &Slice, place: &Place<'_>) -> Result<bool, RequirementError> {
    let spec = &slice.spec;
    if spec.per_device_node_selection == Some(true) {
        for device in &spec.devices {
            if is_device_for(device, place)? {
                return Ok(true);
            }
        }
        return Ok(false);
    }
    selects(spec.node_name.as_deref(), spec.all_nodes, spec.node_selector.as_ref(), place)
}

/// Whether a device that has its own selection is for a node.
pub(crate) fn is_device_for(device: &Device, place: &Place<'_>) -> Result<bool, RequirementError> {
    selects(device.node_name.as_deref(), device.all_nodes, device.node_selector.as_ref(), place)
}

fn selects(
    name: Option<&str>,
    all: Option<bool>,
    selector: Option<&crate::NodeSelector>,
    place: &Place<'_>,
) -> Result<bool, RequirementError> {
    match (name.filter(|name| !name.is_empty()), all, selector) {
        (Some(name), _, _) => Ok(place.name == Some(name)),
        (None, Some(true), _) => Ok(true),
        (None, _, Some(selector)) => selector.matches(place),
        (None, _, None) => Ok(false),
    }
}

impl<'a> Pool<'a> {
    const fn without_devices(id: PoolId, state: State) -> Self {
        Self { id, state, devices: Vec::new(), elsewhere: Vec::new(), counters: BTreeMap::new() }
    }

    /// A complete pool: of these slices for the node, and these for other nodes. Slices with counters have no devices, and count
    /// wherever they are.
    fn new(id: PoolId, slices: &[&'a Slice], elsewhere: &[&'a Slice]) -> Self {
        let devices: Vec<(&Slice, &Device)> = devices_of(slices).collect();
        let mut names = BTreeSet::new();
        if let Some((_, twice)) = devices.iter().find(|(_, device)| !names.insert(device.name.as_str())) {
            return Self::without_devices(id, State::Invalid(format!("two devices have the name {}", twice.name)));
        }
        let mut counters = BTreeMap::new();
        for set in slices.iter().chain(elsewhere).flat_map(|slice| &slice.spec.shared_counters) {
            if counters.insert(set.name.as_str(), set).is_some() {
                let why = format!("two counter sets have the name {}", set.name);
                return Self::without_devices(id, State::Invalid(why));
            }
        }
        let elsewhere: Vec<&Device> = devices_of(elsewhere).map(|(_, device)| device).collect();
        let consumers = devices.iter().map(|(_, device)| *device).chain(elsewhere.iter().copied());
        if let Some(why) = consumers.filter_map(|device| unknown_counter(device, &counters)).next() {
            return Self::without_devices(id, State::Invalid(why));
        }
        Self { id, state: State::Usable, devices, elsewhere, counters }
    }
}

fn devices_of<'a>(slices: &[&'a Slice]) -> impl Iterator<Item = (&'a Slice, &'a Device)> {
    let with_devices = slices.iter().filter(|slice| slice.spec.shared_counters.is_empty());
    with_devices.flat_map(|slice| slice.spec.devices.iter().map(|device| (*slice, device)))
}

fn unknown_counter(device: &Device, counters: &BTreeMap<&str, &CounterSet>) -> Option<String> {
    device.consumes_counters.iter().find_map(|consumed| {
        let Some(set) = counters.get(consumed.counter_set.as_str()) else {
            return Some(format!("there is no counter set {}", consumed.counter_set));
        };
        let missing = consumed.counters.keys().find(|name| !set.counters.contains_key(*name));
        missing.map(|name| format!("counter set {} has no counter {name}", set.name))
    })
}
