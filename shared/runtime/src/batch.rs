//! SQS batches that fail one message at a time.

use aws_lambda_events::event::sqs::{BatchItemFailure, SqsBatchResponse, SqsEvent};
use futures::future::join_all;
use std::fmt::Display;
use std::future::Future;

/// Handles the messages of a batch at once, each by itself. Those whose handler fails come back after the visibility timeout
/// and, when they fail too often, end in the dead-letter queue; the others are done.
pub async fn each<H, F, E>(event: SqsEvent, handler: H) -> SqsBatchResponse
where
    H: Fn(String) -> F,
    F: Future<Output = Result<(), E>>,
    E: Display,
{
    let handled = event.records.into_iter().map(|message| {
        let id = message.message_id.unwrap_or_default();
        let work = handler(message.body.unwrap_or_default());
        async move { work.await.err().map(|error| (id, error)) }
    });
    let mut response = SqsBatchResponse::default();
    for (id, error) in join_all(handled).await.into_iter().flatten() {
        tracing::error!(message_id = id, %error, "a message failed and will be tried again");
        response.batch_item_failures.push(failure(id));
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
        let response = each(event(&["good", "bad", "good"]), refuse_bad).await;
        assert_eq!(failed(&response), ["1"]);
    }

    #[test]
    fn a_look_at_the_world_is_done_or_not() {
        let both = event(&["a", "b"]);
        assert!(failed(&whole::<String>(&both, Ok(()))).is_empty());
        assert_eq!(failed(&whole(&both, Err("down"))), ["0", "1"]);
    }
}
