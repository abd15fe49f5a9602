//! The spread constraints that kube-scheduler has for pods without any (`DefaultSelector` of `helper/spread.go`).

use super::*;
use crate::server::resource::{REPLICA_SETS, SERVICES};

/// The node of a small pod `x-new` of the app `web`, where `n1` has a small pod of this app and `n2` a larger pod of another one.
fn placed(new: impl FnOnce(&mut Cluster)) -> String {
    let mut cluster = Cluster::with_nodes(&["n1", "n2"]);
    for (name, app, node, cpu) in [("a", "web", "n1", "100m"), ("b", "other", "n2", "200m")] {
        let mut pod = pod(name, cpu);
        pod["metadata"]["labels"] = json!({ "app": app });
        pod["spec"]["nodeName"] = json!(node);
        cluster.create(&PODS, pod);
    }
    new(&mut cluster);
    cluster.run(5);
    let placed = cluster.list(&PODS);
    let new = placed.iter().find(|pod| super::super::object::name(pod).starts_with("x-new")).unwrap();
    super::super::object::text(new, "/spec/nodeName").to_owned()
}

fn web() -> Value {
    let mut new = pod("x-new", "100m");
    new["metadata"]["labels"] = json!({ "app": "web" });
    new
}

fn service(namespace: &str) -> Value {
    json!({ "metadata": { "name": "web", "namespace": namespace }, "spec": { "selector": { "app": "web" }, "ports": [{ "port": 80 }] } })
}

#[test]
fn a_pod_without_an_owner_goes_where_most_is_left() {
    assert_eq!(placed(|cluster| cluster.create(&PODS, web())), "n1");
}

#[test]
fn the_pods_of_a_service_are_spread() {
    let with_service_in = |namespace: &str| {
        placed(|cluster| {
            cluster.create(&SERVICES, service(namespace));
            cluster.create(&PODS, web());
        })
    };
    assert_eq!(with_service_in("default"), "n2");
    assert_eq!(with_service_in("kube-system"), "n1", "it selects pods of its own namespace only");
}

#[test]
fn the_pods_of_a_replica_set_and_of_a_stateful_set_are_spread() {
    let labels = json!({ "app": "web" });
    let template = json!({ "metadata": { "labels": labels }, "spec": spec("100m") });
    let selector = json!({ "matchLabels": labels, "matchExpressions": [{ "key": "app", "operator": "Exists" }] });
    for resource in [&REPLICA_SETS, &STATEFUL_SETS] {
        let spec = json!({ "replicas": 1, "selector": selector, "serviceName": "x", "template": template });
        let mut set = json!({ "metadata": { "name": "x-new" }, "spec": spec });
        if resource == &REPLICA_SETS {
            set["spec"].as_object_mut().unwrap().remove("serviceName");
            // The set does not adopt the pod that runs, so it creates one.
            set["spec"]["template"]["metadata"]["labels"]["of"] = json!("set");
        }
        let node = placed(|cluster| cluster.create(resource, set));
        assert_eq!(node, "n2", "{}", resource.kind);
    }
}
