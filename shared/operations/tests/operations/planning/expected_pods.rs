//! Nodes for the pods that a Deployment is about to create, when only the first of them exists.

use crate::common::{Harness, pod};
use nodeless_fake_kubernetes::resource::{DEPLOYMENTS, PODS, REPLICA_SETS, RESOURCE_QUOTAS, Resource};
use nodeless_model::{ExpectedPod, ExpectedPods};
use nodeless_planner::PlanSettings;
use serde_json::{Value, json};

async fn harness() -> Harness {
    let mut harness = Harness::new().await;
    harness.set(PlanSettings { expected_pods: ExpectedPods::Samples, ..PlanSettings::default() });
    harness
}

fn owner(harness: &Harness, resource: &Resource, name: &str) -> Value {
    let uid = harness.cluster.get(resource, name)["metadata"]["uid"].clone();
    json!([{ "apiVersion": "apps/v1", "kind": resource.kind, "name": name, "uid": uid, "controller": true }])
}

/// A Deployment with this template of its pods, of which the controllers have created one, and the kube-scheduler has marked it.
fn begin(harness: &Harness, replicas: u32, template: &Value) {
    let labels = json!({ "app": "web", "pod-template-hash": "a" });
    let of = |labels: &Value, spec: &Value| {
        json!({ "replicas": replicas, "selector": { "matchLabels": labels },
            "template": { "metadata": { "labels": labels }, "spec": spec } })
    };
    harness
        .cluster
        .create(&DEPLOYMENTS, json!({ "metadata": { "name": "web" }, "spec": of(&json!({ "app": "web" }), template) }));
    let metadata = json!({ "name": "web-a", "labels": labels, "ownerReferences": owner(harness, &DEPLOYMENTS, "web") });
    harness.cluster.create(&REPLICA_SETS, json!({ "metadata": metadata, "spec": of(&labels, template) }));
    let metadata =
        json!({ "name": "web-a-1", "labels": labels, "ownerReferences": owner(harness, &REPLICA_SETS, "web-a") });
    harness.cluster.create(&PODS, json!({ "metadata": metadata, "spec": pod("web", 1000)["spec"] }));
    let marked = json!([{ "type": "PodScheduled", "status": "False", "reason": "Unschedulable" }]);
    harness.cluster.patch_status(&PODS, "web-a-1", json!({ "conditions": marked }));
}

/// How many pods nodes were launched for, and how many of them are expected.
async fn launched_for(harness: &Harness) -> (usize, usize) {
    let claims = harness.records().await;
    let pods: Vec<&String> = claims.iter().flat_map(|claim| &claim.spec.nominated_pods).collect();
    (pods.len(), pods.iter().filter(|pod| ExpectedPod::parse(pod).is_some()).count())
}

#[tokio::test]
async fn the_plan_for_the_first_pod_of_a_deployment_launches_for_all() {
    let mut harness = harness().await;
    begin(&harness, 60, &pod("web", 1000)["spec"]);
    let report = harness.planner().run().await.unwrap();
    assert_eq!((report.pods, report.unschedulable.len()), (1, 0), "{report:#?}");
    assert_eq!(launched_for(&harness).await, (60, 59));
    let launched = harness.records().await.len();
    harness.until("all pods run", |harness| harness.cluster.bound() == 60).await;
    harness.minutes(2).await;
    assert_eq!(harness.history.len(), launched, "nothing was launched again: {:#?}", harness.history);
    assert_eq!(harness.records().await.len(), launched, "no node was empty");
}

#[tokio::test]
async fn nothing_is_launched_for_pods_that_a_quota_refuses() {
    let mut harness = harness().await;
    harness
        .cluster
        .create(&RESOURCE_QUOTAS, json!({ "metadata": { "name": "q" }, "spec": { "hard": { "pods": "3" } } }));
    harness.cluster.converge();
    begin(&harness, 100, &pod("web", 1000)["spec"]);
    harness.cluster.patch_status(&RESOURCE_QUOTAS, "q", json!({ "hard": { "pods": "3" }, "used": { "pods": "1" } }));
    harness.planner().run().await.unwrap();
    assert_eq!(launched_for(&harness).await, (3, 2));
    let launched = harness.records().await.len();
    harness.until("three pods run", |harness| harness.cluster.bound() == 3).await;
    harness.minutes(5).await;
    assert_eq!(harness.history.len(), launched, "{:#?}", harness.history);
}

#[tokio::test]
async fn nodes_of_pods_that_do_not_come_are_removed_and_not_launched_again() {
    let mut harness = harness().await;
    let mut refused = pod("web", 1000)["spec"].clone();
    refused["priorityClassName"] = json!("missing");
    begin(&harness, 10, &refused);
    harness.planner().run().await.unwrap();
    assert_eq!(launched_for(&harness).await, (10, 9));
    let launched = harness.records().await.len();
    assert!(launched > 1);
    harness.until("the pod runs", |harness| harness.cluster.bound() == 1).await;
    harness.minutes(15).await;
    assert_eq!((harness.cluster.bound(), harness.cloud.alive().len()), (1, 1));
    assert_eq!(harness.history.len(), launched, "{:#?}", harness.history);
}
