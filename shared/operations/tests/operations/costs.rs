//! Plans record the costs of nodes, and nothing depends on the records.

use crate::common::{Harness, running_cluster};
use jiff::{SignedDuration, Timestamp};
use nodeless_bill::{HourRecord, Open, decode};
use nodeless_model::labels::DOLLARS_PER_MONTH;
use nodeless_ports::ErrorKind;
use nodeless_state::costs::StoredCosts;
use serde_json::Value;

async fn open(harness: &Harness) -> Open {
    decode(&harness.claims.open_costs().await.unwrap().encoded).unwrap()
}

async fn hours(harness: &Harness) -> Vec<HourRecord> {
    let stored = harness.claims.hours(Timestamp::MIN, Timestamp::MAX).await.unwrap();
    stored.iter().map(|hour| decode(&hour.encoded).unwrap()).collect()
}

fn seconds(open: &Open, hours: &[HourRecord]) -> f64 {
    hours.iter().chain(&open.hours).map(HourRecord::seconds).sum()
}

fn lines(harness: &Harness, event: &str) -> Vec<Value> {
    harness.sink.take().into_iter().filter(|line| line["event"] == event).collect()
}

#[tokio::test]
async fn costs_are_recorded_every_five_minutes_and_by_the_hour() {
    let mut harness = running_cluster(2).await;
    let first = open(&harness).await;
    harness.sink.take();
    harness.minutes(70).await;
    let logged = lines(&harness, "costs-recorded");
    assert!((12..=16).contains(&logged.len()), "{}", logged.len());
    let last = logged.last().unwrap();
    assert_eq!((&last["nodePool"], &last["nodes"]), (&"default".into(), &2.into()), "{last}");
    for field in [
        "dollarsPerHour",
        "dollarsToday",
        "dollarsThisMonth",
        "dollarsThisMonthAtThisPace",
        "idleDollarsPerHour",
        "onDemandDollarsPerHour",
    ] {
        assert!(last[field].as_f64().is_some_and(|dollars| dollars > 0.0), "{field}: {last}");
    }
    let (now, closed) = (open(&harness).await, hours(&harness).await);
    assert!(!closed.is_empty() && closed.iter().all(|record| record.node_pool == "default"));
    assert!(closed[0].namespaces.contains_key("default") && closed[0].requested.cpu > 0.0, "{:?}", closed[0]);
    let of_two_nodes = now.through.duration_since(first.through).as_secs_f64() * 2.0;
    let recorded = seconds(&now, &closed) - seconds(&first, &[]);
    assert!((recorded - of_two_nodes).abs() < 2.0, "{recorded} and {of_two_nodes}");
    assert!(harness.clock.time().duration_since(now.through) <= SignedDuration::from_mins(6));
}

#[tokio::test]
async fn what_could_not_be_written_is_recorded_by_a_later_plan() {
    let mut harness = running_cluster(1).await;
    harness.minutes(6).await;
    let before = open(&harness).await;
    for broken in ["claims put costs", "claims open costs", "claims ended nodes"] {
        harness.faults.fail(broken, ErrorKind::Unavailable);
        harness.sink.take();
        harness.minutes(12).await;
        harness.planner().run().await.unwrap();
        let failed = lines(&harness, "failed");
        assert!(failed.iter().any(|line| line["what"] == "record what nodes cost"), "{broken}: {failed:?}");
        assert_eq!(open(&harness).await.through, before.through, "{broken}");
    }
    harness.faults.end_outages();
    harness.minutes(2).await;
    let (now, closed) = (open(&harness).await, hours(&harness).await);
    let recorded = seconds(&now, &closed) - seconds(&before, &[]);
    let elapsed = now.through.duration_since(before.through).as_secs_f64();
    assert!(elapsed > 36.0 * 60.0 && (recorded - elapsed).abs() < 2.0, "{recorded} and {elapsed}");
}

#[tokio::test]
async fn a_record_that_cannot_be_read_is_reported_and_stops_no_plan() {
    let mut harness = running_cluster(1).await;
    let stored = harness.claims.open_costs().await.unwrap();
    let damaged = StoredCosts { encoded: b"damaged".to_vec(), ..stored };
    harness.claims.put_costs(&damaged, &[]).await.unwrap();
    harness.restart();
    harness.sink.take();
    for _ in 0..3 {
        harness.planner().run().await.unwrap();
    }
    let failed = lines(&harness, "failed");
    assert_eq!(failed.len(), 1, "once in five minutes: {failed:?}");
    let why = failed[0]["why"].as_str().unwrap();
    assert!(why.starts_with("the item cost#open of the claims table cannot be read: it is damaged"), "{why}");
    assert_eq!(harness.claims.open_costs().await.unwrap().encoded, damaged.encoded, "nothing is written over it");
}

#[tokio::test]
async fn of_two_planners_at_once_one_records() {
    let mut harness = running_cluster(1).await;
    harness.minutes(1).await;
    let before = open(&harness).await;
    harness.clock.advance_to(before.through + SignedDuration::from_mins(6));
    harness.faults.meet_at("claims ended nodes", 2);
    let second = harness.cold_planner();
    let first = harness.cold_planner();
    let (one, other) = futures::join!(Box::pin(first.run()), Box::pin(second.run()));
    harness.faults.end_meeting();
    assert!(one.is_ok() && other.is_ok());
    let now = open(&harness).await;
    let recorded = seconds(&now, &hours(&harness).await) - seconds(&before, &[]);
    assert!((recorded - 360.0).abs() < 1.0, "once: {recorded}");
}

#[tokio::test]
async fn a_budget_warns_and_an_invalid_one_is_reported() {
    let mut harness = running_cluster(1).await;
    harness.cluster.annotate_cluster(DOLLARS_PER_MONTH, Some("1"));
    harness.cluster.annotate_node_pool(DOLLARS_PER_MONTH, "much");
    harness.sink.take();
    harness.minutes(6).await;
    let warned = lines(&harness, "budget-exceeded");
    assert!(!warned.is_empty() && warned.iter().all(|line| line["nodePool"].is_null()), "{warned:?}");
    assert!(warned[0]["dollarsThisMonthAtThisPace"].as_f64() > Some(1.0), "{}", warned[0]);
    let exceeded = harness.cluster.events_of("BudgetExceeded");
    assert_eq!(exceeded.len(), 1, "{exceeded:?}");
    assert_eq!((exceeded[0].object.kind.as_str(), exceeded[0].object.name.as_str()), ("Namespace", "kube-system"));
    let invalid = harness.cluster.events_of("BudgetInvalid");
    assert!(invalid.len() == 1 && invalid[0].object.kind == "NodePool", "{invalid:?}");
    assert_eq!(open(&harness).await.budgets.into_iter().collect::<Vec<_>>(), [(String::new(), 1.0)]);

    harness.cluster.annotate_cluster(DOLLARS_PER_MONTH, Some("1000000"));
    harness.minutes(6).await;
    harness.sink.take();
    harness.minutes(6).await;
    assert_eq!(lines(&harness, "budget-exceeded").len(), 0);
}
