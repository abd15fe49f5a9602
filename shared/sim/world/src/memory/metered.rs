//! The claims table with the throughput of DynamoDB's partitions: a request beyond it is refused and changes nothing.
//!
//! The SDK's retries are not simulated. The index `instance` has partitions of its own, by instance, and is not counted. An item that
//! is deleted or updated counts as one of up to 1 KB.

use super::meter::{Exceeded, Meter, PartitionLimits, Use};
use async_trait::async_trait;
use nodeless_ports::table::{Change, Item, Key, Outcome, Partition, Query, Table, Write};
use nodeless_ports::{Clock, ErrorKind, PortError};
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A table whose partitions have the limits of DynamoDB. Clones share it.
#[derive(Clone)]
pub struct MeteredTable {
    inner: Arc<dyn Table>,
    clock: Arc<dyn Clock>,
    meter: Arc<Mutex<Meter>>,
}

impl MeteredTable {
    /// The table with limits.
    #[must_use]
    pub fn new(inner: Arc<dyn Table>, clock: Arc<dyn Clock>) -> Self {
        Self { inner, clock, meter: Arc::default() }
    }

    /// Changes the limits of every partition.
    pub fn set_limits(&self, limits: PartitionLimits) {
        self.lock().limits = limits;
    }

    /// How many requests were refused.
    #[must_use]
    pub fn refused(&self) -> u64 {
        self.lock().refused
    }

    fn lock(&self) -> MutexGuard<'_, Meter> {
        self.meter.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self, operation: &str, uses: impl IntoIterator<Item = (Partition, Use)>) -> Result<(), PortError> {
        let uses: Vec<(Partition, Use)> = uses.into_iter().collect();
        self.lock().take(&uses, self.clock.now()).map_err(|exceeded| {
            let reason = match exceeded {
                Exceeded::Reads => "TableReadKeyRangeThroughputExceeded",
                Exceeded::Writes => "TableWriteKeyRangeThroughputExceeded",
            };
            // The exception of a table in on-demand mode.
            let message = format!("Throughput exceeds the maximum of a partition ({reason})");
            PortError::new(ErrorKind::Throttled, operation, message).with_code("ThrottlingException")
        })
    }
}

fn size(items: &[Item]) -> usize {
    items.iter().map(Item::bytes).sum()
}

/// The size of the item that a write leaves.
fn written(write: &Write) -> usize {
    match &write.change {
        Change::Put(attributes) => Item { key: write.key.clone(), attributes: attributes.clone() }.bytes(),
        Change::Set(_) | Change::Add(_) | Change::Delete => 0,
    }
}

/// A read takes the units of its answer. A write is refused before it has an effect, and takes its units also if its condition is not
/// met.
#[async_trait]
impl Table for MeteredTable {
    fn name(&self) -> &str {
        self.inner.name()
    }

    async fn get(&self, operation: &'static str, key: &Key) -> Result<Option<Item>, PortError> {
        let item = self.inner.get(operation, key).await?;
        self.take(operation, [(key.partition, Use::Item(item.as_ref().map_or(0, Item::bytes)))])?;
        Ok(item)
    }

    async fn get_all(&self, operation: &'static str, keys: &BTreeSet<Key>) -> Result<Vec<Item>, PortError> {
        let items = self.inner.get_all(operation, keys).await?;
        self.take(operation, items.iter().map(|item| (item.key.partition, Use::Item(item.bytes()))))?;
        Ok(items)
    }

    async fn query(&self, operation: &'static str, queries: &[Query]) -> Result<Vec<Item>, PortError> {
        let mut all = Vec::new();
        for query in queries {
            let items = self.inner.query(operation, std::slice::from_ref(query)).await?;
            self.take(operation, [(query.partition, Use::Query(size(&items)))])?;
            all.extend(items);
        }
        Ok(all)
    }

    async fn find_by_instance(&self, operation: &'static str, instance_id: &str) -> Result<Vec<Key>, PortError> {
        self.inner.find_by_instance(operation, instance_id).await
    }

    async fn write(&self, operation: &'static str, writes: Vec<Write>) -> Result<Outcome, PortError> {
        let kind = if writes.len() > 1 { Use::WriteInTransaction } else { Use::Write };
        self.take(operation, writes.iter().map(|write| (write.key.partition, kind(written(write)))))?;
        self.inner.write(operation, writes).await
    }

    async fn put_all(&self, operation: &'static str, items: Vec<Item>) -> Result<(), PortError> {
        self.take(operation, items.iter().map(|item| (item.key.partition, Use::Write(item.bytes()))))?;
        self.inner.put_all(operation, items).await
    }
}
