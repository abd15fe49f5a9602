//! SQS batches that fail one message at a time.

use aws_lambda_events::event::sqs::{BatchItemFailure, SqsBatchResponse, SqsEvent, SqsMessage};
use std::fmt::Display;
use std::future::Future;

/// Handles each message of a batch by itself. Those whose handler fails come back after the visibility timeout and, when
/// they fail too often, end in the dead-letter queue; the others are done.
///
/// Of a FIFO queue, everything after a failed message is handed back as well, because its order would be lost otherwise.
pub async fn each<H, F, E>(event: SqsEvent, in_order: bool, handler: H) -> SqsBatchResponse
where
    H: Fn(String) -> F,
    F: Future<Output = Result<(), E>>,
    E: Display,
{
    let mut response = SqsBatchResponse::default();
    let mut failed = false;
    for message in event.records {
        let id = message.message_id.clone().unwrap_or_default();
        if failed && in_order {
            response.batch_item_failures.push(failure(id));
            continue;
        }
        if let Err(error) = handler(body(message)).await {
            tracing::error!(message_id = id, %error, "a message failed and will be tried again");
            response.batch_item_failures.push(failure(id));
            failed = true;
        }
    }
    response
}

/// The answer for a batch that is one look at the world: all of it is done, or none.
pub fn whole<E: Display>(event: &SqsEvent, result: Result<(), E>) -> SqsBatchResponse {
    let mut response = SqsBatchResponse::default();
    if let Err(error) = result {
        tracing::error!(%error, messages = event.records.len(), "nothing was done; the messages will come again");
        response.batch_item_failures =
            event.records.iter().map(|message| failure(message.message_id.clone().unwrap_or_default())).collect();
    }
    response
}

fn body(message: SqsMessage) -> String {
    message.body.unwrap_or_default()
}

fn failure(id: String) -> BatchItemFailure {
    let mut failure = BatchItemFailure::default();
    failure.item_identifier = id;
    failure
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(bodies: &[&str]) -> SqsEvent {
        let records: Vec<serde_json::Value> = bodies
            .iter()
            .enumerate()
            .map(|(index, body)| serde_json::json!({ "messageId": index.to_string(), "body": body, "attributes": {}, "messageAttributes": {} }))
            .collect();
        serde_json::from_value(serde_json::json!({ "Records": records })).unwrap()
    }

    fn failed(response: &SqsBatchResponse) -> Vec<&str> {
        response.batch_item_failures.iter().map(|failure| failure.item_identifier.as_str()).collect()
    }

    async fn refuse_bad(body: String) -> Result<(), String> {
        if body == "bad" { Err("no".to_owned()) } else { Ok(()) }
    }

    #[tokio::test]
    async fn one_bad_message_hands_back_only_itself() {
        let response = each(event(&["good", "bad", "good"]), false, refuse_bad).await;
        assert_eq!(failed(&response), ["1"]);
    }

    #[tokio::test]
    async fn in_order_everything_after_it_comes_back_too() {
        let response = each(event(&["good", "bad", "good"]), true, refuse_bad).await;
        assert_eq!(failed(&response), ["1", "2"]);
    }

    #[test]
    fn a_look_at_the_world_is_done_or_not() {
        let both = event(&["a", "b"]);
        assert!(failed(&whole::<String>(&both, Ok(()))).is_empty());
        assert_eq!(failed(&whole(&both, Err("down"))), ["0", "1"]);
    }
}
