//! The stored state of one cluster, and the reads and writes that all its parts use.

use crate::versioned::Stored;
use jiff::Timestamp;
use nodeless_ports::table::{Attributes, Change, Condition, Item, Key, Outcome, Partition, Query, Range, Table, Write};
use nodeless_ports::{ErrorKind, PortError};
use std::sync::Arc;

/// The stored state of one cluster. Clones share the table.
#[derive(Clone)]
pub struct State {
    pub(crate) table: Arc<dyn Table>,
}

impl std::fmt::Debug for State {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("State").finish_non_exhaustive()
    }
}

impl State {
    /// The state in this table.
    #[must_use]
    pub fn new(table: Arc<dyn Table>) -> Self {
        Self { table }
    }

    /// The name of the table.
    #[must_use]
    pub fn table_name(&self) -> &str {
        self.table.name()
    }

    /// The item of the cluster with this sort key, read consistently.
    pub(crate) async fn item(&self, operation: &'static str, sort: &str) -> Result<Option<Item>, PortError> {
        self.table.get(operation, &Key::of_cluster(sort)).await
    }

    /// All items of the cluster whose sort key is in the range, in the order of their keys, read consistently.
    pub(crate) async fn items(&self, operation: &'static str, keys: Range) -> Result<Vec<Item>, PortError> {
        self.table
            .query(operation, &[Query { partition: Partition::Cluster, keys, last: None, consistent: true }])
            .await
    }

    /// All items of the cluster whose sort key begins with this.
    pub(crate) async fn items_of(&self, operation: &'static str, prefix: &str) -> Result<Vec<Item>, PortError> {
        self.items(operation, Range::Prefix(prefix.to_owned())).await
    }

    /// Writes one item. Returns whether the condition held.
    pub(crate) async fn write_one(&self, operation: &'static str, write: Write) -> Result<bool, PortError> {
        Ok(matches!(self.table.write(operation, vec![write]).await?, Outcome::Written))
    }

    /// Replaces an item of the cluster without a condition.
    pub(crate) async fn put(
        &self,
        operation: &'static str,
        sort: &str,
        attributes: Attributes,
    ) -> Result<(), PortError> {
        self.write_one(operation, Write::new(Key::of_cluster(sort), Change::Put(attributes))).await.map(drop)
    }

    /// Replaces an item that has a version, and returns the next version.
    pub(crate) async fn put_versioned(
        &self,
        operation: &'static str,
        key: Key,
        attributes: Attributes,
        stored: Stored,
    ) -> Result<u64, PortError> {
        let name = key.sort.clone();
        if self.write_one(operation, stored.replace(key, attributes)).await? {
            return Ok(stored.next());
        }
        Err(conflict(operation, &name))
    }

    /// Deletes an item of the cluster if the condition holds, or the item is missing. Returns whether it did.
    pub(crate) async fn delete_if(
        &self,
        operation: &'static str,
        sort: &str,
        condition: Condition,
    ) -> Result<bool, PortError> {
        let delete = Write::new(Key::of_cluster(sort), Change::Delete);
        self.write_one(operation, delete.on(Condition::Any(vec![Condition::Missing, condition]))).await
    }
}

pub(crate) fn conflict(operation: &str, name: &str) -> PortError {
    let message = format!("{name} was written by another process first; read it again");
    PortError::new(ErrorKind::Conflict, operation, message)
}

/// The name of the first of these items whose condition failed.
pub(crate) fn first_refused<'a, T>(names: impl IntoIterator<Item = &'a str>, refusals: &[Option<T>]) -> &'a str {
    names
        .into_iter()
        .zip(refusals)
        .find(|(_, refusal)| refusal.is_some())
        .map_or("an item of this write", |(name, _)| name)
}

/// The time after which an item expires.
pub(crate) fn after(at: Timestamp, kept: std::time::Duration) -> Timestamp {
    at.checked_add(kept).unwrap_or(Timestamp::MAX)
}
