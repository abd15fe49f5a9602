//! Zone balance from scale-in to rest, in virtual time.

use crate::support::{create, list, picture, running, start_in, within};
use nodeless_driver::Driver;
use nodeless_fake_kubernetes::resource::{DEPLOYMENTS, EVENTS, NODES, PODS};
use nodeless_fake_kubernetes::{PatchOptions, PatchType, Resource};
use nodeless_world::WorldOptions;
use nodeless_world::resources::NODE_POOLS;
use serde_json::{Value, json};
use std::collections::BTreeMap;

const ZONES: [&str; 3] = ["us-east-1a", "us-east-1b", "us-east-1c"];

fn deployment(name: &str, replicas: usize, spec: &Value) -> Value {
    let mut pods = json!({ "containers": [{ "name": "main", "image": "registry.k8s.io/pause:3.9",
        "resources": { "requests": { "cpu": "800m", "memory": "512Mi" } } }] });
    for (key, value) in spec.as_object().unwrap() {
        pods[key] = value.clone();
    }
    json!({
        "metadata": { "name": name },
        "spec": {
            "replicas": replicas, "selector": { "matchLabels": { "app": name } },
            "template": { "metadata": { "labels": { "app": name } }, "spec": pods },
        },
    })
}

fn change(driver: &Driver, resource: &Resource, namespace: &str, name: &str, to: &Value) {
    let options = PatchOptions::default();
    driver.world().api().patch(resource, namespace, name, None, PatchType::Merge, to, &options).unwrap();
}

fn allow(driver: &Driver, dollars: &str) {
    let annotations = json!({ "metadata": { "annotations": { "nodeless.sh/balance-zones": dollars } } });
    change(driver, &NODE_POOLS, "", "default", &annotations);
}

fn wait(driver: &mut Driver, seconds: i64, what: &str, holds: impl Fn(&Driver) -> bool) {
    let limit = within(driver, seconds);
    let came = driver.advance_until(limit, holds).unwrap();
    assert!(came, "{what}: {:?} {}", by_zone(driver), picture(driver));
}

/// The running pods of a Deployment with their nodes.
fn pods_of(driver: &Driver, app: &str) -> Vec<(String, String)> {
    let pods = list(driver, &PODS);
    let own = pods.iter().filter(|pod| pod["metadata"]["labels"]["app"] == app && pod["status"]["phase"] == "Running");
    let named = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    own.map(|pod| (named(&pod["metadata"]["name"]), named(&pod["spec"]["nodeName"]))).collect()
}

fn zones(driver: &Driver) -> BTreeMap<String, String> {
    let zone = |node: &Value| node["metadata"]["labels"]["topology.kubernetes.io/zone"].as_str().unwrap().to_owned();
    let nodes = list(driver, &NODES);
    nodes.iter().map(|node| (node["metadata"]["name"].as_str().unwrap().to_owned(), zone(node))).collect()
}

/// The number of running pods of `web` in each zone.
fn by_zone(driver: &Driver) -> [usize; 3] {
    let (pods, zones) = (pods_of(driver, "web"), zones(driver));
    ZONES.map(|zone| pods.iter().filter(|(_, node)| zones.get(node).is_some_and(|it| it == zone)).count())
}

fn events<'d>(driver: &'d Driver, reason: &'d str) -> Vec<String> {
    let events = list(driver, &EVENTS);
    let own = events.iter().filter(|event| event["reason"] == reason);
    own.map(|event| event["message"].as_str().unwrap_or_default().to_owned()).collect()
}

/// Four pods in one zone and one in each of the others, after scale-in: on nodes for two pods, which are full.
fn uneven(allowed: Option<&str>) -> Driver {
    let mut driver = start_in(WorldOptions::default());
    driver.advance_to(within(&driver, 5)).unwrap();
    let small = json!({ "spec": {
        "template": { "spec": { "requirements": [
            { "key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"] },
            { "key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["m5.large"] },
        ] } },
        "disruption": { "budgets": [{ "nodes": "100%" }] },
    } });
    change(&driver, &NODE_POOLS, "", "default", &small);
    if let Some(dollars) = allowed {
        allow(&driver, dollars);
    }
    for (name, zone) in [("fill-b", ZONES[1]), ("fill-c", ZONES[2])] {
        let there = json!({ "nodeSelector": { "topology.kubernetes.io/zone": zone } });
        create(&driver, &DEPLOYMENTS, deployment(name, 1, &there));
    }
    wait(&mut driver, 300, "the others run", |it| running(it) == 2);
    let spread = json!({ "topologySpreadConstraints": [{ "maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone",
        "whenUnsatisfiable": "ScheduleAnyway", "labelSelector": { "matchLabels": { "app": "web" } } }] });
    create(&driver, &DEPLOYMENTS, deployment("web", 12, &spread));
    wait(&mut driver, 600, "all run", |it| running(it) == 14);
    assert_eq!(by_zone(&driver), [4, 4, 4]);
    // Scale-in leaves the pods of the first zone, and those beside the others.
    let others: Vec<String> =
        ["fill-b", "fill-c"].iter().flat_map(|app| pods_of(&driver, app)).map(|(_, node)| node).collect();
    let zones = zones(&driver);
    for (pod, node) in pods_of(&driver, "web") {
        if zones[&node] != ZONES[0] && !others.contains(&node) {
            let cost =
                json!({ "metadata": { "annotations": { "controller.kubernetes.io/pod-deletion-cost": "-100" } } });
            change(&driver, &PODS, "default", &pod, &cost);
        }
    }
    change(&driver, &DEPLOYMENTS, "default", "web", &json!({ "spec": { "replicas": 6 } }));
    wait(&mut driver, 60, "it is uneven", |it| by_zone(it) == [4, 1, 1]);
    driver
}

#[test]
fn a_service_becomes_even_after_scale_in_within_the_cost_that_is_allowed() {
    let mut driver = uneven(Some("0.05"));
    driver.advance_to(within(&driver, 1800)).unwrap();
    // A node of two pods would be replaced by two nodes, for the price of one more: $0.096.
    assert_eq!((by_zone(&driver), list(&driver, &NODES).len()), ([4, 1, 1], 4), "{}", picture(&mut driver));
    let reported = events(&driver, "Unconsolidatable");
    let why = "Deployment default/web is uneven over zones, a move costs at least $0.0960/h more, and NodePool default allows \
               $0.0500/h (nodeless.sh/balance-zones)";
    assert!(reported.iter().any(|message| message.contains(why)), "{reported:#?}");
    assert!(events(&driver, "ZoneBalanceCandidate").is_empty());

    allow(&driver, "0.1");
    wait(&mut driver, 900, "it is even", |it| by_zone(it) == [2, 2, 2]);
    let announced = events(&driver, "ZoneBalanceCandidate");
    let what =
        "Deployment default/web over zones: us-east-1a 4 to 2, us-east-1b 1 to 2, us-east-1c 1 to 2 (cost: $0.0960/h)";
    assert!(announced.iter().any(|message| message.contains(what)), "{announced:#?}");

    // It stays like this, and nothing else moves.
    wait(&mut driver, 300, "the node is gone", |it| list(it, &NODES).len() == 5);
    let before = pods_of(&driver, "web");
    driver.advance_to(within(&driver, 3600)).unwrap();
    assert_eq!((pods_of(&driver, "web"), list(&driver, &NODES).len()), (before, 5), "{}", picture(&mut driver));
}

#[test]
fn a_service_stays_uneven_without_the_annotation() {
    let mut driver = uneven(None);
    driver.advance_to(within(&driver, 1800)).unwrap();
    assert_eq!(by_zone(&driver), [4, 1, 1], "{}", picture(&mut driver));
    let reported = events(&driver, "Unconsolidatable");
    assert!(!reported.iter().any(|message| message.contains("uneven over zones")), "{reported:#?}");
}
