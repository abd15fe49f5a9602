//! One claim, one step after another, until it has to wait.

mod effects;
mod group;
mod launch;
mod observe;

use crate::context::Context;
use crate::leaving;
use crate::lines::{ClaimStepped, ClaimWaits, Failed};
use crate::offers::CatalogCache;
use crate::registrations;
use nodeless_lifecycle::{Effect, Needs, Registration, Settings, Step, charge_when_written, step};
use nodeless_model::{NodeClaim, Phase};
use nodeless_ports::{Cloud, Cluster, ErrorKind, PortError, Queue, State};
use nodeless_telemetry::{Metric, Metrics};
use std::sync::Arc;
use std::time::Duration;

/// The most steps of one claim in one run, so that a claim that never settles does not hold up others.
const STEPS: u32 = 12;
/// When a claim is looked at again whose run ended in the middle.
const SOON: Duration = Duration::from_secs(1);
/// How often it is recorded that a claim is being reconciled. Well below the time after which the sweep requeues it.
const NOTED_EVERY: Duration = Duration::from_secs(45);

/// Looks after claims, one at a time.
pub struct Reconciler {
    /// Time and logs.
    pub context: Context,
    /// The claims table.
    pub claims: Arc<dyn State>,
    /// The queues.
    pub queue: Arc<dyn Queue>,
    /// The cluster.
    pub cluster: Arc<dyn Cluster>,
    /// EC2.
    pub cloud: Arc<dyn Cloud>,
    /// The catalog, kept between runs.
    pub catalog: CatalogCache,
    /// Karpenter's times, and the cluster's name.
    pub settings: Settings,
    /// Whether zonal shifts are honoured.
    pub zonal_shift: bool,
    /// Whether a claim whose `minValues` cannot be reached by what is to be had is not launched (Karpenter's policy Strict).
    pub min_values_strict: bool,
}

/// What came of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reconciled {
    /// The claim's name.
    pub claim: String,
    /// Where it stood at the end; `None` when there is no such claim, or not any more.
    pub phase: Option<Phase>,
    /// When it will be looked at again, if something is expected to happen.
    pub requeued: Option<Duration>,
    /// What could not be read or done and is tried again, in words.
    pub waits_for: Vec<String>,
}

/// A claim that could not be reconciled.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("NodeClaim {claim}: {source}")]
pub struct ReconcileError {
    /// The claim's name.
    pub claim: String,
    /// What failed.
    pub source: PortError,
}

impl Reconciler {
    /// Reconciles one claim. Another writer at the same time is no error: the second one reads the claim again.
    ///
    /// # Errors
    /// When the claims table cannot be read or written: then nothing was done that is not written down.
    pub async fn run(&self, name: &str) -> Result<Reconciled, ReconcileError> {
        let mut metrics = Metrics::new();
        let result = self.advance(name, &mut metrics).await;
        if result.is_err() {
            metrics.count(Metric::ReconcileErrors, 1);
        }
        self.context.flush(&metrics);
        let mut done = result.map_err(|source| ReconcileError { claim: name.to_owned(), source })?;
        for why in &done.waits_for {
            self.context.log(&ClaimWaits { claim: name, why });
        }
        self.note(&mut done).await;
        if let Some(delay) = done.requeued
            && let Err(error) = self.queue.wake_claims(&[(name.to_owned(), delay)]).await
        {
            // The sweep finds the claim within a minute.
            done.waits_for.push(error.to_string());
            self.context.log(&Failed { what: "requeue", why: &error.to_string() });
        }
        Ok(done)
    }

    async fn advance(&self, name: &str, metrics: &mut Metrics) -> Result<Reconciled, PortError> {
        let mut done = Reconciled { claim: name.to_owned(), ..Reconciled::default() };
        let mut said = None;
        for _ in 0..STEPS {
            let Some(claim) = self.claims.get(name).await? else {
                done.phase = None;
                done.requeued = None;
                return Ok(done);
            };
            done.phase = Some(claim.phase);
            let seen = self.observe(&claim, Needs::of(&claim), &mut said).await?;
            let next = step(&claim, &seen, self.context.now(), &self.settings);
            done.waits_for.clone_from(&next.blocked);
            let Some(written) = self.write(&claim, &next, metrics).await? else {
                done.requeued = Some(SOON);
                continue;
            };
            done.phase = Some(written.phase);
            self.publish(&next).await;
            if next.effects.iter().any(changes_instances) {
                said = None;
            }
            match self.run_effects(&written, &next.effects, metrics).await {
                Ok(true) => continue,
                Ok(false) => {}
                Err(error) if error.kind == ErrorKind::Conflict || error.kind == ErrorKind::NotFound => {
                    done.requeued = Some(SOON);
                    continue;
                }
                Err(error) => {
                    // The record is written, so the next run does again what was left undone.
                    done.waits_for.push(error.to_string());
                    done.requeued = Some(next.requeue.unwrap_or(SOON).max(Duration::from_secs(2)));
                    return Ok(done);
                }
            }
            if next.effects.contains(&Effect::DeleteRecord) {
                done.phase = None;
                done.requeued = None;
                return Ok(done);
            }
            done.requeued = next.requeue;
            if next.requeue != Some(Duration::ZERO) {
                return Ok(done);
            }
        }
        done.requeued = Some(SOON);
        Ok(done)
    }

    /// Records on a claim that launches or terminates that a message for it is pending.
    async fn note(&self, done: &mut Reconciled) {
        if done.requeued.is_none() {
            return;
        }
        let Ok(Some(mut claim)) = self.claims.get(&done.claim).await else { return };
        let now = self.context.now();
        let since = claim.status.looked_after.unwrap_or(claim.created);
        if Duration::try_from(now.duration_since(since)).is_ok_and(|age| age >= NOTED_EVERY) {
            claim.status.looked_after = Some(now);
            match self.claims.update(&claim, None).await {
                Err(error) if error.kind != ErrorKind::Conflict => done.waits_for.push(error.to_string()),
                _ => {}
            }
        }
    }

    /// Writes the claim after a step, before any of its effects. `None` when another process wrote first.
    pub(crate) async fn write(
        &self,
        before: &NodeClaim,
        step: &Step,
        metrics: &mut Metrics,
    ) -> Result<Option<NodeClaim>, PortError> {
        let next = &step.claim;
        if *before == *next && charge_when_written(next, step.charge.as_ref()).is_none() {
            return Ok(Some(next.clone()));
        }
        if let Some(came_to) = Registration::of(before, next) {
            registrations::note(self.claims.as_ref(), &self.context, before, came_to).await?;
        }
        let written = match leaving::write(self.claims.as_ref(), next, step.charge.as_ref()).await {
            Ok(written) => written,
            Err(error) if error.kind == ErrorKind::Conflict => return Ok(None),
            Err(error) => return Err(error),
        };
        if before.phase != written.phase {
            self.tell(before, &written, metrics);
        }
        Ok(Some(written))
    }

    fn tell(&self, before: &NodeClaim, after: &NodeClaim, metrics: &mut Metrics) {
        let why = after.status.termination.as_ref().map(|end| format!("{}: {}", end.reason.as_str(), end.message));
        self.context.log(&ClaimStepped {
            claim: &after.name,
            from: &format!("{:?}", before.phase),
            to: &format!("{:?}", after.phase),
            instance: after.status.instance.as_ref().map(|instance| instance.id.as_str()),
            why: why.as_deref(),
        });
        let since = |start: jiff::Timestamp| {
            let elapsed = Duration::try_from(self.context.now().duration_since(start)).unwrap_or(Duration::ZERO);
            elapsed.as_secs_f64() * 1000.0
        };
        match after.phase {
            Phase::Launched => {
                metrics.count(Metric::NodesLaunched, 1);
                metrics.record(Metric::LaunchLatencyMilliseconds, since(after.created));
            }
            Phase::Registered => {
                metrics.count(Metric::NodesRegistered, 1);
                if let Some(instance) = &after.status.instance {
                    metrics.record(Metric::RegistrationLatencyMilliseconds, since(instance.launched));
                }
            }
            Phase::Initialized => metrics.count(Metric::NodesInitialized, 1),
            Phase::Gone if after.status.instance.is_some() => metrics.count(Metric::NodesTerminated, 1),
            Phase::Draining => {
                use nodeless_model::claim::TerminationReason::InsufficientCapacity;
                if after.status.termination.as_ref().is_some_and(|end| end.reason == InsufficientCapacity) {
                    metrics.count(Metric::InsufficientCapacity, 1);
                }
            }
            _ => {}
        }
    }

    async fn publish(&self, step: &Step) {
        if !step.events.is_empty()
            && let Err(error) = crate::events::publish(self.cluster.as_ref(), &step.events).await
        {
            self.context.log(&Failed { what: "publish events", why: &error.to_string() });
        }
    }
}

/// Whether EC2 may return a different state of the instance after this.
fn changes_instances(effect: &Effect) -> bool {
    matches!(
        effect,
        Effect::Launch | Effect::Recover { .. } | Effect::TagInstance { .. } | Effect::TerminateInstance { .. }
    )
}
