//! The stored zonal shifts, which launches, disruption and terminations honour. The sweep reads them from ARC and stores them.

use crate::records;
use jiff::Timestamp;
use nodeless_ports::{PortError, ShiftedZone};
use nodeless_scheduling::{Cause, PodFault, Reason};
use nodeless_state::{RecordKind, State};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The stored zonal shifts, so that a launch or a termination does not call ARC.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StoredZonalShifts {
    /// Counts the writes. A write fails if another one came first. Zero before the first write.
    #[serde(skip)]
    pub version: u64,
    /// The zones, in the order of their ids.
    pub zones: Vec<ShiftedZone>,
    /// The zones that the last events on NodePools reported as shifted away from: name by id.
    pub reported: BTreeMap<String, String>,
}

impl StoredZonalShifts {
    /// Decodes the record of the table.
    ///
    /// # Errors
    /// If it cannot be read, or this version cannot decode it.
    pub async fn read(table: &State) -> Result<Self, PortError> {
        let Some(stored) = table.record(RecordKind::ZonalShifts, "").await? else { return Ok(Self::default()) };
        Ok(Self { version: stored.version, ..records::decode(RecordKind::ZonalShifts, &stored)? })
    }

    /// The zones that are shifted away from at this time.
    pub fn in_effect(&self, now: Timestamp) -> Vec<ShiftedZone> {
        self.zones.iter().filter(|zone| zone.until > now).cloned().collect()
    }
}

/// The zones that are shifted away from, if zonal shifts are `honoured`.
///
/// # Errors
/// When the claims table cannot be read.
pub async fn in_effect(table: &State, honoured: bool, now: Timestamp) -> Result<Vec<ShiftedZone>, PortError> {
    if !honoured {
        return Ok(Vec::new());
    }
    Ok(StoredZonalShifts::read(table).await?.in_effect(now))
}

/// The shift away from a zone, by the zone's name.
pub fn of_zone<'s>(shifted: &'s [ShiftedZone], zone: &str) -> Option<&'s ShiftedZone> {
    shifted.iter().find(|shifted| shifted.zone == zone)
}

/// The message about a shift.
pub fn words(shifted: &ShiftedZone) -> String {
    let ShiftedZone { zone, zone_id, until } = shifted;
    format!("a zonal shift away from {zone} ({zone_id}) is in effect until {until}")
}

/// The zonal shifts to mention in the explanation of an unschedulable pod: none if zones do not matter.
pub fn explanation(shifted: &[ShiftedZone], reasons: &[Reason]) -> Option<String> {
    let of_zones = |reason: &Reason| match reason {
        Reason::Pod(fault) => matches!(fault, PodFault::Topology { .. } | PodFault::NoDomain { .. }),
        Reason::NodePool { cause, .. } => matches!(cause, Cause::NoOffering { .. }),
        Reason::NoNodePools | Reason::NoValidNodePools | Reason::OutOfWork | Reason::NotExplained => false,
    };
    let matters = !shifted.is_empty() && reasons.iter().any(of_zones);
    matters.then(|| shifted.iter().map(words).collect::<Vec<_>>().join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn zone(name: &str, zone_id: &str, until: i64) -> ShiftedZone {
        ShiftedZone { zone_id: zone_id.into(), zone: name.into(), until: at(until) }
    }

    fn known(zones: Vec<ShiftedZone>) -> StoredZonalShifts {
        StoredZonalShifts { zones, ..StoredZonalShifts::default() }
    }

    #[test]
    fn a_shift_ends_at_its_moment() {
        let stored = known(vec![zone("us-east-1a", "use1-az1", 100)]);
        assert_eq!(stored.in_effect(at(99)), stored.zones);
        assert!(stored.in_effect(at(100)).is_empty());
    }

    #[test]
    fn pods_hear_of_shifts_only_where_zones_matter() {
        let shifted = [zone("us-east-1a", "use1-az1", 900)];
        let of_pool = |cause| Reason::NodePool { node_pool: "default".into(), cause };
        let scarce = [of_pool(Cause::Deleting), of_pool(Cause::NoOffering { instance_types: vec!["m5.large".into()] })];
        let explained = explanation(&shifted, &scarce).unwrap();
        assert_eq!(explained, "a zonal shift away from us-east-1a (use1-az1) is in effect until 1970-01-01T00:15:00Z");
        assert_eq!(explanation(&[], &scarce), None);
        assert_eq!(explanation(&shifted, &[of_pool(Cause::NoTypeFits { most: Vec::new(), daemon_set: None })]), None);
    }
}
