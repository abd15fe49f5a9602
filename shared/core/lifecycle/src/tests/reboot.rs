//! Reboots by node repair.

use super::*;
use crate::{Effect, Step, reboot, step};
use nodeless_model::claim::Reboot;

/// A claim whose node is to be rebooted from second 1000 on, after a drain of at most five minutes.
fn requested() -> NodeClaim {
    let mut one = claim(Phase::Initialized);
    reboot::request(&mut one, "its GPU has failed", minutes(5), at(1000));
    one
}

fn node(boot_id: &str) -> Node {
    Node { boot_id: boot_id.into(), taints: vec![Taint::rebooting()], ..ready_node() }
}

/// The step of a claim whose node has these pods.
fn next(claim: &NodeClaim, node: &Node, pods: Vec<Pod>, second: i64) -> Step {
    let seen = Observation { nodes: Seen::Known(vec![node.clone()]), pods: Seen::Known(pods), ..all_is_well() };
    step(claim, &seen, at(second), &settings())
}

fn calls(step: &Step) -> bool {
    step.effects.contains(&Effect::RebootInstance { id: "i-1".into() })
}

fn state(claim: &NodeClaim) -> (ConditionStatus, &str) {
    let found = claim.condition(condition::REBOOTING).unwrap();
    (found.status, found.reason.as_str())
}

/// The same claim after the call at second 1010.
fn asked() -> NodeClaim {
    let next = next(&requested(), &node("boot-1"), Vec::new(), 1010);
    assert!(calls(&next));
    next.claim
}

#[test]
fn a_node_is_drained_before_its_instance_is_rebooted_and_pods_that_stay_restart_with_it() {
    let one = requested();
    let open = Node { taints: Vec::new(), ..node("boot-1") };
    let tainted = next(&one, &open, Vec::new(), 1010);
    let adds =
        |effect: &Effect| matches!(effect, Effect::PatchNode { patch, .. } if patch.add_taints == [Taint::rebooting()]);
    assert!(tainted.effects.iter().any(adds) && !calls(&tainted));
    assert!(!calls(&next(&one, &node("boot-1"), Vec::new(), 1004)), "pods may have been bound a moment ago");
    let evicts = |step: &Step| step.effects.iter().any(|effect| matches!(effect, Effect::Evict { .. }));
    let draining = next(&one, &node("boot-1"), vec![pod("web")], 1299);
    assert!(evicts(&draining) && !calls(&draining));
    let ended = next(&one, &node("boot-1"), vec![pod("web")], 1300);
    assert!(!evicts(&ended) && calls(&ended));
    let call = ended.claim.rebooting().unwrap().call.clone().unwrap();
    assert_eq!((call.boot_id.as_str(), call.first, call.last), ("boot-1", at(1300), at(1300)), "it is written first");
    assert_eq!(state(&ended.claim), (ConditionStatus::True, "RebootIssued"));
    assert!(!ended.claim.has_condition(condition::INITIALIZED) && ended.claim.phase == Phase::Initialized);
}

#[test]
fn nothing_is_rebooted_on_doubt() {
    let one = requested();
    let unknown = || "EC2 did not answer".to_owned();
    let well = || Observation { nodes: Seen::Known(vec![node("boot-1")]), ..all_is_well() };
    let stopping = instance("i-1", InstanceState::Pending);
    for seen in [
        Observation { nodes: Seen::Unknown(unknown()), ..well() },
        Observation { nodes: Seen::Known(Vec::new()), ..well() },
        Observation { pods: Seen::Unknown(unknown()), ..well() },
        Observation { instance: Seen::Unknown(unknown()), ..well() },
        Observation { instance: Seen::Known(Some(stopping)), ..well() },
        Observation { zonal_shift: Some("a zonal shift is in effect".into()), ..well() },
    ] {
        let waits = step(&one, &seen, at(1010), &settings());
        assert!(!calls(&waits) && waits.claim.rebooting().is_some() && waits.requeue.is_some(), "{seen:?}");
    }
    assert!(calls(&step(&one, &well(), at(1010), &settings())));
}

#[test]
fn the_call_is_repeated_only_while_the_node_runs_as_before() {
    let one = asked();
    let mut off = node("boot-1");
    off.conditions[0].status = None;
    for (node, second, expected) in [
        (node("boot-1"), 1025, false),
        (node("boot-1"), 1309, false),
        (node("boot-1"), 1310, true),
        (off, 1310, false),
        (node(""), 1309, false),
        (node("boot-2"), 1310, false),
    ] {
        assert_eq!(calls(&next(&one, &node, Vec::new(), second)), expected, "{} at {second}", node.boot_id);
    }
    let again = next(&one, &node("boot-1"), Vec::new(), 1310);
    assert!(!calls(&next(&again.claim, &node("boot-1"), Vec::new(), 1320)));
    let call = again.claim.rebooting().unwrap().call.clone().unwrap();
    assert_eq!((call.first, call.last), (at(1010), at(1310)), "the time limit stays");
}

#[test]
fn a_node_that_is_ready_with_another_boot_id_takes_pods_again() {
    let mut booting = node("boot-2");
    booting.conditions[0].status = Some(false);
    booting.labels.remove(labels::INITIALIZED);
    let removes = |step: &Step| {
        let of = |effect: &Effect| matches!(effect, Effect::PatchNode { patch, .. } if patch.remove_taints == [Taint::rebooting()]);
        step.effects.iter().any(of)
    };
    assert!(removes(&next(&asked(), &booting, Vec::new(), 1030)), "as soon as it has booted");
    booting.taints.clear();
    assert!(next(&asked(), &booting, Vec::new(), 1040).claim.rebooting().is_some());
    booting.conditions[0].status = Some(true);
    let back = next(&asked(), &booting, Vec::new(), 1050).claim;
    assert_eq!((back.rebooting(), back.back_since()), (None, Some(at(1050))));
    assert_eq!(state(&back), (ConditionStatus::False, "RebootSucceeded"));
    let labelled = next(&back, &booting, Vec::new(), 1051);
    let labels_it = |effect: &Effect| matches!(effect, Effect::PatchNode { patch, .. } if patch.labels.contains_key(labels::INITIALIZED));
    assert!(labelled.effects.iter().any(labels_it));
    assert_eq!(labelled.requeue, Some(Duration::ZERO), "the condition follows at once");
    let done = next(&labelled.claim, &Node { taints: Vec::new(), ..node("boot-2") }, Vec::new(), 1052).claim;
    assert!(done.has_condition(condition::INITIALIZED) && done.has_condition(condition::READY));
}

#[test]
fn a_node_that_does_not_come_back_within_twenty_minutes_is_left_to_node_repair() {
    let one = asked();
    let mut off = node("boot-1");
    off.conditions[0].status = None;
    assert!(next(&one, &off, Vec::new(), 1010 + 1199).claim.rebooting().is_some());
    let failed = next(&one, &off, Vec::new(), 1010 + 1200);
    assert_eq!(
        (failed.claim.rebooting(), failed.claim.phase),
        (None, Phase::Initialized),
        "nothing is terminated here"
    );
    assert!(!failed.claim.may_be_rebooted(at(1010 + 1200)) && failed.claim.back_since().is_none());
    assert_eq!(state(&failed.claim), (ConditionStatus::False, "RebootFailed"));
    assert!(failed.effects.contains(&Effect::WakePlanner));
    assert!(failed.events.iter().any(|event| event.reason == "RebootFailed"));
}

#[test]
fn a_node_whose_reboot_has_failed_takes_no_pods_while_the_reboot_counts() {
    let mut back = node("boot-1");
    back.labels.remove(labels::INITIALIZED);
    let failed = next(&asked(), &back, Vec::new(), 1010 + 1200).claim;
    assert_eq!(state(&failed), (ConditionStatus::False, "RebootFailed"));
    let patched = |second| {
        let effects = next(&failed, &back, Vec::new(), second).effects;
        effects.iter().any(|effect| matches!(effect, Effect::PatchNode { .. }))
    };
    let day = 24 * 3600;
    assert!(!patched(2211) && !patched(1000 + day - 1), "its GPU may still be faulty");
    assert!(patched(1000 + day));
}

#[test]
fn a_reboot_without_a_call_waits_for_an_hour_and_does_not_count() {
    let well = || Observation { nodes: Seen::Known(vec![node("boot-1")]), ..all_is_well() };
    let late = 1300 + 3599;
    assert!(calls(&step(&requested(), &well(), at(late), &settings())), "nothing was observed meanwhile");
    for seen in [
        Observation { instance: Seen::Unknown("EC2 did not answer".into()), ..well() },
        Observation { zonal_shift: Some("a zonal shift is in effect".into()), ..well() },
    ] {
        assert!(step(&requested(), &seen, at(late), &settings()).claim.rebooting().is_some(), "{seen:?}");
        let ended = step(&requested(), &seen, at(late + 1), &settings());
        assert_eq!(state(&ended.claim), (ConditionStatus::False, "RebootNotAttempted"));
        assert!(ended.claim.status.reboots.is_empty() && ended.claim.may_be_rebooted(at(late + 1)));
        assert!(ended.effects.contains(&Effect::WakePlanner) && !calls(&ended));
        let opened = step(&ended.claim, &seen, at(late + 2), &settings());
        let opens = |effect: &Effect| matches!(effect, Effect::PatchNode { patch, .. } if patch.remove_taints == [Taint::rebooting()]);
        assert!(opened.effects.iter().any(opens), "{opened:?}");
    }
}

#[test]
fn the_second_reboot_within_a_day_is_the_last_and_older_ones_are_forgotten() {
    let mut one = claim(Phase::Initialized);
    let ended = |claim: &mut NodeClaim, second| {
        reboot::request(claim, "its GPU has failed", minutes(5), at(second));
        let end = nodeless_model::claim::RebootEnd { at: at(second + 60), succeeded: true };
        claim.status.reboots.last_mut().unwrap().end = Some(end);
    };
    ended(&mut one, 0);
    assert!(one.may_be_rebooted(at(100)));
    ended(&mut one, 100);
    assert!(!one.may_be_rebooted(at(200)) && one.may_be_rebooted(at(24 * 3600)));
    ended(&mut one, 24 * 3600);
    let requested: Vec<Timestamp> = one.status.reboots.iter().map(|reboot: &Reboot| reboot.requested).collect();
    assert_eq!(requested, [at(100), at(24 * 3600)]);
}
