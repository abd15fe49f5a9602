//! The claims table, the source of the catalog and ARC, with faults.

use super::FaultInjection;
use crate::memory::record_operations;
use async_trait::async_trait;
use jiff::Timestamp;
use nodeless_api::{EC2NodeClass, EC2NodeClassStatus};
use nodeless_catalog::Catalog;
use nodeless_model::claim::Charge;
use nodeless_model::node_pool::PoolUsage;
use nodeless_model::{EndedNode, NodeClaim};
use nodeless_ports::capacity::{LaunchBudget, SpotInterruption, UnavailableOffering};
use nodeless_ports::claims::{ChangedClaim, Created, PoolLimits, StoredLaunchGroup};
use nodeless_ports::costs::{StoredCosts, StoredHour};
use nodeless_ports::decisions::Decision;
use nodeless_ports::plans::{Commit, Committed, StoredCommand, UnfinishedPlan};
use nodeless_ports::{
    Capacity, CatalogSource, Claims, Costs, Decisions, LaunchCheck, Plans, PortError, RecordKind, Records, Shards,
    State, StoredCatalog, StoredRecord, StoredShard, ZonalShift, ZonalShifts,
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

/// The State port with faults injected.
#[derive(Clone)]
pub struct FaultyClaims {
    /// The port itself.
    pub inner: Arc<dyn State>,
    /// The faults.
    pub fault_injection: FaultInjection,
}

#[async_trait]
impl Claims for FaultyClaims {
    async fn list(&self) -> Result<Vec<NodeClaim>, PortError> {
        self.fault_injection.read("claims list", self.inner.list()).await
    }

    async fn get(&self, name: &str) -> Result<Option<NodeClaim>, PortError> {
        self.fault_injection.read("claims get", self.inner.get(name)).await
    }

    async fn get_all(&self, names: &[String]) -> Result<Vec<NodeClaim>, PortError> {
        self.fault_injection.read("claims get all", self.inner.get_all(names)).await
    }

    async fn find_by_instance(&self, instance_id: &str) -> Result<Option<NodeClaim>, PortError> {
        self.fault_injection.read("claims find by instance", self.inner.find_by_instance(instance_id)).await
    }

    async fn create_together(&self, claims: &[NodeClaim], limits: Option<&PoolLimits>) -> Result<Created, PortError> {
        let accepted = |created: &Created| *created == Created::Written;
        let call = self.inner.create_together(claims, limits);
        self.fault_injection.write("claims create", names(claims), accepted, call).await
    }

    async fn update(&self, claim: &NodeClaim, charge: Option<&Charge>) -> Result<u64, PortError> {
        self.fault_injection
            .write("claims update", claim.name.clone(), |_| true, self.inner.update(claim, charge))
            .await
    }

    async fn update_together(&self, changes: &[ChangedClaim]) -> Result<(), PortError> {
        let subject = names(changes.iter().map(|change| &change.claim));
        let call = self.inner.update_together(changes);
        self.fault_injection.write("claims update together", subject, |()| true, call).await
    }

    async fn delete_ended(&self, claim: &NodeClaim, ended: Option<&EndedNode>) -> Result<(), PortError> {
        let call = self.inner.delete_ended(claim, ended);
        self.fault_injection.write("claims delete", claim.name.clone(), |()| true, call).await
    }

    async fn usage(&self) -> Result<BTreeMap<String, PoolUsage>, PortError> {
        self.fault_injection.read("claims usage", self.inner.usage()).await
    }

    async fn correct_usage(&self, node_pool: &str, read: &PoolUsage, counted: &PoolUsage) -> Result<(), PortError> {
        let call = self.inner.correct_usage(node_pool, read, counted);
        self.fault_injection.write("claims correct usage", node_pool.to_owned(), |()| true, call).await
    }

    async fn launch_group(&self, id: &str) -> Result<Option<StoredLaunchGroup>, PortError> {
        self.fault_injection.read("claims launch group", self.inner.launch_group(id)).await
    }

    async fn put_launch_group(&self, group: &StoredLaunchGroup, now: Timestamp) -> Result<u64, PortError> {
        let call = self.inner.put_launch_group(group, now);
        self.fault_injection.write("claims put launch group", group.id.clone(), |_| true, call).await
    }
}

#[async_trait]
impl Shards for FaultyClaims {
    async fn shards(&self) -> Result<Vec<StoredShard>, PortError> {
        self.fault_injection.read("claims shards", self.inner.shards()).await
    }

    async fn shard(&self, shard: u32) -> Result<Option<StoredShard>, PortError> {
        self.fault_injection.read("claims shard", self.inner.shard(shard)).await
    }

    async fn put_shard(&self, shard: &StoredShard) -> Result<u64, PortError> {
        let call = self.inner.put_shard(shard);
        self.fault_injection.write("claims put shard", shard.shard.to_string(), |_| true, call).await
    }
}

#[async_trait]
impl Plans for FaultyClaims {
    async fn plan_revision(&self) -> Result<u64, PortError> {
        self.fault_injection.read("claims plan revision", self.inner.plan_revision()).await
    }

    async fn commit(&self, commit: Commit<'_>, revision: u64) -> Result<Committed, PortError> {
        let (operation, subject) = match commit {
            Commit::Launch(claims, _) => ("claims create", names(claims)),
            Commit::Leave(leaving) => ("claims update", names(leaving.iter().map(|one| &one.claim))),
            Commit::Command(command) => ("claims put command", command.id.clone()),
        };
        let accepted = |committed: &Committed| *committed == Committed::Written;
        self.fault_injection.write(operation, subject, accepted, self.inner.commit(commit, revision)).await
    }

    async fn commands(&self) -> Result<Vec<StoredCommand>, PortError> {
        self.fault_injection.read("claims commands", self.inner.commands()).await
    }

    async fn put_command(&self, command: &StoredCommand) -> Result<u64, PortError> {
        self.fault_injection
            .write("claims put command", command.id.clone(), |_| true, self.inner.put_command(command))
            .await
    }

    async fn delete_command(&self, command: &StoredCommand) -> Result<(), PortError> {
        let call = self.inner.delete_command(command);
        self.fault_injection.write("claims delete command", command.id.clone(), |()| true, call).await
    }

    async fn unfinished_plan(&self) -> Result<Option<UnfinishedPlan>, PortError> {
        self.fault_injection.read("claims unfinished plan", self.inner.unfinished_plan()).await
    }

    async fn begin_plan(&self, plan: &UnfinishedPlan, until: Timestamp) -> Result<(), PortError> {
        let call = self.inner.begin_plan(plan, until);
        self.fault_injection.write("claims begin plan", plan.id.clone(), |()| true, call).await
    }

    async fn end_plan(&self, id: &str) -> Result<(), PortError> {
        self.fault_injection.write("claims end plan", id.to_owned(), |()| true, self.inner.end_plan(id)).await
    }

    async fn not_yet_evaluated(&self) -> Result<BTreeSet<String>, PortError> {
        self.fault_injection.read("claims not yet evaluated", self.inner.not_yet_evaluated()).await
    }

    async fn put_not_yet_evaluated(&self, nodes: &BTreeSet<String>, until: Timestamp) -> Result<(), PortError> {
        let call = self.inner.put_not_yet_evaluated(nodes, until);
        self.fault_injection.write("claims put not yet evaluated", String::new(), |()| true, call).await
    }

    async fn put_snapshot(&self, id: &str, encoded: &[u8], until: Timestamp) -> Result<(), PortError> {
        let call = self.inner.put_snapshot(id, encoded, until);
        self.fault_injection.write("claims put snapshot", id.to_owned(), |()| true, call).await
    }
}

#[async_trait]
impl Capacity for FaultyClaims {
    async fn mark_unavailable(&self, offerings: &[UnavailableOffering]) -> Result<(), PortError> {
        let subject = format!("{} offerings", offerings.len());
        self.fault_injection
            .write("claims mark unavailable", subject, |()| true, self.inner.mark_unavailable(offerings))
            .await
    }

    async fn unavailable(&self, now: Timestamp) -> Result<Vec<UnavailableOffering>, PortError> {
        self.fault_injection.read("claims unavailable", self.inner.unavailable(now)).await
    }

    async fn record_interruptions(&self, interruptions: &[SpotInterruption]) -> Result<(), PortError> {
        let subject = format!("{} interruptions", interruptions.len());
        self.fault_injection
            .write("claims record interruptions", subject, |()| true, self.inner.record_interruptions(interruptions))
            .await
    }

    async fn interruptions(&self, now: Timestamp) -> Result<Vec<SpotInterruption>, PortError> {
        self.fault_injection.read("claims interruptions", self.inner.interruptions(now)).await
    }

    async fn launch_budgets(&self, now: Timestamp) -> Result<Vec<LaunchBudget>, PortError> {
        self.fault_injection.read("claims launch budgets", self.inner.launch_budgets(now)).await
    }

    async fn raise_launch_budgets(
        &self,
        budgets: &[LaunchBudget],
        initial: u32,
        now: Timestamp,
    ) -> Result<(), PortError> {
        let subject = format!("{} offerings", budgets.len());
        let call = self.inner.raise_launch_budgets(budgets, initial, now);
        self.fault_injection.write("claims raise launch budgets", subject, |()| true, call).await
    }

    async fn reset_launch_budgets(&self, budgets: &[LaunchBudget]) -> Result<(), PortError> {
        let subject = format!("{} offerings", budgets.len());
        self.fault_injection
            .write("claims reset launch budgets", subject, |()| true, self.inner.reset_launch_budgets(budgets))
            .await
    }

    async fn launch_check(&self, node_class: &str) -> Result<Option<LaunchCheck>, PortError> {
        self.fault_injection.read("claims launch check", self.inner.launch_check(node_class)).await
    }

    async fn put_launch_check(&self, check: &LaunchCheck, keep: Duration) -> Result<(), PortError> {
        let call = self.inner.put_launch_check(check, keep);
        self.fault_injection.write("claims put launch check", check.node_class.clone(), |()| true, call).await
    }
}

#[async_trait]
impl Records for FaultyClaims {
    async fn records(&self, kind: RecordKind) -> Result<Vec<StoredRecord>, PortError> {
        self.fault_injection.read(record_operations(kind).0, self.inner.records(kind)).await
    }

    async fn record(&self, kind: RecordKind, node_pool: &str) -> Result<Option<StoredRecord>, PortError> {
        self.fault_injection.read(record_operations(kind).0, self.inner.record(kind, node_pool)).await
    }

    async fn put_record(&self, kind: RecordKind, record: &StoredRecord) -> Result<u64, PortError> {
        let call = self.inner.put_record(kind, record);
        self.fault_injection.write(record_operations(kind).1, kind.key(&record.node_pool), |_| true, call).await
    }
}

#[async_trait]
impl StoredCatalog for FaultyClaims {
    async fn put_catalog(&self, version: &str, encoded: &[u8], now: Timestamp) -> Result<(), PortError> {
        let call = self.inner.put_catalog(version, encoded, now);
        self.fault_injection.write("claims put catalog", version.to_owned(), |()| true, call).await
    }

    async fn catalog_version(&self) -> Result<Option<String>, PortError> {
        self.fault_injection.read("claims catalog version", self.inner.catalog_version()).await
    }

    async fn catalog(&self) -> Result<Option<(String, Vec<u8>)>, PortError> {
        self.fault_injection.read("claims catalog", self.inner.catalog()).await
    }
}

#[async_trait]
impl Decisions for FaultyClaims {
    async fn record_decisions(&self, decisions: &[Decision], keep: Duration) -> Result<(), PortError> {
        let subject = decisions.first().map(|decision| decision.summary.clone()).unwrap_or_default();
        let call = self.inner.record_decisions(decisions, keep);
        self.fault_injection.write("claims record decisions", subject, |()| true, call).await
    }

    async fn decisions(&self, limit: u32) -> Result<Vec<Decision>, PortError> {
        self.fault_injection.read("claims decisions", self.inner.decisions(limit)).await
    }
}

#[async_trait]
impl Costs for FaultyClaims {
    async fn open_costs(&self) -> Result<StoredCosts, PortError> {
        self.fault_injection.read("claims open costs", self.inner.open_costs()).await
    }

    async fn ended_nodes(&self, since: Timestamp) -> Result<Vec<EndedNode>, PortError> {
        self.fault_injection.read("claims ended nodes", self.inner.ended_nodes(since)).await
    }

    async fn put_costs(&self, open: &StoredCosts, ended: &[StoredHour]) -> Result<u64, PortError> {
        let call = self.inner.put_costs(open, ended);
        self.fault_injection.write("claims put costs", "cost#open".to_owned(), |_| true, call).await
    }

    async fn hours(&self, from: Timestamp, to: Timestamp) -> Result<Vec<StoredHour>, PortError> {
        self.fault_injection.read("claims hours", self.inner.hours(from, to)).await
    }
}

fn names<'a>(claims: impl IntoIterator<Item = &'a NodeClaim>) -> String {
    let names: Vec<&str> = claims.into_iter().map(|claim| claim.name.as_str()).collect();
    names.join(" ")
}

/// The CatalogSource port with faults injected.
#[derive(Clone)]
pub struct FaultyCatalogSource {
    /// The port itself.
    pub inner: Arc<dyn CatalogSource>,
    /// The faults.
    pub fault_injection: FaultInjection,
}

#[async_trait]
impl CatalogSource for FaultyCatalogSource {
    async fn catalog(&self, previous: Option<&Catalog>) -> Result<Catalog, PortError> {
        self.fault_injection.read("source catalog", self.inner.catalog(previous)).await
    }

    async fn resolve(&self, node_class: &EC2NodeClass) -> Result<EC2NodeClassStatus, PortError> {
        self.fault_injection.read("source resolve", self.inner.resolve(node_class)).await
    }

    async fn release(&self, node_class: &EC2NodeClass) -> Result<(), PortError> {
        let subject = node_class.metadata.name.clone().unwrap_or_default();
        self.fault_injection.write("source release", subject, |()| true, self.inner.release(node_class)).await
    }
}

/// The ZonalShifts port with faults injected.
#[derive(Clone)]
pub struct FaultyZonalShifts {
    /// The port itself.
    pub inner: Arc<dyn ZonalShifts>,
    /// The faults.
    pub fault_injection: FaultInjection,
}

#[async_trait]
impl ZonalShifts for FaultyZonalShifts {
    async fn applied(&self) -> Result<Vec<ZonalShift>, PortError> {
        self.fault_injection.read("arc zonal shifts", self.inner.applied()).await
    }
}
