//! The wake function through the Lambda Runtime API, with moto's SQS behind it.
#![allow(clippy::unwrap_used)]

use aws_config::{BehaviorVersion, Region};
use aws_credential_types::Credentials;
use aws_sdk_sqs::types::QueueAttributeName;
use nodeless_tests::lambda::{Function, sample};

async fn plan_queue(url: &str) -> (aws_sdk_sqs::Client, String) {
    let config = aws_config::defaults(BehaviorVersion::latest())
        .region(Region::new("us-east-1"))
        .credentials_provider(Credentials::new("test", "test", None, None, "test"))
        .endpoint_url(url)
        .load()
        .await;
    let client = aws_sdk_sqs::Client::new(&config);
    let request = client.create_queue().queue_name("plan.fifo").attributes(QueueAttributeName::FifoQueue, "true");
    let queue = request.send().await.unwrap().queue_url.unwrap();
    (client, queue)
}

async fn messages(client: &aws_sdk_sqs::Client, queue: &str) -> usize {
    let received = client.receive_message().queue_url(queue).max_number_of_messages(10).send().await.unwrap();
    received.messages().len()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_wakes_the_planner_and_a_forged_call_does_not() {
    let Some(moto) = nodeless_tests::moto() else { return };
    let (client, queue) = plan_queue(&moto.url).await;
    let review = sample("wake.failed-scheduling.json");
    let path = review["rawPath"].as_str().unwrap().to_owned();
    let mut wake = Function::start(
        env!("CARGO_BIN_EXE_wake"),
        &[
            ("AWS_ENDPOINT_URL", &moto.url),
            ("CLUSTER_NAME", "test"),
            ("NODELESS_PLAN_QUEUE_URL", &queue),
            ("NODELESS_WAKE_PATH", &path),
        ],
    )
    .await;

    let forged = wake.invoke_sample("wake.forged.json").await.unwrap();
    assert_eq!(forged["statusCode"], 404);
    assert_eq!(messages(&client, &queue).await, 0);

    // Many calls at once become one message: a planner that wakes up sees them all.
    for _ in 0..5 {
        let allowed = wake.invoke(&review).await.unwrap();
        assert_eq!(allowed["statusCode"], 200);
        let body: serde_json::Value = serde_json::from_str(allowed["body"].as_str().unwrap()).unwrap();
        assert_eq!(body["response"]["allowed"], true);
    }
    let woken = messages(&client, &queue).await;
    assert!((1..5).contains(&woken), "{woken} messages for five calls at once");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_ec2nodeclass_that_changes_wakes_the_planner() {
    let Some(moto) = nodeless_tests::moto() else { return };
    let (client, queue) = plan_queue(&moto.url).await;
    let review = sample("wake.node-class.json");
    let path = review["rawPath"].as_str().unwrap().to_owned();
    let variables = [
        ("AWS_ENDPOINT_URL", moto.url.as_str()),
        ("CLUSTER_NAME", "test"),
        ("NODELESS_PLAN_QUEUE_URL", &queue),
        ("NODELESS_WAKE_PATH", &path),
    ];
    let mut wake = Function::start(env!("CARGO_BIN_EXE_wake"), &variables).await;
    assert_eq!(wake.invoke(&review).await.unwrap()["statusCode"], 200);
    assert_eq!(messages(&client, &queue).await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_event_is_allowed_even_when_the_queue_is_gone() {
    let review = sample("wake.failed-scheduling.json");
    let path = review["rawPath"].as_str().unwrap().to_owned();
    let closed = format!("http://127.0.0.1:{}", nodeless_tests::free_port());
    let mut wake = Function::start(
        env!("CARGO_BIN_EXE_wake"),
        &[
            ("AWS_ENDPOINT_URL", &closed),
            ("CLUSTER_NAME", "test"),
            ("NODELESS_PLAN_QUEUE_URL", "http://127.0.0.1:1/queue"),
            ("NODELESS_WAKE_PATH", &path),
        ],
    )
    .await;
    wake.expect_problem("planner-not-woken");
    assert_eq!(wake.invoke(&review).await.unwrap()["statusCode"], 200);
}
