//! The results of the last launches of each NodePool, kept in the claims table: lifecycle writes it, and the planner reads it.

use crate::context::Context;
use crate::lines::Failed;
use crate::records::{self, RecordError};
use jiff::Timestamp;
use nodeless_lifecycle::{Registration, RegistrationHealth};
use nodeless_model::NodeClaim;
use nodeless_ports::{ErrorKind, PortError, RecordKind, Records, StoredRecord};
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// For how long the record of a NodePool is kept where nothing changes. Its condition has the result afterwards.
const KEEP: Duration = Duration::from_hours(30 * 24);
/// How often a write is tried that others come before: those of claims that end at the same moment.
const ATTEMPTS: u32 = 8;

/// The results of the launches of NodePools, as one run of a function knows them.
#[derive(Default)]
pub(crate) struct Registrations {
    /// The record of each NodePool as it was last read or written, and `None` where there is none.
    known: Mutex<BTreeMap<String, Option<(u64, RegistrationHealth)>>>,
}

impl Registrations {
    /// Records the result of a claim's launch, before that is written on the claim: so it is never lost, and a repetition
    /// notes the same of the same claim, which counts once.
    ///
    /// # Errors
    /// When the table cannot be read or written; the claim's step has to wait then.
    pub(crate) async fn note(
        &self,
        table: &dyn Records,
        context: &Context,
        claim: &NodeClaim,
        came_to: Registration,
    ) -> Result<(), PortError> {
        let pool = &claim.node_pool;
        let mut attempt = 1;
        loop {
            let Some((version, mut health)) = self.read(table, context, pool).await? else { return Ok(()) };
            if !health.push(claim, came_to.clone()) {
                return Ok(());
            }
            let record = encode(pool, version, &health, context.now())?;
            match table.put_record(RecordKind::Registrations, &record).await {
                Ok(version) => {
                    self.lock().insert(pool.clone(), Some((version, health)));
                    return Ok(());
                }
                Err(error) => {
                    // Another process wrote it, or it is not known whether it was written.
                    self.lock().remove(pool);
                    if error.kind != ErrorKind::Conflict || attempt >= ATTEMPTS {
                        return Err(error);
                    }
                    attempt += 1;
                }
            }
        }
    }

    /// The record of a NodePool; `None` where there is none. The planner makes it, before it makes the first claim, and makes
    /// another where this one cannot be decoded.
    async fn read(
        &self,
        table: &dyn Records,
        context: &Context,
        node_pool: &str,
    ) -> Result<Option<(u64, RegistrationHealth)>, PortError> {
        if let Some(known) = self.lock().get(node_pool) {
            return Ok(known.clone());
        }
        let stored = table.record(RecordKind::Registrations, node_pool).await?;
        let read = stored.and_then(|stored| match decode(&stored) {
            Ok(health) => Some((stored.version, health)),
            Err(why) => {
                context.log(&Failed { what: "note whether nodes join", why: &why.to_string() });
                None
            }
        });
        self.lock().insert(node_pool.to_owned(), read.clone());
        Ok(read)
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Option<(u64, RegistrationHealth)>>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
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
