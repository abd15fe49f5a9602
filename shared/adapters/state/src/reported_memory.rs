//! How much memory nodes reported, written on the condition that nobody else wrote it.

use crate::items::{number, read_number, read_text, text, ttl};
use crate::table::DynamoClaims;
use jiff::Timestamp;
use nodeless_aws::port_error;
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
        let version = memory.version + 1;
        let mut item = self.key(KEY);
        item.insert("version".to_owned(), number(version));
        item.insert("record".to_owned(), text(&memory.encoded));
        item.insert("expires".to_owned(), ttl(memory.expires));
        let put = self.client.put_item().table_name(&self.table).set_item(Some(item));
        // DynamoDB may delete what has expired between our read and our write: then nothing is there, which is as good.
        let put = if memory.version == 0 {
            put.condition_expression("attribute_not_exists(sk)")
        } else {
            put.condition_expression("attribute_not_exists(sk) OR version = :read")
                .expression_attribute_values(":read", number(memory.version))
        };
        put.send().await.map_err(|error| port_error("DynamoDB PutItem (memory)", &error))?;
        Ok(version)
    }
}
