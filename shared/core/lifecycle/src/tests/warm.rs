//! Warm nodes: what is stopped, started, kept and terminated, by table and by property.

use super::properties::any_observation;
use super::*;
use crate::{Effect, Needs, begin_termination, step, warm};
use nodeless_model::EndedNode;
use nodeless_model::claim::{Charge, TerminationReason};
use nodeless_model::instance::OfferingFailure;
use proptest::prelude::*;

/// A claim in a phase, as it would be at time 0.
fn kept(phase: Phase) -> NodeClaim {
    let mut one = claim(phase);
    one.spec.charge =
        Charge { resources: ResourceList::from([("cpu", Quantity::from_units(2))]), dollars_per_hour: 0.1 };
    one
}

/// The cordoned node of a warm claim, as it is registered.
pub(super) fn cordoned() -> Node {
    let mut node = ready_node();
    node.labels.remove(labels::INITIALIZED);
    node.unschedulable = true;
    node
}

pub(super) fn daemon(ready: bool) -> Pod {
    Pod { owner_kind: Some("DaemonSet".into()), ready: Some(ready), ..pod("proxy") }
}

pub(super) fn seen(state: InstanceState, nodes: Vec<Node>, pods: Vec<Pod>) -> Observation {
    Observation {
        instance: Seen::Known(Some(instance("i-1", state))),
        nodes: Seen::Known(nodes),
        pods: Seen::Known(pods),
        ..all_is_well()
    }
}

fn stops(effects: &[Effect]) -> bool {
    effects.iter().any(|effect| matches!(effect, Effect::StopInstance))
}

fn starts(effects: &[Effect]) -> bool {
    effects.iter().any(|effect| matches!(effect, Effect::StartInstance))
}

#[test]
fn a_warm_node_is_registered_cordoned_and_not_initialized() {
    let mut one = claim(Phase::WarmLaunched);
    let next = step(&one, &seen(InstanceState::Running, vec![joined()], vec![]), at(30), &settings());
    let patches = next.effects.iter().filter_map(|effect| match effect {
        Effect::PatchNode { patch, .. } => Some(patch),
        _ => None,
    });
    let [patch] = patches.collect::<Vec<_>>()[..] else { panic!("{:?}", next.effects) };
    assert_eq!(patch.unschedulable, Some(true));
    assert!(!patch.labels.contains_key(labels::INITIALIZED) && patch.labels.contains_key(labels::REGISTERED));
    one.phase = Phase::Launched;
    let next = step(&one, &seen(InstanceState::Running, vec![joined()], vec![]), at(30), &settings());
    let cordons = |effect: &Effect| matches!(effect, Effect::PatchNode { patch, .. } if patch.unschedulable.is_some());
    assert!(!next.effects.iter().any(cordons));
}

#[test]
fn it_is_stopped_once_the_pods_of_daemon_sets_are_ready() {
    let one = kept(Phase::Preparing);
    let after =
        |second, pods| step(&one, &seen(InstanceState::Running, vec![cordoned()], pods), at(second), &settings());
    for (second, pods) in [(5, vec![]), (30, vec![daemon(false)])] {
        let next = after(second, pods);
        assert_eq!((next.claim.phase, stops(&next.effects)), (Phase::Preparing, false), "{second}");
        assert!(next.requeue.is_some());
    }
    for (second, pods) in [(20, vec![daemon(true)]), (300, vec![daemon(false)])] {
        let next = after(second, pods);
        assert_eq!(next.claim.phase, Phase::Stopping, "{second}");
        assert!(!stops(&next.effects), "it is written first");
    }
    let mut waits = cordoned();
    waits.conditions.clear();
    let unready =
        |second| step(&one, &seen(InstanceState::Running, vec![waits.clone()], vec![]), at(second), &settings());
    assert_eq!(unready(899).claim.phase, Phase::Preparing);
    let end = unready(900).claim.status.termination.unwrap();
    assert_eq!(end.reason, TerminationReason::RegistrationTimeout);
}

#[test]
fn a_node_with_another_pod_serves_and_is_not_stopped() {
    let one = kept(Phase::Preparing);
    let next = step(
        &one,
        &seen(InstanceState::Running, vec![cordoned()], vec![daemon(true), pod("web")]),
        at(60),
        &settings(),
    );
    let opens =
        |effect: &Effect| matches!(effect, Effect::PatchNode { patch, .. } if patch.unschedulable == Some(false));
    assert!(next.effects.iter().any(opens) && next.claim.phase == Phase::Preparing);
    let open = Node { unschedulable: false, ..cordoned() };
    let next = step(&one, &seen(InstanceState::Running, vec![open], vec![pod("web")]), at(60), &settings());
    assert_eq!(next.claim.phase, Phase::Registered);
}

#[test]
fn its_node_goes_after_ec2_reports_that_it_is_stopped_and_its_charge_with_it() {
    let one = kept(Phase::Stopping);
    let now = |state, nodes| step(&one, &seen(state, nodes, vec![]), at(60), &settings());
    let deletes = |effect: &Effect| matches!(effect, Effect::DeleteNode { .. });
    let next = now(InstanceState::Running, vec![cordoned()]);
    assert!(stops(&next.effects) && !next.effects.iter().any(deletes));
    let next = now(InstanceState::Stopping, vec![cordoned()]);
    assert!(!stops(&next.effects) && !next.effects.iter().any(deletes) && next.claim.phase == Phase::Stopping);
    assert!(now(InstanceState::Stopped, vec![cordoned()]).effects.iter().any(deletes));
    // A crash between the deletion and the finalizer leaves a node that is being deleted.
    let going = Node { deletion_timestamp: Some(at(50)), ..cordoned() };
    assert!(now(InstanceState::Stopped, vec![going]).claim.status.termination.is_none());

    let next = now(InstanceState::Stopped, vec![]);
    assert_eq!(next.claim.phase, Phase::Stopped);
    assert_eq!((next.charge, next.claim.status.node_name.clone()), (Some(Charge::default()), None));
    assert!(!next.claim.has_condition(condition::REGISTERED));
    assert_eq!(EndedNode::new(&next.claim, at(9000)).unwrap().stopped, Some(at(60)), "EC2 bills nothing from then on");
}

#[test]
fn an_instance_that_does_not_stop_within_ten_minutes_is_terminated() {
    let mut one = kept(Phase::Preparing);
    one.set_condition(condition::INITIALIZED, ConditionStatus::Unknown, reason::WARMING, "", at(0));
    one = step(&one, &seen(InstanceState::Running, vec![cordoned()], vec![daemon(true)]), at(200), &settings()).claim;
    assert_eq!(one.phase, Phase::Stopping);
    let now = |state, second| step(&one, &seen(state, vec![cordoned()], vec![]), at(second), &settings());
    for state in [InstanceState::Running, InstanceState::Stopping] {
        assert_eq!(now(state, 799).claim.phase, Phase::Stopping, "{state:?}");
        let next = now(state, 800);
        let end = next.claim.status.termination.unwrap();
        assert_eq!((end.reason, end.deadline), (TerminationReason::Unhealthy, Some(at(800))), "{state:?}");
        assert!(next.events[0].message.contains("did not stop its instance within ten minutes"), "{:?}", next.events);
    }
    assert!(now(InstanceState::Stopped, 900).claim.status.termination.is_none(), "only its node is left");
    // Started by another program long after it was stopped: its time begins then.
    let mut stopped = kept(Phase::Stopped);
    warm::show_stopped(&mut stopped, at(0));
    let next = step(&stopped, &seen(InstanceState::Running, vec![], vec![]), at(90_000), &settings());
    let next = step(&next.claim, &seen(InstanceState::Running, vec![], vec![]), at(90_001), &settings());
    assert!(stops(&next.effects) && next.claim.status.termination.is_none());
}

#[test]
fn a_node_whose_instance_ec2_refuses_to_stop_is_opened_for_pods() {
    let refused = warm::not_stopped(&kept(Phase::Stopping), "denied", at(2000)).unwrap();
    assert_eq!(refused.effects, [Effect::MirrorClaim]);
    assert_eq!(warm::not_stopped(&refused.claim, "denied", at(2000)), None, "it is repeated");
    let now = |node| {
        step(&refused.claim, &seen(InstanceState::Running, vec![node], vec![daemon(true)]), at(2001), &settings())
    };
    let next = now(cordoned());
    let opens =
        |effect: &Effect| matches!(effect, Effect::PatchNode { patch, .. } if patch.unschedulable == Some(false));
    assert!(next.effects.iter().any(opens) && next.requeue == Some(Duration::ZERO), "{next:?}");
    let next = now(Node { unschedulable: false, ..cordoned() });
    assert_eq!((next.claim.phase, next.claim.status.termination), (Phase::Registered, None));
    // One that another program started is charged again.
    let mut started = kept(Phase::Stopping);
    started.spec.charge = Charge::default();
    let charge = warm::not_stopped(&started, "denied", at(2000)).unwrap().charge.unwrap();
    assert_eq!(charge.resources.get("nodes").units(), 1);
    let leaving = NodeClaim { phase: Phase::Draining, ..kept(Phase::Stopping) };
    assert_eq!(warm::not_stopped(&leaving, "denied", at(2000)), None);
}

#[test]
fn a_stopped_instance_stays_until_it_expires_is_deleted_or_is_gone() {
    let mut one = kept(Phase::Stopped);
    let next = step(&one, &seen(InstanceState::Stopped, vec![], vec![]), at(90_000), &settings());
    assert_eq!(
        (next.claim, next.requeue),
        (
            {
                crate::conditions::set_ready(&mut one, at(0));
                one.clone()
            },
            None
        )
    );
    let ended = |seen: &Observation, one: &NodeClaim| {
        step(one, seen, at(90_000), &settings()).claim.status.termination.map(|end| end.reason)
    };
    let gone = Observation { instance: Seen::Known(None), ..seen(InstanceState::Stopped, vec![], vec![]) };
    assert_eq!(ended(&gone, &one), Some(TerminationReason::InstanceMissing));
    assert_eq!(ended(&seen(InstanceState::Terminated, vec![], vec![]), &one), Some(TerminationReason::InstanceMissing));
    let pool_gone =
        Observation { node_pool_exists: Seen::Known(false), ..seen(InstanceState::Stopped, vec![], vec![]) };
    assert_eq!(ended(&pool_gone, &one), Some(TerminationReason::NodePoolDeleted));
    one.spec.expire_after = Some(minutes(60));
    assert_eq!(ended(&seen(InstanceState::Stopped, vec![], vec![]), &one), Some(TerminationReason::Expired));
    // Started by another program: it is stopped again.
    one.spec.expire_after = None;
    let next = step(&one, &seen(InstanceState::Running, vec![], vec![]), at(90_000), &settings());
    assert_eq!(next.claim.phase, Phase::Stopping);
}

#[test]
fn a_claim_that_is_taken_is_started_and_launched_again() {
    let taken = warm::take(&kept(Phase::Stopped), vec!["default/web".into()], ResourceList::new(), at(5000));
    assert!(!taken.is_warm() && taken.spec.nominated_pods == ["default/web"]);
    let next = step(&taken, &seen(InstanceState::Stopped, vec![], vec![]), at(5001), &settings());
    assert!(starts(&next.effects) && next.claim.phase == Phase::Starting);
    let late = step(&taken, &seen(InstanceState::Stopped, vec![], vec![]), at(5300), &settings());
    assert_eq!(late.claim.status.termination.unwrap().reason, TerminationReason::LaunchTimeout);

    // EC2 reports the time of the start as that of the launch.
    let pending = Instance { launched: at(5002), ..instance("i-1", InstanceState::Pending) };
    let started = Observation { instance: Seen::Known(Some(pending)), ..seen(InstanceState::Pending, vec![], vec![]) };
    let next = step(&taken, &started, at(5010), &settings()).claim;
    assert_eq!(next.phase, Phase::Launched);
    assert_eq!(
        next.condition(condition::REGISTERED).unwrap().last_transition_time,
        at(5010),
        "its time to register begins"
    );
    // Then it is as any launched claim. An answer of EC2 from before the start does not end it.
    let open = step(&next, &seen(InstanceState::Stopped, vec![ready_node()], vec![]), at(5030), &settings()).claim;
    assert_eq!(open.phase, Phase::Initialized);
    assert!(
        step(&open, &seen(InstanceState::Stopped, vec![ready_node()], vec![]), at(5031), &settings())
            .claim
            .status
            .termination
            .is_none()
    );
    let stopped = step(&open, &seen(InstanceState::Stopped, vec![ready_node()], vec![]), at(5200), &settings()).claim;
    assert_eq!(
        stopped.status.termination.unwrap().reason,
        TerminationReason::Interrupted,
        "another program stopped it"
    );
}

#[test]
fn a_claim_without_capacity_is_kept_stopped() {
    let taken = warm::take(&kept(Phase::Stopped), vec!["default/web".into()], ResourceList::new(), at(5000));
    let mut failure = OfferingFailure {
        instance_type: "m6i.large".into(),
        zone: "us-east-1a".into(),
        capacity_type: CapacityType::OnDemand,
        code: "InsufficientInstanceCapacity".into(),
        message: "none".into(),
        lacks_capacity: true,
        placement_group: None,
        reservation_id: None,
        partition: None,
    };
    let next = warm::not_started(&taken, &failure, false, at(5005), &settings()).unwrap();
    assert!(next.claim.is_stopped() && next.claim.spec.nominated_pods.is_empty());
    assert_eq!(next.charge, Some(Charge::default()));
    assert!(next.effects.iter().any(|effect| matches!(effect, Effect::MarkUnavailable { .. })));
    assert!(next.effects.contains(&Effect::PlanAtOnce));
    assert_eq!(warm::not_started(&next.claim, &failure, false, at(5005), &settings()), None, "it is repeated");
    failure.lacks_capacity = false;
    assert_eq!(warm::not_started(&taken, &failure, true, at(5005), &settings()), None, "it is tried again");
}

#[test]
fn a_claim_whose_start_is_rejected_ends_so_that_its_pods_get_another_node() {
    let taken = warm::take(&kept(Phase::Stopped), vec!["default/web".into()], ResourceList::new(), at(5000));
    let denied = OfferingFailure {
        instance_type: "m6i.large".into(),
        zone: "us-east-1a".into(),
        capacity_type: CapacityType::OnDemand,
        code: "UnauthorizedOperation".into(),
        message: "You are not authorized".into(),
        lacks_capacity: false,
        placement_group: None,
        reservation_id: None,
        partition: None,
    };
    let next = warm::not_started(&taken, &denied, false, at(5005), &settings()).unwrap();
    let end = next.claim.status.termination.clone().unwrap();
    assert_eq!(end.message, "EC2 rejected the start of its stopped instance: You are not authorized");
    assert!(next.claim.phase.is_leaving() && next.effects.contains(&Effect::PlanAtOnce), "{:?}", next.effects);
    assert!(next.effects.contains(&Effect::MirrorClaim));
    assert_eq!(warm::not_started(&next.claim, &denied, false, at(5006), &settings()), None, "it is repeated");
}

#[test]
fn a_claim_that_was_taken_in_a_zone_that_is_shifted_away_from_ends_and_a_stopped_one_stays() {
    let shifted = Observation {
        zonal_shift: Some("zone us-east-1a is shifted away from".into()),
        instance: Seen::default(),
        ..seen(InstanceState::Stopped, vec![], vec![])
    };
    let taken = warm::take(&kept(Phase::Stopped), vec!["default/web".into()], ResourceList::new(), at(5000));
    let next = step(&taken, &shifted, at(5001), &settings());
    assert!(next.claim.phase.is_leaving() && next.effects.contains(&Effect::PlanAtOnce), "{next:?}");
    for state in [Phase::Stopping, Phase::Stopped] {
        let next = step(&kept(state), &shifted, at(5001), &settings());
        assert!(!next.claim.phase.is_leaving() && next.requeue.is_some() && !stops(&next.effects), "{state:?}");
    }
}

pub(super) fn any_warm() -> impl Strategy<Value = NodeClaim> {
    use Phase::{Launched, Preparing, Starting, Stopped, Stopping, WarmLaunched};
    let phase = prop::sample::select(vec![None, Some(Phase::Draining), Some(Phase::Terminating)]);
    let state = prop::sample::select(vec![WarmLaunched, Preparing, Stopping, Stopped, Starting, Launched]);
    (state, phase).prop_map(|(state, phase)| {
        let mut one = kept(state);
        if state == Launched {
            one.set_condition(condition::LAUNCHED, ConditionStatus::True, reason::STARTED, "", at(0));
        }
        if let Some(phase) = phase {
            begin_termination(&mut one, TerminationReason::Drifted, "", at(0));
            one.phase = phase;
        }
        one
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn nothing_is_stopped_or_started_before_that_is_written_or_on_doubt(before in any_warm(), seen in any_observation(), now in 0_i64..4000) {
        let next = step(&before, &seen, at(now), &settings());
        let state = seen.instance.known().and_then(Option::as_ref).map(|instance| instance.state);
        if stops(&next.effects) {
            prop_assert_eq!(before.phase, Phase::Stopping);
            prop_assert!(matches!(state, Some(InstanceState::Running | InstanceState::Pending)));
        }
        if starts(&next.effects) {
            prop_assert_eq!((before.phase, state), (Phase::Starting, Some(InstanceState::Stopped)));
        }
        prop_assert!(!(before.phase.is_leaving() || seen.zonal_shift.is_some()) || !(stops(&next.effects) || starts(&next.effects)));
        let deletes = next.effects.iter().any(|effect| matches!(effect, Effect::DeleteNode { .. }));
        if deletes && !before.phase.is_leaving() {
            prop_assert_eq!((before.phase, state), (Phase::Stopping, Some(InstanceState::Stopped)));
        }
        let opened = seen.nodes.known().is_some_and(|nodes| nodes.iter().any(|node| node.is_registered() && !node.unschedulable));
        let started = before.is_warm() && matches!(next.claim.phase, Phase::Starting | Phase::Launched);
        prop_assert!(!started || opened, "only a plan takes it, or another table had one taken");
    }

    #[test]
    fn a_warm_claim_that_waits_is_looked_at_again(before in any_warm(), seen in any_observation(), now in 0_i64..4000) {
        let next = step(&before, &seen, at(now), &settings());
        let at_rest = next.claim.phase == Phase::Initialized || next.claim.is_stopped();
        prop_assert!(next.requeue.is_some() || at_rest || next.effects.contains(&Effect::DeleteRecord), "{:?}", next);
    }

    #[test]
    fn pods_that_are_not_needed_change_nothing(before in any_warm(), seen in any_observation(), now in 0_i64..4000) {
        let needs = Needs::new(&before).pods;
        let unread = Observation { pods: if needs { seen.pods.clone() } else { Seen::default() }, ..seen.clone() };
        let (with, without) = (step(&before, &seen, at(now), &settings()), step(&before, &unread, at(now), &settings()));
        prop_assert_eq!(with.claim, without.claim);
    }
}

/// The record is that of a table that did not serve the cluster for a while, or that was restored.
#[test]
fn an_instance_that_was_started_for_pods_is_not_stopped_because_of_an_older_record() {
    let now = |state, nodes| step(&kept(state), &seen(InstanceState::Running, nodes, vec![]), at(90_000), &settings());
    let open = Node { unschedulable: false, ..ready_node() };
    let next = now(Phase::Stopped, vec![open.clone()]);
    assert_eq!(next.claim.phase, Phase::Launched);
    assert!(!stops(&next.effects) && next.charge.unwrap().resources.get("nodes").units() == 1);
    let next = step(&next.claim, &seen(InstanceState::Running, vec![open.clone()], vec![]), at(90_001), &settings());
    assert_eq!(next.claim.phase, Phase::Initialized);
    let next = now(Phase::Stopping, vec![open]);
    assert!(next.claim.phase == Phase::Registered && !stops(&next.effects));
    // Another program started it: its node joins, and nodeless has not registered it.
    assert_eq!(now(Phase::Stopped, vec![joined()]).claim.phase, Phase::Stopping);
    let mut stopping = kept(Phase::Stopping);
    stopping.clear_condition(condition::INITIALIZED);
    stopping.set_condition(condition::INITIALIZED, ConditionStatus::Unknown, reason::WARMING, "", at(89_990));
    let running = seen(InstanceState::Running, vec![cordoned()], vec![]);
    assert!(stops(&step(&stopping, &running, at(90_000), &settings()).effects));
    let unknown = Observation { nodes: Seen::default(), ..seen(InstanceState::Running, vec![], vec![]) };
    let waits = step(&kept(Phase::Stopped), &unknown, at(90_000), &settings());
    assert!(waits.claim.is_stopped() && waits.requeue.is_some(), "nothing is stopped while the node is unknown");
}
