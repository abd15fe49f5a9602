//! Warm nodes in the whole simulation: with DaemonSets, events of EC2, and the time until pods run.

use crate::support::{create, list, picture, start, within};
use futures::FutureExt as _;
use nodeless_driver::Driver;
use nodeless_fake_aws::InstanceState;
use nodeless_fake_kubernetes::resource::{DAEMON_SETS, NODES, PODS};
use nodeless_fake_kubernetes::{PatchOptions, PatchType};
use nodeless_model::{NodeClaim, labels};
use nodeless_world::resources::NODE_POOLS;
use serde_json::{Value, json};
use std::collections::BTreeSet;

fn patch_pool(driver: &Driver, patch: &Value) {
    let options = PatchOptions::default();
    driver.world().api().patch(&NODE_POOLS, "", "default", None, PatchType::Merge, patch, &options).unwrap();
}

fn keep(driver: &Driver, number: &str) {
    patch_pool(driver, &json!({ "metadata": { "annotations": { labels::WARM: number } } }));
}

/// A DaemonSet without tolerations of its own: it runs on a cordoned node, and not on one with a taint of a NodePool.
fn add_daemon_set(driver: &Driver) {
    let probe = json!({ "initialDelaySeconds": 40, "httpGet": { "port": 80 } });
    let container = json!({ "name": "main", "image": "logs", "readinessProbe": probe });
    let template = json!({ "metadata": { "labels": { "app": "logs" } }, "spec": { "containers": [container] } });
    create(
        driver,
        &DAEMON_SETS,
        json!({
            "metadata": { "name": "logs", "namespace": "kube-system" },
            "spec": { "selector": { "matchLabels": { "app": "logs" } }, "template": template },
        }),
    );
}

fn add_pod(driver: &Driver, name: &str) {
    let container = json!({ "name": "main", "image": "pause", "resources": { "requests": { "cpu": "1500m" } } });
    let metadata = json!({ "name": name, "namespace": "default" });
    create(driver, &PODS, json!({ "metadata": metadata, "spec": { "containers": [container] } }));
}

fn claims(driver: &Driver) -> Vec<NodeClaim> {
    driver.claims().list().now_or_never().unwrap().unwrap()
}

fn runs(driver: &Driver, name: &str) -> bool {
    let is_running = |pod: &Value| pod["metadata"]["name"] == name && pod["status"]["phase"] == "Running";
    list(driver, &PODS).iter().any(|pod| is_running(pod))
}

/// Whether so many instances are stopped, and their images were pulled: a pod of the DaemonSet became ready on the node of each.
fn are_stopped(driver: &Driver, number: usize) -> bool {
    claims(driver).iter().filter(|claim| claim.is_stopped()).count() == number
}

/// No pod of `default` is bound to a cordoned node, and every instance has a claim.
fn check(driver: &Driver) {
    let nodes = list(driver, &NODES);
    let cordoned: BTreeSet<&str> = nodes
        .iter()
        .filter(|node| node["spec"]["unschedulable"] == true)
        .filter_map(|node| node["metadata"]["name"].as_str())
        .collect();
    for pod in list(driver, &PODS).iter().filter(|pod| pod["metadata"]["namespace"] == "default") {
        assert!(!pod["spec"]["nodeName"].as_str().is_some_and(|node| cordoned.contains(node)), "{pod}");
    }
    let gone = [InstanceState::Terminated, InstanceState::ShuttingDown];
    let alive = driver.world().ec2().instances().into_iter().filter(|one| !gone.contains(&one.state)).count();
    assert!(alive <= claims(driver).len(), "{alive} instances");
}

/// Runs until something holds, and returns the seconds until then.
fn until(driver: &mut Driver, what: &str, mut holds: impl FnMut(&Driver) -> bool) -> i64 {
    let (begun, limit) = (driver.world().now(), within(driver, 1200));
    let held = driver.advance_until(limit, |driver| {
        check(driver);
        holds(driver)
    });
    assert!(held.unwrap(), "{what}: {}", picture(driver));
    driver.world().now().duration_since(begun).as_secs()
}

#[test]
fn a_stopped_instance_is_there_sooner_than_a_launched_one() {
    let mut driver = start();
    let on_demand = json!([{ "key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"] }]);
    patch_pool(&driver, &json!({ "spec": { "template": { "spec": { "requirements": on_demand } } } }));
    add_daemon_set(&driver);
    add_pod(&driver, "first");
    let launched = until(&mut driver, "the first pod runs", |driver| runs(driver, "first"));
    keep(&driver, "1");
    let limit = within(&driver, 60);
    driver.advance_until(limit, |_| false).unwrap();
    until(&mut driver, "one is kept", |driver| are_stopped(driver, 1));
    // Events of EC2 about the stop, and sweeps, change nothing.
    let limit = within(&driver, 600);
    driver.advance_until(limit, |driver| !are_stopped(driver, 1)).unwrap();
    assert!(are_stopped(&driver, 1), "{}", picture(&mut driver));

    add_pod(&driver, "second");
    let started = until(&mut driver, "the second pod runs", |driver| runs(driver, "second"));
    println!("a launched node runs a pod after {launched} s, a started one after {started} s");
    assert!(started < launched, "{started} s, and a launch takes {launched} s: {}", picture(&mut driver));
    let calls = driver.world().ec2().call_counts();
    assert_eq!(calls.get("ec2:StartInstances"), Some(&1), "{calls:?}");
    until(&mut driver, "another is kept", |driver| are_stopped(driver, 1));
}
