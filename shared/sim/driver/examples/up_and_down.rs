//! Launches nodes for the pods of a Deployment in the simulated cluster, waits until the pods run, deletes them, and waits until the nodes
//! are gone: the lifecycle that `tests/instructions` counts.
//! `cargo run --release -p nodeless-driver --example up_and_down -- NODES`
#![allow(clippy::unwrap_used, missing_docs)]

use jiff::SignedDuration;
use nodeless_api::test_support::{ec2_node_class_manifest, node_pool_manifest};
use nodeless_driver::{Driver, Schedule};
use nodeless_fake_kubernetes::resource::{DEPLOYMENTS, NODES, PODS};
use nodeless_fake_kubernetes::{CreateOptions, ListOptions, PatchOptions, PatchType, Resource};
use nodeless_telemetry::Null;
use nodeless_world::resources::{NODE_CLASSES, NODE_POOLS};
use nodeless_world::{World, WorldOptions};
use serde_json::{Value, json};
use std::sync::Arc;

/// Two pods fill a node of four cpus.
const PODS_OF_NODE: usize = 2;

fn main() {
    let nodes: usize = std::env::args().nth(1).expect("give the number of nodes").parse().unwrap();
    let mut driver = Driver::new(World::new(WorldOptions::default()).unwrap(), Schedule::default(), Arc::new(Null));
    let requirements = json!([
        { "key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"] },
        { "key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["m6i.xlarge"] },
    ]);
    let when_empty = json!({
        "disruption": { "consolidationPolicy": "WhenEmpty", "consolidateAfter": "30s", "budgets": [{ "nodes": "100%" }] },
    });
    create(&driver, &NODE_CLASSES, ec2_node_class_manifest("default", "nodeless", &json!({})));
    create(&driver, &NODE_POOLS, node_pool_manifest("default", &requirements, &when_empty));
    create(&driver, &DEPLOYMENTS, deployment(nodes * PODS_OF_NODE));
    wait(&mut driver, "all pods run", |driver| {
        let running = list(driver, &PODS).iter().filter(|pod| pod["status"]["phase"] == "Running").count();
        running == nodes * PODS_OF_NODE && list(driver, &NODES).len() == nodes
    });
    let (none, options) = (json!({ "spec": { "replicas": 0 } }), PatchOptions::default());
    driver.world().api().patch(&DEPLOYMENTS, "default", "web", None, PatchType::Merge, &none, &options).unwrap();
    wait(&mut driver, "no node is left", |driver| list(driver, &NODES).is_empty());
}

fn deployment(replicas: usize) -> Value {
    let requests = json!({ "cpu": "1500m", "memory": "1Gi" });
    json!({
        "metadata": { "name": "web" },
        "spec": {
            "replicas": replicas, "selector": { "matchLabels": { "app": "web" } },
            "template": {
                "metadata": { "labels": { "app": "web" } },
                "spec": { "containers": [{ "name": "web", "image": "x", "resources": { "requests": requests } }] },
            },
        },
    })
}

fn create(driver: &Driver, resource: &Resource, object: Value) {
    driver.world().api().create(resource, object, &CreateOptions::default()).unwrap();
}

fn list(driver: &Driver, resource: &Resource) -> Vec<Arc<Value>> {
    driver.world().api().list(resource, &ListOptions::default()).unwrap().items
}

fn wait(driver: &mut Driver, what: &str, holds: impl Fn(&Driver) -> bool) {
    let limit = driver.world().now().saturating_add(SignedDuration::from_mins(10)).unwrap();
    assert!(driver.advance_until(limit, holds).unwrap(), "within ten minutes, {what}");
}
