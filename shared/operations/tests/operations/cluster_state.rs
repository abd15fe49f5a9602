//! What a plan makes of NodeOverlays, CapacityBuffers and volumes, and what it states about them.

use crate::common::{Harness, pod};
use nodeless_api::{CapacityBufferStatus, ConditionStatus, NodeOverlayStatus};
use nodeless_model::pod::VolumeClaim;
use nodeless_model::{
    BufferShape, BufferSource, CapacityBuffer, NodeOverlay, Pod, PriceChange, Quantity, Requirement, Requirements,
    ResourceList, labels,
};
use nodeless_ports::cluster::BufferView;
use std::collections::BTreeMap;
use std::time::Duration;

fn overlay(name: &str, instance_type: &str, price: PriceChange) -> NodeOverlay {
    NodeOverlay {
        name: name.into(),
        weight: 0,
        requirements: Requirements::from([(labels::INSTANCE_TYPE, Requirement::one_of([instance_type]))]),
        price: Some(price),
        capacity: ResourceList::new(),
        valid: Ok(()),
    }
}

fn buffer(chunks: u32, milli_cpu: i64) -> BufferView {
    let source = BufferSource::PodTemplate { name: "chunk".into() };
    let shape = BufferShape { pod: pod("chunk", milli_cpu), replicas: 0, generation: Some(3) };
    BufferView {
        buffer: CapacityBuffer {
            namespace: "default".into(),
            name: "spare".into(),
            uid: "uid-spare".into(),
            strategy: nodeless_model::buffer::ACTIVE_CAPACITY.into(),
            source: Some(source),
            replicas: Some(chunks),
            ..CapacityBuffer::default()
        },
        status: CapacityBufferStatus::default(),
        shape: Ok(shape),
    }
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
    harness.cluster.lock().overlays =
        vec![(overlay("cheap", "c6i.xlarge", PriceChange::Percent(-95.0)), NodeOverlayStatus::default())];
    harness.cluster.add_pods([pod("web", 1000)]);
    let report = harness.planner().run().await.unwrap();
    let claims = harness.claims_named(&report.created).await;
    assert_eq!(claims[0].spec.instance_types[0], "c6i.xlarge");
    assert_eq!(claims[0].spec.annotations[labels::PRICE_OVERLAY_APPLIED], "true");
    let reported = harness.cluster.lock().overlays[0].1.clone();
    assert_eq!(
        conditions(&reported.conditions),
        ["ValidationSucceeded", "Ready"].map(|kind| (kind.into(), ConditionStatus::True, kind.into()))
    );
    harness.until("it is launched", |harness| harness.cloud.launched() == 1).await;
    assert_eq!(harness.cloud.alive()[0].instance_type, "c6i.xlarge", "the launch uses the overlay too");
}

#[tokio::test]
async fn resources_of_an_overlay_count_before_the_node_has_joined() {
    let mut harness = Harness::new().await;
    let fuse = ResourceList::from([("example.com/fuse", Quantity::from_units(10))]);
    let overlay = NodeOverlay { price: None, capacity: fuse, ..overlay("fuse", "c6i.xlarge", PriceChange::Add(0.0)) };
    harness.cluster.lock().overlays = vec![(overlay, NodeOverlayStatus::default())];
    let mut wanting = pod("web", 1000);
    wanting.requests.set("example.com/fuse", Quantity::from_units(1));
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
    let none = NodeOverlayStatus::default;
    let faulty = NodeOverlay {
        valid: Err("spec.capacity.x: no".into()),
        ..overlay("faulty", "m6i.large", PriceChange::Add(1.0))
    };
    harness.cluster.lock().overlays = vec![
        (overlay("a", "m6i.large", PriceChange::Add(1.0)), none()),
        (overlay("b", "m6i.large", PriceChange::Add(2.0)), none()),
        (faulty, none()),
    ];
    harness.planner().run().await.unwrap();
    let reported = |at: usize| {
        let status = harness.cluster.lock().overlays[at].1.clone();
        (status.conditions[0].status, status.conditions[0].reason.clone(), status.conditions[0].message.clone())
    };
    assert_eq!((reported(0).0, reported(0).1.as_str()), (ConditionStatus::False, "Conflict"));
    assert!(reported(0).2.contains("NodeOverlay b"), "{}", reported(0).2);
    assert_eq!(reported(1).0, ConditionStatus::True);
    assert_eq!((reported(2).1.as_str(), reported(2).2.as_str()), ("RuntimeValidation", "spec.capacity.x: no"));
}

#[tokio::test]
async fn a_buffer_gets_a_node_keeps_it_and_is_refilled() {
    let mut harness = Harness::new().await;
    harness.cluster.lock().buffers = vec![buffer(2, 1500)];
    let report = harness.planner().run().await.unwrap();
    assert_eq!((report.pods, report.placed, report.unschedulable.len()), (0, 0, 0), "virtual pods are no pods");
    assert_eq!(report.created.len(), 1);
    assert_eq!(report.next, Some(Duration::from_secs(30)), "a buffer is looked at again soon");
    let claims = harness.records().await;
    assert!(claims[0].spec.nominated_pods.is_empty());
    let status = harness.cluster.lock().buffers[0].status.clone();
    assert_eq!((status.replicas, status.pod_template_generation), (Some(2), Some(3)));
    assert_eq!(
        conditions(&status.conditions),
        [
            ("ReadyForProvisioning".into(), ConditionStatus::True, "Resolved".into()),
            ("Provisioning".into(), ConditionStatus::False, "RequiresNewCapacity".into()),
        ]
    );
    harness
        .until("the node is there", |harness| {
            harness.cluster.lock().nodes.values().any(nodeless_model::Node::is_initialized)
        })
        .await;
    harness.minutes(10).await;
    assert_eq!(harness.cloud.alive().len(), 1, "it stays although it is empty");
    let provisioned = harness.cluster.lock().buffers[0].status.conditions[1].clone();
    assert_eq!((provisioned.status, provisioned.reason.as_str()), (ConditionStatus::True, "FitsExistingCapacity"));
    assert!(harness.cluster.lock().events.iter().all(|event| event.reason != "Nominated"));

    // Real pods take the room at once, and the buffer is filled up again.
    harness.cluster.add_pods([Pod { marked_unschedulable: false, ..pod("web", 1500) }]);
    harness.cluster.bind();
    assert_eq!(harness.cluster.bound(), 1);
    harness.until("the buffer is refilled", |harness| harness.cloud.running().len() == 2).await;

    harness.cluster.lock().buffers.clear();
    harness.until("the empty node is removed", |harness| harness.cloud.alive().len() == 1).await;
    assert_eq!(harness.cluster.bound(), 1);
}

#[tokio::test]
async fn plans_that_ask_for_the_next_are_one_chain() {
    let harness = Harness::new().await;
    harness.cluster.lock().buffers = vec![buffer(2, 1500)];
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
async fn a_buffer_that_cannot_be_resolved_says_why() {
    let harness = Harness::new().await;
    let mut faulty = buffer(1, 1000);
    faulty.shape = Err(faulty.buffer.missing_source(faulty.buffer.source.as_ref().unwrap()));
    harness.cluster.lock().buffers = vec![faulty, BufferView { ..buffer(0, 1000) }];
    harness.cluster.lock().buffers[1].buffer.name = "empty".into();
    let report = harness.planner().run().await.unwrap();
    assert!(report.created.is_empty());
    let state = harness.cluster.lock();
    let reported = |at: usize| conditions(&state.buffers[at].status.conditions);
    assert_eq!(reported(0)[0].2, "PodTemplateNotFound");
    assert_eq!(reported(0)[1].2, "NotReadyForProvisioning");
    assert_eq!(reported(1)[1].2, "BufferEmpty");
    assert_eq!(state.buffers[0].status.replicas, None);
}

#[tokio::test]
async fn a_pod_runs_in_the_zone_of_its_volume_or_gets_the_reason() {
    let harness = Harness::new().await;
    let with = |name: &str, claim: &str| Pod {
        volume_claims: vec![VolumeClaim { claim_name: claim.into(), ephemeral: false }],
        ..pod(name, 1000)
    };
    let zone = |zone: &str| vec![Requirements::from([(labels::ZONE, Requirement::one_of([zone]))])];
    {
        let mut state = harness.cluster.lock();
        state.volumes =
            BTreeMap::from([("default/here".into(), zone("us-east-1a")), ("default/far".into(), zone("us-east-1f"))]);
        let why = "PersistentVolumeClaim lost has lost its PersistentVolume";
        state.volume_faults = BTreeMap::from([("default/lost".into(), why.into())]);
    }
    harness.cluster.add_pods([with("a", "here"), with("b", "far"), with("c", "lost")]);
    let report = harness.planner().run().await.unwrap();
    let claims = harness.claims_named(&report.created).await;
    assert_eq!(claims[0].spec.nominated_pods, ["default/a"]);
    let zones = claims[0].spec.requirements.get(labels::ZONE).unwrap();
    assert!(zones.has("us-east-1a") && !zones.has("us-east-1b"), "{zones}");
    assert_eq!((report.created.len(), report.unschedulable.len()), (1, 2), "{report:?}");
    let why = &report.unschedulable.iter().find(|(pod, _)| pod == "default/c").unwrap().1;
    assert!(why.contains("has lost its PersistentVolume"), "{why}");
    let events = harness.cluster.lock().events.clone();
    let refused = events.iter().filter(|event| event.reason == "FailedScheduling");
    assert!(
        refused.clone().any(|event| event.object.name == "c" && event.message.contains("PersistentVolumeClaim lost"))
    );
    assert_eq!(refused.count(), 2);
}

#[tokio::test]
async fn a_planner_without_memory_writes_no_status_anew() {
    let harness = Harness::new().await;
    harness.planner().run().await.unwrap();
    let written = harness.cluster.lock().status_writes;
    let since = harness.cluster.lock().pool_statuses["default"].conditions[0].last_transition_time.clone();
    assert_eq!(written, 1);
    harness.clock.advance_to(harness.clock.time().checked_add(std::time::Duration::from_secs(600)).unwrap());
    harness.cold_planner().run().await.unwrap();
    let state = harness.cluster.lock();
    assert_eq!(state.status_writes, 1);
    assert_eq!(state.pool_statuses["default"].conditions[0].last_transition_time, since);
}
