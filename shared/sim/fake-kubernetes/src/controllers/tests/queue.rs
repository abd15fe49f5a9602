//! When the scheduler attempts pods again.

use super::*;

/// A pod that no other pod with the label `app: web` may share a node with.
fn apart(name: &str) -> Value {
    let mut pod = pod(name, "100m");
    pod["spec"]["affinity"] = json!({ "podAntiAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": [
        { "labelSelector": { "matchLabels": { "app": "web" } }, "topologyKey": "kubernetes.io/hostname" },
    ] } });
    pod
}

#[test]
fn without_a_node_a_pod_is_attempted_when_its_backoff_ends() {
    let mut cluster = Cluster::new();
    cluster.create(&PODS, pod("a", "100m"));
    // Attempts after 0 s, 2 s, 5 s and 10 s; the next one is after 19 s.
    cluster.run(11);
    cluster.start("n1", &[], Vec::new());
    cluster.run(7);
    assert_eq!(cluster.placed(), [""], "the node has been ready for five seconds");
    cluster.run(1);
    assert_eq!(cluster.placed(), ["n1"]);
}

#[test]
fn a_pod_that_an_existing_pod_repels_is_attempted_on_a_new_node_after_five_minutes_only() {
    let mut cluster = Cluster::with_nodes(&["n1"]);
    cluster.create(&PODS, apart("a"));
    cluster.run(1);
    cluster.create(&PODS, pod("b", "100m"));
    cluster.run(0);
    cluster.start("n2", &[], Vec::new());
    cluster.run(299);
    assert_eq!(cluster.placed(), ["n1", ""]);
    cluster.run(1);
    assert_eq!(cluster.placed(), ["n1", "n2"]);
}

#[test]
fn a_pod_that_is_repelled_goes_to_a_new_node_if_it_repels_others_itself() {
    let mut cluster = Cluster::with_nodes(&["n1"]);
    cluster.create(&PODS, apart("a"));
    cluster.run(1);
    cluster.create(&PODS, apart("b"));
    cluster.run(0);
    cluster.start("n2", &[], Vec::new());
    cluster.run(5);
    assert_eq!(cluster.placed(), ["n1", "n2"]);
}

#[test]
fn pods_whose_changes_the_history_does_not_contain_are_attempted() {
    let mut cluster = Cluster::with_nodes(&["n1"]);
    cluster.create(&PODS, pod("big", "1500m"));
    cluster.create(&PODS, pod("waits", "1"));
    cluster.run(5);
    let options = DeleteOptions { grace_period_seconds: Some(0), ..DeleteOptions::default() };
    cluster.api.delete(&PODS, "default", "big", &options).unwrap();
    cluster.api.compact();
    cluster.run(1);
    assert_eq!(cluster.placed(), ["n1"]);
}
