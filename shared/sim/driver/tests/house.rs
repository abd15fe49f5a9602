//! From pending pods to nodes and back, in virtual time.
#![allow(clippy::unwrap_used)]

mod support;

use nodeless_driver::Controller;
use nodeless_fake_aws::InstanceState;
use nodeless_fake_kubernetes::resource::{DEPLOYMENTS, EVENTS, NODES, PODS};
use nodeless_fake_kubernetes::{DeleteOptions, PatchOptions, PatchType};
use nodeless_ports::Claims;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::Arc;
use support::{create, custom, list, picture, running, start, within};

fn deploy(controller: &Controller, replicas: i64) {
    let requests = json!({ "cpu": "1", "memory": "1Gi" });
    let container =
        json!({ "name": "inflate", "image": "registry.k8s.io/pause:3.9", "resources": { "requests": requests } });
    create(
        controller,
        &DEPLOYMENTS,
        json!({
            "metadata": { "name": "inflate" },
            "spec": {
                "replicas": replicas, "selector": { "matchLabels": { "app": "inflate" } },
                "template": { "metadata": { "labels": { "app": "inflate" } }, "spec": { "containers": [container] } },
            },
        }),
    );
}

fn scale(controller: &Controller, replicas: i64) {
    let patch = json!({ "spec": { "replicas": replicas } });
    let options = PatchOptions::default();
    let api = controller.world().api();
    api.patch(&DEPLOYMENTS, "default", "inflate", None, PatchType::Merge, &patch, &options).unwrap();
}

fn alive(controller: &Controller) -> usize {
    controller.world().ec2().instances().iter().filter(|it| it.state != InstanceState::Terminated).count()
}

fn records(controller: &Controller) -> usize {
    futures::FutureExt::now_or_never(controller.claims().list()).unwrap().unwrap().len()
}

#[test]
fn five_pods_get_a_node_and_the_empty_node_goes() {
    let mut controller = start();
    controller.advance_to(within(&controller, 5)).unwrap();
    deploy(&controller, 5);
    let limit = within(&controller, 180);
    let came = controller.advance_until(limit, |it| running(it) == 5).unwrap();
    assert!(came, "{}", picture(&mut controller));
    let nodes = list(&controller, &NODES);
    assert!(!nodes.is_empty() && nodes.len() <= 5);
    assert!(nodes.iter().all(|node| node["metadata"]["labels"]["karpenter.sh/nodepool"] == "default"));
    let mirrors = list(&controller, &custom("nodeclaims"));
    let names = |objects: &[Arc<Value>], at: &str| -> BTreeSet<String> {
        objects.iter().map(|object| object.pointer(at).unwrap().to_string()).collect()
    };
    assert_eq!(names(&mirrors, "/status/nodeName"), names(&nodes, "/metadata/name"));
    assert!(controller.world().ec2().hourly_price() > 0.0);

    // A while later everything still stands: nothing disrupts a cluster that rests.
    controller.advance_to(within(&controller, 600)).unwrap();
    assert_eq!(running(&controller), 5, "{}", picture(&mut controller));
    assert_eq!(names(&list(&controller, &NODES), "/metadata/name"), names(&nodes, "/metadata/name"));

    let uid = &mirrors[0]["metadata"]["uid"];
    let told: BTreeSet<String> = list(&controller, &EVENTS)
        .iter()
        .filter(|event| event["involvedObject"]["uid"] == *uid)
        .map(|event| event["reason"].as_str().unwrap().to_owned())
        .collect();
    // How it came to be, and then why it stays.
    let expected = [
        "ConsistentStateFound",
        "Consolidatable",
        "DisruptionBlocked",
        "Initialized",
        "Launched",
        "Ready",
        "Registered",
        "Unconsolidatable",
    ]
    .map(str::to_owned);
    assert_eq!(told, BTreeSet::from(expected), "what `kubectl describe nodeclaim` shows");

    controller.take_outcomes();
    scale(&controller, 0);
    let limit = within(&controller, 400);
    let gone = controller
        .advance_until(limit, |it| {
            alive(it) == 0
                && list(it, &NODES).is_empty()
                && list(it, &custom("nodeclaims")).is_empty()
                && records(it) == 0
        })
        .unwrap();
    assert!(gone, "{}", picture(&mut controller));
    let usage = futures::FutureExt::now_or_never(controller.claims().usage()).unwrap().unwrap();
    assert!(usage.values().all(|usage| usage.resources.iter().all(|(_, quantity)| quantity.is_zero())), "{usage:?}");
    assert_eq!(list(&controller, &PODS).len(), 0);
}

#[test]
fn an_interrupted_node_is_replaced() {
    let mut controller = start();
    controller.advance_to(within(&controller, 5)).unwrap();
    deploy(&controller, 2);
    let limit = within(&controller, 180);
    let came = controller.advance_until(limit, |it| running(it) == 2).unwrap();
    assert!(came, "{}", picture(&mut controller));
    let spot = |it: &Controller| it.world().ec2().instances().into_iter().find(|it| it.spot_request_id.is_some());
    let taken = spot(&controller).expect("spot is the cheapest, so it is what was launched");
    controller.world().ec2().interrupt_spot(&taken.id).unwrap();
    let limit = within(&controller, 300);
    let moved = controller
        .advance_until(limit, |it| {
            let nodes = list(it, &NODES);
            running(it) == 2 && nodes.iter().all(|node| node["metadata"]["name"] != taken.private_dns_name.as_str())
        })
        .unwrap();
    assert!(moved, "{}", picture(&mut controller));
}

#[test]
fn a_deleted_nodeclaim_is_drained_and_replaced() {
    let mut controller = start();
    controller.advance_to(within(&controller, 5)).unwrap();
    deploy(&controller, 1);
    let limit = within(&controller, 180);
    assert!(controller.advance_until(limit, |it| running(it) == 1).unwrap(), "{}", picture(&mut controller));
    let name = list(&controller, &custom("nodeclaims"))[0]["metadata"]["name"].as_str().unwrap().to_owned();
    let options = DeleteOptions::default();
    controller.world().api().delete(&custom("nodeclaims"), "", &name, &options).unwrap();
    let limit = within(&controller, 300);
    let replaced = controller
        .advance_until(limit, |it| {
            let claims = list(it, &custom("nodeclaims"));
            running(it) == 1 && claims.len() == 1 && claims[0]["metadata"]["name"] != name.as_str()
        })
        .unwrap();
    assert!(replaced, "{}", picture(&mut controller));
}
