//! NodePools whose machines do not join report it.

use crate::common::{Harness, pod};
use nodeless_api::{Condition, ConditionStatus};
use nodeless_lifecycle::RegistrationHealth;
use nodeless_ports::ErrorKind;
use nodeless_state::{RecordKind, StoredRecord};
use nodeless_world::resources::{NODE_CLASSES, NODE_POOLS};
use serde_json::json;
use std::time::Duration;

const KIND: &str = "NodeRegistrationHealthy";

/// The condition of the NodePool `default`.
fn condition(harness: &Harness) -> Condition {
    let status = harness.cluster.node_pool_status("default");
    assert_eq!(status.node_class_observed_generation, harness.cluster.node_class().metadata.generation);
    let found = status.conditions.into_iter().find(|condition| condition.type_ == KIND).unwrap();
    assert_eq!(found.observed_generation, Some(harness.cluster.node_pool().generation));
    found
}

fn health(harness: &Harness) -> ConditionStatus {
    condition(harness).status
}

/// A cluster in which a number of pods need a node each, and no machine joins.
async fn silent_cluster(pods: usize) -> Harness {
    let mut harness = Harness::new().await;
    harness.cloud.spoil_joins(100);
    harness.cluster.add_pods((0..pods).map(|number| pod(&format!("web-{number}"), 3000)));
    harness.queue_wake().await;
    harness
}

/// The messages of the events about changes of the condition, as in Karpenter.
fn reported(harness: &Harness) -> Vec<String> {
    let about = harness.cluster.events_of(KIND).into_iter().filter(|event| event.object.kind == "NodePool");
    about.map(|event| event.message).collect()
}

#[tokio::test]
async fn two_machines_that_never_join_make_a_nodepool_unhealthy_and_three_that_join_make_it_healthy() {
    let mut harness = silent_cluster(1).await;
    harness.minutes(14).await;
    assert_eq!(health(&harness), ConditionStatus::Unknown);
    harness.minutes(5).await;
    assert_eq!((harness.cloud.launched(), health(&harness)), (2, ConditionStatus::Unknown), "one is not enough");
    harness.minutes(15).await;
    let failed = condition(&harness);
    assert_eq!(failed.status, ConditionStatus::False);
    assert_eq!((failed.reason.as_str(), failed.message.as_str()), ("RegistrationFailed", "Failed to register node"));
    let text = "Unknown -> False, Reason: RegistrationFailed, Message: Failed to register node";
    assert!(matches!(&reported(&harness)[..], [one] if one.ends_with(text)), "{:?}", reported(&harness));
    // The condition is informational: the NodePool still launches.
    assert_eq!(harness.cloud.launched(), 3);
    harness.repair_joins();
    for (pods, expected) in [(1, ConditionStatus::False), (2, ConditionStatus::False), (3, ConditionStatus::True)] {
        if pods > 1 {
            harness.cluster.add_pods([pod(&format!("more-{pods}"), 3000)]);
            harness.queue_wake().await;
        }
        harness.until("it joins", |harness| harness.cluster.bound() == pods).await;
        harness.minutes(2).await;
        assert_eq!(health(&harness), expected, "after {pods} that joined");
        harness.restart();
    }
    assert_eq!(reported(&harness).len(), 2);
}

#[tokio::test]
async fn a_machine_that_joins_makes_a_nodepool_healthy() {
    let mut harness = crate::common::running_cluster(1).await;
    harness.minutes(2).await;
    assert_eq!(health(&harness), ConditionStatus::True);
    let version =
        |harness: &Harness| harness.cluster.get(&NODE_POOLS, "default")["metadata"]["resourceVersion"].clone();
    let before = version(&harness);
    harness.minutes(5).await;
    assert_eq!(version(&harness), before, "and then nothing changes");
}

#[tokio::test]
async fn launches_that_ec2_rejects_are_failures_with_the_message_of_ec2() {
    let mut harness = Harness::new().await;
    harness.faults.fail("cloud launch", ErrorKind::Denied);
    harness.cluster.add_pods([pod("a", 3000), pod("b", 3000)]);
    harness.queue_wake().await;
    harness.minutes(9).await;
    let failed = condition(&harness);
    assert_eq!(failed.status, ConditionStatus::False, "{failed:?}");
    assert_eq!(failed.reason, "LaunchFailed");
    assert!(failed.message.contains("cloud launch was denied"), "{failed:?}");
}

#[tokio::test]
async fn a_change_of_the_nodepool_or_its_class_begins_anew() {
    let mut harness = silent_cluster(2).await;
    harness.minutes(18).await;
    assert_eq!(health(&harness), ConditionStatus::False);
    harness.cluster.patch_node_pool(json!({ "spec": { "weight": 2 } }));
    harness.minutes(1).await;
    assert_eq!(health(&harness), ConditionStatus::Unknown);
    // Launches from before the change do not count for the changed NodePool.
    assert_eq!(harness.cloud.launched(), 4);
    harness.minutes(16).await;
    assert_eq!((harness.cloud.launched(), health(&harness)), (6, ConditionStatus::Unknown));
    harness.minutes(16).await;
    assert_eq!(health(&harness), ConditionStatus::False, "but those that followed do");
    harness.cluster.patch(&NODE_CLASSES, "default", json!({ "spec": { "detailedMonitoring": true } }));
    harness.cluster.change_status(&NODE_CLASSES, "default", |status| {
        status["conditions"][0]["observedGeneration"] = json!(2);
    });
    harness.minutes(1).await;
    assert_eq!(health(&harness), ConditionStatus::Unknown);
}

#[tokio::test]
async fn the_condition_of_karpenter_holds_until_there_are_results() {
    let harness = Harness::new().await;
    let stated = |generation: i64| {
        json!({
            "nodeClassObservedGeneration": 1,
            "conditions": [{ "type": KIND, "status": "False", "reason": "RegistrationFailed", "message": "as Karpenter reports",
                "lastTransitionTime": "2026-01-01T00:00:00Z", "observedGeneration": generation }],
        })
    };
    harness.cluster.patch_node_pool(json!({ "spec": { "weight": 2 } }));
    harness.cluster.patch_status(&NODE_POOLS, "default", stated(2));
    harness.planner().run().await.unwrap();
    let kept = condition(&harness);
    assert_eq!((kept.status, kept.message.as_str()), (ConditionStatus::False, "as Karpenter reports"));
    assert_eq!(kept.last_transition_time.0.to_string(), "2026-01-01T00:00:00Z");
    // A condition about an older template is not kept.
    let harness = Harness::new().await;
    harness.cluster.patch_node_pool(json!({ "spec": { "weight": 2 } }));
    harness.cluster.patch_status(&NODE_POOLS, "default", stated(1));
    harness.planner().run().await.unwrap();
    assert_eq!(health(&harness), ConditionStatus::Unknown);
}

#[tokio::test]
async fn a_result_that_cannot_be_written_is_not_forgotten_and_counts_once() {
    let mut harness = silent_cluster(1).await;
    harness.minutes(14).await;
    harness.faults.fail("claims put registrations", ErrorKind::Unavailable);
    harness.minutes(3).await;
    let claim = harness.records().await.remove(0);
    assert!(!claim.phase.is_leaving(), "its step waits");
    harness.faults.end_outages();
    harness.minutes(2).await;
    assert_eq!(harness.cloud.launched(), 2);
    assert_eq!(health(&harness), ConditionStatus::Unknown);
    let stored = harness.claims.record(RecordKind::Registrations, "default").await.unwrap().unwrap();
    assert_eq!(stored.encoded.matches("RegistrationFailed").count(), 1, "{}", stored.encoded);
}

#[tokio::test]
async fn a_process_that_dies_after_the_note_counts_no_claim_twice() {
    // Killed at each of the first writes of the run that gives the claim up: before it is done, and right after.
    for (write, done) in [(0, false), (0, true), (1, false), (1, true)] {
        let mut harness = silent_cluster(1).await;
        harness.minutes(14).await;
        let late = harness.clock.time().checked_add(Duration::from_secs(120)).unwrap();
        harness.clock.advance_to(late);
        harness.faults.take_writes();
        harness.faults.kill_at(write, done);
        let name = harness.records().await.remove(0).name;
        let result = harness.process(async |harness| harness.reconciler().run(&name).await).await;
        assert!(result.is_none(), "{write} {done}: {result:?}");
        harness.minutes(3).await;
        let stored = harness.claims.record(RecordKind::Registrations, "default").await.unwrap().unwrap();
        assert_eq!(stored.encoded.matches("RegistrationFailed").count(), 1, "{write} {done}: {}", stored.encoded);
        assert_eq!(health(&harness), ConditionStatus::Unknown);
    }
}

#[tokio::test]
async fn what_cannot_be_read_changes_nothing_and_what_is_damaged_is_begun_anew() {
    let mut harness = silent_cluster(2).await;
    harness.minutes(18).await;
    let before = condition(&harness);
    assert_eq!(before.status, ConditionStatus::False);
    harness.faults.fail("claims registrations", ErrorKind::Unavailable);
    harness.restart();
    let report = harness.planner().run().await.unwrap();
    assert!(
        report.problems.iter().any(|why| why.contains("unknown whether the nodes of NodePools register")),
        "{report:?}"
    );
    assert_eq!(condition(&harness), before);
    harness.faults.end_outages();
    let stored = harness.claims.record(RecordKind::Registrations, "default").await.unwrap().unwrap();
    let damaged = StoredRecord { encoded: "of another version".into(), ..stored };
    harness.claims.put_record(RecordKind::Registrations, &damaged).await.unwrap();
    let report = harness.planner().run().await.unwrap();
    assert!(report.problems.iter().any(|why| why.contains("registrations#default")), "{report:?}");
    assert_eq!(condition(&harness), before, "the condition itself states as much");
    let stored = harness.claims.record(RecordKind::Registrations, "default").await.unwrap().unwrap();
    assert!(serde_json::from_str::<RegistrationHealth>(&stored.encoded).is_ok());
}
