//! Zonal shifts of Amazon Application Recovery Controller (ARC): zones that the cluster keeps away from for a while.

use crate::PortError;
use async_trait::async_trait;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A shift that is applied to the cluster.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ZonalShift {
    /// The zone's id, the same in every account, such as `use1-az1`.
    pub zone_id: String,
    /// When it ends by itself. `None` where nobody knows, as with a shift that AWS began.
    pub until: Option<Timestamp>,
}

/// ARC, as far as it is about this cluster.
#[async_trait]
pub trait ZonalShifts: Send + Sync {
    /// The shifts that are applied to the cluster now. Those that another one keeps from being applied are left out.
    ///
    /// # Errors
    /// When ARC cannot be read, does not know the cluster, or says what this version does not understand. Then nothing is
    /// known: neither that there is a shift nor that there is none.
    async fn applied(&self) -> Result<Vec<ZonalShift>, PortError>;
}

/// A zone that the cluster is shifted away from.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ShiftedZone {
    /// Its id.
    pub zone_id: String,
    /// Its name in this account, such as `us-east-1a`.
    pub zone: String,
    /// From when on it is not shifted away from any more, whatever becomes of reading ARC.
    pub until: Timestamp,
}

/// What is known of zonal shifts, as it is stored: so that whoever launches or terminates need not ask ARC.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StoredZonalShifts {
    /// Counts the writes; a write is refused when another came before it. Zero before the first.
    #[serde(skip)]
    pub version: u64,
    /// The zones, in the order of their ids.
    pub zones: Vec<ShiftedZone>,
    /// The zones of which NodePools were last told that they are shifted away from: name by id.
    pub told: BTreeMap<String, String>,
}

impl StoredZonalShifts {
    /// The zones that are shifted away from at this time.
    #[must_use]
    pub fn in_effect(&self, now: Timestamp) -> Vec<ShiftedZone> {
        self.zones.iter().filter(|zone| zone.until > now).cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shift_ends_at_its_moment() {
        let until = Timestamp::from_second(100).unwrap();
        let zone = ShiftedZone { zone_id: "use1-az1".into(), zone: "us-east-1a".into(), until };
        let stored = StoredZonalShifts { zones: vec![zone.clone()], ..StoredZonalShifts::default() };
        assert_eq!(stored.in_effect(Timestamp::from_second(99).unwrap()), [zone]);
        assert!(stored.in_effect(until).is_empty());
    }
}
