//! The devices of a node, for the searches of all claims.

use crate::allocation::{DeviceId, Taken};
use crate::requests::NamedSelector;
use crate::selector::EvaluationError;
use crate::slices::counters::Counters;
use crate::slices::node_selector::Place;
use crate::slices::pools::Pool;
use crate::slices::slice::{Device, Slice};
use std::cell::RefCell;
use std::collections::HashMap;

/// A device: the indices of its pool and of itself.
pub(crate) type DeviceAt = (usize, usize);

/// Whether a selector selects a device, and the number of steps that the evaluation takes.
type Evaluated = (Result<bool, EvaluationError>, u32);

/// The devices of a node before any claim of the plan has some.
pub(crate) struct SiteDevices<'a> {
    pub(crate) place: &'a Place<'a>,
    pub(crate) pools: &'a [Pool<'a>],
    /// By pool and device.
    pub(crate) taken: Vec<Vec<bool>>,
    /// By pool.
    pub(crate) counters: Vec<Counters<'a>>,
    /// By the number of a selector and the device.
    evaluated: RefCell<HashMap<(usize, DeviceAt), Evaluated>>,
}

impl<'a> SiteDevices<'a> {
    pub(crate) fn new(place: &'a Place<'a>, pools: &'a [Pool<'a>], taken: &Taken) -> Self {
        let taken_of = |pool: &Pool<'_>| {
            let taken = taken.of_pool(&pool.id);
            pool.devices.iter().map(|(_, device)| taken.is_some_and(|taken| taken.contains(&device.name))).collect()
        };
        Self {
            place,
            pools,
            taken: pools.iter().map(taken_of).collect(),
            counters: pools.iter().map(|pool| Counters::new(pool, taken.of_pool(&pool.id))).collect(),
            evaluated: RefCell::default(),
        }
    }

    pub(crate) fn device(&self, at: DeviceAt) -> (&'a Slice, &'a Device) {
        self.pools[at.0].devices[at.1]
    }

    pub(crate) fn id(&self, device: DeviceAt) -> DeviceId {
        let pool = &self.pools[device.0].id;
        DeviceId { driver: pool.driver.clone(), pool: pool.name.clone(), device: self.device(device).1.name.clone() }
    }

    /// Evaluates a selector for a device, once for all claims.
    pub(crate) fn evaluate(&self, selector: &NamedSelector, device: DeviceAt) -> Evaluated {
        let key = (selector.number, device);
        if let Some(known) = self.evaluated.borrow().get(&key) {
            return known.clone();
        }
        let (slice, it) = self.device(device);
        let evaluated = selector.selector.evaluate(&slice.spec.driver, it);
        self.evaluated.borrow_mut().insert(key, evaluated.clone());
        evaluated
    }
}
