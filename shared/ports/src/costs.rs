//! Costs of nodes: the record of the current hour, and those of the hours that have ended.

use crate::PortError;
use async_trait::async_trait;
use jiff::Timestamp;
use nodeless_model::EndedNode;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// How long the record of an hour is kept: 13 months, so that a month can be compared with the same month of the year before.
pub const HOURS_KEPT: Duration = Duration::from_hours(24 * (365 + 31));
/// How long the record of an ended instance is kept: far longer than an interruption of recording.
pub const ENDED_KEPT: Duration = Duration::from_hours(24 * 14);

/// The record of the hour that has not ended, as it is stored.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StoredCosts {
    /// The number of writes. A write fails if another one came first. Zero before the first write.
    pub version: u64,
    /// The record that its owner encoded; empty before the first write.
    pub encoded: Vec<u8>,
}

/// The record of an hour and a NodePool, as it is stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StoredHour {
    /// The start of the hour.
    pub hour: Timestamp,
    /// The NodePool.
    pub node_pool: String,
    /// The record that its owner encoded.
    pub encoded: Vec<u8>,
}

impl StoredHour {
    /// The end of its key in the claims table. The text sorts by time.
    #[must_use]
    pub fn key(&self) -> String {
        format!("{}#{}", hour_key(self.hour), self.node_pool)
    }
}

/// The beginning of the keys of an hour: `2026-11-23T13`.
#[must_use]
pub fn hour_key(hour: Timestamp) -> String {
    hour.strftime("%Y-%m-%dT%H").to_string()
}

/// The key of an instance that has ended. The text sorts by time.
#[must_use]
pub fn ended_key(at: Timestamp, name: &str) -> String {
    format!("{}#{name}", at.strftime("%Y-%m-%dT%H:%M:%S%.3fZ"))
}

/// The cost records of one cluster. An instance that has ended is written by [`Claims::delete`](crate::Claims::delete).
#[async_trait]
pub trait Costs: Send + Sync {
    /// The record of the hour that has not ended, read consistently; with version zero if there is none.
    ///
    /// # Errors
    /// When the table cannot be read.
    async fn open_costs(&self) -> Result<StoredCosts, PortError>;

    /// The instances that have ended at this time or later, in the order of their ends, read consistently.
    ///
    /// # Errors
    /// When the table cannot be read, or an item cannot be decoded.
    async fn ended_nodes(&self, since: Timestamp) -> Result<Vec<EndedNode>, PortError>;

    /// Writes the records of hours that have ended, which expire after [`HOURS_KEPT`], and the record of the hour that has not, if the
    /// table still holds the version that was read (none if that is zero). Returns the new version. Up to [`HOURS_TOGETHER`] hours
    /// are one transaction with it. More are written before it; to write an hour again replaces it.
    ///
    /// # Errors
    /// [`Conflict`](crate::ErrorKind::Conflict) when another process wrote first, `Invalid` when a record is too large.
    async fn put_costs(&self, open: &StoredCosts, ended: &[StoredHour]) -> Result<u64, PortError>;

    /// The records of the hours that start at `from` or later and before `to`, in the order of hour and NodePool.
    ///
    /// # Errors
    /// When the table cannot be read.
    async fn hours(&self, from: Timestamp, to: Timestamp) -> Result<Vec<StoredHour>, PortError>;
}

/// The most hours that are one transaction with the open record: DynamoDB allows 100 writes.
pub const HOURS_TOGETHER: usize = 99;
