//! How much memory nodes reported, written on the condition that nobody else wrote it.

use crate::items::{read_number, read_text, text, ttl};
use crate::table::DynamoClaims;
use crate::versioned::Stored;
use jiff::Timestamp;
use nodeless_ports::PortError;
use nodeless_ports::claims::StoredMemory;

const KEY: &str = "memory";

impl DynamoClaims {
    pub(crate) async fn read_reported_memory(&self) -> Result<StoredMemory, PortError> {
        let Some(item) = self.item(KEY).await? else { return Ok(StoredMemory::default()) };
        let seconds: i64 = read_number(&item, "expires")?;
        Ok(StoredMemory {
            version: read_number(&item, "version")?,
            encoded: read_text(&item, "record")?.to_owned(),
            expires: Timestamp::from_second(seconds).unwrap_or(Timestamp::MAX),
        })
    }

    pub(crate) async fn write_reported_memory(&self, memory: &StoredMemory) -> Result<u64, PortError> {
        let mut item = self.key(KEY);
        item.insert("record".to_owned(), text(&memory.encoded));
        item.insert("expires".to_owned(), ttl(memory.expires));
        self.put_versioned("DynamoDB PutItem (memory)", item, Stored::read_expiring(memory.version)).await
    }
}
