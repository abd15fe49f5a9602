//! NodeOverlays, CapacityBuffers and volumes in a plan, and the statuses and events about them.

use crate::common::{Harness, pod};
use nodeless_api::{CapacityBufferStatus, ConditionStatus};
use nodeless_fake_kubernetes::resource::{
    LIMIT_RANGES, PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, POD_TEMPLATES, REPLICA_SETS, RESOURCE_QUOTAS,
};
use nodeless_model::labels;
use nodeless_world::resources::{CAPACITY_BUFFERS, NODE_OVERLAYS, NODE_POOLS};
use serde_json::{Value, json};
use std::time::Duration;

/// Creates a NodeOverlay of one instance type that makes this change.
fn add_overlay(harness: &Harness, name: &str, instance_type: &str, change: &Value) {
    let mut spec = change.clone();
    spec["requirements"] = json!([{ "key": labels::INSTANCE_TYPE, "operator": "In", "values": [instance_type] }]);
    harness.cluster.create(&NODE_OVERLAYS, json!({ "metadata": { "name": name }, "spec": spec }));
}

/// Creates a CapacityBuffer of so many pods of the PodTemplate `chunk`.
fn add_buffer(harness: &Harness, name: &str, chunks: u32) {
    let spec = json!({ "podTemplateRef": { "name": "chunk" }, "replicas": chunks });
    harness.cluster.create(&CAPACITY_BUFFERS, json!({ "metadata": { "name": name }, "spec": spec }));
}

/// Creates the PodTemplate `chunk`.
fn add_template(harness: &Harness, milli_cpu: i64) {
    let template = json!({ "spec": pod("chunk", milli_cpu)["spec"] });
    harness.cluster.create(&POD_TEMPLATES, json!({ "metadata": { "name": "chunk" }, "template": template }));
}

fn buffer_status(harness: &Harness, name: &str) -> CapacityBufferStatus {
    serde_json::from_value(harness.cluster.get(&CAPACITY_BUFFERS, name)["status"].clone()).unwrap()
}

fn overlay_conditions(harness: &Harness, name: &str) -> Vec<nodeless_api::Condition> {
    serde_json::from_value(harness.cluster.get(&NODE_OVERLAYS, name)["status"]["conditions"].clone()).unwrap()
}

/// Status and reason of each condition.
fn conditions(list: &[nodeless_api::Condition]) -> Vec<(String, ConditionStatus, String)> {
    list.iter().map(|one| (one.type_.clone(), one.status, one.reason.clone())).collect()
}

#[tokio::test]
async fn an_overlay_changes_what_is_launched() {
    let mut harness = Harness::new().await;
    harness.cluster.add_pods([pod("web", 1000)]);
    let plain = harness.planner().run().await.unwrap();
    let before = harness.claims_named(&plain.created).await;
    assert_eq!(before[0].spec.instance_types[0], "m6i.large", "the cheapest by EC2's prices");
    assert!(!before[0].spec.annotations.contains_key(labels::PRICE_OVERLAY_APPLIED));

    harness = Harness::new().await;
    add_overlay(&harness, "cheap", "c6i.xlarge", &json!({ "priceAdjustment": "-95%" }));
    harness.cluster.add_pods([pod("web", 1000)]);
    let report = harness.planner().run().await.unwrap();
    let claims = harness.claims_named(&report.created).await;
    assert_eq!(claims[0].spec.instance_types[0], "c6i.xlarge");
    assert_eq!(claims[0].spec.annotations[labels::PRICE_OVERLAY_APPLIED], "true");
    assert_eq!(
        conditions(&overlay_conditions(&harness, "cheap")),
        ["ValidationSucceeded", "Ready"].map(|kind| (kind.into(), ConditionStatus::True, kind.into()))
    );
    harness.until("it is launched", |harness| harness.cloud.launched() == 1).await;
    assert_eq!(harness.cloud.alive()[0].instance_type, "c6i.xlarge", "the launch uses the overlay too");
}

#[tokio::test]
async fn resources_of_an_overlay_count_before_the_node_has_joined() {
    let mut harness = Harness::new().await;
    add_overlay(&harness, "fuse", "c6i.xlarge", &json!({ "capacity": { "example.com/fuse": "10" } }));
    let mut wanting = pod("web", 1000);
    for amounts in ["requests", "limits"] {
        wanting["spec"]["containers"][0]["resources"][amounts]["example.com/fuse"] = json!("1");
    }
    harness.cluster.add_pods([wanting]);
    harness.until("it is launched", |harness| harness.cloud.launched() == 1).await;
    assert_eq!(harness.cloud.alive()[0].instance_type, "c6i.xlarge");
    let report = harness.planner().run().await.unwrap();
    assert_eq!((report.placed, report.created.len()), (1, 0), "no second node for the same pod: {report:?}");
    let claims = harness.records().await;
    assert_eq!(claims[0].status.allocatable.get("example.com/fuse").units(), 10);
    assert_eq!(claims[0].spec.annotations[labels::CAPACITY_OVERLAY_APPLIED], "true");
}

#[tokio::test]
async fn conflicting_overlays_are_reported() {
    let harness = Harness::new().await;
    add_overlay(&harness, "a", "m6i.large", &json!({ "priceAdjustment": "+1" }));
    add_overlay(&harness, "b", "m6i.large", &json!({ "priceAdjustment": "+2" }));
    add_overlay(&harness, "faulty", "no label value", &json!({ "priceAdjustment": "+1" }));
    harness.planner().run().await.unwrap();
    let reported = |name: &str| overlay_conditions(&harness, name).remove(0);
    assert_eq!((reported("a").status, reported("a").reason.as_str()), (ConditionStatus::False, "Conflict"));
    assert!(reported("a").message.contains("NodeOverlay b"), "{}", reported("a").message);
    assert_eq!(reported("b").status, ConditionStatus::True);
    let faulty = reported("faulty");
    assert_eq!(faulty.reason, "RuntimeValidation");
    assert!(faulty.message.contains("spec.requirements[0]"), "{}", faulty.message);
}

#[tokio::test]
async fn a_buffer_gets_a_node_keeps_it_and_is_refilled() {
    let mut harness = Harness::new().await;
    add_template(&harness, 1500);
    add_buffer(&harness, "spare", 2);
    let report = harness.planner().run().await.unwrap();
    assert_eq!((report.pods, report.placed, report.unschedulable.len()), (0, 0, 0), "virtual pods are no pods");
    assert_eq!(report.created.len(), 1);
    assert_eq!(report.next, Some(Duration::from_secs(30)), "a buffer is looked at again soon");
    let claims = harness.records().await;
    assert!(claims[0].spec.nominated_pods.is_empty());
    let status = buffer_status(&harness, "spare");
    assert_eq!(status.replicas, Some(2));
    assert_eq!(
        conditions(&status.conditions),
        [
            ("ReadyForProvisioning".into(), ConditionStatus::True, "Resolved".into()),
            ("Provisioning".into(), ConditionStatus::False, "RequiresNewCapacity".into()),
        ]
    );
    harness
        .until("the node is there", |harness| {
            harness.cluster.nodes().values().any(nodeless_model::Node::is_initialized)
        })
        .await;
    harness.minutes(10).await;
    assert_eq!(harness.cloud.alive().len(), 1, "it stays although it is empty");
    let provisioned = buffer_status(&harness, "spare").conditions[1].clone();
    assert_eq!((provisioned.status, provisioned.reason.as_str()), (ConditionStatus::True, "FitsExistingCapacity"));
    assert!(harness.cluster.events().iter().all(|event| event.reason != "Nominated"));

    // Real pods use the buffer's capacity at once, and the buffer is filled up again.
    harness.cluster.add_pods([pod("web", 1500)]);
    assert_eq!(harness.cluster.bound(), 1);
    harness.until("the buffer is refilled", |harness| harness.cloud.running().len() == 2).await;

    harness.cluster.delete(&CAPACITY_BUFFERS, "spare");
    harness.until("the empty node is removed", |harness| harness.cloud.alive().len() == 1).await;
    assert_eq!(harness.cluster.bound(), 1);
}

#[tokio::test]
async fn plans_that_ask_for_the_next_are_one_chain() {
    let harness = Harness::new().await;
    add_template(&harness, 1500);
    add_buffer(&harness, "spare", 2);
    let after =
        |seconds| harness.clock.advance_to(harness.clock.time().checked_add(Duration::from_secs(seconds)).unwrap());
    harness.planner().run().await.unwrap();
    after(10);
    let report = harness.planner().run().await.unwrap();
    assert!(report.next.is_some());
    after(20);
    assert!(harness.queue.take_plan().is_some(), "thirty seconds after the first");
    after(15);
    assert_eq!(harness.queue.take_plan(), None, "the second did not begin a chain of its own");
    harness.planner().run().await.unwrap();
    after(30);
    assert!(harness.queue.take_plan().is_some(), "the chain continues");
}

#[tokio::test]
async fn a_buffer_that_cannot_be_resolved_reports_why() {
    let harness = Harness::new().await;
    add_buffer(&harness, "spare", 1);
    let scalable = json!({ "apiGroup": "apps", "kind": "ReplicaSet", "name": "none" });
    let spec = json!({ "scalableRef": scalable, "percentage": 10 });
    harness.cluster.create(&CAPACITY_BUFFERS, json!({ "metadata": { "name": "empty" }, "spec": spec }));
    let template = pod("none", 1000);
    let labels = &template["metadata"]["labels"];
    let spec = json!({ "replicas": 0, "selector": { "matchLabels": labels }, "template": template });
    harness.cluster.create(&REPLICA_SETS, json!({ "metadata": { "name": "none" }, "spec": spec }));
    let report = harness.planner().run().await.unwrap();
    assert!(report.created.is_empty());
    let reported = |name: &str| conditions(&buffer_status(&harness, name).conditions);
    assert_eq!(reported("spare")[0].2, "PodTemplateNotFound");
    assert_eq!(reported("spare")[1].2, "NotReadyForProvisioning");
    assert_eq!(reported("empty")[1].2, "BufferEmpty");
    assert_eq!(buffer_status(&harness, "spare").replicas, None);
}

/// Creates a volume in a zone, and a PersistentVolumeClaim that is bound to it.
fn add_volume(harness: &Harness, name: &str, zone: &str) {
    let storage = json!({ "storage": "1Gi" });
    let terms = json!([{ "matchExpressions": [{ "key": labels::ZONE, "operator": "In", "values": [zone] }] }]);
    let volume = json!({
        "capacity": storage, "accessModes": ["ReadWriteOnce"], "csi": { "driver": "ebs.csi.aws.com", "volumeHandle": name },
        "nodeAffinity": { "required": { "nodeSelectorTerms": terms } },
        "claimRef": { "namespace": "default", "name": name },
    });
    harness.cluster.create(&PERSISTENT_VOLUMES, json!({ "metadata": { "name": name }, "spec": volume }));
    let claim = json!({ "accessModes": ["ReadWriteOnce"], "resources": { "requests": storage }, "volumeName": name });
    let metadata = json!({ "name": name, "annotations": { "pv.kubernetes.io/bind-completed": "yes" } });
    harness.cluster.create(&PERSISTENT_VOLUME_CLAIMS, json!({ "metadata": metadata, "spec": claim }));
    harness.cluster.patch_status(&PERSISTENT_VOLUME_CLAIMS, name, json!({ "phase": "Bound" }));
}

#[tokio::test]
async fn a_pod_runs_in_the_zone_of_its_volume_or_gets_the_reason() {
    let harness = Harness::new().await;
    let with = |name: &str, claim: &str| {
        let mut pod = pod(name, 1000);
        pod["spec"]["volumes"] = json!([{ "name": "data", "persistentVolumeClaim": { "claimName": claim } }]);
        pod
    };
    add_volume(&harness, "here", "us-east-1a");
    add_volume(&harness, "far", "us-east-1f");
    add_volume(&harness, "lost", "us-east-1a");
    harness.cluster.delete(&PERSISTENT_VOLUMES, "lost");
    harness.cluster.patch_status(&PERSISTENT_VOLUME_CLAIMS, "lost", json!({ "phase": "Lost" }));
    harness.cluster.add_pods([with("a", "here"), with("b", "far"), with("c", "lost")]);
    let report = harness.planner().run().await.unwrap();
    let claims = harness.claims_named(&report.created).await;
    assert_eq!(claims[0].spec.nominated_pods, ["default/a"]);
    let zones = claims[0].spec.requirements.get(labels::ZONE).unwrap();
    assert!(zones.has("us-east-1a") && !zones.has("us-east-1b"), "{zones}");
    assert_eq!((report.created.len(), report.unschedulable.len()), (1, 2), "{report:?}");
    let why = &report.unschedulable.iter().find(|(pod, _)| pod == "default/c").unwrap().1;
    assert!(why.contains("has lost its PersistentVolume"), "{why}");
    let events = harness.cluster.events_of("FailedScheduling");
    let refused = events.iter();
    assert!(
        refused.clone().any(|event| event.object.name == "c" && event.message.contains("PersistentVolumeClaim lost"))
    );
    assert_eq!(refused.count(), 2);
}

#[tokio::test]
async fn a_planner_without_memory_writes_no_status_anew() {
    let harness = Harness::new().await;
    harness.planner().run().await.unwrap();
    let before = harness.cluster.get(&NODE_POOLS, "default");
    assert!(before["status"]["conditions"].is_array());
    harness.clock.advance_to(harness.clock.time().checked_add(std::time::Duration::from_secs(600)).unwrap());
    harness.cold_planner().run().await.unwrap();
    assert_eq!(harness.cluster.get(&NODE_POOLS, "default"), before);
}

#[tokio::test]
async fn a_pod_that_claims_to_be_virtual_is_a_pod_like_all_others() {
    let harness = Harness::new().await;
    let claiming = |name: &str, milli_cpu: i64| {
        let mut pod = pod(name, milli_cpu);
        pod["metadata"]["annotations"] = json!({
            "karpenter.sh/capacity-buffer-fake-pod": "true",
            "autoscaling.x-k8s.io/provisioning-class-name": "check-capacity.autoscaling.x-k8s.io",
        });
        pod
    };
    harness.cluster.add_pods([
        claiming("a-huge", 900_000),
        claiming("b", 1000),
        pod("web", 1000),
        pod("x-huge", 900_000),
    ]);
    let report = harness.planner().run().await.unwrap();
    let mut reported: Vec<&str> = report.unschedulable.iter().map(|(pod, _)| pod.as_str()).collect();
    reported.sort_unstable();
    assert_eq!((report.pods, reported), (4, vec!["default/a-huge", "default/x-huge"]));
    let mut nominated: Vec<String> =
        harness.claims_named(&report.created).await.into_iter().flat_map(|claim| claim.spec.nominated_pods).collect();
    nominated.sort();
    assert_eq!(nominated, ["default/b", "default/web"]);
    let about = |reason: &str| {
        let mut names: Vec<String> =
            harness.cluster.events_of(reason).into_iter().map(|event| event.object.name).collect();
        names.sort();
        names
    };
    assert_eq!(about("FailedScheduling"), ["a-huge", "x-huge"]);
    assert_eq!(about("Nominated"), ["b", "web"]);
}

#[tokio::test]
async fn a_buffer_has_as_many_pods_as_the_quota_of_its_namespace_allows() {
    let harness = Harness::new().await;
    add_template(&harness, 1500);
    add_buffer(&harness, "a", 3);
    add_buffer(&harness, "b", 3);
    let quota =
        json!({ "metadata": { "name": "team" }, "spec": { "hard": { "requests.cpu": "7", "limits.memory": "1Ti" } } });
    harness.cluster.create(&RESOURCE_QUOTAS, quota);
    let plan = async || {
        harness.planner().run().await.unwrap();
        ["a", "b"].map(|name| {
            let status = buffer_status(&harness, name);
            let limited = status.conditions.iter().find(|condition| condition.type_ == "LimitedByQuotas");
            (status.replicas, limited.map(|condition| (condition.status, condition.message.clone())))
        })
    };
    let [(none, why), _] = plan().await;
    assert_eq!((none, why.as_ref().map(|(status, _)| *status)), (Some(0), Some(ConditionStatus::True)));
    let (_, why) = why.unwrap();
    assert!(why.contains("default/team") && why.contains("limits.memory"), "real pods would have no limit: {why}");

    let item = json!({ "type": "Container", "default": { "memory": "1Gi" } });
    harness.cluster.create(&LIMIT_RANGES, json!({ "metadata": { "name": "all" }, "spec": { "limits": [item] } }));
    let [first, second] = plan().await;
    let allowed = "the ResourceQuotas of the namespace allow all pods".to_owned();
    assert_eq!(first, (Some(3), Some((ConditionStatus::False, allowed))));
    assert_eq!(second.0, Some(1), "4.5 of 7 CPUs are taken");
    let (status, why) = second.1.unwrap();
    assert!(status == ConditionStatus::True && why.contains("1 of 3 chunks: ResourceQuota default/team"), "{why}");
}

#[tokio::test]
async fn the_pods_of_a_buffer_have_the_defaults_of_limit_ranges() {
    let harness = Harness::new().await;
    let template = json!({ "spec": { "containers": [{ "name": "c", "image": "c" }] } });
    harness.cluster.create(&POD_TEMPLATES, json!({ "metadata": { "name": "chunk" }, "template": template }));
    let item = json!({ "type": "Container", "defaultRequest": { "cpu": "1500m" } });
    harness.cluster.create(&LIMIT_RANGES, json!({ "metadata": { "name": "all" }, "spec": { "limits": [item] } }));
    add_buffer(&harness, "spare", 2);
    let report = harness.planner().run().await.unwrap();
    let claims = harness.claims_named(&report.created).await;
    let cpu: i64 = claims.iter().map(|claim| claim.spec.requests.get("cpu").milli()).sum();
    assert!(cpu >= 3000, "{claims:?}");
}
