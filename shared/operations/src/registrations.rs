//! The results of the last launches of each NodePool, kept in the claims table. Lifecycle writes them, and the planner reads
//! them.

use crate::Context;
use crate::log_lines::Failed;
use crate::records::{self, RecordError};
use jiff::Timestamp;
use nodeless_lifecycle::{Registration, RegistrationHealth};
use nodeless_model::NodeClaim;
use nodeless_ports::{ErrorKind, PortError, RecordKind, Records, StoredRecord};
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How long the record of a NodePool is kept without changes. The condition keeps the result afterwards.
const KEEP: Duration = Duration::from_hours(30 * 24);
/// How often a write is retried after conflicts with claims that end at the same time.
const ATTEMPTS: u32 = 8;

/// The launch results of NodePools, as read in one run of a function.
#[derive(Default)]
pub(crate) struct Registrations {
    /// The record of each NodePool as last read or written; `None` if there is none.
    known: Mutex<BTreeMap<String, Option<(u64, RegistrationHealth)>>>,
}

impl Registrations {
    /// Records the result of a claim's launch before it is written on the claim, so that it is never lost. Recording the same
    /// result of the same claim again has no effect.
    ///
    /// # Errors
    /// If the table cannot be read or written. The claim's step has to wait then.
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
                    // Another process wrote it, or the outcome of the write is unknown.
                    self.lock().remove(pool);
                    if error.kind != ErrorKind::Conflict || attempt >= ATTEMPTS {
                        return Err(error);
                    }
                    attempt += 1;
                }
            }
        }
    }

    /// The record of a NodePool; `None` if there is none. The planner creates it before the first claim, and replaces a record
    /// that cannot be decoded.
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

/// Encodes the launch results of a NodePool, to be written over that version.
///
/// # Errors
/// If they cannot be encoded.
pub(crate) fn encode(
    node_pool: &str,
    version: u64,
    health: &RegistrationHealth,
    now: Timestamp,
) -> Result<StoredRecord, PortError> {
    records::encode(node_pool, version, health, Some(now.saturating_add(KEEP).unwrap_or(Timestamp::MAX)))
}

/// Decodes the launch results of a NodePool.
///
/// # Errors
/// If this version cannot decode them.
pub(crate) fn decode(stored: &StoredRecord) -> Result<RegistrationHealth, RecordError> {
    records::decode(RecordKind::Registrations, stored)
}
