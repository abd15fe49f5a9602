//! ProvisioningRequests: capacity for all pods or for none, and what is held for them.

use crate::common::{Harness, pod};
use nodeless_api::{Condition, ConditionStatus};
use nodeless_fake_aws::OfferingPattern;
use nodeless_fake_kubernetes::resource::{POD_TEMPLATES, RESOURCE_QUOTAS};
use nodeless_model::labels::{CONSUMES_REQUEST, CONSUMES_REQUEST_DEPRECATED};
use nodeless_model::provisioning_request::SINGLE_TOPOLOGY;
use nodeless_model::{ErrorKind, labels};
use nodeless_ports::{CatalogSource as _, Configuration as _};
use nodeless_world::resources::{NODE_CLASSES, PROVISIONING_REQUESTS};
use serde_json::{Value, json};

const CHECK: &str = "check-capacity.autoscaling.x-k8s.io";
const ATOMIC: &str = "best-effort-atomic-scale-up.autoscaling.x-k8s.io";

/// Creates a PodTemplate of pods that need so much.
fn add_template(harness: &Harness, name: &str, milli_cpu: i64) {
    let template = json!({ "spec": pod(name, milli_cpu)["spec"] });
    harness.cluster.create(&POD_TEMPLATES, json!({ "metadata": { "name": name }, "template": template }));
}

/// Creates a request of so many pods of the PodTemplate `worker`.
fn add_request(harness: &Harness, name: &str, class: &str, count: u32, parameters: &Value) {
    let spec = json!({
        "provisioningClassName": class, "parameters": parameters,
        "podSets": [{ "count": count, "podTemplateRef": { "name": "worker" } }],
    });
    harness.cluster.create(&PROVISIONING_REQUESTS, json!({ "metadata": { "name": name }, "spec": spec }));
}

/// A pod that uses the capacity of a request.
fn consumer(name: &str, milli_cpu: i64, key: &str, request: &str) -> Value {
    let mut pod = pod(name, milli_cpu);
    pod["metadata"]["annotations"] = json!({ key: request });
    pod
}

fn conditions(harness: &Harness, name: &str) -> Vec<Condition> {
    let conditions = harness.cluster.get(&PROVISIONING_REQUESTS, name)["status"]["conditions"].clone();
    if conditions.is_null() { Vec::new() } else { serde_json::from_value(conditions).unwrap() }
}

/// Status and reason of a condition.
fn condition(harness: &Harness, name: &str, kind: &str) -> Option<(ConditionStatus, String)> {
    let found = conditions(harness, name).into_iter().find(|condition| condition.type_ == kind)?;
    Some((found.status, found.reason))
}

fn is(harness: &Harness, name: &str, kind: &str, reason: &str) -> bool {
    condition(harness, name, kind) == Some((ConditionStatus::True, reason.to_owned()))
}

fn is_not(harness: &Harness, name: &str, reason: &str) -> bool {
    condition(harness, name, "Provisioned") == Some((ConditionStatus::False, reason.to_owned()))
}

/// Pods of 3 CPUs: one fits on each of the larger instance types, and none on the small one.
async fn with_workers() -> Harness {
    let harness = Harness::new().await;
    add_template(&harness, "worker", 3000);
    harness
}

#[tokio::test]
async fn all_nodes_of_a_request_are_launched_and_its_pods_take_them() {
    let mut harness = with_workers().await;
    add_request(&harness, "train", ATOMIC, 3, &json!({}));
    let report = harness.planner().run().await.unwrap();
    assert_eq!((report.pods, report.created.len()), (0, 3), "virtual pods are no pods: {report:?}");
    assert!(is(&harness, "train", "Accepted", "Accepted") && is_not(&harness, "train", "CapacityIsLaunching"));
    harness.until("it is provisioned", |harness| is(harness, "train", "Provisioned", "CapacityIsProvisioned")).await;
    assert_eq!((harness.cloud.launched(), harness.cloud.running().len()), (3, 3));
    harness.minutes(3).await;
    assert_eq!(harness.cloud.alive().len(), 3, "empty nodes stay for the pods to come");

    let keys = [CONSUMES_REQUEST, CONSUMES_REQUEST_DEPRECATED];
    harness.cluster.add_pods(keys.map(|key| consumer(&format!("of-{}", key.len()), 3000, key, "train")));
    assert_eq!(harness.cluster.bound(), 2);
    harness.minutes(2).await;
    assert_eq!(harness.cloud.alive().len(), 3, "the third pod may still come");
    assert_eq!(condition(&harness, "train", "BookingExpired"), None);
    harness.cluster.add_pods([consumer("last", 3000, CONSUMES_REQUEST, "train")]);
    harness
        .until("its pods are there", |harness| is(harness, "train", "BookingExpired", "CapacityBookingConsumed"))
        .await;
    harness.minutes(2).await;
    assert_eq!((harness.cloud.launched(), harness.cluster.bound()), (3, 3));
}

#[tokio::test]
async fn without_capacity_for_all_pods_nothing_is_launched_for_them() {
    let mut harness = with_workers().await;
    harness.cluster.patch_node_pool(json!({ "spec": { "limits": { "cpu": "10" } } }));
    add_request(&harness, "large", ATOMIC, 3, &json!({}));
    harness.cluster.advance(std::time::Duration::from_secs(5));
    add_request(&harness, "small", ATOMIC, 1, &json!({}));
    harness.cluster.add_pods([pod("web", 500)]);
    let report = harness.planner().run().await.unwrap();
    assert!(is_not(&harness, "large", "CapacityIsNotFound") && is_not(&harness, "small", "CapacityIsLaunching"));
    let large = conditions(&harness, "large");
    let why = &large.iter().find(|condition| condition.type_ == "Provisioned").unwrap().message;
    assert!(why.contains("of 3 pods, so that none is launched") && why.contains("limit"), "{why}");
    assert!(report.created.len() <= 2 && report.unschedulable.is_empty(), "for the pod and the small one: {report:?}");
    harness
        .until("it is provisioned", |harness| {
            condition(harness, "small", "Provisioned").unwrap().0 == ConditionStatus::True
        })
        .await;
    assert!(harness.cloud.launched() <= 2 && harness.cluster.bound() == 1);
    harness.cluster.patch_node_pool(json!({ "spec": { "limits": { "cpu": "100" } } }));
    harness
        .until("the other is provisioned", |harness| is(harness, "large", "Provisioned", "CapacityIsProvisioned"))
        .await;
}

#[tokio::test]
async fn of_two_requests_for_the_same_capacity_the_older_gets_it() {
    let mut harness = with_workers().await;
    harness.cluster.patch_node_pool(json!({ "spec": { "limits": { "cpu": "8" } } }));
    add_request(&harness, "z-first", ATOMIC, 2, &json!({}));
    harness.cluster.advance(std::time::Duration::from_secs(5));
    add_request(&harness, "a-second", ATOMIC, 2, &json!({}));
    let report = harness.planner().run().await.unwrap();
    assert_eq!(report.created.len(), 2);
    assert!(is_not(&harness, "z-first", "CapacityIsLaunching") && is_not(&harness, "a-second", "CapacityIsNotFound"));
    harness.until("it is provisioned", |harness| is(harness, "z-first", "Provisioned", "CapacityIsProvisioned")).await;
    assert!(is_not(&harness, "a-second", "CapacityIsNotFound"));
    assert_eq!(harness.cloud.launched(), 2);
}

#[tokio::test]
async fn a_launch_that_fails_is_tried_again_and_nodes_do_not_wait_for_it() {
    let mut harness = with_workers().await;
    in_two_zones(&harness).await;
    harness.cloud.set_capacity(Some(1));
    add_request(&harness, "train", ATOMIC, 2, &json!({}));
    harness.until("one is launched", |harness| harness.cloud.launched() == 1).await;
    harness.until("the other is not", |harness| is_not(harness, "train", "CapacityIsNotFound")).await;
    harness.until("the node is given back", |harness| harness.cloud.alive().is_empty()).await;
    harness.cloud.set_capacity(None);
    harness
        .until("it is provisioned", |harness| {
            condition(harness, "train", "Provisioned").is_some_and(|(status, _)| status == ConditionStatus::True)
        })
        .await;
    assert_eq!(harness.cloud.running().len(), 2);
}

#[tokio::test]
async fn in_a_single_zone_ec2_launches_all_nodes_of_a_request_or_none() {
    let mut harness = with_workers().await;
    harness.cloud.set_capacity(Some(1));
    add_request(&harness, "train", ATOMIC, 2, &json!({}));
    // Another pod's node is no part of it, and is launched.
    harness.cluster.add_pods([pod("other", 3000)]);
    harness.until("the capacity is missing", |harness| is_not(harness, "train", "CapacityIsNotFound")).await;
    harness.minutes(3).await;
    assert_eq!(harness.cloud.launched(), 1, "no node of the request");
    harness.cloud.set_capacity(None);
    harness.until("it is provisioned", |harness| is(harness, "train", "Provisioned", "CapacityIsProvisioned")).await;
    assert_eq!(harness.cloud.launched(), 3);
}

#[tokio::test]
async fn a_request_that_is_not_provisioned_in_time_fails_and_its_nodes_are_given_back() {
    let mut harness = with_workers().await;
    harness.cloud.set_capacity(Some(1));
    add_request(&harness, "train", ATOMIC, 2, &json!({ "ValidUntilSeconds": "120" }));
    harness.until("it fails", |harness| is(harness, "train", "Failed", "Expired")).await;
    harness.cloud.set_capacity(None);
    harness.until("its node is given back", |harness| harness.cloud.alive().is_empty()).await;
    let launched = harness.cloud.launched();
    harness.minutes(5).await;
    assert_eq!(harness.cloud.launched(), launched, "nothing is launched for a request that failed");
}

/// Whatever write of a plan is its last, the next plans launch no second time.
#[tokio::test]
async fn a_plan_that_ends_early_launches_nothing_twice() {
    let begin = async || {
        let harness = with_workers().await;
        add_request(&harness, "train", ATOMIC, 2, &json!({}));
        harness.faults.take_writes();
        harness
    };
    let mut harness = begin().await;
    harness.process(async |harness| harness.planner().run().await.unwrap()).await.unwrap();
    let writes = harness.faults.take_writes();
    assert!(writes >= 3, "only {writes} writes");
    for write in 0..writes {
        let mut harness = begin().await;
        harness.faults.kill_at(write, true);
        harness.process(async |harness| drop(harness.planner().run().await)).await;
        assert_eq!(harness.killed, 1);
        harness
            .until("it is provisioned", |harness| {
                condition(harness, "train", "Provisioned").is_some_and(|(status, _)| status == ConditionStatus::True)
            })
            .await;
        assert_eq!(harness.cloud.launched(), 2, "the process ends after write {write}");
    }
}

#[tokio::test]
async fn a_status_that_cannot_be_written_is_written_by_the_next_plan() {
    let harness = with_workers().await;
    add_request(&harness, "train", ATOMIC, 2, &json!({}));
    harness.faults.fail("cluster provisioning request status", ErrorKind::Unavailable);
    assert_eq!(harness.planner().run().await.unwrap().created.len(), 2);
    assert_eq!(conditions(&harness, "train"), []);
    harness.faults.end_outages();
    assert_eq!(harness.planner().run().await.unwrap().created.len(), 0);
    assert!(is_not(&harness, "train", "CapacityIsLaunching"));
}

#[tokio::test]
async fn a_check_finds_capacity_that_exists_and_books_it_for_ten_minutes() {
    let mut harness = with_workers().await;
    add_request(&harness, "first", CHECK, 1, &json!({}));
    add_request(&harness, "impatient", CHECK, 1, &json!({ "noRetry": "true" }));
    let report = harness.planner().run().await.unwrap();
    assert_eq!(report.created.len(), 0, "a check launches nothing");
    assert!(is_not(&harness, "first", "CapacityIsNotFound"));
    assert!(is(&harness, "impatient", "Failed", "CapacityIsNotFound"));

    harness.cluster.add_pods([pod("web", 3000)]);
    harness.until("the pod runs", |harness| harness.cluster.bound() == 1).await;
    harness.cluster.remove_all_pods();
    harness.until("there is capacity", |harness| is(harness, "first", "Provisioned", "CapacityIsFound")).await;
    add_request(&harness, "second", CHECK, 1, &json!({}));
    harness.until("it is evaluated", |harness| is_not(harness, "second", "CapacityIsNotFound")).await;
    harness.minutes(5).await;
    assert_eq!(harness.cloud.alive().len(), 1, "the empty node stays while its capacity is booked");
    assert!(is_not(&harness, "second", "CapacityIsNotFound"));
    harness.cluster.delete(&PROVISIONING_REQUESTS, "second");
    let expired = |harness: &Harness| is(harness, "first", "BookingExpired", "CapacityReservationTimeExpired");
    harness.until("the booking ends", expired).await;
    harness.until("the empty node is removed", |harness| harness.cloud.alive().is_empty()).await;
    assert_eq!(harness.cloud.launched(), 1);
}

#[tokio::test]
async fn pods_of_a_request_get_no_nodes_of_their_own_until_it_ends() {
    let mut harness = with_workers().await;
    add_request(&harness, "train", CHECK, 1, &json!({ "ValidUntilSeconds": "120" }));
    harness.cluster.add_pods([consumer("worker", 3000, CONSUMES_REQUEST, "train")]);
    let report = harness.planner().run().await.unwrap();
    assert!(report.created.is_empty(), "{report:?}");
    assert!(report.unschedulable[0].1.contains("ProvisioningRequest default/train"), "{report:?}");
    harness.until("it fails", |harness| is(harness, "train", "Failed", "Expired")).await;
    harness.until("the pod runs", |harness| harness.cluster.bound() == 1).await;
    assert_eq!(harness.cloud.launched(), 1);
}

#[tokio::test]
async fn a_request_without_its_template_fails_after_a_minute() {
    let mut harness = Harness::new().await;
    add_request(&harness, "train", ATOMIC, 1, &json!({}));
    harness.planner().run().await.unwrap();
    assert_eq!(conditions(&harness, "train"), [], "Kueue creates PodTemplates after the request");
    harness.until("it fails", |harness| is(harness, "train", "Failed", "FailedToCreatePods")).await;
    assert!(conditions(&harness, "train")[0].message.contains("PodTemplate worker does not exist"));
    assert_eq!(condition(&harness, "train", "Accepted"), None);

    add_request(&harness, "again", ATOMIC, 1, &json!({}));
    harness.planner().run().await.unwrap();
    add_template(&harness, "worker", 3000);
    harness.until("it is provisioned", |harness| is(harness, "again", "Provisioned", "CapacityIsProvisioned")).await;
}

/// The NodePool may launch in two zones.
async fn in_two_zones(harness: &Harness) {
    let subnets = ["us-east-1a", "us-east-1b"].map(|zone| json!({ "id": harness.cloud.subnet(zone) }));
    harness.cluster.patch(&NODE_CLASSES, "default", json!({ "spec": { "subnetSelectorTerms": subnets } }));
    let class = harness.cluster.node_class();
    let mut status = harness.cloud.source().resolve(&class).await.unwrap();
    status.conditions = class.status.unwrap().conditions;
    status.conditions.iter_mut().for_each(|condition| condition.observed_generation = class.metadata.generation);
    harness.cluster.port.write_node_class_status("default", &status, None).await.unwrap();
}

#[tokio::test]
async fn all_nodes_of_a_request_can_be_kept_in_one_zone() {
    let mut harness = with_workers().await;
    in_two_zones(&harness).await;
    // In one zone there is capacity for one node only.
    let pattern = |zone: &str| OfferingPattern { zone: Some(zone.to_owned()), ..OfferingPattern::default() };
    harness.cloud.ec2.run_short(pattern("us-east-1a"), 1);
    add_request(&harness, "train", ATOMIC, 3, &json!({ SINGLE_TOPOLOGY: labels::ZONE }));
    let provisioned = |harness: &Harness| {
        condition(harness, "train", "Provisioned").is_some_and(|(status, _)| status == ConditionStatus::True)
    };
    harness.until("it is provisioned", provisioned).await;
    harness.minutes(3).await;
    let zones: Vec<String> = harness.cloud.running().into_iter().map(|instance| instance.zone).collect();
    assert_eq!(zones, ["us-east-1b"; 3]);
}

#[tokio::test]
async fn a_request_for_another_domain_than_a_zone_fails() {
    let harness = with_workers().await;
    add_request(&harness, "train", ATOMIC, 2, &json!({ SINGLE_TOPOLOGY: "kubernetes.io/hostname" }));
    harness.planner().run().await.unwrap();
    assert!(is(&harness, "train", "Failed", "FailedToCreatePods"));
    assert!(conditions(&harness, "train")[0].message.contains("topology.kubernetes.io/zone"));
}

#[tokio::test]
async fn requests_of_other_classes_are_left_alone() {
    let harness = with_workers().await;
    add_request(&harness, "theirs", "queued-provisioning.gke.io", 1, &json!({}));
    harness.cluster.add_pods([consumer("worker", 3000, CONSUMES_REQUEST, "theirs")]);
    let report = harness.planner().run().await.unwrap();
    assert_eq!((conditions(&harness, "theirs"), report.created.len()), (vec![], 1), "a pod of it is a pod like others");
}

fn add_quota(harness: &Harness, hard: &Value) {
    harness.cluster.create(&RESOURCE_QUOTAS, json!({ "metadata": { "name": "team" }, "spec": { "hard": hard } }));
}

fn message(harness: &Harness, name: &str, kind: &str) -> String {
    let found = conditions(harness, name).into_iter().find(|condition| condition.type_ == kind);
    found.map(|condition| condition.message).unwrap_or_default()
}

#[tokio::test]
async fn a_request_gets_nothing_that_the_quota_of_its_namespace_does_not_allow() {
    let mut harness = with_workers().await;
    add_quota(&harness, &json!({ "requests.cpu": "8" }));
    add_request(&harness, "large", ATOMIC, 3, &json!({}));
    harness.cluster.advance(std::time::Duration::from_secs(5));
    add_request(&harness, "small", ATOMIC, 2, &json!({}));
    harness.cluster.advance(std::time::Duration::from_secs(5));
    add_request(&harness, "check", CHECK, 1, &json!({}));
    let report = harness.planner().run().await.unwrap();
    assert_eq!(report.created.len(), 2, "{report:?}");
    assert!(is_not(&harness, "small", "CapacityIsLaunching"));
    for refused in ["large", "check"] {
        assert!(
            is_not(&harness, refused, "CapacityIsNotFound")
                && is(&harness, refused, "LimitedByQuotas", "ResourceQuotasAllocated")
        );
        for kind in ["Provisioned", "LimitedByQuotas"] {
            let why = message(&harness, refused, kind);
            assert!(why.contains("ResourceQuota default/team") && why.contains("requests.cpu"), "{why}");
        }
    }
    assert_eq!(condition(&harness, "small", "LimitedByQuotas"), None);

    harness.cluster.patch(&RESOURCE_QUOTAS, "team", json!({ "spec": { "hard": { "requests.cpu": "30" } } }));
    harness
        .until("all are provisioned", |harness| {
            ["large", "small", "check"].iter().all(|name| {
                condition(harness, name, "Provisioned").is_some_and(|(status, _)| status == ConditionStatus::True)
            })
        })
        .await;
    let limited = condition(&harness, "large", "LimitedByQuotas").unwrap();
    assert_eq!(limited, (ConditionStatus::False, "ResourceQuotasAllocated".to_owned()));
}

#[tokio::test]
async fn pods_that_take_the_capacity_of_a_request_count_once_for_the_quota() {
    let mut harness = with_workers().await;
    add_quota(&harness, &json!({ "requests.cpu": "9", "pods": "3" }));
    add_request(&harness, "train", ATOMIC, 3, &json!({}));
    harness.until("it is provisioned", |harness| is(harness, "train", "Provisioned", "CapacityIsProvisioned")).await;
    harness.cluster.add_pods(["a", "b"].map(|name| consumer(name, 3000, CONSUMES_REQUEST, "train")));
    assert_eq!(harness.cluster.bound(), 2);
    harness.minutes(2).await;
    assert_eq!(
        condition(&harness, "train", "LimitedByQuotas"),
        None,
        "{}",
        message(&harness, "train", "LimitedByQuotas")
    );
    assert_eq!(harness.cloud.alive().len(), 3, "the third pod may still come");
    // Another pod uses up the quota, so that no third pod of the request can be created.
    harness.cluster.patch(&RESOURCE_QUOTAS, "team", json!({ "spec": { "hard": { "pods": "2" } } }));
    harness.minutes(2).await;
    assert!(is(&harness, "train", "LimitedByQuotas", "ResourceQuotasAllocated"));
    assert_eq!(harness.cloud.alive().len(), 2, "nothing is held for it");
}

#[tokio::test]
async fn small_pods_do_not_hide_the_large_pods_of_a_request_from_a_quota() {
    let harness = with_workers().await;
    add_quota(&harness, &json!({ "requests.cpu": "1", "pods": "9" }));
    add_request(&harness, "train", ATOMIC, 3, &json!({}));
    harness.cluster.add_pods(["a", "b", "c"].map(|name| {
        let mut small = consumer(name, 100, CONSUMES_REQUEST, "train");
        small["spec"]["schedulingGates"] = json!([{ "name": "example.com/never" }]);
        small
    }));
    let report = harness.planner().run().await.unwrap();
    assert_eq!(report.created, Vec::<String>::new());
    assert!(is(&harness, "train", "LimitedByQuotas", "ResourceQuotasAllocated"));
}

#[tokio::test]
async fn a_status_of_the_future_holds_no_nodes() {
    let mut harness = with_workers().await;
    add_request(&harness, "train", ATOMIC, 2, &json!({}));
    harness.until("it is provisioned", |harness| is(harness, "train", "Provisioned", "CapacityIsProvisioned")).await;
    harness.cluster.change_status(&PROVISIONING_REQUESTS, "train", |status| {
        for condition in status["conditions"].as_array_mut().unwrap() {
            condition["lastTransitionTime"] = json!("2099-01-01T00:00:00Z");
        }
    });
    harness.minutes(30).await;
    assert!(is(&harness, "train", "BookingExpired", "CapacityReservationTimeExpired"));
    assert_eq!(harness.cloud.alive().len(), 0);
}
