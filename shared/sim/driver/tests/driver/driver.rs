//! From pending pods to nodes and back, in virtual time.

use crate::support::{create, list, picture, running, start, within};
use nodeless_driver::Driver;
use nodeless_fake_aws::InstanceState;
use nodeless_fake_kubernetes::resource::{DEPLOYMENTS, EVENTS, NODES, PODS};
use nodeless_fake_kubernetes::{DeleteOptions, PatchOptions, PatchType};
use nodeless_world::resources::NODE_CLAIMS;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::Arc;

fn deploy(driver: &Driver, replicas: i64) {
    let requests = json!({ "cpu": "1", "memory": "1Gi" });
    let container =
        json!({ "name": "inflate", "image": "registry.k8s.io/pause:3.9", "resources": { "requests": requests } });
    create(
        driver,
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

fn scale(driver: &Driver, replicas: i64) {
    let patch = json!({ "spec": { "replicas": replicas } });
    let options = PatchOptions::default();
    let api = driver.world().api();
    api.patch(&DEPLOYMENTS, "default", "inflate", None, PatchType::Merge, &patch, &options).unwrap();
}

fn alive(driver: &Driver) -> usize {
    driver.world().ec2().instances().iter().filter(|it| it.state != InstanceState::Terminated).count()
}

fn records(driver: &Driver) -> usize {
    futures::FutureExt::now_or_never(driver.claims().list()).unwrap().unwrap().len()
}

#[test]
fn five_pods_get_a_node_and_the_empty_node_goes() {
    let mut driver = start();
    driver.advance_to(within(&driver, 5)).unwrap();
    deploy(&driver, 5);
    let limit = within(&driver, 180);
    let came = driver.advance_until(limit, |it| running(it) == 5).unwrap();
    assert!(came, "{}", picture(&mut driver));
    let nodes = list(&driver, &NODES);
    assert!(!nodes.is_empty() && nodes.len() <= 5);
    assert!(nodes.iter().all(|node| node["metadata"]["labels"]["karpenter.sh/nodepool"] == "default"));
    let mirrors = list(&driver, &NODE_CLAIMS);
    let names = |objects: &[Arc<Value>], at: &str| -> BTreeSet<String> {
        objects.iter().map(|object| object.pointer(at).unwrap().to_string()).collect()
    };
    assert_eq!(names(&mirrors, "/status/nodeName"), names(&nodes, "/metadata/name"));
    assert!(driver.world().ec2().hourly_price() > 0.0);

    // Later everything is unchanged: nothing disrupts a quiescent cluster.
    driver.advance_to(within(&driver, 600)).unwrap();
    assert_eq!(running(&driver), 5, "{}", picture(&mut driver));
    assert_eq!(names(&list(&driver, &NODES), "/metadata/name"), names(&nodes, "/metadata/name"));

    let uid = &mirrors[0]["metadata"]["uid"];
    let mut reported: BTreeSet<String> = list(&driver, &EVENTS)
        .iter()
        .filter(|event| event["involvedObject"]["uid"] == *uid)
        .map(|event| event["reason"].as_str().unwrap().to_owned())
        .collect();
    // Only a plan that runs while the node is not ready yet, or has just got its pods, publishes this one.
    reported.remove("DisruptionBlocked");
    // The reasons from the creation of the claim, then the reason why the node is not consolidated.
    let expected = [
        "ConsistentStateFound",
        "Consolidatable",
        "Initialized",
        "Launched",
        "Ready",
        "Registered",
        "Unconsolidatable",
    ]
    .map(str::to_owned);
    assert_eq!(reported, BTreeSet::from(expected), "what `kubectl describe nodeclaim` shows");

    driver.take_outcomes();
    scale(&driver, 0);
    let limit = within(&driver, 400);
    let gone = driver
        .advance_until(limit, |it| {
            alive(it) == 0 && list(it, &NODES).is_empty() && list(it, &NODE_CLAIMS).is_empty() && records(it) == 0
        })
        .unwrap();
    assert!(gone, "{}", picture(&mut driver));
    let usage = futures::FutureExt::now_or_never(driver.claims().usage()).unwrap().unwrap();
    assert!(usage.values().all(|usage| usage.resources.iter().all(|(_, quantity)| quantity.is_zero())), "{usage:?}");
    assert_eq!(list(&driver, &PODS).len(), 0);
}

#[test]
fn an_interrupted_node_is_replaced() {
    let mut driver = start();
    driver.advance_to(within(&driver, 5)).unwrap();
    deploy(&driver, 2);
    let limit = within(&driver, 180);
    let came = driver.advance_until(limit, |it| running(it) == 2).unwrap();
    assert!(came, "{}", picture(&mut driver));
    let spot = |it: &Driver| it.world().ec2().instances().into_iter().find(|it| it.spot_request_id.is_some());
    let taken = spot(&driver).expect("spot is the cheapest, so it is what was launched");
    driver.world().ec2().interrupt_spot(&taken.id).unwrap();
    let limit = within(&driver, 300);
    let moved = driver
        .advance_until(limit, |it| {
            let nodes = list(it, &NODES);
            running(it) == 2 && nodes.iter().all(|node| node["metadata"]["name"] != taken.private_dns_name.as_str())
        })
        .unwrap();
    assert!(moved, "{}", picture(&mut driver));
}

#[test]
fn a_deleted_nodeclaim_is_drained_and_replaced() {
    let mut driver = start();
    driver.advance_to(within(&driver, 5)).unwrap();
    deploy(&driver, 1);
    let limit = within(&driver, 180);
    assert!(driver.advance_until(limit, |it| running(it) == 1).unwrap(), "{}", picture(&mut driver));
    let name = list(&driver, &NODE_CLAIMS)[0]["metadata"]["name"].as_str().unwrap().to_owned();
    let options = DeleteOptions::default();
    driver.world().api().delete(&NODE_CLAIMS, "", &name, &options).unwrap();
    let limit = within(&driver, 300);
    let replaced = driver
        .advance_until(limit, |it| {
            let claims = list(it, &NODE_CLAIMS);
            running(it) == 1 && claims.len() == 1 && claims[0]["metadata"]["name"] != name.as_str()
        })
        .unwrap();
    assert!(replaced, "{}", picture(&mut driver));
}
