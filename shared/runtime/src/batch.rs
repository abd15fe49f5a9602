//! SQS batches that fail one message at a time.
//!
//! A message that is handed back comes again after the queue's visibility timeout, and becomes a dead letter when it is handed
//! back too often. That is for messages that nobody can act on, and for a function that crashes. Where a service does not answer
//! and something else asks for the same work within a minute anyway, the message is done: an outage leaves no dead letters.

use crate::lines::{MessageDropped, MessageGivenUp, MessageRetried, MessageUnreadable};
use aws_lambda_events::event::sqs::{BatchItemFailure, SqsBatchResponse, SqsEvent, SqsMessage};
use futures::future::join_all;
use nodeless_telemetry::log;
use std::future::Future;

/// Why a message failed, and what becomes of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The heartbeat or the sweep asks for its work again: the message is done.
    AskedAgain(String),
    /// Nobody else asks for its work: the message comes again, but for the time when it has come this often.
    Retry {
        /// Why it failed.
        why: String,
        /// How often it is handled at most.
        attempts: u32,
    },
    /// Nobody can act on it: the message comes again until it is a dead letter, for a person to look at.
    Unreadable(String),
}

/// Handles the messages of a batch at once, each by itself.
pub async fn each<H, F>(event: SqsEvent, handler: H) -> SqsBatchResponse
where
    H: Fn(String) -> F,
    F: Future<Output = Result<(), Failure>>,
{
    let handled = event.records.iter().map(|message| {
        let work = handler(message.body.clone().unwrap_or_default());
        async move { (message, work.await) }
    });
    let mut response = SqsBatchResponse::default();
    for (message, result) in join_all(handled).await {
        conclude(message, result, &mut response);
    }
    response
}

/// Handles the messages of a batch together, with a result for each, in their order.
pub async fn together<T>(
    event: SqsEvent,
    handler: impl AsyncFnOnce(&[&str]) -> Vec<Result<T, Failure>>,
) -> SqsBatchResponse {
    let bodies: Vec<&str> = event.records.iter().map(|message| message.body.as_deref().unwrap_or_default()).collect();
    let mut results = handler(&bodies).await.into_iter();
    let mut response = SqsBatchResponse::default();
    for message in &event.records {
        let result = match results.next() {
            Some(result) => result.map(drop),
            None => Err(Failure::Unreadable("it was not handled".to_owned())),
        };
        conclude(message, result, &mut response);
    }
    response
}

fn conclude(message: &SqsMessage, result: Result<(), Failure>, response: &mut SqsBatchResponse) {
    let Err(failure) = result else { return };
    let id = message.message_id.clone().unwrap_or_default();
    let back = match failure {
        Failure::AskedAgain(error) => {
            log(&MessageDropped { message_id: &id, error: &error });
            false
        }
        Failure::Retry { why, attempts } if received(message) >= attempts => {
            log(&MessageGivenUp { message_id: &id, error: &why, attempts });
            false
        }
        Failure::Retry { why, .. } => {
            log(&MessageRetried { message_id: &id, error: &why });
            true
        }
        Failure::Unreadable(error) => {
            log(&MessageUnreadable { message_id: &id, error: &error });
            true
        }
    };
    if back {
        let mut failure = BatchItemFailure::default();
        failure.item_identifier = id;
        response.batch_item_failures.push(failure);
    }
}

/// How often SQS has handed the message out; once where it does not say.
fn received(message: &SqsMessage) -> u32 {
    message.attributes.get("ApproximateReceiveCount").and_then(|count| count.parse().ok()).unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::*;
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

    fn judge(body: &str) -> Result<(), Failure> {
        let why = || "no".to_owned();
        match body {
            "good" => Ok(()),
            "down" => Err(Failure::AskedAgain(why())),
            "alone" => Err(Failure::Retry { why: why(), attempts: 3 }),
            _ => Err(Failure::Unreadable(why())),
        }
    }

    #[tokio::test]
    async fn one_bad_message_hands_back_only_itself() {
        let response = each(event(&["good", "bad", "good"]), async |body| judge(&body)).await;
        assert_eq!(failed(&response), ["1"]);
    }

    #[tokio::test]
    async fn what_is_asked_for_again_anyway_does_not_come_back() {
        let response = each(event(&["down", "good", "down"]), async |body| judge(&body)).await;
        assert!(failed(&response).is_empty());
    }

    #[tokio::test]
    async fn what_nobody_else_asks_for_comes_back_a_few_times() {
        let batch = event(&["alone", "alone", "alone", "alone", "alone"]);
        let response = together(batch, async |bodies| bodies.iter().map(|body| judge(body)).collect()).await;
        assert_eq!(failed(&response), ["0", "1", "2"]);
    }

    #[tokio::test]
    async fn messages_handled_together_fail_one_by_one() {
        let refuse = async |bodies: &[&str]| bodies.iter().map(|body| judge(body)).collect();
        assert_eq!(failed(&together(event(&["good", "bad", "good"]), refuse).await), ["1"]);
        let forgetful = async |_: &[&str]| vec![Ok(())];
        assert_eq!(failed(&together(event(&["a", "b"]), forgetful).await), ["1"], "what has no result comes again");
    }
}
