//! Reboots by node repair: the node is drained, its instance is rebooted, and its return is awaited.
//!
//! ```text
//! RebootRequested: taint, drain -> RebootIssued: call of EC2, another boot id, ready -> RebootSucceeded
//!                                                                             \-----> RebootFailed: the node is replaced
//! ```
//!
//! RebootInstances has no client token. So a call is written before it is made, and repeated only while the node is ready with the boot id
//! that it had before the first call: after a crash, EC2 is called once more only if it has rebooted nothing. If EC2 cannot be called, the
//! reboot ends as if it had not been requested (`RebootNotAttempted`).

use crate::drain::drain;
use crate::effect::{Effect, Step};
use crate::observation::{Observation, Seen};
use crate::registration::not_initialised_because;
use crate::settings::Settings;
use crate::termination::move_pods;
use crate::time::{after, elapsed, poll_delay};
use jiff::Timestamp;
use nodeless_model::claim::{Reboot, RebootCall, RebootEnd, condition};
use nodeless_model::events::reboot_failed;
use nodeless_model::object::{NodePatch, ObjectRef};
use nodeless_model::{ConditionStatus, InstanceState, Node, NodeClaim, Phase, Taint, labels};
use std::time::Duration;

/// The interval of looks at a node that reboots, as in Karpenter.
const POLL: Duration = Duration::from_secs(15);
/// How long after its drain a node waits for the call of EC2, which is not made while the instance is unknown or its zone is shifted away
/// from.
const CALLED_WITHIN: Duration = Duration::from_hours(1);
/// How long a node may take to be ready again after the call, as in Karpenter.
const BACK_WITHIN: Duration = Duration::from_mins(20);
/// When the call is repeated if the node still runs: EC2 forces a reboot if the operating system does not shut down within a few
/// minutes.
const REPEATED_AFTER: Duration = Duration::from_mins(5);

/// Requests a reboot for this unhealthy condition, with a drain of at most this time. The caller writes the record conditionally and wakes
/// lifecycle.
pub fn request(claim: &mut NodeClaim, why: &str, drain: Duration, now: Timestamp) {
    claim.status.reboots = claim.recent_reboots(now).cloned().collect();
    let drained_by = after(now, drain);
    let reboot = Reboot { why: why.to_owned(), requested: now, drained_by, call: None, end: None };
    claim.status.reboots.push(reboot);
    claim.set_condition(condition::REBOOTING, ConditionStatus::True, "RebootRequested", why, now);
}

/// Whether a step of the claim uses the pods of its node.
pub(crate) fn needs_pods(claim: &NodeClaim) -> bool {
    claim.rebooting().is_some_and(|reboot| reboot.call.is_none())
}

/// The step of a claim whose instance is being rebooted.
pub(crate) fn step(claim: &NodeClaim, seen: &Observation, now: Timestamp, settings: &Settings) -> Option<Step> {
    let reboot = claim.rebooting().filter(|_| claim.phase == Phase::Initialized)?;
    let step = Step::stay(claim);
    let nodes = match &seen.nodes {
        Seen::Known(nodes) => nodes,
        Seen::Unknown(why) => return Some(step.wait_for("its node", why, POLL)),
    };
    match &reboot.call {
        Some(call) if elapsed(call.first, now) >= BACK_WITHIN => return Some(failed(step, seen, now)),
        None if elapsed(reboot.drained_by, now) >= CALLED_WITHIN => return Some(not_attempted(step, now)),
        _ => {}
    }
    let [node] = nodes.as_slice() else { return Some(step.after(POLL)) };
    Some(match &reboot.call {
        None => draining(step, node, seen, now, settings),
        Some(call) => returning(step, call, node, seen, now),
    })
}

/// A node before its reboot. Pods that are still there when the drain ends restart with the node.
fn draining(mut step: Step, node: &Node, seen: &Observation, now: Timestamp, settings: &Settings) -> Step {
    let Some(reboot) = step.claim.rebooting().cloned() else { return step };
    if !node.has_taint(&Taint::rebooting()) {
        let patch = NodePatch { add_taints: vec![Taint::rebooting()], ..NodePatch::default() };
        step.effects.push(Effect::patch_node(node, patch));
        return step.again();
    }
    let pods = match &seen.pods {
        Seen::Known(pods) => pods,
        Seen::Unknown(why) => return step.wait_for("the pods of its node", why, POLL),
    };
    let plan = drain(pods, None, now);
    let lasting = elapsed(reboot.requested, now);
    if lasting < settings.minimum_drain || (plan.waiting > 0 && now < reboot.drained_by) {
        move_pods(&mut step, std::slice::from_ref(node), pods, plan);
        return step.after(poll_delay(lasting, Duration::from_secs(1), Duration::from_secs(20)));
    }
    if let Seen::Unknown(why) = &seen.instance {
        return step.wait_for("its instance", why, POLL);
    }
    if let Some(id) = running(seen) {
        let call = RebootCall { boot_id: node.boot_id.clone(), first: now, last: now };
        step.claim.set_condition(condition::REBOOTING, ConditionStatus::True, "RebootIssued", &reboot.why, now);
        let message = "the instance is rebooted";
        step.claim.set_condition(condition::INITIALIZED, ConditionStatus::Unknown, "Rebooting", message, now);
        ask(&mut step, call, id);
    }
    step.after(POLL)
}

/// A node after the call of EC2 that reboots its instance.
fn returning(mut step: Step, call: &RebootCall, node: &Node, seen: &Observation, now: Timestamp) -> Step {
    if node.boot_id.is_empty() || node.boot_id == call.boot_id {
        if node.is_initialized() {
            let remove_labels = vec![labels::INITIALIZED.to_owned()];
            step.effects.push(Effect::patch_node(node, NodePatch { remove_labels, ..NodePatch::default() }));
        }
        let still_runs = node.is_ready() && elapsed(call.last, now) >= REPEATED_AFTER;
        if let Some(id) = running(seen).filter(|_| still_runs) {
            ask(&mut step, RebootCall { last: now, ..call.clone() }, id);
        }
        return step.after(POLL);
    }
    if node.has_taint(&Taint::rebooting()) {
        let patch = NodePatch { remove_taints: vec![Taint::rebooting()], ..NodePatch::default() };
        step.effects.push(Effect::patch_node(node, patch));
        return step.again();
    }
    if let Some((reason, message)) = not_initialised_because(&step.claim, node, seen) {
        step.claim.set_condition(condition::INITIALIZED, ConditionStatus::Unknown, reason, &message, now);
        return step.after(POLL);
    }
    end(&mut step, true, "the node is ready after the reboot", now);
    step.again()
}

/// The instance, if EC2 is to be called for it: it is known to run, and its zone is not shifted away from.
fn running(seen: &Observation) -> Option<String> {
    let instance = seen.instance.known()?.as_ref().filter(|_| seen.zonal_shift.is_none())?;
    (instance.state == InstanceState::Running).then(|| instance.id.clone())
}

fn ask(step: &mut Step, call: RebootCall, id: String) {
    if let Some(reboot) = step.claim.status.reboots.last_mut() {
        reboot.call = Some(call);
        step.effects.push(Effect::RebootInstance { id });
    }
}

/// EC2 was not called in time: the next plan decides again. The reboot does not count, because there was none.
fn not_attempted(mut step: Step, now: Timestamp) -> Step {
    step.claim.status.reboots.pop();
    let minutes = CALLED_WITHIN.as_secs() / 60;
    let message = format!(
        "the instance was not rebooted, because EC2 could not be called within {minutes} minutes of the drain: node repair decides again"
    );
    step.claim.set_condition(condition::REBOOTING, ConditionStatus::False, "RebootNotAttempted", &message, now);
    step.effects.push(Effect::WakePlanner);
    step.again()
}

/// The node was not ready in time: the next plan replaces it.
fn failed(mut step: Step, seen: &Observation, now: Timestamp) -> Step {
    let minutes = BACK_WITHIN.as_secs() / 60;
    let message = format!("the node was not ready within {minutes} minutes of the reboot: node repair replaces it");
    end(&mut step, false, &message, now);
    let uid = seen.mirror.known().and_then(Option::as_ref).map_or("", |mirror| &mirror.uid);
    step.events.push(reboot_failed(ObjectRef::node_claim(&step.claim.name, uid), &message));
    step.effects.push(Effect::WakePlanner);
    step.again()
}

fn end(step: &mut Step, succeeded: bool, message: &str, now: Timestamp) {
    if let Some(reboot) = step.claim.status.reboots.last_mut() {
        reboot.end = Some(RebootEnd { at: now, succeeded });
    }
    let reason = if succeeded { "RebootSucceeded" } else { "RebootFailed" };
    step.claim.set_condition(condition::REBOOTING, ConditionStatus::False, reason, message, now);
}
