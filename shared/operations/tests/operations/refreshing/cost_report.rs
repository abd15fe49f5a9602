//! The weekly report of costs is sent once for each event of the schedule.

use crate::common::{Harness, running_cluster};
use jiff::{SignedDuration, Timestamp};
use nodeless_bill::{Open, decode, encode};
use nodeless_ports::ErrorKind;
use nodeless_refresher::{CostReportError, CostReporter};
use nodeless_state::costs::StoredCosts;
use nodeless_world::fault_injection::FaultyTopic;
use nodeless_world::memory::MemoryTopic;
use serde_json::json;
use std::sync::Arc;

fn reporter(harness: &Harness, topic: &MemoryTopic) -> CostReporter {
    let (inner, fault_injection) = (Arc::new(topic.clone()), harness.faults.clone());
    let topic = Arc::new(FaultyTopic { inner, fault_injection });
    CostReporter { context: harness.context(), claims: harness.ports.claims.clone(), topic }
}

/// A cluster whose nodes have run for two hours, its topic, and the time of an event of the schedule.
async fn recorded() -> (Harness, MemoryTopic, Timestamp) {
    let mut harness = running_cluster(2).await;
    harness.minutes(130).await;
    harness.sink.take();
    harness.faults.take_writes();
    let at = harness.clock.time();
    (harness, MemoryTopic::default(), at)
}

fn logged(harness: &Harness, event: &str) -> usize {
    harness.sink.take().iter().filter(|line| line["event"] == event).count()
}

#[tokio::test]
async fn a_report_is_sent_once_for_each_event() {
    let (harness, topic, at) = recorded().await;
    reporter(&harness, &topic).run(at).await.unwrap();
    assert_eq!(logged(&harness, "cost-report-sent"), 1);
    let sent = topic.take();
    let [(subject, text)] = sent.as_slice() else { panic!("{sent:?}") };
    assert!(subject.starts_with("nodeless: cluster test: $") && subject.len() <= 99, "{subject}");
    for part in ["Nodes of cluster test, ", "\n  spent ", "\n  idle ", "\n  forecast ", "\n\nNODEPOOL ", "\ndefault "] {
        assert!(text.contains(part), "no {part:?} in {text}");
    }
    // The same event again, and one that was delayed.
    for again in [at, at - SignedDuration::from_hours(24 * 7)] {
        reporter(&harness, &topic).run(again).await.unwrap();
        assert_eq!((topic.take().len(), logged(&harness, "cost-report-skipped")), (0, 1), "{again}");
    }
    reporter(&harness, &topic).run(at + SignedDuration::from_hours(1)).await.unwrap();
    assert_eq!(topic.take().len(), 1, "the next event");
}

#[tokio::test]
async fn a_report_that_ended_at_any_write_is_sent_by_the_next_attempt() {
    // The writes: what is sent is recorded, sent, and recorded as sent. A report that was sent without a record of it is sent again.
    for (write, done, sent) in [(0, false, 0), (0, true, 0), (1, false, 0), (1, true, 1), (2, false, 1), (2, true, 1)] {
        let (mut harness, topic, at) = recorded().await;
        harness.faults.kill_at(write, done);
        let one = topic.clone();
        let ended = harness.process(async |harness| reporter(harness, &one).run(at).await).await;
        assert!(ended.is_none(), "it was killed at {write}");
        assert_eq!(topic.take().len(), sent, "{write} {done}");
        reporter(&harness, &topic).run(at).await.unwrap();
        assert_eq!(topic.take().len(), usize::from((write, done) != (2, true)), "{write} {done}");
        reporter(&harness, &topic).run(at).await.unwrap();
        assert_eq!(topic.take().len(), 0, "{write} {done}: it was sent");
    }
}

#[tokio::test]
async fn a_report_whose_record_cannot_be_written_afterwards_was_sent() {
    let (harness, topic, at) = recorded().await;
    harness.faults.fail_from(2);
    reporter(&harness, &topic).run(at).await.unwrap();
    assert_eq!((topic.take().len(), logged(&harness, "failed")), (1, 1));
}

#[tokio::test]
async fn of_two_attempts_at_once_one_sends() {
    let (harness, topic, at) = recorded().await;
    harness.faults.meet_at("claims hours", 2);
    let (first, second) = (reporter(&harness, &topic), reporter(&harness, &topic));
    let (one, other) = futures::join!(Box::pin(first.run(at)), Box::pin(second.run(at)));
    harness.faults.end_meeting();
    assert!(one.is_ok() != other.is_ok(), "{one:?} {other:?}");
    assert_eq!(topic.take().len(), 1);
}

#[tokio::test]
async fn nothing_is_sent_without_records_or_with_old_ones() {
    let topic = MemoryTopic::default();
    let harness = Harness::new().await;
    reporter(&harness, &topic).run(harness.clock.time()).await.unwrap();
    assert_eq!((topic.take().len(), logged(&harness, "cost-report-skipped")), (0, 1), "no record at all");

    let now = harness.clock.time();
    let open: Open = serde_json::from_value(json!({ "since": now, "through": now, "hours": [] })).unwrap();
    let stored = StoredCosts { version: 0, encoded: encode(&open).unwrap() };
    harness.claims.put_costs(&stored, &[]).await.unwrap();
    reporter(&harness, &topic).run(harness.clock.time()).await.unwrap();
    assert_eq!((topic.take().len(), logged(&harness, "cost-report-skipped")), (0, 1), "no node in these days");

    let (harness, topic, _) = recorded().await;
    let stored = harness.claims.open_costs().await.unwrap();
    let through = decode::<Open>(&stored.encoded).unwrap().through;
    harness.clock.advance_to(through + SignedDuration::from_hours(25));
    let error = reporter(&harness, &topic).run(harness.clock.time()).await.unwrap_err().to_string();
    assert!(error.contains(&format!("recorded only until {through:.0}")), "{error}");
    assert_eq!(topic.take().len(), 0);
}

#[tokio::test]
async fn nothing_is_sent_while_the_table_cannot_be_read_or_written() {
    let (harness, topic, at) = recorded().await;
    for operation in ["claims cost report", "claims open costs", "claims hours", "claims put cost report"] {
        harness.faults.fail(operation, ErrorKind::Unavailable);
        let error = reporter(&harness, &topic).run(at).await.unwrap_err();
        assert!(matches!(error, CostReportError::Table(_)), "{operation}: {error}");
        harness.faults.end_outages();
    }
    let stored = harness.claims.open_costs().await.unwrap();
    let damaged = StoredCosts { encoded: b"damaged".to_vec(), version: stored.version };
    harness.claims.put_costs(&damaged, &[]).await.unwrap();
    let error = reporter(&harness, &topic).run(at).await.unwrap_err().to_string();
    assert!(error.contains("the item cost#open of the claims table cannot be read: it is damaged"), "{error}");
    assert_eq!(topic.take().len(), 0);
}

#[tokio::test]
async fn a_topic_that_refuses_is_named_with_what_to_do() {
    let (harness, topic, at) = recorded().await;
    for (kind, advice) in [
        (ErrorKind::Denied, "allow the role of catalog to call sns:Publish"),
        (ErrorKind::NotFound, "create the topic, or correct weekly_report.topic_arn"),
        (ErrorKind::Unavailable, "it is tried twice"),
        (ErrorKind::Invalid, "correct weekly_report of the module"),
    ] {
        harness.faults.fail("topic publish", kind);
        let error = reporter(&harness, &topic).run(at).await.unwrap_err().to_string();
        assert!(error.contains("not sent to arn:aws:sns:us-east-1:111122223333:costs: "), "{error}");
        assert!(error.contains(advice), "{error}");
        harness.faults.end_outages();
    }
    reporter(&harness, &topic).run(at).await.unwrap();
    assert_eq!(topic.take().len(), 1, "the next attempt after the correction");
}
