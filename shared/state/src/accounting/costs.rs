//! Costs of nodes: the record of the current hour, and those of the hours that have ended.

use crate::State;
use crate::items::{
    attributes, number, read_bytes, read_json, read_number, read_text, text, ttl, unusable, write_json,
};
use crate::state::{after, conflict};
use crate::versioned::Stored;
use jiff::Timestamp;
use nodeless_model::EndedNode;
use nodeless_ports::PortError;
use nodeless_ports::table::{Change, Item, Key, Outcome, Range, TRANSACTION_WRITES, Value, Write};
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

/// The maximum number of hours that are written in one transaction with the open record.
pub const HOURS_TOGETHER: usize = TRANSACTION_WRITES - 1;

const OPEN: &str = "cost#open";
const HOUR: &str = "hour#";
const ENDED: &str = "ended#";
/// Sorts after every key with one of these prefixes.
const LAST: &str = "~";

impl State {
    /// The record of the hour that has not ended, read consistently; with version zero if there is none.
    ///
    /// # Errors
    /// When the table cannot be read.
    pub async fn open_costs(&self) -> Result<StoredCosts, PortError> {
        // A query, so that `nodeless report` needs no other right.
        let items = self.items_of("claims open costs", OPEN).await?;
        let Some(item) = items.first() else { return Ok(StoredCosts::default()) };
        Ok(StoredCosts { version: read_number(item, "version")?, encoded: read_bytes(item, "record")?.to_vec() })
    }

    /// The instances that have ended at this time or later, in the order of their ends, read consistently.
    ///
    /// # Errors
    /// When the table cannot be read, or an item cannot be decoded.
    pub async fn ended_nodes(&self, since: Timestamp) -> Result<Vec<EndedNode>, PortError> {
        let keys = Range::Between(format!("{ENDED}{}", ended_key(since, "")), format!("{ENDED}{LAST}"));
        let items = self.items("claims ended nodes", keys).await?;
        items.iter().map(|item| read_json(item, "record")).collect()
    }

    /// Writes the records of hours that have ended, which expire after [`HOURS_KEPT`], and the record of the hour that has not, if the
    /// table still holds the version that was read (none if that is zero). Returns the new version. Up to [`HOURS_TOGETHER`] hours
    /// are one transaction with it. More are written before it; to write an hour again replaces it.
    ///
    /// # Errors
    /// [`Conflict`](crate::ErrorKind::Conflict) when another process wrote first, `Invalid` when a record is too large.
    pub async fn put_costs(&self, open: &StoredCosts, ended: &[StoredHour]) -> Result<u64, PortError> {
        const OPERATION: &str = "claims put costs";
        let stored = Stored::read(open.version);
        let record = attributes([("record", Value::Bytes(open.encoded.clone()))]);
        let mut writes = vec![stored.replace(Key::of_cluster(OPEN), record)];
        let hours = ended.iter().map(hour_item);
        if ended.len() > HOURS_TOGETHER {
            self.table.put_all(OPERATION, hours.collect()).await?;
        } else {
            writes.extend(hours.map(|hour| Write::new(hour.key, Change::Put(hour.attributes))));
        }
        match self.table.write(OPERATION, writes).await? {
            Outcome::Written => Ok(stored.next()),
            Outcome::Refused(_) => Err(conflict(OPERATION, OPEN)),
        }
    }

    /// The records of the hours that start at `from` or later and before `to`, in the order of hour and NodePool.
    ///
    /// # Errors
    /// When the table cannot be read.
    pub async fn hours(&self, from: Timestamp, to: Timestamp) -> Result<Vec<StoredHour>, PortError> {
        if from >= to {
            return Ok(Vec::new());
        }
        // Keys of the hour `to` are longer than its prefix, and sort after it.
        let keys = Range::Between(format!("{HOUR}{}", hour_key(from)), format!("{HOUR}{}", hour_key(to)));
        self.items("claims hours", keys).await?.iter().map(decode_hour).collect()
    }
}

/// The write that records the end of an instance.
pub(crate) fn ended_write(operation: &str, node: &EndedNode) -> Result<Write, PortError> {
    let record = write_json(operation, node)?;
    let attributes = attributes([("record", record), ("expires", ttl(after(node.ended, ENDED_KEPT)))]);
    Ok(Write::new(Key::of_cluster(format!("{ENDED}{}", ended_key(node.ended, &node.name))), Change::Put(attributes)))
}

fn hour_item(hour: &StoredHour) -> Item {
    let attributes = attributes([
        ("record", Value::Bytes(hour.encoded.clone())),
        ("hour", number(hour.hour.as_second())),
        ("nodePool", text(&hour.node_pool)),
        ("expires", ttl(after(hour.hour, HOURS_KEPT))),
    ]);
    Item { key: Key::of_cluster(format!("{HOUR}{}", hour.key())), attributes }
}

fn decode_hour(item: &Item) -> Result<StoredHour, PortError> {
    let hour = Timestamp::from_second(read_number(item, "hour")?);
    let hour = hour.map_err(|error| unusable(item, &error.to_string()))?;
    let (node_pool, encoded) = (read_text(item, "nodePool")?.to_owned(), read_bytes(item, "record")?.to_vec());
    Ok(StoredHour { hour, node_pool, encoded })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_sort_by_time_and_the_next_hour_is_not_read() {
        let hour =
            |at: &str| StoredHour { hour: at.parse().unwrap(), node_pool: "default".into(), encoded: vec![1, 2] };
        let key = |at: &str| hour_item(&hour(at)).key.sort;
        assert_eq!(key("2026-11-23T13:00:00Z"), "hour#2026-11-23T13#default");
        let to = format!("{HOUR}{}", hour_key("2026-11-23T14:00:00Z".parse().unwrap()));
        assert!(key("2026-11-23T13:00:00Z") < to && to < key("2026-11-23T14:00:00Z"));
        let item = hour_item(&hour("2026-11-23T13:00:00Z"));
        assert_eq!(decode_hour(&item).unwrap(), hour("2026-11-23T13:00:00Z"));
        // 13 months later, rounded up.
        assert_eq!(read_number::<i64>(&item, "expires").unwrap(), 1_795_438_800 + 396 * 86_400 + 1);
        let since = format!("{ENDED}{}", ended_key("2026-11-23T13:00:00Z".parse().unwrap(), ""));
        assert_eq!(since, "ended#2026-11-23T13:00:00.000Z#");
        assert!(
            since.as_str() < "ended#2026-11-23T13:00:00.001Z#a" && since.as_str() > "ended#2026-11-23T12:59:59.999Z#z"
        );
        assert!(since < format!("{ENDED}{LAST}"));
    }
}
