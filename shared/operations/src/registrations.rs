//! The results of the last launches of each NodePool, kept in the claims table: lifecycle writes it, and the planner reads it.

use crate::context::Context;
use crate::lines::Failed;
use crate::records::{self, RecordError};
use jiff::Timestamp;
use nodeless_lifecycle::{Registration, RegistrationHealth};
use nodeless_model::NodeClaim;
use nodeless_ports::{ErrorKind, PortError, RecordKind, Records, StoredRecord};
use std::time::Duration;

/// For how long the record of a NodePool is kept where nothing changes. Its condition has the result afterwards.
const KEEP: Duration = Duration::from_hours(30 * 24);
/// How often a write is tried that others come before: those of claims that end at the same moment.
const ATTEMPTS: u32 = 8;

/// Records the result of a claim's launch, before that is written on the claim: so it is never lost, and a repetition
/// notes the same of the same claim, which counts once.
///
/// # Errors
/// When the table cannot be read or written; the claim's step has to wait then.
pub(crate) async fn note(
    table: &dyn Records,
    context: &Context,
    claim: &NodeClaim,
    came_to: Registration,
) -> Result<(), PortError> {
    let mut attempt = 1;
    loop {
        // The planner makes the record, before it makes the first claim.
        let Some(stored) = table.record(RecordKind::Registrations, &claim.node_pool).await? else { return Ok(()) };
        let mut health = match decode(&stored) {
            Ok(health) => health,
            Err(why) => {
                // The planner begins another.
                context.log(&Failed { what: "note whether nodes join", why: &why.to_string() });
                return Ok(());
            }
        };
        if !health.push(claim, came_to.clone()) {
            return Ok(());
        }
        let record = encode(&claim.node_pool, stored.version, &health, context.now())?;
        match table.put_record(RecordKind::Registrations, &record).await {
            Err(error) if error.kind == ErrorKind::Conflict && attempt < ATTEMPTS => attempt += 1,
            other => return other.map(drop),
        }
    }
}

/// What is known of a NodePool's launches, as it is stored over that version.
///
/// # Errors
/// When it cannot be encoded.
pub(crate) fn encode(
    node_pool: &str,
    version: u64,
    health: &RegistrationHealth,
    now: Timestamp,
) -> Result<StoredRecord, PortError> {
    records::encode(node_pool, version, health, Some(now.saturating_add(KEEP).unwrap_or(Timestamp::MAX)))
}

/// What is known of a NodePool's launches.
///
/// # Errors
/// When it is nothing that this version writes.
pub(crate) fn decode(stored: &StoredRecord) -> Result<RegistrationHealth, RecordError> {
    records::decode(RecordKind::Registrations, stored)
}
