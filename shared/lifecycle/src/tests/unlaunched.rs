use super::*;
use crate::{Effect, Step, absorb, begin_termination, step};
use nodeless_model::claim::TerminationReason;
use nodeless_model::instance::OfferingFailure;

/// A claim that was told to leave at second 10, before any answer of EC2 was written down.
fn leaving(index: u32, size: u32, asked: bool) -> NodeClaim {
    let mut claim = reserved();
    claim.spec.launch_group = Some(LaunchGroup { id: "group".into(), index, size });
    claim.name = format!("default-{index}");
    claim.status.launch_asked = asked;
    begin_termination(&mut claim, TerminationReason::Deleted, "", at(10));
    claim.phase = Phase::Terminating;
    claim
}

fn look(claim: &NodeClaim, instances: &[&str], others: &[NodeClaim], seconds: i64) -> Step {
    let instances = instances.iter().map(|id| instance(id, InstanceState::Running)).collect();
    let group = SeenGroup { instances, others: others.to_vec() };
    step(claim, &Observation { launch_group: Seen::Known(group), ..all_is_well() }, at(seconds), &settings())
}

fn taken(step: &Step) -> Option<&str> {
    step.effects.iter().find_map(|effect| match effect {
        Effect::Take { instance } => Some(instance.id.as_str()),
        _ => None,
    })
}

#[test]
fn one_that_nobody_asked_for_goes_at_once() {
    let claim = leaving(0, 1, false);
    assert!(!crate::Needs::of(&claim).launch_group, "EC2 is not asked in vain");
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
    assert!(crate::Needs::of(&claim).launch_group);
    for seconds in [10, 40, 69] {
        let next = look(&claim, &[], &[], seconds);
        assert_eq!((next.claim.phase, taken(&next)), (Phase::Terminating, None), "at {seconds}");
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
    assert_eq!((next.claim.phase, taken(&next)), (Phase::Terminating, Some("i-1")));
    let owner = absorb(&claim, &launch_result("i-1"), at(20), &settings()).claim;
    assert_eq!(owner.phase, Phase::Terminating);
    let next = step(&owner, &all_is_well(), at(21), &settings());
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
    assert_eq!(taken(&look(&claim, &["i-1", "i-2"], &[other.clone()], 20)), Some("i-2"));
    assert_eq!(look(&claim, &["i-1"], &[other], 80).claim.phase, Phase::Gone);
    assert_eq!(look(&claim, &[], &[leaving(1, 2, false)], 11).claim.phase, Phase::Gone, "nobody asked");
}

#[test]
fn those_without_one_take_what_is_left_in_turn() {
    let members: Vec<NodeClaim> = (0..3).map(|index| leaving(index, 3, true)).collect();
    let others = |without: usize| -> Vec<NodeClaim> {
        members.iter().enumerate().filter(|(index, _)| *index != without).map(|(_, member)| member.clone()).collect()
    };
    let found: Vec<Option<String>> = (0..3)
        .map(|index| taken(&look(&members[index], &["i-b", "i-a"], &others(index), 20)).map(str::to_owned))
        .collect();
    assert_eq!(found, [Some("i-a".to_owned()), Some("i-b".to_owned()), None]);
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
        assert!(!crate::Needs::of(&last).launch_group);
        assert_eq!(look(&last, &[], &[], 12).claim.phase, Phase::Gone);
        let found_by_tag = absorb(&claim, &nothing(&[]), at(12), &settings()).claim;
        assert!(!found_by_tag.status.launch_denied, "what is not listed yet is no answer");
    }
}
