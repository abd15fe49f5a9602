//! Shards: the claims that are reconciled together, and when each of them is due.

use crate::State;
use crate::items::{attributes, read_deflated, read_number, write_deflated};
use crate::versioned::Stored;
use jiff::Timestamp;
use nodeless_ports::PortError;
use nodeless_ports::table::{Item, Key};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A part of the claims that launch, join, drain or terminate, or whose reconciliation was requested. One message in the claims
/// queue reconciles all of them that are due.
///
/// A shard contains the names of its claims. So the number of shards may change between writes, and a claim in two shards is only
/// reconciled twice: every write of a claim is conditional.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StoredShard {
    /// The shard's number.
    pub shard: u32,
    /// The number of writes. A write fails if another one came first. Zero before the first write.
    #[serde(skip)]
    pub version: u64,
    /// When each of its claims is due. Empty if no claim is due.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub due: BTreeMap<String, Timestamp>,
    /// When the last message was due to arrive, if no process has taken the claims since.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<Timestamp>,
    /// The number of messages that were sent, which is the number of the last one. A message with another number is a copy, or
    /// another message replaced it.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub messages: u64,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

const PREFIX: &str = "shard#";

impl State {
    /// All shards, in the order of their numbers, read consistently.
    ///
    /// # Errors
    /// When the table cannot be read, or one record cannot be decoded.
    pub async fn shards(&self) -> Result<Vec<StoredShard>, PortError> {
        let items = self.items_of("claims shards", PREFIX).await?;
        let mut shards: Vec<StoredShard> = items.iter().map(decode).collect::<Result<_, _>>()?;
        shards.sort_by_key(|shard| shard.shard);
        Ok(shards)
    }

    /// Reads a shard consistently. `None` if it was never written.
    ///
    /// # Errors
    /// When the table cannot be read.
    pub async fn shard(&self, shard: u32) -> Result<Option<StoredShard>, PortError> {
        self.item("claims shard", &sort(shard)).await?.as_ref().map(decode).transpose()
    }

    /// Writes a shard if the table still holds the version that was read (none if that is zero), and returns the new version.
    ///
    /// # Errors
    /// [`Conflict`](crate::ErrorKind::Conflict) when another process wrote first.
    pub async fn put_shard(&self, shard: &StoredShard) -> Result<u64, PortError> {
        const OPERATION: &str = "claims put shard";
        let stored = Stored::read(shard.version);
        let record = attributes([("record", write_deflated(OPERATION, shard)?)]);
        self.put_versioned(OPERATION, Key::of_cluster(sort(shard.shard)), record, stored).await
    }
}

fn sort(shard: u32) -> String {
    format!("{PREFIX}{shard}")
}

fn decode(item: &Item) -> Result<StoredShard, PortError> {
    Ok(StoredShard { version: read_number(item, "version")?, ..read_deflated(item, "record")? })
}
