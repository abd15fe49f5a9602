//! The counters that devices of a pool share (KEP-4815).

use crate::slices::pools::Pool;
use crate::slices::slice::{Counter, Device};
use nodeless_model::Quantity;
use std::collections::{BTreeMap, BTreeSet};

/// What is left of the counters of a pool, by set and name.
#[derive(Clone, Debug, Default)]
pub(crate) struct Counters<'a> {
    left: BTreeMap<&'a str, BTreeMap<&'a str, Quantity>>,
}

impl<'a> Counters<'a> {
    /// The counters of a pool without what its allocated devices take, wherever these are.
    pub(crate) fn new(pool: &Pool<'a>, taken: Option<&BTreeSet<String>>) -> Self {
        let mut counters = Self::default();
        for (name, set) in &pool.counters {
            let amounts = set.counters.iter().map(|(counter, it)| (counter.as_str(), it.value));
            counters.left.insert(name, amounts.collect());
        }
        let devices = pool.devices.iter().map(|(_, device)| *device).chain(pool.elsewhere.iter().copied());
        if let Some(taken) = taken {
            devices.filter(|device| taken.contains(&device.name)).for_each(|device| counters.take(device));
        }
        counters
    }

    /// Whether a device may be allocated.
    pub(crate) fn suffice_for(&self, device: &Device) -> bool {
        device.consumes_counters.iter().all(|consumed| {
            let left = self.left.get(consumed.counter_set.as_str());
            let suffices = |(name, needed): (&String, &Counter)| {
                left.and_then(|left| left.get(name.as_str())).is_some_and(|left| *left >= needed.value)
            };
            consumed.counters.iter().all(suffices)
        })
    }

    pub(crate) fn take(&mut self, device: &Device) {
        self.change(device, |left, amount| *left -= amount);
    }

    pub(crate) fn give_back(&mut self, device: &Device) {
        self.change(device, |left, amount| *left += amount);
    }

    fn change(&mut self, device: &Device, change: impl Fn(&mut Quantity, Quantity)) {
        for consumed in &device.consumes_counters {
            let Some(set) = self.left.get_mut(consumed.counter_set.as_str()) else { continue };
            for (name, amount) in &consumed.counters {
                if let Some(left) = set.get_mut(name.as_str()) {
                    change(left, amount.value);
                }
            }
        }
    }
}
