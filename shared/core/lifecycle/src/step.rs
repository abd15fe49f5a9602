//! The step: dispatch by phase, and the reasons for which a claim begins to leave.

use crate::effect::{Effect, Step};
use crate::observation::{Observation, Seen};
use crate::settings::Settings;
use crate::time::{after, elapsed};
use crate::{ending, joining, launch, reservation};
use jiff::Timestamp;
use nodeless_model::claim::{Termination, TerminationReason, condition};
use nodeless_model::object::{ObjectEvent, ObjectRef};
use nodeless_model::{ConditionStatus, InstanceState, Node, NodeClaim, Phase};
use std::time::Duration;

/// The next step of a claim. Pure: the same input gives the same step.
#[must_use]
pub fn step(claim: &NodeClaim, seen: &Observation, now: Timestamp, settings: &Settings) -> Step {
    let mut next = match reason_to_leave(claim, seen, now, settings) {
        Some((reason, message)) => leave(claim, seen, reason, &message, now),
        None => match claim.phase {
            Phase::Reserved => launch::reserved(claim, seen, now, settings),
            Phase::Launched => joining::launched(claim, seen, now, settings),
            Phase::Registered => joining::registered(claim, seen, now),
            Phase::Initialized => joining::initialized(claim, seen),
            Phase::Draining => ending::draining(claim, seen, now, settings),
            Phase::Terminating => ending::terminating(claim, seen, now, settings),
            Phase::Gone => ending::gone(claim, seen),
        },
    };
    joining::set_ready(&mut next.claim, now);
    let uid = seen.mirror.known().and_then(Option::as_ref).map_or("", |mirror| &mirror.uid);
    next.events.extend(transitions(claim, &next.claim, uid));
    if next.claim != *claim && next.claim.phase != Phase::Gone && !next.effects.contains(&Effect::MirrorClaim) {
        next.effects.push(Effect::MirrorClaim);
    }
    if matches!(claim.phase, Phase::Registered | Phase::Initialized) && !next.claim.phase.is_leaving() {
        reservation::relabel(&mut next, seen);
        // Last, since nothing waits for tags.
        joining::tag(&mut next, seen, settings);
    }
    next
}

/// An event for each condition whose status changed, as Karpenter publishes them; that of a condition which was not there
/// counts as unknown. `uid` is that of the NodeClaim object, empty when not known.
#[must_use]
pub fn transitions(before: &NodeClaim, after: &NodeClaim, uid: &str) -> Vec<ObjectEvent> {
    let changed = after.status.conditions.iter().filter_map(|condition| {
        let old = before.condition(&condition.kind).map_or(ConditionStatus::Unknown, |old| old.status);
        if old == condition.status {
            return None;
        }
        let mut text = format!(
            "Status condition transitioned, Type: {}, Status: {} -> {}, Reason: {}",
            condition.kind,
            old.as_str(),
            condition.status.as_str(),
            condition.reason
        );
        if !condition.message.is_empty() {
            text.push_str(&format!(", Message: {}", condition.message));
        }
        Some(claim_event(&after.name, uid, false, &condition.kind, &text))
    });
    changed.collect()
}

/// Why a claim that is not leaving yet has to, if it has.
fn reason_to_leave(
    claim: &NodeClaim,
    seen: &Observation,
    now: Timestamp,
    settings: &Settings,
) -> Option<(TerminationReason, String)> {
    use TerminationReason::{Deleted, Expired, InstanceMissing, Interrupted, NodePoolDeleted};
    if claim.phase.is_leaving() {
        return None;
    }
    if seen.mirror.known().and_then(Option::as_ref).is_some_and(|mirror| mirror.deletion_timestamp.is_some()) {
        return Some((Deleted, "the NodeClaim was deleted".to_owned()));
    }
    if let Some(node) = seen.nodes.known().into_iter().flatten().find(|node| node.deletion_timestamp.is_some()) {
        return Some((Deleted, format!("the Node {} was deleted", node.name)));
    }
    if seen.node_pool_exists == Seen::Known(false) && goes_with_its_pool(seen) {
        return Some((NodePoolDeleted, format!("the NodePool {} was deleted", claim.node_pool)));
    }
    if let Some(limit) = claim.spec.expire_after
        && elapsed(claim.created, now) >= limit
    {
        return Some((Expired, "it reached the age of its expireAfter".to_owned()));
    }
    let launched = claim.status.instance.as_ref().filter(|_| seen.zonal_shift.is_none())?;
    match seen.instance.known()? {
        Some(instance) => match instance.state {
            InstanceState::ShuttingDown | InstanceState::Terminated => {
                Some((InstanceMissing, format!("the instance {} was terminated by somebody else", instance.id)))
            }
            InstanceState::Stopping | InstanceState::Stopped => {
                Some((Interrupted, format!("the instance {} is stopping", instance.id)))
            }
            InstanceState::Pending | InstanceState::Running => None,
        },
        None => {
            let unseen_too_long = elapsed(launched.launched, now) >= settings.visible_after;
            let joined = claim.phase >= Phase::Registered;
            let no_node_answers = seen.nodes.known().is_some_and(|nodes| !nodes.iter().any(Node::is_ready));
            (unseen_too_long && joined && no_node_answers)
                .then(|| (InstanceMissing, format!("EC2 does not know the instance {} any more", launched.id)))
        }
    }
}

/// Whether the claim is deleted with its NodePool, as its owner. After `kubectl delete nodepool --cascade=orphan` it is not.
fn goes_with_its_pool(seen: &Observation) -> bool {
    match &seen.mirror {
        Seen::Known(Some(mirror)) => mirror.owner.is_some(),
        Seen::Known(None) => true,
        Seen::Unknown(_) => false,
    }
}

/// Begins to leave. The effects of leaving follow in the next step, once this one is written.
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
    let (name, warning) = match reason {
        TerminationReason::InsufficientCapacity => ("InsufficientCapacityError", true),
        TerminationReason::NodeClassNotReady => ("NodeClassNotReady", true),
        TerminationReason::LaunchTimeout => ("LaunchTimeout", true),
        TerminationReason::RegistrationTimeout => ("RegistrationTimeout", true),
        TerminationReason::Interrupted => ("TerminatingOnInterruption", true),
        _ => ("DisruptionTerminating", false),
    };
    step.events.push(claim_event(&claim.name, uid, warning, name, &format!("Disrupting NodeClaim: {message}")));
    if claim.status.instance.is_some() {
        step.effects.push(Effect::WakePlanner);
    }
    step.again()
}

/// Marks a claim as leaving, and says whether that changed anything. One that is leaving already keeps its reason; its
/// deadline is only ever brought forward.
///
/// The caller writes the record, conditionally, and wakes whoever looks after claims. From then on the steps do the rest.
pub fn begin_termination(claim: &mut NodeClaim, reason: TerminationReason, message: &str, now: Timestamp) -> bool {
    let deadline = match reason {
        TerminationReason::Unhealthy => Some(now),
        _ => claim.spec.termination_grace_period.map(|grace| after(now, grace)),
    };
    if claim.phase.is_leaving() {
        let Some(termination) = claim.status.termination.as_mut() else { return false };
        let sooner = deadline.is_some_and(|new| termination.deadline.is_none_or(|present| new < present));
        if sooner {
            termination.deadline = deadline;
        }
        return sooner;
    }
    claim.phase = Phase::Draining;
    claim.status.termination = Some(Termination { reason, message: message.to_owned(), requested: now, deadline });
    let disruption = match reason {
        TerminationReason::Empty => Some("Empty"),
        TerminationReason::Underutilized => Some("Underutilized"),
        TerminationReason::Drifted => Some("Drifted"),
        _ => None,
    };
    if let Some(disruption) = disruption {
        claim.set_condition(condition::DISRUPTION_REASON, ConditionStatus::True, disruption, message, now);
    }
    true
}

/// An event about a NodeClaim object. The uid is that of the object, empty when not known.
#[must_use]
pub fn claim_event(name: &str, uid: &str, warning: bool, reason: &str, message: &str) -> ObjectEvent {
    ObjectEvent {
        object: ObjectRef {
            api_version: "karpenter.sh/v1".to_owned(),
            kind: "NodeClaim".to_owned(),
            namespace: String::new(),
            name: name.to_owned(),
            uid: uid.to_owned(),
        },
        warning,
        reason: reason.to_owned(),
        message: message.to_owned(),
    }
}

/// An event about a node.
pub(crate) fn node_event(node: &Node, warning: bool, reason: &str, message: &str) -> ObjectEvent {
    ObjectEvent {
        object: ObjectRef {
            api_version: "v1".to_owned(),
            kind: "Node".to_owned(),
            namespace: String::new(),
            name: node.name.clone(),
            uid: node.uid.clone(),
        },
        warning,
        reason: reason.to_owned(),
        message: message.to_owned(),
    }
}

/// How long to wait before looking again at something that has been going on for so long: soon at first, then ever more
/// rarely, since each look costs an invocation.
pub(crate) fn patience(going_on_for: Duration, shortest: Duration, longest: Duration) -> Duration {
    (going_on_for / 8).clamp(shortest, longest)
}
