use super::*;
use crate::{Effect, absorb, result_for, step};
use nodeless_model::claim::TerminationReason;
use nodeless_model::instance::{LaunchOutcome, OfferingFailure};

fn failure(lacks_capacity: bool) -> OfferingFailure {
    OfferingFailure {
        instance_type: "m6i.large".into(),
        zone: "us-east-1a".into(),
        capacity_type: CapacityType::OnDemand,
        code: if lacks_capacity { "InsufficientInstanceCapacity" } else { "UnauthorizedOperation" }.into(),
        message: "no".into(),
        lacks_capacity,
        placement_group: None,
        partition: None,
        reservation_id: None,
    }
}

fn reason(claim: &NodeClaim) -> Option<TerminationReason> {
    claim.status.termination.as_ref().map(|end| end.reason)
}

#[test]
fn a_reserved_claim_is_launched_only_from_a_class_that_is_ready() {
    use TerminationReason::NodeClassNotReady;
    for (state, launches, ends) in [
        (NodeClassState::Ready, true, None),
        (NodeClassState::NotYetKnown, false, None),
        (NodeClassState::Missing, false, Some(NodeClassNotReady)),
        (NodeClassState::Terminating, false, Some(NodeClassNotReady)),
        (NodeClassState::NotReady { message: "no subnet".into() }, false, Some(NodeClassNotReady)),
    ] {
        let seen = Observation { node_class: Seen::Known(state.clone()), ..all_is_well() };
        let next = step(&reserved(), &seen, at(1), &settings());
        assert_eq!(next.effects.contains(&Effect::Launch), launches, "{state:?}");
        assert_eq!(reason(&next.claim), ends, "{state:?}");
    }
    let seen = Observation { node_class: Seen::Unknown("the API server does not answer".into()), ..all_is_well() };
    let next = step(&reserved(), &seen, at(1), &settings());
    assert!(next.effects.is_empty() && next.claim == reserved() && next.requeue.is_some());
    assert!(next.blocked[0].contains("does not answer"), "{:?}", next.blocked);
}

#[test]
fn a_launch_is_tried_for_five_minutes() {
    let mut claim = reserved();
    for seconds in [1, 2, 4, 299] {
        let failed =
            LaunchResult::Failed { code: "RequestLimitExceeded".into(), message: "slow down".into(), retryable: true };
        let next = absorb(&claim, &failed, at(seconds), &settings());
        assert_eq!(next.claim.condition(condition::LAUNCHED).unwrap().reason, "RequestLimitExceeded");
        assert_eq!(next.claim.client_token().unwrap(), "group", "the call may have been served all the same");
        claim = next.claim;
        assert!(step(&claim, &all_is_well(), at(seconds), &settings()).effects.contains(&Effect::Launch));
    }
    assert_eq!(claim.status.launch_attempts, 4);
    let next = step(&claim, &all_is_well(), at(300), &settings());
    assert_eq!(reason(&next.claim), Some(TerminationReason::LaunchTimeout));
    assert!(!next.effects.contains(&Effect::Launch));
}

#[test]
fn a_launch_that_ec2_refuses_is_reported_and_not_tried_in_a_loop() {
    let refused = LaunchResult::Failed { code: "UnauthorizedOperation".into(), message: "no".into(), retryable: false };
    let mut leader = reserved();
    leader.spec.launch_group.as_mut().unwrap().index = 0;
    let first = absorb(&leader, &refused, at(1), &settings());
    assert!(first.effects.contains(&Effect::ReportRefusal { message: "no".into() }));
    let second = absorb(&first.claim, &refused, at(4), &settings());
    assert!(!second.effects.iter().any(|effect| matches!(effect, Effect::ReportRefusal { .. })));
    assert!(step(&second.claim, &all_is_well(), at(8), &settings()).effects.contains(&Effect::Launch));
    let claim = absorb(&second.claim, &refused, at(12), &settings()).claim;
    let launched = claim.condition(condition::LAUNCHED).unwrap();
    assert_eq!((launched.status, launched.reason.as_str()), (ConditionStatus::False, "UnauthorizedOperation"));
    let waits = step(&claim, &all_is_well(), at(60), &settings());
    assert!(waits.effects.is_empty() && waits.claim == claim && waits.requeue.is_some(), "{waits:?}");
    // The class turns out to be at fault, or the claim's time is up.
    let not_ready = NodeClassState::NotReady { message: "no".into() };
    let seen = Observation { node_class: Seen::Known(not_ready), ..all_is_well() };
    let gone = step(&claim, &seen, at(61), &settings());
    assert_eq!(reason(&gone.claim), Some(TerminationReason::NodeClassNotReady));
    let over = step(&claim, &all_is_well(), at(312), &settings());
    assert_eq!(reason(&over.claim), Some(TerminationReason::LaunchTimeout));
}

#[test]
fn errors_of_single_offerings_count_as_much() {
    let outcome = |code: &str| LaunchResult::NothingLaunched {
        failures: vec![OfferingFailure { code: code.into(), ..failure(false) }],
        others_launched: false,
    };
    let refused = absorb(&reserved(), &outcome("UnauthorizedOperation"), at(1), &settings());
    assert_eq!(refused.claim.status.launch_refusals, 1);
    let passing = absorb(&reserved(), &outcome("RequestLimitExceeded"), at(1), &settings());
    assert_eq!((passing.claim.status.launch_refusals, passing.claim.status.launch_attempts), (0, 1));
}

#[test]
fn each_member_gets_the_instance_that_is_written_down_as_its() {
    let outcome = LaunchOutcome {
        instances: vec![instance("i-a", InstanceState::Pending), instance("i-b", InstanceState::Pending)],
        failures: vec![failure(true)],
    };
    let owners = |owned: &[(&str, &str)]| owned.iter().map(|(id, name)| ((*id).into(), (*name).into())).collect();
    let result = |owned: &[(&str, &str)]| result_for(&reserved(), &outcome, &owners(owned), |_| learned());
    let own = reserved().name;
    let LaunchResult::Launched { instance, .. } = result(&[("i-b", &own), ("i-a", "another")]) else { panic!("{own}") };
    assert_eq!(instance.id, "i-b");
    let denied = LaunchResult::NothingLaunched { failures: vec![failure(true)], others_launched: true };
    assert_eq!(result(&[("i-a", "another"), ("i-b", "a third")]), denied);
    // An instance that the response does not contain has to be looked up, whatever the response contains for others.
    let elsewhere = LaunchResult::NothingLaunched { failures: Vec::new(), others_launched: true };
    assert_eq!(result(&[("i-c", &own)]), elsewhere);
}

#[test]
fn an_answer_without_instances_and_without_reasons_is_looked_into() {
    let empty = LaunchResult::NothingLaunched { failures: Vec::new(), others_launched: false };
    let throttled = LaunchResult::Failed { code: "Throttling".into(), message: "slow".into(), retryable: true };
    let claim = absorb(&reserved(), &throttled, at(100), &settings()).claim;
    let claim = absorb(&claim, &empty, at(150), &settings()).claim;
    assert_eq!((claim.phase, reason(&claim)), (Phase::Reserved, None), "it is no lack of capacity");
    assert!(!claim.status.launch_denied && crate::Needs::new(&claim).launch_group);
    let listed = |seconds| {
        let seen = Observation { launch_group: Seen::Known(SeenGroup::default()), ..all_is_well() };
        step(&claim, &seen, at(seconds), &settings())
    };
    // EC2 may take two minutes to list it, from the answer on and not from the claim's first launch.
    for seconds in [151, 200, 269] {
        let next = listed(seconds);
        assert!(next.claim == claim && next.effects.is_empty() && next.requeue.is_some(), "at {seconds}: {next:?}");
    }
    assert_eq!(reason(&listed(270).claim), Some(TerminationReason::InsufficientCapacity));
}

#[test]
fn a_launched_claim_knows_what_it_got() {
    let next = absorb(&reserved(), &launch_result("i-1"), at(3), &settings());
    assert_eq!(next.claim.phase, Phase::Launched);
    assert!(next.claim.has_condition(condition::LAUNCHED) && !next.claim.has_condition(condition::READY));
    assert_eq!(next.claim.provider_id().unwrap(), "aws:///us-east-1a/i-1");
    assert_eq!(next.claim.node_labels()[labels::INSTANCE_TENANCY], "default");
    let mut alone = reserved();
    alone.spec.requirements.add(labels::INSTANCE_TENANCY, Requirement::one_of(["dedicated"]));
    let alone = absorb(&alone, &launch_result("i-1"), at(3), &settings()).claim;
    assert_eq!(alone.node_labels()[labels::INSTANCE_TENANCY], "dedicated");
    assert_eq!(next.charge.as_ref().unwrap().resources.get("nodes"), Quantity::from_units(1));
    assert_eq!(next.charge.unwrap().dollars_per_hour, 0.1);
    assert_eq!(next.claim.spec.charge, reserved().spec.charge, "the table changes the charge together with the usage");
    let again = absorb(&next.claim, &launch_result("i-2"), at(4), &settings());
    assert_eq!(again.claim, next.claim, "a claim never gets a second instance");
}

#[test]
fn a_root_volume_that_the_node_pool_sizes_counts_with_its_price() {
    let mut claim = reserved();
    claim.spec.volumes_per_month = Some(1.6);
    let volume = RootVolume { gib: 120, dollars_per_hour: 0.01 };
    let mut result = launch_result("i-1");
    if let LaunchResult::Launched { learned, .. } = &mut result {
        learned.root_volume = Some(volume);
    }
    let next = absorb(&claim, &result, at(3), &settings());
    assert_eq!(next.claim.status.root_volume, Some(volume));
    assert!((next.claim.spec.volumes_per_month.unwrap() - 8.9).abs() < 1e-9);
    assert_eq!(next.claim.status.instance.as_ref().unwrap().price, 0.1);
    assert!((next.charge.unwrap().dollars_per_hour - 0.11).abs() < 1e-9);
}

#[test]
fn a_claim_that_left_while_it_was_launched_keeps_track_of_its_instance() {
    let mut leaving = reserved();
    crate::begin_termination(&mut leaving, TerminationReason::Deleted, "", at(1));
    let next = absorb(&leaving, &launch_result("i-1"), at(2), &settings());
    assert_eq!(next.claim.phase, Phase::Draining);
    assert_eq!(next.claim.status.instance.unwrap().id, "i-1");
}

#[test]
fn what_ec2_does_not_have_ends_the_claim_and_what_is_misconfigured_is_tried_again() {
    let nothing = |failures: Vec<OfferingFailure>, others_launched| {
        let result = LaunchResult::NothingLaunched { failures, others_launched };
        absorb(&reserved(), &result, at(1), &settings())
    };
    let lack = nothing(vec![failure(true)], false);
    assert_eq!(reason(&lack.claim), Some(TerminationReason::InsufficientCapacity));
    assert_eq!(lack.requeue, Some(Duration::ZERO));
    let marked = Effect::MarkUnavailable { failures: vec![failure(true)], until: at(181) };
    assert_eq!(lack.effects[0], marked);
    assert_eq!(lack.events[0].reason, "InsufficientCapacityError");

    let wrong = nothing(vec![failure(false), failure(true)], false);
    assert_eq!((wrong.claim.phase, reason(&wrong.claim)), (Phase::Reserved, None));
    assert_eq!(wrong.claim.client_token().unwrap(), "group-1", "the first token would give the same answer for ever");
    assert_eq!(wrong.claim.condition(condition::LAUNCHED).unwrap().reason, "UnauthorizedOperation");

    let partly = nothing(vec![failure(false)], true);
    assert_eq!(reason(&partly.claim), Some(TerminationReason::InsufficientCapacity));
    let none = absorb(&reserved(), &LaunchResult::NoOffering { message: "none".into() }, at(1), &settings());
    assert_eq!(reason(&none.claim), Some(TerminationReason::InsufficientCapacity));
}

#[test]
fn a_quota_that_is_reached_is_reported_with_what_to_do() {
    let reported = |codes: &[&str]| {
        let of = |code: &&str| OfferingFailure { code: (*code).to_owned(), ..failure(true) };
        let failures = codes.iter().map(of).collect();
        let result = LaunchResult::NothingLaunched { failures, others_launched: false };
        absorb(&reserved(), &result, at(1), &settings()).events[0].message.clone()
    };
    for (code, advice) in [
        ("VcpuLimitExceeded", "quota of on-demand vCPUs"),
        ("MaxSpotInstanceCountExceeded", "quota of spot vCPUs"),
        ("MaxFleetCountExceeded", "quota of fleets"),
        ("InsufficientFreeAddressesInSubnet", "add a subnet"),
        ("AuthFailure.ServiceLinkedRoleCreationNotPermitted", "create-service-linked-role"),
    ] {
        let message = reported(&["InsufficientInstanceCapacity", code]);
        assert!(message.contains(code) && message.contains(advice), "{message}");
    }
    let plain = reported(&["InsufficientInstanceCapacity"]);
    assert!(plain.contains("InsufficientInstanceCapacity: ") && !plain.contains('('), "{plain}");
}

#[test]
fn a_lost_answer_is_recovered_from_the_groups_tag() {
    let lost = LaunchResult::Failed {
        code: "IdempotentParameterMismatch".into(),
        message: "other parameters".into(),
        retryable: false,
    };
    let claim = absorb(&reserved(), &lost, at(1), &settings()).claim;
    assert!(crate::Needs::new(&claim).launch_group && !crate::Needs::new(&reserved()).launch_group);
    let instances = vec![instance("i-2", InstanceState::Running), instance("i-1", InstanceState::Running)];
    let group = SeenGroup { instances, ..SeenGroup::default() };
    let seen = Observation { launch_group: Seen::Known(group), ..all_is_well() };
    let next = step(&claim, &seen, at(2), &settings());
    let Effect::Recover { instances } = &next.effects[0] else { panic!("{:?}", next.effects) };
    assert_eq!(instances[0].id, "i-1");
    assert!(!next.effects.contains(&Effect::Launch));

    let empty = Observation { launch_group: Seen::Known(SeenGroup::default()), ..all_is_well() };
    let next = step(&claim, &empty, at(120), &settings());
    assert!(next.claim == claim && next.effects.is_empty() && next.requeue.is_some(), "EC2 may not list it yet");
    let next = step(&claim, &empty, at(121), &settings());
    assert_eq!(reason(&next.claim), Some(TerminationReason::InsufficientCapacity));
    let unknown = Observation { launch_group: Seen::default(), ..all_is_well() };
    let next = step(&claim, &unknown, at(2), &settings());
    assert!(next.effects.is_empty() && next.claim == claim);
}

#[test]
fn changes_of_the_network_of_a_running_instance_are_recorded() {
    let mut claim = claim(Phase::Initialized);
    claim.status.instance.as_mut().unwrap().reservation_id = Some("cr-1".into());
    let mut found = instance("i-1", InstanceState::Running);
    claim.status.instance.as_mut().unwrap().id.clone_from(&found.id);
    (found.subnet_id, found.security_group_ids) = (Some("subnet-1".into()), vec!["sg-2".into(), "sg-1".into()]);
    let next = crate::moved(&claim, &found).unwrap();
    let launched = next.status.instance.clone().unwrap();
    assert_eq!(
        (launched.subnet_id.as_deref(), &launched.security_group_ids[..]),
        (Some("subnet-1"), &["sg-1".to_owned(), "sg-2".to_owned()][..])
    );
    assert_eq!(launched.reservation_id, None, "it ran on after the end of its reservation");
    assert_eq!(crate::moved(&next, &found), None);
    // EC2 reports fewer properties of an instance that ends.
    let ending =
        Instance { subnet_id: None, security_group_ids: Vec::new(), state: InstanceState::ShuttingDown, ..found };
    assert_eq!(crate::moved(&next, &ending), None);
}

/// The table was restored to a time before the launch. The claim would have had to be launched long ago.
#[test]
fn a_claim_whose_object_shows_an_instance_is_not_launched_again() {
    let mut shown = mirror();
    shown.conditions.insert(condition::LAUNCHED.into(), ("True".into(), "Launched".into()));
    let seen = Observation { mirror: Seen::Known(Some(shown.clone())), ..all_is_well() };
    let next = step(&reserved(), &seen, at(4000), &settings());
    assert_eq!((next.claim.phase, next.requeue), (Phase::Reserved, Some(Duration::ZERO)));
    assert!(next.claim.status.launch_asked && !next.effects.contains(&Effect::Launch));
    let mut own = instance("i-1", InstanceState::Running);
    own.tags.insert(labels::NODE_CLAIM_TAG.into(), "default-bbbbb".into());
    let group = SeenGroup { instances: vec![own.clone()], ..SeenGroup::default() };
    // The object shows the record now.
    let found = Observation { launch_group: Seen::Known(group), ..all_is_well() };
    let recovers = step(&next.claim, &found, at(4001), &settings());
    assert!(recovers.effects.contains(&Effect::Recover { instances: vec![own] }), "{recovers:?}");
    // It has ended meanwhile.
    let ended = step(&next.claim, &seen, at(4120), &settings());
    assert_eq!(reason(&ended.claim), Some(TerminationReason::InsufficientCapacity));
    // The object is that of an earlier claim of this name.
    let other = MirroredClaim { record_uid: Some("earlier".into()), ..shown };
    let seen = Observation { mirror: Seen::Known(Some(other)), ..all_is_well() };
    assert!(step(&reserved(), &seen, at(10), &settings()).effects.contains(&Effect::Launch));
}
