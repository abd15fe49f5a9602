//! The claims table in DynamoDB.

use crate::items::{Raw, decode, encode};
use async_trait::async_trait;
use aws_config::SdkConfig;
use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::types::{AttributeValue, KeysAndAttributes, PutRequest, WriteRequest};
use futures::future::try_join_all;
use nodeless_aws::port_error;
use nodeless_ports::table::{INSTANCE_ID, Item, Key, Outcome, Partition, Query, Range, Table, Write};
use nodeless_ports::{ErrorKind, PortError};
use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

/// The part of a table in DynamoDB that belongs to one cluster.
#[derive(Clone, Debug)]
pub struct DynamoTable {
    pub(crate) client: Client,
    pub(crate) table: String,
    pub(crate) cluster: String,
}

impl DynamoTable {
    /// The part of the named table that belongs to the cluster.
    #[must_use]
    pub fn new(config: &SdkConfig, table: impl Into<String>, cluster: impl Into<String>) -> Self {
        Self { client: Client::new(config), table: table.into(), cluster: cluster.into() }
    }

    /// The partition key. The name of a cluster contains no `#`.
    fn pk(&self, partition: Partition) -> String {
        match partition {
            Partition::Cluster => self.cluster.clone(),
            Partition::Claims(number) => format!("{}#{number}", self.cluster),
        }
    }

    pub(crate) fn key(&self, key: &Key) -> Raw {
        let text = |value: &str| AttributeValue::S(value.to_owned());
        HashMap::from([("pk".to_owned(), text(&self.pk(key.partition))), ("sk".to_owned(), text(&key.sort))])
    }

    /// The item with its keys.
    pub(crate) fn raw(&self, item: &Item) -> Raw {
        let mut raw = self.key(&item.key);
        raw.extend(encode(&item.attributes));
        raw
    }

    fn partition(&self, pk: &str) -> Option<Partition> {
        match pk.strip_prefix(&self.cluster)? {
            "" => Some(Partition::Cluster),
            rest => rest.strip_prefix('#')?.parse().ok().map(Partition::Claims),
        }
    }

    /// The key in an answer; `None` for an item of another cluster.
    fn key_of(&self, raw: &Raw) -> Option<Key> {
        match (raw.get("pk"), raw.get("sk")) {
            (Some(AttributeValue::S(pk)), Some(AttributeValue::S(sort))) => {
                Some(Key { partition: self.partition(pk)?, sort: sort.clone() })
            }
            _ => None,
        }
    }

    pub(crate) fn item(&self, operation: &str, raw: Raw) -> Result<Item, PortError> {
        let key = self.key_of(&raw).ok_or_else(|| invalid(operation, "DynamoDB gave an item without its keys"))?;
        decode(key, raw)
    }

    async fn pages(&self, operation: &'static str, query: &Query) -> Result<Vec<Item>, PortError> {
        let named = format!("DynamoDB Query ({operation})");
        let text = |value: &str| AttributeValue::S(value.to_owned());
        let request = self.client.query().table_name(&self.table).consistent_read(query.consistent);
        let request = request.expression_attribute_values(":pk", text(&self.pk(query.partition)));
        let request = match &query.keys {
            Range::Prefix(prefix) => request
                .key_condition_expression("pk = :pk AND begins_with(sk, :prefix)")
                .expression_attribute_values(":prefix", text(prefix)),
            Range::Between(from, to) => request
                .key_condition_expression("pk = :pk AND sk BETWEEN :from AND :to")
                .expression_attribute_values(":from", text(from))
                .expression_attribute_values(":to", text(to)),
        };
        let limit = query.last.map(|last| i32::try_from(last).unwrap_or(i32::MAX));
        let request = request.scan_index_forward(query.last.is_none()).set_limit(limit);
        let most = query.last.map_or(usize::MAX, |last| last as usize);
        let mut items = Vec::new();
        let mut start = None;
        loop {
            let page = request.clone().set_exclusive_start_key(start.take()).send().await;
            let answer = page.map_err(|error| port_error(&named, &error))?;
            for raw in answer.items.unwrap_or_default() {
                items.push(self.item(&named, raw)?);
            }
            start = answer.last_evaluated_key;
            if start.is_none() || items.len() >= most {
                items.truncate(most);
                return Ok(items);
            }
        }
    }

    /// Writes 25 items, the limit of a call. Unprocessed items are retried a few times.
    async fn put_batch(&self, operation: &str, mut pending: Vec<WriteRequest>) -> Result<(), PortError> {
        for attempt in 0_u32.. {
            let request = self.client.batch_write_item().request_items(&self.table, pending);
            let answer = request.send().await.map_err(|error| port_error(operation, &error))?;
            pending = answer.unprocessed_items.and_then(|mut left| left.remove(&self.table)).unwrap_or_default();
            if pending.is_empty() {
                break;
            }
            wait(operation, attempt, pending.len()).await?;
        }
        Ok(())
    }
}

#[async_trait]
impl Table for DynamoTable {
    fn name(&self) -> &str {
        &self.table
    }

    async fn get(&self, operation: &'static str, key: &Key) -> Result<Option<Item>, PortError> {
        let named = format!("DynamoDB GetItem ({operation})");
        let request = self.client.get_item().table_name(&self.table).set_key(Some(self.key(key))).consistent_read(true);
        let answer = request.send().await.map_err(|error| port_error(&named, &error))?;
        answer.item.map(|raw| self.item(&named, raw)).transpose()
    }

    /// Reads 100 items for each call, the limit of DynamoDB. Unprocessed keys are retried a few times.
    async fn get_all(&self, operation: &'static str, keys: &BTreeSet<Key>) -> Result<Vec<Item>, PortError> {
        let named = format!("DynamoDB BatchGetItem ({operation})");
        let keys: Vec<Raw> = keys.iter().map(|key| self.key(key)).collect();
        let mut items = Vec::new();
        for chunk in keys.chunks(100) {
            let request = KeysAndAttributes::builder().set_keys(Some(chunk.to_vec())).consistent_read(true);
            let mut pending = Some(request.build().map_err(|error| invalid(&named, &error))?);
            for attempt in 0_u32.. {
                let Some(request) = pending.take() else { break };
                let request = self.client.batch_get_item().request_items(&self.table, request);
                let answer = request.send().await.map_err(|error| port_error(&named, &error))?;
                for raw in answer.responses.and_then(|mut all| all.remove(&self.table)).unwrap_or_default() {
                    items.push(self.item(&named, raw)?);
                }
                pending = answer.unprocessed_keys.and_then(|mut left| left.remove(&self.table));
                if let Some(left) = &pending {
                    wait(&named, attempt, left.keys().len()).await?;
                }
            }
        }
        Ok(items)
    }

    async fn query(&self, operation: &'static str, queries: &[Query]) -> Result<Vec<Item>, PortError> {
        let all = try_join_all(queries.iter().map(|query| self.pages(operation, query))).await?;
        Ok(all.into_iter().flatten().collect())
    }

    async fn find_by_instance(&self, operation: &'static str, instance_id: &str) -> Result<Vec<Key>, PortError> {
        let named = format!("DynamoDB Query ({operation})");
        let request = self
            .client
            .query()
            .table_name(&self.table)
            .index_name("instance")
            .key_condition_expression(format!("{INSTANCE_ID} = :id"))
            .filter_expression("begins_with(pk, :pk)")
            .expression_attribute_values(":id", AttributeValue::S(instance_id.to_owned()))
            .expression_attribute_values(":pk", AttributeValue::S(format!("{}#", self.cluster)));
        let answer = request.send().await.map_err(|error| port_error(&named, &error))?;
        Ok(answer.items().iter().filter_map(|raw| self.key_of(raw)).collect())
    }

    async fn write(&self, operation: &'static str, writes: Vec<Write>) -> Result<Outcome, PortError> {
        match <[Write; 1]>::try_from(writes) {
            Ok([write]) => self.write_one(operation, write).await,
            Err(writes) => self.transact(operation, writes).await,
        }
    }

    /// Writes 25 items for each call, the limit of DynamoDB.
    async fn put_all(&self, operation: &'static str, items: Vec<Item>) -> Result<(), PortError> {
        let named = format!("DynamoDB BatchWriteItem ({operation})");
        let request = |item: &Item| -> Result<WriteRequest, PortError> {
            let put = PutRequest::builder().set_item(Some(self.raw(item))).build();
            Ok(WriteRequest::builder().put_request(put.map_err(|error| invalid(&named, &error))?).build())
        };
        for chunk in items.chunks(25) {
            self.put_batch(&named, chunk.iter().map(request).collect::<Result<_, _>>()?).await?;
        }
        Ok(())
    }
}

/// Waits before the next attempt of a batch, or gives up after five.
async fn wait(operation: &str, attempt: u32, left: usize) -> Result<(), PortError> {
    if attempt == 4 {
        let message = format!("{left} items were still unprocessed after 5 attempts");
        return Err(PortError::new(ErrorKind::Throttled, operation, message));
    }
    tokio::time::sleep(Duration::from_millis(50 << attempt)).await;
    Ok(())
}

pub(crate) fn invalid(operation: &str, error: &(impl std::fmt::Display + ?Sized)) -> PortError {
    PortError::new(ErrorKind::Invalid, operation, error.to_string())
}
