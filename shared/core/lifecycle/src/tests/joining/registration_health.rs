use crate::registration_health::{Described, HealthStatus, Registration, RegistrationHealth};
use crate::tests::*;
use crate::{Observation, begin_termination, step};
use nodeless_model::claim::TerminationReason;
use proptest::prelude::*;

fn described(node_pool: i64, node_class: i64) -> Described {
    Described { node_pool_uid: "pool".into(), node_pool, node_class }
}

fn made(uid: &str, created: i64) -> NodeClaim {
    NodeClaim { uid: uid.into(), created: at(created), ..reserved() }
}

fn failed(message: &str) -> Registration {
    Registration::Failed { reason: "RegistrationFailed".into(), message: message.into() }
}

fn unhealthy(message: &str) -> HealthStatus {
    HealthStatus::Unhealthy { reason: "RegistrationFailed".into(), message: message.into() }
}

/// The status after each of some results, `x` for one that failed.
fn health_after(results: &str) -> Vec<HealthStatus> {
    let mut health = RegistrationHealth::unknown(described(1, 1));
    let one = |(index, result): (usize, char)| {
        let came_to = if result == 'x' { failed("late") } else { Registration::Joined };
        let _ = health.push(&made(&format!("claim-{index}"), 0), came_to);
        health.status()
    };
    results.chars().enumerate().map(one).collect()
}

#[test]
fn two_failures_of_the_last_four_are_too_many() {
    use HealthStatus::{Healthy, Unknown};
    let bad = || unhealthy("late");
    assert_eq!(RegistrationHealth::unknown(described(1, 1)).status(), Unknown);
    assert_eq!(health_after("xx"), [Unknown, bad()]);
    assert_eq!(health_after("oxx"), [Healthy, Healthy, bad()]);
    // A failure is forgotten when four others have followed it.
    assert_eq!(health_after("xxoooxo"), [Unknown, bad(), bad(), bad(), Healthy, Healthy, Healthy]);
    assert_eq!(health_after("oooooxoox")[5..], [Healthy, Healthy, Healthy, bad()]);
}

#[test]
fn each_claim_counts_once_with_its_last_result() {
    let mut health = RegistrationHealth::unknown(described(1, 1));
    assert!(health.push(&made("a", 0), failed("late")));
    assert!(!health.push(&made("a", 0), failed("late")), "a process that died reports it again");
    assert_eq!(health.status(), HealthStatus::Unknown);
    assert!(health.push(&made("a", 0), Registration::Joined), "it came at the last moment after all");
    assert_eq!(health.status(), HealthStatus::Healthy);
    assert!(health.push(&made("b", 0), failed("b")) && health.push(&made("c", 0), failed("c")));
    assert_eq!(health.status(), unhealthy("c"), "the latest explains why");
}

#[test]
fn what_joins_where_all_join_is_not_written() {
    let mut health = RegistrationHealth::unknown(described(1, 1));
    let writes = (0..100).filter(|number| health.push(&made(&number.to_string(), 0), Registration::Joined));
    assert_eq!(writes.count(), 4);
}

#[test]
fn a_change_of_either_object_begins_anew_and_older_claims_do_not_count() {
    for changed in [described(2, 1), described(1, 2), Described { node_pool_uid: "another".into(), ..described(1, 1) }]
    {
        let mut health = RegistrationHealth::taken_over(described(1, 1), unhealthy("no"));
        assert_eq!(health.status(), unhealthy("no"));
        health = health.about(described(1, 1), at(50));
        assert_eq!(health.status(), unhealthy("no"), "nothing has changed");
        health = health.about(changed.clone(), at(100)).about(changed.clone(), at(200));
        assert_eq!(health.status(), HealthStatus::Unknown);
        assert!(!health.push(&made("old", 99), failed("")), "{changed:?}");
        assert!(health.push(&made("new", 100), Registration::Joined));
        assert_eq!(health.status(), HealthStatus::Healthy);
        let json = serde_json::to_string(&health).unwrap();
        assert_eq!(serde_json::from_str::<RegistrationHealth>(&json).unwrap(), health);
    }
}

#[test]
fn what_was_taken_over_is_counted_alike_and_outlived() {
    for status in [HealthStatus::Unknown, HealthStatus::Healthy, unhealthy("no")] {
        assert_eq!(RegistrationHealth::taken_over(described(1, 1), status.clone()).status(), status);
    }
    let mut health = RegistrationHealth::taken_over(described(1, 1), unhealthy("no"));
    for (uid, healthy) in [("a", false), ("b", false), ("c", true)] {
        assert!(health.push(&made(uid, 0), Registration::Joined));
        assert_eq!(health.status() == HealthStatus::Healthy, healthy, "{uid}");
    }
}

#[test]
fn only_steps_that_join_or_give_up_are_counted() {
    let up = claim(Phase::Launched);
    let joined = NodeClaim { phase: Phase::Registered, ..up.clone() };
    assert_eq!(Registration::new(&up, &joined), Some(Registration::Joined));
    let initialized = NodeClaim { phase: Phase::Initialized, ..up.clone() };
    assert_eq!(Registration::new(&up, &initialized), Some(Registration::Joined), "both at one look");
    assert_eq!(Registration::new(&joined, &joined), None);
    // Adopted, or on to being initialised.
    assert_eq!(Registration::new(&joined, &NodeClaim { phase: Phase::Initialized, ..joined.clone() }), None);
    let leaving = |before: &NodeClaim, reason| {
        let mut after = before.clone();
        assert!(begin_termination(&mut after, reason, "", at(1)));
        (
            Registration::new(before, &after),
            Registration::new(&after, &NodeClaim { phase: Phase::Gone, ..after.clone() }),
        )
    };
    assert_eq!(leaving(&up, TerminationReason::RegistrationTimeout), (Some(failed("Failed to register node")), None));
    let mut refused = reserved();
    refused.set_condition(condition::LAUNCHED, ConditionStatus::False, "UnauthorizedOperation", "may not", at(1));
    let why = Registration::Failed { reason: "UnauthorizedOperation".into(), message: "may not".into() };
    assert_eq!(leaving(&refused, TerminationReason::LaunchTimeout), (Some(why), None));
    for reason in [TerminationReason::InsufficientCapacity, TerminationReason::Deleted, TerminationReason::Interrupted]
    {
        assert_eq!(leaving(&up, reason), (None, None));
    }
}

#[test]
fn a_node_that_never_comes_is_a_failure_by_the_step_itself() {
    let up = claim(Phase::Launched);
    let seen = Observation { nodes: Seen::Known(Vec::new()), ..Observation::default() };
    let next = step(&up, &seen, at(2000), &settings()).claim;
    assert_eq!(Registration::new(&up, &next), Some(failed("Failed to register node")));
}

proptest! {
    /// However often results are repeated while they are remembered, they count as if each was stated once.
    #[test]
    fn repeating_changes_nothing(results in prop::collection::vec((any::<bool>(), 0_usize..3), 0..12)) {
        let (mut once, mut often) = (RegistrationHealth::unknown(described(1, 1)), RegistrationHealth::unknown(described(1, 1)));
        for (index, (joins, again)) in results.iter().enumerate() {
            let came_to = || if *joins { Registration::Joined } else { failed(&index.to_string()) };
            let subject = made(&index.to_string(), 0);
            let _ = once.push(&subject, came_to());
            for _ in 0..=*again {
                let _ = often.push(&subject, came_to());
            }
            prop_assert_eq!(&once, &often);
        }
    }
}
