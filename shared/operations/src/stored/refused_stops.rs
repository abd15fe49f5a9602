//! The NodePools whose warm nodes EC2 refuses to stop, kept in the claims table. Lifecycle writes them, and the planner reads them.

use crate::records;
use jiff::{SignedDuration, Timestamp};
use nodeless_model::NodePool;
use nodeless_ports::PortError;
use nodeless_state::{RecordKind, StoredRecord};
use serde::{Deserialize, Serialize};

/// How long nothing is stopped for the NodePool, unless its annotation changes.
const REFUSED_FOR: SignedDuration = SignedDuration::from_hours(6);

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct RefusedStop {
    /// The number of warm nodes of the annotation.
    warm: Option<usize>,
    until: Timestamp,
}

/// The number of warm nodes that the annotation of a NodePool asks for.
fn warm(pool: Option<&NodePool>) -> Option<usize> {
    pool?.warm_nodes().valid().copied()
}

/// Whether EC2 refused a stop for the NodePool lately. A record that cannot be decoded refuses nothing.
pub fn in_effect(stored: &StoredRecord, pool: Option<&NodePool>, now: Timestamp) -> bool {
    let decoded: Result<RefusedStop, _> = records::decode(RecordKind::RefusedStops, stored);
    decoded.is_ok_and(|refused| refused.warm == warm(pool) && now < refused.until)
}

/// The record of a stop that EC2 refuses now, to be written over the one that was read.
///
/// # Errors
/// If it cannot be encoded.
pub fn refused(
    read: &StoredRecord,
    name: &str,
    pool: Option<&NodePool>,
    now: Timestamp,
) -> Result<StoredRecord, PortError> {
    let until = now.saturating_add(REFUSED_FOR).unwrap_or(Timestamp::MAX);
    records::encode(name, read.version, &RefusedStop { warm: warm(pool), until }, Some(until))
}
