//! NodePools whose machines do not join report it.
#![allow(clippy::unwrap_used)]

mod common;

use common::{Town, pod};
use nodeless_api::{Condition, ConditionStatus};
use nodeless_lifecycle::RegistrationHealth;
use nodeless_ports::{ErrorKind, RecordKind, Records, StoredRecord};
use std::time::Duration;

const KIND: &str = "NodeRegistrationHealthy";

/// The condition of the NodePool `default`.
fn condition(town: &Town) -> Condition {
    let state = town.cluster.lock();
    let status = &state.pool_statuses["default"];
    assert_eq!(status.node_class_observed_generation, state.classes["default"].metadata.generation);
    let found = status.conditions.iter().find(|condition| condition.type_ == KIND).unwrap();
    assert_eq!(found.observed_generation, Some(state.pools[0].generation));
    found.clone()
}

fn health(town: &Town) -> ConditionStatus {
    condition(town).status
}

fn mute(town: &Town, instances: std::ops::Range<u32>) {
    town.cluster.lock().mute.extend(instances.map(|number| format!("i-{number:04}")));
}

/// A town in which so many pods want a node each, and no machine joins.
async fn silent_town(pods: usize) -> Town {
    let mut town = Town::new().await;
    mute(&town, 0..100);
    town.cluster.add_pods((0..pods).map(|number| pod(&format!("web-{number}"), 3000)));
    town.queue_wake().await;
    town
}

/// What Karpenter states about a change of the condition, of each.
fn reported(town: &Town) -> Vec<String> {
    let state = town.cluster.lock();
    let about = state.events.iter().filter(|event| event.reason == KIND && event.object.kind == "NodePool");
    about.map(|event| event.message.clone()).collect()
}

#[tokio::test]
async fn two_machines_that_never_join_make_a_nodepool_unhealthy_and_three_that_do_mend_it() {
    let mut town = silent_town(1).await;
    town.minutes(14).await;
    assert_eq!(health(&town), ConditionStatus::Unknown);
    town.minutes(5).await;
    assert_eq!((town.cloud.launched(), health(&town)), (2, ConditionStatus::Unknown), "one is not enough");
    town.minutes(15).await;
    let failed = condition(&town);
    assert_eq!(failed.status, ConditionStatus::False);
    assert_eq!((failed.reason.as_str(), failed.message.as_str()), ("RegistrationFailed", "Failed to register node"));
    let text = "Unknown -> False, Reason: RegistrationFailed, Message: Failed to register node";
    assert!(matches!(&reported(&town)[..], [one] if one.ends_with(text)), "{:?}", reported(&town));
    // What is known is informational: the NodePool launches on.
    assert_eq!(town.cloud.launched(), 3);
    town.cluster.lock().mute.clear();
    for (pods, expected) in [(1, ConditionStatus::False), (2, ConditionStatus::False), (3, ConditionStatus::True)] {
        if pods > 1 {
            town.cluster.add_pods([pod(&format!("more-{pods}"), 3000)]);
            town.queue_wake().await;
        }
        town.until("it joins", |town| town.cluster.bound() == pods).await;
        town.minutes(2).await;
        assert_eq!(health(&town), expected, "after {pods} that joined");
        town.restart();
    }
    assert_eq!(reported(&town).len(), 2);
}

#[tokio::test]
async fn a_machine_that_joins_makes_a_nodepool_healthy() {
    let mut town = common::running_town(1).await;
    town.minutes(2).await;
    assert_eq!(health(&town), ConditionStatus::True);
    let writes = town.cluster.lock().status_writes;
    town.minutes(5).await;
    assert_eq!(town.cluster.lock().status_writes, writes, "and then nothing changes");
}

#[tokio::test]
async fn machines_that_ec2_refuses_to_launch_are_failures_with_what_ec2_said() {
    let mut town = Town::new().await;
    town.faults.fail("cloud launch", ErrorKind::Denied);
    town.cluster.add_pods([pod("a", 3000), pod("b", 3000)]);
    town.queue_wake().await;
    town.minutes(9).await;
    let failed = condition(&town);
    assert_eq!(failed.status, ConditionStatus::False, "{failed:?}");
    assert_eq!(failed.reason, "LaunchFailed");
    assert!(failed.message.contains("cloud launch was denied"), "{failed:?}");
}

#[tokio::test]
async fn a_change_of_the_nodepool_or_its_class_begins_anew() {
    let mut town = silent_town(2).await;
    town.minutes(18).await;
    assert_eq!(health(&town), ConditionStatus::False);
    town.cluster.lock().pools[0].generation += 1;
    town.minutes(1).await;
    assert_eq!(health(&town), ConditionStatus::Unknown);
    // Those that are awaited since before the change report nothing of what it is now.
    assert_eq!(town.cloud.launched(), 4);
    town.minutes(16).await;
    assert_eq!((town.cloud.launched(), health(&town)), (6, ConditionStatus::Unknown));
    town.minutes(16).await;
    assert_eq!(health(&town), ConditionStatus::False, "but those that followed do");
    town.cluster.lock().classes.get_mut("default").unwrap().metadata.generation = Some(2);
    {
        let mut state = town.cluster.lock();
        let class = state.classes.get_mut("default").unwrap();
        class.status.as_mut().unwrap().conditions[0].observed_generation = Some(2);
    }
    town.minutes(1).await;
    assert_eq!(health(&town), ConditionStatus::Unknown);
}

#[tokio::test]
async fn what_karpenter_said_holds_until_more_is_known() {
    let town = Town::new().await;
    let stated = |generation: i64| {
        serde_json::from_value(serde_json::json!({
            "nodeClassObservedGeneration": 1,
            "conditions": [{ "type": KIND, "status": "False", "reason": "RegistrationFailed", "message": "as Karpenter reports",
                "lastTransitionTime": "2026-01-01T00:00:00Z", "observedGeneration": generation }],
        }))
        .unwrap()
    };
    town.cluster.lock().pools[0].generation = 7;
    town.cluster.lock().pool_statuses.insert("default".into(), stated(7));
    town.planner().run().await.unwrap();
    let kept = condition(&town);
    assert_eq!((kept.status, kept.message.as_str()), (ConditionStatus::False, "as Karpenter reports"));
    assert_eq!(kept.last_transition_time.0.to_string(), "2026-01-01T00:00:00Z");
    // What it reported about an older template it did not state about this one.
    let town = Town::new().await;
    town.cluster.lock().pools[0].generation = 7;
    town.cluster.lock().pool_statuses.insert("default".into(), stated(6));
    town.planner().run().await.unwrap();
    assert_eq!(health(&town), ConditionStatus::Unknown);
}

#[tokio::test]
async fn a_result_that_cannot_be_written_is_not_forgotten_and_counts_once() {
    let mut town = silent_town(1).await;
    town.minutes(14).await;
    town.faults.fail("claims put registrations", ErrorKind::Unavailable);
    town.minutes(3).await;
    let claim = town.records().await.remove(0);
    assert!(!claim.phase.is_leaving(), "its step waits");
    town.faults.end_outages();
    town.minutes(2).await;
    assert_eq!(town.cloud.launched(), 2);
    assert_eq!(health(&town), ConditionStatus::Unknown);
    let stored = town.claims.record(RecordKind::Registrations, "default").await.unwrap().unwrap();
    assert_eq!(stored.encoded.matches("RegistrationFailed").count(), 1, "{}", stored.encoded);
}

#[tokio::test]
async fn a_process_that_dies_after_the_note_counts_no_claim_twice() {
    // Killed at each of the first writes of the run that gives the claim up: before it is done, and right after.
    for (write, done) in [(0, false), (0, true), (1, false), (1, true)] {
        let mut town = silent_town(1).await;
        town.minutes(14).await;
        let late = town.clock.time().checked_add(Duration::from_secs(120)).unwrap();
        town.clock.advance_to(late);
        town.faults.take_writes();
        town.faults.kill_at(write, done);
        let name = town.records().await.remove(0).name;
        let result = town.process(async |town| town.reconciler().run(&name).await).await;
        assert!(result.is_none(), "{write} {done}: {result:?}");
        town.minutes(3).await;
        let stored = town.claims.record(RecordKind::Registrations, "default").await.unwrap().unwrap();
        assert_eq!(stored.encoded.matches("RegistrationFailed").count(), 1, "{write} {done}: {}", stored.encoded);
        assert_eq!(health(&town), ConditionStatus::Unknown);
    }
}

#[tokio::test]
async fn what_cannot_be_read_changes_nothing_and_what_is_damaged_is_begun_anew() {
    let mut town = silent_town(2).await;
    town.minutes(18).await;
    let before = condition(&town);
    assert_eq!(before.status, ConditionStatus::False);
    town.faults.fail("claims registrations", ErrorKind::Unavailable);
    town.restart();
    let report = town.planner().run().await.unwrap();
    assert!(report.problems.iter().any(|why| why.contains("nodes of NodePools join is not known")), "{report:?}");
    assert_eq!(condition(&town), before);
    town.faults.end_outages();
    let stored = town.claims.record(RecordKind::Registrations, "default").await.unwrap().unwrap();
    let damaged = StoredRecord { encoded: "of another version".into(), ..stored };
    town.claims.put_record(RecordKind::Registrations, &damaged).await.unwrap();
    let report = town.planner().run().await.unwrap();
    assert!(report.problems.iter().any(|why| why.contains("registrations#default")), "{report:?}");
    assert_eq!(condition(&town), before, "the condition itself states as much");
    let stored = town.claims.record(RecordKind::Registrations, "default").await.unwrap().unwrap();
    assert!(serde_json::from_str::<RegistrationHealth>(&stored.encoded).is_ok());
}
