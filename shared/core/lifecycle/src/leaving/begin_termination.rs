//! The start of a claim's termination.

use crate::effect::{Effect, Step};
use crate::observation::Observation;
use crate::time::after;
use jiff::Timestamp;
use nodeless_model::claim::{Termination, TerminationReason, condition};
use nodeless_model::events;
use nodeless_model::object::ObjectRef;
use nodeless_model::{ConditionStatus, NodeClaim, Phase};
use std::time::Duration;

/// Begins the termination. Its effects follow in the next step, after this one is written.
pub(crate) fn leave(
    claim: &NodeClaim,
    seen: &Observation,
    reason: TerminationReason,
    message: &str,
    now: Timestamp,
) -> Step {
    let mut step = Step::stay(claim);
    begin_termination(&mut step.claim, reason, message, now);
    let uid = seen.mirror.known().and_then(Option::as_ref).map_or("", |mirror| &mirror.uid);
    let event = match reason {
        TerminationReason::InsufficientCapacity => events::insufficient_capacity,
        TerminationReason::NodeClassNotReady => events::node_class_not_ready,
        TerminationReason::LaunchTimeout => events::launch_timeout,
        TerminationReason::RegistrationTimeout => events::registration_timeout,
        TerminationReason::Interrupted => events::interruption_terminating,
        _ => events::disruption_terminating,
    };
    step.events.push(event(ObjectRef::node_claim(&claim.name, uid), message));
    if claim.status.instance.is_some() {
        step.effects.push(wake_planner(Some(reason)));
    }
    step.again()
}

/// The request for a plan for the pods of a claim that is terminated for this reason.
pub(crate) fn wake_planner(reason: Option<TerminationReason>) -> Effect {
    if reason.is_some_and(TerminationReason::is_failed_launch) { Effect::PlanAtOnce } else { Effect::WakePlanner }
}

/// Marks a claim as terminating, and returns whether that changed anything. A claim that is already terminating keeps its reason;
/// its deadline can only become earlier, and a drain does not wait for successors of pods after an interruption.
///
/// The caller writes the record conditionally and wakes lifecycle. The following steps do the rest.
pub fn begin_termination(claim: &mut NodeClaim, reason: TerminationReason, message: &str, now: Timestamp) -> bool {
    let within = match reason {
        TerminationReason::Unhealthy => Some(Duration::ZERO),
        _ => claim.spec.termination_grace_period,
    };
    begin_termination_within(claim, reason, message, within, now)
}

/// [`begin_termination`] with a drain that ends forcefully after this time; `None` means never.
pub fn begin_termination_within(
    claim: &mut NodeClaim,
    reason: TerminationReason,
    message: &str,
    within: Option<Duration>,
    now: Timestamp,
) -> bool {
    let deadline = within.map(|within| after(now, within));
    if claim.phase.is_leaving() {
        // A drain that waits for successors of pods has no more time for that.
        let known = claim.status.termination.as_ref().is_some_and(|end| end.reason == TerminationReason::Interrupted);
        let is_news = reason == TerminationReason::Interrupted
            && claim.phase == Phase::Draining
            && claim.status.interrupted.is_none()
            && !known;
        if is_news {
            claim.status.interrupted = Some(now);
        }
        let Some(termination) = claim.status.termination.as_mut() else { return is_news };
        let sooner = deadline.is_some_and(|new| termination.deadline.is_none_or(|present| new < present));
        if sooner {
            termination.deadline = deadline;
        }
        return sooner || is_news;
    }
    claim.phase = Phase::Draining;
    claim.status.termination = Some(Termination { reason, message: message.to_owned(), requested: now, deadline });
    let disruption = match reason {
        TerminationReason::Empty => Some("Empty"),
        TerminationReason::Underutilized => Some("Underutilized"),
        TerminationReason::Drifted => Some("Drifted"),
        TerminationReason::Repaired => Some("Unhealthy"),
        TerminationReason::Unbalanced => Some("Unbalanced"),
        _ => None,
    };
    if let Some(disruption) = disruption {
        claim.set_condition(condition::DISRUPTION_REASON, ConditionStatus::True, disruption, message, now);
    }
    true
}
