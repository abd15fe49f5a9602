//! What became of a plan: the price and the nodes that were planned for pending pods, and those that run once no pod is pending, with
//! and without nominations. Nodes join up to 20 seconds apart, and nothing is consolidated.
//! `cargo run --release -p nodeless-driver --example realized -- PODS SEED [MIX]`
#![allow(clippy::unwrap_used, missing_docs)]

use futures::FutureExt as _;
use jiff::SignedDuration;
use nodeless_driver::{Driver, Schedule};
use nodeless_fake_kubernetes::resource::{DAEMON_SETS, NAMESPACES, PODS};
use nodeless_fake_kubernetes::{CreateOptions, ListOptions, Resource};
use nodeless_model::NodeClaim;
use nodeless_ports::Claims as _;
use nodeless_telemetry::Null;
use nodeless_workloads::Mix;
use nodeless_workloads::export::{Fullness, export};
use nodeless_world::resources::{NODE_CLASSES, NODE_POOLS};
use nodeless_world::{JoinTiming, World, WorldOptions};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;

/// How long the pods may take, in seconds.
const MAX_SECONDS: i64 = 3_600;

fn claims(driver: &Driver) -> Vec<NodeClaim> {
    driver.claims().list().now_or_never().unwrap().unwrap()
}

fn pods(driver: &Driver) -> Vec<Arc<Value>> {
    let all = driver.world().api().list(&PODS, &ListOptions::default()).unwrap().items;
    all.into_iter().filter(|pod| pod["metadata"]["ownerReferences"][0]["kind"] != "DaemonSet").collect()
}

fn start(mix: Mix, count: usize, seed: u64, nominations: bool) -> Driver {
    let join = JoinTiming { spread: SignedDuration::from_secs(20), ..JoinTiming::default() };
    // The EC2NodeClass of the export selects the subnets of this cluster.
    let options =
        WorldOptions { cluster_name: "example".to_owned(), join, nominations, seed, ..WorldOptions::default() };
    let driver = Driver::new(World::new(options).unwrap(), Schedule::default(), Arc::new(Null));
    let objects: Value = serde_json::from_str(&export(&mix.pending(count, seed), Fullness::Sparse)).unwrap();
    for mut object in objects["items"].as_array().unwrap().iter().cloned() {
        let resource: Resource = match object["kind"].as_str().unwrap() {
            "Pod" => PODS,
            "DaemonSet" => DAEMON_SETS,
            "Namespace" => NAMESPACES,
            "EC2NodeClass" => NODE_CLASSES,
            "NodePool" => {
                let spec = &mut object["spec"];
                spec["disruption"] = json!({ "consolidationPolicy": "WhenEmpty", "consolidateAfter": "Never" });
                spec.as_object_mut().unwrap().remove("limits");
                let requirements = spec["template"]["spec"]["requirements"].as_array_mut().unwrap();
                requirements.retain(|one| one["key"] != "karpenter.sh/capacity-type");
                requirements
                    .push(json!({ "key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"] }));
                NODE_POOLS
            }
            other => panic!("{other}"),
        };
        for field in ["uid", "creationTimestamp", "ownerReferences"] {
            object["metadata"].as_object_mut().unwrap().remove(field);
        }
        object.as_object_mut().unwrap().remove("status");
        for spec in ["/spec", "/spec/template/spec"] {
            let containers = object.pointer_mut(&format!("{spec}/containers")).and_then(Value::as_array_mut);
            containers.into_iter().flatten().for_each(|container| container["image"] = json!("pause"));
        }
        driver.world().api().create(&resource, object, &CreateOptions::default()).unwrap();
    }
    driver
}

/// Prints one line, and returns the realized price divided by the planned one.
fn run(mix: Mix, count: usize, seed: u64, nominations: bool) {
    let mut driver = start(mix, count, seed, nominations);
    let began = driver.world().now();
    let mut planned: BTreeMap<String, NodeClaim> = BTreeMap::new();
    let mut last = None;
    let limit = began.saturating_add(SignedDuration::from_secs(MAX_SECONDS)).unwrap();
    let bound = driver
        .advance_until(limit, |driver| {
            let present = claims(driver);
            let launched = |claim: &&NodeClaim| claim.status.instance.is_some();
            if planned.is_empty() && !present.is_empty() && present.iter().all(|claim| launched(&claim)) {
                planned = present.into_iter().map(|claim| (claim.name.clone(), claim)).collect();
            }
            let pending = pods(driver).iter().filter(|pod| pod["spec"]["nodeName"].is_null()).count();
            if pending == 0 {
                last = Some(driver.world().now());
            }
            pending == 0
        })
        .unwrap();
    let all = claims(&driver);
    let price = |claims: &mut dyn Iterator<Item = &NodeClaim>| -> f64 {
        claims.filter_map(|claim| claim.status.instance.as_ref()).map(|instance| instance.price).sum()
    };
    let by_node: BTreeMap<&str, &NodeClaim> =
        all.iter().filter_map(|claim| Some((claim.status.node_name.as_deref()?, claim))).collect();
    let right = pods(&driver)
        .iter()
        .filter(|pod| {
            let key = format!(
                "{}/{}",
                pod["metadata"]["namespace"].as_str().unwrap(),
                pod["metadata"]["name"].as_str().unwrap()
            );
            let claim = pod["spec"]["nodeName"].as_str().and_then(|node| by_node.get(node));
            claim.is_some_and(|claim| planned.contains_key(&claim.name) && claim.spec.nominated_pods.contains(&key))
        })
        .count();
    let (before, after) = (price(&mut planned.values()), price(&mut all.iter()));
    let seconds = last.map_or(MAX_SECONDS, |at| at.duration_since(began).as_secs());
    println!(
        "{:11} {} nominations {:5} planned ${before:7.2} {:3} nodes, became ${after:7.2} {:3} nodes, ratio {:.3}, where planned {:.2}, {seconds} s{}",
        mix.name(),
        seed,
        nominations,
        planned.len(),
        all.len(),
        after / before,
        right as f64 / count as f64,
        if bound { "" } else { ", pods are still pending" },
    );
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (count, seed) = (arguments[0].parse().unwrap(), arguments[1].parse().unwrap());
    for mix in Mix::ALL.into_iter().filter(|mix| arguments.get(2).is_none_or(|name| mix.name() == name)) {
        for nominations in [false, true] {
            run(mix, count, seed, nominations);
        }
    }
}
