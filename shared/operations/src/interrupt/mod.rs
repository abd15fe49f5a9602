//! EC2 and Health events: claims leave whose instance is about to go.

mod parse;

pub use parse::{Interruption, InterruptionKind, ParseInterruptionError, parse};

use crate::context::Context;
use crate::lines::{Failed, InterruptionForeign, InterruptionReceived, MessageIgnored};
use jiff::Timestamp;
use nodeless_lifecycle::{begin_termination, claim_event};
use nodeless_model::claim::TerminationReason;
use nodeless_model::{CapacityType, NodeClaim};
use nodeless_ports::claims::UnavailableOffering;
use nodeless_ports::queue::WakeSource;
use nodeless_ports::{Claims, Cluster, ErrorKind, PortError, Queue};
use nodeless_telemetry::{Metric, Metrics};
use std::sync::Arc;
use std::time::Duration;

/// How long an offering from which EC2 took an instance back is not asked for, as in Karpenter.
const UNAVAILABLE: Duration = Duration::from_mins(3);
/// How often a claim that somebody else writes at the same time is read again.
const ATTEMPTS: u32 = 5;

/// Acts on events.
pub struct Interrupter {
    /// Time and logs.
    pub context: Context,
    /// The claims table.
    pub claims: Arc<dyn Claims>,
    /// The queues.
    pub queue: Arc<dyn Queue>,
    /// The cluster, for events on NodeClaims; nothing depends on it.
    pub cluster: Arc<dyn Cluster>,
}

/// Why an event was not acted on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InterruptError {
    /// The message is malformed; trying again is of no use.
    #[error(transparent)]
    Parse(#[from] ParseInterruptionError),
    /// Something could not be read or written; trying again helps.
    #[error(transparent)]
    Port(#[from] PortError),
}

impl Interrupter {
    /// Acts on one event, as EventBridge sends it: JSON text. Gives the names of the claims that leave.
    ///
    /// What we do not know is logged and acknowledged; instances that are not ours are left alone.
    ///
    /// # Errors
    /// When the text is malformed, or a port failed.
    pub async fn run(&self, event: &str) -> Result<Vec<String>, InterruptError> {
        let interruption = match parse(event)? {
            Ok(interruption) => interruption,
            Err(ignored) => {
                self.context.log(&MessageIgnored {
                    source: &ignored.source,
                    detail_type: &ignored.detail_type,
                    why: &ignored.why,
                });
                return Ok(Vec::new());
            }
        };
        let mut metrics = Metrics::new();
        metrics.count(Metric::Interruptions, interruption.instances.len());
        let result = self.act(&interruption).await;
        self.context.flush(&metrics);
        Ok(result?)
    }

    async fn act(&self, interruption: &Interruption) -> Result<Vec<String>, PortError> {
        let mut leaving = Vec::new();
        let mut failed = None;
        for instance in &interruption.instances {
            match self.interrupt(interruption.kind, instance).await {
                Ok(name) => leaving.extend(name),
                // One instance that fails keeps no other from being saved; the message comes again.
                Err(error) => failed = Some(error),
            }
        }
        if !leaving.is_empty() {
            let messages: Vec<(String, Duration)> = leaving.iter().map(|name| (name.clone(), Duration::ZERO)).collect();
            self.queue.wake_claims(&messages).await?;
            self.queue.wake_planner(WakeSource::Interruption).await?;
        }
        failed.map_or(Ok(leaving), Err)
    }

    async fn interrupt(&self, kind: InterruptionKind, instance: &str) -> Result<Option<String>, PortError> {
        for _ in 0..ATTEMPTS {
            let Some(mut claim) = self.claims.find_by_instance(instance).await? else {
                self.context.log(&InterruptionForeign { kind: kind.event_reason(), instance });
                return Ok(None);
            };
            let now = self.context.now();
            if !kind.takes_the_instance() {
                self.tell(kind, instance, &claim, "none");
                self.publish(&claim, kind).await;
                return Ok(None);
            }
            self.mark_unavailable(&claim, kind, now).await?;
            if claim.phase.is_leaving() {
                self.tell(kind, instance, &claim, "leaving already");
                return Ok(Some(claim.name));
            }
            begin_termination(&mut claim, TerminationReason::Interrupted, kind.message(), now);
            match self.claims.update(&claim, None).await {
                Ok(_) => {
                    self.tell(kind, instance, &claim, "drain");
                    self.publish(&claim, kind).await;
                    return Ok(Some(claim.name));
                }
                Err(error) if error.kind == ErrorKind::Conflict => {}
                Err(error) => return Err(error),
            }
        }
        let message = format!("the claim of instance {instance} was written by others {ATTEMPTS} times in a row");
        Err(PortError::new(ErrorKind::Conflict, "interrupt", message))
    }

    /// Spot capacity that EC2 takes back is not to be had again at once.
    async fn mark_unavailable(
        &self,
        claim: &NodeClaim,
        kind: InterruptionKind,
        now: Timestamp,
    ) -> Result<(), PortError> {
        let Some(instance) = &claim.status.instance else { return Ok(()) };
        let capacity_type = match kind {
            InterruptionKind::SpotInterruption => CapacityType::Spot,
            InterruptionKind::CapacityReservation => CapacityType::Reserved,
            _ => return Ok(()),
        };
        let offering = UnavailableOffering {
            instance_type: instance.instance_type.clone(),
            zone: instance.zone.clone(),
            capacity_type,
            until: now.checked_add(UNAVAILABLE).unwrap_or(Timestamp::MAX),
            reason: kind.event_reason().to_owned(),
        };
        self.claims.mark_unavailable(&[offering]).await
    }

    fn tell(&self, kind: InterruptionKind, instance: &str, claim: &NodeClaim, action: &str) {
        let claim = Some(claim.name.as_str());
        self.context.log(&InterruptionReceived { kind: kind.event_reason(), instance, claim, action });
    }

    async fn publish(&self, claim: &NodeClaim, kind: InterruptionKind) {
        let warning = kind.takes_the_instance();
        let event = claim_event(&claim.name, "", warning, kind.event_reason(), kind.message());
        if let Err(error) = self.cluster.publish(&[event]).await {
            self.context.log(&Failed { what: "publish events", why: &error.to_string() });
        }
    }
}
