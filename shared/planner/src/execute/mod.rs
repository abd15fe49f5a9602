//! The only part of a plan with effects: reads, and executes the actions of the stages. It makes no decision.

mod kinds;
mod lines;
pub(crate) mod without_effects;

use crate::Planner;
use crate::action::{Action, Batch, Written};
use crate::records::unfinished::remembered_until;
use crate::snapshot::command_records::encode;
use crate::snapshot::{RecordedCosts, Snapshot};
use async_trait::async_trait;
use futures::future::join_all;
use futures::lock::Mutex as AsyncMutex;
use jiff::Timestamp;
use kinds::{decides, retired, writes_own_item};
use nodeless_disruption::command::CommandRecord;
use nodeless_model::NodeClaim;
use nodeless_model::claim::Charge;
use nodeless_model::cluster_limits::annotation_of;
use nodeless_operations::{Unread, leaving, log_lines::Failed, shards};
use nodeless_ports::queue::WakeSource;
use nodeless_ports::{ErrorKind, PortError};
use nodeless_state::claims::MAX_TOGETHER;
use nodeless_state::costs::{StoredCosts, StoredHour};
use nodeless_state::limits::LaunchLimits;
use nodeless_state::plans::{Commit, Committed, Leaving, StoredCommand};
use nodeless_state::{RecordKind, StoredRecord};
use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How long a plan continues commands. A planner function has 40 s; the remaining commands continue in the next plan.
const MAX_TIME: Duration = Duration::from_secs(15);

/// How many writes to different items run concurrently: thousands of sequential writes would exceed the time of a planner.
const AT_ONCE: usize = 16;
/// The time that is reserved for what follows the commands.
const FOR_THE_END: Duration = Duration::from_secs(5);

/// Executes the actions of the stages.
#[async_trait]
pub(crate) trait Execute: Send + Sync {
    /// Executes these one after another, and returns the result of each.
    async fn carry_out(&self, batch: &Batch) -> Vec<Written>;

    /// Whether there is time for another command.
    fn has_time(&self) -> bool;
}

/// Executes over the ports.
pub(super) struct Live<'a> {
    pub(super) planner: &'a Planner,
    pub(super) snapshot: &'a Snapshot,
    /// When the process ends, if it has a deadline.
    pub(super) deadline: Option<Timestamp>,
    /// Whether this plan may still decide.
    pub(super) revision: PlanRevision,
    /// Whether the view is proved to be current.
    pub(super) proof: ViewProof,
}

/// Whether the view of the cluster is proved to be current, and why not; `None` until a decision needs to know that.
#[derive(Default)]
pub(super) struct ViewProof(AsyncMutex<Option<Result<(), String>>>);

/// The plan revision that the decisions of this plan are based on. If another plan increments it, this plan may not decide
/// anything more.
pub(super) struct PlanRevision(Mutex<Option<u64>>);

impl PlanRevision {
    /// For a plan that read the table at this revision.
    pub(super) const fn at(revision: u64) -> Self {
        Self(Mutex::new(Some(revision)))
    }

    /// The revision that the next decision is based on; `None` once another plan has decided something.
    fn current(&self) -> Option<u64> {
        *self.lock()
    }

    fn lock(&self) -> MutexGuard<'_, Option<u64>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The failed operation in the log line, if a plan may not decide.
const DECIDE: &str = "write what the plan decided";

/// The answer to a decision that is not written any more.
const OVERTAKEN: &str = "another plan has decided something since this one read the claims table, or the answer to a write of \
                         this plan was lost; the next plan decides anew";

#[async_trait]
impl Execute for Live<'_> {
    async fn carry_out(&self, batch: &Batch) -> Vec<Written> {
        if batch.actions.iter().any(decides)
            && let Err(why) = self.confirmed().await
        {
            return self.without_decisions(batch, &why).await;
        }
        let mut written = Vec::with_capacity(batch.actions.len());
        if batch.in_turn {
            let mut stopped = false;
            for action in &batch.actions {
                let answer = if stopped { Written::NotTried } else { self.one(action).await };
                stopped |= answer.problem().is_some();
                written.push(answer);
            }
            return written;
        }
        let alike = |one: &Action, next: &Action| {
            (writes_own_item(one) && writes_own_item(next))
                || retired(one).zip(retired(next)).is_some_and(|(one, next)| one.node_pool == next.node_pool)
        };
        for alike in batch.actions.chunk_by(alike) {
            let leaving: Vec<&NodeClaim> = alike.iter().filter_map(retired).collect();
            for together in leaving.chunks(MAX_TOGETHER) {
                written.extend(self.retire_together(together).await);
            }
            if leaving.is_empty() {
                for together in alike.chunks(AT_ONCE) {
                    written.extend(join_all(together.iter().map(|action| self.one(action))).await);
                }
            }
        }
        written
    }

    fn has_time(&self) -> bool {
        let took = Duration::try_from(self.planner.context.now().duration_since(self.snapshot.now));
        took.is_ok_and(|took| took <= MAX_TIME) && self.left().is_none_or(|left| left > FOR_THE_END)
    }
}

/// A claim, as it is written now.
fn there(leaving: Leaving) -> Written {
    let Leaving { mut claim, charge } = leaving;
    claim.version += 1;
    claim.spec.charge = charge.unwrap_or(claim.spec.charge);
    Written::There(Box::new(claim))
}

impl Live<'_> {
    /// Whether the view is proved to be current, and otherwise why nothing may be decided from it. The first decision waits for the
    /// proof.
    async fn confirmed(&self) -> Result<(), String> {
        let mut proof = self.proof.0.lock().await;
        if let Some(known) = &*proof {
            return known.clone();
        }
        let confirmed = self.planner.cluster.confirm_view().await.map_err(|error| error.to_string());
        if let Err(why) = &confirmed {
            self.planner.context.log(&Failed { what: DECIDE, why });
            let woken = self.planner.queue.wake_planner(WakeSource::Planner).await;
            self.logged("wake the planner", woken);
        }
        *proof = Some(confirmed.clone());
        confirmed
    }

    /// Executes the actions of a batch that decide nothing.
    async fn without_decisions(&self, batch: &Batch, why: &str) -> Vec<Written> {
        let mut written = Vec::with_capacity(batch.actions.len());
        let mut stopped = false;
        for action in &batch.actions {
            let answer = if stopped {
                Written::NotTried
            } else if decides(action) {
                Written::Conflict(why.to_owned())
            } else {
                self.one(action).await
            };
            stopped |= batch.in_turn && answer.problem().is_some();
            written.push(answer);
        }
        written
    }

    /// The time until the process ends, if it has a deadline.
    fn left(&self) -> Option<Duration> {
        let left = self.deadline?.duration_since(self.planner.context.now());
        Some(Duration::try_from(left).unwrap_or_default())
    }

    /// How much disruption work there is time for now, at most as much as at the start.
    fn work(&self) -> u64 {
        self.planner.work_within(self.deadline).disruption.min(self.snapshot.work.disruption)
    }

    async fn one(&self, action: &Action) -> Written {
        let Planner { claims, cluster, queue, settings, .. } = self.planner;
        match action {
            Action::BeginPlan(plan) => {
                self.minor("write that a plan begins", claims.begin_plan(plan, remembered_until(plan)).await)
            }
            Action::EndPlan(id) => self.minor("write that a plan has ended", claims.end_plan(id).await),
            Action::WriteNodeOverlayStatus(name, status) => {
                let result = cluster.write_node_overlay_status(name, status).await;
                self.logged("write the NodeOverlay's status", result)
            }
            Action::WriteNodePoolStatus(name, status) => {
                let result = cluster.write_node_pool_status(name, status).await;
                self.logged("write the NodePool's status", result)
            }
            Action::WriteCapacityBufferStatus(namespace, name, status) => {
                let result = cluster.write_capacity_buffer_status(namespace, name, status).await;
                self.logged("write the CapacityBuffer's status", result)
            }
            Action::WriteProvisioningRequestStatus(namespace, name, status) => {
                let result = cluster.write_provisioning_request_status(namespace, name, status).await;
                self.logged("write the ProvisioningRequest's status", result)
            }
            Action::PutRecord(kind, record) => self.put_record(*kind, record).await,
            Action::UpdateClaim(claim) => version(claims.update(claim, None).await),
            Action::RetireClaim(claim) => self.retire(claim).await,
            Action::ChangeClaim(claim) => self.change(claim).await,
            Action::CreateGroup(group, limits) => self.create_group(group, limits).await,
            Action::StartClaim(claim, charge, limits) => self.start(claim, charge, limits).await,
            Action::CreateReplacement(claim, limits) => self.create_replacement(claim, limits).await,
            Action::PutCommand(record) => self.put_command(record).await,
            Action::DeleteCommand(id, version) => self.delete_command(id, *version).await,
            Action::ReadWork => Written::Work(self.work()),
            Action::ReadChurn => match claims.records(RecordKind::Churn).await {
                Ok(stored) => Written::Churn(stored),
                Err(error) => Written::Failed(error.to_string()),
            },
            Action::ReadCosts => self.read_costs().await,
            Action::PutCosts(open, hours) => self.put_costs(open, hours).await,
            Action::NoteCosts(through) => {
                self.planner.note_costs(*through);
                Written::Done
            }
            Action::PutNotYetEvaluated(nodes, until) => self.put_not_yet_evaluated(nodes, *until).await,
            Action::Record(decision) => {
                let result = claims.record_decisions(std::slice::from_ref(decision), settings.keep_decisions).await;
                self.minor("record a decision", result)
            }
            Action::WakeClaims(names) => self.wake_claims(names).await,
            Action::WakePlanner => self.minor("wake the planner", queue.wake_planner(WakeSource::Planner).await),
            Action::Log(line) => {
                self.log(line);
                Written::Done
            }
        }
    }

    async fn put_record(&self, kind: RecordKind, record: &StoredRecord) -> Written {
        let result = self.planner.claims.put_record(kind, record).await;
        if kind == RecordKind::WaitingPods {
            // If another process wrote first, or the outcome is unknown, the next plan reads the record again.
            let written = |version: &u64| StoredRecord { version: *version, ..record.clone() };
            self.planner.remember_waiting_pods(result.as_ref().ok().map(written));
        }
        version(result)
    }

    async fn put_not_yet_evaluated(&self, nodes: &BTreeSet<String>, until: Timestamp) -> Written {
        let result = self.planner.claims.put_not_yet_evaluated(nodes, until).await;
        // If the outcome of the write is unknown, the next plan reads the record again.
        self.planner.remember_not_yet_evaluated(result.is_ok().then(|| nodes.clone()));
        done(result)
    }

    async fn put_costs(&self, open: &StoredCosts, hours: &[StoredHour]) -> Written {
        let result = self.planner.claims.put_costs(open, hours).await;
        if let Err(error) = &result {
            self.planner.context.log(&Failed { what: RECORD_COSTS, why: &error.to_string() });
        }
        version(result)
    }

    async fn wake_claims(&self, names: &[String]) -> Written {
        let Planner { claims, queue, context, .. } = self.planner;
        let messages: Vec<(String, Duration)> = names.iter().map(|name| (name.clone(), Duration::ZERO)).collect();
        // The sweep finds them within a minute.
        let result = shards::enqueue(claims, queue.as_ref(), context.now(), &messages).await;
        self.minor("have claims reconciled", result)
    }

    async fn start(&self, claim: &NodeClaim, charge: &Charge, limits: &LaunchLimits) -> Written {
        let committed = self.commit(Commit::Start(claim, charge, limits)).await;
        match decided(committed, claim.version) {
            Written::Version(_) => there(Leaving { claim: claim.clone(), charge: Some(charge.clone()) }),
            refused => refused,
        }
    }

    async fn read_costs(&self) -> Written {
        match &self.snapshot.costs {
            Some(read) => costs_of(read),
            None => costs_of(&self.planner.recorded_costs(self.snapshot.now).await),
        }
    }

    /// A write that nothing depends on.
    fn minor(&self, what: &str, result: Result<(), PortError>) -> Written {
        self.logged(what, result);
        Written::Done
    }

    /// A write whose failure is logged.
    fn logged(&self, what: &str, result: Result<(), PortError>) -> Written {
        if let Err(error) = &result {
            self.planner.context.log(&Failed { what, why: &error.to_string() });
        }
        done(result)
    }

    /// Writes a decision, unless another plan has decided something.
    async fn commit(&self, commit: Commit<'_>) -> Result<Committed, PortError> {
        let Some(revision) = self.revision.current() else { return Ok(Committed::Overtaken) };
        let committed = self.planner.claims.commit(commit, revision).await?;
        match committed {
            Committed::Written | Committed::AlreadyThere => *self.revision.lock() = Some(revision + 1),
            Committed::Overtaken => {
                *self.revision.lock() = None;
                self.planner.context.log(&Failed { what: DECIDE, why: OVERTAKEN });
                let woken = self.planner.queue.wake_planner(WakeSource::Planner).await;
                self.logged("wake the planner", woken);
            }
            Committed::LimitReached { .. } | Committed::ClusterLimitReached { .. } => {}
        }
        Ok(committed)
    }

    /// Writes terminating claims of one NodePool, in one transaction unless another process wrote one of them.
    async fn retire_together(&self, claims: &[&NodeClaim]) -> Vec<Written> {
        let leaving: Vec<Leaving> = claims.iter().map(|claim| leaving::charged(claim)).collect();
        if claims.len() > 1 && matches!(self.commit(Commit::Leave(&leaving)).await, Ok(Committed::Written)) {
            return leaving.into_iter().map(there).collect();
        }
        let mut written = Vec::with_capacity(claims.len());
        for claim in claims {
            written.push(self.retire(claim).await);
        }
        written
    }

    async fn retire(&self, claim: &NodeClaim) -> Written {
        let mut leaving = leaving::charged(claim);
        let mut committed = self.commit(Commit::Leave(std::slice::from_ref(&leaving))).await;
        if leaving.charge.is_some() && committed.as_ref().is_err_and(leaving::is_busy) {
            leaving.charge = None;
            committed = self.commit(Commit::Leave(std::slice::from_ref(&leaving))).await;
        }
        match decided(committed, claim.version) {
            Written::Version(_) => there(leaving),
            refused => refused,
        }
    }

    async fn change(&self, claim: &NodeClaim) -> Written {
        let claims = &self.planner.claims;
        match claims.update(claim, None).await {
            Err(error) if error.kind == ErrorKind::Conflict => match claims.get(&claim.name).await {
                Ok(present) => Written::Changed(present.map(Box::new)),
                Err(error) => Written::Failed(error.to_string()),
            },
            other => version(other),
        }
    }

    /// Writes the claims of a group in one transaction, because the number of instances of a group is fixed.
    async fn create_group(&self, group: &[NodeClaim], limits: &LaunchLimits) -> Written {
        match self.commit(Commit::Launch(group, limits)).await {
            Ok(Committed::Written | Committed::AlreadyThere) => Written::Done,
            Ok(Committed::LimitReached { resource }) => {
                Written::Refused(format!("the NodePool's limit of {resource} would be exceeded"))
            }
            Ok(Committed::ClusterLimitReached { resource }) => Written::Refused(cluster_limit(&resource)),
            Ok(Committed::Overtaken) => Written::Conflict(OVERTAKEN.to_owned()),
            // The transaction may have succeeded anyway. The claims are then launched.
            Err(error) => Written::Failed(error.to_string()),
        }
    }

    async fn create_replacement(&self, claim: &NodeClaim, limits: &LaunchLimits) -> Written {
        let claims = &self.planner.claims;
        match self.commit(Commit::Launch(std::slice::from_ref(claim), limits)).await {
            Ok(Committed::Written) => Written::There(Box::new(NodeClaim { version: 1, ..claim.clone() })),
            Ok(Committed::AlreadyThere) => match claims.get(&claim.name).await {
                Ok(Some(present)) => Written::There(Box::new(present)),
                Ok(None) => Written::Refused(format!("its replacement, NodeClaim {}, was deleted", claim.name)),
                Err(error) => Written::Failed(error.to_string()),
            },
            Ok(Committed::ClusterLimitReached { resource }) => {
                Written::Refused(format!("its replacement is not launched: {}", cluster_limit(&resource)))
            }
            Ok(Committed::Overtaken) => Written::Conflict(OVERTAKEN.to_owned()),
            Ok(Committed::LimitReached { resource }) => {
                let pool = claim.node_pool.as_deref().unwrap_or_default();
                Written::Refused(format!("its replacement would exceed the limit of {resource} of NodePool {pool}"))
            }
            Err(error) if error.kind == ErrorKind::Conflict => {
                Written::Refused(format!("the name of its replacement, {}, is taken", claim.name))
            }
            Err(error) => Written::Failed(error.to_string()),
        }
    }

    async fn put_command(&self, record: &CommandRecord) -> Written {
        match encode(record) {
            Ok(stored) => decided(self.commit(Commit::Command(&stored)).await, stored.version),
            Err(error) => Written::Failed(error.to_string()),
        }
    }

    async fn delete_command(&self, id: &str, version: u64) -> Written {
        let stored = StoredCommand { id: id.to_owned(), version, summary: String::new(), encoded: Vec::new() };
        done(self.planner.claims.delete_command(&stored).await)
    }
}

pub(super) fn costs_of(read: &Result<RecordedCosts, Unread>) -> Written {
    match read {
        Ok(costs) => Written::Costs(Box::new(costs.clone())),
        Err(why) => Written::Failed(why.to_string()),
    }
}

/// The failed operation in the log line, if the costs of nodes are not recorded.
const RECORD_COSTS: &str = "record what nodes cost";

fn done(result: Result<(), PortError>) -> Written {
    result.map_or_else(|error| refused(&error), |()| Written::Done)
}

fn version(result: Result<u64, PortError>) -> Written {
    result.map_or_else(|error| refused(&error), Written::Version)
}

/// The result of a decision about a claim or command with this version.
fn decided(result: Result<Committed, PortError>, version: u64) -> Written {
    match result {
        Ok(Committed::Written | Committed::AlreadyThere) => Written::Version(version + 1),
        Ok(Committed::LimitReached { resource }) => {
            Written::Refused(format!("the NodePool's limit of {resource} would be exceeded"))
        }
        Ok(Committed::ClusterLimitReached { resource }) => Written::Refused(cluster_limit(&resource)),
        Ok(Committed::Overtaken) => Written::Conflict(OVERTAKEN.to_owned()),
        Err(error) => refused(&error),
    }
}

fn cluster_limit(resource: &str) -> String {
    format!("the cluster's limit of {resource}, annotation {}, would be exceeded", annotation_of(resource))
}

fn refused(error: &PortError) -> Written {
    match error.kind {
        ErrorKind::Conflict => Written::Conflict(error.to_string()),
        _ => Written::Failed(error.to_string()),
    }
}
