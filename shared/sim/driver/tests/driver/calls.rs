//! The number of calls for each node of a scale-up. Claims share their messages and reads.

use crate::support::{create, list, picture, running, start_counted, within};
use nodeless_driver::Driver;
use nodeless_fake_kubernetes::resource::{DEPLOYMENTS, EVENTS, NODES};
use nodeless_fake_kubernetes::{PatchOptions, PatchType};
use nodeless_world::resources::NODE_POOLS;
use serde_json::json;
use std::collections::BTreeMap;

/// The calls of a scale-up.
struct ScaleUp {
    /// The calls of each operation of the ports.
    calls: BTreeMap<&'static str, u64>,
    /// The new Events of nodeless.
    events: u64,
    /// The maximum number of waiting messages about claims.
    messages: usize,
}

impl ScaleUp {
    /// The number of the operations' calls with this prefix that match `counts`.
    fn sum(&self, prefix: &str, counts: impl Fn(&str) -> bool) -> u64 {
        self.calls.iter().filter(|(name, _)| name.starts_with(prefix) && counts(name)).map(|(_, count)| count).sum()
    }
}

/// Creates this number of pods at once, of which no two fit on one node.
fn scale_up(nodes: usize) -> ScaleUp {
    let mut driver = start_counted();
    let unlimited = json!({ "spec": { "limits": { "cpu": "100000" } } });
    let api = driver.world().api();
    api.patch(&NODE_POOLS, "", "default", None, PatchType::Merge, &unlimited, &PatchOptions::default()).unwrap();
    driver.advance_to(within(&driver, 90)).unwrap();
    let of_ours = |driver: &Driver| {
        list(driver, &EVENTS).iter().filter(|event| event["reportingComponent"] == "nodeless").count() as u64
    };
    let before = of_ours(&driver);
    drop(driver.fault_injection().unwrap().take_calls());
    let selector = json!({ "matchLabels": { "app": "one" } });
    let term = json!({ "labelSelector": selector, "topologyKey": "kubernetes.io/hostname" });
    create(
        &driver,
        &DEPLOYMENTS,
        json!({
            "metadata": { "name": "one" },
            "spec": {
                "replicas": nodes, "selector": selector,
                "template": { "metadata": { "labels": { "app": "one" } }, "spec": {
                    "containers": [{ "name": "main", "image": "registry.k8s.io/pause:3.9",
                        "resources": { "requests": { "cpu": "500m", "memory": "256Mi" } } }],
                    "affinity": { "podAntiAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": [term] } },
                } },
            },
        }),
    );
    let limit = within(&driver, 300);
    let mut messages = 0;
    let is_initialized = |driver: &Driver| {
        let nodes_now = list(driver, &NODES);
        let label = |node: &&std::sync::Arc<serde_json::Value>| {
            node["metadata"]["labels"]["karpenter.sh/initialized"] == "true"
        };
        nodes_now.iter().filter(label).count()
    };
    let done = driver
        .advance_until(limit, |it| {
            messages = messages.max(it.queue().waiting());
            running(it) == nodes && is_initialized(it) == nodes
        })
        .unwrap();
    assert!(done, "{}", picture(&mut driver));
    driver.advance_to(within(&driver, 5)).unwrap();
    assert_eq!(list(&driver, &NODES).len(), nodes);
    let calls = driver.fault_injection().unwrap().take_calls();
    ScaleUp { calls, events: of_ours(&driver) - before, messages }
}

/// Writes of the cluster by one call each, as far as they are about nodes. The NodeClaim objects are created and then get their status.
fn kubernetes_writes(scale_up: &ScaleUp, nodes: u64) -> u64 {
    let about_nodes = ["cluster patch node", "cluster mirror claim", "cluster delete node", "cluster remove claim"];
    scale_up.sum("cluster", |name| about_nodes.contains(&name)) + nodes + scale_up.events
}

#[test]
fn a_scale_up_of_a_hundred_nodes_reads_and_writes_little_for_each() {
    let measured = scale_up(100);
    let writes = ["patch", "mirror claim", "delete", "remove", "evict", "publish", "status", "release"];
    let reads = measured.sum("cluster", |name| !writes.iter().any(|word| name.contains(word)));
    let table = measured.sum("claims", |_| true);
    let written = kubernetes_writes(&measured, 100);
    println!("{:#?}", measured.calls);
    println!(
        "100 nodes: {reads} reads and {written} writes of the cluster ({} Events), {table} calls of the claims table, \
         {} EC2 calls, at most {} messages",
        measured.events,
        measured.sum("cloud", |_| true),
        measured.messages
    );
    // Up to 100 of them are lists of the pods that are not bound, while nominations are kept up.
    // Others are four for each look at the nodes that join, every second.
    assert!(reads <= 250, "{reads} reads of the cluster");
    // Lifecycle writes each claim twice, when its node joins and when it is ready, and plans write it twice, once pods run there.
    // A node that waits for others of its plan takes a write and a read more.
    assert!(table <= 700, "{table} calls of the claims table");
    // The NodeClaim object is created, and its status is written when the instance is launched and when the node is ready; the Node is
    // patched when it joins and when it opens for pods. Events that report the same of many nodes are limited.
    assert!(written <= 600, "{written} writes of the cluster");
    let ec2 = measured.sum("cloud", |_| true);
    assert!(ec2 <= 120, "{ec2} EC2 calls: one for each instance, which tags it");
}

#[test]
fn the_number_of_messages_does_not_grow_with_the_number_of_nodes() {
    let [few, many] = [5, 60].map(|nodes| scale_up(nodes).messages);
    assert!(few <= 3 && many <= 3, "{few} messages for 5 nodes, {many} for 60");
}
