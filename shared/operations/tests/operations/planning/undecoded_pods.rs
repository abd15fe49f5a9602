//! A pod that cannot be decoded concerns only the node that it is bound to.

use crate::common::{Harness, invalid_pod, running_cluster};
use nodeless_fake_kubernetes::resource::REPLICA_SETS;

/// Removes a ReplicaSet and its pod.
fn remove(harness: &Harness, app: &str) {
    let pod = harness.cluster.pod_of(app).name;
    harness.cluster.delete(&REPLICA_SETS, app);
    harness.cluster.remove_pod(&pod);
}

/// The messages of the Events `reason` about an object.
fn messages(harness: &Harness, reason: &str, kind: &str, name: &str) -> Vec<String> {
    let events = harness.cluster.events_of(reason);
    let about = events.into_iter().filter(|event| event.object.kind == kind && event.object.name == name);
    about.map(|event| event.message).collect()
}

#[tokio::test]
async fn the_other_nodes_are_consolidated_and_that_of_the_pod_stays() {
    let mut harness = running_cluster(3).await;
    let node_of = |harness: &Harness, app: &str| harness.cluster.pod_of(app).node_name.unwrap();
    let (odd, empty, full) = (node_of(&harness, "web-0"), node_of(&harness, "web-1"), node_of(&harness, "web-2"));
    harness.cluster.add_pods([invalid_pod("odd", Some(&odd))]);
    remove(&harness, "web-0");
    remove(&harness, "web-1");
    harness.until("the empty node goes", |harness| harness.cloud.alive().len() == 2).await;
    harness.minutes(10).await;
    let nodes: Vec<String> = harness.cluster.nodes().into_keys().collect();
    assert!(nodes.len() == 2 && nodes.contains(&odd) && nodes.contains(&full), "{nodes:?}, without {empty}");
    let of_node = messages(&harness, "DisruptionBlocked", "Node", &odd);
    assert!(of_node.iter().any(|why| why.starts_with("Pod default/odd cannot be decoded (")), "{of_node:?}");
    let of_pod = messages(&harness, "DisruptionBlocked", "Pod", "odd");
    assert!(of_pod.iter().any(|why| why.contains("correct the field, or delete the pod")), "{of_pod:?}");
    harness.cluster.remove_pod("odd");
    harness.until("its node goes", |harness| harness.cloud.alive().len() == 1).await;
}

#[tokio::test]
async fn a_pod_without_a_node_keeps_no_node_and_is_named() {
    let mut harness = running_cluster(1).await;
    harness.cluster.remove_all_pods();
    harness.cluster.add_pods([invalid_pod("odd", None)]);
    let report = harness.planner().run().await.unwrap();
    let named = report.unschedulable.iter().any(|(pod, why)| pod == "default/odd" && why.contains("cannot decode it"));
    assert!(named, "{:?}", report.unschedulable);
    let problems = &report.problems;
    assert!(problems.iter().any(|problem| problem.starts_with("Pod default/odd is left out")), "{problems:?}");
    harness.until("the node goes", |harness| harness.cloud.alive().is_empty()).await;
    let events = messages(&harness, "FailedScheduling", "Pod", "odd");
    assert!(events.iter().any(|why| why.contains("no node is launched for it")), "{events:?}");
}
