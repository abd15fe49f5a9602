//! The State port with the throughput of DynamoDB's partitions: a request beyond it is refused and changes nothing.
//!
//! Items count as their JSON. The adapter for DynamoDB deflates most of them to a third or less, so these limits are stricter than
//! those of AWS. The SDK's retries are not simulated. The index `instance` has partitions of its own, by instance, and is not
//! counted.

mod meter;

use async_trait::async_trait;
use jiff::Timestamp;
use meter::{Exceeded, Meter, Partition, Use};
use nodeless_model::claim::Charge;
use nodeless_model::node_pool::PoolUsage;
use nodeless_model::{EndedNode, NodeClaim};
use nodeless_ports::capacity::{LaunchBudget, SpotInterruption, UnavailableOffering};
use nodeless_ports::claims::{ChangedClaim, Created, PARTITIONS, PoolLimits, StoredLaunchGroup, partition_of};
use nodeless_ports::costs::{StoredCosts, StoredHour};
use nodeless_ports::decisions::Decision;
use nodeless_ports::plans::{Commit, Committed, StoredCommand, UnfinishedPlan};
use nodeless_ports::{
    Capacity, Claims, Clock, Costs, Decisions, ErrorKind, LaunchCheck, Plans, PortError, RecordKind, Records, Shards,
    State, StoredCatalog, StoredRecord, StoredShard,
};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

pub use meter::PartitionLimits;

/// The keys and the small attributes of an item.
const ATTRIBUTES: usize = 250;
/// An item with a few short attributes: an unavailable offering, a budget, an interruption, a revision.
const SMALL: usize = 200;

/// A table whose partitions have the limits of DynamoDB. Clones share it.
#[derive(Clone)]
pub struct MeteredClaims {
    inner: Arc<dyn State>,
    clock: Arc<dyn Clock>,
    meter: Arc<Mutex<Metered>>,
}

#[derive(Debug, Default)]
struct Metered {
    meter: Meter,
    /// The size of each claim, and the version for which it was computed.
    sizes: BTreeMap<String, (u64, usize)>,
}

impl Metered {
    fn size_of(&mut self, claim: &NodeClaim, version: u64) -> usize {
        match self.sizes.get(&claim.name) {
            Some((known, bytes)) if *known == version => *bytes,
            _ => {
                let bytes = json(claim);
                self.sizes.insert(claim.name.clone(), (version, bytes));
                bytes
            }
        }
    }
}

/// The size of an item.
fn json(value: &impl Serialize) -> usize {
    serde_json::to_vec(value).map_or(0, |text| text.len()) + ATTRIBUTES
}

fn of_claim(name: &str) -> Partition {
    Partition::Claims(partition_of(name))
}

/// Repeats a use of the cluster's partition for this number of items.
fn small(count: usize, one: Use) -> Vec<(Partition, Use)> {
    vec![(Partition::Cluster, one); count]
}

fn in_cluster(one: Use) -> Vec<(Partition, Use)> {
    vec![(Partition::Cluster, one)]
}

impl MeteredClaims {
    /// The table with limits.
    #[must_use]
    pub fn new(inner: Arc<dyn State>, clock: Arc<dyn Clock>) -> Self {
        Self { inner, clock, meter: Arc::default() }
    }

    /// Changes the limits of every partition.
    pub fn set_limits(&self, limits: PartitionLimits) {
        self.lock().meter.limits = limits;
    }

    /// How many requests were refused.
    #[must_use]
    pub fn refused(&self) -> u64 {
        self.lock().meter.refused
    }

    fn lock(&self) -> MutexGuard<'_, Metered> {
        self.meter.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self, operation: &str, uses: &[(Partition, Use)]) -> Result<(), PortError> {
        self.lock().meter.take(uses, self.clock.now()).map_err(|exceeded| {
            let reason = match exceeded {
                Exceeded::Reads => "TableReadKeyRangeThroughputExceeded",
                Exceeded::Writes => "TableWriteKeyRangeThroughputExceeded",
            };
            // The exception of a table in on-demand mode.
            let message = format!("Throughput exceeds the maximum of a partition ({reason})");
            PortError::new(ErrorKind::Throttled, operation, message).with_code("ThrottlingException")
        })
    }

    /// A read, whose units are known from its answer.
    async fn read<T: Send>(
        &self,
        operation: &str,
        call: impl Future<Output = Result<T, PortError>> + Send,
        uses: impl FnOnce(&T) -> Vec<(Partition, Use)> + Send,
    ) -> Result<T, PortError> {
        let answer = call.await?;
        self.take(operation, &uses(&answer))?;
        Ok(answer)
    }

    /// A write, which is refused before it has an effect. A write whose condition is not met takes its units, too.
    async fn write<T>(
        &self,
        operation: &str,
        uses: &[(Partition, Use)],
        call: impl Future<Output = Result<T, PortError>> + Send,
    ) -> Result<T, PortError> {
        self.take(operation, uses)?;
        call.await
    }

    /// The size of a claim as it was read.
    fn stored(&self, claim: &NodeClaim) -> usize {
        self.lock().size_of(claim, claim.version)
    }

    /// The size of a claim as it is written.
    fn next(&self, claim: &NodeClaim) -> usize {
        self.lock().size_of(claim, claim.version + 1)
    }

    /// Claims that are written in a transaction, with the usage of their NodePool.
    fn together<'a>(&self, claims: impl Iterator<Item = &'a NodeClaim>) -> Vec<(Partition, Use)> {
        let claim = |claim: &NodeClaim| (of_claim(&claim.name), Use::WriteInTransaction(self.next(claim)));
        let mut uses: Vec<(Partition, Use)> = claims.map(claim).collect();
        uses.push((Partition::Cluster, Use::WriteInTransaction(SMALL)));
        uses
    }

    fn created(&self, claims: &[NodeClaim]) -> Vec<(Partition, Use)> {
        let mut uses = self.together(claims.iter());
        let group = StoredLaunchGroup::of(claims).map(|group| json(&group));
        uses.extend(group.map(|bytes| (Partition::Cluster, Use::WriteInTransaction(bytes))));
        uses
    }
}

#[async_trait]
impl Claims for MeteredClaims {
    async fn list(&self) -> Result<Vec<NodeClaim>, PortError> {
        let uses = |claims: &Vec<NodeClaim>| {
            let mut bytes: BTreeMap<u32, usize> = (0..PARTITIONS).map(|partition| (partition, 0)).collect();
            for claim in claims {
                *bytes.entry(partition_of(&claim.name)).or_default() += self.stored(claim);
            }
            bytes.into_iter().map(|(partition, bytes)| (Partition::Claims(partition), Use::Query(bytes))).collect()
        };
        self.read("claims list", self.inner.list(), uses).await
    }

    async fn get(&self, name: &str) -> Result<Option<NodeClaim>, PortError> {
        let uses = |claim: &Option<NodeClaim>| {
            vec![(of_claim(name), Use::Item(claim.as_ref().map_or(0, |claim| self.stored(claim))))]
        };
        self.read("claims get", self.inner.get(name), uses).await
    }

    async fn get_all(&self, names: &[String]) -> Result<Vec<NodeClaim>, PortError> {
        let uses = |claims: &Vec<NodeClaim>| {
            claims.iter().map(|claim| (of_claim(&claim.name), Use::Item(self.stored(claim)))).collect()
        };
        self.read("claims get all", self.inner.get_all(names), uses).await
    }

    async fn find_by_instance(&self, instance_id: &str) -> Result<Option<NodeClaim>, PortError> {
        let uses = |claim: &Option<NodeClaim>| {
            claim.iter().map(|claim| (of_claim(&claim.name), Use::Item(self.stored(claim)))).collect()
        };
        self.read("claims find by instance", self.inner.find_by_instance(instance_id), uses).await
    }

    async fn create_together(&self, claims: &[NodeClaim], limits: Option<&PoolLimits>) -> Result<Created, PortError> {
        self.write("claims create", &self.created(claims), self.inner.create_together(claims, limits)).await
    }

    async fn update(&self, claim: &NodeClaim, charge: Option<&Charge>) -> Result<u64, PortError> {
        let uses = match charge {
            Some(_) => self.together(std::iter::once(claim)),
            None => vec![(of_claim(&claim.name), Use::Write(self.next(claim)))],
        };
        self.write("claims update", &uses, self.inner.update(claim, charge)).await
    }

    async fn update_together(&self, changes: &[ChangedClaim]) -> Result<(), PortError> {
        let uses = self.together(changes.iter().map(|change| &change.claim));
        self.write("claims update together", &uses, self.inner.update_together(changes)).await
    }

    async fn delete_ended(&self, claim: &NodeClaim, ended: Option<&EndedNode>) -> Result<(), PortError> {
        let stored = self.stored(claim);
        self.lock().sizes.remove(&claim.name);
        let mut uses = vec![
            (of_claim(&claim.name), Use::WriteInTransaction(stored)),
            (Partition::Cluster, Use::WriteInTransaction(SMALL)),
        ];
        uses.extend(ended.map(|ended| (Partition::Cluster, Use::WriteInTransaction(json(ended)))));
        self.write("claims delete", &uses, self.inner.delete_ended(claim, ended)).await
    }

    async fn usage(&self) -> Result<BTreeMap<String, PoolUsage>, PortError> {
        let uses = |usage: &BTreeMap<String, PoolUsage>| in_cluster(Use::Query(usage.len() * SMALL));
        self.read("claims usage", self.inner.usage(), uses).await
    }

    async fn correct_usage(&self, node_pool: &str, read: &PoolUsage, counted: &PoolUsage) -> Result<(), PortError> {
        let call = self.inner.correct_usage(node_pool, read, counted);
        self.write("claims correct usage", &in_cluster(Use::Write(SMALL)), call).await
    }

    async fn launch_group(&self, id: &str) -> Result<Option<StoredLaunchGroup>, PortError> {
        let uses = |group: &Option<StoredLaunchGroup>| in_cluster(Use::Item(group.as_ref().map_or(0, json)));
        self.read("claims launch group", self.inner.launch_group(id), uses).await
    }

    async fn put_launch_group(&self, group: &StoredLaunchGroup, now: Timestamp) -> Result<u64, PortError> {
        let uses = in_cluster(Use::Write(json(group)));
        self.write("claims put launch group", &uses, self.inner.put_launch_group(group, now)).await
    }
}

#[async_trait]
impl Shards for MeteredClaims {
    async fn shards(&self) -> Result<Vec<StoredShard>, PortError> {
        let size = |shard: &StoredShard| json(shard);
        let uses = |shards: &Vec<StoredShard>| in_cluster(Use::Query(shards.iter().map(size).sum()));
        self.read("claims shards", self.inner.shards(), uses).await
    }

    async fn shard(&self, shard: u32) -> Result<Option<StoredShard>, PortError> {
        let uses = |shard: &Option<StoredShard>| in_cluster(Use::Item(shard.as_ref().map_or(0, json)));
        self.read("claims shard", self.inner.shard(shard), uses).await
    }

    async fn put_shard(&self, shard: &StoredShard) -> Result<u64, PortError> {
        let uses = in_cluster(Use::Write(json(shard)));
        self.write("claims put shard", &uses, self.inner.put_shard(shard)).await
    }
}

#[async_trait]
impl Plans for MeteredClaims {
    async fn plan_revision(&self) -> Result<u64, PortError> {
        self.read("claims plan revision", self.inner.plan_revision(), |_| in_cluster(Use::Item(SMALL))).await
    }

    async fn commit(&self, commit: Commit<'_>, revision: u64) -> Result<Committed, PortError> {
        let (operation, mut uses) = match commit {
            Commit::Launch(claims, _) => ("claims create", self.created(claims)),
            Commit::Leave(leaving) => ("claims update", self.together(leaving.iter().map(|one| &one.claim))),
            Commit::Command(command) => {
                ("claims put command", in_cluster(Use::WriteInTransaction(command.encoded.len() + ATTRIBUTES)))
            }
        };
        uses.push((Partition::Cluster, Use::WriteInTransaction(SMALL)));
        self.write(operation, &uses, self.inner.commit(commit, revision)).await
    }

    async fn commands(&self) -> Result<Vec<StoredCommand>, PortError> {
        let size = |command: &StoredCommand| command.encoded.len() + ATTRIBUTES;
        let uses = |commands: &Vec<StoredCommand>| in_cluster(Use::Query(commands.iter().map(size).sum()));
        self.read("claims commands", self.inner.commands(), uses).await
    }

    async fn put_command(&self, command: &StoredCommand) -> Result<u64, PortError> {
        let uses = in_cluster(Use::Write(command.encoded.len() + ATTRIBUTES));
        self.write("claims put command", &uses, self.inner.put_command(command)).await
    }

    async fn delete_command(&self, command: &StoredCommand) -> Result<(), PortError> {
        let uses = in_cluster(Use::Write(command.encoded.len() + ATTRIBUTES));
        self.write("claims delete command", &uses, self.inner.delete_command(command)).await
    }

    async fn unfinished_plan(&self) -> Result<Option<UnfinishedPlan>, PortError> {
        self.read("claims unfinished plan", self.inner.unfinished_plan(), |_| in_cluster(Use::Item(SMALL))).await
    }

    async fn begin_plan(&self, plan: &UnfinishedPlan, until: Timestamp) -> Result<(), PortError> {
        let uses = in_cluster(Use::Write(SMALL));
        self.write("claims begin plan", &uses, self.inner.begin_plan(plan, until)).await
    }

    async fn end_plan(&self, id: &str) -> Result<(), PortError> {
        self.write("claims end plan", &in_cluster(Use::Write(SMALL)), self.inner.end_plan(id)).await
    }

    async fn not_yet_evaluated(&self) -> Result<BTreeSet<String>, PortError> {
        let uses = |nodes: &BTreeSet<String>| in_cluster(Use::Item(json(nodes)));
        self.read("claims not yet evaluated", self.inner.not_yet_evaluated(), uses).await
    }

    async fn put_not_yet_evaluated(&self, nodes: &BTreeSet<String>, until: Timestamp) -> Result<(), PortError> {
        let uses = in_cluster(Use::Write(json(nodes)));
        self.write("claims put not yet evaluated", &uses, self.inner.put_not_yet_evaluated(nodes, until)).await
    }

    async fn put_snapshot(&self, id: &str, encoded: &[u8], until: Timestamp) -> Result<(), PortError> {
        let uses = in_cluster(Use::Write(encoded.len()));
        self.write("claims put snapshot", &uses, self.inner.put_snapshot(id, encoded, until)).await
    }
}

#[async_trait]
impl Capacity for MeteredClaims {
    async fn mark_unavailable(&self, offerings: &[UnavailableOffering]) -> Result<(), PortError> {
        let uses = small(offerings.len(), Use::Write(SMALL));
        self.write("claims mark unavailable", &uses, self.inner.mark_unavailable(offerings)).await
    }

    async fn unavailable(&self, now: Timestamp) -> Result<Vec<UnavailableOffering>, PortError> {
        let uses = |found: &Vec<UnavailableOffering>| in_cluster(Use::Query(found.len() * SMALL));
        self.read("claims unavailable", self.inner.unavailable(now), uses).await
    }

    async fn record_interruptions(&self, interruptions: &[SpotInterruption]) -> Result<(), PortError> {
        let uses = small(interruptions.len(), Use::Write(SMALL));
        self.write("claims record interruptions", &uses, self.inner.record_interruptions(interruptions)).await
    }

    async fn interruptions(&self, now: Timestamp) -> Result<Vec<SpotInterruption>, PortError> {
        let uses = |found: &Vec<SpotInterruption>| in_cluster(Use::Query(found.len() * SMALL));
        self.read("claims interruptions", self.inner.interruptions(now), uses).await
    }

    async fn launch_budgets(&self, now: Timestamp) -> Result<Vec<LaunchBudget>, PortError> {
        let uses = |found: &Vec<LaunchBudget>| in_cluster(Use::Query(found.len() * SMALL));
        self.read("claims launch budgets", self.inner.launch_budgets(now), uses).await
    }

    async fn raise_launch_budgets(
        &self,
        budgets: &[LaunchBudget],
        initial: u32,
        now: Timestamp,
    ) -> Result<(), PortError> {
        let uses = small(budgets.len(), Use::Write(SMALL));
        self.write("claims raise launch budgets", &uses, self.inner.raise_launch_budgets(budgets, initial, now)).await
    }

    async fn reset_launch_budgets(&self, budgets: &[LaunchBudget]) -> Result<(), PortError> {
        let uses = small(budgets.len(), Use::Write(SMALL));
        self.write("claims reset launch budgets", &uses, self.inner.reset_launch_budgets(budgets)).await
    }

    async fn launch_check(&self, node_class: &str) -> Result<Option<LaunchCheck>, PortError> {
        let uses = |check: &Option<LaunchCheck>| in_cluster(Use::Item(check.as_ref().map_or(0, json)));
        self.read("claims launch check", self.inner.launch_check(node_class), uses).await
    }

    async fn put_launch_check(&self, check: &LaunchCheck, keep: Duration) -> Result<(), PortError> {
        let uses = in_cluster(Use::Write(json(check)));
        self.write("claims put launch check", &uses, self.inner.put_launch_check(check, keep)).await
    }
}

#[async_trait]
impl Records for MeteredClaims {
    async fn records(&self, kind: RecordKind) -> Result<Vec<StoredRecord>, PortError> {
        let size = |record: &StoredRecord| record.encoded.len() + ATTRIBUTES;
        let uses = |records: &Vec<StoredRecord>| in_cluster(Use::Query(records.iter().map(size).sum()));
        self.read("claims records", self.inner.records(kind), uses).await
    }

    async fn record(&self, kind: RecordKind, node_pool: &str) -> Result<Option<StoredRecord>, PortError> {
        let size = |record: &StoredRecord| record.encoded.len() + ATTRIBUTES;
        let uses = |record: &Option<StoredRecord>| in_cluster(Use::Item(record.as_ref().map_or(0, size)));
        self.read("claims record", self.inner.record(kind, node_pool), uses).await
    }

    async fn put_record(&self, kind: RecordKind, record: &StoredRecord) -> Result<u64, PortError> {
        let uses = in_cluster(Use::Write(record.encoded.len() + ATTRIBUTES));
        self.write("claims put record", &uses, self.inner.put_record(kind, record)).await
    }
}

#[async_trait]
impl StoredCatalog for MeteredClaims {
    async fn put_catalog(&self, version: &str, encoded: &[u8], now: Timestamp) -> Result<(), PortError> {
        let uses = in_cluster(Use::Write(encoded.len()));
        self.write("claims put catalog", &uses, self.inner.put_catalog(version, encoded, now)).await
    }

    async fn catalog_version(&self) -> Result<Option<String>, PortError> {
        self.read("claims catalog version", self.inner.catalog_version(), |_| in_cluster(Use::Item(SMALL))).await
    }

    async fn catalog(&self) -> Result<Option<(String, Vec<u8>)>, PortError> {
        let uses = |catalog: &Option<(String, Vec<u8>)>| {
            in_cluster(Use::Query(catalog.as_ref().map_or(0, |(_, encoded)| encoded.len())))
        };
        self.read("claims catalog", self.inner.catalog(), uses).await
    }
}

#[async_trait]
impl Decisions for MeteredClaims {
    async fn record_decisions(&self, decisions: &[Decision], keep: Duration) -> Result<(), PortError> {
        let size = |decision: &Decision| decision.summary.len() + decision.detail.len() + ATTRIBUTES;
        let uses: Vec<_> = decisions.iter().map(|one| (Partition::Cluster, Use::Write(size(one)))).collect();
        self.write("claims record decisions", &uses, self.inner.record_decisions(decisions, keep)).await
    }

    async fn decisions(&self, limit: u32) -> Result<Vec<Decision>, PortError> {
        let size = |decision: &Decision| decision.summary.len() + decision.detail.len() + ATTRIBUTES;
        let uses = |found: &Vec<Decision>| in_cluster(Use::Query(found.iter().map(size).sum()));
        self.read("claims decisions", self.inner.decisions(limit), uses).await
    }
}

#[async_trait]
impl Costs for MeteredClaims {
    async fn open_costs(&self) -> Result<StoredCosts, PortError> {
        let uses = |costs: &StoredCosts| in_cluster(Use::Item(costs.encoded.len() + ATTRIBUTES));
        self.read("claims open costs", self.inner.open_costs(), uses).await
    }

    async fn ended_nodes(&self, since: Timestamp) -> Result<Vec<EndedNode>, PortError> {
        let uses = |ended: &Vec<EndedNode>| in_cluster(Use::Query(ended.iter().map(json).sum()));
        self.read("claims ended nodes", self.inner.ended_nodes(since), uses).await
    }

    async fn put_costs(&self, open: &StoredCosts, ended: &[StoredHour]) -> Result<u64, PortError> {
        let sizes = ended.iter().map(|hour| hour.encoded.len()).chain([open.encoded.len()]);
        let uses: Vec<_> =
            sizes.map(|bytes| (Partition::Cluster, Use::WriteInTransaction(bytes + ATTRIBUTES))).collect();
        self.write("claims put costs", &uses, self.inner.put_costs(open, ended)).await
    }

    async fn hours(&self, from: Timestamp, to: Timestamp) -> Result<Vec<StoredHour>, PortError> {
        let size = |hour: &StoredHour| hour.encoded.len() + ATTRIBUTES;
        let uses = |hours: &Vec<StoredHour>| in_cluster(Use::Query(hours.iter().map(size).sum()));
        self.read("claims hours", self.inner.hours(from, to), uses).await
    }
}
