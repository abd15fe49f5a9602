//! Deployments, StatefulSets and DaemonSets.

use super::{Cluster, spec, workload};
use crate::server::DeleteOptions;
use crate::server::resource::{DAEMON_SETS, DEPLOYMENTS, NODES, PODS, REPLICA_SETS, STATEFUL_SETS};
use nodeless_model::Taint;
use serde_json::json;
use std::collections::BTreeSet;

#[test]
fn a_deployment_rolls_without_losing_availability() {
    let mut cluster = Cluster::with_nodes(&["n1", "n2", "n3"]);
    cluster.create(&DEPLOYMENTS, workload("web", 4, "100m"));
    cluster.run(5);
    assert_eq!(cluster.running(), 4);
    let status = |cluster: &Cluster| cluster.get(&DEPLOYMENTS, "web")["status"].clone();
    assert_eq!((&status(&cluster)["availableReplicas"], &status(&cluster)["updatedReplicas"]), (&json!(4), &json!(4)));
    let mut changed = spec("100m");
    changed["containers"][0]["image"] = json!("pause:3.10");
    cluster.patch(&DEPLOYMENTS, "web", &json!({ "spec": { "template": { "spec": changed } } }));
    for _ in 0..30 {
        cluster.run(1);
        assert!(status(&cluster)["availableReplicas"].as_i64().unwrap() >= 3);
    }
    let images: BTreeSet<String> =
        cluster.list(&PODS).iter().map(|pod| pod["spec"]["containers"][0]["image"].to_string()).collect();
    assert_eq!(images, BTreeSet::from(["\"pause:3.10\"".to_owned()]));
    assert_eq!(cluster.list(&PODS).len(), 4);
    let sizes: Vec<i64> =
        cluster.list(&REPLICA_SETS).iter().map(|set| set["spec"]["replicas"].as_i64().unwrap()).collect();
    assert_eq!(sizes.iter().sum::<i64>(), 4);
    assert_eq!(cluster.get(&DEPLOYMENTS, "web")["metadata"]["annotations"]["deployment.kubernetes.io/revision"], "2");
    cluster.patch(&DEPLOYMENTS, "web", &json!({ "spec": { "replicas": 0 } }));
    cluster.run(5);
    assert_eq!(cluster.list(&PODS).len(), 0);
}

#[test]
fn a_smaller_set_lets_go_of_the_pending_first_then_of_the_cheap() {
    let mut cluster = Cluster::with_nodes(&["n1"]);
    cluster.create(&DEPLOYMENTS, workload("web", 3, "900m"));
    cluster.run(5);
    assert_eq!(cluster.running(), 2);
    let kept: BTreeSet<String> = cluster
        .list(&PODS)
        .iter()
        .filter(|pod| pod["status"]["phase"] == "Running")
        .map(|pod| crate::controllers::object::name(pod).to_owned())
        .collect();
    cluster.patch(&DEPLOYMENTS, "web", &json!({ "spec": { "replicas": 2 } }));
    cluster.run(5);
    let names = |cluster: &Cluster| -> BTreeSet<String> {
        cluster.list(&PODS).iter().map(|pod| crate::controllers::object::name(pod).to_owned()).collect()
    };
    assert_eq!(names(&cluster), kept);
    let cheap = kept.first().unwrap();
    let cost = json!({ "controller.kubernetes.io/pod-deletion-cost": "-10" });
    cluster.patch(&PODS, cheap, &json!({ "metadata": { "annotations": cost } }));
    cluster.patch(&DEPLOYMENTS, "web", &json!({ "spec": { "replicas": 1 } }));
    cluster.run(5);
    assert!(!names(&cluster).contains(cheap));
}

#[test]
fn of_pods_that_have_been_ready_for_about_as_long_the_uid_decides() {
    let mut cluster = Cluster::with_nodes(&["n1"]);
    let scale = |cluster: &Cluster, replicas: i64| {
        cluster.patch(&DEPLOYMENTS, "web", &json!({ "spec": { "replicas": replicas } }));
    };
    let uids = |cluster: &Cluster| -> BTreeSet<String> {
        cluster.list(&PODS).iter().map(|pod| pod["metadata"]["uid"].as_str().unwrap().to_owned()).collect()
    };
    cluster.create(&DEPLOYMENTS, workload("web", 2, "10m"));
    cluster.run(5);
    let old = uids(&cluster);
    // Ready for 1 to 2 times as long as the others, and for more than twice as long as the last.
    cluster.run(600);
    scale(&cluster, 4);
    cluster.run(1_200);
    let middle: BTreeSet<String> = uids(&cluster).difference(&old).cloned().collect();
    scale(&cluster, 5);
    cluster.run(60);
    let newest: BTreeSet<String> = uids(&cluster).difference(&(&old | &middle)).cloned().collect();
    scale(&cluster, 4);
    cluster.run(5);
    assert!(uids(&cluster).is_disjoint(&newest));
    // 2^40 nanoseconds are 18 minutes.
    scale(&cluster, 2);
    cluster.run(5);
    let kept = (&old | &middle).into_iter().skip(2).collect::<BTreeSet<_>>();
    assert_eq!(uids(&cluster), kept);
}

#[test]
fn of_pods_on_several_nodes_those_beside_others_of_their_deployment_go_first() {
    let mut cluster = Cluster::with_nodes(&["n1", "n2", "n3"]);
    cluster.create(&DEPLOYMENTS, workload("web", 4, "100m"));
    cluster.run(5);
    cluster.patch(&DEPLOYMENTS, "web", &json!({ "spec": { "replicas": 3 } }));
    cluster.run(5);
    let mut nodes = cluster.placed();
    nodes.sort();
    assert_eq!(nodes, ["n1", "n2", "n3"]);
}

#[test]
fn a_stateful_set_grows_and_shrinks_in_order() {
    let mut cluster = Cluster::with_nodes(&["n1", "n2"]);
    cluster.create(&STATEFUL_SETS, workload("db", 3, "100m"));
    cluster.run(0);
    let names = |cluster: &Cluster| -> Vec<String> {
        cluster.list(&PODS).iter().map(|pod| crate::controllers::object::name(pod).to_owned()).collect()
    };
    assert_eq!(names(&cluster), ["db-0"]);
    cluster.run(10);
    assert_eq!(names(&cluster), ["db-0", "db-1", "db-2"]);
    cluster.patch(&STATEFUL_SETS, "db", &json!({ "spec": { "replicas": 1 } }));
    cluster.run(1);
    assert_eq!(names(&cluster), ["db-0", "db-1", "db-2"]);
    cluster.run(5);
    assert_eq!(names(&cluster), ["db-0"]);
}

#[test]
fn a_daemon_set_follows_the_nodes() {
    let mut cluster = Cluster::with_nodes(&["n1"]);
    let mut set = workload("agent", 0, "50m");
    set["spec"].as_object_mut().unwrap().remove("replicas");
    cluster.create(&DAEMON_SETS, set);
    cluster.start("n2", &[], vec![Taint::unregistered()]);
    cluster.run(5);
    assert_eq!(cluster.placed(), ["n1"]);
    cluster.patch(&NODES, "n2", &json!({ "spec": { "taints": null } }));
    cluster.run(5);
    let mut placed = cluster.placed();
    placed.sort();
    assert_eq!(placed, ["n1", "n2"]);
    assert_eq!(cluster.get(&DAEMON_SETS, "agent")["status"]["numberAvailable"], 2);
    cluster.patch(&NODES, "n1", &json!({ "spec": { "unschedulable": true } }));
    cluster.run(5);
    assert_eq!(cluster.placed().len(), 2);
    cluster.controllers.kubelets.stop("n2");
    cluster.api.delete(&NODES, "", "n2", &DeleteOptions::default()).unwrap();
    cluster.run(60);
    assert_eq!(cluster.placed(), ["n1"]);
}

#[test]
fn a_daemon_set_has_pods_only_on_nodes_of_its_affinity() {
    let mut cluster = Cluster::with_nodes(&["n1", "n2", "n3"]);
    let mut set = workload("agent", 0, "50m");
    set["spec"].as_object_mut().unwrap().remove("replicas");
    let zone = |zone: &str| {
        let expression = json!({ "key": "topology.kubernetes.io/zone", "operator": "In", "values": [zone] });
        json!({ "matchExpressions": [expression] })
    };
    let terms = json!([zone("us-east-1a"), zone("us-east-1c")]);
    set["spec"]["template"]["spec"]["affinity"] = json!({
        "nodeAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": { "nodeSelectorTerms": terms } },
    });
    cluster.create(&DAEMON_SETS, set);
    cluster.run(5);
    let mut placed = cluster.placed();
    placed.sort();
    assert_eq!(placed, ["n1", "n3"]);
    let status = &cluster.get(&DAEMON_SETS, "agent")["status"];
    assert_eq!((&status["desiredNumberScheduled"], &status["numberMisscheduled"]), (&json!(2), &json!(0)));
    cluster.patch(&NODES, "n3", &json!({ "metadata": { "labels": { "topology.kubernetes.io/zone": "us-east-1b" } } }));
    cluster.run(60);
    assert_eq!(cluster.placed(), ["n1"]);
}
