//! Reconciles many claims concurrently, and performs once what they have in common.

use super::{AT_ONCE, OPENED_AT_ONCE, RETRY, Reconciled, Reconciler, SOON, View};
use futures::future::{Either, select};
use futures::stream::{self, StreamExt as _};
use nodeless_model::events::failed_termination;
use nodeless_model::object::{ObjectEvent, ObjectRef};
use nodeless_model::{NodeClaim, Phase};
use nodeless_operations::{
    log_lines::{ClaimWaits, Failed},
    registrations::Registrations,
    shards::{self, Requeued, Taken},
};
use nodeless_ports::{ErrorKind, PortError};
use nodeless_telemetry::{Metric, Metrics};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// The time limit for the steps of one claim: longer than EC2 takes to answer CreateFleet, and shorter than a claim is leased.
const STEPS_TAKE: Duration = Duration::from_secs(55);
/// How much longer the steps of a claim may take that is to get an instance, which EC2 has launched or lists, to record the instance: without
/// its record, the node cannot be registered, and another run has to find the instance again. The lease of the claim may
/// end before, and another process take the claim; writes are conditional.
const RECORDED_WITHIN: Duration = Duration::from_secs(20);
/// How often finished claims are returned to their shards while others are still running.
const PUT_BACK_EVERY: Duration = Duration::from_secs(2);
/// The number of claims in one metrics document: a metric has at most 100 values in one document.
const METRICS_OF: usize = 50;

/// The work for one claim in one run.
#[derive(Default)]
pub(super) struct Progress {
    pub(super) done: Reconciled,
    /// The error of a read or write of the claims table.
    pub(super) failed: Option<PortError>,
    /// Events to publish.
    pub(super) events: Vec<ObjectEvent>,
    /// The instance to terminate, if any.
    pub(super) terminate: Option<String>,
    /// The claim whose instance is to be started, if it is.
    pub(super) start: Option<NodeClaim>,
    /// The claim whose instance is to be stopped, if it is.
    pub(super) stop: Option<NodeClaim>,
    /// Other claims to reconcile, and when: members of its launch group.
    pub(super) others: Vec<(String, Duration)>,
    pub(super) metrics: Metrics,
    /// Whether an instance of the claim is being recorded.
    pub(super) has_instance: Arc<AtomicBool>,
    pub(super) shared: Arc<Shared>,
}

/// The state that the claims of one run share.
#[derive(Default)]
pub(super) struct Shared {
    pub(super) registrations: Registrations,
    /// Whether EC2 throttled a CreateTags: the calls for the other claims of the run would only be throttled as well.
    pub(super) tags_throttled: AtomicBool,
}

impl Progress {
    fn new(claim: &str, shared: &Arc<Shared>) -> Self {
        let done = Reconciled { claim: claim.to_owned(), ..Reconciled::default() };
        Self { done, shared: shared.clone(), ..Self::default() }
    }

    /// The claim takes no more steps in this run.
    pub(super) fn ended(&mut self, phase: Option<Phase>, requeued: Option<Duration>) {
        (self.done.phase, self.done.requeued) = (phase, requeued);
    }

    /// The claim is reconciled again soon, because a call for its instance failed.
    pub(super) fn postpone(&mut self, error: &PortError) {
        self.done.waits_for.push(error.to_string());
        let sooner = self.done.requeued.unwrap_or(SOON).min(RETRY);
        self.done.requeued = Some(sooner.max(Duration::from_secs(2)));
    }

    fn fail(&mut self, error: PortError) {
        self.done.requeued = Some(RETRY);
        self.done.waits_for.push(error.to_string());
        self.failed = Some(error);
    }
}

impl Reconciler {
    /// Reconciles claims, whether they were taken from a shard or not. Returns each with the claims table error, if any.
    pub(super) async fn reconcile_all(
        &self,
        names: &[String],
        mut taken: Option<Taken>,
    ) -> Vec<(Reconciled, Option<PortError>)> {
        let shard: Vec<String> = taken.iter().flat_map(Taken::scheduled).cloned().collect();
        let (claims, view) = match self.read_all(names, &shard).await {
            Ok(read) => read,
            Err(error) => return self.put_back_unread(names, &error, &mut taken).await,
        };
        let shared = Arc::new(Shared::default());
        let gone = names.iter().filter(|name| !claims.iter().any(|claim| claim.name == **name));
        let mut done: Vec<Progress> = gone.map(|name| Progress::new(name, &shared)).collect();
        let mut together = view.opened.others.iter().map(|name| (name.clone(), Duration::ZERO)).collect::<Vec<_>>();
        let starting = claims.iter().filter(|claim| claim.phase == Phase::Starting).count();
        let (launching, others): (Vec<NodeClaim>, Vec<NodeClaim>) =
            claims.into_iter().partition(|claim| claim.phase < Phase::Launched);
        let others_at_once = if view.opened.any() { OPENED_AT_ONCE } else { AT_ONCE };
        let [launching, others] = [(launching, AT_ONCE), (others, others_at_once)].map(|(claims, at_once)| {
            let runs = claims.into_iter().map(|claim| Box::pin(self.bounded(claim, &view, &shared)));
            stream::iter(runs.collect::<Vec<_>>()).buffer_unordered(at_once)
        });
        let mut running = pin!(stream::select(others, launching));
        let mut results = Vec::with_capacity(names.len());
        let mut pause = self.context.clock.sleep(PUT_BACK_EVERY);
        loop {
            match select(running.next(), pause).await {
                Either::Left((None, _)) => break,
                Either::Left((Some(mut progress), rest)) => {
                    progress.others.append(&mut together);
                    done.push(progress);
                    pause = rest;
                    // Instances are started together, and do not wait for launches.
                    if starting > 0 && done.iter().filter(|progress| progress.start.is_some()).count() == starting {
                        self.start(&mut done).await;
                    }
                }
                Either::Right(_) => {
                    results.extend(self.put_back(std::mem::take(&mut done), &mut taken).await);
                    pause = self.context.clock.sleep(PUT_BACK_EVERY);
                }
            }
        }
        results.extend(self.put_back(done, &mut taken).await);
        results
    }

    async fn read_all(&self, names: &[String], shard: &[String]) -> Result<(Vec<NodeClaim>, View), PortError> {
        let claims = self.claims.get_all(names).await?;
        let mates = self.mates(&claims, shard.iter()).await?;
        let view = View::read(self, &claims, &mates).await?;
        Ok((claims, view))
    }

    /// Takes the steps of one claim within the time limit.
    async fn bounded(&self, claim: NodeClaim, view: &View, shared: &Arc<Shared>) -> Progress {
        let mut progress = Progress::new(&claim.name, shared);
        let name = claim.name.clone();
        let has_instance = progress.has_instance.clone();
        let ended = {
            let mut steps = pin!(self.advance(claim, view, &mut progress));
            match self.within(STEPS_TAKE, steps.as_mut()).await {
                None if has_instance.load(Ordering::Relaxed) => self.within(RECORDED_WITHIN, steps).await,
                ended => ended,
            }
        };
        let failed = ended.map_or_else(
            || {
                let message = format!("its steps took more than {} s", STEPS_TAKE.as_secs());
                Some(PortError::new(ErrorKind::Unavailable, format!("reconcile NodeClaim {name}"), message))
            },
            Result::err,
        );
        if let Some(error) = failed {
            progress.fail(error);
        }
        progress
    }

    /// The result of work, if it ends within this time.
    async fn within<T>(&self, limit: Duration, work: impl Future<Output = T> + Unpin) -> Option<T> {
        match select(work, self.context.clock.sleep(limit)).await {
            Either::Left((ended, _)) => Some(ended),
            Either::Right(_) => None,
        }
    }

    async fn put_back_unread(
        &self,
        names: &[String],
        error: &PortError,
        taken: &mut Option<Taken>,
    ) -> Vec<(Reconciled, Option<PortError>)> {
        let shared = Arc::default();
        let failed = names.iter().map(|name| {
            let mut progress = Progress::new(name, &shared);
            progress.fail(error.clone());
            progress
        });
        self.put_back(failed.collect(), taken).await
    }

    /// Performs the shared work of finished claims, and schedules those that are due later.
    async fn put_back(
        &self,
        mut done: Vec<Progress>,
        taken: &mut Option<Taken>,
    ) -> Vec<(Reconciled, Option<PortError>)> {
        if done.is_empty() {
            return Vec::new();
        }
        self.start(&mut done).await;
        self.stop(&mut done).await;
        self.terminate(&mut done).await;
        self.requeue(&mut done, taken).await;
        self.publish(&done).await;
        for some in done.chunks(METRICS_OF) {
            let mut metrics = Metrics::new();
            for progress in some {
                metrics.merge(&progress.metrics);
                metrics.count(Metric::ReconcileErrors, usize::from(progress.failed.is_some()));
                for why in &progress.done.waits_for {
                    self.context.log(&ClaimWaits { claim: &progress.done.claim, why });
                }
            }
            self.context.flush(&metrics);
        }
        done.into_iter().map(|progress| (progress.done, progress.failed)).collect()
    }

    /// Terminates the instances of these claims with one call. If it fails, each instance is terminated by a call of its own, so
    /// that one failure does not block the others. If EC2 throttles it, they are terminated later: calls for each would only be
    /// throttled as well.
    async fn terminate(&self, done: &mut [Progress]) {
        let ids: Vec<String> = done.iter().filter_map(|progress| progress.terminate.clone()).collect();
        if ids.is_empty() {
            return;
        }
        let together = self.cloud.terminate(&ids).await;
        for progress in done.iter_mut() {
            let Some(id) = progress.terminate.take() else { continue };
            let result = match &together {
                Err(error) if ids.len() > 1 && error.kind != ErrorKind::Throttled => {
                    self.cloud.terminate(std::slice::from_ref(&id)).await
                }
                result => result.clone(),
            };
            if let Err(error) = result {
                // Any other failure passes without a change by the user.
                if matches!(error.kind, ErrorKind::Denied | ErrorKind::Invalid) {
                    progress.metrics.count(Metric::ReconcileErrors, 1);
                    let claim = ObjectRef::node_claim(&progress.done.claim, "");
                    progress.events.push(failed_termination(claim, &id, &error.to_string()));
                }
                progress.postpone(&error);
            }
        }
    }

    async fn publish(&self, done: &[Progress]) {
        let events = done.iter().flat_map(|progress| progress.events.iter().cloned());
        let events: Vec<ObjectEvent> = self.events.limit(events, self.context.now());
        if !events.is_empty()
            && let Err(error) = nodeless_operations::events::publish(self.cluster.as_ref(), &events).await
        {
            self.context.log(&Failed { what: "publish events", why: &error.to_string() });
        }
    }

    async fn requeue(&self, done: &mut [Progress], taken: &mut Option<Taken>) {
        let (table, queue, now) = (&self.claims, self.queue.as_ref(), self.context.now());
        let others = done.iter().flat_map(|progress| progress.others.iter().cloned());
        let others: Vec<Requeued> = others.map(|(name, delay)| (name, Some(delay))).collect();
        let own = done.iter().map(|progress| (progress.done.claim.clone(), progress.done.requeued));
        let all: Vec<Requeued> = others.into_iter().chain(own).collect();
        let put = match taken {
            Some(taken) => shards::put_reconciled(table, queue, now, taken, &all).await,
            None => {
                let due: Vec<_> = all.into_iter().filter_map(|(name, delay)| Some((name, delay?))).collect();
                shards::enqueue(table, queue, now, &due).await
            }
        };
        if let Err(error) = put {
            // The sweep finds the claims within a minute.
            self.context.log(&Failed { what: "requeue claims", why: &error.to_string() });
            done.iter_mut().for_each(|progress| progress.done.waits_for.push(error.to_string()));
        }
    }
}
