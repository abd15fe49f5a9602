//! What voluntary disruption did to NodePools lately, each written on the condition that nobody else wrote it.

use crate::items::{Item, number, read_number, read_text, text, ttl};
use crate::table::DynamoClaims;
use jiff::Timestamp;
use nodeless_aws::port_error;
use nodeless_ports::PortError;
use nodeless_ports::claims::StoredChurn;

const PREFIX: &str = "churn#";

impl DynamoClaims {
    pub(crate) async fn read_churn(&self) -> Result<Vec<StoredChurn>, PortError> {
        self.items(PREFIX, None).await?.iter().map(decode).collect()
    }

    pub(crate) async fn write_churn(&self, churn: &StoredChurn) -> Result<u64, PortError> {
        let version = churn.version + 1;
        let mut item = self.key(&format!("{PREFIX}{}", churn.node_pool));
        item.insert("version".to_owned(), number(version));
        item.insert("record".to_owned(), text(&churn.encoded));
        item.insert("expires".to_owned(), ttl(churn.expires));
        let put = self.client.put_item().table_name(&self.table).set_item(Some(item));
        // DynamoDB may delete what has expired between our read and our write: then nothing is there, which is as good.
        let put = if churn.version == 0 {
            put.condition_expression("attribute_not_exists(sk)")
        } else {
            put.condition_expression("attribute_not_exists(sk) OR version = :read")
                .expression_attribute_values(":read", number(churn.version))
        };
        put.send().await.map_err(|error| port_error("DynamoDB PutItem (churn)", &error))?;
        Ok(version)
    }
}

fn decode(item: &Item) -> Result<StoredChurn, PortError> {
    let seconds: i64 = read_number(item, "expires")?;
    Ok(StoredChurn {
        node_pool: read_text(item, "sk")?.trim_start_matches(PREFIX).to_owned(),
        version: read_number(item, "version")?,
        encoded: read_text(item, "record")?.to_owned(),
        expires: Timestamp::from_second(seconds).unwrap_or(Timestamp::MAX),
    })
}
