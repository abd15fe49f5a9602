//! Launches for pods that take none of the nodes become rare, whatever the cause is.

use crate::common::{Harness, pod};
use nodeless_fake_kubernetes::resource::{NODES, REPLICA_SETS};
use nodeless_telemetry::Metric;
use serde_json::json;

/// A cluster that removes empty nodes at once, with a ReplicaSet of this name.
async fn cluster(name: &str) -> Harness {
    let mut harness = Harness::new().await;
    let disruption = json!({ "consolidateAfter": "0s", "consolidationPolicy": "WhenEmpty" });
    harness.cluster.patch_node_pool(json!({ "spec": { "disruption": disruption } }));
    harness.cluster.add_replica_sets([pod(name, 1000)]);
    harness.cluster.converge();
    harness.queue_wake().await;
    harness
}

/// An agent taints every node after it became ready, which no object states before.
fn taint_all(harness: &Harness) {
    for node in harness.cluster.nodes().into_keys() {
        let taints = json!([{ "key": "agent.example.com/quarantine", "effect": "NoSchedule" }]);
        harness.cluster.patch(&NODES, &node, json!({ "spec": { "taints": taints } }));
    }
}

fn launched(harness: &Harness) -> f64 {
    harness.sink.totals().get(Metric::NodesLaunched).iter().sum()
}

async fn an_hour_with_the_agent(harness: &mut Harness) {
    for _ in 0..60 {
        harness.minutes(1).await;
        taint_all(harness);
    }
}

#[tokio::test]
async fn launches_for_pods_that_take_none_of_them_become_rare() {
    let mut harness = cluster("web").await;
    harness.cluster.world().set_refused("app", "web", true);
    an_hour_with_the_agent(&mut harness).await;
    let count = launched(&harness);
    assert!((3.0..=6.0).contains(&count), "{count} launches in an hour");

    let events = harness.cluster.events_of("FailedScheduling");
    let states = |event: &&nodeless_model::object::ObjectEvent| {
        event.message.contains("for pods of ReplicaSet default/web") && event.message.contains("placed none of these")
    };
    assert!(events.iter().any(|event| states(&event)), "{events:?}");
    assert!(harness.sink.totals().get(Metric::UnusedLaunches).contains(&1.0));
}

#[tokio::test]
async fn what_a_changed_template_makes_is_launched_for_at_once() {
    let mut harness = cluster("web").await;
    harness.cluster.world().set_refused("app", "web", true);
    an_hour_with_the_agent(&mut harness).await;
    let before = launched(&harness);
    harness.cluster.delete(&REPLICA_SETS, "web");
    harness.cluster.add_replica_sets([pod("next", 1000)]);
    harness.cluster.converge();
    harness.queue_wake().await;
    harness.until("the pod of another ReplicaSet runs", |harness| harness.cluster.bound() == 1).await;
    assert!(launched(&harness) <= before + 1.0);
}

#[tokio::test]
async fn a_pod_that_is_scheduled_at_last_ends_the_wait() {
    let mut harness = cluster("web").await;
    harness.cluster.world().set_refused("app", "web", true);
    harness.minutes(40).await;
    let count = launched(&harness);
    // Two without a wait, and then after 6, 12 and 24 minutes.
    assert!(count <= 5.0, "{count} launches in 40 minutes");
    harness.cluster.world().set_refused("app", "web", false);
    harness.until("the pod runs", |harness| harness.cluster.bound() == 1).await;
    harness.minutes(2).await;
    let plan = harness.planner().run().await.unwrap();
    assert!(plan.unschedulable.is_empty(), "{plan:?}");
}
