//! Limits of NodePools: what is reported about one that cannot be read, what spot takes of a limit in dollars, and what happens to nodes
//! of a NodePool that is at its limit.

use crate::common::{Harness, pod, running_cluster};
use jiff::SignedDuration;
use nodeless_api::ConditionStatus;
use nodeless_model::claim::TerminationReason;
use nodeless_model::{NodeClaim, Quantity};
use nodeless_planner::PlanReport;
use serde_json::json;
use std::time::Duration;

/// The NodePool has as many nodes as it may have.
fn limit_nodes(harness: &Harness, nodes: u32) {
    harness.cluster.patch_node_pool(json!({ "spec": { "limits": { "cpu": null, "nodes": nodes.to_string() } } }));
}

/// The third node is launched while the first one of two is terminated, and an event reports that.
async fn check_replaced_beyond_limit(harness: &Harness, report: &PlanReport, claim: &NodeClaim) {
    assert_eq!(report.created.len(), 1, "{report:?}");
    assert!(harness.records().await.iter().any(|one| one.name == claim.name), "it is still there");
    let reported = harness.cluster.events_of("LimitPassedWhileNodesLeave").remove(0);
    assert_eq!((reported.object.kind.as_str(), reported.is_warning()), ("NodePool", false));
    assert!(
        reported.message.contains("nodes 3 of 2") && reported.message.contains(&claim.name),
        "{}",
        reported.message
    );
}

/// The NodePool launches spot and on-demand nodes up to so many dollars, and none is disrupted.
fn limit_dollars(harness: &Harness, dollars: &str) {
    harness.cluster.patch_node_pool(json!({ "spec": {
        "template": { "spec": { "requirements": [] } },
        "disruption": { "consolidateAfter": "Never" },
        "limits": { "cpu": null, "nodeless.sh/dollars-per-hour": dollars },
    } }));
}

#[tokio::test]
async fn an_invalid_limit_is_reported_in_the_condition_and_an_event() {
    let harness = Harness::new().await;
    limit_dollars(&harness, "-1");
    harness.cluster.add_pods([pod("web", 1000)]);
    let report = harness.planner().run().await.unwrap();
    assert!(report.created.is_empty());
    let conditions = harness.cluster.node_pool_status("default").conditions;
    let events = harness.cluster.events();
    let condition = |kind: &str| conditions.iter().find(|condition| condition.type_ == kind).unwrap();
    let (validation, ready) = (condition("ValidationSucceeded"), condition("Ready"));
    assert_eq!((validation.status, validation.reason.as_str()), (ConditionStatus::False, "NodePoolValidationFailed"));
    assert!(validation.message.contains("spec.limits[nodeless.sh/dollars-per-hour]"), "{}", validation.message);
    assert_eq!((ready.status, ready.reason.as_str()), (ConditionStatus::False, "UnhealthyDependents"));
    assert!(ready.message.contains("ValidationSucceeded=False"), "{}", ready.message);
    let reported = events.iter().find(|event| event.object.kind == "NodePool" && event.reason == "ValidationSucceeded");
    assert!(reported.unwrap().message.contains("\"-1\" is no amount of money"), "{reported:?}");
    let of_pod = events.iter().find(|event| event.object.kind == "Pod" && event.object.name == "web");
    assert!(of_pod.unwrap().message.contains("nodeless.sh/dollars-per-hour"), "{of_pod:?}");
}

#[tokio::test]
async fn spot_nodes_fill_a_limit_in_dollars_by_what_they_cost() {
    let mut harness = Harness::new().await;
    // About the price of three on-demand nodes of the cheapest type.
    limit_dollars(&harness, "0.30");
    harness.cluster.add_pods((0..12).map(|number| pod(&format!("web-{number}"), 1500)));
    harness.queue_wake().await;
    for _ in 0..60 {
        harness.tick().await;
        let usage = harness.claims.usage().await.unwrap();
        let used = usage.get("default").map_or(0.0, |usage| usage.dollars_per_hour);
        let runs: f64 = harness
            .records()
            .await
            .iter()
            .filter_map(|claim| claim.status.instance.as_ref())
            .map(|instance| instance.price)
            .sum();
        assert!(runs <= used + 1e-6 && used <= 0.3 + 1e-6, "{runs} run, {used} are charged");
    }
    let records = harness.records().await;
    let instances: Vec<_> = records.iter().filter_map(|claim| claim.status.instance.as_ref()).collect();
    assert!(instances.iter().all(|instance| instance.capacity_type.as_str() == "spot"), "{instances:?}");
    // The charge came down to what each costs, so that the limit is used up.
    let cheapest = instances.iter().map(|instance| instance.price).fold(f64::INFINITY, f64::min);
    let spent: f64 = instances.iter().map(|instance| instance.price).sum();
    assert!(spent + 2.0 * cheapest > 0.3, "{spent} of 0.3, and the cheapest costs {cheapest}");
    for claim in &records {
        let price = claim.status.instance.as_ref().unwrap().price;
        assert!((claim.spec.charge.dollars_per_hour - price).abs() < 1e-9);
    }
}

#[tokio::test]
async fn at_a_full_limit_an_interrupted_node_has_its_replacement_at_once() {
    let harness = running_cluster(2).await;
    limit_nodes(&harness, 2);
    let claim = harness.records().await.remove(0);
    let id = claim.status.instance.as_ref().unwrap().id.clone();
    let kind = "EC2 Spot Instance Interruption Warning";
    let event = format!(r#"{{"source":"aws.ec2","detail-type":"{kind}","detail":{{"instance-id":"{id}"}}}}"#);
    harness.interrupter().run(&event).await.unwrap();
    harness.reconciler().run(&claim.name).await.unwrap();
    // The evicted pod stops, and its ReplicaSet creates another.
    harness.cluster.advance(Duration::from_secs(3));
    assert_eq!(harness.claims.usage().await.unwrap()["default"].resources.get("nodes"), Quantity::from_units(1));
    let report = harness.planner().run().await.unwrap();
    check_replaced_beyond_limit(&harness, &report, &claim).await;
}

#[tokio::test]
async fn the_price_of_a_nodepool_includes_a_node_under_forceful_disruption() {
    let harness = running_cluster(2).await;
    let claims = harness.records().await;
    let id = &claims[0].status.instance.as_ref().unwrap().id;
    let kind = "EC2 Spot Instance Interruption Warning";
    let event = format!(r#"{{"source":"aws.ec2","detail-type":"{kind}","detail":{{"instance-id":"{id}"}}}}"#);
    harness.interrupter().run(&event).await.unwrap();
    harness.reconciler().run(&claims[0].name).await.unwrap();
    assert_eq!(harness.claims.usage().await.unwrap()["default"].resources.get("nodes"), Quantity::from_units(1));
    harness.planner().run().await.unwrap();
    let status = harness.cluster.node_pool_status("default");
    let written: f64 = status.resources["nodeless.sh/dollars-per-hour"].0.parse().unwrap();
    let price: f64 = claims.iter().map(|claim| claim.status.instance.as_ref().unwrap().price).sum();
    assert!((written - price).abs() < 1e-6, "{written} and {price}");
}

#[tokio::test]
async fn at_a_full_limit_an_expired_node_has_its_replacement_at_once() {
    let harness = running_cluster(2).await;
    limit_nodes(&harness, 2);
    let claim = harness.records().await.remove(0);
    // Both nodes expire, but only this one is reconciled.
    harness.clock.advance_to(harness.clock.time() + SignedDuration::from_hours(721));
    harness.reconciler().run(&claim.name).await.unwrap();
    let record = harness.records().await.into_iter().find(|one| one.name == claim.name).unwrap();
    assert_eq!(record.status.termination.unwrap().reason, TerminationReason::Expired);
    harness.cluster.advance(Duration::from_secs(3));
    assert_eq!(harness.claims.usage().await.unwrap()["default"].resources.get("nodes"), Quantity::from_units(1));
    let report = harness.planner().run().await.unwrap();
    check_replaced_beyond_limit(&harness, &report, &claim).await;
}
