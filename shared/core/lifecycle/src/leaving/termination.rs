//! The steps from Draining through Terminating to Gone.

use crate::begin_termination::wake_planner;
use crate::drain::{Drain, drain};
use crate::effect::{Effect, Step};
use crate::observation::{Observation, Seen};
use crate::settings::Settings;
use crate::time::{TERMINATION_POLL, elapsed, poll_delay};
use crate::{surge, without_instance};
use jiff::Timestamp;
use nodeless_model::claim::condition;
use nodeless_model::events::{awaiting_volume_detachment, failed_draining, termination_grace_period_expiring};
use nodeless_model::object::{NodePatch, ObjectEvent, ObjectRef};
use nodeless_model::{ConditionStatus, InstanceState, Node, NodeClaim, Phase, StringMap, Taint, TaintEffect, labels};
use std::time::Duration;

/// How often a claim is checked whose instance waits for the end of a zonal shift.
const SHIFTED_POLL: Duration = Duration::from_mins(1);
/// The minimum time that EC2 usually takes to terminate an instance.
const SHUTTING_DOWN: Duration = Duration::from_secs(20);

/// The state of an instance that is being terminated.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Remains {
    Alive,
    ShuttingDown,
    Nothing,
}

/// The remains of the claim's instance. An unknown id may belong to an instance that EC2 does not list yet.
fn remains(claim: &NodeClaim, seen: &Observation, now: Timestamp, settings: &Settings) -> Result<Remains, String> {
    let Some(launched) = &claim.status.instance else { return Ok(Remains::Nothing) };
    if seen.zonal_shift.is_some() {
        return Ok(Remains::Alive);
    }
    match &seen.instance {
        Seen::Unknown(why) => Err(why.clone()),
        Seen::Known(None) if elapsed(launched.launched, now) < settings.visible_after => Ok(Remains::Alive),
        Seen::Known(None) => Ok(Remains::Nothing),
        Seen::Known(Some(instance)) => Ok(match instance.state {
            InstanceState::Terminated => Remains::Nothing,
            InstanceState::ShuttingDown => Remains::ShuttingDown,
            _ => Remains::Alive,
        }),
    }
}

/// Whether pods may have been scheduled to a node: it was registered, or joined without the taint of unregistered nodes. The node
/// is registered before the record is updated, and the process may end in between.
fn is_open_to_pods(node: &Node) -> bool {
    node.is_registered() || !node.has_taint(&Taint::unregistered())
}

/// A claim whose node is being drained.
pub(crate) fn draining(claim: &NodeClaim, seen: &Observation, now: Timestamp, settings: &Settings) -> Step {
    let mut step = Step::stay(claim);
    if claim.status.instance.is_none() {
        step.claim.phase = Phase::Terminating;
        return step.again();
    }
    let nodes = match &seen.nodes {
        Seen::Known(nodes) => nodes,
        Seen::Unknown(why) => return step.wait_for("its node", why, TERMINATION_POLL),
    };
    let remains = match remains(claim, seen, now, settings) {
        Ok(remains) => remains,
        Err(why) => return step.wait_for("its instance", &why, TERMINATION_POLL),
    };
    let recognised = claim.has_condition(condition::REGISTERED) || nodes.iter().any(is_open_to_pods);
    let deserted = remains == Remains::Nothing && !nodes.iter().any(Node::is_ready);
    if !recognised || nodes.is_empty() || deserted {
        step.claim.phase = Phase::Terminating;
        return step.again();
    }
    if let [node] = nodes.as_slice() {
        step.claim.status.node_name.get_or_insert_with(|| node.name.clone());
    }
    if claim.status.drain_started.is_none() {
        step.events.extend(expiring(claim, seen, nodes));
    }
    let deadline = claim.status.termination.as_ref().and_then(|termination| termination.deadline);
    let overdue = deadline.is_some_and(|deadline| now >= deadline);
    if !overdue && nodes.iter().any(|node| !node.has_taint(&Taint::disrupted())) {
        // Pods may be scheduled until the node has the taint, also after its pods were read. So the drain begins with the taint,
        // which an earlier step may have failed to add.
        step.claim.status.drain_started = Some(now);
    }
    let started = *step.claim.status.drain_started.get_or_insert(now);
    if close_off(&mut step, nodes) {
        return step.again();
    }
    let pods = match &seen.pods {
        Seen::Known(pods) => pods,
        Seen::Unknown(why) => return step.wait_for("the pods of its node", why, TERMINATION_POLL),
    };
    let mut plan = drain(pods, deadline, now);
    surge::successors_first(&mut step, &mut plan, pods, nodes, seen, now);
    let going_on_for = elapsed(started, now);
    let waiting = plan.waiting > 0;
    if waiting || going_on_for < settings.minimum_drain {
        move_pods(&mut step, nodes, pods, plan);
        step.claim.set_condition(condition::DRAINED, ConditionStatus::Unknown, "Draining", "", now);
        let poll = poll_delay(going_on_for, Duration::from_secs(1), Duration::from_secs(20));
        // Until then nothing is expected of an empty node. Its pods are read once more at that time.
        return step.after(if waiting { poll } else { settings.minimum_drain.saturating_sub(going_on_for) });
    }
    step.claim.set_condition(condition::DRAINED, ConditionStatus::True, "Drained", "", now);
    detach(step, seen, nodes, overdue, going_on_for, now)
}

/// Whether a drain waits only for volumes: no pod holds it, its minimum duration has passed, and its nodes are tainted, so that the
/// step does not begin the drain again.
pub(crate) fn is_drained(claim: &NodeClaim, seen: &Observation, now: Timestamp, settings: &Settings) -> bool {
    let (Some(nodes), Some(pods)) = (seen.nodes.known(), seen.pods.known()) else { return false };
    let started = claim.status.drain_started.unwrap_or(now);
    let deadline = claim.status.termination.as_ref().and_then(|termination| termination.deadline);
    let begins_again = |node: &Node| !node.has_taint(&Taint::disrupted()) && deadline.is_none_or(|end| now < end);
    !nodes.is_empty()
        && !nodes.iter().any(begins_again)
        && !pods.iter().any(|pod| pod.holds_drain(now))
        && elapsed(started, now) >= settings.minimum_drain
}

/// Reports on NodeClaim and Node when the drain ends forcefully, if it does.
fn expiring(claim: &NodeClaim, seen: &Observation, nodes: &[Node]) -> Vec<ObjectEvent> {
    let Some(deadline) = claim.status.termination.as_ref().and_then(|termination| termination.deadline) else {
        return Vec::new();
    };
    let uid = seen.mirror.known().and_then(Option::as_ref).map_or("", |mirror| &mirror.uid);
    let objects = nodes.iter().map(ObjectRef::from).chain([ObjectRef::node_claim(&claim.name, uid)]);
    objects.map(|object| termination_grace_period_expiring(object, deadline)).collect()
}

/// Waits for the volumes of deleted pods, unless there is no time left for that.
fn detach(
    mut step: Step,
    seen: &Observation,
    nodes: &[Node],
    overdue: bool,
    going_on_for: Duration,
    now: Timestamp,
) -> Step {
    let attached = match &seen.volume_attachments {
        _ if overdue => 0,
        Seen::Known(attachments) => attachments.len(),
        Seen::Unknown(why) => return step.wait_for("the volumes of its node", why, TERMINATION_POLL),
    };
    if attached > 0 {
        let message = format!("waiting for {attached} volume(s) to be detached");
        for node in nodes {
            step.events.push(awaiting_volume_detachment(node, &message));
        }
        let kind = condition::VOLUMES_DETACHED;
        step.claim.set_condition(kind, ConditionStatus::Unknown, "AwaitingVolumeDetachment", &message, now);
        return step.after(poll_delay(going_on_for, Duration::from_secs(1), Duration::from_secs(20)));
    }
    let (status, reason) = match (overdue, &seen.volume_attachments) {
        (true, Seen::Known(attachments)) if attachments.is_empty() => (ConditionStatus::True, "VolumesDetached"),
        (true, _) => (ConditionStatus::False, "TerminationGracePeriodElapsed"),
        (false, _) => (ConditionStatus::True, "VolumesDetached"),
    };
    step.claim.set_condition(condition::VOLUMES_DETACHED, status, reason, "", now);
    step.claim.phase = Phase::Terminating;
    step.again()
}

/// Keeps pods and load balancers off the nodes and requests their deletion, which the finalizer blocks. Returns whether a node
/// lacks the finalizer and has to be read again first: without it, deletion would remove the node while pods run on it.
fn close_off(step: &mut Step, nodes: &[Node]) -> bool {
    let mut unsafe_to_delete = false;
    for node in nodes {
        let held = node.finalizers.iter().any(|finalizer| finalizer == labels::TERMINATION_FINALIZER);
        let can_be_held = node.deletion_timestamp.is_none();
        let tainted = node.has_taint(&Taint::disrupted());
        let excluded = node.labels.contains_key(labels::EXCLUDE_FROM_LOAD_BALANCERS);
        if !tainted || !excluded || (!held && can_be_held) {
            let exclude = StringMap::from([(labels::EXCLUDE_FROM_LOAD_BALANCERS.to_owned(), "karpenter".to_owned())]);
            let other_effects = [TaintEffect::PreferNoSchedule, TaintEffect::NoExecute]
                .map(|effect| Taint::new(labels::DISRUPTED_TAINT, effect));
            let patch = NodePatch {
                labels: if excluded { StringMap::new() } else { exclude },
                add_taints: if tainted { Vec::new() } else { vec![Taint::disrupted()] },
                remove_taints: other_effects.into_iter().filter(|taint| node.has_taint(taint)).collect(),
                add_finalizer: (!held && can_be_held).then(|| labels::TERMINATION_FINALIZER.to_owned()),
                ..NodePatch::default()
            };
            step.effects.push(Effect::patch_node(node, patch));
        }
        if can_be_held {
            if held {
                step.effects.push(Effect::DeleteNode { name: node.name.clone(), uid: node.uid.clone() });
            } else {
                unsafe_to_delete = true;
            }
        }
    }
    unsafe_to_delete
}

pub(crate) fn move_pods(step: &mut Step, nodes: &[Node], pods: &[nodeless_model::Pod], plan: Drain) {
    let node_of = |pod: &nodeless_model::object::PodRef| {
        pods.iter().find(|other| other.uid == pod.uid).and_then(|pod| pod.node_name.clone()).unwrap_or_default()
    };
    for (pod, grace_seconds) in plan.delete {
        step.effects.push(Effect::DeletePod { pod, grace_seconds });
    }
    for pod in plan.evict {
        step.effects.push(Effect::Evict { node: node_of(&pod), pod });
    }
    if !plan.protected.is_empty() {
        let message = format!("karpenter.sh/do-not-disrupt blocks the drain: {}", plan.protected.join(", "));
        step.events.extend(nodes.iter().map(|node| failed_draining(node, &message)));
    }
}

/// A claim whose instance is being terminated.
pub(crate) fn terminating(claim: &NodeClaim, seen: &Observation, now: Timestamp, settings: &Settings) -> Step {
    let mut step = Step::stay(claim);
    let Some(launched) = &claim.status.instance else {
        return without_instance::terminating(claim, seen, now, settings);
    };
    if let Some(shift) = &seen.zonal_shift {
        return step.hold(format!("the instance {} is not terminated while {shift}", launched.id), SHIFTED_POLL);
    }
    // The node is needed too: an instance may only be terminated if its node could be read.
    if let Seen::Unknown(why) = &seen.nodes {
        return step.wait_for("its node", why, TERMINATION_POLL);
    }
    let remains = match remains(claim, seen, now, settings) {
        Ok(remains) => remains,
        Err(why) => return step.wait_for("its instance", &why, TERMINATION_POLL),
    };
    match remains {
        Remains::Nothing => {
            step.claim.phase = Phase::Gone;
            return step.again();
        }
        Remains::ShuttingDown => {}
        Remains::Alive => {
            step.claim.status.terminate_requested.get_or_insert(now);
            step.effects.push(Effect::TerminateInstance { id: launched.id.clone() });
        }
    }
    step.claim.set_condition(condition::INSTANCE_TERMINATING, ConditionStatus::True, "InstanceTerminating", "", now);
    let asked = step.claim.status.terminate_requested.map_or(Duration::ZERO, |at| elapsed(at, now));
    // EC2 sends an event when it is terminated; more frequent polling costs calls and seldom finds anything.
    step.after(if asked < SHUTTING_DOWN { SHUTTING_DOWN } else { TERMINATION_POLL })
}

/// A claim whose instance is terminated: its objects in the cluster are deleted, then its record.
pub(crate) fn gone(claim: &NodeClaim, seen: &Observation) -> Step {
    let mut step = Step::stay(claim);
    if claim.status.instance.is_some() {
        match &seen.nodes {
            Seen::Known(nodes) => {
                for node in nodes {
                    forget_node(&mut step, node);
                }
            }
            Seen::Unknown(why) => return step.wait_for("its node", why, TERMINATION_POLL),
        }
    }
    surge::lower_all(&mut step);
    let wake = wake_planner(claim.status.termination.as_ref().map(|end| end.reason));
    step.effects.extend([Effect::RemoveMirror, Effect::DeleteRecord, wake]);
    step
}

/// Deletes a node object whose instance is terminated, and removes its finalizer.
pub(crate) fn forget_node(step: &mut Step, node: &Node) {
    if node.deletion_timestamp.is_none() {
        step.effects.push(Effect::DeleteNode { name: node.name.clone(), uid: node.uid.clone() });
    }
    if node.finalizers.iter().any(|finalizer| finalizer == labels::TERMINATION_FINALIZER) {
        let finalizer = Some(labels::TERMINATION_FINALIZER.to_owned());
        step.effects.push(Effect::patch_node(node, NodePatch { remove_finalizer: finalizer, ..NodePatch::default() }));
    }
}
