//! Pods that get their successors before their node is drained.

use super::leaving::{closed, draining_with, leaving};
use super::*;
use crate::{Effect, Prospect, Step, asking, begin_termination, prospect, step};
use nodeless_model::claim::TerminationReason;
use nodeless_model::object::PodRef;
use nodeless_model::surge::{DeploymentChange, OwningDeployment, Raise, ReadyPod, Surge, SurgeMode, SurgeState};
use nodeless_model::{LabelSelector, PodDisruptionBudget};

fn asking_pod(mode: &str) -> Pod {
    Pod { owner_kind: Some("ReplicaSet".into()), owner_name: Some("web-1".into()), ready: Some(true), ..pod("a") }
        .with_template(|it| {
            it.annotations = StringMap::from([(labels::SURGE_BEFORE_DRAIN.into(), mode.into())]);
            it.labels = StringMap::from([("app".into(), "web".into())]);
        })
}

/// A Deployment with one pod, as it is by default.
fn single() -> OwningDeployment {
    OwningDeployment {
        name: "web".into(),
        observed: true,
        current: true,
        replicas: 1,
        max_surge: 1,
        ready: vec![ready_on("a", "node-1")],
        ..OwningDeployment::default()
    }
}

fn ready_on(pod: &str, node: &str) -> ReadyPod {
    let pod = PodRef { namespace: "default".into(), name: pod.into(), uid: format!("uid-{pod}") };
    ReadyPod { pod, node: node.into(), since: Some(at(0)) }
}

/// The ready pod of the draining node, and others on these nodes.
fn beside(nodes: &[&str]) -> Vec<ReadyPod> {
    let others = nodes.iter().enumerate().map(|(place, node)| ready_on(&format!("other-{place}"), node));
    std::iter::once(ready_on("a", "node-1")).chain(others).collect()
}

fn raise(claim: &str, pod: &str) -> Raise {
    Raise { claim: claim.into(), pod: pod.into(), from: 1, to: 2, at: at(1) }
}

fn budget(allowed: i32) -> PodDisruptionBudget {
    let selector =
        LabelSelector { match_labels: StringMap::from([("app".into(), "web".into())]), ..LabelSelector::default() };
    PodDisruptionBudget {
        namespace: "default".into(),
        selector: Some(selector),
        disruptions_allowed: allowed,
        ..PodDisruptionBudget::default()
    }
}

fn seen(pod: Pod, deployment: OwningDeployment, budgets: Vec<PodDisruptionBudget>) -> Observation {
    let deployments = BTreeMap::from([(pod.uid.clone(), Seen::Known(Some(deployment)))]);
    let nodes = [
        ("stays", Seen::Known(Prospect::Stays)),
        ("leaves", Seen::Known(Prospect::Leaves)),
        ("untainted", Seen::Known(Prospect::LeavesUntainted)),
        ("unread", Seen::Unknown("no answer".into())),
    ];
    let nodes = nodes.map(|(name, prospect)| (name.to_owned(), prospect)).into();
    let owners = SeenOwners { deployments, nodes, budgets: Seen::Known(budgets) };
    Observation { owners, ..draining_with(vec![pod]) }
}

fn evicts(step: &Step) -> bool {
    step.effects.iter().any(|effect| matches!(effect, Effect::Evict { .. }))
}

fn change(step: &Step) -> Option<&DeploymentChange> {
    step.effects.iter().find_map(|effect| match effect {
        Effect::ChangeDeployment { change, .. } => Some(change),
        _ => None,
    })
}

fn state(step: &Step) -> Option<&SurgeState> {
    step.claim.status.surge_for("uid-a").map(|surge| &surge.state)
}

/// The message of a Warning that the pod is evicted without a successor.
fn warning(step: &Step) -> Option<&str> {
    let warnings = ["SurgeRefused", "SurgeTimedOut"];
    step.events.iter().find(|event| warnings.contains(&event.reason.as_str())).map(|event| event.message.as_str())
}

fn next(claim: &NodeClaim, seen: &Observation, now: i64) -> Step {
    step(claim, seen, at(now), &settings())
}

/// The claim with a surge in this state, for the pod of `asking_pod`.
fn with_surge(mode: SurgeMode, state: SurgeState) -> NodeClaim {
    let mut claim = leaving(Phase::Draining);
    claim.status.drain_started = Some(at(1));
    claim.status.surges.push(Surge {
        namespace: "default".into(),
        pod: "a".into(),
        pod_uid: "uid-a".into(),
        deployment: "web".into(),
        mode,
        started: at(1),
        replicas: 1,
        available: 1,
        state,
    });
    claim
}

#[test]
fn a_restart_is_written_and_made_before_the_pod_goes_and_is_not_repeated_once_it_is_seen() {
    let claim = leaving(Phase::Draining);
    let first = next(&claim, &seen(asking_pod("restart"), single(), vec![]), 1);
    assert_eq!(change(&first), Some(&DeploymentChange::Restart { at: at(1) }));
    assert!(!evicts(&first) && first.requeue.is_some());
    assert_eq!(state(&first), Some(&SurgeState::Requested));
    assert!(first.claim.status.replaces_pod("uid-a"));
    assert!(first.events.iter().any(|event| event.reason == "SurgeStarted" && event.object.kind == "Pod"));

    let lost = next(&first.claim, &seen(asking_pod("restart"), single(), vec![]), 9);
    assert_eq!(change(&lost), change(&first), "the same restart, not a second one");

    let rolling = OwningDeployment { current: false, ..single() };
    let taken = next(&first.claim, &seen(asking_pod("restart"), rolling, vec![]), 9);
    assert!(change(&taken).is_none() && !evicts(&taken) && state(&taken) == Some(&SurgeState::Underway));

    let undone = next(&taken.claim, &seen(asking_pod("restart"), single(), vec![]), 20);
    assert!(evicts(&undone) && warning(&undone).unwrap().contains("undone"), "{:?}", undone.events);
    assert!(!undone.claim.status.replaces_pod("uid-a"), "it needs another node again");
}

#[test]
fn a_rollout_that_replaces_the_pod_already_needs_no_restart() {
    let rolling = OwningDeployment { current: false, ..single() };
    for mode in ["restart", "scale"] {
        let first = next(&leaving(Phase::Draining), &seen(asking_pod(mode), rolling.clone(), vec![]), 1);
        assert!(change(&first).is_none() && !evicts(&first), "{:?}", first.effects);
        assert_eq!(state(&first), Some(&SurgeState::Underway));
    }
    let paused = OwningDeployment { paused: true, ..rolling };
    let first = next(&leaving(Phase::Draining), &seen(asking_pod("restart"), paused, vec![]), 1);
    assert!(evicts(&first) && warning(&first).unwrap().contains("paused"));
}

#[test]
fn only_the_last_ready_pod_or_one_without_budget_is_held() {
    let three = OwningDeployment { replicas: 3, ready: beside(&["stays", "stays"]), ..single() };
    let begins = |deployment: &OwningDeployment, budgets: Vec<PodDisruptionBudget>, pod: Pod| {
        let first = next(&leaving(Phase::Draining), &seen(pod, deployment.clone(), budgets), 1);
        assert_eq!(evicts(&first), change(&first).is_none(), "{:?}", first.effects);
        change(&first).is_some()
    };
    let pod = || asking_pod("restart");
    assert!(begins(&single(), vec![], pod()) && begins(&single(), vec![budget(1)], pod()));
    assert!(!begins(&three, vec![], pod()) && !begins(&three, vec![budget(1)], pod()));
    assert!(begins(&three, vec![budget(0)], pod()));
    assert!(begins(&three, vec![budget(1), budget(1)], pod()), "the API evicts no pod that two budgets select");
    assert!(!begins(&single(), vec![], Pod { ready: Some(false), ..pod() }), "it serves nothing");
    assert!(!begins(&single(), vec![], pod().with_template(|it| it.annotations = StringMap::new())));
}

#[test]
fn pods_on_nodes_that_leave_do_not_count() {
    for (mode, restarts) in [("restart", true), ("scale", false)] {
        let first = |nodes: &[&str]| {
            let deployment = OwningDeployment { replicas: 2, ready: beside(nodes), ..single() };
            next(&leaving(Phase::Draining), &seen(asking_pod(mode), deployment, vec![]), 1)
        };
        for nodes in [&["leaves"][..], &["untainted"], &["leaves", "node-1", "not read"]] {
            let step = first(nodes);
            assert!(!evicts(&step), "{nodes:?}");
            assert_eq!(matches!(change(&step), Some(DeploymentChange::Restart { .. })), restarts);
            assert_eq!(matches!(change(&step), Some(DeploymentChange::Raise(_))), !restarts);
        }
        assert!(evicts(&first(&["unread", "leaves", "stays"])));
        let unread = first(&["leaves", "unread"]);
        assert!(!evicts(&unread) && change(&unread).is_none(), "{:?}", unread.effects);
        assert!(unread.blocked[0].contains("no answer"), "{:?}", unread.blocked);
    }
}

/// Two nodes drain, and one of them is not tainted yet when the successor is scheduled.
#[test]
fn a_successor_on_a_node_that_leaves_is_replaced_before_the_pod_goes() {
    let claim = with_surge(SurgeMode::Scale, SurgeState::Underway);
    let raised = |nodes: &[&str]| OwningDeployment {
        replicas: 2,
        ready: beside(nodes),
        raise: Some(raise(&claim.name, "uid-a")),
        ..single()
    };
    let step_with = |claim: &NodeClaim, deployment: OwningDeployment, now| {
        next(claim, &seen(asking_pod("scale"), deployment, vec![]), now)
    };
    // The next successor might also be scheduled to the other node while that accepts pods.
    for node in ["untainted", "unread"] {
        let waits = step_with(&claim, raised(&[node]), 30);
        assert!(!evicts(&waits) && change(&waits).is_none(), "{:?}", waits.effects);
    }
    let replaces = step_with(&claim, raised(&["leaves"]), 40);
    assert!(!evicts(&replaces) && state(&replaces) == Some(&SurgeState::Requested));
    let effect = replaces.effects.iter().find(|effect| matches!(effect, Effect::ChangeDeployment { .. }));
    let Some(Effect::ChangeDeployment { change: made, delete_first, .. }) = effect else { panic!("{replaces:?}") };
    assert_eq!(*made, DeploymentChange::Lower { claim: claim.name.clone(), pod: "uid-a".into() });
    assert_eq!(delete_first.as_ref().map(|pod| pod.uid.as_str()), Some("uid-other-0"));

    let deleting = OwningDeployment { ready: beside(&["leaves"]), ..single() };
    let waits = step_with(&replaces.claim, deleting, 41);
    assert!(!evicts(&waits) && change(&waits).is_none(), "{:?}", waits.effects);
    let again = step_with(&replaces.claim, single(), 42);
    assert!(!evicts(&again) && matches!(change(&again), Some(DeploymentChange::Raise(_))), "{:?}", again.effects);
    let lowers = step_with(&again.claim, raised(&["stays"]), 80);
    assert_eq!(state(&lowers), Some(&SurgeState::Lowering { since: at(80) }));
}

#[test]
fn a_pod_whose_successor_was_lost_gets_another_one() {
    let claim = with_surge(SurgeMode::Scale, SurgeState::Lowering { since: at(40) });
    let observed = seen(asking_pod("scale"), single(), vec![]);
    let waits = next(&claim, &observed, 60);
    assert!(!evicts(&waits) && change(&waits).is_none(), "the controllers may delete it yet");
    let again = next(&claim, &observed, 71);
    assert!(!evicts(&again) && warning(&again).is_none(), "{:?}", again.events);
    let expected = Raise { at: at(71), ..raise(&claim.name, "uid-a") };
    assert_eq!(change(&again), Some(&DeploymentChange::Raise(expected)));
    assert_eq!(state(&again), Some(&SurgeState::Requested));
    // The wait for it does not begin again.
    assert!(evicts(&next(&again.claim, &observed, 601)));
}

#[test]
fn what_is_expected_of_a_node_follows_from_its_node_and_claim() {
    let of = |node: &Node, claim: Option<&NodeClaim>| prospect(Some(node), claim);
    let (ready, present) = (ready_node(), claim(Phase::Initialized));
    assert_eq!(of(&ready, Some(&present)), Ok(Prospect::Stays));
    assert_eq!(of(&Node { labels: StringMap::new(), ..ready.clone() }, None), Ok(Prospect::Stays), "not managed");
    assert!(of(&ready, None).unwrap_err().contains("node-1"));
    let mut in_command = present.clone();
    in_command.status.command = Some("command".into());
    for taken in [&leaving(Phase::Draining), &in_command] {
        assert_eq!(of(&ready, Some(taken)), Ok(Prospect::LeavesUntainted));
        assert_eq!(of(&closed(), Some(taken)), Ok(Prospect::Leaves));
    }
    let deleted = Node { deletion_timestamp: Some(at(1)), ..ready.clone() };
    assert_eq!(of(&deleted, Some(&present)), Ok(Prospect::LeavesUntainted));
    for node in [Node { unschedulable: true, ..ready.clone() }, Node { conditions: Vec::new(), ..ready }] {
        assert_eq!(of(&node, Some(&present)), Ok(Prospect::Leaves));
    }
    assert_eq!(prospect(None, None), Ok(Prospect::Leaves));
}

#[test]
fn what_cannot_bring_a_successor_first_is_refused_with_the_reason() {
    let recreate = OwningDeployment { recreate: true, ..single() };
    let no_surge = OwningDeployment { max_surge: 0, max_unavailable: 1, ..single() };
    let both = OwningDeployment { max_surge: 1, max_unavailable: 1, ..single() };
    for (deployment, expected) in [
        (recreate.clone(), "Recreate"),
        (no_surge, "maxSurge to 1 and maxUnavailable to 0"),
        (both, "maxUnavailable to 0"),
        (OwningDeployment { paused: true, ..single() }, "paused"),
    ] {
        let first = next(&leaving(Phase::Draining), &seen(asking_pod("restart"), deployment, vec![]), 1);
        assert!(evicts(&first) && change(&first).is_none(), "{:?}", first.effects);
        assert!(warning(&first).unwrap().contains(expected), "{:?}", warning(&first));
        assert!(first.claim.status.surges.is_empty(), "it is evaluated again when the Deployment is changed");
    }
    let first = next(&leaving(Phase::Draining), &seen(asking_pod("scale"), recreate, vec![]), 1);
    assert!(matches!(change(&first), Some(DeploymentChange::Raise(_))), "the template does not change");

    let stateful = Pod { owner_kind: Some("StatefulSet".into()), ..asking_pod("restart") };
    let first = next(&leaving(Phase::Draining), &draining_with(vec![stateful.clone()]), 1);
    assert!(evicts(&first) && warning(&first).unwrap().contains("StatefulSet"), "{:?}", first.events);
    let invalid = asking_pod("true");
    let first = next(&leaving(Phase::Draining), &seen(invalid.clone(), single(), vec![]), 1);
    assert!(evicts(&first) && warning(&first).unwrap().contains("restart or scale"));
    let pods = [stateful, invalid, pod("b"), asking_pod("scale")];
    let read: Vec<&Pod> = asking(&leaving(Phase::Draining), &pods).collect();
    assert_eq!(read, [&pods[3]], "nothing is read for others");
}

#[test]
fn a_scaled_deployment_gets_its_replicas_back_and_deletes_the_pod_itself() {
    let claim = leaving(Phase::Draining);
    let first = next(&claim, &seen(asking_pod("scale"), single(), vec![]), 1);
    let ours = raise(&claim.name, "uid-a");
    assert_eq!(change(&first), Some(&DeploymentChange::Raise(ours.clone())));
    assert!(!evicts(&first));

    let raised = OwningDeployment { replicas: 2, raise: Some(ours), ..single() };
    let waits = next(&first.claim, &seen(asking_pod("scale"), raised.clone(), vec![]), 5);
    assert!(change(&waits).is_none() && !evicts(&waits) && state(&waits) == Some(&SurgeState::Underway));

    let both = OwningDeployment { ready: beside(&["stays"]), ..raised };
    let lowers = next(&waits.claim, &seen(asking_pod("scale"), both.clone(), vec![]), 60);
    assert_eq!(state(&lowers), Some(&SurgeState::Lowering { since: at(60) }));
    let lower = DeploymentChange::Lower { claim: claim.name, pod: "uid-a".into() };
    let effect = lowers.effects.iter().find(|effect| matches!(effect, Effect::ChangeDeployment { .. }));
    let Some(Effect::ChangeDeployment { change: made, delete_first, .. }) = effect else { panic!("{lowers:?}") };
    assert_eq!((made, delete_first.as_ref().map(|pod| pod.uid.as_str())), (&lower, Some("uid-a")));
    assert!(!evicts(&lowers));
    let again = next(&lowers.claim, &seen(asking_pod("scale"), both, vec![]), 61);
    assert_eq!(change(&again), Some(&lower), "the process ended before it was lowered");

    let lowered = OwningDeployment { ready: beside(&["stays"]), ..single() };
    let deletes = next(&lowers.claim, &seen(asking_pod("scale"), lowered.clone(), vec![]), 62);
    assert!(change(&deletes).is_none() && !evicts(&deletes), "{:?}", deletes.effects);
    let kept = next(&lowers.claim, &seen(asking_pod("scale"), lowered, vec![]), 95);
    assert!(evicts(&kept) && warning(&kept).unwrap().contains("kept it"));
}

#[test]
fn a_raise_ends_with_its_pod_and_at_the_latest_with_its_claim() {
    let claim = with_surge(SurgeMode::Scale, SurgeState::Underway);
    let lower = DeploymentChange::Lower { claim: claim.name.clone(), pod: "uid-a".into() };
    let going = Pod { deletion_timestamp: Some(at(90)), ..asking_pod("scale") };
    for pods in [vec![going], vec![pod("b")]] {
        let step = next(&claim, &draining_with(pods), 60);
        assert_eq!(change(&step), Some(&lower));
    }
    let gone = NodeClaim { phase: Phase::Gone, ..claim };
    let step = next(&gone, &draining_with(Vec::new()), 200);
    let position = |sought: fn(&Effect) -> bool| step.effects.iter().position(sought).unwrap();
    let lowered = position(|effect| matches!(effect, Effect::ChangeDeployment { .. }));
    assert!(lowered < position(|effect| *effect == Effect::DeleteRecord), "{:?}", step.effects);
    let restarted = NodeClaim { phase: Phase::Gone, ..with_surge(SurgeMode::Restart, SurgeState::Underway) };
    assert_eq!(change(&next(&restarted, &draining_with(Vec::new()), 200)), None);
}

#[test]
fn replicas_that_another_party_lowers_are_raised_again_until_the_wait_ends() {
    let claim = with_surge(SurgeMode::Scale, SurgeState::Underway);
    let recorded = OwningDeployment { raise: Some(raise(&claim.name, "uid-a")), ..single() };
    let ended = next(&claim, &seen(asking_pod("scale"), recorded, vec![]), 60);
    let lower = DeploymentChange::Lower { claim: claim.name.clone(), pod: "uid-a".into() };
    assert_eq!((change(&ended), state(&ended)), (Some(&lower), Some(&SurgeState::Requested)));
    assert!(!evicts(&ended));
    for claim in [claim, ended.claim] {
        let again = next(&claim, &seen(asking_pod("scale"), single(), vec![]), 61);
        assert_eq!(change(&again), Some(&DeploymentChange::Raise(raise(&claim.name, "uid-a"))));
        assert!(!evicts(&again) && state(&again) == Some(&SurgeState::Requested));
    }
    let mut long = with_surge(SurgeMode::Scale, SurgeState::Underway);
    long.status.termination.as_mut().unwrap().deadline = Some(at(86_400));
    for raise in [Some(raise(&long.name, "uid-a")), None] {
        let lowered = OwningDeployment { raise, ..single() };
        let early = next(&long, &seen(asking_pod("scale"), lowered.clone(), vec![]), 600);
        assert!(!evicts(&early) && change(&early).is_some(), "{:?}", early.effects);
        let late = next(&long, &seen(asking_pod("scale"), lowered, vec![]), 601);
        assert!(evicts(&late) && warning(&late).unwrap().contains("use restart"), "{:?}", late.events);
    }
    let requested = with_surge(SurgeMode::Scale, SurgeState::Requested);
    let two = OwningDeployment { replicas: 2, ..single() };
    let step = next(&requested, &seen(asking_pod("scale"), two, vec![]), 60);
    let expected = Raise { from: 2, to: 3, ..raise(&requested.name, "uid-a") };
    assert_eq!(change(&step), Some(&DeploymentChange::Raise(expected)), "from the replicas that it has now");
}

#[test]
fn a_pod_gets_the_lowest_deletion_cost_with_the_raise() {
    let first = next(&leaving(Phase::Draining), &seen(asking_pod("scale"), single(), vec![]), 1);
    let is_first = |effect: &Effect| matches!(effect, Effect::ChangeDeployment { delete_first: Some(pod), .. } if pod.uid == "uid-a");
    assert!(first.effects.iter().any(is_first), "{:?}", first.effects);
}

#[test]
fn a_pod_needs_no_successor_any_more_once_that_of_another_pod_is_ready() {
    let claim = with_surge(SurgeMode::Scale, SurgeState::Requested);
    let two = OwningDeployment { replicas: 2, ready: beside(&["stays"]), ..single() };
    let step = next(&claim, &seen(asking_pod("scale"), two.clone(), vec![]), 60);
    assert!(evicts(&step) && change(&step).is_none(), "{:?}", step.effects);
    let budgeted = next(&claim, &seen(asking_pod("scale"), two, vec![budget(0)]), 60);
    assert!(!evicts(&budgeted) && change(&budgeted).is_some(), "its budget allows no eviction");
}

#[test]
fn one_pod_after_the_other_is_scaled() {
    let claim = leaving(Phase::Draining);
    let raised = |raise| OwningDeployment { replicas: 2, raise: Some(raise), ..single() };
    for other in [raise("other", "uid-z"), raise(&claim.name, "uid-b")] {
        let waits = next(&claim, &seen(asking_pod("scale"), raised(other), vec![]), 5);
        assert!(change(&waits).is_none() && !evicts(&waits) && waits.claim.status.surges.is_empty());
    }
    let requested = with_surge(SurgeMode::Scale, SurgeState::Requested);
    let waits = next(&requested, &seen(asking_pod("scale"), raised(raise("other", "uid-z")), vec![]), 5);
    assert!(change(&waits).is_none() && !evicts(&waits), "it was raised for the other in between");
    let old = next(&claim, &seen(asking_pod("scale"), raised(raise("other", "uid-z")), vec![]), 3700);
    assert!(evicts(&old) && warning(&old).unwrap().contains("NodeClaim other"), "{:?}", old.events);
    let own = next(&claim, &seen(asking_pod("scale"), raised(raise(&claim.name, "uid-a")), vec![]), 5);
    assert_eq!((change(&own), state(&own)), (None, Some(&SurgeState::Underway)), "its record was lost");
}

#[test]
fn the_wait_ends() {
    let rolling = OwningDeployment { current: false, ..single() };
    let claim = with_surge(SurgeMode::Restart, SurgeState::Underway);
    let observed = seen(asking_pod("restart"), rolling, vec![]);
    let early = next(&claim, &observed, 600);
    assert!(!evicts(&early) && warning(&early).is_none());
    let late = next(&claim, &observed, 601);
    assert!(evicts(&late) && warning(&late).unwrap().contains("1970-01-01T00:10:01Z"), "{:?}", late.events);
    // With a termination grace period, the pod may take that long.
    let mut later_deadline = claim;
    later_deadline.status.termination.as_mut().unwrap().deadline = Some(at(7200));
    assert!(!evicts(&next(&later_deadline, &observed, 7100)));
    let forced = next(&later_deadline, &observed, 7171);
    assert!(matches!(forced.effects.first(), Some(Effect::DeletePod { .. })), "{:?}", forced.effects);
}

#[test]
fn an_unreadable_deployment_holds_the_pod_until_the_end_of_the_wait() {
    let mut claim = leaving(Phase::Draining);
    claim.status.drain_started = Some(at(1));
    let mut unread = seen(asking_pod("restart"), single(), vec![]);
    unread.owners.deployments.insert("uid-a".into(), Seen::Unknown("no answer".into()));
    let waits = next(&claim, &unread, 10);
    assert!(!evicts(&waits) && waits.blocked[0].contains("no answer"), "{:?}", waits.blocked);
    assert!(evicts(&next(&claim, &unread, 601)));
    let two = OwningDeployment { ready: beside(&["stays"]), ..single() };
    let mut no_budgets = seen(asking_pod("restart"), two, vec![]);
    no_budgets.owners.budgets = Seen::default();
    assert!(!evicts(&next(&claim, &no_budgets, 10)));
    let none = Seen::Known(None);
    unread.owners.deployments.insert("uid-a".into(), none);
    assert!(warning(&next(&claim, &unread, 10)).unwrap().contains("no Deployment"));
    let unobserved = OwningDeployment { observed: false, ..single() };
    let waits = next(&claim, &seen(asking_pod("restart"), unobserved, vec![]), 10);
    assert!(!evicts(&waits) && change(&waits).is_none());
}

#[test]
fn an_interruption_waits_for_nothing() {
    // Before the drain: an eviction brings the successor as soon, unless a budget allows none.
    let mut interrupted = claim(Phase::Initialized);
    assert!(begin_termination(&mut interrupted, TerminationReason::Interrupted, "spot", at(0)));
    let at_once = next(&interrupted, &seen(asking_pod("restart"), single(), vec![]), 1);
    assert!(evicts(&at_once) && change(&at_once).is_none(), "{:?}", at_once.effects);
    let blocked = next(&interrupted, &seen(asking_pod("restart"), single(), vec![budget(0)]), 1);
    assert!(evicts(&blocked) && change(&blocked).is_some(), "{:?}", blocked.effects);

    // During the drain.
    let mut claim = with_surge(SurgeMode::Restart, SurgeState::Underway);
    let rolling = OwningDeployment { current: false, ..single() };
    let observed = seen(asking_pod("restart"), rolling, vec![]);
    assert!(!evicts(&next(&claim, &observed, 60)));
    begin_termination(&mut claim, TerminationReason::Interrupted, "spot", at(60));
    assert!(evicts(&next(&claim, &observed, 61)));

    // Nor does a node that is broken.
    let mut broken = leaving(Phase::Draining);
    broken.status.termination.as_mut().unwrap().reason = TerminationReason::InstanceMissing;
    assert!(evicts(&next(&broken, &seen(asking_pod("restart"), single(), vec![]), 1)));
    let silent = Node { conditions: Vec::new(), ..closed() };
    let mut observed = seen(asking_pod("restart"), single(), vec![]);
    observed.nodes = Seen::Known(vec![silent]);
    assert!(evicts(&next(&leaving(Phase::Draining), &observed, 1)));
}

#[test]
fn a_change_that_was_denied_is_attempted_again_after_a_time() {
    let denied = SurgeState::denied("no right", at(100));
    let SurgeState::Refused { again: Some(again), .. } = &denied else { panic!("{denied:?}") };
    let again = again.as_second();
    assert!(again > 130, "not at each step");
    let claim = with_surge(SurgeMode::Restart, denied);
    let observed = seen(asking_pod("restart"), single(), vec![budget(0)]);
    let waits = next(&claim, &observed, again - 1);
    assert!(
        evicts(&waits) && change(&waits).is_none() && warning(&waits).unwrap().contains("no right"),
        "{:?}",
        waits.events
    );
    assert_eq!(waits.claim.status.surges, claim.status.surges, "the time does not move");
    let begins = next(&claim, &observed, again);
    assert_eq!(change(&begins), Some(&DeploymentChange::Restart { at: at(again) }));
    assert!(!evicts(&begins) && warning(&begins).is_none());
    // After the longest wait, too, for as long again; with a deadline, not after it.
    let late = next(&claim, &observed, 2000);
    assert!(change(&late).is_some() && !evicts(&late));
    let rolling = seen(asking_pod("restart"), OwningDeployment { current: false, ..single() }, vec![budget(0)]);
    assert!(!evicts(&next(&late.claim, &rolling, 2599)));
    assert!(evicts(&next(&late.claim, &rolling, 2600)));
    let mut forced = claim;
    forced.status.termination.as_mut().unwrap().deadline = Some(at(1999));
    assert!(change(&next(&forced, &observed, 2000)).is_none());
    // A change that another party undid is not attempted again.
    let undone = with_surge(SurgeMode::Restart, SurgeState::Refused { why: "undone".into(), again: None });
    assert!(change(&next(&undone, &observed, 5000)).is_none());
}

#[test]
fn records_without_the_time_of_the_next_attempt_are_read() {
    let state: SurgeState = serde_json::from_str(r#"{"refused":{"why":"no right"}}"#).unwrap();
    assert_eq!(state, SurgeState::Refused { why: "no right".into(), again: None });
    assert_eq!(serde_json::to_string(&state).unwrap(), r#"{"refused":{"why":"no right"}}"#);
}
