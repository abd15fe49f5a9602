//! Costs of nodes: the open record, the hours that have ended, and the instances that have ended.

use crate::claims::{Outcome, conflict, invalid};
use crate::items::{Item, number, read_json, read_number, read_text, text, ttl, write_json};
use crate::table::DynamoClaims;
use crate::versioned::Stored;
use async_trait::async_trait;
use aws_sdk_dynamodb::primitives::Blob;
use aws_sdk_dynamodb::types::{AttributeValue, Put, TransactWriteItem};
use jiff::Timestamp;
use nodeless_model::EndedNode;
use nodeless_ports::costs::{ENDED_KEPT, HOURS_KEPT, HOURS_TOGETHER, StoredCosts, StoredHour, ended_key, hour_key};
use nodeless_ports::{Costs, ErrorKind, PortError};
use std::time::Duration;

const OPEN: &str = "cost#open";
const HOUR: &str = "hour#";
const ENDED: &str = "ended#";
/// Sorts after every key with one of these prefixes.
const LAST: &str = "~";
const WRITE: &str = "DynamoDB TransactWriteItems (costs)";

#[async_trait]
impl Costs for DynamoClaims {
    async fn open_costs(&self) -> Result<StoredCosts, PortError> {
        // A query, so that `nodeless report` needs no other right.
        let Some(item) = self.items(OPEN, None).await?.into_iter().next() else { return Ok(StoredCosts::default()) };
        Ok(StoredCosts { version: read_number(&item, "version")?, encoded: read_bytes(&item)? })
    }

    async fn ended_nodes(&self, since: Timestamp) -> Result<Vec<EndedNode>, PortError> {
        let from = format!("{ENDED}{}", ended_key(since, ""));
        let items = self.between(&from, &format!("{ENDED}{LAST}")).await?;
        items.iter().map(|item| read_json(item, "record")).collect()
    }

    async fn put_costs(&self, open: &StoredCosts, ended: &[StoredHour]) -> Result<u64, PortError> {
        let stored = Stored::read(open.version);
        let mut item = self.key(OPEN);
        item.insert("record".to_owned(), AttributeValue::B(Blob::new(open.encoded.clone())));
        if ended.is_empty() {
            return self.put_versioned("DynamoDB PutItem (costs)", item, stored).await;
        }
        let hours = ended.iter().map(|hour| self.hour_item(hour));
        if ended.len() > HOURS_TOGETHER {
            self.put_all(hours).await?;
            return self.put_versioned("DynamoDB PutItem (costs)", item, stored).await;
        }
        let mut writes = vec![TransactWriteItem::builder().put(self.versioned(WRITE, item, stored)?).build()];
        for hour in hours {
            let put = Put::builder().table_name(&self.table).set_item(Some(hour));
            let put = put.build().map_err(|error| invalid(WRITE, &error))?;
            writes.push(TransactWriteItem::builder().put(put).build());
        }
        match self.transact(WRITE, &writes).await? {
            Outcome::Done => Ok(stored.next()),
            Outcome::Refused(_) => Err(conflict(WRITE, OPEN)),
        }
    }

    async fn hours(&self, from: Timestamp, to: Timestamp) -> Result<Vec<StoredHour>, PortError> {
        if from >= to {
            return Ok(Vec::new());
        }
        // Keys of the hour `to` are longer than its prefix, and sort after it.
        let items = self.between(&format!("{HOUR}{}", hour_key(from)), &format!("{HOUR}{}", hour_key(to))).await?;
        items.iter().map(decode_hour).collect()
    }
}

impl DynamoClaims {
    /// The item that is written when a claim is deleted whose instance has ended.
    pub(crate) fn ended_item(&self, node: &EndedNode) -> Result<Item, PortError> {
        let mut item = self.key(&format!("{ENDED}{}", ended_key(node.ended, &node.name)));
        item.insert("record".to_owned(), write_json(node, &node.name)?);
        item.insert("expires".to_owned(), ttl(after(node.ended, ENDED_KEPT)));
        Ok(item)
    }

    fn hour_item(&self, hour: &StoredHour) -> Item {
        let mut item = self.key(&format!("{HOUR}{}", hour.key()));
        item.insert("record".to_owned(), AttributeValue::B(Blob::new(hour.encoded.clone())));
        item.insert("hour".to_owned(), number(hour.hour.as_second()));
        // For users who read the table.
        item.insert("nodePool".to_owned(), text(&hour.node_pool));
        item.insert("expires".to_owned(), ttl(after(hour.hour, HOURS_KEPT)));
        item
    }
}

fn after(at: Timestamp, kept: Duration) -> Timestamp {
    at.checked_add(kept).unwrap_or(Timestamp::MAX)
}

fn read_bytes(item: &Item) -> Result<Vec<u8>, PortError> {
    match item.get("record") {
        Some(AttributeValue::B(bytes)) => Ok(bytes.clone().into_inner()),
        _ => {
            let key = read_text(item, "sk").unwrap_or("an item without sk");
            let message = format!("the attribute \"record\" of item {key:?} is not bytes; delete that item");
            Err(PortError::new(ErrorKind::Invalid, "DynamoDB read", message))
        }
    }
}

fn decode_hour(item: &Item) -> Result<StoredHour, PortError> {
    let hour = Timestamp::from_second(read_number(item, "hour")?);
    let hour = hour.map_err(|error| PortError::new(ErrorKind::Invalid, "DynamoDB read", error.to_string()))?;
    Ok(StoredHour { hour, node_pool: read_text(item, "nodePool")?.to_owned(), encoded: read_bytes(item)? })
}

#[cfg(test)]
mod tests {
    use super::*;
    use aws_config::{BehaviorVersion, SdkConfig};

    #[test]
    fn keys_sort_by_time_and_the_next_hour_is_not_read() {
        let config = SdkConfig::builder().behavior_version(BehaviorVersion::latest()).build();
        let table = DynamoClaims::new(&config, "nodeless", "prod");
        let hour =
            |at: &str| StoredHour { hour: at.parse().unwrap(), node_pool: "default".into(), encoded: vec![1, 2] };
        let key = |at: &str| read_text(&table.hour_item(&hour(at)), "sk").unwrap().to_owned();
        assert_eq!(key("2026-11-23T13:00:00Z"), "hour#2026-11-23T13#default");
        let to = format!("{HOUR}{}", hour_key("2026-11-23T14:00:00Z".parse().unwrap()));
        assert!(key("2026-11-23T13:00:00Z") < to && to < key("2026-11-23T14:00:00Z"));
        let item = table.hour_item(&hour("2026-11-23T13:00:00Z"));
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
