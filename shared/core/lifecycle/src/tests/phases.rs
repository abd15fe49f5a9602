//! Which phase follows which, by table and by property.

use super::properties::{any_claim, any_observation};
use super::warm::{any_warm, cordoned, daemon, seen};
use super::*;
use crate::{absorb, step, warm};
use InstanceState::{Running, Stopped, Terminated};
use nodeless_model::test_support::PHASES;
use proptest::prelude::*;

/// The phases to which a step may lead, other than the same.
fn following(phase: Phase) -> &'static [Phase] {
    match phase {
        Phase::Reserved | Phase::WarmReserved | Phase::Initialized => &[Phase::Draining],
        Phase::Launched => &[Phase::Registered, Phase::Initialized, Phase::Draining],
        Phase::WarmLaunched => &[Phase::Preparing, Phase::Initialized, Phase::Draining],
        Phase::Stopped => &[Phase::Launched, Phase::Stopping, Phase::Draining],
        Phase::Starting => &[Phase::Launched, Phase::Draining],
        Phase::Registered => &[Phase::Initialized, Phase::Draining],
        Phase::Preparing => &[Phase::Registered, Phase::Stopping, Phase::Draining],
        Phase::Stopping => &[Phase::Launched, Phase::Stopped, Phase::Registered, Phase::Draining],
        Phase::Draining => &[Phase::Terminating],
        Phase::Terminating => &[Phase::Gone],
        Phase::Gone => &[],
    }
}

/// A claim whose instance another party started again while its Node was not registered.
fn unregistered(phase: Phase) -> NodeClaim {
    let mut one = claim(phase);
    one.clear_condition(condition::REGISTERED);
    one
}

#[test]
fn each_phase_leads_to_the_phases_of_the_table() {
    let deleted = MirroredClaim { deletion_timestamp: Some(at(50)), ..mirror() };
    let deleted = Observation { mirror: Seen::Known(Some(deleted)), ..all_is_well() };
    let begin = PHASES.into_iter().filter(|phase| !phase.is_leaving()).map(|phase| (claim(phase), deleted.clone()));
    let runs = |node: Option<Node>| seen(Running, node.into_iter().collect(), vec![daemon(true)]);
    let is = |state| seen(state, Vec::new(), Vec::new());
    let registered = Node { unschedulable: false, ..cordoned() };
    let others = [
        (claim(Phase::Launched), runs(Some(registered.clone()))),
        (claim(Phase::Launched), runs(Some(ready_node()))),
        (claim(Phase::WarmLaunched), runs(Some(cordoned()))),
        (claim(Phase::WarmLaunched), runs(Some(ready_node()))),
        (claim(Phase::Stopped), runs(Some(ready_node()))),
        (claim(Phase::Stopped), runs(None)),
        (claim(Phase::Starting), runs(None)),
        (claim(Phase::Registered), runs(Some(ready_node()))),
        (claim(Phase::Preparing), runs(Some(registered))),
        (claim(Phase::Preparing), runs(Some(cordoned()))),
        (claim(Phase::Stopping), runs(Some(ready_node()))),
        (unregistered(Phase::Stopping), runs(Some(ready_node()))),
        (claim(Phase::Stopping), is(Stopped)),
        (claim(Phase::Draining), is(Terminated)),
        (claim(Phase::Terminating), is(Terminated)),
        (claim(Phase::Gone), is(Terminated)),
    ];
    let steps = begin.chain(others).map(|(one, seen)| (one.phase, step(&one, &seen, at(60), &settings()).claim.phase));
    let made: BTreeSet<(Phase, Phase)> = steps.filter(|(before, after)| before != after).collect();
    let table: BTreeSet<(Phase, Phase)> =
        PHASES.into_iter().flat_map(|phase| following(phase).iter().map(move |next| (phase, *next))).collect();
    assert_eq!(made, table);
}

#[test]
fn an_answer_of_ec2_leads_to_the_phases_of_the_table() {
    let launched = |phase| absorb(&claim(phase), &launch_result("i-1"), at(1), &settings()).claim.phase;
    let phases = [Phase::Reserved, Phase::WarmReserved].map(launched);
    assert_eq!(phases, [Phase::Launched, Phase::WarmLaunched]);
    let mut late = claim(Phase::Terminating);
    late.status.instance = None;
    assert_eq!(absorb(&late, &launch_result("i-1"), at(1), &settings()).claim.phase, Phase::Draining);
    let refused = |one: &NodeClaim| warm::not_stopped(one, "denied", at(1)).map(|step| step.claim.phase);
    assert_eq!(refused(&claim(Phase::Stopping)), Some(Phase::Preparing));
    assert_eq!(refused(&unregistered(Phase::Stopping)), Some(Phase::WarmLaunched), "its Node may join");
    let others = PHASES.into_iter().filter(|phase| *phase != Phase::Stopping);
    assert!(others.map(claim).all(|one| refused(&one).is_none()));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_other_phase_follows(before in prop_oneof![any_claim(), any_warm()], seen in any_observation(), now in 0_i64..4000) {
        let next = step(&before, &seen, at(now), &settings()).claim.phase;
        prop_assert!(next == before.phase || following(before.phase).contains(&next), "{:?} -> {next:?}", before.phase);
    }
}
