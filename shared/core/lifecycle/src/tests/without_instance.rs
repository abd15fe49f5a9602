use super::*;
use crate::group::Owners;
use crate::{Effect, Step, absorb, begin_termination, step};
use nodeless_model::claim::TerminationReason;
use nodeless_model::instance::OfferingFailure;

/// A claim that was marked for termination at second 10, before any response of EC2 was recorded.
fn leaving(index: u32, size: u32, asked: bool) -> NodeClaim {
    let mut claim = reserved();
    claim.spec.launch_group = Some(LaunchGroup { id: "group".into(), index, size, all_or_none: false });
    claim.name = format!("default-{index}");
    claim.status.launch_asked = asked;
    begin_termination(&mut claim, TerminationReason::Deleted, "", at(10));
    claim.phase = Phase::Terminating;
    claim
}

fn look(claim: &NodeClaim, instances: &[&str], others: &[NodeClaim], seconds: i64) -> Step {
    let instances = instances.iter().map(|id| instance(id, InstanceState::Running)).collect();
    look_at(claim, SeenGroup { instances, others: others.to_vec(), ..SeenGroup::default() }, seconds)
}

fn look_at(claim: &NodeClaim, group: SeenGroup, seconds: i64) -> Step {
    step(claim, &Observation { launch_group: Seen::Known(group), ..all_is_well() }, at(seconds), &settings())
}

/// The instances that are to be shared out among the members.
fn found(step: &Step) -> Vec<&str> {
    let recovered = step.effects.iter().find_map(|effect| match effect {
        Effect::Recover { instances } => Some(instances.iter().map(|instance| instance.id.as_str()).collect()),
        _ => None,
    });
    recovered.unwrap_or_default()
}

#[test]
fn an_unrequested_one_is_removed_at_once() {
    let claim = leaving(0, 1, false);
    assert!(!crate::Needs::new(&claim).launch_group, "EC2 is not asked in vain");
    assert_eq!(look(&claim, &[], &[], 10).claim.phase, Phase::Gone);
}

#[test]
fn a_launch_is_noted_before_it_is_made() {
    let next = step(&reserved(), &all_is_well(), at(1), &settings());
    assert!(next.effects.contains(&Effect::Launch) && next.claim.status.launch_asked);
}

#[test]
fn one_that_was_asked_for_is_not_forgotten_before_ec2_can_have_none_for_it() {
    let claim = leaving(0, 1, true);
    assert!(crate::Needs::new(&claim).launch_group);
    for seconds in [10, 40, 69] {
        let next = look(&claim, &[], &[], seconds);
        assert!(next.claim.phase == Phase::Terminating && found(&next).is_empty(), "at {seconds}: {next:?}");
        assert!(next.requeue.is_some_and(|delay| delay > Duration::ZERO), "at {seconds}");
    }
    assert_eq!(look(&claim, &[], &[], 70).claim.phase, Phase::Gone);
    let blind = step(&claim, &Observation { launch_group: Seen::default(), ..all_is_well() }, at(700), &settings());
    assert_eq!(blind.claim.phase, Phase::Terminating, "nothing is forgotten on doubt");
    assert_eq!(blind.blocked.len(), 1);
}

#[test]
fn its_instance_is_found_and_ends_with_it() {
    let claim = leaving(0, 1, true);
    let next = look(&claim, &["i-1"], &[], 20);
    assert_eq!((next.claim.phase, found(&next)), (Phase::Terminating, vec!["i-1"]));
    let owner = absorb(&claim, &launch_result("i-1"), at(20), &settings()).claim;
    assert_eq!(owner.phase, Phase::Draining, "its node may have joined");
    let alone = Observation { nodes: Seen::Known(Vec::new()), ..all_is_well() };
    let owner = step(&owner, &alone, at(21), &settings()).claim;
    let next = step(&owner, &alone, at(22), &settings());
    assert!(next.effects.contains(&Effect::TerminateInstance { id: "i-1".into() }));
}

#[test]
fn one_waits_for_members_that_may_still_make_the_call() {
    let mut other = leaving(1, 2, false);
    other.phase = Phase::Reserved;
    let claim = leaving(0, 2, false);
    assert_eq!(look(&claim, &[], &[other.clone()], 500).claim.phase, Phase::Terminating);
    other.phase = Phase::Launched;
    other.status = self::claim(Phase::Launched).status;
    other.status.launch_asked = true;
    assert_eq!(
        look(&claim, &["i-1"], &[other.clone()], 20).claim.phase,
        Phase::Terminating,
        "it may not be listed yet"
    );
    assert_eq!(found(&look(&claim, &["i-1", "i-2"], &[other.clone()], 20)), ["i-2"]);
    assert_eq!(look(&claim, &["i-1"], &[other], 80).claim.phase, Phase::Gone);
    assert_eq!(look(&claim, &[], &[leaving(1, 2, false)], 11).claim.phase, Phase::Gone, "EC2 was never asked");
}

#[test]
fn what_another_member_has_or_is_to_get_is_left_to_it() {
    let claim = leaving(0, 3, true);
    let mut waits = leaving(1, 3, true);
    waits.phase = Phase::Reserved;
    let mut launched = leaving(2, 3, true);
    launched.status = self::claim(Phase::Launched).status;
    let instances: Vec<Instance> =
        ["i-1", "i-2", "i-3"].iter().map(|id| instance(id, InstanceState::Running)).collect();
    let owners = Owners::from([("i-2".into(), waits.name.clone())]);
    let group = SeenGroup { instances, others: vec![waits.clone(), launched.clone()], owners };
    assert_eq!(found(&look_at(&claim, group.clone(), 20)), ["i-3"]);
    // The owner of i-2 has gone without it.
    let mut gone = waits;
    gone.phase = Phase::Gone;
    let group = SeenGroup { others: vec![gone, launched], ..group };
    assert_eq!(found(&look_at(&claim, group, 20)), ["i-2", "i-3"]);
}

#[test]
fn one_is_not_forgotten_while_its_instance_is_only_not_listed() {
    let claim = leaving(0, 2, true);
    let owners = Owners::from([("i-1".into(), claim.name.clone())]);
    let unlisted = SeenGroup { owners: owners.clone(), ..SeenGroup::default() };
    assert_eq!(look_at(&claim, unlisted.clone(), 129).claim.phase, Phase::Terminating);
    assert_eq!(look_at(&claim, unlisted, 130).claim.phase, Phase::Gone);
    let of_state =
        |state| SeenGroup { instances: vec![instance("i-1", state)], owners: owners.clone(), others: vec![] };
    assert_eq!(found(&look_at(&claim, of_state(InstanceState::Running), 500)), ["i-1"]);
    assert_eq!(look_at(&claim, of_state(InstanceState::Terminated), 20).claim.phase, Phase::Gone);
}

#[test]
fn an_answer_without_an_instance_is_remembered() {
    let lacking = OfferingFailure {
        instance_type: "m6i.large".into(),
        zone: "us-east-1a".into(),
        capacity_type: CapacityType::Spot,
        code: "InsufficientInstanceCapacity".into(),
        message: "none left".into(),
        lacks_capacity: true,
        placement_group: None,
        partition: None,
        reservation_id: None,
    };
    let nothing = |failures: &[OfferingFailure]| LaunchResult::NothingLaunched {
        failures: failures.to_vec(),
        others_launched: true,
    };
    let mut asked = reserved();
    asked.status.launch_asked = true;
    for claim in [asked, leaving(0, 2, true)] {
        let denied = absorb(&claim, &nothing(std::slice::from_ref(&lacking)), at(12), &settings()).claim;
        assert!(denied.status.launch_denied, "{:?}", claim.phase);
        let mut last = denied;
        last.phase = Phase::Terminating;
        assert!(!crate::Needs::new(&last).launch_group);
        assert_eq!(look(&last, &[], &[], 12).claim.phase, Phase::Gone);
        let found_by_tag = absorb(&claim, &nothing(&[]), at(12), &settings()).claim;
        assert!(!found_by_tag.status.launch_denied, "what is not listed yet is no answer");
    }
}
