//! What to launch for pods that wait, and which nodes to remove.

mod commit;
mod disrupt;
mod dry_run;
mod pools;
mod situation;
mod upkeep;

use crate::context::Context;
use crate::lines::{Failed, ObjectSkipped, PlanMade};
use crate::names::Names;
use crate::offers::{CatalogCache, CatalogError};
use jiff::Timestamp;
use nodeless_disruption::Kept;
use nodeless_model::object::{ObjectEvent, ObjectRef};
use nodeless_ports::queue::WakeSource;
use nodeless_ports::{Claims, Cluster, PortError, Queue};
use nodeless_scheduling::solve;
use nodeless_telemetry::{Metric, Metrics};
use situation::Situation;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use upkeep::Recent;

pub use dry_run::DryRun;

/// How plans are made.
#[derive(Clone, Debug)]
pub struct PlanSettings {
    /// How long no further pod may become pending before a plan is made.
    pub batch_idle: Duration,
    /// How long a plan waits for further pods at most.
    pub batch_max: Duration,
    /// The greatest number of claims in one launch group.
    pub group_size: u32,
    /// For how long it is remembered why something was decided.
    pub keep_decisions: Duration,
    /// How pods are scheduled.
    pub scheduling: nodeless_scheduling::Options,
}

impl Default for PlanSettings {
    /// Karpenter's batching window, and a week of decisions.
    fn default() -> Self {
        Self {
            batch_idle: Duration::from_secs(1),
            batch_max: Duration::from_secs(10),
            group_size: 100,
            keep_decisions: Duration::from_hours(7 * 24),
            scheduling: nodeless_scheduling::Options::default(),
        }
    }
}

/// How often the planner is woken anyway.
const HEARTBEAT: Duration = Duration::from_mins(1);

/// Makes plans. Only one may work for a cluster at a time, which the plan queue sees to.
pub struct Planner {
    /// Time and logs.
    pub context: Context,
    /// The claims table.
    pub claims: Arc<dyn Claims>,
    /// The queues.
    pub queue: Arc<dyn Queue>,
    /// The cluster.
    pub cluster: Arc<dyn Cluster>,
    /// The catalog, kept between plans.
    pub catalog: CatalogCache,
    /// How plans are made.
    pub settings: PlanSettings,
    warm: Mutex<Warm>,
}

/// What a planner remembers from plan to plan, to say and write things once. Losing it does no harm.
#[derive(Default)]
struct Warm {
    told: Recent,
    pools: BTreeMap<String, nodeless_api::NodePoolStatus>,
}

/// What came of a plan.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PlanReport {
    /// How many pods waited for a node.
    pub pods: usize,
    /// How many of them fit on nodes that exist or are on their way.
    pub placed: usize,
    /// The claims that were written.
    pub created: Vec<String>,
    /// The pods that fit nowhere, `namespace/name`, and why.
    pub unschedulable: Vec<(String, String)>,
    /// The claims that begin to leave.
    pub leaving: Vec<String>,
    /// The claims that will begin to leave if a later plan still finds it right.
    pub proposed: Vec<String>,
    /// Why every other node of ours stays. Empty when disruption was not considered.
    pub kept: Vec<Kept>,
    /// What could not be used or done, in words.
    pub problems: Vec<String>,
    /// When another plan will have something to do even if nothing happens meanwhile.
    pub next: Option<Duration>,
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
}

impl Planner {
    /// A planner that remembers nothing yet.
    pub fn new(
        context: Context,
        claims: Arc<dyn Claims>,
        queue: Arc<dyn Queue>,
        cluster: Arc<dyn Cluster>,
        settings: PlanSettings,
    ) -> Self {
        let (catalog, warm) = (CatalogCache::default(), Mutex::default());
        Self { context, claims, queue, cluster, catalog, settings, warm }
    }

    /// Waits until pods have stopped becoming pending, then plans once.
    ///
    /// # Errors
    /// When claims, catalog or cluster cannot be read: nothing was done then.
    pub async fn run(&self) -> Result<PlanReport, PlanError> {
        let mut metrics = Metrics::new();
        let result = self.plan(&mut metrics).await;
        if result.is_err() {
            metrics.count(Metric::ReconcileErrors, 1);
        }
        self.context.flush(&metrics);
        result
    }

    async fn plan(&self, metrics: &mut Metrics) -> Result<PlanReport, PlanError> {
        self.cluster.settle(self.settings.batch_idle, self.settings.batch_max).await?;
        let started = self.context.now();
        let catalog = self.catalog.current(self.claims.as_ref()).await?;
        // Claims before the cluster: a node that joins in between is then known by its claim.
        let (records, usage, unavailable) =
            futures::try_join!(self.claims.list(), self.claims.usage(), self.claims.unavailable(started))?;
        let view = self.cluster.view().await?;
        let mut report = PlanReport::default();
        for object in &view.invalid {
            self.context.log(&ObjectSkipped { kind: &object.kind, name: &object.name, why: &object.message });
            report.problems.push(format!("{} {} is left out: {}", object.kind, object.name, object.message));
        }
        let short = crate::offers::shortages(&unavailable, started);
        let types = crate::offers::instance_types(&catalog, &view.node_classes, &short);
        let judged = pools::judge(&view, &types, &usage);
        self.write_pool_status(&view, &judged, started, &mut report).await;
        let records = self.note_pod_events(records, &view, started, &mut report).await;

        let situation = Situation::new(&view, &records);
        let problem = situation.problem(&judged, started);
        let solution = solve(&problem, &self.settings.scheduling);
        report.pods = problem.pods.len();
        report.placed = solution.placements.len();
        let mut names = self.names(&records, &view, started);
        let mut events = placement_events(&problem, &solution);
        self.create_claims(&problem, &solution, &judged, &mut names, started, &mut report, &mut events).await;
        refuse(&problem, &solution, &mut report, &mut events);
        self.disrupt(&situation, &judged, &mut names, started, &mut report, &mut events).await;
        self.publish(events, started).await;
        self.plan_later(&report).await;
        self.finish(started, &report, metrics).await;
        Ok(report)
    }

    fn names(
        &self,
        records: &[nodeless_model::NodeClaim],
        view: &nodeless_ports::cluster::ClusterView,
        now: Timestamp,
    ) -> Names {
        let taken = records.iter().map(|claim| &claim.name).chain(view.node_claims.iter().map(|claim| &claim.name));
        Names::new(format!("{}/{}", self.context.cluster_name, now.as_nanosecond()), taken.cloned().collect())
    }

    /// Publishes what was not published a short while ago. Nothing depends on events.
    async fn publish(&self, events: Vec<ObjectEvent>, now: Timestamp) {
        let fresh = self.warm.lock().unwrap_or_else(PoisonError::into_inner).told.fresh(events, now);
        if !fresh.is_empty()
            && let Err(error) = self.cluster.publish(&fresh).await
        {
            self.context.log(&Failed { what: "publish events", why: &error.to_string() });
        }
    }

    async fn finish(&self, started: Timestamp, report: &PlanReport, metrics: &mut Metrics) {
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

    /// Asks for the plan that will have something to do even if nothing happens meanwhile, unless the heartbeat comes first.
    async fn plan_later(&self, report: &PlanReport) {
        if let Some(delay) = report.next.filter(|delay| *delay < HEARTBEAT)
            && let Err(error) = self.queue.wake_planner_after(delay).await
        {
            self.context.log(&Failed { what: "ask for the next plan", why: &error.to_string() });
        }
    }

    /// Asks for another plan, because this one could not do everything.
    async fn plan_again(&self) {
        if let Err(error) = self.queue.wake_planner(WakeSource::Planner).await {
            self.context.log(&Failed { what: "wake the planner", why: &error.to_string() });
        }
    }
}

/// Tells pods where they are expected to go.
fn placement_events(
    problem: &nodeless_scheduling::Problem<'_>,
    solution: &nodeless_scheduling::Solution,
) -> Vec<ObjectEvent> {
    let place = |placement: &nodeless_scheduling::Placement| {
        let (pod, node) = (problem.pods.get(placement.pod)?, problem.nodes.get(placement.node)?);
        Some(pod_event(pod, false, "Nominated", &format!("Pod should schedule on: node/{}", node.name)))
    };
    solution.placements.iter().filter_map(place).collect()
}

/// Tells pods why they fit nowhere.
fn refuse(
    problem: &nodeless_scheduling::Problem<'_>,
    solution: &nodeless_scheduling::Solution,
    report: &mut PlanReport,
    events: &mut Vec<ObjectEvent>,
) {
    for refused in &solution.unschedulable {
        let Some(pod) = problem.pods.get(refused.pod) else { continue };
        let reasons: Vec<String> = refused.reasons.iter().map(ToString::to_string).collect();
        let why = reasons.join("; ");
        events.push(pod_event(pod, true, "FailedScheduling", &format!("Failed to schedule pod, {why}")));
        report.unschedulable.push((pod.key(), why));
    }
}

pub(crate) fn pod_event(pod: &nodeless_model::Pod, warning: bool, reason: &str, message: &str) -> ObjectEvent {
    ObjectEvent {
        object: ObjectRef {
            api_version: "v1".to_owned(),
            kind: "Pod".to_owned(),
            namespace: pod.namespace.clone(),
            name: pod.name.clone(),
            uid: pod.uid.clone(),
        },
        warning,
        reason: reason.to_owned(),
        message: message.to_owned(),
    }
}
