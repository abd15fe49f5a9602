//! Outages and killed processes of one cluster.

use crate::one_cluster::{Functions, all_failed, running, unschedulable_pods, waiting_pods};
use axum::http::StatusCode;
use nodeless_fake_aws::Ec2Error;
use nodeless_fake_kubernetes::resource;
use nodeless_tests::lambda::{Function, binary, sample};
use nodeless_tests::proxy::Outage;
use nodeless_tests::stage::{Service, Stage, node_class};
use nodeless_world::resources::{NODE_CLAIMS, NODE_CLASSES};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::time::Duration;

#[tokio::test(flavor = "multi_thread")]
async fn a_planner_without_a_catalog_does_nothing_and_is_done_with_its_message() {
    let Some(stage) = Stage::start().await else { return };
    stage.create_inflate(1);
    unschedulable_pods(&stage, 1).await;
    let mut planner = stage.function(&binary("planner")).await;
    planner.expect_problem("there is no catalog yet");
    let answer = planner.invoke_sample("planner.heartbeat.json").await.unwrap();
    assert!(all_failed(&answer).is_empty(), "handed back, it would hold up the next: {answer}");
    assert!(stage.list(&NODE_CLAIMS).is_empty());
    // The next plan is asked for at once, not by the heartbeat alone.
    tokio::time::sleep(Duration::from_secs(3)).await;
    let messages = stage.claims_messages().await;
    let kinds: Vec<&str> = messages["Records"].as_array().unwrap().iter().filter_map(|m| m["body"].as_str()).collect();
    assert!(kinds.iter().any(|body| body.contains("\"kind\":\"plan\"")), "{kinds:?}");
}

/// Three planners are killed one after another while they write launches for 200 pods, as Lambda does at the timeout. Each next one
/// notices it.
#[tokio::test(flavor = "multi_thread")]
async fn a_planner_that_is_killed_is_noticed_by_the_next() {
    const WRITE: &str = "DynamoDB TransactWriteItems";
    let Some(stage) = Stage::start().await else { return };
    let mut functions = waiting_pods(&stage, 200).await;
    for killed in 1..=3 {
        stage.hold(Service::Tables, Some(WRITE));
        stage.forget_calls();
        let mut planner = stage.function(&binary("planner")).await;
        if killed > 1 {
            planner.expect_problem("\"event\":\"plan-unfinished\"");
        }
        let launches = stage.until("launches are written", |stage| stage.calls().contains_key(WRITE));
        planner.kill_when(&sample("planner.heartbeat.json"), launches).await;
        let record = stage.records("plan").await.remove("plan").unwrap();
        assert_eq!(record["before"], killed - 1, "{record}");
    }
    stage.hold(Service::Tables, None);
    assert!(stage.list(&NODE_CLAIMS).is_empty());

    functions.planner.expect_problem("\"event\":\"plan-unfinished\"");
    functions.plan().await;
    stage.until("metrics are read", |_| functions.planner.metric("ClaimsCreated") > 0.0).await;
    assert_eq!(functions.planner.metric("PlansUnfinished").to_string(), "1");
    let decisions = stage.records("decision#").await;
    let noticed: Vec<&Value> = decisions.values().filter(|decision| decision["kind"] == "plan-unfinished").collect();
    let summaries: Vec<&str> = noticed.iter().filter_map(|decision| decision["summary"].as_str()).collect();
    assert_eq!(summaries.len(), 3, "each that found one: {decisions:?}");
    assert!(summaries.iter().any(|summary| summary.starts_with("the last 3 plans did not finish")), "{summaries:?}");
    assert!(decisions.values().any(|decision| decision["kind"] == "provisioning"), "the pods get nodes: {decisions:?}");
    assert_eq!(stage.records("plan").await.get("plan"), None, "this one has finished");
    functions.plan().await;
    assert_eq!(functions.planner.metric("PlansUnfinished").to_string(), "1", "and the next is complete");
}

/// A message as SQS delivers it for the given time.
fn received(file: &str, times: u32) -> Value {
    let mut event = sample(file);
    for record in event["Records"].as_array_mut().into_iter().flatten() {
        record["attributes"]["ApproximateReceiveCount"] = times.to_string().into();
    }
    event
}

/// Functions that have just started, and functions that worked before.
#[tokio::test(flavor = "multi_thread")]
async fn an_outage_leaves_no_dead_letters_and_plans_go_on_after_it() {
    let Some(stage) = Stage::start().await else { return };
    stage.create_inflate(1);
    unschedulable_pods(&stage, 1).await;
    let mut warm = [stage.function(&binary("planner")).await, stage.function(&binary("lifecycle")).await];
    let mut catalog = stage.function(&binary("catalog")).await;
    let mut interruption = stage.function(&binary("interruption")).await;
    for function in warm.iter_mut().chain([&mut catalog, &mut interruption]) {
        function.expect_any_problem();
    }
    catalog.invoke(&json!({ "required": true })).await.unwrap();
    warm[0].invoke_sample("planner.heartbeat.json").await.unwrap();
    warm[1].invoke_sample("lifecycle.sweep.json").await.unwrap();
    interruption.invoke_sample("interruption.spot-warning.json").await.unwrap();
    let claims = stage.list(&NODE_CLAIMS);

    let outages = [
        (Service::Tables, Outage::Status(StatusCode::SERVICE_UNAVAILABLE)),
        (Service::Tables, Outage::Refuse),
        (Service::Ec2, Outage::Status(StatusCode::SERVICE_UNAVAILABLE)),
        (Service::Ec2, Outage::Refuse),
        (Service::Kubernetes, Outage::Status(StatusCode::SERVICE_UNAVAILABLE)),
        (Service::Kubernetes, Outage::Status(StatusCode::TOO_MANY_REQUESTS)),
        (Service::Kubernetes, Outage::Status(StatusCode::FORBIDDEN)),
        (Service::Kubernetes, Outage::Refuse),
    ];
    for (service, outage) in outages {
        stage.fail(service, Some(outage));
        let mut cold = [stage.function(&binary("planner")).await, stage.function(&binary("lifecycle")).await];
        cold.iter_mut().for_each(Function::expect_any_problem);
        for functions in [&mut warm, &mut cold] {
            let answer = functions[0].invoke_sample("planner.heartbeat.json").await;
            assert_eq!(answer.as_ref().map(all_failed), Ok(vec![]), "{service:?} {outage:?}: {answer:?}");
            for message in ["lifecycle.sweep.json", "lifecycle.sqs.json"] {
                let answer = functions[1].invoke_sample(message).await;
                assert_eq!(
                    answer.as_ref().map(all_failed),
                    Ok(vec![]),
                    "{service:?} {outage:?}, {message}: {answer:?}"
                );
            }
        }
        let refreshed = catalog.invoke_sample("catalog.schedule.json").await;
        assert!(refreshed.is_ok(), "{service:?} {outage:?}: {refreshed:?}");
        stage.fail(service, None);
    }
    assert_eq!(stage.list(&NODE_CLAIMS).len(), claims.len(), "nothing is decided during an outage");

    stage.fail(Service::Tables, Some(Outage::Status(StatusCode::SERVICE_UNAVAILABLE)));
    assert!(catalog.invoke(&json!({ "required": true })).await.is_err(), "Terraform waits for this one");
    // A warning is received again as long as there is time to act on it, and then no more.
    let early = interruption.invoke(&received("interruption.spot-warning.json", 3)).await.unwrap();
    let late = interruption.invoke(&received("interruption.spot-warning.json", 4)).await.unwrap();
    assert_eq!((all_failed(&early).len(), all_failed(&late).len()), (1, 0));
    stage.fail(Service::Tables, None);

    let [planner, lifecycle] = warm;
    let mut functions = Functions { planner, lifecycle };
    while running(&stage.list(&resource::PODS)) < 1 {
        functions.plan().await;
        functions.claims(&stage).await;
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// IAM applies the policies of the functions' roles seconds after Terraform has written them.
#[tokio::test(flavor = "multi_thread")]
async fn the_first_runs_of_an_installation_wait_for_their_permissions() {
    let Some(stage) = Stage::start().await else { return };
    let ec2 = stage.world.lock().unwrap().ec2().clone();
    let denied =
        Ec2Error::new("AccessDeniedException", "not authorized to perform: eks:DescribeCluster").with_status(403);
    let mut catalog = stage.function(&binary("catalog")).await;
    catalog.expect_problem("not authorized to perform: eks:DescribeCluster");
    ec2.fail_next("DescribeCluster", &denied, 1);
    let scheduled = catalog.invoke_sample("catalog.schedule.json").await.unwrap();
    assert!(scheduled["problem"].to_string().contains("eks:DescribeCluster"), "the schedule repeats it: {scheduled}");
    ec2.fail_next("DescribeCluster", &denied, 1);
    catalog.invoke(&json!({ "required": true })).await.unwrap();
    let mut installer = stage.function(&binary("installer")).await;
    installer.expect_any_problem();
    ec2.fail_next("DescribeCluster", &denied, 1);
    installer.invoke(&sample("installer.install.json")).await.unwrap();
}

/// A service that accepts calls and never answers: functions that have just started, and functions that worked before, answer before
/// Lambda ends them.
#[tokio::test(flavor = "multi_thread")]
async fn a_service_that_never_answers_leaves_no_dead_letters() {
    const NOT_IN_TIME: &str = "did not end before the function's timeout";
    let Some(stage) = Stage::start().await else { return };
    stage.create(&NODE_CLASSES, node_class("default"));
    let mut warm = HashMap::new();
    for name in ["planner", "lifecycle", "interruption", "catalog"] {
        warm.insert(name, stage.function(&binary(name)).await);
    }
    warm.get_mut("catalog").unwrap().invoke_sample("catalog.schedule.json").await.unwrap();
    warm.get_mut("planner").unwrap().invoke_sample("planner.heartbeat.json").await.unwrap();
    warm.get_mut("lifecycle").unwrap().invoke_sample("lifecycle.sweep.json").await.unwrap();
    warm.get_mut("interruption").unwrap().invoke_sample("interruption.spot-warning.json").await.unwrap();

    // The service that fails, the function and its message, and the number of messages that come again: only those whose work nothing else
    // requests.
    for (service, name, message, handed_back) in [
        (Service::Tables, "planner", "planner.heartbeat.json", 0),
        (Service::Tables, "lifecycle", "lifecycle.sqs.json", 0),
        (Service::Tables, "interruption", "interruption.spot-warning.json", 1),
        (Service::Tables, "catalog", "catalog.schedule.json", 0),
        (Service::Kubernetes, "planner", "planner.heartbeat.json", 0),
        (Service::Kubernetes, "lifecycle", "lifecycle.sweep.json", 0),
        (Service::Kubernetes, "catalog", "catalog.schedule.json", 0),
    ] {
        stage.fail(service, Some(Outage::Hang));
        let mut cold = stage.function(&binary(name)).await;
        for function in [warm.get_mut(name).unwrap(), &mut cold] {
            function.set_timeout(Duration::from_secs(4));
            function.expect_problem(NOT_IN_TIME);
            let answer = function.invoke(&received(message, 1)).await;
            let failed = answer.as_ref().map(|answer| all_failed(answer).len());
            assert_eq!(failed, Ok(handed_back), "{service:?} {message}: {answer:?}");
        }
        stage.fail(service, None);
    }
    stage.fail(Service::Tables, Some(Outage::Hang));
    let answer = warm.get_mut("catalog").unwrap().invoke(&json!({ "required": true })).await;
    assert!(answer.unwrap_err().to_string().contains(NOT_IN_TIME), "Terraform waits for this one");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_poisoned_claims_message_harms_no_other() {
    let Some(stage) = Stage::start().await else { return };
    let mut lifecycle = stage.function(&binary("lifecycle")).await;
    lifecycle.expect_problem("is not a message of the claims queue");
    let record =
        |id: &str, body: &str| json!({ "messageId": id, "body": body, "attributes": {}, "messageAttributes": {} });
    let event = json!({ "Records": [
        record("bad", "{\"kind\":"),
        record("other", "{\"kind\":\"shard\",\"shard\":0,\"number\":1}"),
    ] });
    let answer = lifecycle.invoke(&event).await.unwrap();
    assert_eq!(all_failed(&answer), ["bad"]);
}
