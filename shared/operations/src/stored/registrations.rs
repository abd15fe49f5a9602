//! The results of the last launches of each NodePool, kept in the claims table. Lifecycle writes them, and the planner reads
//! them.

use crate::Context;
use crate::log_lines::Failed;
use crate::records::{self, RecordError};
use futures::lock::Mutex;
use jiff::Timestamp;
use nodeless_lifecycle::{Registration, RegistrationHealth};
use nodeless_model::NodeClaim;
use nodeless_ports::{ErrorKind, PortError};
use nodeless_state::{RecordKind, State, StoredRecord};
use std::collections::BTreeMap;
use std::time::Duration;

/// How long the record of a NodePool is kept without changes. The condition keeps the result afterwards.
const KEEP: Duration = Duration::from_hours(30 * 24);
/// How often a write is retried after conflicts with claims that end at the same time.
const ATTEMPTS: u32 = 8;

/// The launch results of NodePools, as read in one run of a function.
#[derive(Default)]
pub struct Registrations {
    /// The record of each NodePool as last read or written; `None` if there is none. The lock is held during reads and writes, so that
    /// claims of a run that join at the same time do not conflict and retry.
    known: Mutex<BTreeMap<String, Option<(u64, RegistrationHealth)>>>,
}

impl Registrations {
    /// Records the result of a claim's launch before it is written on the claim, so that it is never lost. Recording the same
    /// result of the same claim again has no effect.
    ///
    /// # Errors
    /// If the table cannot be read or written. The claim's step has to wait then.
    pub async fn note(
        &self,
        table: &State,
        context: &Context,
        claim: &NodeClaim,
        came_to: Registration,
    ) -> Result<(), PortError> {
        let Some(pool) = &claim.node_pool else { return Ok(()) };
        let mut known = self.known.lock().await;
        let mut attempt = 1;
        loop {
            let read = match known.get(pool) {
                Some(read) => read.clone(),
                None => known.entry(pool.clone()).or_insert(read(table, context, pool).await?).clone(),
            };
            let Some((version, mut health)) = read else { return Ok(()) };
            if !health.push(claim, came_to.clone()) {
                return Ok(());
            }
            let record = encode(pool, version, &health, context.now())?;
            match table.put_record(RecordKind::Registrations, &record).await {
                Ok(version) => {
                    known.insert(pool.clone(), Some((version, health)));
                    return Ok(());
                }
                Err(error) => {
                    // Another process wrote the record, or the outcome of the write is unknown.
                    known.remove(pool);
                    if error.kind != ErrorKind::Conflict || attempt >= ATTEMPTS {
                        return Err(error);
                    }
                    attempt += 1;
                }
            }
        }
    }
}

/// The record of a NodePool; `None` if there is none. The planner creates it before the first claim, and replaces a record that
/// cannot be decoded.
async fn read(
    table: &State,
    context: &Context,
    node_pool: &str,
) -> Result<Option<(u64, RegistrationHealth)>, PortError> {
    let stored = table.record(RecordKind::Registrations, node_pool).await?;
    Ok(stored.and_then(|stored| match decode(&stored) {
        Ok(health) => Some((stored.version, health)),
        Err(why) => {
            context.log(&Failed { what: "note whether nodes join", why: &why.to_string() });
            None
        }
    }))
}

/// Encodes the launch results of a NodePool, to be written over that version.
///
/// # Errors
/// If they cannot be encoded.
pub fn encode(
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
pub fn decode(stored: &StoredRecord) -> Result<RegistrationHealth, RecordError> {
    records::decode(RecordKind::Registrations, stored)
}

#[cfg(test)]
mod tests {
    use super::*;
    use async_trait::async_trait;
    use nodeless_lifecycle::registration_health::Described;
    use nodeless_model::Phase;
    use nodeless_model::test_support::node_claim;
    use nodeless_ports::Clock;
    use nodeless_ports::table::{Item, Key, Outcome, Query, Table, Write};
    use nodeless_telemetry::Null;
    use nodeless_world::memory::MemoryTable;
    use std::collections::BTreeSet;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    struct Stopped;

    #[async_trait]
    impl Clock for Stopped {
        fn now(&self) -> Timestamp {
            Timestamp::UNIX_EPOCH
        }

        async fn sleep(&self, _duration: Duration) {}
    }

    /// A table that takes a moment for each call, so that concurrent writes conflict.
    #[derive(Clone, Default)]
    struct Slow {
        table: MemoryTable,
        reads: Arc<AtomicU32>,
        conflicts: Arc<AtomicU32>,
    }

    #[async_trait]
    impl Table for Slow {
        fn name(&self) -> &str {
            self.table.name()
        }

        async fn get(&self, operation: &'static str, key: &Key) -> Result<Option<Item>, PortError> {
            self.reads.fetch_add(1, Ordering::Relaxed);
            tokio::task::yield_now().await;
            self.table.get(operation, key).await
        }

        async fn get_all(&self, operation: &'static str, keys: &BTreeSet<Key>) -> Result<Vec<Item>, PortError> {
            self.table.get_all(operation, keys).await
        }

        async fn query(&self, operation: &'static str, queries: &[Query]) -> Result<Vec<Item>, PortError> {
            self.table.query(operation, queries).await
        }

        async fn find_by_instance(&self, operation: &'static str, id: &str) -> Result<Vec<Key>, PortError> {
            self.table.find_by_instance(operation, id).await
        }

        async fn write(&self, operation: &'static str, writes: Vec<Write>) -> Result<Outcome, PortError> {
            tokio::task::yield_now().await;
            let outcome = self.table.write(operation, writes).await?;
            self.conflicts.fetch_add(u32::from(outcome != Outcome::Written), Ordering::Relaxed);
            Ok(outcome)
        }

        async fn put_all(&self, operation: &'static str, items: Vec<Item>) -> Result<(), PortError> {
            self.table.put_all(operation, items).await
        }
    }

    fn claim(number: u32) -> NodeClaim {
        NodeClaim { phase: Phase::Launched, ..node_claim(&format!("default-{number}")) }
    }

    #[tokio::test]
    async fn claims_that_join_together_do_not_write_over_each_other() {
        let of = Described { node_pool_uid: "u".into(), node_pool: 1, node_class: 1 };
        let record = encode("default", 0, &RegistrationHealth::unknown(of), Timestamp::UNIX_EPOCH).unwrap();
        let slow = Slow::default();
        let table = State::new(Arc::new(slow.clone()));
        table.put_record(RecordKind::Registrations, &record).await.unwrap();
        let context = Context { cluster_name: "test".into(), clock: Arc::new(Stopped), sink: Arc::new(Null) };
        let (registrations, claims) = (Registrations::default(), (0..16).map(claim).collect::<Vec<_>>());
        let notes = claims.iter().map(|claim| registrations.note(&table, &context, claim, Registration::Joined));
        for noted in futures::future::join_all(notes).await {
            noted.unwrap();
        }
        let counts = [&slow.reads, &slow.conflicts].map(|count| count.load(Ordering::Relaxed));
        assert_eq!(counts, [1, 0], "one read, and no write that another one preceded");
        let written = table.record(RecordKind::Registrations, "default").await.unwrap().unwrap();
        assert_eq!(written.version, 1 + 4, "the last four results count");
    }
}
