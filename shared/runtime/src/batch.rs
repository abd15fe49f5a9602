//! SQS batches that fail one message at a time.
//!
//! A message that is returned is delivered again after the queue's visibility timeout, and moves to the dead-letter queue after
//! the maximum number of attempts. This applies to messages that cannot be read, and to crashes. If a service does not answer
//! before the function's timeout, and other messages request the same work within a minute anyway, the message is deleted, so
//! that an outage leaves no dead letters.

use crate::log_lines::{
    MessageDropped, MessageExpired, MessageGivenUp, MessageMalformed, MessageRetried, MessageUnreadable,
};
use crate::{Deadline, OutOfTime};
use aws_lambda_events::event::sqs::{BatchItemFailure, SqsBatchResponse, SqsEvent, SqsMessage};
use futures::future::join_all;
use jiff::{SignedDuration, Timestamp};
use nodeless_telemetry::{Metric, Metrics, log, publish};
use serde::de::DeserializeOwned;
use std::future::Future;

/// The maximum age of a message of a schedule: a schedule of each minute has requested the same work again by then.
const SCHEDULED_WITHIN: SignedDuration = SignedDuration::from_mins(2);

/// Why a message failed, and whether it is retried.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The heartbeat or the sweep requests its work again. The message is deleted.
    AskedAgain(String),
    /// No other message requests its work. The message is retried up to this number of times.
    Retry {
        /// The error.
        why: String,
        /// The maximum number of attempts.
        attempts: u32,
        /// Counts messages that are deleted after the last attempt.
        lost: Metric,
    },
    /// The message cannot be read. It is retried until SQS moves it to the dead-letter queue, for a person to inspect.
    Unreadable(String),
}

/// The messages of a batch that any message wakes, whatever its body. A malformed message was not sent by nodeless: it is logged
/// and skipped, because returning it would only delay the others.
#[must_use]
pub fn well_formed<M: DeserializeOwned>(event: &SqsEvent, cluster: Option<&str>) -> Vec<M> {
    let parse = |message: &SqsMessage| {
        let body = message.body.as_deref().unwrap_or_default();
        let malformed = |error: &serde_json::Error| {
            let message_id = message.message_id.as_deref().unwrap_or_default();
            log(cluster, &MessageMalformed { message_id, error: &error.to_string() });
        };
        serde_json::from_str(body).inspect_err(malformed).ok()
    };
    event.records.iter().filter_map(parse).collect()
}

/// The messages of a batch without those of a schedule that later ones replace, so that one run makes up for all that an outage has
/// delayed: messages that are older than two minutes are dropped, and all but the latest of the others. `None` if no message is left.
/// `scheduled` is the time of the schedule's event, `None` for a message of another sender.
#[must_use]
pub fn current<M: DeserializeOwned>(
    event: SqsEvent,
    cluster: &str,
    scheduled: impl Fn(&M) -> Option<Timestamp>,
) -> Option<SqsEvent> {
    let expired = |message: &SqsMessage, at: Timestamp| {
        let message_id = message.message_id.as_deref().unwrap_or_default();
        log(Some(cluster), &MessageExpired { message_id, at });
    };
    without_replaced(event, Timestamp::now(), scheduled, expired)
}

fn without_replaced<M: DeserializeOwned>(
    mut event: SqsEvent,
    now: Timestamp,
    scheduled: impl Fn(&M) -> Option<Timestamp>,
    expired: impl Fn(&SqsMessage, Timestamp),
) -> Option<SqsEvent> {
    let before = event.records.len();
    // Unreadable messages are kept: they are reported when they are handled.
    let time = |message: &SqsMessage| scheduled(&serde_json::from_str(message.body.as_deref()?).ok()?);
    event.records.retain(|message| {
        let late = time(message).filter(|at| now.duration_since(*at) > SCHEDULED_WITHIN);
        late.inspect(|at| expired(message, *at)).is_none()
    });
    let latest = event.records.iter().filter_map(time).max();
    let mut found = false;
    event.records.retain(|message| match time(message) {
        None => true,
        at => at == latest && !std::mem::replace(&mut found, true),
    });
    (before == 0 || !event.records.is_empty()).then_some(event)
}

/// Handles the messages of a batch of a cluster concurrently. `late` is the failure of those that are not handled by the deadline.
pub async fn each<H, F>(
    event: SqsEvent,
    cluster: Option<&str>,
    deadline: Deadline,
    late: impl Fn(OutOfTime) -> Failure,
    handler: H,
) -> SqsBatchResponse
where
    H: Fn(String) -> F,
    F: Future<Output = Result<(), Failure>>,
{
    let late = &late;
    let handled = event.records.iter().map(|message| {
        let work = handler(message.body.clone().unwrap_or_default());
        async move { (message, deadline.bound(work).await.unwrap_or_else(|why| Err(late(why)))) }
    });
    let mut outcome = Outcome::default();
    for (message, result) in join_all(handled).await {
        outcome.add(message, cluster, result);
    }
    outcome.conclude(cluster)
}

/// Handles the messages of a batch together, with a result for each, in their order. `late` is the failure of all of them if they
/// are not handled by the deadline.
pub async fn together<T>(
    event: SqsEvent,
    cluster: Option<&str>,
    deadline: Deadline,
    late: impl Fn(OutOfTime) -> Failure,
    handler: impl AsyncFnOnce(&[&str]) -> Vec<Result<T, Failure>>,
) -> SqsBatchResponse {
    let bodies: Vec<&str> = event.records.iter().map(|message| message.body.as_deref().unwrap_or_default()).collect();
    let handled = deadline.bound(handler(&bodies)).await;
    let mut results = handled.map(Vec::into_iter);
    let mut outcome = Outcome::default();
    for message in &event.records {
        let result = match &mut results {
            Err(why) => Err(late(*why)),
            Ok(results) => match results.next() {
                Some(result) => result.map(drop),
                None => Err(Failure::Unreadable("it was not handled".to_owned())),
            },
        };
        outcome.add(message, cluster, result);
    }
    outcome.conclude(cluster)
}

/// The outcome of a batch.
#[derive(Default)]
struct Outcome {
    /// The messages that are returned.
    response: SqsBatchResponse,
    /// The messages that are lost.
    metrics: Metrics,
}

impl Outcome {
    fn add(&mut self, message: &SqsMessage, cluster: Option<&str>, result: Result<(), Failure>) {
        let Err(failure) = result else { return };
        let id = message.message_id.clone().unwrap_or_default();
        let back = match failure {
            Failure::AskedAgain(error) => {
                log(cluster, &MessageDropped { message_id: &id, error: &error });
                false
            }
            Failure::Retry { why, attempts, lost } if received(message) >= attempts => {
                log(cluster, &MessageGivenUp { message_id: &id, error: &why, attempts });
                self.metrics.count(lost, 1);
                false
            }
            Failure::Retry { why, .. } => {
                log(cluster, &MessageRetried { message_id: &id, error: &why });
                true
            }
            Failure::Unreadable(error) => {
                log(cluster, &MessageUnreadable { message_id: &id, error: &error });
                true
            }
        };
        if back {
            let mut failure = BatchItemFailure::default();
            failure.item_identifier = id;
            self.response.batch_item_failures.push(failure);
        }
    }

    /// Publishes the metrics, and returns the response.
    fn conclude(self, cluster: Option<&str>) -> SqsBatchResponse {
        publish(cluster, &self.metrics);
        self.response
    }
}

/// How many times SQS has delivered the message; once if SQS does not report it.
fn received(message: &SqsMessage) -> u32 {
    message.attributes.get("ApproximateReceiveCount").and_then(|count| count.parse().ok()).unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodeless_ports::queue::{ClaimMessage, PlanMessage};
    use serde_json::{Value, json};

    fn event(bodies: &[&str]) -> SqsEvent {
        let record = |(index, body): (usize, &&str)| {
            let attributes = json!({ "ApproximateReceiveCount": index.to_string() });
            json!({ "messageId": index.to_string(), "body": body, "attributes": attributes, "messageAttributes": {} })
        };
        let records: Vec<Value> = bodies.iter().enumerate().map(record).collect();
        serde_json::from_value(json!({ "Records": records })).unwrap()
    }

    fn failed(response: &SqsBatchResponse) -> Vec<&str> {
        response.batch_item_failures.iter().map(|failure| failure.item_identifier.as_str()).collect()
    }

    fn late(why: OutOfTime) -> Failure {
        Failure::AskedAgain(why.to_string())
    }

    fn handle(body: &str) -> Result<(), Failure> {
        let why = || "no".to_owned();
        match body {
            "good" => Ok(()),
            "down" => Err(Failure::AskedAgain(why())),
            "alone" => Err(Failure::Retry { why: why(), attempts: 3, lost: Metric::InterruptionsLost }),
            _ => Err(Failure::Unreadable(why())),
        }
    }

    /// The messages of a batch that are left at noon, and the times of those that expired.
    fn left_at_noon<M: DeserializeOwned>(
        bodies: &[&str],
        scheduled: impl Fn(&M) -> Option<Timestamp>,
    ) -> (Option<Vec<String>>, Vec<String>) {
        let noon = "2026-05-01T12:00:00Z".parse().unwrap();
        let expired = std::cell::RefCell::new(Vec::new());
        let note = |_: &SqsMessage, at: Timestamp| expired.borrow_mut().push(at.to_string());
        let left = without_replaced(event(bodies), noon, scheduled, note);
        let left = left.map(|event| event.records.into_iter().filter_map(|message| message.body).collect());
        (left, expired.into_inner())
    }

    fn sweep(time: &str) -> String {
        format!(r#"{{"kind":"sweep","at":"2026-05-01T{time}Z"}}"#)
    }

    #[test]
    fn the_sweeps_that_an_outage_delayed_become_one() {
        let shard = r#"{"kind":"shard","shard":1,"number":2}"#;
        let bodies = [sweep("11:00:00"), sweep("11:59:00"), shard.into(), sweep("11:58:00"), sweep("11:59:00")];
        let bodies: Vec<&str> = bodies.iter().map(String::as_str).collect();
        let (left, expired) = left_at_noon(&bodies, ClaimMessage::scheduled);
        assert_eq!(left, Some(vec![sweep("11:59:00"), shard.to_owned()]));
        assert_eq!(
            expired,
            ["2026-05-01T11:00:00Z"],
            "the others are replaced by the latest, and only late ones are logged"
        );
        let (left, expired) = left_at_noon(&[&sweep("11:57:59"), &sweep("11:57:58")], ClaimMessage::scheduled);
        assert_eq!((left, expired.len()), (None, 2), "the next one comes within a minute");
        let ahead = sweep("12:01:00");
        assert_eq!(left_at_noon(&[&ahead], ClaimMessage::scheduled).0, Some(vec![ahead.clone()]), "another clock");
    }

    #[test]
    fn what_is_no_message_of_a_schedule_is_kept_at_any_age() {
        let wake = |source: &str| format!(r#"{{"kind":"wake","source":"{source}","at":"2026-05-01T11:00:00Z"}}"#);
        let (webhook, heartbeat) = (wake("webhook"), wake("heartbeat"));
        let left = |bodies: &[&str]| left_at_noon(bodies, PlanMessage::scheduled).0;
        assert_eq!(left(&[&heartbeat, &webhook]), Some(vec![webhook.clone()]));
        assert_eq!(left(&[&heartbeat]), None);
        assert_eq!(left(&["no JSON", "{}"]).map(|left| left.len()), Some(2), "they are reported when they are handled");
        assert_eq!(left(&[]), Some(vec![]), "an empty event of a user means \"look now\"");
    }

    #[tokio::test]
    async fn only_the_bad_message_of_a_batch_is_returned() {
        let response =
            each(event(&["good", "bad", "good"]), None, Deadline::default(), late, async |body| handle(&body)).await;
        assert_eq!(failed(&response), ["1"]);
    }

    #[tokio::test]
    async fn what_is_asked_for_again_anyway_does_not_come_back() {
        let response =
            each(event(&["down", "good", "down"]), None, Deadline::default(), late, async |body| handle(&body)).await;
        assert!(failed(&response).is_empty());
    }

    #[tokio::test]
    async fn what_nothing_else_asks_for_comes_back_a_few_times() {
        let batch = event(&["alone", "alone", "alone", "alone", "alone"]);
        let response = together(batch, None, Deadline::default(), late, async |bodies| {
            bodies.iter().map(|body| handle(body)).collect()
        })
        .await;
        assert_eq!(failed(&response), ["0", "1", "2"]);
    }

    #[test]
    fn messages_that_are_given_up_are_counted_and_those_that_are_asked_for_again_are_not() {
        let batch = event(&["alone", "alone", "down", "bad", "down", "alone", "good", "alone"]);
        let mut outcome = Outcome::default();
        for message in &batch.records {
            outcome.add(message, None, handle(message.body.as_deref().unwrap()));
        }
        assert_eq!(failed(&outcome.response), ["0", "1", "3"]);
        assert_eq!(outcome.metrics.get(Metric::InterruptionsLost), [2.0]);
    }

    #[tokio::test]
    async fn messages_handled_together_fail_one_by_one() {
        let refuse = async |bodies: &[&str]| bodies.iter().map(|body| handle(body)).collect();
        assert_eq!(
            failed(&together(event(&["good", "bad", "good"]), None, Deadline::default(), late, refuse).await),
            ["1"]
        );
        let forgetful = async |_: &[&str]| vec![Ok(())];
        assert_eq!(
            failed(&together(event(&["a", "b"]), None, Deadline::default(), late, forgetful).await),
            ["1"],
            "what has no result comes again"
        );
    }

    /// A handler that hangs on the message `hangs`.
    async fn hang(body: String) -> Result<(), Failure> {
        if body == "hangs" { std::future::pending().await } else { handle(&body) }
    }

    #[tokio::test]
    async fn a_message_that_hangs_fails_before_the_deadline_and_holds_up_no_other() {
        let ended = Deadline::at(jiff::Timestamp::now());
        let lost = |why: OutOfTime| Failure::Unreadable(why.to_string());
        let response = each(event(&["good", "hangs", "good"]), None, ended, lost, hang).await;
        assert_eq!(failed(&response), ["1"]);
        let response = each(event(&["hangs"]), None, ended, late, hang).await;
        assert!(failed(&response).is_empty(), "something else asks for its work again");
    }

    #[tokio::test]
    async fn messages_handled_together_fail_together_at_the_deadline() {
        let lost = Metric::InterruptionsLost;
        let again = |why: OutOfTime| Failure::Retry { why: why.to_string(), attempts: 2, lost };
        let hang = async |_: &[&str]| std::future::pending::<Vec<Result<(), Failure>>>().await;
        let batch = event(&["first", "second", "third"]);
        let response = together(batch, None, Deadline::at(jiff::Timestamp::now()), again, hang).await;
        assert_eq!(failed(&response), ["0", "1"], "the third was received twice already");
    }
}
