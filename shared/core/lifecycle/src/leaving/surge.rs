//! Surges: which pods of a draining node are held until their successor is available elsewhere, and how it is created.
//!
//! A pod asks for it with its annotation, and its Deployment decides how it is possible. The Deployment deletes the pod itself: after a
//! restart as the last step of the rollout, and after a raise when the replicas are lowered, because the pod has the lowest deletion
//! cost.
//!
//! Only pods on nodes that stay count as available elsewhere. Two nodes that drain at the same time record that on their claims before
//! they read each other's, so at least one of them does not count the other's pods.

use crate::drain::Drain;
use crate::effect::{Effect, Step};
use crate::observation::{Observation, Seen, SeenOwners};
use crate::prospect::Prospect;
use crate::time::{after, elapsed};
use jiff::Timestamp;
use nodeless_model::claim::TerminationReason;
use nodeless_model::events::{surge_refused, surge_started, surge_timed_out};
use nodeless_model::object::{ObjectEvent, PodRef};
use nodeless_model::surge::{DeploymentChange, OwningDeployment, Raise, ReadyPod, Surge, SurgeMode, SurgeState};
use nodeless_model::{Node, NodeClaim, Pod, PodDisruptionBudget, Setting, labels};
use std::time::Duration;

/// How long a drain without a deadline waits for the successors of pods.
const LONGEST_WAIT: Duration = Duration::from_mins(10);
/// How long the controllers may take to delete the pod after the replicas were lowered.
const DELETED_WITHIN: Duration = Duration::from_secs(30);

/// The time that the drain leaves for successors.
struct Limits {
    now: Timestamp,
    /// Until when pods are held.
    until: Timestamp,
    /// Whether pods are deleted at that time in any case.
    forced: bool,
    /// Whether no pod is held, because EC2 interrupts the instance.
    interrupted: bool,
}

impl Limits {
    /// Until when a pod is held whose surge began at this time. Without a deadline, a drain whose eviction is blocked goes on after the
    /// longest wait. A surge that begins then, after it had been denied, gets the whole wait.
    fn until(&self, began: Option<Timestamp>) -> Timestamp {
        match began {
            Some(began) if !self.forced && began >= self.until => after(began, LONGEST_WAIT),
            _ => self.until,
        }
    }
}

/// The decision about a pod that is about to be evicted.
#[derive(Default)]
struct Verdict {
    /// Whether the pod stays for now.
    held: bool,
    /// The new record of the surge, if it changes.
    surge: Option<Surge>,
    effect: Option<Effect>,
    event: Option<ObjectEvent>,
    /// What could not be read.
    unread: Option<String>,
}

/// Where the other ready pods of a Deployment run.
enum Elsewhere<'d> {
    /// A pod on a node that stays.
    Stays,
    /// Only pods on nodes that leave, if any: the one that is ready for the shortest time, and whether its node is tainted.
    Leaves(Option<(&'d ReadyPod, bool)>),
    /// A node could not be read, for this reason.
    Unknown(&'d str),
}

/// Where the other ready pods of the Deployment run.
fn elsewhere<'d>(pod: &Pod, ready: impl Iterator<Item = &'d ReadyPod>, seen: &'d SeenOwners) -> Elsewhere<'d> {
    let (mut last, mut unknown) = (None, None);
    for other in ready.filter(|other| other.pod.uid != pod.uid && Some(&other.node) != pod.node_name.as_ref()) {
        match seen.nodes.get(&other.node) {
            Some(Seen::Known(Prospect::Stays)) => return Elsewhere::Stays,
            Some(Seen::Known(leaves)) => last = Some((other, *leaves == Prospect::Leaves)),
            Some(Seen::Unknown(why)) => unknown = Some(why),
            None => {}
        }
    }
    unknown.map_or(Elsewhere::Leaves(last), |why| Elsewhere::Unknown(why))
}

/// Whether pods get their successors before this node is drained: not if the node or its instance is broken.
fn applies(claim: &NodeClaim) -> bool {
    use TerminationReason::{InstanceMissing, Repaired, Unhealthy};
    let reason = claim.status.termination.as_ref().map(|end| end.reason);
    reason.is_some_and(|reason| !matches!(reason, Unhealthy | Repaired | InstanceMissing))
}

/// The pods whose Deployments the next step uses, so that nothing is read for others.
pub fn asking<'p>(claim: &NodeClaim, pods: &'p [Pod]) -> impl Iterator<Item = &'p Pod> + use<'p> {
    let applies = applies(claim);
    pods.iter().filter(move |pod| applies && pod.is_surged() && pod.is_active())
}

/// Removes the pods from the evictions that wait for their successors, and adds what creates these.
pub(crate) fn successors_first(
    step: &mut Step,
    plan: &mut Drain,
    pods: &[Pod],
    nodes: &[Node],
    seen: &Observation,
    now: Timestamp,
) {
    lower_for_gone_pods(step, pods);
    if !applies(&step.claim) || !nodes.iter().any(Node::is_ready) {
        return;
    }
    let status = &step.claim.status;
    let end = status.termination.as_ref();
    let limits = Limits {
        now,
        until: end
            .and_then(|end| end.deadline)
            .unwrap_or_else(|| after(status.drain_started.unwrap_or(now), LONGEST_WAIT)),
        forced: end.is_some_and(|end| end.deadline.is_some()),
        interrupted: status.interrupted.is_some()
            || end.is_some_and(|end| end.reason == TerminationReason::Interrupted),
    };
    plan.evict.retain(|evicted| {
        let Some(pod) = pods.iter().find(|pod| pod.uid == evicted.uid) else { return true };
        let verdict = evaluate(&step.claim, pod, &seen.owners, &limits);
        step.effects.extend(verdict.effect);
        step.events.extend(verdict.event);
        step.blocked.extend(verdict.unread.filter(|_| verdict.held));
        if let Some(surge) = verdict.surge {
            step.claim.status.surges.retain(|other| other.pod_uid != surge.pod_uid);
            step.claim.status.surges.push(surge);
        }
        !verdict.held || limits.interrupted
    });
}

/// Undoes the raises for pods that are gone or terminating. Nothing happens where that was done.
fn lower_for_gone_pods(step: &mut Step, pods: &[Pod]) {
    let is_there = |surge: &Surge| pods.iter().any(|pod| pod.uid == surge.pod_uid && pod.is_active());
    let gone = step.claim.status.surges.iter().filter(|surge| surge.mode == SurgeMode::Scale && !is_there(surge));
    let effects: Vec<Effect> = gone.map(|surge| lower(&step.claim, surge, None)).collect();
    step.effects.extend(effects);
}

/// Undoes all raises of a claim that ends.
pub(crate) fn lower_all(step: &mut Step) {
    lower_for_gone_pods(step, &[]);
}

fn evaluate(claim: &NodeClaim, pod: &Pod, seen: &SeenOwners, limits: &Limits) -> Verdict {
    let mode = match pod.surge_mode() {
        Setting::Unset => return Verdict::default(),
        Setting::Invalid(invalid) => return refused(pod, None, &invalid.to_string()),
        Setting::Valid(mode) => mode,
    };
    let recorded = claim.status.surge_for(&pod.uid);
    let again = recorded.is_some_and(|surge| surge.begins_again(limits.now));
    let before = recorded.filter(|_| !again);
    if let Some(Surge { state: SurgeState::Refused { why, .. }, .. }) = before {
        return refused(pod, None, why);
    }
    let mode = before.map_or(mode, |surge| surge.mode);
    let until = limits.until(if again { Some(limits.now) } else { before.map(|surge| surge.started) });
    if limits.now >= until {
        let message = format!("Evicted, because its successor was not available by {until:.0}");
        return Verdict { event: before.map(|_| surge_timed_out(pod, &message)), ..Verdict::default() };
    }
    if pod.ready != Some(true) {
        // The pod serves nothing, so nothing is interrupted.
        return Verdict::default();
    }
    if pod.replica_set().is_none() {
        let kind = pod.owner_kind.as_deref().unwrap_or("nothing");
        return refused(pod, None, &format!("only pods of Deployments can have two at a time, and {kind} owns it"));
    }
    let unknown = Seen::default();
    let deployment = match seen.deployments.get(&pod.uid).unwrap_or(&unknown) {
        Seen::Unknown(why) => return waits_to_read("the Deployment of", pod, why),
        Seen::Known(None) => return refused(pod, before, "no Deployment owns its ReplicaSet"),
        Seen::Known(Some(deployment)) => deployment,
    };
    if !deployment.observed {
        return Verdict { held: true, ..Verdict::default() };
    }
    match before {
        None => begin(claim, pod, mode, deployment, seen, limits),
        Some(surge) => go_on(claim, pod, surge, deployment, seen, limits),
    }
}

/// The first look at a pod.
fn begin(
    claim: &NodeClaim,
    pod: &Pod,
    mode: SurgeMode,
    deployment: &OwningDeployment,
    seen: &SeenOwners,
    limits: &Limits,
) -> Verdict {
    let surge = Surge {
        namespace: pod.namespace.clone(),
        pod: pod.name.clone(),
        pod_uid: pod.uid.clone(),
        deployment: deployment.name.clone(),
        mode,
        started: limits.now,
        replicas: deployment.replicas,
        available: available(deployment, limits.now),
        state: SurgeState::Requested,
    };
    if !deployment.current && !deployment.paused {
        // A rollout is replacing the pod already.
        let surge = Surge { mode: SurgeMode::Restart, state: SurgeState::Underway, ..surge };
        return Verdict { held: true, surge: Some(surge), ..Verdict::default() };
    }
    if let Some(verdict) = without_successor(pod, deployment, seen, limits) {
        return verdict;
    }
    if let Some(why) = refusal(mode, deployment) {
        return refused(pod, None, &why);
    }
    if let Some(raise) = deployment.raise.as_ref().filter(|_| mode == SurgeMode::Scale) {
        return after_raise(claim, pod, surge, raise, limits);
    }
    let how = match mode {
        SurgeMode::Restart => "is restarted",
        SurgeMode::Scale => "gets one more replica for the time",
    };
    let message = format!("Its node is drained, so Deployment {} {how}: its successor comes first", deployment.name);
    let effect = change(claim, &surge, pod);
    Verdict {
        held: true,
        effect: Some(effect),
        event: Some(surge_started(pod, &message)),
        surge: Some(surge),
        unread: None,
    }
}

/// The verdict about a pod that needs no successor, or of which it is not known whether it does.
fn without_successor(pod: &Pod, deployment: &OwningDeployment, seen: &SeenOwners, limits: &Limits) -> Option<Verdict> {
    let elsewhere = elsewhere(pod, deployment.ready.iter(), seen);
    let blocked = match &seen.budgets {
        Seen::Known(budgets) => allow_no_eviction(budgets, pod),
        Seen::Unknown(why) if !matches!(elsewhere, Elsewhere::Leaves(_)) => {
            return Some(waits_to_read("the PodDisruptionBudgets of", pod, why));
        }
        Seen::Unknown(_) => false,
    };
    match elsewhere {
        _ if blocked => None,
        // An eviction creates the successor of a pod as soon as a surge does, and an interrupted instance waits for neither.
        _ if limits.interrupted => Some(Verdict::default()),
        Elsewhere::Stays => Some(Verdict::default()),
        Elsewhere::Unknown(why) => Some(waits_to_read("the nodes of pods beside", pod, why)),
        Elsewhere::Leaves(_) => None,
    }
}

/// A pod without a record, whose Deployment is raised.
fn after_raise(claim: &NodeClaim, pod: &Pod, surge: Surge, raise: &Raise, limits: &Limits) -> Verdict {
    if raise.is_for(&claim.name, &pod.uid) {
        // The record of the claim was lost, and made again.
        let surge = Surge { replicas: raise.from, available: raise.from, state: SurgeState::Underway, ..surge };
        return Verdict { held: true, surge: Some(surge), ..Verdict::default() };
    }
    if !raise.is_left_behind(limits.now) {
        // Another pod is first.
        return Verdict { held: true, ..Verdict::default() };
    }
    let why = format!(
        "Deployment {} has {} replicas for NodeClaim {} since {:.0}; lower them to {} and remove the annotation {}",
        surge.deployment,
        raise.to,
        raise.claim,
        raise.at,
        raise.from,
        labels::SURGE
    );
    refused(pod, None, &why)
}

/// A pod for which a surge has begun.
fn go_on(
    claim: &NodeClaim,
    pod: &Pod,
    surge: &Surge,
    deployment: &OwningDeployment,
    seen: &SeenOwners,
    limits: &Limits,
) -> Verdict {
    let held = || Verdict { held: true, ..Verdict::default() };
    let to = |state: SurgeState| Some(Surge { state, ..surge.clone() }).filter(|next| next.state != surge.state);
    if !deployment.current {
        // A rollout replaces the pod, ours or another one.
        if deployment.paused {
            return refused(pod, Some(surge), &paused(deployment));
        }
        return Verdict { surge: to(SurgeState::Underway), ..held() };
    }
    let raise = deployment.raise.as_ref().filter(|raise| raise.is_for(&claim.name, &pod.uid));
    // A drain with a deadline may last for days. Each raise creates a pod, for which a node may be launched.
    let ends = elapsed(surge.started, limits.now) >= LONGEST_WAIT;
    match (surge.mode, &surge.state, raise) {
        (SurgeMode::Restart, SurgeState::Requested, _) => Verdict { effect: Some(change(claim, surge, pod)), ..held() },
        (SurgeMode::Restart, _, _) => {
            refused(pod, Some(surge), &format!("the restart of Deployment {} was undone", deployment.name))
        }
        (SurgeMode::Scale, SurgeState::Lowering { .. }, Some(_)) => {
            Verdict { effect: Some(lower(claim, surge, Some(PodRef::from(pod)))), ..held() }
        }
        (SurgeMode::Scale, SurgeState::Lowering { since }, None) => {
            if elapsed(*since, limits.now) < DELETED_WITHIN {
                return held();
            }
            kept(claim, pod, surge, deployment, seen, limits)
        }
        (SurgeMode::Scale, _, Some(raise)) if deployment.replicas < raise.to && ends => lowered_by_others(pod, surge),
        // Another party lowered the replicas, such as an autoscaler. If the successor was available, the Deployment deletes the pod.
        (SurgeMode::Scale, _, Some(raise)) if deployment.replicas < raise.to => {
            Verdict { surge: to(SurgeState::Requested), effect: Some(lower(claim, surge, None)), ..held() }
        }
        (SurgeMode::Scale, _, Some(_)) if available(deployment, limits.now) > surge.available => {
            with_successor(claim, pod, surge, deployment, seen, limits)
        }
        (SurgeMode::Scale, _, Some(_)) => Verdict { surge: to(SurgeState::Underway), ..held() },
        // Another pod is first.
        (SurgeMode::Scale, _, None) if deployment.raise.is_some() => held(),
        // A successor on a node that leaves is being deleted.
        (SurgeMode::Scale, _, None) if count(deployment.ready.len()) > deployment.replicas => held(),
        (SurgeMode::Scale, SurgeState::Underway, None) if ends => lowered_by_others(pod, surge),
        // The change was not made, perhaps because the replicas had just changed, or another party undid it.
        (SurgeMode::Scale, _, None) => without_successor(pod, deployment, seen, limits).unwrap_or_else(|| {
            let (replicas, available) = (deployment.replicas, available(deployment, limits.now));
            let next = Surge { replicas, available, state: SurgeState::Requested, ..surge.clone() };
            let effect = Some(change(claim, &next, pod));
            Verdict { surge: Some(next).filter(|next| next != surge), effect, ..held() }
        }),
    }
}

/// A pod whose successor is available.
fn with_successor(
    claim: &NodeClaim,
    pod: &Pod,
    surge: &Surge,
    deployment: &OwningDeployment,
    seen: &SeenOwners,
    limits: &Limits,
) -> Verdict {
    let lowered = |state: SurgeState, delete_first: PodRef| Verdict {
        held: true,
        surge: Some(Surge { state, ..surge.clone() }).filter(|next| next.state != surge.state),
        effect: Some(lower(claim, surge, Some(delete_first))),
        ..Verdict::default()
    };
    match elsewhere(pod, deployment.available(limits.now), seen) {
        Elsewhere::Stays => lowered(SurgeState::Lowering { since: limits.now }, PodRef::from(pod)),
        Elsewhere::Unknown(why) => waits_to_read("the nodes of pods beside", pod, why),
        // The successor is deleted instead, and the next one is scheduled to another node.
        Elsewhere::Leaves(Some((successor, true))) => lowered(SurgeState::Requested, successor.pod.clone()),
        // The next one might be scheduled to the same node, as long as that is not tainted.
        Elsewhere::Leaves(_) => Verdict { held: true, ..Verdict::default() },
    }
}

/// A pod that is still there after the replicas were lowered: its successor was deleted instead, or is gone.
fn kept(
    claim: &NodeClaim,
    pod: &Pod,
    surge: &Surge,
    deployment: &OwningDeployment,
    seen: &SeenOwners,
    limits: &Limits,
) -> Verdict {
    match elsewhere(pod, deployment.ready.iter(), seen) {
        Elsewhere::Stays => {
            let why = format!("Deployment {} kept it when its replicas were lowered", deployment.name);
            refused(pod, Some(surge), &why)
        }
        Elsewhere::Unknown(why) => waits_to_read("the nodes of pods beside", pod, why),
        Elsewhere::Leaves(_) => begin(claim, pod, surge.mode, deployment, seen, limits),
    }
}

fn available(deployment: &OwningDeployment, now: Timestamp) -> i32 {
    count(deployment.available(now).count())
}

fn count(pods: usize) -> i32 {
    i32::try_from(pods).unwrap_or(i32::MAX)
}

fn lowered_by_others(pod: &Pod, surge: &Surge) -> Verdict {
    let why = format!(
        "another party, such as an autoscaler, lowers the replicas of Deployment {}; use restart for it",
        surge.deployment
    );
    refused(pod, Some(surge), &why)
}

/// Why a Deployment cannot bring the successor first, if so.
fn refusal(mode: SurgeMode, deployment: &OwningDeployment) -> Option<String> {
    let name = &deployment.name;
    match mode {
        SurgeMode::Scale => None,
        SurgeMode::Restart if deployment.paused => Some(paused(deployment)),
        SurgeMode::Restart if deployment.recreate => Some(format!(
            "Deployment {name} has the strategy Recreate, which deletes its pods first; set RollingUpdate, or use scale"
        )),
        SurgeMode::Restart if deployment.max_surge < 1 || deployment.max_unavailable > 0 => Some(format!(
            "a rolling update of Deployment {name} creates {} pods first and may leave {} fewer than its replicas; set \
             maxSurge to 1 and maxUnavailable to 0",
            deployment.max_surge, deployment.max_unavailable
        )),
        SurgeMode::Restart => None,
    }
}

fn paused(deployment: &OwningDeployment) -> String {
    format!("the rollout of Deployment {} is paused; resume it", deployment.name)
}

/// Whether the Eviction API would reject the eviction of a ready pod. It always does if several budgets select the pod.
fn allow_no_eviction(budgets: &[PodDisruptionBudget], pod: &Pod) -> bool {
    let covering: Vec<_> =
        budgets.iter().filter(|budget| budget.covers(&pod.namespace, &pod.template.labels)).collect();
    covering.len() > 1 || covering.iter().any(|budget| budget.disruptions_allowed < 1)
}

/// The change of the Deployment that creates the successor. If an autoscaler lowers the replicas once the successor is ready, the pod is
/// deleted and not its successor; one that is not ready is deleted before pods with the lowest cost.
fn change(claim: &NodeClaim, surge: &Surge, pod: &Pod) -> Effect {
    let (change, delete_first) = match surge.mode {
        SurgeMode::Restart => (DeploymentChange::Restart { at: surge.started }, None),
        SurgeMode::Scale => {
            let raise = Raise {
                claim: claim.name.clone(),
                pod: surge.pod_uid.clone(),
                from: surge.replicas,
                to: surge.replicas.saturating_add(1),
                at: surge.started,
            };
            (DeploymentChange::Raise(raise), Some(PodRef::from(pod)))
        }
    };
    Effect::ChangeDeployment { surge: Box::new(surge.clone()), change, delete_first }
}

/// The change that lowers the replicas again. `delete_first` is deleted if it still exists.
fn lower(claim: &NodeClaim, surge: &Surge, delete_first: Option<PodRef>) -> Effect {
    let change = DeploymentChange::Lower { claim: claim.name.clone(), pod: surge.pod_uid.clone() };
    Effect::ChangeDeployment { surge: Box::new(surge.clone()), change, delete_first }
}

/// The pod is evicted without a successor. Where a surge has begun, it is not attempted again.
fn refused(pod: &Pod, begun: Option<&Surge>, why: &str) -> Verdict {
    let state = SurgeState::Refused { why: why.to_owned(), again: None };
    let surge = begun.filter(|surge| surge.state != state).map(|surge| Surge { state, ..surge.clone() });
    Verdict { surge, event: Some(surge_refused(pod, why)), ..Verdict::default() }
}

fn waits_to_read(what: &str, pod: &Pod, why: &str) -> Verdict {
    let unread = Some(format!("{what} pod {} could not be read: {why}", pod.key()));
    Verdict { held: true, unread, ..Verdict::default() }
}
