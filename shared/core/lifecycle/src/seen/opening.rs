//! When the nodes that a plan launched are opened for pods, and for which of them each pod is nominated.
//!
//! The kube-scheduler binds a pod to the node in its `status.nominatedNodeName` if that node is feasible, and does not use the capacity
//! for other pods of no higher priority. A failed attempt clears the field. So the nodes of a plan stay closed by the taint
//! `nodeless.sh/joining` until all of them have joined, then their pods are nominated, and then the taint is removed from all of them
//! (docs/design/nominations.md).

use crate::time::elapsed;
use jiff::Timestamp;
use nodeless_model::claim::condition;
use nodeless_model::object::UnboundPod;
use nodeless_model::{ExpectedPod, Node, NodeClaim, Phase, Taint, Workload};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// How long the nodes of a plan wait for others after the last registration. Instances of one plan are launched within seconds of each
/// other and usually join within 20 seconds of each other, and a node is ready 10 seconds after its registration.
const OTHERS_WITHIN: Duration = Duration::from_secs(20);
/// How long a registered node waits for others of its plan. A node that takes longer has failed, or is of a kind that starts
/// slowly.
const CLOSED_AT_MOST: Duration = Duration::from_secs(60);
/// How long cleared nominations are written again after the initialization of a node: longer than the backoff of the
/// kube-scheduler, which is 10 seconds at most.
const WRITTEN_AGAIN: Duration = Duration::from_secs(15);
/// Until when after the initialization of a node the nominations of pods that are still not bound are removed.
const REMOVED_WITHIN: Duration = Duration::from_secs(20);
/// The interval of checks whether nominations were cleared.
pub(crate) const AGAIN: Duration = Duration::from_secs(1);

/// The state of the nominations for one node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Nominations {
    /// No nominations are to be written: the node opens as soon as it is ready.
    #[default]
    None,
    /// The nominations are not written yet: the node stays closed.
    Awaited,
    /// The nominations are written: the node opens, and cleared ones are written again while its pods are not bound.
    Written,
}

/// A claim with its Node, once that has joined.
#[derive(Clone, Copy, Debug)]
pub struct Member<'a> {
    /// The claim.
    pub claim: &'a NodeClaim,
    /// The Node.
    pub node: Option<&'a Node>,
    /// Whether the DaemonSets that the node waits for are ready there; true if it waits for none.
    pub daemon_sets_ready: bool,
}

/// A nomination to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Nomination<'a> {
    /// The pod.
    pub pod: &'a UnboundPod,
    /// The node that the plan has it on; empty for a nomination that is removed.
    pub node: &'a str,
}

/// Whether a node is closed until its pods are nominated.
///
/// A node with startup taints is not held: the agents that remove them may not tolerate the taint, and it is not known when they are
/// done. A node that waits for DaemonSets is held by the taint that these tolerate. A node that replaces others is not held: its pods
/// exist only after their drain. A node whose devices are reported by a DaemonSet
/// that does not tolerate the taint is held, too: it opens once its kubelet is ready, and is initialized later.
#[must_use]
pub fn is_held(claim: &NodeClaim) -> bool {
    let ours = |taint: &Taint| taint.matches(&Taint::daemon_sets_not_ready());
    !claim.spec.nominated_pods.is_empty()
        && claim.spec.replaces.is_empty()
        && claim.spec.startup_taints.iter().all(ours)
}

/// Whether nominations may have to be written for a claim: its node may join, or has been initialized a moment ago.
#[must_use]
pub fn may_nominate(claim: &NodeClaim, now: Timestamp) -> bool {
    let joins = (Phase::Launched..Phase::Initialized).contains(&claim.phase);
    is_held(claim)
        && (joins
            || (claim.phase == Phase::Initialized
                && claim.status.command.is_none()
                && is_new(claim, REMOVED_WITHIN, now)))
}

/// Determines which of these nodes open now, and which stay closed. Cleared nominations for open nodes are written again.
///
/// The nodes of a plan open together once all of them are ready, or none has registered for 20 seconds. No node waits for a claim that
/// ends, or for a claim whose node is not held. A node that has been registered for 60 seconds waits for no other.
#[must_use]
pub fn open<'a>(members: &[Member<'a>], now: Timestamp) -> BTreeMap<&'a str, Nominations> {
    let mut plans: BTreeMap<Timestamp, Vec<Member<'a>>> = BTreeMap::new();
    for member in members.iter().filter(|member| is_held(member.claim)) {
        plans.entry(member.claim.created).or_default().push(*member);
    }
    let mut states = BTreeMap::new();
    for plan in plans.values() {
        let complete = is_complete(plan, now);
        for member in plan {
            let state = match member.claim.phase {
                Phase::Initialized if may_nominate(member.claim, now) => Nominations::Written,
                phase if phase >= Phase::Initialized || member.is_open() => Nominations::None,
                _ if complete && member.is_ready() => Nominations::Written,
                _ => Nominations::Awaited,
            };
            states.insert(member.claim.name.as_str(), state);
        }
    }
    states
}

/// Whether the nodes of a plan do not wait for others of the same plan.
fn is_complete(plan: &[Member<'_>], now: Timestamp) -> bool {
    let mut joining = plan.iter().filter(|member| member.joins());
    joining.clone().all(Member::is_ready)
        || plan.iter().all(|member| !member.has_joined() || member.is_registered_for(OTHERS_WITHIN, now))
        || joining.any(|one| one.is_ready() && one.is_registered_for(CLOSED_AT_MOST, now))
}

/// The nominations that are missing for pods of open nodes, and the claims of which pods are not bound yet.
///
/// A pod that is being deleted or has a nomination is left alone, whether that is ours or one of the kube-scheduler for a preemption. But the
/// nomination of a pod that is still not bound once cleared ones are no longer written is removed, because the kube-scheduler then attempts
/// the pod again: it attempts no pod because another one was bound to a node that it was not nominated for
/// (<https://github.com/kubernetes/kubernetes/issues/134859>).
#[must_use]
pub fn nominations<'a>(
    open: impl IntoIterator<Item = JoinedNode<'a>>,
    unbound: &'a [UnboundPod],
    now: Timestamp,
) -> (Vec<Nomination<'a>>, BTreeSet<&'a str>) {
    let mut planned: BTreeMap<(&str, &str), JoinedNode<'a>> = BTreeMap::new();
    let mut expected = Expected::default();
    for place in open {
        for key in &place.claim.spec.nominated_pods {
            match (ExpectedPod::parse(key), key.split_once('/')) {
                // Pods that were bound to an open node are not among these.
                (Some(pod), _) if place.claim.phase < Phase::Initialized => expected.add(pod.workload, place),
                (None, Some(pod)) => drop(planned.entry(pod).or_insert(place)),
                _ => {}
            }
        }
    }
    let (mut missing, mut waiting) = (Vec::new(), BTreeSet::new());
    let is_planned = |pod: &&UnboundPod| planned.contains_key(&(pod.pod.namespace.as_str(), pod.pod.name.as_str()));
    let others = unbound.iter().filter(|pod| !pod.is_terminating && !pod.is_gated && !is_planned(pod));
    let taken = expected.taken_by(others.collect());
    for pod in unbound.iter().filter(|pod| !pod.is_terminating) {
        let by_name = planned.get(&(pod.pod.namespace.as_str(), pod.pod.name.as_str()));
        let Some(JoinedNode { claim, node }) = by_name.or_else(|| taken.get(pod.pod.uid.as_str())).copied() else {
            continue;
        };
        let is_kept = claim.phase < Phase::Initialized || is_new(claim, WRITTEN_AGAIN, now);
        match pod.nominated_node.as_deref() {
            None if is_kept => missing.push(Nomination { pod, node }),
            Some(nominated) if nominated == node && is_kept => {}
            Some(nominated) if nominated == node => missing.push(Nomination { pod, node: "" }),
            _ => continue,
        }
        waiting.insert(claim.name.as_str());
    }
    (missing, waiting)
}

/// A node that was launched for pods, with its claim.
#[derive(Clone, Copy, Debug)]
pub struct JoinedNode<'a> {
    /// The claim.
    pub claim: &'a NodeClaim,
    /// The name of its Node.
    pub node: &'a str,
}

/// The nodes that were launched for expected pods, once for each of these pods.
#[derive(Default)]
struct Expected<'a>(BTreeMap<Workload, Vec<JoinedNode<'a>>>);

impl<'a> Expected<'a> {
    fn add(&mut self, workload: Workload, place: JoinedNode<'a>) {
        self.0.entry(workload).or_default().push(place);
    }

    /// The nodes for pods of the same workloads, by uid: first for those that are nominated already.
    fn taken_by(mut self, pods: Vec<&'a UnboundPod>) -> BTreeMap<&'a str, JoinedNode<'a>> {
        let mut taken = BTreeMap::new();
        let (nominated, others): (Vec<_>, Vec<_>) = pods.into_iter().partition(|pod| pod.nominated_node.is_some());
        for pod in nominated.into_iter().chain(others) {
            let Some(places) = pod.workload.as_ref().and_then(|workload| self.0.get_mut(workload)) else { continue };
            let is_free = |place: &JoinedNode<'_>| pod.nominated_node.as_deref().is_none_or(|own| own == place.node);
            if let Some(place) = places.iter().position(is_free) {
                taken.insert(pod.pod.uid.as_str(), places.remove(place));
            }
        }
        taken
    }
}

impl Member<'_> {
    fn joins(&self) -> bool {
        self.claim.phase < Phase::Initialized
    }

    /// Whether the node is ready, and the DaemonSets that it waits for, apart from the taints that nodeless itself removes.
    fn is_ready(&self) -> bool {
        let removed = [Taint::joining(), Taint::unregistered()];
        let waits_for = |taint: &Taint| taint.is_ephemeral() && !removed.iter().any(|ours| ours.matches(taint));
        self.daemon_sets_ready && self.node.is_some_and(|node| node.is_ready() && !node.taints.iter().any(waits_for))
    }

    /// Whether the node is open for pods, although it may lack a device that its pods request.
    fn is_open(&self) -> bool {
        let closed = [Taint::joining(), Taint::daemon_sets_not_ready(), Taint::unregistered()];
        let is_open = |node: &Node| !closed.iter().any(|taint| node.has_taint(taint));
        self.claim.phase == Phase::Registered && self.node.is_some_and(is_open)
    }

    fn has_joined(&self) -> bool {
        self.node.is_some() || self.claim.phase >= Phase::Registered
    }

    fn is_registered_for(&self, least: Duration, now: Timestamp) -> bool {
        let registered = self.claim.condition(condition::REGISTERED).filter(|_| self.claim.phase >= Phase::Registered);
        registered.is_some_and(|since| elapsed(since.last_transition_time, now) >= least)
    }
}

/// Whether a claim was initialized within this time.
fn is_new(claim: &NodeClaim, within: Duration, now: Timestamp) -> bool {
    let initialized = claim.condition(condition::INITIALIZED);
    initialized.is_some_and(|since| elapsed(since.last_transition_time, now) < within)
}
