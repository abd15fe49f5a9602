//! The churn breaker: what evicts and evicts, and saves nothing, stops.

use crate::common::{self, Harness, drift, has_new_hash};
use nodeless_disruption::churn;
use nodeless_model::labels;
use nodeless_ports::ErrorKind;
use nodeless_state::{RecordKind, StoredRecord};
use nodeless_telemetry::Metric;
use serde_json::json;

/// A cluster with one node for each pod, and a maximum of pods that may be evicted within an hour.
async fn running_cluster(pods: usize, most: &str) -> Harness {
    let harness = common::running_cluster(pods).await;
    harness.cluster.annotate_node_pool(labels::CHURN_EVICTIONS, most);
    harness
}

/// A running cluster whose nodes have replaced others, and have drifted again.
async fn drifting_again(pods: usize, most: &str) -> Harness {
    let mut harness = running_cluster(pods, most).await;
    drift(&harness);
    harness.minutes(15).await;
    assert_eq!((replaced(&harness).await, harness.cloud.launched(), alarms(&harness)), (pods, 2 * pods, 0));
    let changed = json!({ "changed": "again" });
    harness.cluster.patch_node_pool(json!({ "spec": { "template": { "metadata": { "annotations": changed } } } }));
    harness
}

async fn replaced(harness: &Harness) -> usize {
    let records = harness.records().await;
    records.iter().filter(|claim| has_new_hash(harness, claim)).count()
}

fn alarms(harness: &Harness) -> usize {
    let stopped = harness.cluster.events_of("DisruptionStopped").into_iter();
    stopped
        .filter(|event| event.is_warning() && event.object.kind == "NodePool" && event.object.name == "default")
        .count()
}

fn metered(harness: &Harness) -> bool {
    harness.sink.totals().get(Metric::ChurnStopped) == [1.0]
}

#[tokio::test]
async fn drift_stops_after_so_many_evictions_and_goes_on_when_the_hour_is_over() {
    let mut harness = drifting_again(3, "1").await;
    for _ in 0..40 {
        harness.minutes(1).await;
        // Whoever plans remembers nothing: what was done is in the table.
        harness.restart();
    }
    assert_eq!((replaced(&harness).await, harness.cloud.launched()), (2, 8), "the second makes two, more than one");
    assert!(harness.claims.commands().await.unwrap().is_empty());
    let report = harness.planner().run().await.unwrap();
    let why = "evicted 2 pods within an hour, more than 1, and its nodes cost no less";
    assert!(report.problems.iter().any(|problem| problem.contains(why)), "{:?}", report.problems);
    assert!(report.kept.iter().any(|kept| kept.reasons.iter().any(|reason| reason.to_string().contains(why))));
    assert!(alarms(&harness) > 0 && metered(&harness));
    harness.minutes(50).await;
    assert_eq!(replaced(&harness).await, 3, "an hour later it continues");
    assert_eq!(harness.cluster.bound(), 3);
}

#[tokio::test]
async fn replacing_what_was_changed_on_purpose_is_no_churn() {
    let mut harness = drifting_again(3, "1").await;
    let later = harness.clock.time().checked_add(std::time::Duration::from_secs(3600)).unwrap();
    harness.clock.advance_to(later);
    harness.minutes(20).await;
    assert_eq!((replaced(&harness).await, alarms(&harness)), (3, 0));
}

#[tokio::test]
async fn a_breaker_of_zero_is_none() {
    let mut harness = drifting_again(3, "0").await;
    harness.minutes(20).await;
    assert_eq!((replaced(&harness).await, alarms(&harness)), (3, 0));
}

#[tokio::test]
async fn a_falling_price_justifies_evictions() {
    let mut harness = running_cluster(3, "1").await;
    let policy = "WhenEmptyOrUnderutilized";
    harness.cluster.patch_node_pool(json!({ "spec": { "disruption": { "consolidationPolicy": policy } } }));
    harness.cluster.replace_pods(1100);
    harness.minutes(20).await;
    assert_eq!((harness.cloud.alive().len(), harness.cluster.bound(), alarms(&harness)), (1, 3, 0));
}

#[tokio::test]
async fn nothing_is_disrupted_while_past_disruption_is_unknown() {
    let mut harness = drifting_again(1, "1").await;
    harness.faults.fail("claims churn", ErrorKind::Unavailable);
    harness.minutes(3).await;
    assert_eq!(harness.cloud.launched(), 2);
    let report = harness.planner().run().await.unwrap();
    assert!(
        report.problems[0].contains("the number of pods evicted within the last hour cannot be read"),
        "{:?}",
        report.problems
    );
    harness.faults.end_outages();
    let damaged = StoredRecord {
        node_pool: "default".into(),
        version: 0,
        encoded: "of another version".into(),
        expires: Some(harness.clock.time()),
    };
    harness.claims.put_record(RecordKind::Churn, &damaged).await.unwrap();
    harness.minutes(3).await;
    assert_eq!(harness.cloud.launched(), 2);
    let report = harness.planner().run().await.unwrap();
    assert!(report.problems[0].contains("churn#default"), "{:?}", report.problems);
    // A command whose evictions cannot be recorded is not carried out.
    let whole = StoredRecord { version: 1, encoded: r#"{"entries":[]}"#.into(), ..damaged };
    harness.claims.put_record(RecordKind::Churn, &whole).await.unwrap();
    harness.faults.fail("claims put churn", ErrorKind::Throttled);
    harness.minutes(3).await;
    assert_eq!(harness.cloud.launched(), 2);
    harness.faults.end_outages();
    harness.minutes(8).await;
    assert_eq!((replaced(&harness).await, harness.cloud.launched()), (1, 3));
    // The command is recorded once, however often it was tried.
    let [stored] = &harness.claims.records(RecordKind::Churn).await.unwrap()[..] else { panic!("one") };
    let noted: churn::Churn = serde_json::from_str(&stored.encoded).unwrap();
    assert_eq!(noted.entries.iter().map(|entry| entry.evictions).collect::<Vec<_>>(), [1]);
}
