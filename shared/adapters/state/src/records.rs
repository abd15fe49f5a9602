//! Small records that their owners encode as JSON.

use crate::items::{Item, read_number, read_text, text, ttl};
use crate::table::DynamoClaims;
use crate::versioned::Stored;
use async_trait::async_trait;
use jiff::Timestamp;
use nodeless_ports::{PortError, RecordKind, Records, StoredRecord};

#[async_trait]
impl Records for DynamoClaims {
    async fn records(&self, kind: RecordKind) -> Result<Vec<StoredRecord>, PortError> {
        self.items(&format!("{}#", kind.as_str()), None).await?.iter().map(decode).collect()
    }

    async fn record(&self, kind: RecordKind, node_pool: &str) -> Result<Option<StoredRecord>, PortError> {
        self.item(&kind.key(node_pool)).await?.as_ref().map(decode).transpose()
    }

    async fn put_record(&self, kind: RecordKind, record: &StoredRecord) -> Result<u64, PortError> {
        let mut item = self.key(&kind.key(&record.node_pool));
        item.insert("record".to_owned(), text(&record.encoded));
        let stored = match record.expires {
            Some(expires) => {
                item.insert("expires".to_owned(), ttl(expires));
                Stored::read_expiring(record.version)
            }
            None => Stored::read(record.version),
        };
        self.put_versioned(&format!("DynamoDB PutItem ({})", kind.as_str()), item, stored).await
    }
}

fn decode(item: &Item) -> Result<StoredRecord, PortError> {
    let expires = item.contains_key("expires").then(|| read_number(item, "expires")).transpose()?;
    Ok(StoredRecord {
        node_pool: read_text(item, "sk")?.split_once('#').map_or("", |(_, node_pool)| node_pool).to_owned(),
        version: read_number(item, "version")?,
        encoded: read_text(item, "record")?.to_owned(),
        expires: expires.map(|seconds| Timestamp::from_second(seconds).unwrap_or(Timestamp::MAX)),
    })
}
