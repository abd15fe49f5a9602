//! Claims one at a time, where one thing fails and the rest has to go on.

use crate::common::{Harness, pod, running_cluster};
use nodeless_fake_aws::{CapacityType, Offering};
use nodeless_fake_kubernetes::resource::{DEVICE_CLASSES, RESOURCE_SLICES};
use nodeless_lifecycle::{LaunchResult, Settings, absorb, begin_termination, prepare};
use nodeless_model::claim::{Condition, LaunchGroup, TerminationReason, condition};
use nodeless_model::test_support::node_claim;
use nodeless_model::{NodeClaim, NodeClaimSpec, Phase, Quantity, labels};
use nodeless_ports::{Clock, ErrorKind};
use serde_json::json;
use std::time::Duration;

/// The only claim, and whether its NodeClaim object shows all its conditions.
async fn only(harness: &Harness) -> (NodeClaim, bool) {
    let claim = harness.records().await.remove(0);
    let node_claims = harness.cluster.node_claims();
    let shown = |one: &Condition| {
        let found = node_claims.get(&claim.name).and_then(|mirror| mirror.conditions.get(&one.kind));
        found.is_some_and(|(status, reason)| status == one.status.as_str() && *reason == one.reason)
    };
    let all = claim.status.conditions.iter().all(shown);
    (claim, all)
}

#[tokio::test]
async fn what_the_nodeclaim_object_missed_is_made_up_for() {
    let mut harness = Harness::new().await;
    harness.cluster.add_pods([pod("web", 3000)]);
    harness.queue_wake().await;
    harness.cloud.spoil_joins(1);
    harness.until("it is launched", |harness| !harness.cluster.node_claims().is_empty()).await;
    harness.faults.fail("cluster mirror claim", ErrorKind::Unavailable);
    harness.repair_joins();
    harness.minutes(2).await;
    let (claim, equal) = only(&harness).await;
    assert_eq!((claim.phase, equal), (Phase::Initialized, false));
    harness.faults.end_outages();
    harness.minutes(2).await;
    assert!(only(&harness).await.1);
}

#[tokio::test]
async fn the_log_line_of_a_launch_and_the_nodepool_have_its_price() {
    let mut harness = running_cluster(2).await;
    let lines: Vec<serde_json::Value> = harness.sink.take();
    let claims = harness.records().await;
    assert_eq!(claims.len(), 2);
    for claim in &claims {
        let instance = claim.status.instance.as_ref().unwrap();
        let launched = |line: &&serde_json::Value| {
            line["event"] == "claim-stepped" && line["to"] == "Launched" && line["claim"] == *claim.name
        };
        let line = lines.iter().find(launched).unwrap();
        let expected = json!({
            "instance": instance.id, "instanceType": instance.instance_type, "zone": instance.zone,
            "capacityType": instance.capacity_type, "pricePerHour": instance.price,
        });
        for (field, value) in expected.as_object().unwrap() {
            assert_eq!(&line[field], value, "{field}: {line}");
        }
        assert!(instance.price > 0.0, "{instance:?}");
    }
    // Written by a plan that finds the nodes.
    harness.minutes(2).await;
    let status = harness.cluster.node_pool_status("default");
    let charged: f64 = status.resources["nodeless.sh/dollars-per-hour"].0.parse().unwrap();
    let price: f64 = claims.iter().map(|claim| claim.status.instance.as_ref().unwrap().price).sum();
    assert!((charged - price).abs() < 1e-6, "{charged} and {price}");
}

#[tokio::test]
async fn a_write_of_ours_that_looks_like_anothers_is_mirrored_all_the_same() {
    let mut harness = running_cluster(1).await;
    let (mut claim, _) = only(&harness).await;
    // The record is written, the answer lost, and the repeated call refused: no effect of that step was run.
    claim.set_condition(
        condition::DRIFTED,
        nodeless_model::ConditionStatus::True,
        "NodePoolDrifted",
        "",
        harness.clock.now(),
    );
    harness.claims.update(&claim, None).await.unwrap();
    assert!(!only(&harness).await.1);
    harness.minutes(2).await;
    assert!(only(&harness).await.1);
}

/// The driver of the devices of a node has no device plugin: its kubelet never reports the resource.
#[tokio::test]
async fn a_node_is_initialized_by_the_devices_that_its_driver_publishes() {
    let mut harness = Harness::new().await;
    harness.cluster.add_pods([pod("web", 3000)]);
    harness.queue_wake().await;
    harness.cloud.spoil_joins(1);
    harness.until("it is launched", |harness| !harness.cluster.node_claims().is_empty()).await;
    let (mut claim, _) = only(&harness).await;
    claim.spec.requests.set("example.com/gpu", Quantity::from_units(1));
    harness.claims.update(&claim, None).await.unwrap();
    harness.repair_joins();
    harness.minutes(2).await;
    let waits = only(&harness).await.0;
    let why = &waits.condition(condition::INITIALIZED).unwrap().message;
    assert_eq!(
        (waits.phase, why.as_str()),
        (Phase::Registered, "Resource example.com/gpu was requested but not registered")
    );
    let node = waits.status.node_name.unwrap();
    let pool = json!({ "name": node, "generation": 1, "resourceSliceCount": 1 });
    let spec = json!({ "driver": "gpu.example.com", "nodeName": node, "pool": pool, "devices": [{ "name": "gpu-0" }] });
    harness.cluster.create(&RESOURCE_SLICES, json!({ "metadata": { "name": "slice" }, "spec": spec }));
    let selectors = json!([{ "cel": { "expression": "device.driver == 'gpu.example.com'" } }]);
    let spec = json!({ "selectors": selectors, "extendedResourceName": "example.com/gpu" });
    harness.cluster.create(&DEVICE_CLASSES, json!({ "metadata": { "name": "gpu" }, "spec": spec }));
    harness.minutes(2).await;
    assert_eq!(only(&harness).await.0.phase, Phase::Initialized);
    assert!(harness.cluster.nodes()[&node].is_initialized());
}

#[tokio::test]
async fn a_claim_that_another_process_writes_is_left_to_it() {
    let mut harness = Harness::new().await;
    harness.cluster.add_pods([pod("web", 3000)]);
    harness.queue_wake().await;
    harness.cloud.spoil_joins(1);
    harness.until("it is launched", |harness| !harness.cluster.node_claims().is_empty()).await;
    let (claim, _) = only(&harness).await;
    // Both find that the node has not joined in time.
    harness.clock.advance_to(harness.clock.time().checked_add(Duration::from_mins(20)).unwrap());
    harness.faults.meet_at("cluster nodes of all", 2);
    drop(harness.faults.take_calls());
    let (first, second) = (harness.reconciler(), harness.reconciler());
    let (one, other) = futures::join!(Box::pin(first.run(&claim.name)), Box::pin(second.run(&claim.name)));
    harness.faults.end_meeting();
    let left = [one.unwrap(), other.unwrap()].into_iter().filter(|run| run.phase == Some(Phase::Launched));
    assert_eq!(
        left.map(|run| (run.requeued, run.waits_for)).collect::<Vec<_>>(),
        [(Some(Duration::from_secs(1)), Vec::new())]
    );
    assert_eq!(harness.faults.take_calls().get("claims get"), None, "it is not read again");
    assert!(only(&harness).await.0.phase.is_leaving());
}

#[tokio::test]
async fn a_recommendation_shows_on_the_nodeclaim_object() {
    let mut harness = running_cluster(1).await;
    let (claim, _) = only(&harness).await;
    let instance = claim.status.instance.unwrap().id;
    let event = format!(
        r#"{{"source":"aws.ec2","detail-type":"EC2 Instance Rebalance Recommendation","detail":{{"instance-id":"{instance}"}}}}"#
    );
    harness.interrupter().run(&event).await.unwrap();
    assert!(!only(&harness).await.1);
    harness.minutes(2).await;
    let (claim, equal) = only(&harness).await;
    assert!(claim.has_condition(condition::REBALANCE_RECOMMENDED) && equal);
}

#[tokio::test]
async fn a_node_works_although_its_instance_may_not_be_tagged() {
    let mut harness = Harness::new().await;
    harness.faults.fail("cloud tag", ErrorKind::Denied);
    harness.cluster.add_pods([pod("web", 3000)]);
    harness.queue_wake().await;
    harness.minutes(3).await;
    let (claim, equal) = only(&harness).await;
    assert_eq!((claim.phase, equal), (Phase::Initialized, true));
    assert!(harness.cluster.nodes().values().all(|node| node.is_initialized()));
    let done = harness.reconciler().run(&claim.name).await.unwrap();
    assert_eq!(done.requeued, None, "not in a loop: the sweep tries again");
    assert!(harness.sink.take().iter().any(|line| line.to_string().contains("tag the instance")));
    harness.faults.end_outages();
    harness.minutes(2).await;
    assert!(harness.cloud.running()[0].tags.contains_key(labels::NODE_CLAIM_TAG));
}

/// The number of errors of tagging instances that are reported while five nodes join.
async fn refused_tags(kind: ErrorKind) -> (Harness, usize) {
    let mut harness = Harness::new().await;
    harness.faults.fail("cloud tag", kind);
    harness.cluster.add_pods((0..5).map(|number| pod(&format!("web-{number}"), 3000)));
    harness.queue_wake().await;
    harness.minutes(3).await;
    assert_eq!(harness.cluster.nodes().values().filter(|node| node.is_initialized()).count(), 5);
    let reported = harness.sink.take().iter().filter(|line| line.to_string().contains("tag the instance")).count();
    (harness, reported)
}

#[tokio::test]
async fn once_tags_are_throttled_a_run_asks_for_no_others() {
    let (_, denied) = refused_tags(ErrorKind::Denied).await;
    let (mut harness, throttled) = refused_tags(ErrorKind::Throttled).await;
    assert!(throttled > 0 && 3 * throttled <= denied, "{throttled} with throttling, {denied} with a denial");
    harness.faults.end_outages();
    harness.minutes(2).await;
    assert!(harness.cloud.running().iter().all(|instance| instance.tags.contains_key(labels::NODE_CLAIM_TAG)));
}

#[tokio::test]
async fn a_pod_whose_deletion_is_refused_holds_up_no_other() {
    let harness = running_cluster(1).await;
    let (mut claim, _) = only(&harness).await;
    let node = claim.status.node_name.clone();
    let bound = |name: &str, grace: u32| {
        let mut pod = pod(name, 10);
        pod["spec"]["nodeName"] = json!(node);
        pod["spec"]["terminationGracePeriodSeconds"] = json!(grace);
        pod
    };
    harness.cluster.remove_all_pods();
    harness.cluster.add_pods([bound("held", 7200), bound("late", 7200), bound("plain", 1)]);
    harness.faults.fail("cluster delete pod default/held", ErrorKind::Denied);
    claim.spec.termination_grace_period = Some(Duration::from_mins(60));
    assert!(begin_termination(&mut claim, TerminationReason::Drifted, "drift", harness.clock.now()));
    harness.claims.update(&claim, None).await.unwrap();
    let done = harness.reconciler().run(&claim.name).await.unwrap();
    assert!(done.waits_for.iter().any(|why| why.contains("cluster delete pod was denied")), "{done:?}");
    assert!(done.requeued.is_some());
    let pods = harness.cluster.pods();
    let left: Vec<&str> = pods.values().filter(|pod| !pod.is_terminating()).map(|pod| pod.name.as_str()).collect();
    assert_eq!(left, ["held"]);
}

/// The members of a launch group whose answer was lost: EC2 has reported that their client token was used.
async fn lost_group(harness: &Harness) -> Vec<String> {
    let lost =
        LaunchResult::Failed { code: "IdempotentParameterMismatch".into(), message: String::new(), retryable: false };
    let mut names = Vec::new();
    for index in 0..3 {
        let mut claim = NodeClaim {
            created: harness.clock.now(),
            version: 0,
            spec: NodeClaimSpec {
                launch_group: Some(LaunchGroup { id: "group".into(), index, size: 3, all_or_none: false }),
                ..NodeClaimSpec::default()
            },
            ..node_claim(&format!("default-{index}"))
        };
        prepare(&mut claim);
        let claim = absorb(&claim, &lost, harness.clock.now(), &Settings::new(crate::common::CLUSTER)).claim;
        harness.claims.create(&claim, None).await.unwrap();
        names.push(claim.name);
    }
    names
}

/// An instance of the launch group `group`, by its id.
fn of_group(harness: &Harness) -> String {
    let tags =
        [(labels::NODE_POOL, "default"), (labels::EC2_NODE_CLASS, "default"), (labels::LAUNCH_GROUP_TAG, "group")];
    harness.cloud.launch(&Offering::new("m6i.large", "us-east-1a", CapacityType::OnDemand), &tags)
}

#[tokio::test]
async fn instances_of_a_lost_answer_are_found_although_some_ended_and_some_are_listed_late() {
    let harness = Harness::new().await;
    let names = lost_group(&harness).await;
    harness.cloud.end(&of_group(&harness));
    let second = of_group(&harness);
    let instance_of = async |name: &String| {
        let claim = harness.claims.get(name).await.unwrap().unwrap();
        claim.status.instance.map(|instance| instance.id)
    };
    harness.reconciler().run(&names[2]).await.unwrap();
    assert_eq!(instance_of(&names[0]).await.as_ref(), Some(&second), "whoever looks, the first that waits gets it");
    let done = harness.reconciler().run(&names[1]).await.unwrap();
    assert_eq!((done.phase, done.requeued.is_some()), (Some(Phase::Reserved), true), "EC2 may list another later");
    let third = of_group(&harness);
    harness.reconciler().run(&names[2]).await.unwrap();
    assert_eq!(instance_of(&names[1]).await.as_ref(), Some(&third));
    assert_eq!(instance_of(&names[0]).await.as_ref(), Some(&second));
    harness.clock.advance_to(harness.clock.time().checked_add(Duration::from_mins(2)).unwrap());
    let done = harness.reconciler().run(&names[2]).await.unwrap();
    assert_eq!(done.phase, None, "there is none for it");
}

#[tokio::test]
async fn launch_templates_that_no_launch_uses_go_a_few_at_a_time() {
    let mut harness = Harness::new().await;
    let days = |days: u64| harness.clock.time().checked_sub(Duration::from_hours(24 * days)).unwrap();
    for (name, used) in [("nodeless/now", days(0)), ("nodeless/lately", days(2))] {
        harness.cloud.put_template(name, used);
    }
    for number in 0..30 {
        harness.cloud.put_template(&format!("nodeless/old-{number:02}"), days(5));
    }
    harness.minutes(30).await;
    assert_eq!(harness.cloud.templates().len(), 7, "an hourly sweep deletes 25: {:?}", harness.cloud.templates());
    harness.minutes(60).await;
    assert_eq!(harness.cloud.templates(), ["nodeless/lately", "nodeless/now"]);
    harness.faults.fail("cloud delete launch templates", ErrorKind::Denied);
    let mut problems = Vec::new();
    for _ in 0..60 {
        problems.extend(harness.sweeper().run().await.unwrap().problems);
        harness.clock.advance_to(harness.clock.time().checked_add(Duration::from_mins(1)).unwrap());
    }
    assert!(problems.len() == 1 && problems[0].contains("launch templates"), "{problems:?}");
}
