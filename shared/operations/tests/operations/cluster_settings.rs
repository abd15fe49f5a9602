//! Settings of the whole cluster, annotations of the Namespace `kube-system`: limits of all NodePools together, and maintenance windows.

use crate::common::{Harness, check_nodes, drift, pod, running_cluster, static_pool, watched};
use nodeless_model::Quantity;
use nodeless_model::cluster_limits::{MAX_CPU, MAX_DOLLARS_PER_HOUR, MAX_NODES};
use nodeless_model::labels::MAINTENANCE_WINDOWS;
use nodeless_model::node_pool::PoolUsage;
use nodeless_world::resources::NODE_POOLS;
use serde_json::json;

async fn nodes_charged(harness: &Harness) -> Quantity {
    PoolUsage::sum(harness.claims.usage().await.unwrap().values()).resources.get("nodes")
}

#[tokio::test]
async fn pods_and_static_node_pools_share_the_limits_of_the_cluster() {
    let mut harness = Harness::new().await;
    harness.cluster.annotate_cluster(MAX_NODES, Some("3"));
    harness.cluster.create(&NODE_POOLS, static_pool("desks", 2));
    harness.cluster.add_replica_sets((0..3).map(|number| pod(&format!("web-{number}"), 3000)));
    harness.queue_wake().await;
    harness.minutes(5).await;
    // A static NodePool gets its nodes first, and its nodes of two CPUs are too small for these pods.
    assert_eq!((harness.records().await.len(), harness.cluster.bound()), (3, 1));
    let report = harness.planner().run().await.unwrap();
    let (_, why) = &report.unschedulable[0];
    assert!(why.contains("NodePool default: limit nodes 3 of the cluster reached: 3 used"), "{why}");
    let events = harness.cluster.events_of("FailedScheduling");
    assert!(events.iter().any(|event| event.message.contains("of the cluster reached")), "{events:#?}");
    let decisions = harness.claims.decisions(50).await.unwrap();
    assert!(decisions.iter().any(|one| one.kind == "provisioning" && one.detail.contains("of the cluster")));

    harness.cluster.patch(&NODE_POOLS, "desks", json!({ "spec": { "replicas": 3 } }));
    harness.minutes(2).await;
    let missing = harness.cluster.events_of("ReplicasNotReached").remove(0);
    assert!(missing.message.contains("limit nodes 3 of the cluster reached"), "{}", missing.message);
    harness.cluster.annotate_cluster(MAX_NODES, Some("6"));
    harness.minutes(5).await;
    assert_eq!((harness.records().await.len(), harness.cluster.bound()), (6, 3));
}

#[tokio::test]
async fn an_invalid_limit_of_the_cluster_is_reported_and_launches_nothing() {
    for annotation in [MAX_NODES, MAX_CPU, MAX_DOLLARS_PER_HOUR] {
        let mut harness = Harness::new().await;
        harness.cluster.annotate_cluster(annotation, Some("plenty"));
        harness.cluster.add_replica_sets([pod("web", 1000)]);
        let report = harness.planner().run().await.unwrap();
        assert!(report.created.is_empty());
        assert!(report.unschedulable[0].1.contains("\"plenty\""), "{:?}", report.unschedulable);
        let blocked = harness.cluster.events_of("DisruptionBlocked");
        let reported = blocked.iter().find(|event| event.object.kind == "Namespace").unwrap();
        assert!(reported.message.contains(annotation) && reported.is_warning(), "{}", reported.message);
        assert!(harness.cluster.node_pool().ready.is_ok(), "the NodePool itself is valid");
        harness.cluster.annotate_cluster(annotation, None);
        harness.queue_wake().await;
        harness.until("it runs", |harness| harness.cluster.bound() == 1).await;
    }
}

#[tokio::test]
async fn at_a_limit_of_the_cluster_a_drifted_node_goes_before_its_replacement_comes() {
    let mut harness = running_cluster(2).await;
    harness.cluster.annotate_cluster(MAX_NODES, Some("2"));
    drift(&harness);
    let mut most = Quantity::ZERO;
    for _ in 0..30 {
        harness.minutes(1).await;
        most = most.max(nodes_charged(&harness).await);
    }
    assert_eq!(most, Quantity::from_units(2));
    assert_eq!((harness.cluster.bound(), harness.cloud.launched()), (2, 4));
    check_nodes(&harness, 2, "after the drift").await;
}

#[tokio::test]
async fn a_limit_that_is_lowered_rolls_back_a_command_that_has_launched_nothing() {
    let mut harness = running_cluster(1).await;
    drift(&harness);
    harness.planner().run().await.unwrap();
    assert_eq!(harness.claims.commands().await.unwrap().len(), 1);
    harness.cluster.annotate_cluster(MAX_CPU, Some("0"));
    harness.minutes(10).await;
    assert_eq!(harness.cloud.launched(), 1);
    assert_eq!(harness.cluster.bound(), 1);
}

#[tokio::test]
async fn drift_waits_for_a_maintenance_window() {
    let mut harness = running_cluster(1).await;
    // The window opens at the next new year.
    harness.cluster.annotate_cluster(MAINTENANCE_WINDOWS, Some("0 0 1 1 * for 1m"));
    drift(&harness);
    watched(&mut harness, 4).await;
    assert_eq!(harness.cloud.launched(), 1);
    let report = harness.planner().run().await.unwrap();
    let why = report.kept[0].reasons[0].to_string();
    assert!(why.starts_with("no maintenance window is open, and the next one begins at "), "{why}");
    let blocked = harness.cluster.events_of("DisruptionBlocked");
    // The message of an Event begins with a capital letter.
    let has_reason = |message: &str| message.eq_ignore_ascii_case(&why);
    assert!(blocked.iter().any(|event| event.object.kind == "Node" && has_reason(&event.message)), "{blocked:#?}");
    harness.cluster.annotate_cluster(MAINTENANCE_WINDOWS, Some("0 0 1 1 * for 1m; * * * * * for 1h"));
    watched(&mut harness, 8).await;
    assert_eq!(harness.cloud.launched(), 2);
}

#[tokio::test]
async fn an_invalid_maintenance_window_is_reported_and_disrupts_nothing() {
    let mut harness = running_cluster(1).await;
    harness.cluster.annotate_cluster(MAINTENANCE_WINDOWS, Some("weekends"));
    drift(&harness);
    watched(&mut harness, 4).await;
    assert_eq!(harness.cloud.launched(), 1);
    let blocked = harness.cluster.events_of("DisruptionBlocked");
    let reported = blocked.iter().find(|event| event.object.kind == "Namespace").unwrap();
    assert!(reported.message.contains("\"weekends\" is not a window"), "{}", reported.message);
    // Pods that wait get nodes all the same.
    harness.cluster.add_replica_sets([pod("more", 3000)]);
    harness.queue_wake().await;
    harness.until("both run", |harness| harness.cluster.bound() == 2).await;
}

#[tokio::test]
async fn the_end_of_a_maintenance_window_rolls_back_what_has_not_begun_to_drain() {
    let mut harness = running_cluster(1).await;
    harness.cluster.annotate_cluster(MAINTENANCE_WINDOWS, Some("* * * * * for 1h"));
    drift(&harness);
    harness.queue_wake().await;
    let waits = async |harness: &Harness| {
        harness.claims.commands().await.unwrap().iter().any(|command| command.summary.contains("Waiting"))
    };
    for _ in 0..60 {
        harness.tick().await;
        if waits(&harness).await {
            break;
        }
    }
    assert!(waits(&harness).await, "its replacement is launched");
    harness.cluster.annotate_cluster(MAINTENANCE_WINDOWS, Some("0 0 1 1 * for 1m"));
    watched(&mut harness, 3).await;
    assert!(harness.claims.commands().await.unwrap().is_empty());
    let blocked = harness.cluster.events_of("DisruptionBlocked");
    assert!(blocked.iter().any(|event| event.message.contains("no maintenance window is open")), "{blocked:#?}");
    assert!(harness.records().await.iter().all(|claim| !claim.phase.is_leaving() && claim.status.command.is_none()));
}
