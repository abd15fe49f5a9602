//! Plans: the one that has not ended, and what plans were made from.

use crate::items::{Item, read_json, text, ttl, write_json};
use crate::table::DynamoClaims;
use aws_sdk_dynamodb::primitives::Blob;
use aws_sdk_dynamodb::types::AttributeValue;
use jiff::Timestamp;
use nodeless_aws::port_error;
use nodeless_ports::claims::UnfinishedPlan;
use nodeless_ports::{ErrorKind, PortError};

const UNFINISHED: &str = "plan";
/// DynamoDB holds at most 400 kB in an item, and so BatchWriteItem takes 25 of these.
const CHUNK_BYTES: usize = 350_000;

impl DynamoClaims {
    pub(crate) async fn read_unfinished_plan(&self) -> Result<Option<UnfinishedPlan>, PortError> {
        self.item(UNFINISHED).await?.map(|item| read_json(&item, "record")).transpose()
    }

    pub(crate) async fn write_unfinished_plan(&self, plan: &UnfinishedPlan, until: Timestamp) -> Result<(), PortError> {
        let attributes = vec![("record", write_json(plan, "plan")?), ("id", text(&plan.id)), ("expires", ttl(until))];
        self.put(UNFINISHED, attributes).await
    }

    pub(crate) async fn remove_unfinished_plan(&self, id: &str) -> Result<(), PortError> {
        let deleted = self
            .client
            .delete_item()
            .table_name(&self.table)
            .set_key(Some(self.key(UNFINISHED)))
            .condition_expression("attribute_not_exists(sk) OR id = :id")
            .expression_attribute_values(":id", text(id))
            .send()
            .await
            .map_err(|error| port_error("DynamoDB DeleteItem (plan)", &error));
        match deleted {
            // Another plan was begun since; that one ends by itself.
            Err(error) if error.kind == ErrorKind::Conflict => Ok(()),
            other => other.map(drop),
        }
    }

    pub(crate) async fn write_snapshot(&self, id: &str, encoded: &[u8], until: Timestamp) -> Result<(), PortError> {
        let chunk = |(index, chunk): (usize, &[u8])| -> Item {
            let mut item = self.key(&format!("snapshot#{id}#{index:03}"));
            item.insert("chunk".to_owned(), AttributeValue::B(Blob::new(chunk)));
            item.insert("expires".to_owned(), ttl(until));
            item
        };
        self.put_all(encoded.chunks(CHUNK_BYTES).enumerate().map(chunk)).await
    }
}
