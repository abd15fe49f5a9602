//! ARC in memory: which zones the cluster is shifted away from.

use async_trait::async_trait;
use jiff::Timestamp;
use nodeless_ports::{PortError, ZonalShift, ZonalShifts};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The zonal shifts of one cluster. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct MemoryZonalShifts {
    shifts: Arc<Mutex<BTreeMap<String, Option<Timestamp>>>>,
}

impl MemoryZonalShifts {
    /// Shifts away from a zone until then; `None` as AWS does it, without saying until when.
    pub fn start(&self, zone_id: &str, until: Option<Timestamp>) {
        self.lock().insert(zone_id.to_owned(), until);
    }

    /// Ends a shift. Returns whether there was one.
    pub fn cancel(&self, zone_id: &str) -> bool {
        self.lock().remove(zone_id).is_some()
    }

    /// Ends those that are over, and gives the ids of their zones.
    pub fn expire(&self, now: Timestamp) -> Vec<String> {
        let mut shifts = self.lock();
        let over = |until: &Option<Timestamp>| until.is_some_and(|until| until <= now);
        let ended = shifts.iter().filter(|(_, until)| over(until)).map(|(zone, _)| zone.clone()).collect();
        shifts.retain(|_, until| !over(until));
        ended
    }

    /// The shifts, in the order of their zones' ids.
    #[must_use]
    pub fn shifts(&self) -> Vec<ZonalShift> {
        self.lock().iter().map(|(zone_id, until)| ZonalShift { zone_id: zone_id.clone(), until: *until }).collect()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Option<Timestamp>>> {
        self.shifts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl ZonalShifts for MemoryZonalShifts {
    async fn applied(&self) -> Result<Vec<ZonalShift>, PortError> {
        Ok(self.shifts())
    }
}
