//! The catalog function sends the weekly report of costs to a topic, whose subscribers get it once.

use aws_sdk_dynamodb::types::AttributeValue;
use jiff::{SignedDuration, Timestamp};
use nodeless_bill::{HourRecord, OfferingCost, Open, encode, hour_of};
use nodeless_model::CapacityType;
use nodeless_tests::lambda::{Function, binary};
use nodeless_tests::stage::{CLUSTER, Stage};
use serde_json::{Value, json};

/// Records that a spot instance ran in the last hour that has ended.
async fn record_costs(stage: &Stage) {
    let now = Timestamp::now();
    let hour = hour_of(now) - SignedDuration::from_hours(1);
    let cost = OfferingCost {
        instance_type: "m5.large".into(),
        zone: "us-east-1a".into(),
        capacity_type: CapacityType::Spot,
        seconds: 3600.0,
        dollars: 0.03,
        on_demand_dollars: 0.096,
        unpriced_seconds: 0.0,
    };
    let ended = HourRecord { offerings: vec![cost], ..HourRecord::new(hour, "default") };
    let key = format!("hour#{}#default", hour.strftime("%Y-%m-%dT%H"));
    let more = [
        ("hour", AttributeValue::N(hour.as_second().to_string())),
        ("nodePool", AttributeValue::S("default".to_owned())),
    ];
    stage.put_record(&key, encode(&ended).unwrap(), &more).await;
    let open: Open = serde_json::from_value(json!({ "since": hour, "through": now, "hours": [] })).unwrap();
    stage.put_record("cost#open", encode(&open).unwrap(), &[]).await;
}

/// The catalog function with a topic.
async fn catalog(stage: &Stage, topic: &str) -> Function {
    stage.function_with(&binary("catalog"), &[("NODELESS_REPORT_TOPIC_ARN", topic)]).await
}

/// The event of the schedule, a number of weeks later.
fn event(stage: &Stage, weeks: i64) -> Value {
    let mut event = stage.delivered("catalog.report.json");
    let at: Timestamp = "2025-03-17T07:00:00Z".parse().unwrap();
    let at = at + SignedDuration::from_hours(24 * 7 * weeks);
    event["Records"][0]["body"] = json!({ "kind": "report", "at": at }).to_string().into();
    event
}

#[tokio::test(flavor = "multi_thread")]
async fn a_report_is_sent_once_and_refreshes_nothing() {
    let Some(stage) = Stage::start().await else { return };
    record_costs(&stage).await;
    let (topic, subscriber) = stage.topic("costs").await;
    let mut function = catalog(&stage, &topic).await;
    stage.forget_calls();
    let answer = function.invoke(&event(&stage, 0)).await.unwrap();
    assert_eq!(answer, json!({ "batchItemFailures": [], "catalogChanged": false }));
    let calls = stage.calls();
    assert!(!calls.keys().any(|name| name.starts_with("EC2 ")), "{calls:?}");
    let sent = stage.published(&subscriber).await;
    let [message] = sent.as_slice() else { panic!("{sent:?}") };
    let (subject, text) = (message["Subject"].as_str().unwrap(), message["Message"].as_str().unwrap());
    assert!(subject.starts_with(&format!("nodeless: cluster {CLUSTER}: $0.0300, ")), "{subject}");
    for part in [
        "\n  spent              $0.0300, on-demand $0.0960\n",
        "\n  saved by spot      $0.0660 in 1.0 node hours\n",
        "\ndefault ",
    ] {
        assert!(text.contains(part), "no {part:?} in {text}");
    }
    // The same event again, also by another execution environment.
    function.invoke(&event(&stage, 0)).await.unwrap();
    catalog(&stage, &topic).await.invoke(&event(&stage, 0)).await.unwrap();
    assert_eq!(stage.published(&subscriber).await, Vec::<Value>::new());
    function.invoke(&event(&stage, 1)).await.unwrap();
    assert_eq!(stage.published(&subscriber).await.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_report_that_is_not_sent_is_received_again_and_holds_up_no_refresh() {
    let Some(stage) = Stage::start().await else { return };
    record_costs(&stage).await;
    let (topic, subscriber) = stage.topic("costs").await;
    let mut function = catalog(&stage, &format!("{topic}-of-others")).await;
    function.expect_problem("create the topic, or correct weekly_report.topic_arn of the module");
    let mut both = event(&stage, 0);
    let refresh = stage.delivered("catalog.schedule.json")["Records"][0].clone();
    both["Records"].as_array_mut().unwrap().push(refresh);
    let answer = function.invoke(&both).await.unwrap();
    let id = &both["Records"][0]["messageId"];
    assert_eq!(answer, json!({ "batchItemFailures": [{ "itemIdentifier": id }], "catalogChanged": true }));
    // After the correction.
    let answer = catalog(&stage, &topic).await.invoke(&event(&stage, 0)).await.unwrap();
    assert_eq!(answer["batchItemFailures"], json!([]));
    assert_eq!(stage.published(&subscriber).await.len(), 1);
}
