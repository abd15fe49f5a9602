//! Launches that became ready for the pods of an owner, and that none of them took: the next launch for them waits from the second on,
//! twice as long each time, whatever the cause is.
//!
//! The owner is the object that made the pods: a ReplicaSet, a revision of a StatefulSet, a Job, or the pod itself. What a changed template
//! makes is launched for at once.

use crate::nodes::promised::BOUND_WITHIN;
use jiff::{SignedDuration, Timestamp};
use nodeless_model::claim::{TerminationReason, condition};
use nodeless_model::{ConditionStatus, NodeClaim, Pod};
use nodeless_ports::cluster::ClusterView;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::rc::Rc;

/// The wait after the second launch. It doubles with each further one.
const FIRST_WAIT: SignedDuration = SignedDuration::from_mins(6);
/// The wait doubles this number of times at most: up to 96 minutes.
const MAX_DOUBLINGS: u32 = 4;
/// For how long after a node became ready its launch can be counted.
const COUNTED_WITHIN: SignedDuration = SignedDuration::from_mins(15);
/// For how long an owner without a pending pod is remembered. A Job may make its next pod later.
const REMEMBERED: SignedDuration = SignedDuration::from_hours(2);
/// At most this number of owners is recorded, and of each this number of claims, so that the record stays below the size of an item.
const MAX_OWNERS: usize = 300;
const MAX_CLAIMS: usize = 8;

/// The label with the revision of the template by which a StatefulSet or a DaemonSet made a pod.
const REVISION: &str = "controller-revision-hash";

/// The launches of one owner that none of its pods took since one of them last took a launch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Unused {
    /// How often launches were not taken. Those of one plan count once.
    times: u32,
    /// When the newest of them was decided.
    launched: Timestamp,
    /// When the last one was counted.
    counted: Timestamp,
    /// Their claims, the newest last.
    claims: Vec<String>,
}

/// A launch whose node is ready, and that no pod of its owners has taken yet. Its claim may be gone before the next plan, if it is removed
/// as empty.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Untaken {
    created: Timestamp,
    owners: BTreeSet<String>,
}

/// What is recorded of launches.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Launches {
    /// By [`owner`].
    owners: BTreeMap<String, Unused>,
    /// By the name of the claim.
    untaken: BTreeMap<String, Untaken>,
}

impl Launches {
    /// Whether no owner's launches are counted.
    pub(super) fn is_empty(&self) -> bool {
        self.owners.is_empty()
    }

    /// Why nothing is launched for a pod of this owner now, if so.
    pub(super) fn waits_because(&self, owner: &str, pod: &Pod, now: Timestamp) -> Option<String> {
        self.owners.get(owner)?.waits_because(pod, now)
    }
}

/// Launches for owners whose launches were counted twice and more, since they were last counted: until it is known whether a pod takes one
/// of them, nothing more is launched for other pods of the owner.
pub(super) struct Trials<'a>(BTreeMap<String, Vec<&'a NodeClaim>>);

impl<'a> Trials<'a> {
    pub(super) fn new(launches: &Launches, view: &ClusterView, claims: &'a [NodeClaim]) -> Self {
        let since =
            launches.owners.values().filter(|unused| unused.until().is_some()).map(|unused| unused.counted).min();
        let is_later =
            |claim: &&NodeClaim| since.is_some_and(|since| claim.created > since) && !claim.phase.is_leaving();
        let later: Vec<&NodeClaim> = claims.iter().filter(is_later).collect();
        let mut trials: BTreeMap<String, Vec<&NodeClaim>> = BTreeMap::new();
        if later.is_empty() {
            return Self(trials);
        }
        let pending = Pending::new(view, &later);
        for claim in later {
            for owner in pending.of_claim(claim) {
                let unused = launches.owners.get(owner).filter(|unused| unused.until().is_some());
                if unused.is_some_and(|unused| claim.created > unused.counted) {
                    trials.entry(owner.to_owned()).or_default().push(claim);
                }
            }
        }
        Self(trials)
    }

    /// Why nothing is launched for a pod of this owner now, if so.
    pub(super) fn waits_because(&self, owner: &str, pod: &Pod) -> Option<String> {
        let claims = self.0.get(owner)?;
        let key = pod.key();
        if claims.iter().any(|claim| claim.spec.nominated_pods.contains(&key)) {
            return None;
        }
        Some(format!(
            "kube-scheduler placed no pod of {} on the nodes that were launched for them before, so nothing more is launched until one \
             is placed on the node of NodeClaim {}",
            controller(pod),
            claims.first()?.name
        ))
    }
}

/// What made the pod, for a message.
fn controller(pod: &Pod) -> String {
    let name = pod.owner_name.as_deref().unwrap_or(&pod.name);
    format!("{} {}/{name}", pod.owner_kind.as_deref().unwrap_or("Pod"), pod.namespace)
}

impl Unused {
    /// The time before which nothing is launched for the owner's pods.
    fn until(&self) -> Option<Timestamp> {
        let doublings = self.times.checked_sub(2)?.min(MAX_DOUBLINGS);
        Some(self.counted.checked_add(FIRST_WAIT * (1 << doublings)).unwrap_or(Timestamp::MAX))
    }

    /// Why nothing is launched for a pod of the owner now, if so.
    fn waits_because(&self, pod: &Pod, now: Timestamp) -> Option<String> {
        let until = self.until().filter(|until| now < *until)?;
        let (controller, times) = (controller(pod), self.times);
        let last = self.claims.last().map(|name| format!(", NodeClaim {name} at last,")).unwrap_or_default();
        Some(format!(
            "nodes were launched {times} times for pods of {controller}{last} and became ready, and kube-scheduler placed none of these \
             pods there: its Event FailedScheduling has the reason; the next launch for them is not before {until:.0}"
        ))
    }

    fn is_counted(&self, claim: &NodeClaim) -> bool {
        claim.created >= self.launched || self.claims.contains(&claim.name)
    }

    /// Whether the launch is of a plan that is not counted. Its node may be ready after that of a later plan.
    fn is_new(&self, name: &str, created: Timestamp) -> bool {
        let is_listed = || self.claims.len() == MAX_CLAIMS || self.claims.iter().any(|counted| counted == name);
        created > self.launched || (created < self.launched && !is_listed())
    }
}

/// The identity of what made a pod.
pub(super) fn owner(pod: &Pod) -> String {
    match (&pod.owner_kind, &pod.owner_name) {
        (Some(kind), Some(name)) => {
            let revision = pod.template.labels.get(REVISION).map_or("", String::as_str);
            format!("{kind} {}/{name} {revision}", pod.namespace)
        }
        _ => format!("Pod {}/{} {}", pod.namespace, pod.name, pod.uid),
    }
}

/// The owners of pending pods.
struct Pending {
    /// By `namespace/name` of a pod.
    by_pod: HashMap<String, Rc<str>>,
    /// By the namespace and name of an owner: the names of its pods begin with it.
    by_owner: HashMap<String, Rc<str>>,
    /// Pods without another owner, by that: when they were created.
    alone: HashMap<Rc<str>, Option<Timestamp>>,
    owners: BTreeSet<Rc<str>>,
    /// `namespace/name` of the pods that have a node, of those that claims were launched for.
    bound: HashSet<String>,
}

impl Pending {
    fn new(view: &ClusterView, ready: &[&NodeClaim]) -> Self {
        let nominated = ready.iter().flat_map(|claim| &claim.spec.nominated_pods);
        let nominated: HashSet<(&str, &str)> = nominated.filter_map(|pod| pod.split_once('/')).collect();
        let is_nominated = |pod: &&Pod| nominated.contains(&(pod.namespace.as_str(), pod.name.as_str()));
        let bound = view.pods().filter(|pod| pod.node_name.is_some()).filter(is_nominated).map(Pod::key);
        let mut all = Self {
            by_pod: HashMap::new(),
            by_owner: HashMap::new(),
            alone: HashMap::new(),
            owners: BTreeSet::new(),
            bound: bound.collect(),
        };
        for pod in view.pods().filter(|pod| pod.is_provisionable()) {
            let owner: Rc<str> = owner(pod).into();
            match &pod.owner_name {
                Some(name) => {
                    all.by_owner.insert(format!("{}/{name}", pod.namespace), owner.clone());
                }
                None => {
                    all.alone.insert(owner.clone(), pod.created);
                }
            }
            all.by_pod.insert(pod.key(), owner.clone());
            all.owners.insert(owner);
        }
        all
    }

    /// The owners for whose pods a claim was launched, also if they have replaced these by others since.
    fn of_claim(&self, claim: &NodeClaim) -> BTreeSet<&str> {
        let of_pod = |pod: &String| {
            let by_name = || self.by_owner.get(pod.rsplit_once('-')?.0).filter(|_| !self.bound.contains(pod));
            self.by_pod.get(pod).or_else(by_name)
        };
        let is_later = |owner: &&Rc<str>| match self.alone.get(*owner) {
            Some(Some(created)) => claim.created >= *created,
            _ => true,
        };
        claim.spec.nominated_pods.iter().filter_map(of_pod).filter(is_later).map(|owner| &**owner).collect()
    }
}

/// Whether the node of a claim with pods became ready, and not so long ago that it is no longer counted. One that leaves for another
/// reason than that it is empty does not count.
fn was_ready(claim: &NodeClaim, now: Timestamp) -> bool {
    !claim.spec.nominated_pods.is_empty()
        && claim.status.node_name.is_some()
        && (is_removed_as_empty(claim) || !claim.phase.is_leaving())
        && ready_for(claim, now).is_some_and(|age| age < COUNTED_WITHIN)
}

fn is_removed_as_empty(claim: &NodeClaim) -> bool {
    claim.status.termination.as_ref().is_some_and(|end| end.reason == TerminationReason::Empty)
}

fn ready_for(claim: &NodeClaim, now: Timestamp) -> Option<SignedDuration> {
    let ready = claim.condition(condition::INITIALIZED).filter(|ready| ready.status == ConditionStatus::True)?;
    Some(now.duration_since(ready.last_transition_time))
}

/// What is to be recorded after what is seen now, given what was before.
pub(super) fn counted(before: &Launches, view: &ClusterView, claims: &[NodeClaim], now: Timestamp) -> Launches {
    let ready: Vec<&NodeClaim> = claims.iter().filter(|claim| was_ready(claim, now)).collect();
    let waits = || view.pods().any(Pod::is_provisionable);
    if *before == Launches::default() && (ready.is_empty() || !waits()) {
        return Launches::default();
    }
    let pending = Pending::new(view, &ready);
    let mut owners = before.owners.clone();
    owners.retain(|owner, unused| {
        pending.owners.contains(owner.as_str()) || now.duration_since(unused.counted) < REMEMBERED
    });
    let counted_claims = claims.iter().filter(|claim| owners.values().any(|unused| unused.is_counted(claim)));
    let on_node = by_node(counted_claims.chain(ready.iter().copied()));
    let taken = taken(view, &on_node);
    let is_taken = |owner: &str, created: Timestamp| {
        taken.get(owner).is_some_and(|claims| claims.iter().any(|claim| claim.created >= created))
    };
    owners.retain(|owner, unused| {
        !taken.get(owner.as_str()).is_some_and(|claims| claims.iter().any(|claim| unused.is_counted(claim)))
    });
    let mut untaken = gone(before, claims);
    for claim in &ready {
        let owners = pending.of_claim(claim).into_iter().map(str::to_owned).collect();
        untaken.push(Candidate {
            name: &claim.name,
            is_counted: is_removed_as_empty(claim) || ready_for(claim, now).is_some_and(|age| age >= BOUND_WITHIN),
            launch: Untaken { created: claim.created, owners },
        });
    }
    for candidate in &mut untaken {
        let (name, created) = (candidate.name, candidate.launch.created);
        let is_new = |owner: &String| owners.get(owner).is_none_or(|unused| unused.is_new(name, created));
        candidate.launch.owners.retain(|owner| is_new(owner) && !is_taken(owner, created));
    }
    let (counted, left): (Vec<_>, Vec<_>) = untaken.into_iter().partition(|candidate| candidate.is_counted);
    let mut after = Launches { owners, untaken: BTreeMap::new() };
    after.count(&counted, now);
    let left = left.into_iter().filter(|candidate| !candidate.launch.owners.is_empty()).take(MAX_OWNERS);
    after.untaken.extend(left.map(|candidate| (candidate.name.to_owned(), candidate.launch)));
    after
}

/// A launch that no pod of these owners has taken, and whether it is counted now.
struct Candidate<'a> {
    name: &'a str,
    is_counted: bool,
    launch: Untaken,
}

/// Recorded launches whose claims are gone. One that ends for another reason than that its node is empty is seen with that reason first,
/// since its node is drained.
fn gone<'a>(before: &'a Launches, claims: &[NodeClaim]) -> Vec<Candidate<'a>> {
    if before.untaken.is_empty() {
        return Vec::new();
    }
    let present: HashSet<&str> = claims.iter().map(|claim| claim.name.as_str()).collect();
    let gone = before.untaken.iter().filter(|(name, _)| !present.contains(name.as_str()));
    gone.map(|(name, launch)| Candidate { name, is_counted: true, launch: launch.clone() }).collect()
}

fn by_node<'a>(claims: impl Iterator<Item = &'a NodeClaim>) -> BTreeMap<&'a str, &'a NodeClaim> {
    claims.filter_map(|claim| Some((claim.status.node_name.as_deref()?, claim))).collect()
}

/// By owner, the claims on whose nodes it has pods.
fn taken<'a>(view: &ClusterView, on_node: &BTreeMap<&str, &'a NodeClaim>) -> BTreeMap<String, Vec<&'a NodeClaim>> {
    let mut taken: BTreeMap<String, Vec<&NodeClaim>> = BTreeMap::new();
    if on_node.is_empty() {
        return taken;
    }
    for pod in view.pods().filter(|pod| !pod.is_owned_by_daemon_set()) {
        if let Some(claim) = pod.node_name.as_deref().and_then(|node| on_node.get(node)) {
            taken.entry(owner(pod)).or_default().push(claim);
        }
    }
    taken
}

impl Launches {
    /// Counts launches for their owners: those of one plan, which have one time, once.
    fn count(&mut self, launches: &[Candidate<'_>], now: Timestamp) {
        let mut by_owner: BTreeMap<&String, BTreeSet<(Timestamp, &str)>> = BTreeMap::new();
        for candidate in launches {
            for owner in &candidate.launch.owners {
                by_owner.entry(owner).or_default().insert((candidate.launch.created, candidate.name));
            }
        }
        for (owner, new) in by_owner {
            let plans: BTreeSet<Timestamp> = new.iter().map(|(created, _)| *created).collect();
            let Some(launched) = plans.last().copied() else { continue };
            let first = || Unused { times: 0, launched, counted: now, claims: Vec::new() };
            let unused = self.owners.entry(owner.clone()).or_insert_with(first);
            unused.times = unused.times.saturating_add(u32::try_from(plans.len()).unwrap_or(u32::MAX));
            (unused.launched, unused.counted) = (unused.launched.max(launched), now);
            unused.claims.extend(new.iter().map(|(_, name)| (*name).to_owned()));
            let surplus = unused.claims.len().saturating_sub(MAX_CLAIMS);
            unused.claims.drain(..surplus);
        }
        while self.owners.len() > MAX_OWNERS
            && let Some(oldest) = self.owners.iter().min_by_key(|(_, unused)| unused.counted)
        {
            let oldest = oldest.0.clone();
            self.owners.remove(&oldest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodeless_model::test_support::node_claim;
    use nodeless_model::{NodeClaimSpec, NodeClaimStatus, Phase, PodTemplate};

    fn second(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    /// A pending pod of an owner of this kind, with the name `web`.
    fn pod(kind: &str, name: &str) -> Pod {
        Pod {
            namespace: "shop".into(),
            name: name.into(),
            uid: format!("uid of {name}"),
            created: Some(second(0)),
            owner_kind: (!kind.is_empty()).then(|| kind.to_owned()),
            owner_name: (!kind.is_empty()).then(|| "web".to_owned()),
            marked_unschedulable: true,
            ..Pod::default()
        }
    }

    fn on_node(pod: Pod, node: &str) -> Pod {
        Pod { node_name: Some(node.into()), ..pod }
    }

    /// A claim whose node has the same name, decided at this second, and ready a minute later.
    fn launch(name: &str, created: i64, pods: &[&str]) -> NodeClaim {
        let mut claim = NodeClaim {
            created: second(created),
            spec: NodeClaimSpec {
                nominated_pods: pods.iter().map(|pod| format!("shop/{pod}")).collect(),
                ..NodeClaimSpec::default()
            },
            phase: Phase::Initialized,
            status: NodeClaimStatus { node_name: Some(name.into()), ..NodeClaimStatus::default() },
            ..node_claim(name)
        };
        claim.set_condition(condition::INITIALIZED, ConditionStatus::True, "Initialized", "", second(created + 60));
        claim
    }

    /// What is counted, one plan after another.
    #[derive(Default)]
    struct Plans(Launches);

    impl Plans {
        fn plan(&mut self, pods: &[Pod], claims: &[NodeClaim], now: i64) -> Vec<u32> {
            let view = ClusterView { pods: pods.iter().cloned().map(Into::into).collect(), ..ClusterView::default() };
            self.0 = counted(&self.0, &view, claims, second(now));
            self.0.owners.values().map(|unused| unused.times).collect()
        }

        fn why(&self, pod: &Pod, now: i64) -> Option<String> {
            self.0.waits_because(&owner(pod), pod, second(now))
        }

        fn waits(&self, pod: &Pod, now: i64) -> bool {
            self.why(pod, now).is_some()
        }
    }

    #[test]
    fn the_wait_doubles_from_the_second_launch_on() {
        let (mut plans, waiting) = (Plans::default(), pod("ReplicaSet", "web-a"));
        let pods = [waiting.clone()];
        assert_eq!(plans.plan(&pods, &[launch("n1", 0, &["web-a"])], 89), [0; 0], "kube-scheduler has half a minute");
        assert_eq!(plans.plan(&pods, &[launch("n1", 0, &["web-a"])], 90), [1]);
        assert!(!plans.waits(&waiting, 90), "the first may have been an accident");
        assert_eq!(plans.plan(&pods, &[launch("n1", 0, &["web-a"])], 150), [1], "each launch counts once");
        let (mut now, mut waits) = (150, Vec::new());
        for number in 2..9 {
            let claim = launch(&format!("n{number}"), now, &["web-a"]);
            assert_eq!(plans.plan(&pods, &[claim], now + 90), [number]);
            let until = (0..200).find(|minute| !plans.waits(&waiting, now + 90 + minute * 60)).unwrap();
            waits.push(until);
            now += 90 + until * 60;
        }
        assert_eq!(waits, [6, 12, 24, 48, 96, 96, 96]);
        let why = plans.why(&waiting, now - 60).unwrap();
        assert!(why.contains("8 times for pods of ReplicaSet shop/web, NodeClaim n8 at last,"), "{why}");
    }

    #[test]
    fn after_launches_in_vain_one_plan_launches_until_its_outcome_is_known() {
        let (mut plans, [first, second_pod]) =
            (Plans::default(), ["web-a", "web-b"].map(|name| pod("ReplicaSet", name)));
        let pods = [first.clone(), second_pod.clone()];
        let view = ClusterView { pods: pods.iter().cloned().map(Into::into).collect(), ..ClusterView::default() };
        let why = |plans: &Plans, claims: &[NodeClaim], pod: &Pod| {
            Trials::new(&plans.0, &view, claims).waits_because(&owner(pod), pod)
        };
        let (mut claims, mut joining) = (vec![launch("n1", 0, &["web-a"])], launch("n3", 700, &["web-a"]));
        joining.clear_condition(condition::INITIALIZED);
        assert_eq!(plans.plan(&pods, &claims, 90), [1]);
        claims.push(joining.clone());
        assert_eq!(why(&plans, &claims, &second_pod), None, "the first may have been an accident");
        claims.insert(1, launch("n2", 100, &["web-b"]));
        assert_eq!(plans.plan(&pods, &claims, 200), [2]);
        let waits = why(&plans, &claims, &second_pod).unwrap();
        assert!(waits.contains("ReplicaSet shop/web") && waits.ends_with("NodeClaim n3"), "{waits}");
        assert_eq!(why(&plans, &claims, &first), None, "it is launched for this pod");
        assert_eq!(why(&plans, &claims[..2], &second_pod), None, "counted launches have no other outcome");
    }

    #[test]
    fn a_launch_counts_although_that_of_a_later_plan_is_ready_first() {
        let (mut plans, pods) = (Plans::default(), [pod("ReplicaSet", "web-a"), pod("ReplicaSet", "web-b")]);
        let mut slow = launch("n1", 0, &["web-a"]);
        slow.clear_condition(condition::INITIALIZED);
        let quick = launch("n2", 10, &["web-b"]);
        assert_eq!(plans.plan(&pods, &[slow, quick.clone()], 100), [1]);
        let claims = [launch("n1", 0, &["web-a"]), quick];
        assert_eq!(plans.plan(&pods, &claims, 110), [2]);
        assert_eq!(plans.plan(&pods, &claims, 120), [2]);
    }

    #[test]
    fn a_pod_that_takes_its_node_ends_it() {
        let (mut plans, waiting) = (Plans::default(), pod("ReplicaSet", "web-a"));
        let claims = [launch("n1", 0, &["web-a"]), launch("n2", 100, &["web-a"])];
        assert_eq!(plans.plan(std::slice::from_ref(&waiting), &claims, 200), [2]);
        let running = on_node(pod("ReplicaSet", "web-b"), "n1");
        assert_eq!(plans.plan(&[waiting.clone(), running], &claims, 210), [1], "late, and not the other");
        // Others of one plan were taken: the owner's pods can be scheduled.
        let claims = [launch("n3", 500, &["web-a", "web-b"]), launch("n4", 500, &["web-c"])];
        let running = on_node(pod("ReplicaSet", "web-c"), "n4");
        assert_eq!(plans.plan(&[waiting.clone(), running.clone()], &claims, 600), [0; 0]);
        let claims = [claims.to_vec(), vec![launch("n5", 700, &["web-a"])]].concat();
        assert_eq!(plans.plan(&[waiting, running], &claims, 800), [1], "and that of a later plan was not");
    }

    #[test]
    fn an_owner_is_what_makes_the_pods() {
        // A Job or a ReplicaSet replaces its pods, and a StatefulSet makes one of the same name.
        for (kind, first, next) in [("Job", "web-x2k4p", "web-p9v3c"), ("StatefulSet", "web-0", "web-0")] {
            let mut plans = Plans::default();
            let again = Pod { uid: "again".into(), created: Some(second(80)), ..pod(kind, next) };
            assert_eq!(plans.plan(&[again], &[launch("n1", 0, &[first])], 100), [1], "{kind}");
        }
        let mut plans = Plans::default();
        let alone = pod("", "web");
        assert_eq!(plans.plan(std::slice::from_ref(&alone), &[launch("n1", 0, &["web"])], 100), [1]);
        let other = Pod { uid: "other".into(), created: Some(second(80)), ..alone };
        let mut plans = Plans::default();
        assert_eq!(plans.plan(&[other], &[launch("n1", 0, &["web"])], 100), [0; 0], "another pod of the same name");
        // A pod that leaves its node later has its new node already.
        let mut plans = Plans::default();
        let leaving = on_node(pod("ReplicaSet", "web-b"), "old");
        let pods = [leaving, pod("ReplicaSet", "web-a")];
        assert_eq!(plans.plan(&pods, &[launch("n1", 0, &["web-b"])], 100), [0; 0]);
        // Names that begin alike.
        let mut plans = Plans::default();
        assert_eq!(plans.plan(&[pod("ReplicaSet", "web-a")], &[launch("n1", 0, &["web-api-a"])], 100), [0; 0]);
        let revision = |hash: &str| {
            let labels = [(REVISION.to_owned(), hash.to_owned())].into_iter().collect();
            Pod { template: PodTemplate { labels, ..PodTemplate::default() }.into(), ..pod("StatefulSet", "web-0") }
        };
        assert_ne!(owner(&revision("one")), owner(&revision("two")), "a changed template may be scheduled");
    }

    #[test]
    fn a_node_that_is_removed_as_empty_counts_at_once_and_one_that_is_interrupted_does_not() {
        let ended = |reason| {
            let mut claim = launch("n1", 0, &["web-a"]);
            claim.phase = Phase::Draining;
            let requested = second(70);
            let message = String::new();
            claim.status.termination =
                Some(nodeless_model::claim::Termination { reason, message, requested, deadline: None });
            claim
        };
        let pods = [pod("ReplicaSet", "web-a")];
        assert_eq!(Plans::default().plan(&pods, &[ended(TerminationReason::Empty)], 75), [1]);
        assert_eq!(Plans::default().plan(&pods, &[ended(TerminationReason::Interrupted)], 200), [0; 0]);
    }

    #[test]
    fn a_node_that_is_gone_before_the_next_plan_counts() {
        let pods = [pod("ReplicaSet", "web-a")];
        let mut plans = Plans::default();
        assert_eq!(plans.plan(&pods, &[launch("n1", 0, &["web-a"])], 65), [0; 0]);
        assert_eq!(plans.plan(&pods, &[], 80), [1]);
        assert_eq!(plans.plan(&pods, &[], 90), [1], "once");
        let mut plans = Plans::default();
        plans.plan(&pods, &[launch("n1", 0, &["web-a"])], 65);
        let taken = [pods[0].clone(), on_node(pod("ReplicaSet", "web-b"), "n1")];
        assert_eq!(plans.plan(&taken, &[launch("n1", 0, &["web-a"])], 70), [0; 0]);
        assert_eq!(plans.plan(&pods, &[], 80), [0; 0], "a pod took it first");
    }

    #[test]
    fn an_owner_is_forgotten_two_hours_after_its_last_pod() {
        let mut plans = Plans::default();
        let pods = [pod("Job", "web-a")];
        assert_eq!(plans.plan(&pods, &[launch("n1", 0, &["web-a"])], 100), [1]);
        assert_eq!(plans.plan(&[], &[], 7299), [1]);
        assert_eq!(plans.plan(&[], &[], 7300), [0; 0]);
    }
}
