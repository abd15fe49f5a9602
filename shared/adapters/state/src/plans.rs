//! Plans: their decisions, the unfinished plan, and the records for the next plan.

use crate::items::{Item, read_deflated, read_json, text, ttl, write_deflated, write_json};
use crate::table::DynamoClaims;
use async_trait::async_trait;
use aws_sdk_dynamodb::primitives::Blob;
use aws_sdk_dynamodb::types::AttributeValue;
use jiff::Timestamp;
use nodeless_aws::port_error;
use nodeless_ports::plans::{Commit, Committed, StoredCommand, UnfinishedPlan};
use nodeless_ports::{ErrorKind, Plans, PortError};
use std::collections::BTreeSet;

const UNFINISHED: &str = "plan";
const NOT_YET_EVALUATED: &str = "not-yet-evaluated";
/// DynamoDB limits an item to 400 kB, so BatchWriteItem takes 25 of these.
const CHUNK_BYTES: usize = 350_000;

#[async_trait]
impl Plans for DynamoClaims {
    async fn plan_revision(&self) -> Result<u64, PortError> {
        self.read_plan_revision().await
    }

    async fn commit(&self, commit: Commit<'_>, revision: u64) -> Result<Committed, PortError> {
        self.write_commit(commit, revision).await
    }

    async fn commands(&self) -> Result<Vec<StoredCommand>, PortError> {
        self.read_commands().await
    }

    async fn put_command(&self, command: &StoredCommand) -> Result<u64, PortError> {
        self.write_command(command).await
    }

    async fn delete_command(&self, command: &StoredCommand) -> Result<(), PortError> {
        self.remove_command(command).await
    }

    async fn unfinished_plan(&self) -> Result<Option<UnfinishedPlan>, PortError> {
        self.item(UNFINISHED).await?.map(|item| read_json(&item, "record")).transpose()
    }

    async fn begin_plan(&self, plan: &UnfinishedPlan, until: Timestamp) -> Result<(), PortError> {
        let attributes = vec![("record", write_json(plan, "plan")?), ("id", text(&plan.id)), ("expires", ttl(until))];
        self.put(UNFINISHED, attributes).await
    }

    async fn end_plan(&self, id: &str) -> Result<(), PortError> {
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
            // A later plan has begun since. The record of this one no longer exists.
            Err(error) if error.kind == ErrorKind::Conflict => Ok(()),
            other => other.map(drop),
        }
    }

    async fn put_snapshot(&self, id: &str, encoded: &[u8], until: Timestamp) -> Result<(), PortError> {
        let chunk = |(index, chunk): (usize, &[u8])| -> Item {
            let mut item = self.key(&format!("snapshot#{id}#{index:03}"));
            item.insert("chunk".to_owned(), AttributeValue::B(Blob::new(chunk)));
            item.insert("expires".to_owned(), ttl(until));
            item
        };
        self.put_all(encoded.chunks(CHUNK_BYTES).enumerate().map(chunk)).await
    }

    async fn not_yet_evaluated(&self) -> Result<BTreeSet<String>, PortError> {
        self.item(NOT_YET_EVALUATED).await?.map_or_else(|| Ok(BTreeSet::new()), |item| read_deflated(&item, "record"))
    }

    async fn put_not_yet_evaluated(&self, nodes: &BTreeSet<String>, until: Timestamp) -> Result<(), PortError> {
        let record = write_deflated(nodes, NOT_YET_EVALUATED)?;
        self.put(NOT_YET_EVALUATED, vec![("record", record), ("expires", ttl(until))]).await
    }
}
