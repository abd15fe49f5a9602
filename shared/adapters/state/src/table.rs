//! The table's keys, and the calls that all parts use.

use crate::items::{Item, text};
use aws_config::SdkConfig;
use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::operation::query::builders::QueryFluentBuilder;
use aws_sdk_dynamodb::types::{AttributeValue, KeysAndAttributes, PutRequest, WriteRequest};
use nodeless_aws::port_error;
use nodeless_ports::{ErrorKind, PortError};
use std::collections::HashMap;
use std::time::Duration;

/// The claims table of one cluster in DynamoDB.
#[derive(Clone, Debug)]
pub struct DynamoClaims {
    pub(crate) client: Client,
    pub(crate) table: String,
    pub(crate) cluster: String,
}

impl DynamoClaims {
    /// The part of the named table that belongs to the cluster.
    #[must_use]
    pub fn new(config: &SdkConfig, table: impl Into<String>, cluster: impl Into<String>) -> Self {
        Self { client: Client::new(config), table: table.into(), cluster: cluster.into() }
    }

    pub(crate) fn key(&self, sk: &str) -> Item {
        self.key_in(&self.cluster, sk)
    }

    /// The key of an item under a partition key other than the cluster's name.
    pub(crate) fn key_in(&self, pk: &str, sk: &str) -> Item {
        HashMap::from([("pk".to_owned(), text(pk)), ("sk".to_owned(), text(sk))])
    }

    /// Reads an item consistently.
    pub(crate) async fn item(&self, sk: &str) -> Result<Option<Item>, PortError> {
        self.item_at(self.key(sk)).await
    }

    /// The item with this key, read consistently.
    pub(crate) async fn item_at(&self, key: Item) -> Result<Option<Item>, PortError> {
        let answer = self
            .client
            .get_item()
            .table_name(&self.table)
            .set_key(Some(key))
            .consistent_read(true)
            .send()
            .await
            .map_err(|error| port_error("DynamoDB GetItem", &error))?;
        Ok(answer.item)
    }

    /// The existing items with these keys, in no order, read consistently: 100 for each call, the limit of DynamoDB. Unprocessed
    /// keys are retried a few times.
    pub(crate) async fn items_of(&self, keys: Vec<Item>) -> Result<Vec<Item>, PortError> {
        const OPERATION: &str = "DynamoDB BatchGetItem";
        let invalid = |error: &dyn std::fmt::Display| PortError::new(ErrorKind::Invalid, OPERATION, error.to_string());
        let mut items = Vec::new();
        for chunk in keys.chunks(100) {
            let request = KeysAndAttributes::builder().set_keys(Some(chunk.to_vec())).consistent_read(true);
            let mut pending = Some(request.build().map_err(|error| invalid(&error))?);
            for attempt in 0_u32.. {
                let Some(request) = pending.take() else { break };
                let answer = self
                    .client
                    .batch_get_item()
                    .request_items(&self.table, request)
                    .send()
                    .await
                    .map_err(|error| port_error(OPERATION, &error))?;
                items.extend(answer.responses.and_then(|mut all| all.remove(&self.table)).unwrap_or_default());
                pending = answer.unprocessed_keys.and_then(|mut left| left.remove(&self.table));
                if let Some(left) = &pending {
                    if attempt == 4 {
                        let message = format!("{} items were still unread after 5 attempts", left.keys().len());
                        return Err(PortError::new(ErrorKind::Throttled, OPERATION, message));
                    }
                    tokio::time::sleep(Duration::from_millis(50 << attempt)).await;
                }
            }
        }
        Ok(items)
    }

    /// All items whose `sk` begins with the prefix, in the order of their keys, read consistently. With `limit`, the last keys
    /// are returned first.
    pub(crate) async fn items(&self, prefix: &str, limit: Option<u32>) -> Result<Vec<Item>, PortError> {
        self.query(&self.cluster, prefix, limit).await
    }

    /// Like [`items`](Self::items), under a partition key other than the cluster's name.
    pub(crate) async fn query(&self, pk: &str, prefix: &str, limit: Option<u32>) -> Result<Vec<Item>, PortError> {
        let query = self
            .client
            .query()
            .key_condition_expression("pk = :pk AND begins_with(sk, :prefix)")
            .expression_attribute_values(":pk", text(pk))
            .expression_attribute_values(":prefix", text(prefix))
            .scan_index_forward(limit.is_none())
            .set_limit(limit.and_then(|limit| i32::try_from(limit).ok()));
        self.pages(query, limit).await
    }

    /// All items of the cluster whose `sk` is in this range, in the order of their keys, read consistently.
    pub(crate) async fn between(&self, from: &str, to: &str) -> Result<Vec<Item>, PortError> {
        let query = self
            .client
            .query()
            .key_condition_expression("pk = :pk AND sk BETWEEN :from AND :to")
            .expression_attribute_values(":pk", text(&self.cluster))
            .expression_attribute_values(":from", text(from))
            .expression_attribute_values(":to", text(to));
        self.pages(query, None).await
    }

    /// The items of all pages of a query, read consistently, or of as many pages as have this number of items.
    async fn pages(&self, query: QueryFluentBuilder, limit: Option<u32>) -> Result<Vec<Item>, PortError> {
        let query = query.table_name(&self.table).consistent_read(true);
        let mut items = Vec::new();
        let mut start = None;
        loop {
            let page = query.clone().set_exclusive_start_key(start.take()).send();
            let answer = page.await.map_err(|error| port_error("DynamoDB Query", &error))?;
            items.extend(answer.items.unwrap_or_default());
            start = answer.last_evaluated_key;
            let enough = limit.is_some_and(|limit| items.len() >= limit as usize);
            if start.is_none() || enough {
                return Ok(items);
            }
        }
    }

    /// Writes or deletes many items, 25 for each call, the limit of DynamoDB. Unprocessed items are retried a few times.
    pub(crate) async fn write_all(&self, requests: Vec<WriteRequest>) -> Result<(), PortError> {
        const OPERATION: &str = "DynamoDB BatchWriteItem";
        for chunk in requests.chunks(25) {
            let mut pending = chunk.to_vec();
            for attempt in 0_u32.. {
                let answer = self
                    .client
                    .batch_write_item()
                    .request_items(&self.table, std::mem::take(&mut pending))
                    .send()
                    .await
                    .map_err(|error| port_error(OPERATION, &error))?;
                pending = answer.unprocessed_items.and_then(|mut left| left.remove(&self.table)).unwrap_or_default();
                if pending.is_empty() {
                    break;
                }
                if attempt == 4 {
                    let message = format!("{} items were still unprocessed after 5 attempts", pending.len());
                    return Err(PortError::new(ErrorKind::Throttled, OPERATION, message));
                }
                tokio::time::sleep(Duration::from_millis(50 << attempt)).await;
            }
        }
        Ok(())
    }

    /// Puts items without a condition. No two may have the same key.
    pub(crate) async fn put_all(&self, items: impl Iterator<Item = Item>) -> Result<(), PortError> {
        let request = |item: Item| {
            let put = PutRequest::builder().set_item(Some(item)).build();
            let put = put
                .map_err(|error| PortError::new(ErrorKind::Invalid, "DynamoDB build PutRequest", error.to_string()))?;
            Ok(WriteRequest::builder().put_request(put).build())
        };
        self.write_all(items.map(request).collect::<Result<_, PortError>>()?).await
    }

    /// Puts an item without a condition.
    pub(crate) async fn put(&self, sk: &str, attributes: Vec<(&str, AttributeValue)>) -> Result<(), PortError> {
        let mut item = self.key(sk);
        item.extend(attributes.into_iter().map(|(name, value)| (name.to_owned(), value)));
        self.client
            .put_item()
            .table_name(&self.table)
            .set_item(Some(item))
            .send()
            .await
            .map_err(|error| port_error("DynamoDB PutItem", &error))?;
        Ok(())
    }
}
