//! Warm nodes: the steps of a claim whose instance joins the cluster once, is stopped, and is started when pods need it.
//!
//! Each [`Phase`] is written before its call of EC2, and each call may be repeated, so that a process may end at any point.

use crate::begin_termination::leave;
use crate::effect::{Effect, Step};
use crate::observation::{Observation, Seen};
use crate::registration::{not_initialised_because, opening_patch};
use crate::settings::Settings;
use crate::termination::forget_node;
use crate::time::{after, elapsed};
use jiff::Timestamp;
use nodeless_model::claim::{Charge, TerminationReason, condition, reason};
use nodeless_model::instance::OfferingFailure;
use nodeless_model::object::{MirroredClaim, NodePatch};
use nodeless_model::{ConditionStatus, Instance, InstanceState, Node, NodeClaim, Phase, Pod, Quantity, ResourceList};
use std::time::Duration;

/// The interval of looks at a node that is prepared, and at an instance that is stopped or started.
const POLL: Duration = Duration::from_secs(5);
/// The interval of looks at an instance in a zone that is shifted away from.
const SHIFTED_POLL: Duration = Duration::from_mins(1);
/// The minimum time between registration and stop: by then the DaemonSet controller has created the pods of the node.
const REGISTERED_FOR: Duration = Duration::from_secs(20);
/// How long EC2 may take to stop an instance. It takes seconds, and a few minutes at most.
const STOPS_WITHIN: Duration = Duration::from_mins(10);
/// The reason of the condition Initialized of a node that is opened for pods because EC2 refuses to stop its instance.
const STOP_REFUSED: &str = "StopRefused";
/// How long an instance runs for pods of DaemonSets that do not become ready. Their images are most likely pulled by then.
const PREPARED_WITHIN: Duration = Duration::from_mins(5);

/// Whether nodeless stops or has stopped the instance, or started it within this time, in which EC2 may still report its earlier state.
#[must_use]
pub fn is_stopped_by_us(claim: &NodeClaim, now: Timestamp, reported_within: Duration) -> bool {
    let shows = |kind: &str, reason: &str| claim.condition(kind).is_some_and(|present| present.reason == reason);
    let is_off = || [reason::STOPPED, reason::WARMING].iter().any(|why| shows(condition::INITIALIZED, why));
    let launched = claim.status.instance.as_ref().map_or(claim.created, |instance| instance.launched);
    matches!(claim.phase, Phase::Stopping | Phase::Stopped | Phase::Starting)
        || (claim.phase.is_leaving() && is_off())
        || (shows(condition::LAUNCHED, reason::STARTED) && elapsed(launched, now) < reported_within)
}

/// The instance is neither stopped nor started in a zone that is shifted away from.
fn shifted(claim: &NodeClaim, shift: &str) -> Step {
    Step::stay(claim).hold(format!("the instance is neither stopped nor started while {shift}"), SHIFTED_POLL)
}

/// A claim whose node has joined, cordoned. It is stopped once the pods of DaemonSets are ready there.
///
/// A node that is not cordoned serves pods, and is no longer kept: a user uncordoned it, or this step did, because another pod tolerates
/// the cordon and runs there.
pub(crate) fn preparing(claim: &NodeClaim, seen: &Observation, now: Timestamp, settings: &Settings) -> Step {
    let mut step = Step::stay(claim);
    let since = claim.condition(condition::REGISTERED).map_or(claim.created, |present| present.last_transition_time);
    let nodes = match &seen.nodes {
        Seen::Known(nodes) => nodes,
        Seen::Unknown(why) => return step.wait_for("its node", why, POLL),
    };
    let refused = claim.condition(condition::INITIALIZED).is_some_and(|present| present.reason == STOP_REFUSED);
    if let [node] = nodes.as_slice()
        && refused
    {
        return serve_pods(step, node);
    }
    if elapsed(since, now) >= settings.registration_timeout {
        let message = "its node was not ready in time to be stopped as a warm node";
        return leave(claim, seen, TerminationReason::RegistrationTimeout, message, now);
    }
    let [node] = nodes.as_slice() else { return step.after(POLL) };
    if !node.unschedulable {
        return serve_pods(step, node);
    }
    let pods = match &seen.pods {
        Seen::Known(pods) => pods,
        Seen::Unknown(why) => return step.wait_for("the pods of its node", why, POLL),
    };
    if pods.iter().any(serves) {
        return serve_pods(step, node);
    }
    let patch = opening_patch(claim, node, seen, now);
    if patch != NodePatch::default() {
        step.effects.push(Effect::patch_node(node, patch));
        return step.again();
    }
    let waiting = waits_for(claim, node, seen, pods, elapsed(since, now));
    if let Some((reason, message)) = waiting {
        step.claim.set_condition(condition::INITIALIZED, ConditionStatus::Unknown, reason, &message, now);
        return step.after(POLL);
    }
    begin_stopping(&mut step.claim, now);
    step.again()
}

/// The node is an ordinary one from now on: it is uncordoned, if it is not yet.
fn serve_pods(mut step: Step, node: &Node) -> Step {
    if node.unschedulable {
        let patch = NodePatch { unschedulable: Some(false), ..NodePatch::default() };
        step.effects.push(Effect::patch_node(node, patch));
    } else {
        step.claim.phase = Phase::Registered;
    }
    step.again()
}

/// The instance is to be stopped. The condition has the time of that, and another table may have to recognize the state by the NodeClaim
/// object.
fn begin_stopping(claim: &mut NodeClaim, now: Timestamp) {
    claim.phase = Phase::Stopping;
    claim.clear_condition(condition::INITIALIZED);
    let message = "the instance is stopped as a warm node";
    claim.set_condition(condition::INITIALIZED, ConditionStatus::Unknown, reason::WARMING, message, now);
}

/// Whether a pod is one that the node exists for, so that its instance must not be stopped.
fn serves(pod: &Pod) -> bool {
    !pod.is_terminal() && !pod.is_owned_by_daemon_set() && !pod.is_owned_by_node()
}

/// Why a node that has been registered for this long is not stopped yet.
fn waits_for(
    claim: &NodeClaim,
    node: &Node,
    seen: &Observation,
    pods: &[Pod],
    registered: Duration,
) -> Option<(&'static str, String)> {
    let not_initialised = not_initialised_because(claim, node, seen);
    if not_initialised.is_some() {
        return not_initialised;
    }
    let starts = |pod: &&Pod| pod.is_active() && pod.ready != Some(true);
    let starting = pods.iter().filter(starts).count();
    let waits = registered < REGISTERED_FOR || (starting > 0 && registered < PREPARED_WITHIN);
    waits.then(|| {
        (reason::WARMING, format!("the pods of DaemonSets start, and {starting} of {} are not ready", pods.len()))
    })
}

/// A claim whose instance is being stopped. Its Node is deleted when EC2 reports that the instance is stopped.
pub(crate) fn stopping(claim: &NodeClaim, seen: &Observation, now: Timestamp) -> Step {
    if let Some(shift) = &seen.zonal_shift {
        return shifted(claim, shift);
    }
    let mut step = Step::stay(claim);
    let (instance, nodes) = match (&seen.instance, &seen.nodes) {
        (Seen::Known(instance), Seen::Known(nodes)) => (instance, nodes),
        (Seen::Unknown(why), _) => return step.wait_for("its instance", why, POLL),
        (_, Seen::Unknown(why)) => return step.wait_for("its node", why, POLL),
    };
    let since = claim.condition(condition::INITIALIZED).map_or(claim.created, |present| present.last_transition_time);
    match instance.as_ref().map(|instance| instance.state) {
        Some(state) if is_on(state) && nodes.iter().any(is_open) => {
            let has_joined = claim.has_condition(condition::REGISTERED);
            step.claim.phase = if has_joined { Phase::Registered } else { Phase::Launched };
            step.again()
        }
        Some(InstanceState::Stopped) if nodes.is_empty() => {
            has_stopped(&mut step, now);
            step
        }
        Some(InstanceState::Stopped) => {
            nodes.iter().for_each(|node| forget_node(&mut step, node));
            step.again()
        }
        _ if elapsed(since, now) >= STOPS_WITHIN => {
            let message = "EC2 did not stop its instance within ten minutes, as it has to for a warm node";
            leave(claim, seen, TerminationReason::Unhealthy, message, now)
        }
        Some(state) if is_on(state) => {
            step.effects.push(Effect::StopInstance);
            step.after(POLL)
        }
        _ => step.after(POLL),
    }
}

/// Records that the instance is stopped. It counts against no limit until it is started.
fn has_stopped(step: &mut Step, now: Timestamp) {
    let claim = &mut step.claim;
    claim.status.node_name = None;
    (claim.status.last_pod_event, claim.status.pods_seen) = (None, None);
    show_stopped(claim, now);
    step.charge = Some(Charge::default());
}

/// The phase and the conditions of a claim whose instance is stopped.
pub(crate) fn show_stopped(claim: &mut NodeClaim, now: Timestamp) {
    claim.phase = Phase::Stopped;
    for kind in [condition::REGISTERED, condition::INITIALIZED] {
        // The time of the stop, until which the instance is billed, stays that of the first report of it.
        if claim.condition(kind).is_none_or(|present| present.reason != reason::STOPPED) {
            claim.clear_condition(kind);
        }
        let message = "the instance is stopped as a warm node";
        claim.set_condition(kind, ConditionStatus::Unknown, reason::STOPPED, message, now);
    }
}

/// Whether pods may run on a node: nodeless registered it, and it is not cordoned. The record of its claim is then older than the node, such
/// as that of a deployment that serves the cluster again, or of a table that was restored: meanwhile the instance was started for pods.
fn is_open(node: &Node) -> bool {
    node.is_registered() && !node.unschedulable
}

/// The phase of the claim of an adopted instance whose node is as far as this, as its NodeClaim object shows it.
pub(crate) fn adopted(joined: Phase, instance: &Instance, mirror: Option<&MirroredClaim>) -> Phase {
    let shows = |kind: &str, reason: &str| mirror.is_some_and(|mirror| mirror.waits_because(kind) == Some(reason));
    let is_off = matches!(instance.state, InstanceState::Stopping | InstanceState::Stopped);
    let is_warming = shows(condition::INITIALIZED, reason::WARMING);
    match joined {
        _ if is_off && shows(condition::REGISTERED, reason::STOPPED) => Phase::Stopped,
        _ if is_off && is_warming => Phase::Stopping,
        Phase::Launched if is_warming => Phase::WarmLaunched,
        Phase::Registered if is_warming => Phase::Preparing,
        _ => joined,
    }
}

/// A claim whose instance is stopped. Another program may start or terminate it.
pub(crate) fn stopped(claim: &NodeClaim, seen: &Observation, now: Timestamp, settings: &Settings) -> Step {
    if let Some(shift) = &seen.zonal_shift {
        return shifted(claim, shift);
    }
    let mut step = Step::stay(claim);
    let Seen::Known(instance) = &seen.instance else { return step };
    let launched = claim.status.instance.as_ref().map_or(claim.created, |instance| instance.launched);
    match instance.as_ref().map(|instance| instance.state) {
        Some(state) if is_on(state) => match &seen.nodes {
            Seen::Unknown(why) => step.wait_for("its node", why, POLL),
            Seen::Known(nodes) if nodes.iter().any(is_open) => {
                step.charge = Some(charge(claim));
                has_started(&mut step, instance.as_ref(), now);
                step.again()
            }
            Seen::Known(_) => {
                begin_stopping(&mut step.claim, now);
                step.again()
            }
        },
        None if elapsed(launched, now) >= settings.visible_after => {
            leave(claim, seen, TerminationReason::InstanceMissing, "EC2 no longer lists its stopped instance", now)
        }
        _ => step,
    }
}

/// The charge of a claim whose instance runs.
fn charge(claim: &NodeClaim) -> Charge {
    let resources = claim.status.capacity.clone().with("nodes", Quantity::from_units(1));
    let price = claim.status.instance.as_ref().map_or(0.0, |instance| instance.price);
    let dollars_per_hour = price + claim.root_volume_price();
    Charge { resources, dollars_per_hour }
}

const fn is_on(state: InstanceState) -> bool {
    matches!(state, InstanceState::Pending | InstanceState::Running)
}

/// A claim that a plan took for pods. In a zone that is shifted away from, its pods get another node at once, and its instance is terminated
/// after the shift, because it is not known whether it runs.
pub(crate) fn starting(claim: &NodeClaim, seen: &Observation, now: Timestamp, settings: &Settings) -> Step {
    if let Some(shift) = &seen.zonal_shift {
        let message = format!("its stopped instance is not started while {shift}");
        return leave(claim, seen, TerminationReason::InsufficientCapacity, &message, now);
    }
    let mut step = Step::stay(claim);
    let since = claim.condition(condition::LAUNCHED).map_or(claim.created, |present| present.last_transition_time);
    let instance = match &seen.instance {
        Seen::Known(instance) => instance,
        Seen::Unknown(why) => return step.wait_for("its instance", why, POLL),
    };
    let state = instance.as_ref().map(|instance| instance.state);
    if let Some(running) = instance.as_ref().filter(|it| is_on(it.state)) {
        has_started(&mut step, Some(running), now);
        return step.again();
    }
    if elapsed(since, now) >= settings.launch_timeout {
        let message = "its stopped instance could not be started in time";
        return leave(claim, seen, TerminationReason::LaunchTimeout, message, now);
    }
    if state == Some(InstanceState::Stopped) {
        step.effects.push(Effect::StartInstance);
        return step.after(Duration::from_secs(1));
    }
    step.after(POLL)
}

/// Records that the instance runs again. Its node is looked for as that of a launch.
fn has_started(step: &mut Step, running: Option<&Instance>, now: Timestamp) {
    let claim = &mut step.claim;
    claim.phase = Phase::Launched;
    if let (Some(launched), Some(running)) = (&mut claim.status.instance, running) {
        // EC2 reports the time of the last start.
        launched.launched = running.launched.max(launched.launched);
    }
    claim.set_condition(condition::LAUNCHED, ConditionStatus::True, reason::STARTED, "", now);
    for kind in [condition::REGISTERED, condition::INITIALIZED] {
        claim.clear_condition(kind);
        claim.set_condition(kind, ConditionStatus::Unknown, "NodeNotFound", "Node not found", now);
    }
}

/// The claim of a stopped instance, taken for the pods of a planned node: it is charged again, and started by its next steps.
#[must_use]
pub fn take(claim: &NodeClaim, pods: Vec<String>, requests: ResourceList, now: Timestamp) -> NodeClaim {
    let mut taken = claim.clone();
    taken.phase = Phase::Starting;
    (taken.spec.nominated_pods, taken.spec.requests) = (pods, requests);
    taken.clear_condition(condition::LAUNCHED);
    taken.set_condition(
        condition::LAUNCHED,
        ConditionStatus::Unknown,
        "Starting",
        "the stopped instance is started",
        now,
    );
    crate::conditions::set_ready(&mut taken, now);
    taken
}

/// The step after EC2 refused to stop the instance for a reason that does not pass: the node is opened for pods. Nothing if the claim is no
/// longer one whose instance is to be stopped.
#[must_use]
pub fn not_stopped(claim: &NodeClaim, why: &str, now: Timestamp) -> Option<Step> {
    if claim.phase != Phase::Stopping {
        return None;
    }
    let mut step = Step::stay(claim);
    let has_joined = claim.has_condition(condition::REGISTERED);
    step.claim.phase = if has_joined { Phase::Preparing } else { Phase::WarmLaunched };
    step.claim.set_condition(condition::INITIALIZED, ConditionStatus::Unknown, STOP_REFUSED, why, now);
    if claim.spec.charge == Charge::default() {
        // Another program started it.
        step.charge = Some(charge(claim));
    }
    step.effects.push(Effect::MirrorClaim);
    Some(step)
}

/// The step after EC2 rejected the start of a stopped instance; nothing if the start is retried.
///
/// If EC2 lacks capacity, the claim is kept, stopped. If EC2 rejects the start for another reason that does not pass, the claim is
/// terminated, because the next one that is taken would be rejected, too. In both cases its pods get another node.
#[must_use]
pub fn not_started(
    claim: &NodeClaim,
    failure: &OfferingFailure,
    passes: bool,
    now: Timestamp,
    settings: &Settings,
) -> Option<Step> {
    if claim.phase != Phase::Starting || (passes && !failure.lacks_capacity) {
        return None;
    }
    if !failure.lacks_capacity {
        let message = format!("EC2 rejected the start of its stopped instance: {}", failure.message);
        let mut step = leave(claim, &Observation::default(), TerminationReason::LaunchTimeout, &message, now);
        crate::conditions::set_ready(&mut step.claim, now);
        step.effects.push(Effect::MirrorClaim);
        return Some(step);
    }
    let mut step = Step::stay(claim);
    has_stopped(&mut step, now);
    step.claim.spec.nominated_pods.clear();
    step.claim.set_condition(condition::LAUNCHED, ConditionStatus::True, "Launched", "", now);
    crate::conditions::set_ready(&mut step.claim, now);
    let until = after(now, settings.unavailable_for);
    step.effects = vec![
        Effect::MarkUnavailable { failures: vec![failure.clone()], until },
        Effect::MirrorClaim,
        Effect::PlanAtOnce,
    ];
    Some(step)
}
