//! The step from Reserved to Launched.

use crate::begin_termination::leave;
use crate::conditions::set_ready;
use crate::effect::{Effect, LaunchResult, Learned, Step};
use crate::group::{Owners, owned_by};
use crate::observation::{NodeClassState, Observation, Seen, SeenGroup};
use crate::settings::Settings;
use crate::time::{after, elapsed};
use crate::without_instance::{self, Own};
use jiff::Timestamp;
use nodeless_model::claim::{Charge, TerminationReason, condition};
use nodeless_model::instance::{InstanceState, LAUNCH_UNANSWERED, LaunchOutcome, OfferingFailure};
use nodeless_model::money::HOURS_PER_MONTH;
use nodeless_model::shortage::advice;
use nodeless_model::{ConditionStatus, Instance, NodeClaim, Phase, Quantity, RootVolume, labels};
use std::time::Duration;

/// EC2's codes for a client token that was used before, by a call that was accepted and whose answer was lost: with other
/// parameters, or for an instance that has been terminated since; and the code for an incomplete answer.
const UNANSWERED: [&str; 3] = ["IdempotentParameterMismatch", "IdempotentInstanceTerminated", LAUNCH_UNANSWERED];
/// CreateFleet's error codes for transient errors.
const PASSING: [&str; 7] = [
    "RequestLimitExceeded",
    "Throttling",
    "ThrottlingException",
    "InternalError",
    "InternalFailure",
    "ServiceUnavailable",
    "Unavailable",
];
/// After how many rejections a claim is not retried: with the delays between them, new objects are visible everywhere by then.
const REFUSALS: u32 = 3;
/// The delay until a claim whose launch was rejected checks again whether its EC2NodeClass is ready.
const REFUSED_AGAIN: Duration = Duration::from_secs(20);
/// The delay until the instances of a launch whose answer was lost are searched again.
const RECOVER_AGAIN: Duration = Duration::from_secs(10);
/// The maximum length of a condition's message in characters, as in Karpenter.
const MESSAGE_LENGTH: usize = 300;

/// Adds the initial conditions of a new claim.
pub fn prepare(claim: &mut NodeClaim) {
    let created = claim.created;
    for kind in [condition::LAUNCHED, condition::REGISTERED, condition::INITIALIZED] {
        claim.set_condition(kind, ConditionStatus::Unknown, "AwaitingReconciliation", "", created);
    }
    set_ready(claim, created);
}

/// Whether EC2 may have launched this group although its answer was lost or does not mention this claim.
pub(crate) const fn answer_was_lost(claim: &NodeClaim) -> bool {
    claim.status.answer_lost.is_some()
}

/// A claim that has no instance yet.
pub(crate) fn reserved(claim: &NodeClaim, seen: &Observation, now: Timestamp, settings: &Settings) -> Step {
    let mut step = Step::stay(claim);
    if !answer_was_lost(claim) && was_launched(claim, seen) {
        (step.claim.status.launch_asked, step.claim.status.answer_lost) = (true, Some(now));
        return step.again();
    }
    let since = claim.condition(condition::LAUNCHED).map_or(claim.created, |launched| launched.last_transition_time);
    if elapsed(since.max(claim.status.answer_lost.unwrap_or(since)), now) >= settings.launch_timeout {
        let why = claim.condition(condition::LAUNCHED).map_or("", |launched| &launched.message);
        return leave(
            claim,
            seen,
            TerminationReason::LaunchTimeout,
            &format!("it could not be launched in time; {why}"),
            now,
        );
    }
    let node_class = &claim.node_class;
    let not_ready = |why: &str| {
        leave(claim, seen, TerminationReason::NodeClassNotReady, &format!("the EC2NodeClass {node_class} {why}"), now)
    };
    match &seen.node_class {
        Seen::Unknown(why) => {
            return step.wait_for(&format!("the EC2NodeClass {node_class}"), why, retry_delay(claim));
        }
        Seen::Known(NodeClassState::Missing) => return not_ready("does not exist"),
        Seen::Known(NodeClassState::Terminating) => return not_ready("is being deleted"),
        Seen::Known(NodeClassState::NotReady { message }) => return not_ready(&format!("is not ready: {message}")),
        Seen::Known(NodeClassState::NotYetKnown) => {
            let message = format!("the EC2NodeClass {node_class} has not been resolved yet");
            launch_unknown(&mut step.claim, "NodeClassReadinessUnknown", &message, now);
            return step.after(retry_delay(claim));
        }
        Seen::Known(NodeClassState::Ready) => {}
    }
    if is_refused(claim) {
        return step.after(REFUSED_AGAIN);
    }
    if !answer_was_lost(claim) {
        // From here on the claim is not deleted without searching its instance in EC2.
        step.claim.status.launch_asked = true;
        step.effects.push(Effect::Launch);
        return step.after(retry_delay(claim));
    }
    match &seen.launch_group {
        Seen::Unknown(why) => step.wait_for("the instances of its launch group", why, retry_delay(claim)),
        Seen::Known(group) => recover(step, claim, group, seen, now, settings),
    }
}

/// Whether the NodeClaim object of a claim without an instance shows that it had one: the table was restored to a time before the launch.
/// Another launch might be refused, or EC2 might answer it with other instances.
fn was_launched(claim: &NodeClaim, seen: &Observation) -> bool {
    let mirror = seen.mirror.known().and_then(Option::as_ref);
    mirror.is_some_and(|mirror| {
        let launched = mirror.conditions.get(condition::LAUNCHED);
        mirror.record_uid.as_ref() == Some(&claim.uid)
            && mirror.provider_id.is_some()
            && launched.is_some_and(|(status, _)| status == ConditionStatus::True.as_str())
    })
}

/// Searches the instance of a launch without an answer. EC2 lists an instance some time after its launch, and its tags later, so
/// only after that is it certain that nothing was launched.
fn recover(
    mut step: Step,
    claim: &NodeClaim,
    group: &SeenGroup,
    seen: &Observation,
    now: Timestamp,
    settings: &Settings,
) -> Step {
    let mut left = without_instance::left_over(claim, group);
    left.retain(Instance::is_alive);
    if !left.is_empty() {
        step.effects.push(Effect::Recover { instances: left });
        return step.after(RECOVER_AGAIN);
    }
    let since = claim.status.answer_lost.unwrap_or(claim.created);
    match without_instance::own(claim, group) {
        Own::Ended => {
            leave(claim, seen, TerminationReason::InstanceMissing, "its instance ended before it was known", now)
        }
        Own::None if elapsed(since, now) >= settings.visible_after => {
            let message = "EC2 gave no answer to its launch, or an empty one, and lists no instance for it";
            leave(claim, seen, TerminationReason::InsufficientCapacity, message, now)
        }
        Own::None | Own::Listed | Own::Unlisted => step.after(RECOVER_AGAIN),
    }
}

/// The part of a launch's outcome that belongs to one claim; `learn` returns the catalog's data about its instance.
/// For a group of several, `owners` has the owner of each instance.
pub fn result_for(
    claim: &NodeClaim,
    outcome: &LaunchOutcome,
    owners: &Owners,
    learn: impl FnOnce(&Instance) -> Learned,
) -> LaunchResult {
    let own = owned_by(owners, &claim.name);
    match own.and_then(|id| outcome.instances.iter().find(|instance| instance.id == id)) {
        Some(instance) => {
            LaunchResult::Launched { learned: Box::new(learn(instance)), instance: Box::new(instance.clone()) }
        }
        // The claim has an instance that this answer does not contain.
        None if own.is_some() => LaunchResult::NothingLaunched { failures: Vec::new(), others_launched: true },
        None => LaunchResult::NothingLaunched {
            failures: outcome.failures.clone(),
            others_launched: !outcome.instances.is_empty(),
        },
    }
}

/// The step that follows from the result of a launch. Safe to repeat, and safe for a claim whose termination began
/// while the launch was in progress: its instance is then recorded so that it is terminated.
#[must_use]
pub fn absorb(claim: &NodeClaim, result: &LaunchResult, now: Timestamp, settings: &Settings) -> Step {
    let mut step = match result {
        LaunchResult::Launched { instance, learned } => launched(claim, instance, learned, now),
        LaunchResult::NothingLaunched { failures, others_launched } if claim.phase >= Phase::Launched => {
            let mut step = Step::stay(claim);
            let known = claim.status.instance.is_some() || claim.phase == Phase::Gone;
            step.claim.status.launch_denied |= !known && is_denied(failures, *others_launched);
            step
        }
        _ if claim.phase >= Phase::Launched => Step::stay(claim),
        LaunchResult::NothingLaunched { failures, .. } if failures.is_empty() => {
            let message = "EC2 answered without an instance for it and without a reason; its instance is looked for by the \
                           tag of its launch group";
            unanswered(claim, LAUNCH_UNANSWERED, message, now)
        }
        LaunchResult::NothingLaunched { failures, others_launched } => {
            nothing_launched(claim, failures, *others_launched, now, settings)
        }
        LaunchResult::NoOffering { message } => no_capacity(claim, message, now),
        LaunchResult::Failed { code, message, retryable } => {
            let reason = if code.is_empty() { "LaunchFailed" } else { code };
            if UNANSWERED.contains(&code.as_str()) {
                unanswered(claim, reason, message, now)
            } else if *retryable {
                try_again(claim, reason, message, now)
            } else {
                refused(claim, reason, message, now)
            }
        }
    };
    set_ready(&mut step.claim, now);
    step.events.extend(crate::events::transitions(claim, &step.claim, ""));
    if step.claim != *claim && claim.phase != Phase::Gone {
        step.effects.push(Effect::MirrorClaim);
    }
    step
}

/// In the order of their ids and without duplicates, so that equal lists compare equal.
fn sorted(ids: &[String]) -> Vec<String> {
    let mut ids = ids.to_vec();
    ids.sort();
    ids.dedup();
    ids
}

/// The claim with the network and reservation that EC2 reports for its instance now, which may change while it runs;
/// `None` if nothing changed. Fields that EC2 leaves out stay as they are, except the reservation.
#[must_use]
pub fn moved(claim: &NodeClaim, instance: &Instance) -> Option<NodeClaim> {
    if claim.phase.is_leaving() || !matches!(instance.state, InstanceState::Pending | InstanceState::Running) {
        return None;
    }
    let mut next = claim.clone();
    let launched = next.status.instance.as_mut().filter(|launched| launched.id == instance.id)?;
    if instance.subnet_id.is_some() {
        launched.subnet_id.clone_from(&instance.subnet_id);
    }
    if !instance.security_group_ids.is_empty() {
        launched.security_group_ids = sorted(&instance.security_group_ids);
    }
    launched.reservation_id.clone_from(&instance.reservation_id);
    launched.certificate_authority = instance.tags.get(labels::CERTIFICATE_AUTHORITY).cloned();
    (next != *claim).then_some(next)
}

fn launched(claim: &NodeClaim, instance: &Instance, learned: &Learned, now: Timestamp) -> Step {
    let mut step = Step::stay(claim);
    if claim.status.instance.is_some() || claim.phase == Phase::Gone {
        return step;
    }
    let next = &mut step.claim;
    next.status.instance = Some(instance.launched_for(learned.price));
    next.status.answer_lost = None;
    next.status.labels.clone_from(&learned.labels);
    next.status.awaits_partition = learned.awaits_partition;
    next.status.labels.insert(labels::INSTANCE_TENANCY.to_owned(), claim.tenancy().to_owned());
    next.status.capacity.clone_from(&learned.capacity);
    next.status.allocatable.clone_from(&learned.allocatable);
    note_root_volume(next, learned.root_volume);
    next.set_condition(condition::LAUNCHED, ConditionStatus::True, "Launched", "", now);
    // The node is searched from now on. The condition is written now, so that the claim is not written again until the node joins.
    let since = claim.condition(condition::REGISTERED).map_or(claim.created, |present| present.last_transition_time);
    next.set_condition(condition::REGISTERED, ConditionStatus::Unknown, "NodeNotFound", "Node not found", since);
    match next.phase {
        Phase::Reserved | Phase::WarmReserved => {
            next.phase = if claim.is_warm() { Phase::WarmLaunched } else { Phase::Launched };
            next.set_condition(condition::REGISTERED, ConditionStatus::Unknown, "NodeNotFound", "Node not found", now);
        }
        // A claim without an instance is not drained. Its node may have joined since: after a restore of the claims table, even
        // long ago.
        Phase::Terminating => next.phase = Phase::Draining,
        _ => {}
    }
    if !learned.capacity.is_empty() && !claim.is_standalone() {
        let resources = learned.capacity.clone().with("nodes", Quantity::from_units(1));
        let dollars_per_hour = learned.price + step.claim.root_volume_price();
        step.charge = Some(Charge { resources, dollars_per_hour });
    }
    step.after(Duration::from_secs(5))
}

/// Notes the root volume of the instance, and what it costs beyond that of the EC2NodeClass.
fn note_root_volume(claim: &mut NodeClaim, volume: Option<RootVolume>) {
    claim.status.root_volume = volume;
    if let (Some(volume), Some(dollars)) = (volume, &mut claim.spec.volumes_per_month) {
        *dollars += volume.dollars_per_hour * HOURS_PER_MONTH;
    }
}

/// The error in an answer that has to be fixed or retried before anything is launched.
fn blocking_failure(failures: &[OfferingFailure], others_launched: bool) -> Option<&OfferingFailure> {
    failures.iter().find(|failure| !failure.lacks_capacity).filter(|_| !others_launched)
}

/// Whether a claim without an instance in the answer will get none: EC2 reports why there are fewer than requested.
/// Without a reason this is unknown.
fn is_denied(failures: &[OfferingFailure], others_launched: bool) -> bool {
    !failures.is_empty() && blocking_failure(failures, others_launched).is_none()
}

fn nothing_launched(
    claim: &NodeClaim,
    failures: &[OfferingFailure],
    others_launched: bool,
    now: Timestamp,
    settings: &Settings,
) -> Step {
    let mut step = match blocking_failure(failures, others_launched) {
        Some(failure) => {
            let again = if PASSING.contains(&failure.code.as_str()) { try_again } else { refused };
            let mut step = again(claim, &failure.code, &failure.message, now);
            step.claim.status.launches_spent += 1;
            step
        }
        None => {
            let mut step = no_capacity(claim, &why_none(failures), now);
            step.claim.status.launch_denied = is_denied(failures, others_launched);
            step
        }
    };
    let lacking: Vec<OfferingFailure> = failures.iter().filter(|failure| failure.lacks_capacity).cloned().collect();
    if !lacking.is_empty() {
        let until = after(now, settings.unavailable_for);
        step.effects.insert(0, Effect::MarkUnavailable { failures: lacking, until });
    }
    step
}

/// The failure that is reported for all: one that a user can do something about, if there is one.
fn why_none(failures: &[OfferingFailure]) -> String {
    let advised = failures.iter().find(|failure| advice(&failure.code).is_some());
    let Some(failure) = advised.or(failures.first()) else { return String::new() };
    let advice = advice(&failure.code).map_or_else(String::new, |advice| format!(" ({advice})"));
    let OfferingFailure { instance_type, capacity_type, zone, code, message, .. } = failure;
    // EC2's own message is last, because it is the longest.
    format!("{instance_type} {capacity_type} in {zone}: {code}{advice}: {message}")
}

fn no_capacity(claim: &NodeClaim, message: &str, now: Timestamp) -> Step {
    let message: String = message.chars().take(MESSAGE_LENGTH).collect();
    leave(claim, &Observation::default(), TerminationReason::InsufficientCapacity, &message, now)
}

fn try_again(claim: &NodeClaim, reason: &str, message: &str, now: Timestamp) -> Step {
    let mut step = Step::stay(claim);
    step.claim.status.launch_attempts = claim.status.launch_attempts.saturating_add(1);
    launch_unknown(&mut step.claim, reason, message, now);
    let delay = retry_delay(&step.claim);
    step.after(delay)
}

/// A launch that may have launched instances, which have to be searched.
fn unanswered(claim: &NodeClaim, reason: &str, message: &str, now: Timestamp) -> Step {
    let mut step = try_again(claim, reason, message, now);
    step.claim.status.answer_lost.get_or_insert(now);
    step
}

/// A launch that EC2 rejected for a permanent reason is retried a few times, because new objects are not visible everywhere at
/// once. After that the claim prevents its pods from causing the next launch until it times out.
fn refused(claim: &NodeClaim, reason: &str, message: &str, now: Timestamp) -> Step {
    let mut step = try_again(claim, reason, message, now);
    let refusals = &mut step.claim.status.launch_refusals;
    *refusals = refusals.saturating_add(1);
    if *refusals >= REFUSALS {
        let message: String = message.chars().take(MESSAGE_LENGTH).collect();
        step.claim.set_condition(condition::LAUNCHED, ConditionStatus::False, reason, &message, now);
    }
    // Once for a group: its members are rejected together.
    let reports_event = claim.spec.launch_group.as_ref().is_none_or(|group| group.index == 0);
    if reports_event && claim.status.launch_refusals == 0 {
        step.effects.push(Effect::ReportRefusal { message: message.to_owned() });
    }
    step
}

/// Whether EC2 has rejected the launch permanently.
fn is_refused(claim: &NodeClaim) -> bool {
    claim.condition(condition::LAUNCHED).is_some_and(|launched| launched.status == ConditionStatus::False)
}

fn launch_unknown(claim: &mut NodeClaim, reason: &str, message: &str, now: Timestamp) {
    let message: String = message.chars().take(MESSAGE_LENGTH).collect();
    if claim.condition(condition::LAUNCHED).is_none() {
        // The timeout counts from this condition's transition, so that must not be later than the claim's creation.
        claim.set_condition(condition::LAUNCHED, ConditionStatus::Unknown, reason, &message, claim.created);
    } else {
        claim.set_condition(condition::LAUNCHED, ConditionStatus::Unknown, reason, &message, now);
    }
}

/// Doubles from a second to a minute with each failed attempt, plus up to half as much depending on the claim, so that claims
/// that were throttled together do not retry together. It is deterministic, so that a replay has the same result.
fn retry_delay(claim: &NodeClaim) -> Duration {
    let delay = Duration::from_secs(1 << claim.status.launch_attempts.min(6)).min(Duration::from_mins(1));
    let spread = claim
        .uid
        .bytes()
        .fold(claim.status.launch_attempts, |hash, byte| hash.wrapping_mul(31).wrapping_add(u32::from(byte)));
    delay + delay * (spread % 100) / 200
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn delays(attempts: u32) -> BTreeSet<Duration> {
        let claims = (0..50).map(|number| {
            let mut claim = crate::tests::reserved();
            claim.uid = format!("uid-{number}");
            claim.status.launch_attempts = attempts;
            claim
        });
        claims.map(|claim| retry_delay(&claim)).collect()
    }

    #[test]
    fn claims_that_failed_together_come_back_apart_and_within_bounds() {
        for (attempts, seconds) in [(1, 2), (3, 8), (6, 60), (40, 60)] {
            let delays = delays(attempts);
            let (least, most) = (Duration::from_secs(seconds), Duration::from_secs(seconds) * 3 / 2);
            assert!(delays.iter().all(|delay| (least..most).contains(delay)), "{delays:?}");
            assert!(delays.len() > 20, "{delays:?}");
        }
    }
}
