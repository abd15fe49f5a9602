//! NodeClaim records, each written together with its charge.

use crate::items::{Item, number, read_deflated, read_number, read_text, text, write_deflated};
use crate::table::DynamoClaims;
use crate::usage::{Amounts, first_limit_passed};
use crate::versioned::Stored;
use async_trait::async_trait;
use aws_sdk_dynamodb::error::SdkError;
use aws_sdk_dynamodb::operation::transact_write_items::TransactWriteItemsError;
use aws_sdk_dynamodb::types::{
    CancellationReason, Delete, Put, ReturnValuesOnConditionCheckFailure, TransactWriteItem, Update,
};
use futures::future::try_join_all;
use jiff::Timestamp;
use nodeless_aws::port_error;
use nodeless_model::claim::Charge;
use nodeless_model::node_pool::PoolUsage;
use nodeless_model::{EndedNode, NodeClaim};
use nodeless_ports::claims::{
    ChangedClaim, Created, PARTITIONS, PoolLimits, StoredLaunchGroup, node_pool_of, partition_of,
};
use nodeless_ports::{Claims, ErrorKind, PortError};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// How many times a transaction that conflicts with another one on the same NodePool is tried.
const ATTEMPTS: u32 = 6;

/// The writes of new claims.
pub(crate) struct Creation {
    pub(crate) writes: Vec<TransactWriteItem>,
    pub(crate) amounts: Amounts,
}

impl Creation {
    /// The result of writing new claims, given the reason of each write.
    pub(crate) fn refused(
        &self,
        operation: &str,
        claims: &[NodeClaim],
        limits: Option<&PoolLimits>,
        mut reasons: Vec<Option<Refusal>>,
    ) -> Result<Created, PortError> {
        let of_charge = reasons.pop().flatten();
        if let Some((claim, _)) = claims.iter().zip(&reasons).find(|(_, reason)| reason.is_some()) {
            let same = |(claim, reason): (&NodeClaim, &Option<Refusal>)| {
                let item = reason.as_ref().and_then(|refusal| refusal.item.as_ref());
                item.is_some_and(|item| read_text(item, "uid").is_ok_and(|uid| uid == claim.uid))
            };
            let all_ours = claims.iter().zip(&reasons).all(same);
            return if all_ours { Ok(Created::AlreadyThere) } else { Err(conflict(operation, &claim.name)) };
        }
        let usage = of_charge.and_then(|refusal| refusal.item);
        let resource = limits.and_then(|limits| first_limit_passed(usage.as_ref(), &self.amounts, limits));
        let node_pool = claims.first().map_or("", |claim| claim.node_pool.as_str());
        resource.map(|resource| Created::LimitReached { resource }).ok_or_else(|| conflict(operation, node_pool))
    }
}

/// The result of a transaction.
pub(crate) enum Outcome {
    Done,
    /// The reason for each write of the transaction; `None` if that write did not fail.
    Refused(Vec<Option<Refusal>>),
}

/// A condition that failed, and the item that it was evaluated on.
pub(crate) struct Refusal {
    pub(crate) item: Option<Item>,
}

#[async_trait]
impl Claims for DynamoClaims {
    async fn list(&self) -> Result<Vec<NodeClaim>, PortError> {
        let shards = (0..PARTITIONS).map(|shard| {
            let pk = self.shard(shard);
            async move { self.query(&pk, PREFIX, None).await }
        });
        let items = try_join_all(shards).await?.into_iter().flatten();
        let mut claims: Vec<NodeClaim> = items.map(|item| decode(&item)).collect::<Result<_, _>>()?;
        claims.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(claims)
    }

    async fn get(&self, name: &str) -> Result<Option<NodeClaim>, PortError> {
        self.item_at(self.claim_key(name)).await?.as_ref().map(decode).transpose()
    }

    async fn get_all(&self, names: &[String]) -> Result<Vec<NodeClaim>, PortError> {
        // DynamoDB rejects a call that contains a key twice.
        let names: BTreeSet<&String> = names.iter().collect();
        let keys = names.into_iter().map(|name| self.claim_key(name)).collect();
        let mut claims: Vec<NodeClaim> = self.items_of(keys).await?.iter().map(decode).collect::<Result<_, _>>()?;
        claims.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(claims)
    }

    async fn find_by_instance(&self, instance_id: &str) -> Result<Option<NodeClaim>, PortError> {
        let answer = self
            .client
            .query()
            .table_name(&self.table)
            .index_name("instance")
            .key_condition_expression("instanceId = :id")
            .filter_expression("begins_with(pk, :pk)")
            .expression_attribute_values(":id", text(instance_id))
            .expression_attribute_values(":pk", text(format!("{}#", self.cluster)))
            .send()
            .await
            .map_err(|error| port_error("DynamoDB Query (instance)", &error))?;
        // The index is eventually consistent and need not contain the whole record, so the record is read by its key.
        let Some(item) = answer.items().first() else { return Ok(None) };
        let name = read_text(item, "sk")?.trim_start_matches(PREFIX);
        let claim = self.get(name).await?;
        Ok(claim.filter(|claim| claim.status.instance.as_ref().is_some_and(|instance| instance.id == instance_id)))
    }

    async fn create_together(&self, claims: &[NodeClaim], limits: Option<&PoolLimits>) -> Result<Created, PortError> {
        const OPERATION: &str = "DynamoDB TransactWriteItems (create claims)";
        let creation = match self.creation(OPERATION, claims, limits)? {
            Ok(creation) => creation,
            Err(resource) => return Ok(Created::LimitReached { resource }),
        };
        match self.transact(OPERATION, &creation.writes).await? {
            Outcome::Done => Ok(Created::Written),
            Outcome::Refused(reasons) => creation.refused(OPERATION, claims, limits, reasons),
        }
    }

    async fn update(&self, claim: &NodeClaim, charge: Option<&Charge>) -> Result<u64, PortError> {
        const OPERATION: &str = "DynamoDB TransactWriteItems (update claim)";
        const OPERATION_ALONE: &str = "DynamoDB PutItem (update claim)";
        let mut next = claim.clone();
        let mut difference = Amounts::default();
        if let Some(charge) = charge {
            difference = Amounts::of(charge).minus(&Amounts::of(&claim.spec.charge));
            next.spec.charge = charge.clone();
        }
        if difference.is_zero() {
            // A single conditional write costs half as much as a transaction.
            let stored = Stored::Version(claim.version);
            return self.put_versioned(OPERATION_ALONE, self.claim_item(&next, stored)?, stored).await;
        }
        let put = self.replacement(OPERATION, &next)?;
        let update = self.charge(&claim.node_pool, &difference, None)?;
        let writes =
            [TransactWriteItem::builder().put(put).build(), TransactWriteItem::builder().update(update).build()];
        match self.transact(OPERATION, &writes).await? {
            Outcome::Done => Ok(claim.version + 1),
            Outcome::Refused(_) => Err(conflict(OPERATION, &claim.name)),
        }
    }

    async fn update_together(&self, changes: &[ChangedClaim]) -> Result<(), PortError> {
        const OPERATION: &str = "DynamoDB TransactWriteItems (update claims)";
        let pairs: Vec<_> = changes.iter().map(|change| (&change.claim, change.charge.as_ref())).collect();
        let writes = self.replacements(OPERATION, &pairs)?;
        match self.transact(OPERATION, &writes).await? {
            Outcome::Done => Ok(()),
            Outcome::Refused(reasons) => {
                let refused = changes.iter().zip(&reasons).find(|(_, reason)| reason.is_some());
                Err(conflict(OPERATION, refused.map_or("of this write", |(change, _)| &change.claim.name)))
            }
        }
    }

    async fn delete_ended(&self, claim: &NodeClaim, ended: Option<&EndedNode>) -> Result<(), PortError> {
        const OPERATION: &str = "DynamoDB TransactWriteItems (delete claim)";
        let delete = Delete::builder()
            .table_name(&self.table)
            .set_key(Some(self.claim_key(&claim.name)))
            .condition_expression("version = :read")
            .expression_attribute_values(":read", number(claim.version))
            .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld)
            .build()
            .map_err(|error| invalid(OPERATION, &error))?;
        let refund = Amounts::default().minus(&Amounts::of(&claim.spec.charge));
        let update = self.charge(&claim.node_pool, &refund, None)?;
        let mut writes = vec![
            TransactWriteItem::builder().delete(delete).build(),
            TransactWriteItem::builder().update(update).build(),
        ];
        if let Some(ended) = ended {
            let put = Put::builder().table_name(&self.table).set_item(Some(self.ended_item(ended)?));
            let put = put.build().map_err(|error| invalid(OPERATION, &error))?;
            writes.push(TransactWriteItem::builder().put(put).build());
        }
        match self.transact(OPERATION, &writes).await? {
            Outcome::Done => Ok(()),
            Outcome::Refused(reasons) => match reasons.into_iter().next().flatten() {
                Some(Refusal { item: Some(_) }) => Err(conflict(OPERATION, &claim.name)),
                _ => Ok(()),
            },
        }
    }

    async fn usage(&self) -> Result<BTreeMap<String, PoolUsage>, PortError> {
        self.read_usage().await
    }

    async fn correct_usage(&self, node_pool: &str, read: &PoolUsage, counted: &PoolUsage) -> Result<(), PortError> {
        self.write_usage(node_pool, read, counted).await
    }

    async fn launch_group(&self, id: &str) -> Result<Option<StoredLaunchGroup>, PortError> {
        self.read_launch_group(id).await
    }

    async fn put_launch_group(&self, group: &StoredLaunchGroup, now: Timestamp) -> Result<u64, PortError> {
        self.write_launch_group(group, now).await
    }
}

impl DynamoClaims {
    /// The writes of new claims: one for each, and last the charge to their NodePool. The error is the limit that the claims
    /// alone exceed.
    pub(crate) fn creation(
        &self,
        operation: &str,
        claims: &[NodeClaim],
        limits: Option<&PoolLimits>,
    ) -> Result<Result<Creation, String>, PortError> {
        let node_pool = node_pool_of(operation, claims.iter())?;
        let mut amounts = Amounts::default();
        for claim in claims {
            amounts = amounts.plus(&Amounts::of(&claim.spec.charge));
        }
        if let Some(resource) = limits.and_then(|limits| first_limit_passed(None, &amounts, limits)) {
            return Ok(Err(resource));
        }
        let mut writes = Vec::with_capacity(claims.len() + 3);
        for claim in claims {
            let mut put = self.claim_put(operation, claim, Stored::Nothing)?;
            put.return_values_on_condition_check_failure = Some(ReturnValuesOnConditionCheckFailure::AllOld);
            writes.push(TransactWriteItem::builder().put(put).build());
        }
        if let Some(group) = StoredLaunchGroup::of(claims) {
            // Without a condition: a repeated creation of the same claims then fails on the claims themselves, whose uids show
            // that they are the same.
            let mut item = self.launch_group_item(&group, created(claims))?;
            item.insert("version".to_owned(), number(1));
            let put = Put::builder().table_name(&self.table).set_item(Some(item));
            let put = put.build().map_err(|error| invalid(operation, &error))?;
            writes.push(TransactWriteItem::builder().put(put).build());
        }
        let charge = with_old_values(self.charge(node_pool, &amounts, limits)?);
        writes.push(TransactWriteItem::builder().update(charge).build());
        Ok(Ok(Creation { writes, amounts }))
    }

    /// The write that replaces a claim, if it still has the version that was read.
    pub(crate) fn replacement(&self, operation: &str, next: &NodeClaim) -> Result<Put, PortError> {
        self.claim_put(operation, next, Stored::Version(next.version))
    }

    fn claim_put(&self, operation: &str, claim: &NodeClaim, stored: Stored) -> Result<Put, PortError> {
        self.versioned(operation, self.claim_item(claim, stored)?, stored)
    }

    /// Runs a transaction. It is retried if it conflicts with another one on the same item, or is throttled.
    pub(crate) async fn transact(&self, operation: &str, writes: &[TransactWriteItem]) -> Result<Outcome, PortError> {
        let mut throttled = false;
        for attempt in 0..ATTEMPTS {
            let result = self.client.transact_write_items().set_transact_items(Some(writes.to_vec())).send().await;
            let error = match result {
                Ok(_) => return Ok(Outcome::Done),
                Err(error) => error,
            };
            let SdkError::ServiceError(service) = &error else { return Err(port_error(operation, &error)) };
            let TransactWriteItemsError::TransactionCanceledException(cancelled) = service.err() else {
                return Err(port_error(operation, &error));
            };
            let reasons = cancelled.cancellation_reasons();
            if reasons.iter().any(|reason| reason.code() == Some("ConditionalCheckFailed")) {
                return Ok(Outcome::Refused(reasons.iter().map(refusal).collect()));
            }
            let passing = |code| matches!(code, "None" | "TransactionConflict") || is_throttling(code);
            if let Some(reason) = reasons.iter().find(|reason| !passing(reason.code().unwrap_or("None"))) {
                let message = reason.message().unwrap_or("the transaction was cancelled without a message");
                return Err(
                    PortError::new(ErrorKind::Invalid, operation, message).with_code(reason.code().unwrap_or_default())
                );
            }
            throttled = reasons.iter().any(|reason| reason.code().is_some_and(is_throttling));
            tokio::time::sleep(Duration::from_millis(20 << attempt)).await;
        }
        Err(gave_up(operation, throttled))
    }

    /// The item that replaces the stored one, without its version attribute.
    fn claim_item(&self, claim: &NodeClaim, stored: Stored) -> Result<Item, PortError> {
        let record = NodeClaim { version: stored.next(), ..claim.clone() };
        let mut item = self.claim_key(&claim.name);
        item.insert("record".to_owned(), write_deflated(&record, &claim.name)?);
        // For users who read the table.
        item.insert("phase".to_owned(), text(format!("{:?}", claim.phase)));
        item.insert("uid".to_owned(), text(&claim.uid));
        item.insert("nodePool".to_owned(), text(&claim.node_pool));
        if let Some(instance) = &claim.status.instance {
            item.insert("instanceId".to_owned(), text(&instance.id));
        }
        Ok(item)
    }
}

/// Whether a transaction was cancelled because a partition or the table had no units left.
fn is_throttling(code: &str) -> bool {
    matches!(code, "ThrottlingError" | "ProvisionedThroughputExceeded")
}

/// The error of a transaction that failed in every attempt. The next run makes it again.
fn gave_up(operation: &str, throttled: bool) -> PortError {
    let (code, message) = match throttled {
        true => ("ThrottlingError", format!("DynamoDB throttled the transaction {ATTEMPTS} times in a row")),
        false => ("TransactionConflict", format!("other transactions wrote the same items {ATTEMPTS} times in a row")),
    };
    PortError::new(ErrorKind::Throttled, operation, message).with_code(code)
}

const PREFIX: &str = "nodeclaim#";

impl DynamoClaims {
    /// The partition key of a claim. The name of a cluster contains no `#`.
    fn shard(&self, shard: u32) -> String {
        format!("{}#{shard}", self.cluster)
    }

    fn claim_key(&self, name: &str) -> Item {
        self.key_in(&self.shard(partition_of(name)), &format!("{PREFIX}{name}"))
    }
}

/// When claims that are written together were decided.
fn created(claims: &[NodeClaim]) -> Timestamp {
    claims.iter().map(|claim| claim.created).max().unwrap_or_default()
}

fn decode(item: &Item) -> Result<NodeClaim, PortError> {
    let mut claim: NodeClaim = read_deflated(item, "record")?;
    claim.version = read_number(item, "version")?;
    Ok(claim)
}

fn refusal(reason: &CancellationReason) -> Option<Refusal> {
    (reason.code() == Some("ConditionalCheckFailed")).then(|| Refusal { item: reason.item.clone() })
}

fn with_old_values(mut update: Update) -> Update {
    update.return_values_on_condition_check_failure = Some(ReturnValuesOnConditionCheckFailure::AllOld);
    update
}

pub(crate) fn conflict(operation: &str, name: &str) -> PortError {
    let message = format!("{name} was written by another process first; read it again");
    PortError::new(ErrorKind::Conflict, operation, message)
}

pub(crate) fn invalid(operation: &str, error: &dyn std::fmt::Display) -> PortError {
    PortError::new(ErrorKind::Invalid, operation, error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use aws_config::{BehaviorVersion, SdkConfig};
    use aws_sdk_dynamodb::types::AttributeValue;
    use nodeless_model::claim::{LaunchGroup, LaunchedInstance};
    use nodeless_model::{
        CapacityType, ConditionStatus, NodeClaimSpec, NodeClaimStatus, Phase, Quantity, Requirement, Requirements,
        ResourceList, StringMap, labels,
    };

    /// The size of an item as DynamoDB counts it: names and values.
    fn bytes(item: &Item) -> usize {
        let of = |value: &AttributeValue| match value {
            AttributeValue::S(text) => text.len(),
            AttributeValue::N(number) => number.len().div_ceil(2) + 1,
            AttributeValue::B(bytes) => bytes.as_ref().len(),
            other => panic!("{other:?}"),
        };
        item.iter().map(|(name, value)| name.len() + of(value)).sum()
    }

    fn id(prefix: &str, number: u32) -> String {
        format!("{prefix}-0{:016x}", u64::from(number).wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    /// A large claim: 60 instance types, 30 pods, all labels and conditions.
    fn large(number: u32) -> NodeClaim {
        let resources = || {
            let names = ["cpu", "memory", "ephemeral-storage", "pods", "hugepages-2Mi", "vpc.amazonaws.com/pod-eni"];
            ResourceList::from(names.map(|name| (name, Quantity::from_milli(1 + 3_920_117 * name.len() as i64))))
        };
        let types: Vec<String> = ["c", "m", "r"]
            .iter()
            .flat_map(|family| (5..10).map(move |generation| format!("{family}{generation}")))
            .flat_map(|kind| ["a.large", "i.xlarge", "g.2xlarge", "id.4xlarge"].map(|size| format!("{kind}{size}")))
            .collect();
        let mut requirements = Requirements::default();
        requirements.add(labels::INSTANCE_TYPE, Requirement::one_of(types.clone()));
        requirements.add(labels::ZONE, Requirement::one_of(["eu-central-1a", "eu-central-1b", "eu-central-1c"]));
        requirements.add(labels::CAPACITY_TYPE, Requirement::one_of(["spot", "on-demand"]));
        let at = Timestamp::from_second(1_800_000_000 + i64::from(number)).unwrap();
        let labelled = |keys: &[&str]| -> StringMap {
            keys.iter().map(|key| ((*key).to_owned(), format!("value-of-{key}"))).collect()
        };
        let mut claim = NodeClaim {
            name: format!("general-purpose-{number:05}"),
            uid: format!("{:08x}-5717-4562-b3fc-2c963f66afa6", number.wrapping_mul(0x9e37_79b9)),
            node_pool: "general-purpose".into(),
            node_class: "default".into(),
            created: at,
            version: 7,
            spec: NodeClaimSpec {
                requirements,
                instance_types: types,
                labels: labelled(&["team", "environment", labels::NODE_POOL, labels::EC2_NODE_CLASS]),
                annotations: labelled(&[labels::NODE_POOL_HASH, labels::EC2_NODE_CLASS_HASH]),
                requests: resources(),
                launch_group: Some(LaunchGroup { id: id("group", number / 97), index: number % 97, size: 97 }),
                nominated_pods: (0..30)
                    .map(|pod| format!("production/checkout-{:05x}-{:05x}", number * 31, pod * 40_503))
                    .collect(),
                ..NodeClaimSpec::default()
            },
            phase: Phase::Initialized,
            status: NodeClaimStatus {
                instance: Some(LaunchedInstance {
                    id: id("i", number),
                    instance_type: "m6i.xlarge".into(),
                    zone: "eu-central-1a".into(),
                    capacity_type: CapacityType::Spot,
                    price: 0.08,
                    image_id: id("ami", 1),
                    private_dns_name: Some(format!(
                        "ip-10-0-{}-{}.eu-central-1.compute.internal",
                        number / 250,
                        number % 250
                    )),
                    reservation_id: None,
                    subnet_id: Some(id("subnet", 1)),
                    security_group_ids: vec![id("sg", 1), id("sg", 2)],
                    launched: at,
                }),
                labels: labelled(&[
                    labels::INSTANCE_TYPE,
                    labels::ZONE,
                    labels::CAPACITY_TYPE,
                    "karpenter.k8s.aws/instance-category",
                    "karpenter.k8s.aws/instance-cpu",
                    "karpenter.k8s.aws/instance-family",
                    "karpenter.k8s.aws/instance-generation",
                    "karpenter.k8s.aws/instance-hypervisor",
                    "karpenter.k8s.aws/instance-memory",
                    "karpenter.k8s.aws/instance-network-bandwidth",
                    "karpenter.k8s.aws/instance-size",
                    "topology.k8s.aws/zone-id",
                ]),
                capacity: resources(),
                allocatable: resources(),
                node_name: Some(format!("ip-10-0-{}-{}.eu-central-1.compute.internal", number / 250, number % 250)),
                ..NodeClaimStatus::default()
            },
        };
        for kind in ["Launched", "Registered", "Initialized", "Ready", "ConsistentStateFound"] {
            claim.set_condition(kind, ConditionStatus::True, kind, "", at);
        }
        claim
    }

    #[test]
    fn a_transaction_that_failed_in_every_attempt_reports_why() {
        assert!(["ThrottlingError", "ProvisionedThroughputExceeded"].into_iter().all(is_throttling));
        assert!(!is_throttling("TransactionConflict"));
        for (throttled, code) in [(true, "ThrottlingError"), (false, "TransactionConflict")] {
            let error = gave_up("claims create", throttled);
            assert_eq!((error.kind, error.code.as_str()), (ErrorKind::Throttled, code));
            assert_eq!(error.message.contains("throttled"), throttled, "{error}");
        }
    }

    /// `docs/figures.md` uses these numbers.
    #[test]
    fn five_thousand_large_claims_are_read_within_what_their_partition_keys_allow() {
        let config = SdkConfig::builder().behavior_version(BehaviorVersion::latest()).build();
        let table = DynamoClaims::new(&config, "nodeless", "a-cluster-with-a-name");
        // A fifth of them suffices and takes less time.
        let claims: Vec<NodeClaim> = (0..1000).map(|number| large(number * 5)).collect();
        let mut shards = vec![0_usize; PARTITIONS as usize];
        for claim in &claims {
            shards[partition_of(&claim.name) as usize] += bytes(&table.replacement("test", claim).unwrap().item) * 5;
        }
        let total: usize = shards.iter().sum();
        let units = |bytes: usize| bytes.div_ceil(4096);
        let most = shards.iter().copied().map(units).max().unwrap();
        let each = total / 5000;
        println!("{each} bytes a claim, {} units a list, {most} of one key", units(total));
        assert!(each < 2048, "{each} bytes a claim");
        // Six plans and sweeps in one second.
        assert!(most * 6 < 3000, "{shards:?}");
        let members: Vec<NodeClaim> = (0..97).map(large).collect();
        let group = StoredLaunchGroup {
            owners: members
                .iter()
                .map(|it| (it.status.instance.as_ref().unwrap().id.clone(), it.name.clone()))
                .collect(),
            ..StoredLaunchGroup::of(&members).unwrap()
        };
        let item = table.launch_group_item(&group, Timestamp::UNIX_EPOCH).unwrap();
        let group = bytes(&table.versioned("test", item, Stored::Nothing).unwrap().item);
        println!("{group} bytes a launch group of 97");
        assert!(group < 4096, "{group} bytes a launch group");
    }
}
