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

/// Handles the messages of a batch together, with a result for each, in their order. Those that failed come back, as with
/// [`each`].
pub async fn together<T, E: Display>(
    event: SqsEvent,
    handler: impl AsyncFnOnce(&[&str]) -> Vec<Result<T, E>>,
) -> SqsBatchResponse {
    let bodies: Vec<&str> = event.records.iter().map(|message| message.body.as_deref().unwrap_or_default()).collect();
    let mut results = handler(&bodies).await.into_iter();
    let mut response = SqsBatchResponse::default();
    for message in &event.records {
        let why = match results.next() {
            Some(Ok(_)) => continue,
            Some(Err(error)) => error.to_string(),
            None => "it was not handled".to_owned(),
        };
        let id = message.message_id.clone().unwrap_or_default();
        tracing::error!(message_id = id, error = why, "a message failed and will be tried again");
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

    #[tokio::test]
    async fn messages_handled_together_fail_one_by_one() {
        let refuse = async |bodies: &[&str]| -> Vec<Result<(), String>> {
            bodies.iter().map(|body| if *body == "bad" { Err("no".to_owned()) } else { Ok(()) }).collect()
        };
        assert_eq!(failed(&together(event(&["good", "bad", "good"]), refuse).await), ["1"]);
        let forgetful = async |_: &[&str]| -> Vec<Result<(), String>> { vec![Ok(())] };
        assert_eq!(failed(&together(event(&["a", "b"]), forgetful).await), ["1"], "what has no result comes again");
    }

    #[test]
    fn a_look_at_the_world_is_done_or_not() {
        let both = event(&["a", "b"]);
        assert!(failed(&whole::<String>(&both, Ok(()))).is_empty());
        assert_eq!(failed(&whole(&both, Err("down"))), ["0", "1"]);
    }
}
