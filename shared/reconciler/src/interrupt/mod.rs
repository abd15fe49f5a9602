//! EC2 and AWS Health events: terminates the claims whose instances are about to be interrupted, stopped or terminated.

mod parse;

pub use parse::{Interruption, InterruptionKind, ParseInterruptionError, parse};

use futures::{StreamExt as _, stream};
use jiff::Timestamp;
use nodeless_disruption::spot_interruptions::REMEMBERED;
use nodeless_lifecycle::{begin_termination, warm};
use nodeless_model::claim::condition;
use nodeless_model::events::{interrupted, terminating_on_interruption};
use nodeless_model::object::{EventType, ObjectEvent, ObjectRef};
use nodeless_model::shortage::Shortage;
use nodeless_model::{CapacityType, ConditionStatus, NodeClaim, Phase};
use nodeless_operations::at_once;
use nodeless_operations::{
    log_lines::{Failed, InterruptionForeign, InterruptionReceived, MessageIgnored},
    shards,
};
use nodeless_ports::queue::WakeSource;
use nodeless_ports::{Cluster, ErrorKind, PortError, Queue};
use nodeless_state::State;
use nodeless_state::capacity::{SpotInterruption, UnavailableOffering};
use nodeless_state::decisions::{Decision, KEPT};
use nodeless_telemetry::Context;
use nodeless_telemetry::{Metric, Metrics};
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;

/// How long an offering is unavailable after EC2 interrupted an instance of it, as in Karpenter.
const UNAVAILABLE: Duration = Duration::from_mins(3);
/// How many claims are read and written concurrently, so that the events of a burst are not handled one after another.
const AT_ONCE: usize = 32;
/// How long after the first plan a second one is requested for the claims of a batch.
const PLAN_AGAIN: Duration = Duration::from_secs(2);
/// How long after the start of a warm node an event of its stop may still arrive.
const STOP_REPORTED_WITHIN: Duration = Duration::from_mins(2);
/// How many times a claim is read again when another process writes it at the same time.
const ATTEMPTS: u32 = 5;

/// Handles events.
pub struct Interrupter {
    /// Time and logs.
    pub context: Context,
    /// The claims table.
    pub claims: State,
    /// The queues.
    pub queue: Arc<dyn Queue>,
    /// The cluster, for events on NodeClaims; nothing depends on it.
    pub cluster: Arc<dyn Cluster>,
}

/// Why an event was not handled.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InterruptError {
    /// The message is malformed. Retrying does not help.
    #[error(transparent)]
    Parse(#[from] ParseInterruptionError),
    /// Something could not be read or written. Retrying helps.
    #[error(transparent)]
    Port(#[from] PortError),
}

impl Interrupter {
    /// Handles one event in the JSON form that EventBridge sends. Returns the names of the claims that are terminated.
    ///
    /// Unknown events are logged and acknowledged. Instances that do not belong to the cluster are ignored.
    ///
    /// # Errors
    /// When the text is malformed, or a port failed.
    pub async fn run(&self, event: &str) -> Result<Vec<String>, InterruptError> {
        self.run_all(&[event]).await.pop().unwrap_or(Ok(Vec::new()))
    }

    /// Handles the events of a batch, each as [`Self::run`] does and with its own result, in the given order.
    ///
    /// Urgent events, whose instances end within two minutes, are handled first: all their claims begin termination, and
    /// lifecycle and the planner are woken, before the other events are handled. Work that several events share takes one call.
    pub async fn run_all(&self, events: &[&str]) -> Vec<Result<Vec<String>, InterruptError>> {
        let mut metrics = Metrics::new();
        let mut results: Vec<Result<Vec<String>, InterruptError>> = Vec::with_capacity(events.len());
        let (mut urgent, mut others) = (Vec::new(), Vec::new());
        for (message, event) in events.iter().enumerate() {
            results.push(Ok(Vec::new()));
            match parse(event) {
                Ok(Ok(found)) => {
                    let list = if found.kind.is_urgent() { &mut urgent } else { &mut others };
                    let what = |instance| Affected { message, kind: found.kind, begins: found.begins, instance };
                    list.extend(found.instances.into_iter().map(what));
                }
                Ok(Err(ignored)) => self.context.log(&MessageIgnored {
                    source: &ignored.source,
                    detail_type: &ignored.detail_type,
                    why: &ignored.why,
                }),
                Err(error) => results[message] = Err(error.into()),
            }
        }
        let mut news = self.act(urgent, &mut results).await;
        news.extend(self.act(others, &mut results).await);
        metrics.count(Metric::Interruptions, news.iter().filter(|one| one.leaves && one.news).count());
        self.record(&news).await;
        self.publish(&news).await;
        self.context.flush(&metrics);
        results
    }

    /// Handles instances. Returns the events to publish.
    async fn act(&self, part: Vec<Affected>, results: &mut [Result<Vec<String>, InterruptError>]) -> Vec<Interrupted> {
        if part.is_empty() {
            return Vec::new();
        }
        let looks: Vec<_> = part.iter().map(|one| self.interrupt(one)).collect();
        let found: Vec<Result<Option<Interrupted>, PortError>> = stream::iter(looks).buffered(AT_ONCE).collect().await;
        let mut interrupted = Vec::new();
        let mut messages = Vec::new();
        for (Affected { message, .. }, outcome) in part.iter().zip(found) {
            match outcome {
                Ok(Some(one)) => {
                    messages.push(*message);
                    interrupted.push(one);
                }
                Ok(None) => {}
                // A failure for one instance does not affect the others; its message is delivered again.
                Err(error) => results[*message] = Err(error.into()),
            }
        }
        let woken = self.follow(&interrupted).await;
        for (message, one) in messages.iter().zip(&interrupted) {
            match (&woken, &mut results[*message]) {
                (Err(error), result) => *result = Err(error.clone().into()),
                (Ok(()), Ok(names)) if one.leaves => names.push(one.claim.name.clone()),
                _ => {}
            }
        }
        interrupted
    }

    /// Follows up on claims that begin termination, for all of them together: marks their offerings as unavailable, then starts
    /// their drains and requests a plan for their pods.
    async fn follow(&self, interrupted: &[Interrupted]) -> Result<(), PortError> {
        let mut lacking: Vec<UnavailableOffering> = interrupted.iter().filter_map(|one| one.lacking.clone()).collect();
        lacking.sort();
        lacking.dedup_by(|a, b| a.shortage == b.shortage);
        let marked = if lacking.is_empty() { Ok(()) } else { self.claims.mark_unavailable(&lacking).await };
        if interrupted.iter().any(|one| one.noted) {
            // The planner may replace the node. Without the wake-up, the next heartbeat finds it.
            self.queue.wake_planner(WakeSource::Interruption).await?;
        }
        let names: Vec<(String, Duration)> =
            interrupted.iter().filter(|one| one.leaves).map(|one| (one.claim.name.clone(), Duration::ZERO)).collect();
        if !names.is_empty() {
            shards::enqueue(&self.claims, self.queue.as_ref(), self.context.now(), &names).await?;
        }
        if interrupted.iter().any(Interrupted::has_pods) {
            let now = self.context.now();
            at_once::plan(&self.claims, self.queue.as_ref(), WakeSource::Interruption, now).await?;
            // Wake-ups within one second are merged into one message. If that message was handled before these claims were
            // written, their pods would wait for the heartbeat. If it was handled before lifecycle released the charge of the
            // claims, the plan would find no capacity within the limits.
            self.queue.wake_planner_after(PLAN_AGAIN).await?;
        }
        // After the drains: a mark that cannot be written costs one failed launch, but a drain that does not begin costs pods.
        marked?;
        let spot: Vec<SpotInterruption> = interrupted.iter().filter_map(|one| one.remembered.clone()).collect();
        if spot.is_empty() { Ok(()) } else { self.claims.record_interruptions(&spot).await }
    }

    async fn interrupt(&self, affected: &Affected) -> Result<Option<Interrupted>, PortError> {
        let Affected { kind, instance, begins, .. } = affected;
        let kind = *kind;
        for _ in 0..ATTEMPTS {
            let Some(mut claim) = self.claims.find_by_instance(instance).await? else {
                self.context.log(&InterruptionForeign { kind: kind.event_reason(), instance });
                return Ok(None);
            };
            let now = self.context.now();
            if kind == InterruptionKind::Stopped && warm::is_stopped_by_us(&claim, now, STOP_REPORTED_WITHIN) {
                // The claim may wait for it.
                let due = [(claim.name.clone(), Duration::ZERO)];
                shards::enqueue(&self.claims, self.queue.as_ref(), now, &due).await?;
                self.log_interruption(kind, instance, &claim, "none");
                return Ok(None);
            }
            let lacking = lacking(&claim, kind, now);
            let remembered = remembered(&claim, kind, now);
            if !kind.takes_the_instance() {
                let noted = recommend(&mut claim, kind, now);
                match if noted { self.claims.update(&claim, None).await } else { Ok(claim.version) } {
                    Ok(_) => {
                        self.log_interruption(kind, instance, &claim, if noted { "noted" } else { "none" });
                        return Ok(Some(Interrupted {
                            claim,
                            kind,
                            lacking,
                            remembered,
                            leaves: false,
                            news: true,
                            noted,
                        }));
                    }
                    Err(error) if error.kind == ErrorKind::Conflict => continue,
                    Err(error) => return Err(error),
                }
            }
            if kind == InterruptionKind::ShuttingDown && claim.phase == Phase::Terminating {
                // Lifecycle terminates the instance, and waits for its end.
                self.log_interruption(kind, instance, &claim, "none");
                return Ok(None);
            }
            let is_earlier = kind.end(*begins, now).is_some_and(|end| claim.status.end_by(end));
            let news = begin_termination(&mut claim, kind.termination(), kind.message(), now);
            if news || is_earlier {
                match self.claims.update(&claim, None).await {
                    Ok(_) => {}
                    Err(error) if error.kind == ErrorKind::Conflict => continue,
                    Err(error) => return Err(error),
                }
            }
            self.log_interruption(kind, instance, &claim, if news { "drain" } else { "leaving already" });
            return Ok(Some(Interrupted { claim, kind, lacking, remembered, leaves: true, news, noted: false }));
        }
        let message =
            format!("the claim of instance {instance} was written by other processes {ATTEMPTS} times in a row");
        Err(PortError::new(ErrorKind::Conflict, "interrupt", message))
    }

    fn log_interruption(&self, kind: InterruptionKind, instance: &str, claim: &NodeClaim, action: &str) {
        let claim = Some(claim.name.as_str());
        self.context.log(&InterruptionReceived { kind: kind.event_reason(), instance, claim, action });
    }

    /// Records why nodes are drained. Nothing depends on it.
    async fn record(&self, interrupted: &[Interrupted]) {
        let now = self.context.now();
        let news = interrupted.iter().filter(|one| one.leaves && one.news);
        let decisions: Vec<Decision> = news.map(|one| one.decision(now)).collect();
        if !decisions.is_empty()
            && let Err(error) = self.claims.record_decisions(&decisions, KEPT).await
        {
            self.context.log(&Failed { what: "record decisions", why: &error.to_string() });
        }
    }

    async fn publish(&self, interrupted: &[Interrupted]) {
        let events: Vec<ObjectEvent> = interrupted.iter().filter(|one| one.news).flat_map(events).collect();
        if !events.is_empty()
            && let Err(error) = nodeless_operations::events::publish(self.cluster.as_ref(), &events).await
        {
            self.context.log(&Failed { what: "publish events", why: &error.to_string() });
        }
    }
}

/// An instance in a message.
struct Affected {
    /// The index of the message.
    message: usize,
    kind: InterruptionKind,
    /// When AWS's maintenance begins.
    begins: Option<Timestamp>,
    instance: String,
}

/// A claim whose instance is affected by an event.
struct Interrupted {
    claim: NodeClaim,
    kind: InterruptionKind,
    /// The offering to mark as unavailable.
    lacking: Option<UnavailableOffering>,
    /// The interruption to record for later launches.
    remembered: Option<SpotInterruption>,
    leaves: bool,
    /// Whether the event was recorded on the claim although its node stays.
    noted: bool,
    /// Whether the event is not published yet.
    news: bool,
}

impl Interrupted {
    /// Whether the node may have pods that need another one. A node whose instance is terminated by lifecycle has none.
    fn has_pods(&self) -> bool {
        self.leaves && (self.news || self.claim.phase != Phase::Terminating)
    }

    /// Why the node is drained.
    fn decision(&self, now: Timestamp) -> Decision {
        let (claim, why) = (&self.claim, self.kind.message());
        let node = claim.status.node_name.as_deref().unwrap_or(&claim.name);
        let instance = claim.status.instance.as_ref();
        let described = instance.map_or_else(String::new, |instance| {
            let (kind, zone) = (&instance.instance_type, &instance.zone);
            format!(", {kind} {} in {zone}", instance.capacity_type)
        });
        let summary = format!("{node} is drained, because {why} ({}{described})", self.kind.event_reason());
        let detail = json!({ "interruption": {
            "reason": self.kind.event_reason(),
            "message": why,
            "node": claim.status.node_name,
            "instance": instance.map(|instance| &instance.id),
        } });
        let subjects = [Some(&claim.name), claim.status.node_name.as_ref()].into_iter().flatten().cloned().collect();
        Decision::new("interruption", subjects, summary, detail.to_string(), now)
    }
}

/// Records a rebalance recommendation on a claim whose node stays, and returns whether it is new. The planner replaces the node
/// if its NodePool is configured to.
fn recommend(claim: &mut NodeClaim, kind: InterruptionKind, now: Timestamp) -> bool {
    let known = claim.has_condition(condition::REBALANCE_RECOMMENDED);
    if known || claim.phase.is_leaving() || kind != InterruptionKind::Rebalance {
        return false;
    }
    let kind = (condition::REBALANCE_RECOMMENDED, kind.event_reason(), kind.message());
    claim.set_condition(kind.0, ConditionStatus::True, kind.1, kind.2, now);
    true
}

/// EC2 is unlikely to have capacity right after it interrupted an instance.
fn lacking(claim: &NodeClaim, kind: InterruptionKind, now: Timestamp) -> Option<UnavailableOffering> {
    let instance = claim.status.instance.as_ref()?;
    let capacity_type = match kind {
        InterruptionKind::SpotInterruption => CapacityType::Spot,
        InterruptionKind::CapacityReservation => CapacityType::Reserved,
        _ => return None,
    };
    let offering = Shortage::of_offering(&instance.instance_type, &instance.zone, capacity_type);
    Some(UnavailableOffering {
        shortage: Shortage { reservation_id: instance.reservation_id.clone(), ..offering },
        until: now.checked_add(UNAVAILABLE).unwrap_or(Timestamp::MAX),
        reason: kind.event_reason().to_owned(),
    })
}

/// The record of a spot interruption. The warning has the time of its arrival: a repeated one changes it by seconds.
fn remembered(claim: &NodeClaim, kind: InterruptionKind, now: Timestamp) -> Option<SpotInterruption> {
    let instance = claim.status.instance.as_ref().filter(|_| kind == InterruptionKind::SpotInterruption)?;
    Some(SpotInterruption {
        instance_type: instance.instance_type.clone(),
        zone: instance.zone.clone(),
        instance_id: instance.id.clone(),
        at: now,
        until: now.checked_add(REMEMBERED).unwrap_or(Timestamp::MAX),
    })
}

/// The events on the NodeClaim and on its Node.
fn events(one: &Interrupted) -> Vec<ObjectEvent> {
    let event_type = if one.kind.takes_the_instance() { EventType::Warning } else { EventType::Normal };
    let node = one.claim.status.node_name.as_ref().map(|node| ObjectRef::node(node, ""));
    let objects: Vec<ObjectRef> = node.into_iter().chain([ObjectRef::node_claim(&one.claim.name, "")]).collect();
    let announced = objects
        .iter()
        .map(|object| interrupted(object.clone(), event_type, one.kind.event_reason(), one.kind.message()));
    let mut events: Vec<ObjectEvent> = announced.collect();
    if one.leaves {
        events.extend(objects.into_iter().map(terminating_on_interruption));
    }
    events
}
