//! What to launch for pods that wait, and which nodes to remove.

mod assume;
mod backlog;
mod budgets;
mod buffers;
mod churn;
mod commands;
mod commit;
mod conditions;
mod disrupt;
mod dry_disruption;
mod dry_run;
mod hashes;
mod overlays;
mod pools;
mod prescribed;
mod record;
mod registrations;
mod situation;
mod told;
mod upkeep;

use crate::context::Context;
use crate::gates::FeatureGates;
use crate::lines::{Failed, ObjectSkipped, PlanMade};
use crate::names::Names;
use crate::offers::{CatalogCache, CatalogError, OfferCache};
use crate::zonal_shift;
use commands::Commands;
use jiff::Timestamp;
use nodeless_disruption::Kept;
use nodeless_model::Pod;
use nodeless_model::buffer::is_virtual;
use nodeless_model::object::{ObjectEvent, ObjectRef};
use nodeless_ports::queue::WakeSource;
use nodeless_ports::{Claims, Cluster, PortError, Queue};
use nodeless_telemetry::{Metric, Metrics};
use prescribed::Prescription;
use situation::Situation;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use upkeep::Recent;

pub use churn::PoolChurn;
pub use commands::{decode as decode_command, encode as encode_command};
pub use dry_disruption::{Disruption, DisruptionSettings};
pub use dry_run::DryRun;
pub use record::{UnpackError, unpacked};

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
    /// What is switched on.
    pub gates: FeatureGates,
    /// Whether zonal shifts are heeded.
    pub zonal_shift: bool,
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
            gates: FeatureGates::default(),
            zonal_shift: false,
        }
    }
}

/// How soon buffers are looked at again, as in Karpenter.
const BUFFERS_AGAIN: Duration = Duration::from_secs(30);
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
    /// What there is to launch from, kept between plans.
    offers: OfferCache,
    /// What was published lately. Losing it does no harm.
    told: Mutex<Recent>,
    /// The nodes that the last decision had no time for, as the table has them; `None` while that was not read.
    backlog: Mutex<Option<BTreeSet<String>>>,
    /// When the plan comes that was asked for last. Each plan of a chain asks for the next, so without this every heartbeat would
    /// begin another chain. Losing it begins one, which ends as soon as the plans of another come first.
    awaited: Mutex<Option<Timestamp>>,
}

/// What came of a plan.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PlanReport {
    /// How many pods waited for a node.
    pub pods: usize,
    /// How many of them fit on nodes that exist or are on their way.
    pub placed: usize,
    /// These pods, `namespace/name`, and the nodes, or claims whose nodes will come.
    pub placements: Vec<(String, String)>,
    /// The claims that were written.
    pub created: Vec<String>,
    /// The pods that fit nowhere, `namespace/name`, and why.
    pub unschedulable: Vec<(String, String)>,
    /// The claims that begin to leave.
    pub leaving: Vec<String>,
    /// The claims of commands that are carried out if a later plan still finds them right.
    pub proposed: Vec<String>,
    /// Why every other node of ours stays. Empty when disruption was not considered.
    pub kept: Vec<Kept>,
    /// What could not be used or done, in words.
    pub problems: Vec<String>,
    /// When another plan will have something to do even if nothing happens meanwhile.
    pub next: Option<Duration>,
}

impl PlanReport {
    /// Has the next plan made after this time at the latest.
    fn wait_at_most(&mut self, wait: Duration) {
        self.next = Some(self.next.map_or(wait, |next| next.min(wait)));
    }
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
        let (catalog, offers, told) = (CatalogCache::default(), OfferCache::default(), Mutex::default());
        let (backlog, awaited) = (Mutex::default(), Mutex::default());
        Self { context, claims, queue, cluster, catalog, settings, offers, told, backlog, awaited }
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
        let (records, usage, unavailable, launch_budgets, shifted, registrations) = futures::try_join!(
            self.claims.list(),
            self.claims.usage(),
            self.claims.unavailable(started),
            self.claims.launch_budgets(started),
            zonal_shift::in_effect(self.claims.as_ref(), self.settings.zonal_shift, started),
            // A plan can do without.
            async { Ok(self.claims.registrations().await) },
        )?;
        // Commands after claims: one that a claim says has taken it, and that is not there now, has ended.
        let (view, commands) = futures::try_join!(self.cluster.view(), self.claims.commands())?;
        let commands = Commands::decode(commands);
        let mut report = PlanReport::default();
        for object in &view.invalid {
            self.context.log(&ObjectSkipped { kind: &object.kind, name: &object.name, why: &object.message });
            report.problems.push(format!("{} {} is left out: {}", object.kind, object.name, object.message));
        }
        let types = self.offers.instance_types(&catalog, &view.node_classes, &unavailable, &shifted, started);
        let overlays: Vec<_> = view.node_overlays.iter().map(|(overlay, _)| overlay.clone()).collect();
        let overlaid = self.offers.overlaid(&overlays, &pools::plain(&view, &types));
        self.write_overlay_status(&view, &overlaid, started).await;
        let judged = pools::judge(&view, &types, &overlaid, &usage, started);
        let mut events = Vec::new();
        let joining = self.judge_registrations(registrations, &view, &judged, started, &mut report).await;
        self.write_pool_status(&view, &judged, &joining, started, &mut report, &mut events).await;
        let records = self.note_pod_events(records, &view, started, &mut report).await;
        let records = self.note_hashes(records, &view, &judged, &mut report).await;
        let records = self.note_drift(records, &view, &judged, started, &mut report, &mut events).await;

        let mut names = self.names(&records, &view, started);
        let prescription = Prescription {
            view: &view,
            judged: &judged,
            commands: &commands,
            shifted: &shifted,
            now: started,
            names: &mut names,
            report: &mut report,
            events: &mut events,
        };
        let records = self.prescribe(records, prescription).await;

        let buffers = buffers::reserve(&view);
        let mut situation = Situation::new(&view, &records).with_unseen(started);
        situation = situation.with_replaced(commands.replaced(&records)).with_shifted(&shifted);
        situation.virtual_pods = buffers.iter().flat_map(|buffer| &buffer.pods).flatten().collect();
        situation.awaited = commands.awaited(&records);
        let problem = situation.problem(&judged, started);
        let options = &self.settings.scheduling;
        let solution = nodeless_disruption::plan(&problem, options, true);
        let first_virtual = problem.pods.iter().take_while(|pod| !is_virtual(pod)).count();
        let real = Real { problem: &problem, pods: first_virtual };
        report.pods = first_virtual;
        report.placed = solution.placements.iter().filter(|placement| placement.pod < first_virtual).count();
        report.placements = placements(&real, &solution);
        events.extend(placement_events(&real, &situation, &solution));
        let left = budgets::left(launch_budgets, &records, &judged);
        self.create_claims(&real, &solution, &judged, &mut names, started, left, &mut report, &mut events).await;
        refuse(&real, &situation, &solution, &mut report, &mut events);
        let placed = solution.placements.iter().map(|placement| problem.pods[placement.pod]);
        let mut fitting: BTreeSet<String> = placed.filter(|pod| is_virtual(pod)).map(Pod::key).collect();
        fitting.extend(situation.awaited.iter().cloned());
        self.write_buffer_status(&buffers, &fitting, started).await;
        self.disrupt(&situation, &judged, commands, &mut names, started, &mut report, &mut events, metrics).await;
        self.publish(events, started).await;
        if !buffers.is_empty() {
            // Real pods take a buffer's room without anybody being told.
            report.next = Some(report.next.map_or(BUFFERS_AGAIN, |next| next.min(BUFFERS_AGAIN)));
        }
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
        let fresh = self.told.lock().unwrap_or_else(PoisonError::into_inner).fresh(events, now);
        if !fresh.is_empty()
            && let Err(error) = crate::events::publish(self.cluster.as_ref(), &fresh).await
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

    /// Asks for another plan, because this one could not do everything.
    async fn plan_again(&self) {
        if let Err(error) = self.queue.wake_planner(WakeSource::Planner).await {
            self.context.log(&Failed { what: "wake the planner", why: &error.to_string() });
        }
    }
}

/// The pods of a problem that exist. The virtual ones come after them, and nobody tells them anything.
struct Real<'p, 'a> {
    problem: &'p nodeless_scheduling::Problem<'a>,
    pods: usize,
}

impl<'a> Real<'_, 'a> {
    /// The pod of this index, if it exists.
    fn pod(&self, index: usize) -> Option<&'a nodeless_model::Pod> {
        self.problem.pods.get(index).copied().filter(|_| index < self.pods)
    }
}

/// Which pods go to which nodes that exist or are on their way.
fn placements(real: &Real<'_, '_>, solution: &nodeless_scheduling::Solution) -> Vec<(String, String)> {
    let place = |placement: &nodeless_scheduling::Placement| {
        Some((real.pod(placement.pod)?.key(), real.problem.nodes.get(placement.node)?.name.clone()))
    };
    solution.placements.iter().filter_map(place).collect()
}

/// Tells pods where they are expected to go: as in Karpenter to a node, to a claim, or to a node that a claim has become.
fn placement_events(
    real: &Real<'_, '_>,
    situation: &Situation<'_>,
    solution: &nodeless_scheduling::Solution,
) -> Vec<ObjectEvent> {
    // A pod that a claim on its way was made for was told so. That of several alike it might now take another is no news.
    let on_the_way = situation.places.iter().filter(|place| place.node.is_none()).filter_map(|place| place.claim);
    let told: BTreeSet<&str> = on_the_way.flat_map(|claim| &claim.spec.nominated_pods).map(String::as_str).collect();
    let place = |placement: &nodeless_scheduling::Placement| {
        let (pod, node) = (real.pod(placement.pod)?, real.problem.nodes.get(placement.node)?);
        if told.contains(pod.key().as_str()) {
            return None;
        }
        let joined = situation.view.nodes.iter().any(|present| present.name == node.name);
        let target = match &node.node_claim {
            Some(claim) if joined => format!("nodeclaim/{claim}, node/{}", node.name),
            Some(claim) => format!("nodeclaim/{claim}"),
            None => format!("node/{}", node.name),
        };
        Some(pod_event(pod, false, "Nominated", &format!("Pod should schedule on: {target}")))
    };
    solution.placements.iter().filter_map(place).collect()
}

/// Tells pods why they fit nowhere.
fn refuse(
    real: &Real<'_, '_>,
    situation: &Situation<'_>,
    solution: &nodeless_scheduling::Solution,
    report: &mut PlanReport,
    events: &mut Vec<ObjectEvent>,
) {
    let unschedulable = solution.unschedulable.iter().filter_map(|refused| {
        let reasons = refused.reasons.iter().map(ToString::to_string);
        let reasons: Vec<String> = reasons.chain(zonal_shift::told(situation.shifted, &refused.reasons)).collect();
        Some((real.pod(refused.pod)?, reasons.join("; ")))
    });
    for (pod, why) in unschedulable.chain(situation.faulty().map(|(pod, why)| (pod, why.clone()))) {
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
