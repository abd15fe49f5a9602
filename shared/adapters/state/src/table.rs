//! The table's keys and the calls that all its parts use.

use crate::items::{Item, text};
use async_trait::async_trait;
use aws_config::SdkConfig;
use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::types::{AttributeValue, KeysAndAttributes, PutRequest, WriteRequest};
use jiff::Timestamp;
use nodeless_aws::port_error;
use nodeless_model::NodeClaim;
use nodeless_model::claim::Charge;
use nodeless_model::node_pool::PoolUsage;
use nodeless_ports::claims::{
    Commit, Committed, Created, Decision, LaunchBudget, PoolLimits, StoredChurn, StoredCommand, StoredLaunchGroup,
    StoredMemory, StoredRegistrations, UnavailableOffering, UnfinishedPlan,
};
use nodeless_ports::{Claims, ErrorKind, LaunchCheck, PortError, StoredZonalShifts};
use std::collections::{BTreeMap, BTreeSet, HashMap};
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

    /// The key of an item under another partition key than the cluster's name.
    pub(crate) fn key_in(&self, pk: &str, sk: &str) -> Item {
        HashMap::from([("pk".to_owned(), text(pk)), ("sk".to_owned(), text(sk))])
    }

    /// One item, read consistently.
    pub(crate) async fn item(&self, sk: &str) -> Result<Option<Item>, PortError> {
        self.item_at(self.key(sk)).await
    }

    /// The item of this key, read consistently.
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

    /// The items of these keys that there are, in no order, read consistently: 100 a call as DynamoDB allows. What it leaves
    /// unprocessed is tried again a few times.
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

    /// All items whose `sk` begins with the prefix, in the order of their keys, read consistently. `limit` stops early,
    /// and then the last keys come first.
    pub(crate) async fn items(&self, prefix: &str, limit: Option<u32>) -> Result<Vec<Item>, PortError> {
        self.query(&self.cluster, prefix, limit).await
    }

    /// The same under another partition key than the cluster's name.
    pub(crate) async fn query(&self, pk: &str, prefix: &str, limit: Option<u32>) -> Result<Vec<Item>, PortError> {
        let mut items = Vec::new();
        let mut start = None;
        loop {
            let answer = self
                .client
                .query()
                .table_name(&self.table)
                .key_condition_expression("pk = :pk AND begins_with(sk, :prefix)")
                .expression_attribute_values(":pk", text(pk))
                .expression_attribute_values(":prefix", text(prefix))
                .consistent_read(true)
                .scan_index_forward(limit.is_none())
                .set_limit(limit.and_then(|limit| i32::try_from(limit).ok()))
                .set_exclusive_start_key(start.take())
                .send()
                .await
                .map_err(|error| port_error("DynamoDB Query", &error))?;
            items.extend(answer.items.unwrap_or_default());
            start = answer.last_evaluated_key;
            let enough = limit.is_some_and(|limit| items.len() >= limit as usize);
            if start.is_none() || enough {
                return Ok(items);
            }
        }
    }

    /// Writes or deletes many items, 25 a call as DynamoDB allows; what it leaves unprocessed is tried again a few times.
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

    /// Puts items without a condition; no two may have the same key.
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

#[async_trait]
impl Claims for DynamoClaims {
    async fn list(&self) -> Result<Vec<NodeClaim>, PortError> {
        self.list_claims().await
    }

    async fn get(&self, name: &str) -> Result<Option<NodeClaim>, PortError> {
        self.get_claim(name).await
    }

    async fn get_all(&self, names: &[String]) -> Result<Vec<NodeClaim>, PortError> {
        self.get_claims(names).await
    }

    async fn launch_group(&self, id: &str) -> Result<Option<StoredLaunchGroup>, PortError> {
        self.read_launch_group(id).await
    }

    async fn put_launch_group(&self, group: &StoredLaunchGroup, now: Timestamp) -> Result<u64, PortError> {
        self.write_launch_group(group, now).await
    }

    async fn find_by_instance(&self, instance_id: &str) -> Result<Option<NodeClaim>, PortError> {
        self.claim_of_instance(instance_id).await
    }

    async fn create_together(&self, claims: &[NodeClaim], limits: Option<&PoolLimits>) -> Result<Created, PortError> {
        self.create_claims(claims, limits).await
    }

    async fn update(&self, claim: &NodeClaim, charge: Option<&Charge>) -> Result<u64, PortError> {
        self.update_claim(claim, charge).await
    }

    async fn delete(&self, claim: &NodeClaim) -> Result<(), PortError> {
        self.delete_claim(claim).await
    }

    async fn usage(&self) -> Result<BTreeMap<String, PoolUsage>, PortError> {
        self.read_usage().await
    }

    async fn correct_usage(&self, node_pool: &str, read: &PoolUsage, counted: &PoolUsage) -> Result<(), PortError> {
        self.write_usage(node_pool, read, counted).await
    }

    async fn mark_unavailable(&self, offerings: &[UnavailableOffering]) -> Result<(), PortError> {
        self.write_unavailable(offerings).await
    }

    async fn unavailable(&self, now: Timestamp) -> Result<Vec<UnavailableOffering>, PortError> {
        self.read_unavailable(now).await
    }

    async fn zonal_shifts(&self) -> Result<StoredZonalShifts, PortError> {
        self.read_zonal_shifts().await
    }

    async fn put_zonal_shifts(&self, shifts: &StoredZonalShifts) -> Result<u64, PortError> {
        self.write_zonal_shifts(shifts).await
    }

    async fn launch_budgets(&self, now: Timestamp) -> Result<Vec<LaunchBudget>, PortError> {
        self.read_launch_budgets(now).await
    }

    async fn raise_launch_budgets(
        &self,
        budgets: &[LaunchBudget],
        initial: u32,
        now: Timestamp,
    ) -> Result<(), PortError> {
        self.write_raised_budgets(budgets, initial, now).await
    }

    async fn reset_launch_budgets(&self, budgets: &[LaunchBudget]) -> Result<(), PortError> {
        self.write_reset_budgets(budgets).await
    }

    async fn unfinished_plan(&self) -> Result<Option<UnfinishedPlan>, PortError> {
        self.read_unfinished_plan().await
    }

    async fn begin_plan(&self, plan: &UnfinishedPlan, until: Timestamp) -> Result<(), PortError> {
        self.write_unfinished_plan(plan, until).await
    }

    async fn end_plan(&self, id: &str) -> Result<(), PortError> {
        self.remove_unfinished_plan(id).await
    }

    async fn put_snapshot(&self, id: &str, encoded: &[u8], until: Timestamp) -> Result<(), PortError> {
        self.write_snapshot(id, encoded, until).await
    }

    async fn not_yet_evaluated(&self) -> Result<BTreeSet<String>, PortError> {
        self.read_not_yet_evaluated().await
    }

    async fn put_not_yet_evaluated(&self, nodes: &BTreeSet<String>, until: Timestamp) -> Result<(), PortError> {
        self.write_not_yet_evaluated(nodes, until).await
    }

    async fn launch_check(&self, node_class: &str) -> Result<Option<LaunchCheck>, PortError> {
        self.read_launch_check(node_class).await
    }

    async fn put_launch_check(&self, check: &LaunchCheck, keep: Duration) -> Result<(), PortError> {
        self.write_launch_check(check, keep).await
    }

    async fn put_catalog(&self, version: &str, encoded: &[u8]) -> Result<(), PortError> {
        self.write_catalog(version, encoded).await
    }

    async fn catalog_version(&self) -> Result<Option<String>, PortError> {
        Ok(self.catalog_pointer().await?.map(|pointer| pointer.version))
    }

    async fn catalog(&self) -> Result<Option<(String, Vec<u8>)>, PortError> {
        self.read_catalog().await
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

    async fn churn(&self) -> Result<Vec<StoredChurn>, PortError> {
        self.read_churn().await
    }

    async fn put_churn(&self, churn: &StoredChurn) -> Result<u64, PortError> {
        self.write_churn(churn).await
    }

    async fn registrations(&self) -> Result<Vec<StoredRegistrations>, PortError> {
        self.read_registrations().await
    }

    async fn registrations_of(&self, node_pool: &str) -> Result<Option<StoredRegistrations>, PortError> {
        self.read_registrations_of(node_pool).await
    }

    async fn put_registrations(&self, registrations: &StoredRegistrations) -> Result<u64, PortError> {
        self.write_registrations(registrations).await
    }

    async fn reported_memory(&self) -> Result<StoredMemory, PortError> {
        self.read_reported_memory().await
    }

    async fn put_reported_memory(&self, memory: &StoredMemory) -> Result<u64, PortError> {
        self.write_reported_memory(memory).await
    }

    async fn record_decisions(&self, decisions: &[Decision], keep: Duration) -> Result<(), PortError> {
        self.write_decisions(decisions, keep).await
    }

    async fn decisions(&self, limit: u32) -> Result<Vec<Decision>, PortError> {
        self.read_decisions(limit).await
    }

    async fn plan_revision(&self) -> Result<u64, PortError> {
        self.read_plan_revision().await
    }

    async fn commit(&self, commit: Commit<'_>, revision: u64) -> Result<Committed, PortError> {
        self.write_commit(commit, revision).await
    }
}
