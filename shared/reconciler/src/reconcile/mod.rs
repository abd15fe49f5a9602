//! Reconciles the claims of a shard that are due: reads what they need for all of them together, then lets each take one step
//! after another until it has to wait.

mod batch;
mod daemon_sets;
mod effects;
mod group;
mod late;
mod launch;
mod nominations;
mod observe;
mod surges;
mod view;
mod volumes;
mod warm;

use batch::Progress;
use nodeless_lifecycle::{Effect, Needs, Registration, Settings, Step, charge_when_written, step};
use nodeless_model::{NodeClaim, Phase};
use nodeless_operations::{
    events::EventRate, leaving, log_lines::ClaimStepped, offers::CatalogCache, ownership, shards,
};
use nodeless_ports::queue::ShardMessage;
use nodeless_ports::{Cloud, Cluster, ErrorKind, PortError, Queue};
use nodeless_state::State;
use nodeless_telemetry::Context;
use nodeless_telemetry::{Metric, Metrics};
pub use nominations::NominationSwitch;
use std::sync::Arc;
use std::time::Duration;
use view::View;

/// The maximum number of steps of one claim in one run, so that a claim whose steps do not end does not block others.
const STEPS: u32 = 12;
/// How many claims are reconciled concurrently. The same number may launch in addition, because CreateFleet takes longest to
/// answer.
const AT_ONCE: usize = 16;
/// The same while nodes open: the kube-scheduler binds a pod elsewhere if it evaluates the pod after other nodes have opened, and before the
/// node that the pod is nominated for.
const OPENED_AT_ONCE: usize = 64;
/// When a claim whose run was interrupted, or that another process wrote meanwhile, is reconciled again.
const SOON: Duration = Duration::from_secs(1);
/// When a claim whose record could not be read or written is reconciled again.
const RETRY: Duration = Duration::from_secs(10);

/// Reconciles claims.
pub struct Reconciler {
    /// Time and logs.
    pub context: Context,
    /// The claims table.
    pub claims: State,
    /// The queues.
    pub queue: Arc<dyn Queue>,
    /// The cluster.
    pub cluster: Arc<dyn Cluster>,
    /// EC2.
    pub cloud: Arc<dyn Cloud>,
    /// The catalog, kept between runs.
    pub catalog: CatalogCache,
    /// Limits how many Events are published, kept between runs.
    pub events: EventRate,
    /// Karpenter's times, and the cluster's name.
    pub settings: Settings,
    /// Whether nodes are nominated for pods.
    pub nominations: NominationSwitch,
    /// Whether zonal shifts are honoured.
    pub zonal_shift: bool,
    /// Whether a claim is not launched if the available instance types cannot satisfy its `minValues` (Karpenter's policy
    /// Strict).
    pub min_values_strict: bool,
}

/// The result of reconciling one claim.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reconciled {
    /// The claim's name.
    pub claim: String,
    /// The claim's phase at the end; `None` if the claim does not exist.
    pub phase: Option<Phase>,
    /// When it is reconciled again, if it is scheduled.
    pub requeued: Option<Duration>,
    /// The errors that are retried.
    pub waits_for: Vec<String>,
}

/// Claims that could not be reconciled.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{of}: {source}")]
pub struct ReconcileError {
    /// The claim or the shard.
    pub of: String,
    /// The error.
    pub source: PortError,
}

impl Reconciler {
    /// Reconciles the claims of a shard that are due, and sends the message for the next due time. If no claim is due, because
    /// the message was delivered twice or another process was earlier, nothing happens. A message that arrives before the claims
    /// are due is sent again for the remaining time.
    ///
    /// # Errors
    /// If the claims table cannot be read or written, the message cannot be sent again, or another deployment serves the cluster. The
    /// sweep then finds the claims.
    pub async fn run_shard(&self, message: ShardMessage) -> Result<Vec<Reconciled>, ReconcileError> {
        let failed = |source| ReconcileError { of: format!("shard {}", message.shard), source };
        ownership::check(self.cluster.as_ref(), &self.claims).await.map_err(failed)?;
        let (table, queue, now) = (&self.claims, self.queue.as_ref(), self.context.now());
        let Some(taken) = shards::take_due(table, queue, now, message).await.map_err(failed)? else {
            return Ok(Vec::new());
        };
        let names: Vec<String> = taken.claims.keys().cloned().collect();
        let results = self.reconcile_all(&names, Some(taken)).await;
        Ok(results.into_iter().map(|(reconciled, _)| reconciled).collect())
    }

    /// Reconciles one claim now, and schedules further steps in its shard. If another process writes it at the same time, the
    /// claim is left to that process for a second, which is not an error.
    ///
    /// # Errors
    /// If the claims table cannot be read or written. Nothing was done that is not recorded.
    pub async fn run(&self, name: &str) -> Result<Reconciled, ReconcileError> {
        let mut results = self.reconcile_all(&[name.to_owned()], None).await;
        let gone = Reconciled { claim: name.to_owned(), ..Reconciled::default() };
        let (reconciled, failed) = results.pop().unwrap_or((gone, None));
        failed.map_or(Ok(reconciled), |source| Err(ReconcileError { of: format!("NodeClaim {name}"), source }))
    }

    /// Takes the steps of one claim until it has to wait. The error is one of the claims table.
    async fn advance(&self, mut claim: NodeClaim, view: &View, progress: &mut Progress) -> Result<(), PortError> {
        let mut observed = view.observed(&claim);
        for _ in 0..STEPS {
            progress.done.phase = Some(claim.phase);
            let mut seen = self.observe(&claim, view, &mut observed).await;
            let now = self.context.now();
            if Needs::volume_attachments(&claim, &seen, now, &self.settings) {
                let shared = observed.pods_are_of_view.then_some(&view.attachments);
                seen.volume_attachments = self.volumes(&seen, shared).await;
            }
            let next = step(&claim, &seen, now, &self.settings);
            progress.done.waits_for.clone_from(&next.blocked);
            let Some(written) = self.write(&claim, &next, progress).await? else {
                // Another process wrote the claim. If that was not lifecycle, the step is due still.
                progress.done.requeued = Some(SOON);
                return Ok(());
            };
            progress.done.phase = Some(written.phase);
            progress.events.extend(next.events.iter().cloned());
            match self.run_effects(&written, &next.effects, &mut observed, progress).await {
                Ok(true) => {
                    // The record changed with the result of the launch.
                    let present = self.claims.get(&claim.name).await?;
                    let requeued = present.as_ref().map(|_| SOON);
                    progress.ended(present.map(|claim| claim.phase), requeued);
                    return Ok(());
                }
                Ok(false) => {}
                Err(error) if error.kind == ErrorKind::Conflict || error.kind == ErrorKind::NotFound => {
                    progress.done.requeued = Some(SOON);
                    return Ok(());
                }
                Err(error) => {
                    // The record is written, so the next run repeats the remaining effects.
                    progress.done.waits_for.push(error.to_string());
                    progress.done.requeued = Some(next.requeue.unwrap_or(SOON).max(Duration::from_secs(2)));
                    return Ok(());
                }
            }
            if next.effects.contains(&Effect::DeleteRecord) {
                progress.ended(None, None);
                return Ok(());
            }
            progress.done.requeued = next.requeue;
            if next.requeue != Some(Duration::ZERO) {
                return Ok(());
            }
            claim = written;
        }
        progress.done.requeued = Some(SOON);
        Ok(())
    }

    /// Writes the claim after a step, before any of its effects. `None` if another process wrote first.
    async fn write(
        &self,
        before: &NodeClaim,
        step: &Step,
        progress: &mut Progress,
    ) -> Result<Option<NodeClaim>, PortError> {
        let next = &step.claim;
        if *before == *next && charge_when_written(next, step.charge.as_ref()).is_none() {
            return Ok(Some(next.clone()));
        }
        if let Some(came_to) = Registration::new(before, next) {
            progress.shared.registrations.note(&self.claims, &self.context, before, came_to).await?;
        }
        let written = match leaving::write(&self.claims, next, step.charge.as_ref()).await {
            Ok(written) => written,
            Err(error) if error.kind == ErrorKind::Conflict => return Ok(None),
            Err(error) => return Err(error),
        };
        if before.phase.as_str() != written.phase.as_str() {
            self.report(before, &written, &mut progress.metrics);
        }
        Ok(Some(written))
    }

    fn report(&self, before: &NodeClaim, after: &NodeClaim, metrics: &mut Metrics) {
        let why = after.status.termination.as_ref().map(|end| format!("{}: {}", end.reason.as_str(), end.message));
        let instance = after.status.instance.as_ref();
        self.context.log(&ClaimStepped {
            claim: &after.name,
            node_pool: after.node_pool.as_deref(),
            from: before.phase.as_str(),
            to: after.phase.as_str(),
            instance: instance.map(|instance| instance.id.as_str()),
            instance_type: instance.map(|instance| instance.instance_type.as_str()),
            zone: instance.map(|instance| instance.zone.as_str()),
            capacity_type: instance.map(|instance| instance.capacity_type.as_str()),
            price_per_hour: instance.map(|instance| instance.price).filter(|price| *price > 0.0),
            why: why.as_deref(),
        });
        let mut of_pool = |metric| {
            if let Some(name) = &after.node_pool {
                metrics.record_of(name, metric, 1.0);
            }
        };
        match after.phase {
            Phase::Launched | Phase::WarmLaunched if before.phase < Phase::Launched => of_pool(Metric::NodesLaunched),
            Phase::Gone if instance.is_some() => of_pool(Metric::NodesTerminated),
            _ => {}
        }
        let since = |start: jiff::Timestamp| {
            let elapsed = Duration::try_from(self.context.now().duration_since(start)).unwrap_or(Duration::ZERO);
            elapsed.as_secs_f64() * 1000.0
        };
        if before.phase < Phase::Registered
            && matches!(after.phase, Phase::Registered | Phase::Preparing | Phase::Initialized)
        {
            metrics.count(Metric::NodesRegistered, 1);
            if let Some(instance) = &after.status.instance {
                metrics.record(Metric::RegistrationLatencyMilliseconds, since(instance.launched));
            }
        }
        match after.phase {
            Phase::Launched | Phase::WarmLaunched if before.phase < Phase::Launched => {
                metrics.count(Metric::NodesLaunched, 1);
                metrics.record(Metric::LaunchLatencyMilliseconds, since(after.created));
            }
            Phase::Initialized => metrics.count(Metric::NodesInitialized, 1),
            Phase::Gone if instance.is_some() => metrics.count(Metric::NodesTerminated, 1),
            Phase::Draining => {
                use nodeless_model::claim::TerminationReason::InsufficientCapacity;
                if after.status.termination.as_ref().is_some_and(|end| end.reason == InsufficientCapacity) {
                    metrics.count(Metric::InsufficientCapacity, 1);
                }
            }
            _ => {}
        }
    }
}
