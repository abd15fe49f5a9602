//! The churn breaker: what evicts and evicts, and saves nothing, stops.
#![allow(clippy::unwrap_used)]

mod common;

use common::{Town, pod};
use nodeless_disruption::churn;
use nodeless_model::{ConsolidationPolicy, Quantity, labels};
use nodeless_ports::{ErrorKind, Plans, RecordKind, Records, StoredRecord};
use nodeless_telemetry::Metric;

/// A town with one node for each pod, where so many pods may be evicted within an hour.
async fn running_town(pods: usize, most: &str) -> Town {
    let mut town = Town::new().await;
    town.cluster.lock().respawn = true;
    town.cluster.add_pods((0..pods).map(|number| pod(&format!("web-{number}"), 3000)));
    town.queue_wake().await;
    town.until("pods run", |town| town.cluster.bound() == pods).await;
    town.minutes(2).await;
    town.cluster.lock().pools[0].disruption.annotations.insert(churn::EVICTIONS.into(), most.into());
    town
}

/// The NodePool changes, so that every node that was made before drifts.
fn drift(town: &Town) {
    town.cluster.lock().pools[0].hash = "changed".into();
}

async fn replaced(town: &Town) -> usize {
    let records = town.records().await;
    records.iter().filter(|claim| claim.spec.annotations[labels::NODE_POOL_HASH] == "changed").count()
}

fn alarms(town: &Town) -> usize {
    let state = town.cluster.lock();
    let stopped = state.events.iter().filter(|event| event.reason == "DisruptionStopped");
    stopped
        .filter(|event| event.is_warning() && event.object.kind == "NodePool" && event.object.name == "default")
        .count()
}

fn metered(town: &Town) -> bool {
    town.sink.totals().get(Metric::ChurnStopped) == [1.0]
}

#[tokio::test]
async fn drift_stops_after_so_many_evictions_and_goes_on_when_the_hour_is_over() {
    let mut town = running_town(3, "1").await;
    drift(&town);
    for _ in 0..40 {
        town.minutes(1).await;
        // Whoever plans remembers nothing: what was done is in the table.
        town.restart();
    }
    assert_eq!((replaced(&town).await, town.cloud.launched()), (2, 5), "the second makes two, more than one");
    assert!(town.claims.commands().await.unwrap().is_empty());
    let report = town.planner().run().await.unwrap();
    let why = "evicted 2 pods within an hour, more than 1, and its nodes cost no less";
    assert!(report.problems.iter().any(|problem| problem.contains(why)), "{:?}", report.problems);
    assert!(report.kept.iter().any(|kept| kept.reasons.iter().any(|reason| reason.to_string().contains(why))));
    assert!(alarms(&town) > 0 && metered(&town));
    town.minutes(50).await;
    assert_eq!(replaced(&town).await, 3, "an hour later it goes on");
    assert_eq!(town.cluster.bound(), 3);
}

#[tokio::test]
async fn replacing_what_was_changed_on_purpose_is_no_churn() {
    let mut town = running_town(3, "1").await;
    let later = town.clock.time().checked_add(std::time::Duration::from_secs(3600)).unwrap();
    town.clock.advance_to(later);
    town.minutes(1).await;
    drift(&town);
    town.minutes(20).await;
    assert_eq!((replaced(&town).await, alarms(&town)), (3, 0));
}

#[tokio::test]
async fn a_breaker_of_zero_is_none() {
    let mut town = running_town(3, "0").await;
    drift(&town);
    town.minutes(20).await;
    assert_eq!((replaced(&town).await, alarms(&town)), (3, 0));
}

#[tokio::test]
async fn a_falling_price_justifies_evictions() {
    let mut town = running_town(3, "1").await;
    {
        let mut state = town.cluster.lock();
        state.pools[0].disruption.consolidation_policy = ConsolidationPolicy::WhenEmptyOrUnderutilized;
        for pod in state.pods.values_mut() {
            pod.requests.set("cpu", Quantity::from_milli(1100));
        }
    }
    town.minutes(20).await;
    assert_eq!((town.cloud.alive().len(), town.cluster.bound(), alarms(&town)), (1, 3, 0));
}

#[tokio::test]
async fn nothing_is_disrupted_while_nobody_knows_what_was() {
    let mut town = running_town(1, "1").await;
    drift(&town);
    town.faults.fail("claims churn", ErrorKind::Unavailable);
    town.minutes(3).await;
    assert_eq!(town.cloud.launched(), 1);
    let report = town.planner().run().await.unwrap();
    assert!(
        report.problems[0].contains("the number of pods evicted within the last hour cannot be read"),
        "{:?}",
        report.problems
    );
    town.faults.end_outages();
    let damaged = StoredRecord {
        node_pool: "default".into(),
        version: 0,
        encoded: "of another version".into(),
        expires: Some(town.clock.time()),
    };
    town.claims.put_record(RecordKind::Churn, &damaged).await.unwrap();
    town.minutes(3).await;
    assert_eq!(town.cloud.launched(), 1);
    let report = town.planner().run().await.unwrap();
    assert!(report.problems[0].contains("churn#default"), "{:?}", report.problems);
    // One that cannot be noted is not carried out.
    let whole = StoredRecord { version: 1, encoded: r#"{"entries":[]}"#.into(), ..damaged };
    town.claims.put_record(RecordKind::Churn, &whole).await.unwrap();
    town.faults.fail("claims put churn", ErrorKind::Throttled);
    town.minutes(3).await;
    assert_eq!(town.cloud.launched(), 1);
    town.faults.end_outages();
    town.minutes(8).await;
    assert_eq!((replaced(&town).await, town.cloud.launched()), (1, 2));
    // It is noted once, however often it was tried.
    let [stored] = &town.claims.records(RecordKind::Churn).await.unwrap()[..] else { panic!("one") };
    let noted: churn::Churn = serde_json::from_str(&stored.encoded).unwrap();
    assert_eq!(noted.entries.iter().map(|entry| entry.evictions).collect::<Vec<_>>(), [1]);
}
