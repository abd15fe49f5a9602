//! Commands against a small world that they are carried out in, and against chance.

use super::*;
use crate::output::{Method, Repair};
use nodeless_model::claim::{NodeClaimSpec, NodeClaimStatus, Termination, TerminationReason};
use nodeless_model::{DisruptionReason, Phase};
use proptest::prelude::*;
use std::collections::BTreeMap;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn claim(name: &str, phase: Phase) -> NodeClaim {
    NodeClaim {
        name: name.into(),
        uid: format!("uid-{name}"),
        node_pool: Some("default".into()),
        node_class: "default".into(),
        created: at(0),
        version: 1,
        spec: NodeClaimSpec::default(),
        phase,
        status: NodeClaimStatus::default(),
    }
}

fn command(candidates: usize) -> Command {
    Command {
        id: "drift-old-0".into(),
        method: Method::Drift,
        reason: DisruptionReason::Drifted,
        candidates: (0..candidates)
            .map(|number| Candidate {
                node: format!("node-{number}"),
                node_claim: format!("old-{number}"),
                node_pool: "default".into(),
            })
            .collect(),
        replacements: Vec::new(),
        savings_per_hour: 0.0,
        evictions: Vec::new(),
        placements: Vec::new(),
        drains_first: false,
        repair: None,
        zones: None,
        score: None,
        decided: at(0),
    }
}

/// A world in which effects come true at once.
struct World {
    claims: BTreeMap<String, NodeClaim>,
    tainted: BTreeMap<String, bool>,
    record: Option<CommandRecord>,
    outcome: Option<CommandOutcome>,
    paused: BTreeMap<String, String>,
    blocked: Option<&'static str>,
    /// Every effect that was run.
    done: Vec<CommandEffect>,
}

impl World {
    fn new(candidates: usize, replacements: usize) -> Self {
        let command = command(candidates);
        let names = command.candidates.iter();
        let claims = names.clone().map(|one| (one.node_claim.clone(), claim(&one.node_claim, Phase::Initialized)));
        let made = (0..replacements).map(|number| claim(&format!("new-{number}"), Phase::Reserved)).collect();
        let record = CommandRecord::propose(command.clone()).confirm(command.clone(), made, 1, at(15));
        Self {
            claims: claims.collect(),
            tainted: names.map(|one| (one.node.clone(), false)).collect(),
            record: Some(record),
            outcome: None,
            paused: BTreeMap::new(),
            blocked: None,
            done: Vec::new(),
        }
    }

    fn record(&self) -> &CommandRecord {
        self.record.as_ref().unwrap()
    }

    /// Executes a step, interrupted after this number of effects. Returns whether anything happened.
    fn advance(&mut self, now: Timestamp, cut: usize) -> bool {
        let Some(record) = self.record.clone() else { return false };
        let (claims, tainted) = (&self.claims, &self.tainted);
        let seen = Surroundings { claims, tainted, paused: &self.paused, blocked: self.blocked };
        let next = step(&record, seen, now);
        self.record.clone_from(&next.record);
        self.outcome = next.outcome;
        for effect in next.effects.iter().take(cut) {
            self.run(&record, effect);
        }
        next.record != Some(record) || !next.effects.is_empty()
    }

    fn run(&mut self, record: &CommandRecord, effect: &CommandEffect) {
        self.done.push(effect.clone());
        match effect {
            CommandEffect::Take { claim } => {
                self.claims.get_mut(claim).unwrap().status.command = Some(record.command.id.clone());
            }
            CommandEffect::Release { claim } => self.claims.get_mut(claim).unwrap().status.command = None,
            CommandEffect::Launch { replacement } => {
                let made = record.replacements[*replacement].clone();
                self.claims.insert(made.name.clone(), made);
            }
            CommandEffect::Terminate { claim } => {
                let ready = record
                    .replacements
                    .iter()
                    .all(|made| self.claims.get(&made.name).is_some_and(|present| present.phase == Phase::Initialized));
                assert!(ready, "{claim} is drained although a replacement is not ready: {:#?}", self.claims);
                assert_ne!(record.phase, CommandPhase::RollingBack);
                self.claims.get_mut(claim).unwrap().phase = Phase::Draining;
            }
        }
    }

    /// Taints the nodes of the claims that are taken, and no others, as the lifecycle of claims does.
    fn look_after(&mut self) -> bool {
        let mut changed = false;
        for (node, tainted) in &mut self.tainted {
            let claim = &self.claims[&node.replace("node", "old")];
            let desired = claim.status.command.is_some() || claim.phase.is_leaving();
            changed |= *tainted != desired;
            *tainted = desired;
        }
        changed
    }

    fn converge(&mut self, now: Timestamp) {
        for _ in 0..50 {
            let advanced = self.advance(now, usize::MAX);
            if !self.look_after() && !advanced {
                return;
            }
        }
        panic!("it never comes to rest: {:#?}", self.record);
    }

    fn fail(&mut self, name: &str) {
        let claim = self.claims.get_mut(name).unwrap();
        claim.phase = Phase::Draining;
        claim.status.termination = Some(Termination {
            reason: TerminationReason::InsufficientCapacity,
            message: "no capacity".into(),
            requested: at(20),
            deadline: None,
        });
    }

    /// Nothing of the command is left on nodes and claims that stay.
    fn check_released(&self) {
        for (name, claim) in self.claims.iter().filter(|(name, _)| name.starts_with("old")) {
            let node = name.replace("old", "node");
            let stays = !claim.phase.is_leaving();
            assert!(!stays || claim.status.command.is_none(), "{name} is still taken");
            assert!(!stays || self.tainted.get(&node) != Some(&true), "{node} is still tainted");
        }
    }
}

#[test]
fn a_command_that_was_left_before_it_was_begun_is_taken_back() {
    let mut left = World::new(2, 1);
    left.converge(at(46));
    assert_eq!((left.outcome, left.done.len()), (Some(CommandOutcome::RolledBack), 0));
    let mut begun = World::new(2, 1);
    assert!(begun.advance(at(45), 1));
    begun.converge(at(100));
    assert_eq!(begun.record().phase, CommandPhase::Waiting, "one of its nodes was tainted in time");
}

#[test]
fn a_proposal_waits_fifteen_seconds_and_touches_nothing() {
    let record = CommandRecord::propose(command(1));
    assert_eq!(record.validation_due_in(at(0)), Duration::from_secs(15));
    assert_eq!(record.validation_due_in(at(14)), Duration::from_secs(1));
    assert_eq!(record.validation_due_in(at(15)), Duration::ZERO);
    let (claims, tainted, paused) =
        (BTreeMap::new(), BTreeMap::new(), BTreeMap::from([("default".into(), "it is paused".into())]));
    let seen = Surroundings { claims: &claims, tainted: &tainted, paused: &paused, blocked: Some("a Pod is odd") };
    let next = step(&record, seen, at(100));
    assert_eq!((next.record, next.effects.len()), (Some(record), 0));
}

#[test]
fn a_pause_takes_back_what_has_not_begun_to_leave() {
    for ready in [false, true] {
        let mut world = World::new(2, 1);
        world.converge(at(15));
        if ready {
            // The process died when it had marked one of the two for termination.
            world.claims.get_mut("new-0").unwrap().phase = Phase::Initialized;
            world.advance(at(40), 0);
            world.advance(at(40), 1);
            assert_eq!(world.record().phase, CommandPhase::Draining);
        }
        world.paused.insert("other".into(), "it is paused".into());
        world.advance(at(41), 0);
        assert_ne!(world.record().phase, CommandPhase::RollingBack);
        world.paused.insert("default".into(), "it is paused".into());
        world.converge(at(42));
        assert_eq!((world.record.as_ref(), world.outcome), (None, Some(CommandOutcome::RolledBack)));
        world.check_released();
        let leaving = world.claims.values().filter(|claim| claim.phase.is_leaving()).count();
        assert_eq!(leaving, usize::from(ready));
    }
}

#[test]
fn a_pause_does_not_take_back_a_repair() {
    let mut world = World::new(1, 1);
    let repair = Repair { why: "its kernel is bad".into(), drain_within: Duration::from_mins(10) };
    world.record.as_mut().unwrap().command.repair = Some(repair);
    world.paused.insert("default".into(), "it is paused".into());
    world.converge(at(15));
    assert_eq!(world.record().phase, CommandPhase::Waiting);
}

#[test]
fn in_doubt_a_command_waits_and_is_taken_back_when_its_time_is_over() {
    for ready in [false, true] {
        let mut world = World::new(1, 1);
        world.converge(at(15));
        if ready {
            world.claims.get_mut("new-0").unwrap().phase = Phase::Initialized;
            world.advance(at(40), 0);
            assert_eq!(world.record().phase, CommandPhase::Draining);
        }
        world.blocked = Some("a Pod is odd");
        let phase = world.record().phase;
        world.converge(at(300));
        assert_eq!(world.record().phase, phase, "it goes neither on nor back");
        world.converge(at(15 + 600));
        assert_eq!((world.record.as_ref(), world.outcome), (None, Some(CommandOutcome::RolledBack)));
        world.check_released();
        assert!(world.claims.values().all(|claim| !claim.phase.is_leaving()));
    }
    // Without replacements it was not tainted, and is soon too old to be right.
    let mut world = World::new(1, 0);
    world.blocked = Some("a Pod is odd");
    world.converge(at(20));
    assert_eq!(world.record().phase, CommandPhase::Draining);
    world.converge(at(60));
    assert_eq!((world.record.as_ref(), world.outcome), (None, Some(CommandOutcome::RolledBack)));
    world.check_released();
}

#[test]
fn a_replacement_goes_through_every_phase_in_order() {
    let mut world = World::new(1, 1);
    world.converge(at(15));
    assert_eq!(world.record().phase, CommandPhase::Waiting);
    assert!(world.record().moves_pods());
    assert_eq!(world.done, [CommandEffect::Take { claim: "old-0".into() }, CommandEffect::Launch { replacement: 0 },]);
    for phase in [Phase::Launched, Phase::Registered] {
        world.claims.get_mut("new-0").unwrap().phase = phase;
        world.converge(at(60));
        assert_eq!(world.record().phase, CommandPhase::Waiting);
    }
    world.claims.get_mut("new-0").unwrap().phase = Phase::Initialized;
    world.converge(at(90));
    assert_eq!((&world.record, world.outcome), (&None, Some(CommandOutcome::Done)));
    assert_eq!(world.done.last(), Some(&CommandEffect::Terminate { claim: "old-0".into() }));
}

#[test]
fn without_replacements_the_candidates_leave_at_once_and_lost_ones_block_none() {
    let mut world = World::new(3, 0);
    world.fail("old-1");
    world.converge(at(15));
    assert_eq!(world.outcome, Some(CommandOutcome::Done));
    assert!(world.claims.values().all(|claim| claim.phase == Phase::Draining));
    assert!(!world.done.contains(&CommandEffect::Terminate { claim: "old-1".into() }));
}

#[test]
fn nodes_that_nothing_replaces_stay_when_the_command_was_left_in_the_middle() {
    let mut world = World::new(2, 0);
    world.advance(at(15), 1);
    assert_eq!(world.done.len(), 1);
    world.converge(at(15 + 300));
    assert_eq!((world.outcome, world.done.len()), (Some(CommandOutcome::RolledBack), 1));
    assert_eq!(world.claims["old-1"].phase, Phase::Initialized);
}

#[test]
fn nothing_is_launched_before_the_nodes_are_tainted() {
    let mut world = World::new(1, 1);
    for _ in 0..5 {
        world.advance(at(20), usize::MAX);
        assert_eq!((world.record().phase, world.claims.len()), (CommandPhase::Tainting, 1));
    }
    world.look_after();
    world.converge(at(25));
    assert_eq!(world.record().phase, CommandPhase::Waiting);
}

#[test]
fn a_candidate_of_another_command_is_never_touched() {
    for replacements in [0, 1] {
        let mut world = World::new(1, replacements);
        world.claims.get_mut("old-0").unwrap().status.command = Some("other".into());
        world.converge(at(15));
        assert_eq!(
            world.outcome,
            Some(if replacements == 0 { CommandOutcome::Done } else { CommandOutcome::RolledBack })
        );
        assert!(world.done.is_empty(), "{:?}", world.done);
    }
}

#[test]
fn a_failed_replacement_gives_the_nodes_back_and_the_others_stay() {
    for gone in [false, true] {
        let mut world = World::new(2, 2);
        world.converge(at(15));
        world.claims.get_mut("new-0").unwrap().phase = Phase::Initialized;
        if gone {
            world.claims.remove("new-1");
        } else {
            world.fail("new-1");
        }
        let record = world.record().clone();
        world.advance(at(60), usize::MAX);
        let why = world.record().failure.clone().unwrap();
        assert!(why.contains("new-1"), "{why}");
        world.converge(at(60));
        assert_eq!(world.outcome, Some(CommandOutcome::RolledBack));
        world.check_released();
        assert_eq!(world.claims["new-0"].phase, Phase::Initialized);
        assert_eq!(record.phase, CommandPhase::Waiting);
    }
}

#[test]
fn a_replacement_that_takes_too_long_is_given_up() {
    let mut world = World::new(1, 1);
    world.converge(at(15));
    world.converge(at(15 + 599));
    assert_eq!(world.record().phase, CommandPhase::Waiting);
    world.converge(at(15 + 600));
    assert_eq!(world.outcome, Some(CommandOutcome::RolledBack));
    world.check_released();
    let many = CommandRecord::propose(command(1)).confirm(command(1), Vec::new(), 1_000_000, at(15));
    assert_eq!(many.deadline, Some(at(15 + 3600)));
}

#[test]
fn a_replacement_that_leaves_before_the_drain_began_saves_the_candidates() {
    let mut world = World::new(2, 1);
    world.converge(at(15));
    world.claims.get_mut("new-0").unwrap().phase = Phase::Initialized;
    world.advance(at(60), usize::MAX);
    assert_eq!(world.record().phase, CommandPhase::Draining, "{:#?}", world.record());
    // The process ends here, and before another one continues, the replacement is deleted.
    world.fail("new-0");
    world.converge(at(600));
    assert_eq!(world.outcome, Some(CommandOutcome::RolledBack));
    world.check_released();
}

#[test]
fn a_record_survives_being_written_and_read() {
    let world = World::new(2, 2);
    let text = serde_json::to_string(world.record()).unwrap();
    let read: CommandRecord = serde_json::from_str(&text).unwrap();
    assert_eq!(&read, world.record());
}

/// An event between two steps.
#[derive(Clone, Debug)]
enum Happening {
    /// The process ends after this number of effects of the next step.
    Cut(usize),
    /// A replacement comes a phase further.
    Grow(usize),
    /// A replacement fails.
    Fail(usize),
    /// A replacement's record is gone.
    Vanish(usize),
    /// A candidate is deleted by a person.
    Delete(usize),
    /// A node object disappears.
    Lose(usize),
    /// Time passes.
    Wait(i64),
    /// Somebody looks after the claims.
    LookAfter,
}

fn happening() -> impl Strategy<Value = Happening> {
    prop_oneof![
        1 => (0..3_usize).prop_map(Happening::Cut),
        4 => (0..3_usize).prop_map(Happening::Grow),
        1 => (0..3_usize).prop_map(Happening::Fail),
        1 => (0..3_usize).prop_map(Happening::Vanish),
        1 => (0..3_usize).prop_map(Happening::Delete),
        1 => (0..3_usize).prop_map(Happening::Lose),
        1 => (1..200_i64).prop_map(Happening::Wait),
        4 => Just(Happening::LookAfter),
    ]
}

proptest! {
    /// No candidate is drained before its replacements are ready ([`World::run`] checks it), and whatever happens the command
    /// ends and leaves nothing behind.
    #[test]
    fn no_candidate_is_drained_before_its_replacements_are_ready(
        candidates in 1..4_usize,
        replacements in 0..4_usize,
        happenings in prop::collection::vec(happening(), 0..40),
    ) {
        let mut world = World::new(candidates, replacements);
        let mut now = 15;
        for happening in happenings {
            let mut cut = usize::MAX;
            match happening {
                Happening::Cut(after) => cut = after,
                Happening::Grow(number) => {
                    if let Some(claim) = world.claims.get_mut(&format!("new-{number}")) {
                        claim.phase = match claim.phase {
                            Phase::Reserved => Phase::Launched,
                            Phase::Launched => Phase::Registered,
                            Phase::Registered => Phase::Initialized,
                            other => other,
                        };
                    }
                }
                Happening::Fail(number) if world.claims.contains_key(&format!("new-{number}")) => {
                    world.fail(&format!("new-{number}"));
                }
                Happening::Vanish(number) => {
                    world.claims.remove(&format!("new-{number}"));
                }
                Happening::Delete(number) if world.claims.contains_key(&format!("old-{number}")) => {
                    world.fail(&format!("old-{number}"));
                }
                Happening::Lose(number) => {
                    world.tainted.remove(&format!("node-{number}"));
                }
                Happening::Wait(seconds) => now += seconds,
                Happening::LookAfter => {
                    world.look_after();
                }
                Happening::Fail(_) | Happening::Delete(_) => {}
            }
            world.advance(at(now), cut);
        }
        world.converge(at(now + 3600));
        prop_assert!(world.record.is_none());
        world.check_released();
    }
}

#[test]
fn the_node_pools_of_replacements_that_did_not_become_ready_are_known() {
    use TerminationReason::{InstanceMissing, InsufficientCapacity, Interrupted, RegistrationTimeout};
    let world = World::new(1, 1);
    let record = world.record().clone();
    let deadline = record.deadline.unwrap();
    let unready = |change: &dyn Fn(&mut NodeClaim), now: Timestamp| {
        let mut made = record.replacements[0].clone();
        change(&mut made);
        record.unready_node_pools(&BTreeMap::from([(made.name.clone(), made)]), now).into_iter().collect::<Vec<_>>()
    };
    let early = at(30);
    assert_eq!(unready(&|_| {}, deadline), ["default"]);
    assert!(unready(&|_| {}, early).is_empty(), "there is time left");
    assert!(unready(&|made| made.phase = Phase::Initialized, deadline).is_empty());
    assert!(unready(&|made| made.uid = "another".into(), deadline).is_empty());
    for (reason, counts) in
        [(RegistrationTimeout, true), (InstanceMissing, true), (InsufficientCapacity, false), (Interrupted, false)]
    {
        let ended = |made: &mut NodeClaim| {
            made.phase = Phase::Terminating;
            made.status.termination =
                Some(Termination { reason, message: String::new(), requested: early, deadline: None });
        };
        assert_eq!(unready(&ended, early).len(), usize::from(counts), "{reason:?}");
    }
}
