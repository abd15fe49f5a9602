//! A comparison in an existing cluster.

use super::{compared, deployment, dollars, pool, set};
use crate::support::Folder;
use crate::support::objects::Objects;
use serde_json::{Value, json};
use std::fs;

/// A cluster of this many nodes of a NodePool, each with two pods of the Deployment `web` that request 1500m.
fn cluster(nodes: usize) -> Objects {
    let mut objects = Objects(set(&[]));
    for index in 0..nodes {
        let name = format!("node-{index}");
        allocatable(objects.node(&name, "m5.2xlarge", "on-demand"));
        for pod in 0..2 {
            owned(objects.pod(&format!("web-7d9f-{index}-{pod}"), Some(&name), "1500m"));
        }
    }
    objects
}

fn allocatable(node: &mut Value) {
    let amounts = json!({ "cpu": "7910m", "memory": "30500Mi", "pods": "58" });
    (node["status"]["allocatable"], node["status"]["capacity"]) = (amounts.clone(), amounts);
}

fn owned(pod: &mut Value) {
    pod["metadata"]["labels"] = json!({ "app": "web" });
    pod["metadata"]["ownerReferences"] =
        json!([{ "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-7d9f", "uid": "1", "controller": true }]);
}

/// Compares two sets in a cluster.
fn within(cluster: &Objects, code: i32, sets: [&[Value]; 2]) -> Value {
    let folder = Folder::new();
    let path = folder.path().join("cluster.json");
    fs::write(&path, json!({ "apiVersion": "v1", "kind": "List", "items": cluster.0 }).to_string()).unwrap();
    compared(code, sets, &["--cluster", path.to_str().unwrap()])
}

#[test]
fn free_capacity_of_the_nodes_hides_no_difference() {
    let (base, head) = ([deployment("web", 8, "1500m")], [deployment("web", 16, "1500m")]);
    let report = within(&cluster(4), 0, [&base, &head]);
    // The four nodes have free capacity for 20 pods.
    assert!(dollars(&report) > 300, "{report:#}");
    assert_eq!(report["objects"]["changed"][0]["podsBefore"], 8);
    // The nodes are planned anew.
    assert!(report["before"]["dollarsPerMonth"].as_i64().unwrap() < 4 * 280, "{report:#}");
}

#[test]
fn the_pods_of_the_cluster_are_in_both_plans() {
    let (base, head) = ([deployment("api", 1, "1")], [deployment("api", 4, "1")]);
    let report = within(&cluster(4), 0, [&base, &head]);
    let alone = compared(0, [&set(&base), &set(&head)], &[]);
    assert!(report["before"]["dollarsPerMonth"].as_i64() > alone["after"]["dollarsPerMonth"].as_i64(), "{report:#}");
    assert!(dollars(&report) > 0);
}

#[test]
fn nodes_of_no_node_pool_stay_with_their_capacity() {
    let mut cluster = cluster(0);
    let node = cluster.node("own", "m5.2xlarge", "on-demand");
    allocatable(node);
    node["metadata"]["labels"].as_object_mut().unwrap().remove("karpenter.sh/nodepool");
    let (base, head) = ([deployment("web", 1, "1")], [deployment("web", 7, "1")]);
    let report = within(&cluster, 0, [&base, &head]);
    assert_eq!((&report["headline"], &report["after"]["nodes"]), (&json!("no change of nodes"), &json!(1)));
    assert_eq!(report["groups"][0]["nodePool"], Value::Null);
}

#[test]
fn what_head_lacks_is_removed_from_the_cluster() {
    // The cluster has the workload and the NodePool that HEAD removes.
    let (base, head) = ([deployment("web", 8, "1500m"), pool("default", &[])], [deployment("api", 1, "1")]);
    let report = within(&cluster(4), 2, [&base, &head]);
    assert_eq!(report["after"]["nodes"], 0, "{report:#}");
    assert_eq!(report["becomeUnschedulable"][0]["pod"], "default/api-0");
    assert_eq!(report["objects"]["removed"].as_array().unwrap().len(), 2);

    // The cluster has already what HEAD adds: nothing changes when it is applied.
    let adopted = [pool("default", &[]), deployment("web", 8, "1500m")];
    let report = within(&cluster(4), 0, [&adopted[..1], &adopted]);
    assert_eq!(report["headline"], "no change of nodes", "{report:#}");
    assert_eq!(report["objects"]["added"][0]["pods"], 8);
}

#[test]
fn replicas_that_a_manifest_leaves_out_are_those_of_the_cluster() {
    let mut scaled = deployment("web", 1, "1500m");
    scaled["spec"].as_object_mut().unwrap().remove("replicas");
    let mut larger = scaled.clone();
    larger["spec"]["template"]["spec"]["containers"][0]["resources"]["requests"]["cpu"] = json!("3");
    let report = within(&cluster(4), 0, [&[scaled], &[larger]]);
    let changed = &report["objects"]["changed"][0];
    assert_eq!((&changed["podsBefore"], &changed["pods"]), (&json!(8), &json!(8)), "{report:#}");
    assert!(dollars(&report) > 300, "{report:#}");
}

#[test]
fn a_node_without_a_price_is_named_and_changes_nothing() {
    let mut cluster = cluster(0);
    let node = cluster.node("strange", "x99.mega", "on-demand");
    allocatable(node);
    node["metadata"]["labels"].as_object_mut().unwrap().remove("karpenter.sh/nodepool");
    let report = within(&cluster, 0, [&[deployment("web", 1, "1")], &[deployment("web", 40, "1")]]);
    assert!(dollars(&report) > 0);
    let assumptions = report["assumptions"].to_string();
    assert!(assumptions.contains("The price of 1 node is unknown and in no sum: strange."), "{assumptions}");
}
