//! What a plan makes of NodeOverlays, CapacityBuffers and volumes, and what it states about them.
#![allow(clippy::unwrap_used)]

mod common;

use common::{Town, pod};
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
    let mut town = Town::new().await;
    town.cluster.add_pods([pod("web", 1000)]);
    let plain = town.planner().run().await.unwrap();
    let before = town.claims_named(&plain.created).await;
    assert_eq!(before[0].spec.instance_types[0], "m6i.large", "the cheapest by EC2's prices");
    assert!(!before[0].spec.annotations.contains_key(labels::PRICE_OVERLAY_APPLIED));

    town = Town::new().await;
    town.cluster.lock().overlays =
        vec![(overlay("cheap", "c6i.xlarge", PriceChange::Percent(-95.0)), NodeOverlayStatus::default())];
    town.cluster.add_pods([pod("web", 1000)]);
    let report = town.planner().run().await.unwrap();
    let claims = town.claims_named(&report.created).await;
    assert_eq!(claims[0].spec.instance_types[0], "c6i.xlarge");
    assert_eq!(claims[0].spec.annotations[labels::PRICE_OVERLAY_APPLIED], "true");
    let reported = town.cluster.lock().overlays[0].1.clone();
    assert_eq!(
        conditions(&reported.conditions),
        ["ValidationSucceeded", "Ready"].map(|kind| (kind.into(), ConditionStatus::True, kind.into()))
    );
    town.until("it is launched", |town| town.cloud.launched() == 1).await;
    assert_eq!(town.cloud.alive()[0].instance_type, "c6i.xlarge", "the launch goes by the overlay too");
}

#[tokio::test]
async fn resources_of_an_overlay_count_before_the_node_has_joined() {
    let mut town = Town::new().await;
    let fuse = ResourceList::from([("example.com/fuse", Quantity::from_units(10))]);
    let overlay = NodeOverlay { price: None, capacity: fuse, ..overlay("fuse", "c6i.xlarge", PriceChange::Add(0.0)) };
    town.cluster.lock().overlays = vec![(overlay, NodeOverlayStatus::default())];
    let mut wanting = pod("web", 1000);
    wanting.requests.set("example.com/fuse", Quantity::from_units(1));
    town.cluster.add_pods([wanting]);
    town.until("it is launched", |town| town.cloud.launched() == 1).await;
    assert_eq!(town.cloud.alive()[0].instance_type, "c6i.xlarge");
    let report = town.planner().run().await.unwrap();
    assert_eq!((report.placed, report.created.len()), (1, 0), "no second node for the same pod: {report:?}");
    let claims = town.records().await;
    assert_eq!(claims[0].status.allocatable.get("example.com/fuse").units(), 10);
    assert_eq!(claims[0].spec.annotations[labels::CAPACITY_OVERLAY_APPLIED], "true");
}

#[tokio::test]
async fn overlays_that_contradict_each_other_are_told() {
    let town = Town::new().await;
    let none = NodeOverlayStatus::default;
    let faulty = NodeOverlay {
        valid: Err("spec.capacity.x: no".into()),
        ..overlay("faulty", "m6i.large", PriceChange::Add(1.0))
    };
    town.cluster.lock().overlays = vec![
        (overlay("a", "m6i.large", PriceChange::Add(1.0)), none()),
        (overlay("b", "m6i.large", PriceChange::Add(2.0)), none()),
        (faulty, none()),
    ];
    town.planner().run().await.unwrap();
    let reported = |at: usize| {
        let status = town.cluster.lock().overlays[at].1.clone();
        (status.conditions[0].status, status.conditions[0].reason.clone(), status.conditions[0].message.clone())
    };
    assert_eq!((reported(0).0, reported(0).1.as_str()), (ConditionStatus::False, "Conflict"));
    assert!(reported(0).2.contains("NodeOverlay b"), "{}", reported(0).2);
    assert_eq!(reported(1).0, ConditionStatus::True);
    assert_eq!((reported(2).1.as_str(), reported(2).2.as_str()), ("RuntimeValidation", "spec.capacity.x: no"));
}

#[tokio::test]
async fn a_buffer_gets_a_node_keeps_it_and_is_refilled() {
    let mut town = Town::new().await;
    town.cluster.lock().buffers = vec![buffer(2, 1500)];
    let report = town.planner().run().await.unwrap();
    assert_eq!((report.pods, report.placed, report.unschedulable.len()), (0, 0, 0), "virtual pods are no pods");
    assert_eq!(report.created.len(), 1);
    assert_eq!(report.next, Some(Duration::from_secs(30)), "a buffer is looked at again soon");
    let claims = town.records().await;
    assert!(claims[0].spec.nominated_pods.is_empty());
    let status = town.cluster.lock().buffers[0].status.clone();
    assert_eq!((status.replicas, status.pod_template_generation), (Some(2), Some(3)));
    assert_eq!(
        conditions(&status.conditions),
        [
            ("ReadyForProvisioning".into(), ConditionStatus::True, "Resolved".into()),
            ("Provisioning".into(), ConditionStatus::False, "RequiresNewCapacity".into()),
        ]
    );
    town.until("the node is there", |town| {
        town.cluster.lock().nodes.values().any(nodeless_model::Node::is_initialized)
    })
    .await;
    town.minutes(10).await;
    assert_eq!(town.cloud.alive().len(), 1, "it stays although it is empty");
    let provisioned = town.cluster.lock().buffers[0].status.conditions[1].clone();
    assert_eq!((provisioned.status, provisioned.reason.as_str()), (ConditionStatus::True, "FitsExistingCapacity"));
    assert!(town.cluster.lock().events.iter().all(|event| event.reason != "Nominated"));

    // Real pods take the room at once, and the buffer is filled up again.
    town.cluster.add_pods([Pod { marked_unschedulable: false, ..pod("web", 1500) }]);
    town.cluster.bind();
    assert_eq!(town.cluster.bound(), 1);
    town.until("the buffer is refilled", |town| town.cloud.running().len() == 2).await;

    town.cluster.lock().buffers.clear();
    town.until("the empty node is removed", |town| town.cloud.alive().len() == 1).await;
    assert_eq!(town.cluster.bound(), 1);
}

#[tokio::test]
async fn plans_that_ask_for_the_next_are_one_chain() {
    let town = Town::new().await;
    town.cluster.lock().buffers = vec![buffer(2, 1500)];
    let after = |seconds| town.clock.advance_to(town.clock.time().checked_add(Duration::from_secs(seconds)).unwrap());
    town.planner().run().await.unwrap();
    after(10);
    let report = town.planner().run().await.unwrap();
    assert!(report.next.is_some());
    after(20);
    assert!(town.queue.take_plan().is_some(), "thirty seconds after the first");
    after(15);
    assert_eq!(town.queue.take_plan(), None, "the second did not begin a chain of its own");
    town.planner().run().await.unwrap();
    after(30);
    assert!(town.queue.take_plan().is_some(), "the chain goes on");
}

#[tokio::test]
async fn a_buffer_that_cannot_be_resolved_says_why() {
    let town = Town::new().await;
    let mut faulty = buffer(1, 1000);
    faulty.shape = Err(faulty.buffer.missing_source(faulty.buffer.source.as_ref().unwrap()));
    town.cluster.lock().buffers = vec![faulty, BufferView { ..buffer(0, 1000) }];
    town.cluster.lock().buffers[1].buffer.name = "empty".into();
    let report = town.planner().run().await.unwrap();
    assert!(report.created.is_empty());
    let state = town.cluster.lock();
    let reported = |at: usize| conditions(&state.buffers[at].status.conditions);
    assert_eq!(reported(0)[0].2, "PodTemplateNotFound");
    assert_eq!(reported(0)[1].2, "NotReadyForProvisioning");
    assert_eq!(reported(1)[1].2, "BufferEmpty");
    assert_eq!(state.buffers[0].status.replicas, None);
}

#[tokio::test]
async fn a_pod_goes_where_its_volume_is_or_is_told_why_not() {
    let town = Town::new().await;
    let with = |name: &str, claim: &str| Pod {
        volume_claims: vec![VolumeClaim { claim_name: claim.into(), ephemeral: false }],
        ..pod(name, 1000)
    };
    let zone = |zone: &str| vec![Requirements::from([(labels::ZONE, Requirement::one_of([zone]))])];
    {
        let mut state = town.cluster.lock();
        state.volumes =
            BTreeMap::from([("default/here".into(), zone("us-east-1a")), ("default/far".into(), zone("us-east-1f"))]);
        let why = "PersistentVolumeClaim lost has lost its PersistentVolume";
        state.volume_faults = BTreeMap::from([("default/lost".into(), why.into())]);
    }
    town.cluster.add_pods([with("a", "here"), with("b", "far"), with("c", "lost")]);
    let report = town.planner().run().await.unwrap();
    let claims = town.claims_named(&report.created).await;
    assert_eq!(claims[0].spec.nominated_pods, ["default/a"]);
    let zones = claims[0].spec.requirements.get(labels::ZONE).unwrap();
    assert!(zones.has("us-east-1a") && !zones.has("us-east-1b"), "{zones}");
    assert_eq!((report.created.len(), report.unschedulable.len()), (1, 2), "{report:?}");
    let why = &report.unschedulable.iter().find(|(pod, _)| pod == "default/c").unwrap().1;
    assert!(why.contains("has lost its PersistentVolume"), "{why}");
    let events = town.cluster.lock().events.clone();
    let refused = events.iter().filter(|event| event.reason == "FailedScheduling");
    assert!(
        refused.clone().any(|event| event.object.name == "c" && event.message.contains("PersistentVolumeClaim lost"))
    );
    assert_eq!(refused.count(), 2);
}

#[tokio::test]
async fn a_planner_without_memory_writes_no_status_anew() {
    let town = Town::new().await;
    town.planner().run().await.unwrap();
    let written = town.cluster.lock().status_writes;
    let since = town.cluster.lock().pool_statuses["default"].conditions[0].last_transition_time.clone();
    assert_eq!(written, 1);
    town.clock.advance_to(town.clock.time().checked_add(std::time::Duration::from_secs(600)).unwrap());
    town.cold_planner().run().await.unwrap();
    let state = town.cluster.lock();
    assert_eq!(state.status_writes, 1);
    assert_eq!(state.pool_statuses["default"].conditions[0].last_transition_time, since);
}
