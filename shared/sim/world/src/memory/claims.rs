//! The claims table in memory.

use async_trait::async_trait;
use jiff::Timestamp;
use nodeless_model::claim::{Charge, OfferingKey};
use nodeless_model::node_pool::PoolUsage;
use nodeless_model::{CapacityType, ClusterLimits, EndedNode, NodeClaim, Quantity, ResourceList};
use nodeless_ports::capacity::{LaunchBudget, SpotInterruption, UnavailableOffering};
use nodeless_ports::claims::{ChangedClaim, Created, LaunchLimits, PoolLimits, StoredLaunchGroup, node_pool_of};
use nodeless_ports::costs::{ENDED_KEPT, HOURS_KEPT, StoredCosts, StoredHour, ended_key};
use nodeless_ports::decisions::Decision;
use nodeless_ports::plans::{Commit, Committed, StoredCommand, UnfinishedPlan};
use nodeless_ports::{
    Capacity, Claims, Costs, Decisions, ErrorKind, LaunchCheck, Plans, PortError, RecordKind, Records, Shards,
    StoredCatalog, StoredRecord, StoredShard,
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The maximum size of an item.
const ITEM_BYTES: usize = 400 * 1024;

/// The claims table of one cluster. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct MemoryClaims {
    table: Arc<Mutex<Table>>,
}

#[derive(Debug, Default)]
struct Table {
    claims: BTreeMap<String, NodeClaim>,
    usage: BTreeMap<String, Counted>,
    unavailable: BTreeMap<(String, String, CapacityType), UnavailableOffering>,
    interruptions: BTreeMap<String, SpotInterruption>,
    budgets: BTreeMap<OfferingKey, LaunchBudget>,
    launch_checks: BTreeMap<String, LaunchCheck>,
    not_yet_evaluated: BTreeSet<String>,
    unfinished_plan: Option<UnfinishedPlan>,
    snapshots: BTreeMap<String, Vec<u8>>,
    catalog: Option<(String, Vec<u8>)>,
    commands: BTreeMap<String, StoredCommand>,
    launch_groups: BTreeMap<String, StoredLaunchGroup>,
    shards: BTreeMap<u32, StoredShard>,
    records: BTreeMap<(RecordKind, String), StoredRecord>,
    decisions: BTreeMap<String, Decision>,
    costs: StoredCosts,
    hours: BTreeMap<String, StoredHour>,
    ended: BTreeMap<String, EndedNode>,
    /// The plan revision.
    plan_revision: u64,
    /// Counts the writes of claims and commands.
    revision: u64,
}

/// Usage as the table counts it: dollars in whole micro-dollars, so that released charges leave exactly zero.
#[derive(Clone, Debug, Default, PartialEq)]
struct Counted {
    resources: ResourceList,
    microdollars: i64,
    recounted: Option<Timestamp>,
    revision: u64,
}

impl Counted {
    fn of(charge: &Charge) -> Self {
        Self {
            resources: charge.resources.clone(),
            microdollars: microdollars(charge.dollars_per_hour),
            recounted: None,
            revision: 1,
        }
    }

    fn add(&mut self, other: &Self) {
        self.revision += other.revision;
        self.resources.add(&other.resources);
        self.microdollars += other.microdollars;
    }

    fn subtract(&mut self, other: &Self) {
        self.revision += other.revision;
        self.resources.subtract(&other.resources);
        self.microdollars -= other.microdollars;
    }

    fn usage(&self) -> PoolUsage {
        #[expect(clippy::cast_precision_loss, reason = "sums of prices stay far below 2^53 micro-dollars")]
        let dollars_per_hour = self.microdollars as f64 / 1e6;
        let used = self.resources.iter().filter(|(_, quantity)| !quantity.is_zero());
        let resources = used.map(|(name, quantity)| (name.to_owned(), quantity)).collect();
        PoolUsage { resources, dollars_per_hour, recounted: self.recounted, revision: self.revision }
    }

    /// The first limit that this usage and the amounts together would exceed.
    fn limit_passed(&self, amounts: &Self, limits: &ResourceList, dollars: Option<f64>) -> Option<String> {
        let passed = |(name, limit): &(&str, Quantity)| {
            let asked = amounts.resources.get(name);
            asked > Quantity::ZERO && self.resources.get(name) + asked > *limit
        };
        let resource = limits.iter().find(passed).map(|(name, _)| name.to_owned());
        let too_dear = dollars.is_some_and(|limit| {
            amounts.microdollars > 0 && self.microdollars + amounts.microdollars > microdollars(limit)
        });
        resource.or_else(|| too_dear.then(|| "dollars-per-hour".to_owned()))
    }
}

#[expect(clippy::cast_possible_truncation, reason = "a price in micro-dollars is far below 2^63, and `as` saturates")]
fn microdollars(dollars: f64) -> i64 {
    (dollars * 1e6).round() as i64
}

impl Table {
    /// Whether claims with these names and uids exist.
    fn has_all(&self, claims: &[NodeClaim]) -> bool {
        let has = |claim: &NodeClaim| self.claims.get(&claim.name).is_some_and(|present| present.uid == claim.uid);
        !claims.is_empty() && claims.iter().all(has)
    }

    /// Whether the claim was not written since it was read.
    fn is_as_read(&self, claim: &NodeClaim) -> bool {
        self.claims.get(&claim.name).is_some_and(|present| present.version == claim.version)
    }

    fn create(
        &mut self,
        operation: &str,
        claims: &[NodeClaim],
        limits: Option<&PoolLimits>,
    ) -> Result<Created, PortError> {
        let node_pool = node_pool_of(operation, claims.iter())?;
        if self.has_all(claims) {
            return Ok(Created::AlreadyThere);
        }
        if let Some(taken) = claims.iter().find(|claim| self.claims.contains_key(&claim.name)) {
            return Err(conflict(operation, &taken.name));
        }
        let mut amounts = Counted::default();
        claims.iter().for_each(|claim| amounts.add(&Counted::of(&claim.spec.charge)));
        let usage = self.usage.entry(node_pool.to_owned()).or_default();
        if let Some(resource) =
            limits.and_then(|limits| usage.limit_passed(&amounts, &limits.resources, limits.dollars_per_hour))
        {
            return Ok(Created::LimitReached { resource });
        }
        usage.add(&amounts);
        for claim in claims {
            self.claims.insert(claim.name.clone(), NodeClaim { version: 1, ..claim.clone() });
        }
        if let Some(group) = StoredLaunchGroup::of(claims) {
            self.launch_groups.insert(group.id.clone(), StoredLaunchGroup { version: 1, ..group });
        }
        self.revision += 1;
        Ok(Created::Written)
    }

    /// Creates the claims of a launch.
    fn launch(&mut self, operation: &str, claims: &[NodeClaim], limits: &LaunchLimits) -> Result<Committed, PortError> {
        if let Some(resource) = self.cluster_limit_passed(claims, &limits.cluster) {
            return Ok(Committed::ClusterLimitReached { resource });
        }
        self.create(operation, claims, Some(&limits.node_pool)).map(Committed::created)
    }

    /// The first limit of the cluster that the claims and the usage of all NodePools together would exceed.
    fn cluster_limit_passed(&self, claims: &[NodeClaim], limits: &ClusterLimits) -> Option<String> {
        let (mut all, mut amounts) = (Counted::default(), Counted::default());
        self.usage.values().for_each(|usage| all.add(usage));
        claims.iter().for_each(|claim| amounts.add(&Counted::of(&claim.spec.charge)));
        all.limit_passed(&amounts, &limits.resources, limits.dollars_per_hour)
    }

    fn update(&mut self, operation: &str, claim: &NodeClaim, charge: Option<&Charge>) -> Result<u64, PortError> {
        if !self.is_as_read(claim) {
            return Err(conflict(operation, &claim.name));
        }
        let mut next = NodeClaim { version: claim.version + 1, ..claim.clone() };
        if let Some(charge) = charge {
            let usage = self.usage.entry(claim.node_pool.clone()).or_default();
            usage.subtract(&Counted::of(&claim.spec.charge));
            usage.add(&Counted::of(charge));
            next.spec.charge = charge.clone();
        }
        let version = next.version;
        self.claims.insert(claim.name.clone(), next);
        self.revision += 1;
        Ok(version)
    }

    fn put_command(&mut self, operation: &str, command: &StoredCommand) -> Result<u64, PortError> {
        command.check_size(operation)?;
        if self.commands.get(&command.id).map_or(0, |present| present.version) != command.version {
            return Err(conflict(operation, &command.id));
        }
        let version = command.version + 1;
        self.commands.insert(command.id.clone(), StoredCommand { version, ..command.clone() });
        self.revision += 1;
        Ok(version)
    }
}

/// DynamoDB stores at most 400 kB in an item.
fn check_item(operation: &str, bytes: usize) -> Result<(), PortError> {
    if bytes <= ITEM_BYTES {
        return Ok(());
    }
    let message = format!("the item takes {bytes} bytes, and at most {ITEM_BYTES} can be stored");
    Err(PortError::new(ErrorKind::Invalid, operation, message))
}

/// The operations that read and write a record, as fault injection names them.
pub(crate) const fn record_operations(kind: RecordKind) -> (&'static str, &'static str) {
    match kind {
        RecordKind::Churn => ("claims churn", "claims put churn"),
        RecordKind::Registrations => ("claims registrations", "claims put registrations"),
        RecordKind::ReportedMemory => ("claims reported memory", "claims put reported memory"),
        RecordKind::WaitingPods => ("claims waiting pods", "claims put waiting pods"),
        RecordKind::ZonalShifts => ("claims zonal shifts", "claims put zonal shifts"),
    }
}

fn conflict(operation: &str, name: &str) -> PortError {
    PortError::new(ErrorKind::Conflict, operation, format!("{name} was written by somebody else first"))
}

impl MemoryClaims {
    /// All current claims, without a call to the port.
    #[must_use]
    pub fn snapshot(&self) -> Vec<NodeClaim> {
        self.lock().claims.values().cloned().collect()
    }

    /// The current commands, without a call to the port.
    #[must_use]
    pub fn commands_now(&self) -> Vec<StoredCommand> {
        self.lock().commands.values().cloned().collect()
    }

    /// The snapshots of plans that were kept, by id.
    #[must_use]
    pub fn snapshots(&self) -> BTreeMap<String, Vec<u8>> {
        self.lock().snapshots.clone()
    }

    /// Increases with each write of a claim or a command.
    #[must_use]
    pub fn revision(&self) -> u64 {
        self.lock().revision
    }

    /// The claim of an instance, without a call to the port.
    #[must_use]
    pub fn of_instance(&self, id: &str) -> Option<NodeClaim> {
        let has = |claim: &&NodeClaim| claim.status.instance.as_ref().is_some_and(|instance| instance.id == id);
        self.lock().claims.values().find(has).cloned()
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Claims for MemoryClaims {
    async fn list(&self) -> Result<Vec<NodeClaim>, PortError> {
        Ok(self.lock().claims.values().cloned().collect())
    }

    async fn get(&self, name: &str) -> Result<Option<NodeClaim>, PortError> {
        Ok(self.lock().claims.get(name).cloned())
    }

    async fn get_all(&self, names: &[String]) -> Result<Vec<NodeClaim>, PortError> {
        let named: BTreeSet<&String> = names.iter().collect();
        let table = self.lock();
        Ok(named.into_iter().filter_map(|name| table.claims.get(name)).cloned().collect())
    }

    async fn find_by_instance(&self, instance_id: &str) -> Result<Option<NodeClaim>, PortError> {
        let has =
            |claim: &&NodeClaim| claim.status.instance.as_ref().is_some_and(|instance| instance.id == instance_id);
        Ok(self.lock().claims.values().find(has).cloned())
    }

    async fn create_together(&self, claims: &[NodeClaim], limits: Option<&PoolLimits>) -> Result<Created, PortError> {
        const OPERATION: &str = "claims create";
        self.lock().create(OPERATION, claims, limits)
    }

    async fn update(&self, claim: &NodeClaim, charge: Option<&Charge>) -> Result<u64, PortError> {
        const OPERATION: &str = "claims update";
        self.lock().update(OPERATION, claim, charge)
    }

    async fn update_together(&self, changes: &[ChangedClaim]) -> Result<(), PortError> {
        const OPERATION: &str = "claims update together";
        let mut table = self.lock();
        node_pool_of(OPERATION, changes.iter().map(|change| &change.claim))?;
        if let Some(changed) = changes.iter().find(|change| !table.is_as_read(&change.claim)) {
            return Err(conflict(OPERATION, &changed.claim.name));
        }
        for change in changes {
            table.update(OPERATION, &change.claim, change.charge.as_ref())?;
        }
        Ok(())
    }

    async fn delete_ended(&self, claim: &NodeClaim, ended: Option<&EndedNode>) -> Result<(), PortError> {
        const OPERATION: &str = "claims delete";
        let mut table = self.lock();
        match table.claims.get(&claim.name) {
            None => return Ok(()),
            Some(present) if present.version != claim.version => return Err(conflict(OPERATION, &claim.name)),
            Some(_) => {}
        }
        table.claims.remove(&claim.name);
        table.revision += 1;
        table.usage.entry(claim.node_pool.clone()).or_default().subtract(&Counted::of(&claim.spec.charge));
        if let Some(ended) = ended {
            table.ended.insert(ended_key(ended.ended, &ended.name), ended.clone());
        }
        Ok(())
    }

    async fn usage(&self) -> Result<BTreeMap<String, PoolUsage>, PortError> {
        let all = |table: &Table| table.usage.iter().map(|(name, counted)| (name.clone(), counted.usage())).collect();
        Ok(all(&self.lock()))
    }

    async fn correct_usage(&self, node_pool: &str, read: &PoolUsage, counted: &PoolUsage) -> Result<(), PortError> {
        const OPERATION: &str = "claims correct usage";
        let mut table = self.lock();
        let usage = table.usage.entry(node_pool.to_owned()).or_default();
        if usage.usage() != *read {
            return Err(conflict(OPERATION, node_pool));
        }
        *usage = Counted {
            resources: counted.resources.clone(),
            microdollars: microdollars(counted.dollars_per_hour),
            recounted: counted.recounted,
            revision: read.revision + 1,
        };
        Ok(())
    }

    async fn launch_group(&self, id: &str) -> Result<Option<StoredLaunchGroup>, PortError> {
        Ok(self.lock().launch_groups.get(id).cloned())
    }

    async fn put_launch_group(&self, group: &StoredLaunchGroup, _now: Timestamp) -> Result<u64, PortError> {
        const OPERATION: &str = "claims put launch group";
        let mut table = self.lock();
        if table.launch_groups.get(&group.id).map_or(0, |present| present.version) != group.version {
            return Err(conflict(OPERATION, &group.id));
        }
        let version = group.version + 1;
        table.launch_groups.insert(group.id.clone(), StoredLaunchGroup { version, ..group.clone() });
        Ok(version)
    }
}

#[async_trait]
impl Plans for MemoryClaims {
    async fn plan_revision(&self) -> Result<u64, PortError> {
        Ok(self.lock().plan_revision)
    }

    async fn commit(&self, commit: Commit<'_>, revision: u64) -> Result<Committed, PortError> {
        let operation = match commit {
            Commit::Launch(..) => "claims create",
            Commit::Leave(_) => "claims update",
            Commit::Command(_) => "claims put command",
        };
        let mut table = self.lock();
        let current = table.plan_revision == revision;
        let committed = match commit {
            // If claims of this plan exist, an earlier attempt wrote them and incremented the revision.
            Commit::Launch(claims, _) if table.has_all(claims) => return Ok(Committed::AlreadyThere),
            _ if !current => return Ok(Committed::Overtaken),
            Commit::Launch(claims, limits) => table.launch(operation, claims, limits)?,
            Commit::Leave(leaving) => {
                node_pool_of(operation, leaving.iter().map(|one| &one.claim))?;
                if let Some(changed) = leaving.iter().find(|one| !table.is_as_read(&one.claim)) {
                    return Err(conflict(operation, &changed.claim.name));
                }
                for one in leaving {
                    table.update(operation, &one.claim, one.charge.as_ref())?;
                }
                Committed::Written
            }
            Commit::Command(command) => {
                table.put_command(operation, command)?;
                Committed::Written
            }
        };
        if committed == Committed::Written {
            table.plan_revision += 1;
        }
        Ok(committed)
    }

    async fn commands(&self) -> Result<Vec<StoredCommand>, PortError> {
        Ok(self.lock().commands.values().cloned().collect())
    }

    async fn put_command(&self, command: &StoredCommand) -> Result<u64, PortError> {
        const OPERATION: &str = "claims put command";
        self.lock().put_command(OPERATION, command)
    }

    async fn delete_command(&self, command: &StoredCommand) -> Result<(), PortError> {
        const OPERATION: &str = "claims delete command";
        let mut table = self.lock();
        if table.commands.get(&command.id).is_some_and(|present| present.version != command.version) {
            return Err(conflict(OPERATION, &command.id));
        }
        table.commands.remove(&command.id);
        table.revision += 1;
        Ok(())
    }

    async fn unfinished_plan(&self) -> Result<Option<UnfinishedPlan>, PortError> {
        Ok(self.lock().unfinished_plan.clone())
    }

    async fn begin_plan(&self, plan: &UnfinishedPlan, _until: Timestamp) -> Result<(), PortError> {
        self.lock().unfinished_plan = Some(plan.clone());
        Ok(())
    }

    async fn end_plan(&self, id: &str) -> Result<(), PortError> {
        self.lock().unfinished_plan.take_if(|plan| plan.id == id);
        Ok(())
    }

    async fn not_yet_evaluated(&self) -> Result<BTreeSet<String>, PortError> {
        Ok(self.lock().not_yet_evaluated.clone())
    }

    async fn put_not_yet_evaluated(&self, nodes: &BTreeSet<String>, _until: Timestamp) -> Result<(), PortError> {
        self.lock().not_yet_evaluated.clone_from(nodes);
        Ok(())
    }

    async fn put_snapshot(&self, id: &str, encoded: &[u8], _until: Timestamp) -> Result<(), PortError> {
        self.lock().snapshots.insert(id.to_owned(), encoded.to_vec());
        Ok(())
    }
}

#[async_trait]
impl Capacity for MemoryClaims {
    async fn mark_unavailable(&self, offerings: &[UnavailableOffering]) -> Result<(), PortError> {
        let mut table = self.lock();
        for offering in offerings {
            let key = (offering.instance_type.clone(), offering.zone.clone(), offering.capacity_type);
            table.unavailable.insert(key, offering.clone());
        }
        Ok(())
    }

    async fn unavailable(&self, now: Timestamp) -> Result<Vec<UnavailableOffering>, PortError> {
        let mut table = self.lock();
        table.unavailable.retain(|_, offering| offering.until > now);
        Ok(table.unavailable.values().cloned().collect())
    }

    async fn record_interruptions(&self, interruptions: &[SpotInterruption]) -> Result<(), PortError> {
        let mut table = self.lock();
        table.interruptions.extend(interruptions.iter().map(|one| (one.instance_id.clone(), one.clone())));
        Ok(())
    }

    async fn interruptions(&self, now: Timestamp) -> Result<Vec<SpotInterruption>, PortError> {
        let mut table = self.lock();
        table.interruptions.retain(|_, one| one.until > now);
        let mut interruptions: Vec<SpotInterruption> = table.interruptions.values().cloned().collect();
        interruptions.sort();
        Ok(interruptions)
    }

    async fn launch_budgets(&self, now: Timestamp) -> Result<Vec<LaunchBudget>, PortError> {
        let mut table = self.lock();
        table.budgets.retain(|_, budget| budget.until > now);
        Ok(table.budgets.values().cloned().collect())
    }

    async fn raise_launch_budgets(
        &self,
        budgets: &[LaunchBudget],
        initial: u32,
        now: Timestamp,
    ) -> Result<(), PortError> {
        let mut table = self.lock();
        for budget in budgets {
            let present = table.budgets.get(&budget.offering).filter(|present| present.until > now);
            if present.map_or(initial, |present| present.size) < budget.size {
                table.budgets.insert(budget.offering.clone(), budget.clone());
            }
        }
        Ok(())
    }

    async fn reset_launch_budgets(&self, budgets: &[LaunchBudget]) -> Result<(), PortError> {
        let by_offering = budgets.iter().map(|budget| (budget.offering.clone(), budget.clone()));
        self.lock().budgets.extend(by_offering);
        Ok(())
    }

    async fn launch_check(&self, node_class: &str) -> Result<Option<LaunchCheck>, PortError> {
        Ok(self.lock().launch_checks.get(node_class).cloned())
    }

    /// Records never expire here: a simulation is shorter than their time to live.
    async fn put_launch_check(&self, check: &LaunchCheck, _keep: Duration) -> Result<(), PortError> {
        self.lock().launch_checks.insert(check.node_class.clone(), check.clone());
        Ok(())
    }
}

#[async_trait]
impl Shards for MemoryClaims {
    async fn shards(&self) -> Result<Vec<StoredShard>, PortError> {
        Ok(self.lock().shards.values().cloned().collect())
    }

    async fn shard(&self, shard: u32) -> Result<Option<StoredShard>, PortError> {
        Ok(self.lock().shards.get(&shard).cloned())
    }

    async fn put_shard(&self, shard: &StoredShard) -> Result<u64, PortError> {
        let mut table = self.lock();
        if table.shards.get(&shard.shard).map_or(0, |present| present.version) != shard.version {
            return Err(conflict("claims put shard", &format!("shard {}", shard.shard)));
        }
        let version = shard.version + 1;
        table.shards.insert(shard.shard, StoredShard { version, ..shard.clone() });
        Ok(version)
    }
}

#[async_trait]
impl Records for MemoryClaims {
    async fn records(&self, kind: RecordKind) -> Result<Vec<StoredRecord>, PortError> {
        let table = self.lock();
        Ok(table.records.iter().filter(|((of, _), _)| *of == kind).map(|(_, record)| record.clone()).collect())
    }

    async fn record(&self, kind: RecordKind, node_pool: &str) -> Result<Option<StoredRecord>, PortError> {
        Ok(self.lock().records.get(&(kind, node_pool.to_owned())).cloned())
    }

    async fn put_record(&self, kind: RecordKind, record: &StoredRecord) -> Result<u64, PortError> {
        let operation = record_operations(kind).1;
        check_item(operation, record.encoded.len())?;
        let mut table = self.lock();
        let key = (kind, record.node_pool.clone());
        if table.records.get(&key).map_or(0, |present| present.version) != record.version {
            return Err(conflict(operation, &kind.key(&record.node_pool)));
        }
        let version = record.version + 1;
        table.records.insert(key, StoredRecord { version, ..record.clone() });
        Ok(version)
    }
}

#[async_trait]
impl StoredCatalog for MemoryClaims {
    async fn put_catalog(&self, version: &str, encoded: &[u8], _now: Timestamp) -> Result<(), PortError> {
        self.lock().catalog = Some((version.to_owned(), encoded.to_vec()));
        Ok(())
    }

    async fn catalog_version(&self) -> Result<Option<String>, PortError> {
        let version = |table: &Table| table.catalog.as_ref().map(|(version, _)| version.clone());
        Ok(version(&self.lock()))
    }

    async fn catalog(&self) -> Result<Option<(String, Vec<u8>)>, PortError> {
        Ok(self.lock().catalog.clone())
    }
}

#[async_trait]
impl Decisions for MemoryClaims {
    async fn record_decisions(&self, decisions: &[Decision], keep: Duration) -> Result<(), PortError> {
        let mut table = self.lock();
        table.decisions.extend(decisions.iter().map(|decision| (decision.id.clone(), decision.clone())));
        if let Some(latest) = table.decisions.values().map(|decision| decision.at).max() {
            let forgotten = latest.checked_sub(keep).unwrap_or(Timestamp::MIN);
            table.decisions.retain(|_, decision| decision.at >= forgotten);
        }
        Ok(())
    }

    async fn decisions(&self, limit: u32) -> Result<Vec<Decision>, PortError> {
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        Ok(self.lock().decisions.values().rev().take(limit).cloned().collect())
    }
}

#[async_trait]
impl Costs for MemoryClaims {
    async fn open_costs(&self) -> Result<StoredCosts, PortError> {
        Ok(self.lock().costs.clone())
    }

    async fn ended_nodes(&self, since: Timestamp) -> Result<Vec<EndedNode>, PortError> {
        let from = ended_key(since, "");
        Ok(self.lock().ended.range(from..).map(|(_, node)| node.clone()).collect())
    }

    async fn put_costs(&self, open: &StoredCosts, ended: &[StoredHour]) -> Result<u64, PortError> {
        const OPERATION: &str = "claims put costs";
        for bytes in ended.iter().map(|hour| hour.encoded.len()).chain([open.encoded.len()]) {
            check_item(OPERATION, bytes)?;
        }
        let mut table = self.lock();
        if table.costs.version != open.version {
            return Err(conflict(OPERATION, "cost#open"));
        }
        let version = open.version + 1;
        table.costs = StoredCosts { version, ..open.clone() };
        table.hours.extend(ended.iter().map(|hour| (hour.key(), hour.clone())));
        if let Some(latest) = table.hours.values().map(|hour| hour.hour).max() {
            let since = |kept| latest.checked_sub(kept).unwrap_or(Timestamp::MIN);
            let (hours, nodes) = (since(HOURS_KEPT), since(ENDED_KEPT));
            table.hours.retain(|_, hour| hour.hour >= hours);
            table.ended.retain(|_, node| node.ended >= nodes);
        }
        Ok(version)
    }

    async fn hours(&self, from: Timestamp, to: Timestamp) -> Result<Vec<StoredHour>, PortError> {
        Ok(self.lock().hours.values().filter(|hour| hour.hour >= from && hour.hour < to).cloned().collect())
    }
}
