//! What to launch for pods that wait, and which nodes to remove.
//!
//! A plan is made from a [`Snapshot`] alone: stages (`stages`), each pure, say what is to be done as [`Action`]s, and what came
//! of them ([`Written`]) is an input of what follows. `pipeline` puts the stages together, `read` reads the snapshot, `execute`
//! carries out, and nothing else here touches a port.

mod action;
mod assume;
mod beyond_limits;
mod budgets;
mod buffers;
mod churn;
mod commands;
mod conditions;
mod disrupt;
mod dry_disruption;
mod dry_run;
mod execute;
mod facts;
mod hashes;
mod launches;
mod no_types;
mod overlays;
mod pipeline;
mod pools;
mod read;
mod recent;
mod record;
mod registrations;
mod report;
mod saved;
mod situation;
mod snapshot;
mod stages;
mod told;
mod unfinished;
mod upkeep;

use crate::context::Context;
use crate::gates::FeatureGates;
use crate::lines::{Failed, PlanMade};
use crate::node_class;
use crate::offers::{CatalogCache, CatalogError, OfferCache};
use execute::{Live, Recorded};
use futures::future::{self, Either};
use jiff::Timestamp;
use nodeless_model::object::ObjectEvent;
use nodeless_ports::claims::MAX_TOGETHER;
use nodeless_ports::queue::WakeSource;
use nodeless_ports::{Cluster, PortError, Queue, State};
use nodeless_telemetry::{Metric, Metrics};
use recent::Recent;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::pin::pin;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

pub use action::{Action, Batch, PlanLine, Stage, Written};
pub use churn::PoolChurn;
pub use commands::{Commands, DecodeCommandError, decode as decode_command, encode as encode_command};
pub use dry_disruption::Disruption;
pub use dry_run::{DryRun, DryRunInput};
pub use execute::Answers;
pub use read::ANSWERS;
pub use record::{UnpackError, unpacked};
pub use report::{Outcome, PlanReport};
pub use saved::{Replay, SavedError};
pub use snapshot::{Snapshot, WorkBudget};

/// How plans are made.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PlanSettings {
    /// How long no further pod may become pending before a plan is made.
    pub batch_idle: Duration,
    /// How long a plan waits for further pods at most.
    pub batch_max: Duration,
    /// The greatest number of claims in one launch group; at most [`MAX_TOGETHER`], since they are written together.
    pub group_size: u32,
    /// For how long it is remembered why something was decided.
    pub keep_decisions: Duration,
    /// How pods are scheduled.
    pub scheduling: nodeless_scheduling::Options,
    /// What is switched on.
    pub gates: FeatureGates,
    /// Whether zonal shifts are heeded.
    pub zonal_shift: bool,
    /// From how many pods that wait and nodes on a plan is written down when it begins and when it ends, so that one that never
    /// ended is known to the next.
    pub remembered_from: usize,
    /// For how long the table keeps what each plan was made from; `None` where nobody asks for it.
    pub keep_snapshots: Option<Duration>,
}

impl Default for PlanSettings {
    /// Karpenter's batching window, and a week of decisions.
    fn default() -> Self {
        Self {
            batch_idle: Duration::from_secs(1),
            batch_max: Duration::from_secs(10),
            group_size: u32::try_from(MAX_TOGETHER).unwrap_or(u32::MAX),
            keep_decisions: Duration::from_hours(7 * 24),
            scheduling: nodeless_scheduling::Options::default(),
            gates: FeatureGates::default(),
            zonal_shift: false,
            remembered_from: 200,
            keep_snapshots: None,
        }
    }
}

/// How often the planner is woken anyway.
const HEARTBEAT: Duration = Duration::from_mins(1);
/// After how long a plan that could not be made is asked for again, the first time.
const AGAIN: Duration = Duration::from_secs(2);
/// What is kept back of a function's time to say that the plan did not end.
const KEPT_FOR_THE_ANSWER: Duration = Duration::from_secs(2);

/// Makes plans. The plan queue sees to it that one works for a cluster at a time; where two do all the same, only one of them
/// decides anything ([`Plans::commit`](nodeless_ports::Plans::commit)).
pub struct Planner {
    /// Time and logs.
    pub context: Context,
    /// The claims table.
    pub claims: Arc<dyn State>,
    /// The queues.
    pub queue: Arc<dyn Queue>,
    /// The cluster.
    pub cluster: Arc<dyn Cluster>,
    /// The catalog, kept between plans.
    pub catalog: CatalogCache,
    /// How plans are made.
    pub settings: PlanSettings,
    /// What there is to launch from, kept between plans.
    offers: OfferCache,
    /// What was published lately. Losing it does no harm.
    told: Mutex<Recent>,
    /// The nodes that the last decision had no time for, as the table has them; `None` while that was not read.
    not_yet_evaluated: Mutex<Option<BTreeSet<String>>>,
    /// How many plans in a row could not be made.
    failures: AtomicU32,
    /// When the plan comes that was asked for last. Each plan of a chain asks for the next, so without this every heartbeat would
    /// begin another chain. Losing it begins one, which ends as soon as the plans of another come first.
    awaited: Mutex<Option<Timestamp>>,
}

/// No plan could be made, and nothing was done.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// Claims or cluster could not be read.
    #[error("no plan was made: {0}")]
    Port(#[from] PortError),
    /// There is no catalog to plan with.
    #[error("no plan was made: {0}")]
    Catalog(#[from] CatalogError),
    /// The process is about to be ended.
    #[error(
        "the plan did not end before the function's timeout: the API server, DynamoDB or EC2 answers slowly, or the planner \
         needs more memory or time (functions.planner in Terraform)"
    )]
    Late,
}

impl Planner {
    /// A planner that remembers nothing yet.
    pub fn new(
        context: Context,
        claims: Arc<dyn State>,
        queue: Arc<dyn Queue>,
        cluster: Arc<dyn Cluster>,
        settings: PlanSettings,
    ) -> Self {
        let (catalog, offers, told) = (CatalogCache::default(), OfferCache::default(), Mutex::default());
        let (not_yet_evaluated, awaited, failures) = (Mutex::default(), Mutex::default(), AtomicU32::default());
        Self { context, claims, queue, cluster, catalog, settings, offers, told, not_yet_evaluated, failures, awaited }
    }

    /// Waits until pods have stopped becoming pending, then plans once.
    ///
    /// # Errors
    /// When claims, catalog or cluster cannot be read: nothing was done then.
    pub async fn run(&self) -> Result<PlanReport, PlanError> {
        self.run_until(None, &[]).await
    }

    /// The same in a process that is ended at this time: the less is left of it, the less optional work is begun. `woken` is who
    /// asked for the plan, for metrics.
    ///
    /// Where no plan could be made, the next is asked for after a few seconds, and after twice as long each time, until the
    /// heartbeat comes as soon: whoever called has nothing to repeat.
    ///
    /// # Errors
    /// The same; and when the plan has not ended shortly before that time.
    pub async fn run_until(&self, deadline: Option<Timestamp>, woken: &[WakeSource]) -> Result<PlanReport, PlanError> {
        let mut metrics = Metrics::new();
        let result = {
            let plan = pin!(self.plan(deadline, &mut metrics));
            match future::select(plan, pin!(self.late(deadline, KEPT_FOR_THE_ANSWER))).await {
                Either::Left((result, _)) => result,
                Either::Right(_) => Err(PlanError::Late),
            }
        };
        match &result {
            Ok(report) => {
                self.failures.store(0, Ordering::Relaxed);
                let calls = woken.iter().filter(|source| **source == WakeSource::Webhook).count();
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

    /// Ends so long before the process is ended; never where nothing ends it.
    async fn late(&self, deadline: Option<Timestamp>, kept: Duration) {
        match deadline {
            None => future::pending().await,
            Some(deadline) => {
                let left = Duration::try_from(deadline.duration_since(self.context.now())).unwrap_or_default();
                self.context.clock.sleep(left.saturating_sub(kept)).await;
            }
        }
    }

    /// Asks for another plan after one that could not be made. Nothing depends on it: the heartbeat asks, too.
    async fn plan_again(&self) {
        let before = self.failures.fetch_add(1, Ordering::Relaxed);
        let delay = AGAIN.saturating_mul(1 << before.min(16));
        if delay < HEARTBEAT
            && let Err(error) = self.queue.wake_planner_after(delay).await
        {
            self.context.log(&Failed { what: "ask for the next plan", why: &error.to_string() });
        }
    }

    async fn plan(&self, deadline: Option<Timestamp>, metrics: &mut Metrics) -> Result<PlanReport, PlanError> {
        self.cluster.wait_for_batch(self.settings.batch_idle, self.settings.batch_max).await?;
        let (snapshot, revision) = self.read(deadline).await?;
        self.resolve_node_classes(&snapshot).await;
        self.keep(&snapshot).await;
        let live = Live { planner: self, snapshot: &snapshot, deadline, revision };
        let outcome = match self.settings.keep_snapshots {
            None => pipeline::run(&snapshot, &self.offers, &live).await,
            Some(_) => self.made_on_record(&snapshot, &live).await.outcome,
        };
        self.conclude(&snapshot, &outcome, metrics).await;
        Ok(outcome.report)
    }

    /// Has EC2NodeClasses resolved that are new or changed. Nothing depends on it: the catalog's schedule comes, too.
    async fn resolve_node_classes(&self, snapshot: &Snapshot) {
        let changed = node_class::unresolved(&snapshot.view.node_classes);
        if !changed.is_empty()
            && let Err(error) = self.queue.resolve_node_classes(&changed).await
        {
            self.context.log(&Failed { what: "ask for the status of EC2NodeClasses", why: &error.to_string() });
        }
    }

    async fn made_on_record(&self, snapshot: &Snapshot, live: &Live<'_>) -> Replay {
        let recorded = Recorded::new(live);
        let outcome = pipeline::run(snapshot, &self.offers, &recorded).await;
        let (batches, answers) = recorded.kept();
        self.keep_answers(snapshot, &answers).await;
        Replay { outcome, batches }
    }

    /// Plans once, keeps what that was made from, and tells all that was done: for tests, which compare it with what is kept.
    ///
    /// # Errors
    /// As for [`run`](Self::run).
    pub async fn run_recorded(&self) -> Result<Replay, PlanError> {
        let (snapshot, revision) = self.read(None).await?;
        self.keep(&snapshot).await;
        let live = Live { planner: self, snapshot: &snapshot, deadline: None, revision };
        let replay = self.made_on_record(&snapshot, &live).await;
        self.conclude(&snapshot, &replay.outcome, &mut Metrics::new()).await;
        Ok(replay)
    }

    /// Says what came of a plan.
    async fn conclude(&self, snapshot: &Snapshot, outcome: &Outcome, metrics: &mut Metrics) {
        self.publish(outcome.events.clone(), snapshot.now).await;
        self.plan_later(&outcome.report).await;
        if outcome.stopped > 0 {
            metrics.count(Metric::ChurnStopped, outcome.stopped);
        }
        if outcome.reduced {
            metrics.count(Metric::PlansUnfinished, 1);
        }
        self.finish(snapshot.now, &outcome.report, metrics);
    }

    /// The nodes that the last decision had no time for, if that is known.
    fn known_not_yet_evaluated(&self) -> Option<BTreeSet<String>> {
        self.not_yet_evaluated.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Remembers what the table says of them; nothing where that is not known.
    fn remember_not_yet_evaluated(&self, nodes: Option<BTreeSet<String>>) {
        *self.not_yet_evaluated.lock().unwrap_or_else(PoisonError::into_inner) = nodes;
    }

    /// Publishes what was not published a short while ago. Nothing depends on events.
    async fn publish(&self, events: Vec<ObjectEvent>, now: Timestamp) {
        let fresh = self.told.lock().unwrap_or_else(PoisonError::into_inner).fresh(events, now);
        if !fresh.is_empty()
            && let Err(error) = crate::events::publish(self.cluster.as_ref(), &fresh).await
        {
            self.context.log(&Failed { what: "publish events", why: &error.to_string() });
        }
    }

    fn finish(&self, started: Timestamp, report: &PlanReport, metrics: &mut Metrics) {
        let took = Duration::try_from(self.context.now().duration_since(started)).unwrap_or(Duration::ZERO);
        metrics.count(Metric::PlansMade, 1);
        metrics.record(Metric::PlanDurationMilliseconds, took.as_secs_f64() * 1000.0);
        metrics.count(Metric::PendingPods, report.pods);
        metrics.count(Metric::UnschedulablePods, report.unschedulable.len());
        metrics.count(Metric::ClaimsCreated, report.created.len());
        self.context.log(&PlanMade {
            pods: report.pods,
            placed: report.placed,
            claims: &report.created,
            unschedulable: report.unschedulable.len(),
            leaving: &report.leaving,
            milliseconds: u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
        });
    }

    /// Asks for the plan that will have something to do even if nothing happens meanwhile, unless the heartbeat or one that was
    /// asked for already comes first.
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
            Err(error) => self.context.log(&Failed { what: "ask for the next plan", why: &error.to_string() }),
        }
    }
}
