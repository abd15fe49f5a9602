//! Decides what to launch for pending pods, and which nodes to remove.
//!
//! A plan is made from a [`Snapshot`] and from the results ([`Written`]) of its own [`Action`]s: stages (`stages`) request these
//! from `execute`, which executes them over the ports, or replays their results. `pipeline` lists the stages, `read` reads the
//! snapshot, and nothing else here uses a port.
//!
//! What is planned has these types on its way:
//!
//! | type | made by | adds |
//! |---|---|---|
//! | `ClusterView` | the `Cluster` port | the objects of the cluster, decoded once |
//! | [`Snapshot`] | `read` | the time, claims, commands, the catalog, records of earlier plans, settings |
//! | `Facts` | `pipeline` | the NodePools with what they offer; claims and commands after the stages before |
//! | `ClusterState` | `provisioning::cluster_state` | which claim belongs to which Node |
//! | `PodStanding` | `provisioning::place` | what is done with a pod that waits for a node, or why nothing |
//! | `nodeless_scheduling::Problem` | `ClusterState` | the same as indexes, for the scheduler |
//! | `nodeless_scheduling::Solution` | `nodeless_placement::plan` | launches, placements, and why pods have neither |
//! | `nodeless_disruption::Cluster` | `nodes::voluntary_disruption` | the Nodes that may be disrupted, with the pods as planned |
//! | [`Action`] | stages | what is written, and [`Written`] what came of it |
//!
//! | folder | has |
//! |---|---|
//! | `snapshot` | the input of a plan |
//! | `pools` | NodePools: their offers, conditions and hashes, overlays |
//! | `pods` | pods without a node |
//! | `nodes` | the nodes with their pods, and whether voluntary disruption may take them |
//! | `launches` | claims of planned nodes, within the limits |
//! | `claims` | changes of existing claims |
//! | `churn` | what earlier disruption did to a NodePool, and the launches that it led to |
//! | `stages` | the stages |
//! | `records` | decisions, reports, and plans that have begun |
//! | `execute` | the execution of actions, and their recording without an effect |
//! | `dry_run` | the plan of `nodeless plan` |
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod action;
mod buffers;
mod churn;
mod claims;
mod dry_run;
mod execute;
mod facts;
mod launches;
mod nodes;
mod pipeline;
mod pods;
mod pools;
mod read;
mod recent;
mod records;
mod repeated;
mod requests;
mod saved;
mod settings;
mod snapshot;
mod stages;
mod standing;
mod wait;

use execute::without_effects::Recorded;
use execute::{Live, ViewProof};
use futures::future::{self, Either};
use jiff::Timestamp;
use nodeless_model::object::ObjectEvent;
use nodeless_operations::log_lines::{Failed, PlanDelayed, PlanMade};
use nodeless_operations::node_class;
use nodeless_operations::offers::{CatalogCache, CatalogError, OfferCache};
use nodeless_ports::queue::WakeSource;
use nodeless_ports::{Cluster, PortError, Queue};
use nodeless_state::{State, StoredRecord};
use nodeless_telemetry::Context;
use nodeless_telemetry::{Metric, Metrics};
use recent::Recent;
use repeated::LastPlan;
use std::collections::BTreeSet;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

pub use action::{Action, Batch, PlanLine, Stage, Written};
pub use churn::PoolChurn;
pub use dry_run::current::{CurrentCluster, CurrentNode};
pub use dry_run::disruption::Disruption;
pub use dry_run::{DryRun, DryRunInput};
pub use execute::without_effects::Answers;
pub use read::ANSWERS;
pub use records::decisions::{UnpackError, unpacked};
pub use records::report::{Outcome, PlanReport};
pub use saved::{Replay, SavedError};
pub use settings::{Mechanism, PlanSettings};
pub use snapshot::command_records::{Commands, DecodeCommandError, decode as decode_command, encode as encode_command};
pub use snapshot::{RecordedCosts, Snapshot, WorkBudget};
use wait::Waited;

/// The interval of the heartbeat.
const HEARTBEAT: Duration = Duration::from_mins(1);
/// The delay before a failed plan is retried for the first time.
const AGAIN: Duration = Duration::from_secs(2);
/// The part of a function's time that is reserved to report that the plan did not finish.
const KEPT_FOR_THE_ANSWER: Duration = Duration::from_secs(2);

/// Makes plans. The plan queue ensures that one planner runs for a cluster at a time. If two run anyway, only one of them decides
/// anything ([`State::commit`](nodeless_state::State::commit)).
pub struct Planner {
    /// Time and logs.
    pub context: Context,
    /// The claims table.
    pub claims: State,
    /// The queues.
    pub queue: Arc<dyn Queue>,
    /// The cluster.
    pub cluster: Arc<dyn Cluster>,
    /// The catalog, cached between plans.
    pub catalog: CatalogCache,
    /// How plans are made.
    pub settings: PlanSettings,
    /// The instance types to launch, cached between plans.
    offers: OfferCache,
    /// The recently published events. Losing them is harmless: those that may be many are in the table.
    recent: Mutex<Recent>,
    /// The nodes that the last decision did not evaluate, as in the table; `None` until read.
    not_yet_evaluated: Mutex<Option<BTreeSet<String>>>,
    /// The pods that wait although plans place them, as in the table; `None` until read.
    waiting_pods: Mutex<Option<StoredRecord>>,
    /// Whether the workloads that are about to create pods could be read the last time.
    reads_pod_controllers: AtomicBool,
    /// The time until which the costs of nodes are recorded; `None` if unknown.
    costs_through: Mutex<Option<Timestamp>>,
    /// The last plan of this process.
    last: LastPlan,
    /// The last request for a plan at once that this process has seen.
    answered: Mutex<Option<Timestamp>>,
    /// The number of consecutive failed plans.
    failures: AtomicU32,
    /// When the plan that was requested last runs. Each plan of a chain requests the next, so without this time every heartbeat
    /// would start another chain. A process without it starts one, which ends when the plans of another chain run first.
    awaited: Mutex<Option<Timestamp>>,
}

/// No plan was made, and nothing was done.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// Claims or cluster could not be read, or another deployment serves the cluster.
    #[error("no plan was made: {0}")]
    Port(#[from] PortError),
    /// There is no catalog to plan with.
    #[error("no plan was made: {0}")]
    Catalog(#[from] CatalogError),
    /// So many NodeClaims have no record yet, or an old one.
    #[error(
        "no plan was made: the records of {0} NodeClaims with instances are missing, or older than their nodes, such as after a move to \
         another table; the next sweep, within a minute, writes them"
    )]
    Unadopted(usize),
    /// The process is about to be ended.
    #[error(
        "the plan did not end before the function's timeout: the API server, DynamoDB or EC2 answers slowly, or the planner \
         needs more memory or time (functions.planner in Terraform)"
    )]
    Late,
}

impl Planner {
    /// A planner with empty caches.
    pub fn new(
        context: Context,
        claims: State,
        queue: Arc<dyn Queue>,
        cluster: Arc<dyn Cluster>,
        settings: PlanSettings,
    ) -> Self {
        let (catalog, offers, recent) = (CatalogCache::default(), OfferCache::default(), Mutex::default());
        let (not_yet_evaluated, awaited, failures) = (Mutex::default(), Mutex::default(), AtomicU32::default());
        let (waiting_pods, costs_through) = (Mutex::default(), Mutex::default());
        Self {
            context,
            claims,
            queue,
            cluster,
            catalog,
            settings,
            offers,
            recent,
            not_yet_evaluated,
            waiting_pods,
            reads_pod_controllers: AtomicBool::default(),
            costs_through,
            last: LastPlan::default(),
            answered: Mutex::default(),
            failures,
            awaited,
        }
    }

    /// Waits for the end of the batch window, then plans once, as the heartbeat requests it.
    ///
    /// # Errors
    /// If claims, catalog or cluster cannot be read. Nothing was done then.
    pub async fn run(&self) -> Result<PlanReport, PlanError> {
        self.run_until(None, &[]).await
    }

    /// Like [`run`](Self::run), in a process that ends at `deadline`: the less time is left, the less optional work is started.
    /// `woken` are the sources of the wake-up, which decide the minimum of the batch window, and are counted in metrics.
    ///
    /// If the plan fails, the next one is requested after a few seconds, and after twice as long each time, until the delay
    /// reaches the heartbeat interval. The caller does not retry.
    ///
    /// # Errors
    /// As for [`run`](Self::run), and if the plan did not finish shortly before the deadline.
    pub async fn run_until(&self, deadline: Option<Timestamp>, woken: &[WakeSource]) -> Result<PlanReport, PlanError> {
        let mut metrics = Metrics::new();
        let result = {
            let plan = pin!(self.plan(deadline, woken, &mut metrics));
            match future::select(plan, pin!(self.late(deadline, KEPT_FOR_THE_ANSWER))).await {
                Either::Left((result, _)) => result,
                Either::Right(_) => Err(PlanError::Late),
            }
        };
        match &result {
            Ok(report) => {
                self.failures.store(0, Ordering::Relaxed);
                let is_call = |source: &&WakeSource| matches!(source, WakeSource::Webhook | WakeSource::Object);
                let calls = woken.iter().filter(is_call).count();
                if calls > 0 || report.pods > 0 {
                    metrics.count(Metric::WebhookCalls, calls);
                }
            }
            Err(_) => {
                metrics.count(Metric::ReconcileErrors, 1);
                // SQS may be what does not answer.
                let late = pin!(self.late(deadline, KEPT_FOR_THE_ANSWER / 2));
                let _first = future::select(pin!(self.plan_again()), late).await;
            }
        }
        self.context.flush(&metrics);
        result
    }

    /// Completes this long before the process ends, or never if it has no deadline.
    async fn late(&self, deadline: Option<Timestamp>, kept: Duration) {
        match deadline {
            None => future::pending().await,
            Some(deadline) => self.context.clock.sleep(self.left(deadline).saturating_sub(kept)).await,
        }
    }

    /// Requests another plan after a failed one. Nothing depends on it, because the heartbeat requests one too.
    async fn plan_again(&self) {
        let before = self.failures.fetch_add(1, Ordering::Relaxed);
        let delay = AGAIN.saturating_mul(1 << before.min(16));
        if delay < HEARTBEAT
            && let Err(error) = self.queue.wake_planner_after(delay).await
        {
            self.context.log(&Failed { what: "request the next plan", why: &error.to_string() });
        }
    }

    /// The time until the process ends.
    fn left(&self, deadline: Timestamp) -> Duration {
        Duration::try_from(deadline.duration_since(self.context.now())).unwrap_or_default()
    }

    async fn plan(
        &self,
        deadline: Option<Timestamp>,
        woken: &[WakeSource],
        metrics: &mut Metrics,
    ) -> Result<PlanReport, PlanError> {
        let waited = self.wait(deadline, woken).await?;
        if let Waited::Window(pending) = &waited {
            if self.last.has_seen(woken, pending) {
                metrics.count(Metric::PlansWithoutNewPods, 1);
            }
            if let Some(report) = self.delayed(woken, pending).await {
                return Ok(report);
            }
        }
        let (mut snapshot, revision) = self.read(deadline).await?;
        let leaves_pods = waited == Waited::AtOnce && self.leave_burst(&mut snapshot);
        self.resolve_node_classes(&snapshot).await;
        self.keep(&snapshot).await;
        let live = Live { planner: self, snapshot: &snapshot, deadline, revision, proof: ViewProof::default() };
        let outcome = match self.settings.keep_snapshots {
            None => pipeline::run(&snapshot, &self.offers, &live).await,
            Some(_) => self.made_on_record(&snapshot, &live).await.outcome,
        };
        self.conclude(&snapshot, &outcome, woken, metrics).await;
        if leaves_pods && let Err(error) = self.queue.wake_planner(WakeSource::Planner).await {
            self.context.log(&Failed { what: "request the plan for the other pods", why: &error.to_string() });
        }
        Ok(outcome.report)
    }

    /// Requests a later plan if these wake-ups need none now, and reports that.
    async fn delayed(&self, woken: &[WakeSource], pending: &BTreeSet<String>) -> Option<PlanReport> {
        let wait = self.last.wait(woken, pending, self.context.now());
        let wait = wait.filter(|_| self.settings.without != Some(Mechanism::RepeatedPlans))?;
        let pods = pending.len();
        let why = "only pods that the last plan has seen are reported";
        self.context.log(&PlanDelayed { pods, seconds: wait.as_secs_f64(), why });
        let report = PlanReport { pods, next: Some(wait), repeated: true, ..PlanReport::default() };
        self.plan_later(&report).await;
        Some(report)
    }

    /// Requests the resolution of EC2NodeClasses that are new or changed, or have ended instances. Nothing depends on it, because the
    /// catalog's schedule resolves them too.
    async fn resolve_node_classes(&self, snapshot: &Snapshot) {
        let changed = node_class::to_resolve(&snapshot.view, &snapshot.claims, &snapshot.catalog);
        if !changed.is_empty()
            && let Err(error) = self.queue.resolve_node_classes(&changed).await
        {
            self.context.log(&Failed { what: "request the resolution of EC2NodeClasses", why: &error.to_string() });
        }
    }

    async fn made_on_record(&self, snapshot: &Snapshot, live: &Live<'_>) -> Replay {
        let recorded = Recorded::new(live);
        let outcome = pipeline::run(snapshot, &self.offers, &recorded).await;
        let (batches, answers) = recorded.kept();
        self.keep_answers(snapshot, &answers).await;
        Replay { outcome, batches }
    }

    /// Plans once, records the snapshot, and returns the executed actions: for tests, which compare them with a replay.
    ///
    /// # Errors
    /// As for [`run`](Self::run).
    pub async fn run_recorded(&self) -> Result<Replay, PlanError> {
        let (snapshot, revision) = self.read(None).await?;
        self.keep(&snapshot).await;
        let live = Live { planner: self, snapshot: &snapshot, deadline: None, revision, proof: ViewProof::default() };
        let replay = self.made_on_record(&snapshot, &live).await;
        self.conclude(&snapshot, &replay.outcome, &[], &mut Metrics::new()).await;
        Ok(replay)
    }

    /// Reports the outcome of a plan.
    async fn conclude(&self, snapshot: &Snapshot, outcome: &Outcome, woken: &[WakeSource], metrics: &mut Metrics) {
        self.publish(outcome.events.clone(), snapshot.now).await;
        self.last.note(woken, snapshot.view.pods(), &outcome.report, snapshot.now);
        self.plan_later(&outcome.report).await;
        let counts = [
            (Metric::ChurnStopped, outcome.stopped),
            (Metric::AmiCanariesFailed, outcome.failed_canaries),
            (Metric::UnusedLaunches, outcome.unused_launches),
            (Metric::ExpectedPodsCame, outcome.expected_pods_came),
            (Metric::ExpectedPodsMissing, outcome.expected_pods_missing),
            (Metric::BudgetsExceeded, outcome.over_budget),
            (Metric::PlansUnfinished, usize::from(outcome.reduced)),
        ];
        counts.into_iter().filter(|(_, count)| *count > 0).for_each(|(metric, count)| metrics.count(metric, count));
        if outcome.unused_node_seconds > 0.0 {
            metrics.record(Metric::ExpectedPodsUnusedNodeSeconds, outcome.unused_node_seconds);
        }
        if let Some(percent) = launches::cluster_limits::used_percent(snapshot) {
            metrics.record(Metric::ClusterLimitUsedPercent, percent);
        }
        self.finish(snapshot.now, &outcome.report, woken, metrics);
    }

    /// The nodes that the last decision did not evaluate, if known.
    fn known_not_yet_evaluated(&self) -> Option<BTreeSet<String>> {
        self.not_yet_evaluated.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Remembers those of the table; nothing if they are unknown.
    fn remember_not_yet_evaluated(&self, nodes: Option<BTreeSet<String>>) {
        *self.not_yet_evaluated.lock().unwrap_or_else(PoisonError::into_inner) = nodes;
    }

    /// The record of pods that wait, if known.
    fn known_waiting_pods(&self) -> Option<StoredRecord> {
        self.waiting_pods.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Remembers that of the table; nothing if it is unknown.
    fn remember_waiting_pods(&self, record: Option<StoredRecord>) {
        *self.waiting_pods.lock().unwrap_or_else(PoisonError::into_inner) = record;
    }

    /// Whether a plan at this time records the costs of nodes. Recorded costs are read only then.
    fn costs_due(&self, now: Timestamp) -> bool {
        let through = *self.costs_through.lock().unwrap_or_else(PoisonError::into_inner);
        through.is_none_or(|through| stages::costs::is_due(through, now))
    }

    /// Remembers until when costs are recorded.
    fn note_costs(&self, through: Timestamp) {
        *self.costs_through.lock().unwrap_or_else(PoisonError::into_inner) = Some(through);
    }

    /// Publishes events that were not published recently. Nothing depends on events.
    async fn publish(&self, events: Vec<ObjectEvent>, now: Timestamp) {
        if self.recent().needs_record(&events) {
            match self.claims.published_events().await {
                Ok(recorded) => self.recent().read(recorded),
                Err(error) => {
                    self.context.log(&Failed { what: "read which events are published", why: &error.to_string() });
                }
            }
        }
        let fresh = self.recent().fresh(events, now);
        if !fresh.is_empty()
            && let Err(error) = nodeless_operations::events::publish(self.cluster.as_ref(), &fresh).await
        {
            self.context.log(&Failed { what: "publish events", why: &error.to_string() });
        }
        let record = self.recent().take_record(now);
        if let Some((record, until)) = record
            && let Err(error) = self.claims.put_published_events(&record, until).await
        {
            self.context.log(&Failed { what: "record which events are published", why: &error.to_string() });
        }
    }

    fn recent(&self) -> MutexGuard<'_, Recent> {
        self.recent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn finish(&self, started: Timestamp, report: &PlanReport, woken: &[WakeSource], metrics: &mut Metrics) {
        let took = Duration::try_from(self.context.now().duration_since(started)).unwrap_or(Duration::ZERO);
        metrics.count(Metric::PendingPods, report.pods);
        if !report.unschedulable.is_empty() {
            metrics.count(Metric::UnschedulablePods, report.unschedulable.len());
        }
        metrics.count(Metric::ClaimsCreated, report.created.len());
        self.context.log(&PlanMade {
            pods: report.pods,
            placed: report.placed,
            claims: &report.created,
            unschedulable: report.unschedulable.len(),
            leaving: &report.leaving,
            woken,
            milliseconds: u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
        });
    }

    /// Requests the plan that has something to do even if nothing else happens, unless the heartbeat or an already requested plan
    /// comes first.
    async fn plan_later(&self, report: &PlanReport) {
        let Some(delay) = report.next.filter(|delay| *delay < HEARTBEAT) else { return };
        let now = self.context.now();
        let due = now.checked_add(delay).unwrap_or(Timestamp::MAX);
        let awaited = *self.awaited.lock().unwrap_or_else(PoisonError::into_inner);
        if awaited.is_some_and(|awaited| awaited > now && awaited <= due) {
            return;
        }
        match self.queue.wake_planner_after(delay).await {
            Ok(()) => *self.awaited.lock().unwrap_or_else(PoisonError::into_inner) = Some(due),
            Err(error) => self.context.log(&Failed { what: "request the next plan", why: &error.to_string() }),
        }
    }
}
