//! ARC in memory: the zonal shifts of the cluster.

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
    /// Shifts the cluster away from a zone until a time; `None` for a shift of AWS, which has no expiry.
    pub fn start(&self, zone_id: &str, until: Option<Timestamp>) {
        self.lock().insert(zone_id.to_owned(), until);
    }

    /// Ends a shift. Returns whether there was one.
    pub fn cancel(&self, zone_id: &str) -> bool {
        self.lock().remove(zone_id).is_some()
    }

    /// Ends expired shifts, and returns the ids of their zones.
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
