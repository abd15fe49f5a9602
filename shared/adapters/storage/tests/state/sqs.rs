//! The queues over the wire, against moto's SQS.

use async_trait::async_trait;
use aws_config::{BehaviorVersion, Region};
use aws_credential_types::Credentials;
use aws_sdk_sqs::types::QueueAttributeName;
use jiff::Timestamp;
use nodeless_ports::queue::{ClaimMessage, PlanMessage, ShardMessage, WakeSource};
use nodeless_ports::{Clock, Queue};
use nodeless_storage::SqsQueue;
use nodeless_telemetry::{Context, Null};
use std::sync::Arc;
use std::time::Duration;

/// A cluster whose clock is stopped.
fn context() -> Context {
    Context { cluster_name: "test".to_owned(), clock: Arc::new(Stopped), sink: Arc::new(Null) }
}

struct Stopped;

impl Stopped {
    const TIME: Timestamp = Timestamp::constant(1_800_000_000, 0);
}

#[async_trait]
impl Clock for Stopped {
    fn now(&self) -> Timestamp {
        Self::TIME
    }

    async fn sleep(&self, _duration: Duration) {}
}

#[tokio::test]
async fn messages_arrive_in_the_form_that_the_functions_read() {
    let Some(moto) = nodeless_tests::moto() else { return };
    let config = aws_config::defaults(BehaviorVersion::latest())
        .region(Region::new("us-east-1"))
        .credentials_provider(Credentials::new("test", "test", None, None, "test"))
        .endpoint_url(&moto.url)
        .load()
        .await;
    let sqs = aws_sdk_sqs::Client::new(&config);
    let fifo = sqs.create_queue().queue_name("plan.fifo").attributes(QueueAttributeName::FifoQueue, "true");
    let plan = fifo.send().await.unwrap().queue_url.unwrap();
    let claims = sqs.create_queue().queue_name("claims").send().await.unwrap().queue_url.unwrap();
    let queue = SqsQueue::new(&config, context(), &plan, Some(claims.clone()));

    queue.wake_planner(WakeSource::Webhook).await.unwrap();
    let received = sqs.receive_message().queue_url(&plan).send().await.unwrap();
    let message: PlanMessage = serde_json::from_str(received.messages()[0].body().unwrap()).unwrap();
    assert!(
        matches!(message, PlanMessage::Wake { source: WakeSource::Webhook, at } if at == Stopped::TIME),
        "{message:?}"
    );

    queue.wake_shard(ShardMessage { shard: 4, number: 1 }, Duration::from_secs(600)).await.unwrap();
    queue.wake_shard(ShardMessage { shard: 3, number: 2 }, Duration::ZERO).await.unwrap();
    queue.wake_planner_after(Duration::ZERO).await.unwrap();
    queue.check_node_class("default", Duration::ZERO).await.unwrap();
    let (mut shards, mut later_plans, mut checked) = (Vec::new(), 0, Vec::new());
    loop {
        let received = sqs.receive_message().queue_url(&claims).max_number_of_messages(10).send().await.unwrap();
        if received.messages().is_empty() {
            break;
        }
        for message in received.messages() {
            match serde_json::from_str(message.body().unwrap()).unwrap() {
                ClaimMessage::Shard(message) => shards.push(message),
                ClaimMessage::Plan { at } => later_plans += i32::from(at == Stopped::TIME),
                ClaimMessage::NodeClass { name } => checked.push(name),
                other @ ClaimMessage::Sweep { .. } => panic!("{other:?}"),
            }
            sqs.delete_message()
                .queue_url(&claims)
                .receipt_handle(message.receipt_handle().unwrap())
                .send()
                .await
                .unwrap();
        }
    }
    assert_eq!(
        (shards, later_plans, checked),
        (vec![ShardMessage { shard: 3, number: 2 }], 1, vec!["default".to_owned()])
    );

    let without_claims_queue = SqsQueue::new(&config, context(), &plan, None);
    let refused = without_claims_queue
        .wake_shard(ShardMessage { shard: 0, number: 1 }, Duration::ZERO)
        .await
        .unwrap_err()
        .to_string();
    assert!(refused.contains("NODELESS_CLAIMS_QUEUE_URL"), "{refused}");
}
