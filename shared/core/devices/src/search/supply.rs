//! Whether there are enough devices for requests that are alike, before any of them is tried.

use super::{At, Search, Stop};
use crate::Attribute;
use crate::constraints::Value;
use crate::requests::{Choice, Request};
use crate::site::DeviceAt;
use std::collections::{HashMap, HashSet};

/// The devices for a request, and for those after it that are alike.
pub(super) enum Supply {
    /// There may be enough.
    Enough,
    /// There are enough only among these, in their order.
    Among(Vec<DeviceAt>),
    /// There are no more than these together.
    Short(usize),
}

/// Devices with the same values for all constraints that require that.
#[derive(Default)]
struct Equal<'a> {
    devices: Vec<DeviceAt>,
    /// For each constraint that requires distinct values, those values.
    distinct: Vec<HashSet<&'a Attribute>>,
}

impl Equal<'_> {
    /// The most of them that can be allocated together.
    fn most(&self) -> usize {
        self.distinct.iter().map(HashSet::len).fold(self.devices.len(), usize::min)
    }
}

impl<'s> Search<'s> {
    /// The devices from here on for a number of devices of requests that are alike.
    pub(super) fn supply(
        &mut self,
        at: At,
        request: &Request<'s>,
        choice: &Choice<'s>,
        needed: usize,
    ) -> Result<Supply, Stop> {
        let applying: Vec<usize> = (0..self.constraints[at.claim].len())
            .filter(|place| self.constraints[at.claim][*place].is_for(request.name, choice.alternative))
            .collect();
        let is_open = applying.iter().any(|place| self.constraints[at.claim][*place].is_open());
        let mut found: HashMap<Vec<&'s Attribute>, Equal<'s>> = HashMap::new();
        for device in self.devices_from(at.from) {
            self.attempts.add(1)?;
            if !self.is_available(at, choice, device) {
                continue;
            }
            // The selector fails when the search comes to the device.
            let Ok(is_selectable) = self.is_selectable(at.choice(), choice, device) else { return Ok(Supply::Enough) };
            if !is_selectable || !self.is_usable(choice, device) {
                continue;
            }
            let (slice, it) = self.site.device(device);
            let (mut same, mut distinct, mut violates) = (Vec::new(), Vec::new(), false);
            for constraint in applying.iter().map(|place| &self.constraints[at.claim][*place]) {
                match constraint.value(&slice.spec.driver, it) {
                    Value::Known(value) if constraint.is_distinct() => distinct.push(value),
                    Value::Known(value) => same.push(value),
                    Value::Violates => violates = true,
                    Value::Unknown => return Ok(Supply::Enough),
                }
            }
            if violates {
                continue;
            }
            let equal = found.entry(same).or_default();
            equal.devices.push(device);
            equal.distinct.resize_with(distinct.len(), HashSet::new);
            for (known, value) in equal.distinct.iter_mut().zip(distinct) {
                known.insert(value);
            }
            if !is_open && equal.most() >= needed {
                return Ok(Supply::Enough);
            }
        }
        let most = found.values().map(Equal::most).max().unwrap_or(0);
        if most < needed {
            return Ok(Supply::Short(most));
        }
        let enough = found.into_values().filter(|equal| equal.most() >= needed);
        let mut among: Vec<DeviceAt> = enough.flat_map(|equal| equal.devices).collect();
        among.sort_unstable();
        Ok(Supply::Among(among))
    }

    /// The number of devices that a request and those after it that are alike still need.
    pub(super) fn needed_together(&self, at: At, needed: usize) -> usize {
        let after = self.checked.alike_after(at.claim, at.request).iter().map(|alike| alike.count);
        after.fold(needed, usize::saturating_add)
    }

    /// Notes which of these requests is the first for which these devices are too few.
    pub(super) fn note_short(&mut self, at: At, needed: usize, devices: usize) {
        let mut left = devices.checked_sub(needed);
        for alike in self.checked.alike_after(at.claim, at.request) {
            let Some(devices) = left else { break };
            self.furthest = self.furthest.max((alike.claim, alike.request));
            left = devices.checked_sub(alike.count);
        }
    }
}
