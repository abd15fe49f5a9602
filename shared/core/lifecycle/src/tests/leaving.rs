use super::*;
use crate::drain::{Drain, drain};
use crate::{Effect, Needs, begin_termination, begin_termination_within, leaves_by_force, step};
use nodeless_model::claim::TerminationReason;
use nodeless_model::object::{PodRef, VolumeAttachment};
use nodeless_model::taint::TolerationOperator;
use nodeless_model::{Toleration, pod::PodPhase};

pub(super) fn leaving(phase: Phase) -> NodeClaim {
    let mut claim = claim(if phase > Phase::Initialized { Phase::Initialized } else { phase });
    assert!(begin_termination(&mut claim, TerminationReason::Empty, "its node has no pods", at(0)));
    claim.phase = phase.max(Phase::Draining);
    claim
}

/// The node of a claim that is being drained, closed off and marked for deletion.
pub(super) fn closed() -> Node {
    let mut node = ready_node();
    node.taints.push(Taint::disrupted());
    node.labels.insert(labels::EXCLUDE_FROM_LOAD_BALANCERS.into(), "karpenter".into());
    node.deletion_timestamp = Some(at(0));
    node
}

pub(super) fn draining_with(pods: Vec<Pod>) -> Observation {
    Observation { nodes: Seen::Known(vec![closed()]), pods: Seen::Known(pods), ..all_is_well() }
}

#[test]
fn reasons_to_leave() {
    use TerminationReason::{Deleted, Expired, InstanceMissing, Interrupted, NodePoolDeleted};
    let deleted_mirror = MirroredClaim { deletion_timestamp: Some(at(1)), ..mirror() };
    let orphan = MirroredClaim { owner: None, ..mirror() };
    let deleted_node = Node { deletion_timestamp: Some(at(1)), ..ready_node() };
    let not_ready = Node { conditions: Vec::new(), ..ready_node() };
    let in_state = |state| Seen::Known(Some(instance("i-1", state)));
    let well = all_is_well;
    for (seen, now, reason) in [
        (well(), 299, None),
        (well(), 300, Some(Expired)),
        (Observation { mirror: Seen::Known(Some(deleted_mirror)), ..well() }, 1, Some(Deleted)),
        (Observation { nodes: Seen::Known(vec![deleted_node]), ..well() }, 1, Some(Deleted)),
        (Observation { node_pool_exists: Seen::Known(false), ..well() }, 1, Some(NodePoolDeleted)),
        (Observation { node_pool_exists: Seen::Known(false), mirror: Seen::Known(Some(orphan)), ..well() }, 1, None),
        (Observation { node_pool_exists: Seen::Known(false), mirror: Seen::default(), ..well() }, 1, None),
        (Observation { instance: in_state(InstanceState::Terminated), ..well() }, 1, Some(InstanceMissing)),
        (Observation { instance: in_state(InstanceState::ShuttingDown), ..well() }, 1, Some(InstanceMissing)),
        (Observation { instance: in_state(InstanceState::Stopping), ..well() }, 1, Some(Interrupted)),
        (Observation { instance: Seen::Known(None), ..well() }, 200, None),
        (
            Observation { instance: Seen::Known(None), nodes: Seen::Known(vec![not_ready.clone()]), ..well() },
            200,
            Some(InstanceMissing),
        ),
        (Observation { instance: Seen::Known(None), nodes: Seen::Known(vec![not_ready]), ..well() }, 60, None),
        (Observation { instance: Seen::Known(None), nodes: Seen::default(), ..well() }, 200, None),
        (Observation::default(), 1, None),
    ] {
        let mut claim = claim(Phase::Initialized);
        claim.spec.expire_after = Some(minutes(5));
        let next = step(&claim, &seen, at(now), &settings());
        assert_eq!(next.claim.status.termination.as_ref().map(|end| end.reason), reason, "at {now}: {seen:?}");
        let destroys =
            |effect: &Effect| !matches!(effect, Effect::WakePlanner | Effect::MirrorClaim | Effect::TagInstance { .. });
        assert!(
            !next.effects.iter().any(destroys),
            "leaving is written down before anything is done: {:?}",
            next.effects
        );
    }
}

#[test]
fn a_claim_whose_node_has_not_joined_goes_with_its_pool_also_if_its_object_was_created_later() {
    let orphan = MirroredClaim { owner: None, ..mirror() };
    let seen = Observation {
        node_pool_exists: Seen::Known(false),
        mirror: Seen::Known(Some(orphan)),
        nodes: Seen::Known(Vec::new()),
        ..all_is_well()
    };
    for (phase, leaves) in [(Phase::Launched, true), (Phase::Registered, false), (Phase::Initialized, false)] {
        let next = step(&claim(phase), &seen, at(1), &settings());
        let reason = next.claim.status.termination.map(|end| end.reason);
        assert_eq!(reason, leaves.then_some(TerminationReason::NodePoolDeleted), "{phase:?}");
    }
}

#[test]
fn a_repair_has_a_drain_that_ends_by_force_and_its_node_counts_until_then() {
    let mut claim = claim(Phase::Initialized);
    let within = Some(minutes(10));
    assert!(begin_termination_within(&mut claim, TerminationReason::Repaired, "ill", within, at(60)));
    assert_eq!(claim.status.termination.as_ref().unwrap().deadline, Some(at(660)));
    assert_eq!(claim.condition(condition::DISRUPTION_REASON).unwrap().reason, "Unhealthy");
    assert!(!leaves_by_force(&claim), "its replacement was launched within the limits");
    assert!(begin_termination(&mut claim, TerminationReason::Unhealthy, "its machine fails", at(120)));
    assert_eq!(claim.status.termination.unwrap().deadline, Some(at(120)), "the machine fails meanwhile");
}

#[test]
fn the_first_reason_stands_and_a_deadline_only_comes_nearer() {
    let mut claim = claim(Phase::Initialized);
    claim.spec.termination_grace_period = Some(minutes(60));
    assert!(begin_termination(&mut claim, TerminationReason::Drifted, "drift", at(0)));
    assert_eq!(claim.status.termination.as_ref().unwrap().deadline, Some(at(3600)));
    assert_eq!(claim.condition(condition::DISRUPTION_REASON).unwrap().reason, "Drifted");
    assert!(begin_termination(&mut claim, TerminationReason::Interrupted, "spot", at(60)));
    assert!(!begin_termination(&mut claim, TerminationReason::Interrupted, "spot", at(61)), "known already");
    assert_eq!(claim.status.interrupted, Some(at(60)));
    assert!(begin_termination(&mut claim, TerminationReason::Unhealthy, "ill", at(120)));
    let end = claim.status.termination.unwrap();
    assert_eq!((end.reason, end.deadline), (TerminationReason::Drifted, Some(at(120))));
}

#[test]
fn a_node_is_closed_off_and_held_before_it_is_deleted() {
    let mut bare = ready_node();
    bare.finalizers.clear();
    let seen = Observation { nodes: Seen::Known(vec![bare]), pods: Seen::Known(vec![pod("a")]), ..all_is_well() };
    let next = step(&leaving(Phase::Draining), &seen, at(1), &settings());
    let Effect::PatchNode { patch, .. } = &next.effects[0] else { panic!("{:?}", next.effects) };
    assert_eq!(patch.add_taints, [Taint::disrupted()]);
    assert_eq!(patch.labels[labels::EXCLUDE_FROM_LOAD_BALANCERS], "karpenter");
    assert!(patch.add_finalizer.is_some() && next.requeue == Some(Duration::ZERO));
    assert!(!next.effects.iter().any(|effect| matches!(effect, Effect::DeleteNode { .. } | Effect::Evict { .. })));

    let seen =
        Observation { nodes: Seen::Known(vec![ready_node()]), pods: Seen::Known(vec![pod("a")]), ..all_is_well() };
    let next = step(&leaving(Phase::Draining), &seen, at(1), &settings());
    assert!(
        matches!(next.effects[..3], [Effect::PatchNode { .. }, Effect::DeleteNode { .. }, Effect::Evict { .. }]),
        "{:?}",
        next.effects
    );
}

#[test]
fn a_drain_begins_with_the_taint_and_ends_no_sooner_than_it_may() {
    // The patch with the taint failed a minute ago, and no pod runs on the node at this moment.
    let mut claim = leaving(Phase::Draining);
    claim.status.drain_started = Some(at(0));
    let open = Node { taints: Vec::new(), ..closed() };
    let seen = Observation { nodes: Seen::Known(vec![open]), ..draining_with(Vec::new()) };
    let next = step(&claim, &seen, at(60), &settings());
    assert_eq!((next.claim.phase, next.claim.status.drain_started), (Phase::Draining, Some(at(60))));
    assert!(matches!(&next.effects[0], Effect::PatchNode { patch, .. } if patch.add_taints == [Taint::disrupted()]));
    // A pod that came right before the taint is seen then.
    let next = step(&next.claim, &draining_with(vec![pod("late")]), at(66), &settings());
    assert_eq!(next.claim.phase, Phase::Draining);
    let next = step(&next.claim, &draining_with(Vec::new()), at(66), &settings());
    assert_eq!(next.claim.phase, Phase::Terminating);
    // The end of the grace period waits for nothing.
    begin_termination(&mut claim, TerminationReason::Unhealthy, "ill", at(60));
    assert_eq!(step(&claim, &seen, at(61), &settings()).claim.phase, Phase::Terminating);
}

#[test]
fn pods_move_group_by_group() {
    let daemon = |pod: Pod| Pod { owner_kind: Some("DaemonSet".into()), ..pod };
    let critical = |pod: Pod| pod.with_template(|it| it.priority_class_name = Some("system-node-critical".into()));
    let mut pods = vec![critical(daemon(pod("d"))), critical(pod("c")), daemon(pod("b")), pod("a")];
    let mut order = Vec::new();
    while !pods.is_empty() {
        let plan = drain(&pods, None, at(0));
        assert_eq!((plan.evict.len(), plan.waiting), (1, pods.len()));
        order.push(plan.evict[0].name.clone());
        pods.retain(|pod| pod.name != plan.evict[0].name);
    }
    assert_eq!(order, ["a", "b", "c", "d"]);
    assert_eq!(drain(&[], None, at(0)), Drain::default());
}

#[test]
fn some_pods_are_not_waited_for() {
    let tolerant = Toleration {
        key: labels::DISRUPTED_TAINT.into(),
        operator: TolerationOperator::Exists,
        ..Toleration::default()
    };
    for (pod, waiting, evicted) in [
        (pod("tolerant").with_template(|it| it.tolerations = vec![tolerant]), 0, 0),
        (Pod { owner_kind: Some("Node".into()), ..pod("static") }, 0, 0),
        (Pod { phase: PodPhase::Succeeded, ..pod("ended") }, 0, 0),
        (Pod { deletion_timestamp: Some(at(-61)), ..pod("stuck") }, 0, 0),
        (Pod { deletion_timestamp: Some(at(-60)), ..pod("slow") }, 1, 0),
        (Pod { deletion_timestamp: Some(at(10)), ..pod("stopping") }, 1, 0),
        (pod("plain"), 1, 1),
    ] {
        let plan = drain(std::slice::from_ref(&pod), None, at(0));
        assert_eq!((plan.waiting, plan.evict.len()), (waiting, evicted), "{}", pod.name);
    }
}

#[test]
fn do_not_disrupt_holds_a_pod_until_its_time_or_the_deadline() {
    let annotated = |value: &str| {
        Pod { start_time: Some(at(0)), ..pod("a") }
            .with_template(|it| it.annotations = StringMap::from([(labels::DO_NOT_DISRUPT.into(), value.into())]))
    };
    for (value, now, protected) in
        [("true", 1 << 30, true), ("30m", 1799, true), ("30m", 1800, false), ("soon", 1, false), ("0s", 0, false)]
    {
        let plan = drain(&[annotated(value)], None, at(now));
        assert_eq!((plan.protected.len() == 1, plan.evict.len() == 1), (protected, !protected), "{value} at {now}");
    }
    let created_only = Pod { start_time: None, created: Some(at(0)), ..annotated("30m") };
    assert_eq!(drain(&[created_only], None, at(7200)).protected.len(), 1, "its time begins with its start");
    let plan = drain(&[annotated("true")], Some(at(3600)), at(3570));
    assert_eq!((plan.protected.len(), plan.delete.len()), (1, 0), "thirty seconds of its own are still left");
    let plan = drain(&[annotated("true")], Some(at(3600)), at(3571));
    assert_eq!(plan.delete, [(PodRef::from(&annotated("true")), 29)]);
}

#[test]
fn the_deadline_forces_pods_with_what_time_is_left() {
    let with_grace = |seconds| pod("a").with_template(|it| it.termination_grace_period_seconds = seconds);
    let forced = |pod: Pod, now| drain(&[pod], Some(at(3600)), at(now)).delete.first().map(|(_, grace)| *grace);
    assert_eq!(forced(with_grace(Some(300)), 3300), None);
    assert_eq!(forced(with_grace(Some(300)), 3301), Some(299));
    assert_eq!(forced(with_grace(Some(7200)), 0), Some(3600), "longer than there is time: at once");
    assert_eq!(forced(with_grace(Some(0)), 5000), Some(1), "never without any time");
    assert_eq!(forced(with_grace(None), 5000), None, "a pod without a grace period is never forced");
    assert_eq!(forced(Pod { deletion_timestamp: Some(at(3600)), ..with_grace(Some(60)) }, 3590), None);
    assert_eq!(forced(Pod { deletion_timestamp: Some(at(3601)), ..with_grace(Some(60)) }, 3590), Some(10));
    let critical =
        with_grace(Some(7200)).with_template(|it| it.priority_class_name = Some("system-node-critical".into()));
    let plan = drain(&[pod("b"), critical], Some(at(3600)), at(0));
    assert_eq!((plan.evict.len(), plan.delete.len()), (1, 1), "whoever is late does not wait for its turn");
}

#[test]
fn a_drain_ends_when_pods_and_volumes_are_gone_but_not_at_once() {
    let next = step(&leaving(Phase::Draining), &draining_with(vec![pod("a")]), at(1), &settings());
    assert!(matches!(next.effects[0], Effect::Evict { .. }));
    assert_eq!(next.claim.condition(condition::DRAINED).unwrap().reason, "Draining");
    let started = next.claim;
    let early = step(&started, &draining_with(Vec::new()), at(5), &settings());
    assert_eq!(early.claim.phase, Phase::Draining, "five seconds at least");
    let attached = VolumeAttachment { name: "csi-1".into(), node: "node-1".into(), persistent_volume: None };
    let seen = Observation { volume_attachments: Seen::Known(vec![attached]), ..draining_with(Vec::new()) };
    let waits = step(&started, &seen, at(6), &settings());
    assert!(waits.claim.has_condition(condition::DRAINED) && waits.claim.phase == Phase::Draining);
    assert_eq!(waits.claim.condition(condition::VOLUMES_DETACHED).unwrap().reason, "AwaitingVolumeDetachment");
    let mut late = started.clone();
    late.status.termination.as_mut().unwrap().deadline = Some(at(6));
    let next = step(&late, &seen, at(6), &settings());
    assert_eq!(next.claim.phase, Phase::Terminating);
    assert_eq!(next.claim.condition(condition::VOLUMES_DETACHED).unwrap().reason, "TerminationGracePeriodElapsed");
    let done = step(&started, &draining_with(Vec::new()), at(6), &settings());
    assert!(done.claim.phase == Phase::Terminating && done.claim.has_condition(condition::VOLUMES_DETACHED));
}

#[test]
fn an_empty_node_is_looked_at_again_when_its_drain_may_end() {
    let unread = |pods| Observation { volume_attachments: Seen::default(), ..draining_with(pods) };
    let needs_volumes =
        |claim: &NodeClaim, seen: &Observation, now| Needs::volume_attachments(claim, seen, at(now), &settings());
    let first = step(&leaving(Phase::Draining), &unread(Vec::new()), at(1), &settings());
    assert_eq!(first.requeue, Some(settings().minimum_drain));
    let begun = first.claim;
    let early = step(&begun, &unread(Vec::new()), at(4), &settings());
    assert_eq!((early.claim.phase, early.requeue), (Phase::Draining, Some(Duration::from_secs(2))));
    let late_pod = step(&begun, &unread(vec![pod("late")]), at(6), &settings());
    assert_eq!(late_pod.requeue, Some(Duration::from_secs(1)), "pods are polled");
    // The volumes of all nodes are read only for the step that ends the drain.
    assert!(!needs_volumes(&begun, &unread(Vec::new()), 5));
    assert!(!needs_volumes(&begun, &unread(vec![pod("late")]), 6));
    assert!(needs_volumes(&begun, &unread(Vec::new()), 6));
    let open = Node { taints: Vec::new(), ..closed() };
    let untainted = Observation { nodes: Seen::Known(vec![open]), ..unread(Vec::new()) };
    assert!(!needs_volumes(&begun, &untainted, 6), "its drain begins again");
}

#[test]
fn a_node_whose_instance_is_gone_is_not_drained() {
    let dead = Node { conditions: Vec::new(), ..closed() };
    let gone = Seen::Known(Some(instance("i-1", InstanceState::Terminated)));
    let seen = Observation { instance: gone, nodes: Seen::Known(vec![dead]), ..draining_with(vec![pod("a")]) };
    let next = step(&leaving(Phase::Draining), &seen, at(1), &settings());
    assert_eq!(next.claim.phase, Phase::Terminating);
    assert!(!next.effects.iter().any(|effect| matches!(effect, Effect::Evict { .. })));
}

#[test]
fn a_drain_that_ends_forcefully_is_reported_once() {
    let mut claim = claim(Phase::Initialized);
    claim.spec.termination_grace_period = Some(minutes(60));
    assert!(begin_termination(&mut claim, TerminationReason::Drifted, "drift", at(0)));
    let seen = draining_with(vec![pod("a")]);
    let reported = |step: &crate::Step| {
        let expiring = step.events.iter().filter(|event| event.reason == "TerminationGracePeriodExpiring");
        expiring.map(|event| (event.object.kind.clone(), event.message.clone())).collect::<Vec<_>>()
    };
    let next = step(&claim, &seen, at(1), &settings());
    let text = format!("All pods will be deleted by {}", at(3600));
    assert_eq!(reported(&next), [("Node".to_owned(), text.clone()), ("NodeClaim".to_owned(), text)]);
    assert_eq!(reported(&step(&next.claim, &seen, at(2), &settings())), []);
}

#[test]
fn a_node_that_never_joined_is_not_drained() {
    let never = Observation { nodes: Seen::Known(vec![joined()]), ..draining_with(vec![pod("a")]) };
    let next = step(&leaving(Phase::Launched), &never, at(1), &settings());
    assert_eq!(next.claim.phase, Phase::Terminating);
    let mut unlaunched = reserved();
    unlaunched.status.launch_denied = true;
    begin_termination(&mut unlaunched, TerminationReason::LaunchTimeout, "", at(1));
    let next = step(&unlaunched, &Observation::default(), at(1), &settings());
    assert_eq!(next.claim.phase, Phase::Terminating);
    let next = step(&next.claim, &Observation::default(), at(1), &settings());
    assert_eq!(next.claim.phase, Phase::Gone);
    let next = step(&next.claim, &Observation::default(), at(1), &settings());
    assert_eq!(next.effects, [Effect::RemoveMirror, Effect::DeleteRecord, Effect::PlanAtOnce]);
}

#[test]
fn a_node_with_new_pods_is_drained_whatever_its_record() {
    // The node was registered, and the process ended before the record was written.
    let recognised = draining_with(vec![pod("a")]);
    let untainted = Node { labels: joined().labels, ..closed() };
    for seen in [recognised.clone(), Observation { nodes: Seen::Known(vec![untainted]), ..recognised }] {
        let next = step(&leaving(Phase::Launched), &seen, at(1), &settings());
        assert_eq!(next.claim.phase, Phase::Draining);
        assert_eq!(next.claim.status.node_name.as_deref(), Some("node-1"));
        assert!(next.effects.iter().any(|effect| matches!(effect, Effect::Evict { .. })), "{:?}", next.effects);
    }
}

#[test]
fn an_instance_is_asked_to_end_until_it_has() {
    let seen = |state| Observation { instance: Seen::Known(state), ..draining_with(Vec::new()) };
    let claim = leaving(Phase::Terminating);
    let ask = Effect::TerminateInstance { id: "i-1".into() };
    let at_time = |state, now| step(&claim, &seen(state), at(now), &settings());
    let next = at_time(Some(instance("i-1", InstanceState::Running)), 10);
    assert!(next.effects.contains(&ask) && next.claim.has_condition(condition::INSTANCE_TERMINATING));
    assert_eq!(next.claim.status.terminate_requested, Some(at(10)));
    let next = at_time(Some(instance("i-1", InstanceState::ShuttingDown)), 10);
    assert!(!next.effects.contains(&ask) && next.claim.phase == Phase::Terminating);
    assert!(at_time(None, 10).effects.contains(&ask), "EC2 may not list it yet");
    assert_eq!(at_time(None, 120).claim.phase, Phase::Gone);
    assert_eq!(at_time(Some(instance("i-1", InstanceState::Terminated)), 10).claim.phase, Phase::Gone);
}

#[test]
fn an_instance_outlasts_a_zonal_shift_and_its_pods_need_not() {
    let shift = || Some("a zonal shift away from us-east-1a is in effect".to_owned());
    let seen = |pods| Observation { instance: Seen::default(), zonal_shift: shift(), ..draining_with(pods) };
    let evicts = |next: &crate::Step| next.effects.iter().any(|effect| matches!(effect, Effect::Evict { .. }));
    let draining = step(&leaving(Phase::Draining), &seen(vec![pod("a")]), at(1), &settings());
    assert!(evicts(&draining) && draining.blocked.is_empty(), "{draining:?}");
    let mut drained = draining.claim;
    drained.status.drain_started = Some(at(0));
    let drained = step(&drained, &seen(Vec::new()), at(60), &settings());
    assert_eq!(drained.claim.phase, Phase::Terminating);

    let waits = step(&drained.claim, &seen(Vec::new()), at(61), &settings());
    assert_eq!((waits.claim.phase, waits.effects.len()), (Phase::Terminating, 0), "{:?}", waits.effects);
    assert_eq!(waits.claim.status.terminate_requested, None);
    assert!(waits.blocked[0].contains("i-1 is not terminated while a zonal shift away from us-east-1a"), "{waits:?}");
    assert!(waits.requeue.is_some());

    let over = step(&waits.claim, &draining_with(Vec::new()), at(400), &settings());
    assert!(over.effects.contains(&Effect::TerminateInstance { id: "i-1".into() }));
}

#[test]
fn what_is_gone_leaves_no_trace_and_its_record_goes_last() {
    let next = step(&leaving(Phase::Gone), &draining_with(Vec::new()), at(10), &settings());
    let Effect::PatchNode { patch, .. } = &next.effects[0] else { panic!("{:?}", next.effects) };
    assert_eq!(patch.remove_finalizer.as_deref(), Some(labels::TERMINATION_FINALIZER));
    assert_eq!(next.effects[1..], [Effect::RemoveMirror, Effect::DeleteRecord, Effect::WakePlanner]);
    let unseen = Observation::default();
    let next = step(&leaving(Phase::Gone), &unseen, at(10), &settings());
    assert!(next.effects.is_empty() && !next.blocked.is_empty());
}
