//! Nodes are closed for other pods until the DaemonSets that their NodePool names are ready.

use crate::support::{configure, create, list, picture, start, within};
use futures::FutureExt as _;
use nodeless_driver::{Driver, FunctionSettings, Schedule};
use nodeless_fake_kubernetes::resource::{DAEMON_SETS, EVENTS, LIMIT_RANGES, NODES, PODS};
use nodeless_fake_kubernetes::{PatchOptions, PatchType};
use nodeless_model::claim::condition;
use nodeless_model::{NodeClaim, labels};
use nodeless_telemetry::Null;
use nodeless_world::fault_injection::FaultInjection;
use nodeless_world::resources::NODE_POOLS;
use nodeless_world::{World, WorldOptions};
use serde_json::{Value, json};
use std::sync::Arc;

/// How long the pods of the DaemonSets take to become ready.
const READY_AFTER: i64 = 30;

fn annotate(driver: &Driver, value: &str) {
    let body = json!({ "metadata": { "annotations": { labels::WAIT_FOR_DAEMON_SETS: value } } });
    let options = PatchOptions::default();
    driver.world().api().patch(&NODE_POOLS, "", "default", None, PatchType::Merge, &body, &options).unwrap();
}

/// A DaemonSet whose pods are ready 30 seconds after their start.
fn add_daemon_set(driver: &Driver, name: &str, tolerations: &Value) {
    add_daemon_set_with(driver, name, tolerations, &json!({}));
}

fn add_daemon_set_with(driver: &Driver, name: &str, tolerations: &Value, requests: &Value) {
    let probe = json!({ "initialDelaySeconds": READY_AFTER, "httpGet": { "port": 80 } });
    create(
        driver,
        &DAEMON_SETS,
        json!({
            "metadata": { "name": name, "namespace": "kube-system" },
            "spec": {
                "selector": { "matchLabels": { "app": name } },
                "template": {
                    "metadata": { "labels": { "app": name } },
                    "spec": {
                        "tolerations": tolerations,
                        "containers": [{ "name": "main", "image": "pause", "readinessProbe": probe, "resources": { "requests": requests, "limits": requests } }],
                    },
                },
            },
        }),
    );
}

fn everything() -> Value {
    json!([{ "operator": "Exists" }])
}

fn add_pods(driver: &Driver, count: usize) {
    for number in 0..count {
        let container = json!({ "name": "main", "image": "pause", "resources": { "requests": { "cpu": "1500m" } } });
        let metadata = json!({ "name": format!("pod-{number}"), "namespace": "default" });
        create(driver, &PODS, json!({ "metadata": metadata, "spec": { "containers": [container] } }));
    }
}

fn claims(driver: &Driver) -> Vec<NodeClaim> {
    driver.claims().list().now_or_never().unwrap().unwrap()
}

fn is_closed(node: &Value) -> bool {
    let taints = node["spec"]["taints"].as_array();
    taints.is_some_and(|taints| taints.iter().any(|taint| taint["key"] == labels::DAEMON_SETS_NOT_READY_TAINT))
}

fn is_ready(pod: &Value) -> bool {
    let conditions = pod["status"]["conditions"].as_array();
    conditions.is_some_and(|all| all.iter().any(|one| one["type"] == "Ready" && one["status"] == "True"))
}

fn of_namespace(driver: &Driver, namespace: &str) -> Vec<Arc<Value>> {
    let pods = list(driver, &PODS);
    pods.into_iter().filter(|pod| pod["metadata"]["namespace"] == namespace).collect()
}

/// The pods of `default` that are bound.
fn bound(driver: &Driver) -> usize {
    of_namespace(driver, "default").iter().filter(|pod| pod["spec"]["nodeName"].is_string()).count()
}

/// Whether a pod of `default` is bound to a node on which a pod of a DaemonSet is not ready, or missing.
fn is_bound_early(driver: &Driver) -> bool {
    let daemons = of_namespace(driver, "kube-system");
    let on = |node: &Value| daemons.iter().any(|pod| pod["spec"]["nodeName"] == *node && is_ready(pod));
    of_namespace(driver, "default")
        .iter()
        .any(|pod| pod["spec"]["nodeName"].is_string() && !on(&pod["spec"]["nodeName"]))
}

fn messages(driver: &Driver) -> Vec<String> {
    let events = list(driver, &EVENTS);
    let ours = events.iter().filter(|event| event["reason"] == "DaemonSetNotAwaited");
    ours.filter_map(|event| Some(event["message"].as_str()?.to_owned())).collect()
}

/// Runs until the pods are bound. Returns the seconds for which a node was closed, and a message of the condition meanwhile.
fn run(driver: &mut Driver, pods: usize) -> (i64, String) {
    let limit = within(driver, 900);
    let (mut closed, mut message) = (None, String::new());
    let (start, mut end) = (driver.world().now(), 0);
    let all_bound = driver.advance_until(limit, |driver| {
        let now = driver.world().now().duration_since(start).as_secs();
        if list(driver, &NODES).iter().any(|node| is_closed(node)) {
            closed.get_or_insert(now);
            end = now;
        }
        let conditions =
            claims(driver).into_iter().filter_map(|claim| claim.condition(condition::INITIALIZED).cloned());
        message = conditions.map(|one| one.message).find(|it| it.contains("DaemonSet")).unwrap_or(message.clone());
        assert!(!is_bound_early(driver), "a pod was bound before the DaemonSet was ready");
        bound(driver) == pods
    });
    assert!(all_bound.unwrap(), "{}", picture(driver));
    (closed.map_or(0, |closed| end - closed), message)
}

#[test]
fn pods_start_after_the_daemon_sets_and_on_the_nodes_that_were_launched_for_them() {
    let mut driver = start();
    annotate(&driver, "kube-system/csi");
    add_daemon_set(&driver, "csi", &everything());
    add_pods(&driver, 6);
    let (closed, message) = run(&mut driver, 6);
    assert!((READY_AFTER..READY_AFTER + 20).contains(&closed), "{closed} s");
    assert!(message.ends_with("DaemonSet kube-system/csi is not ready on the node"), "{message}");
    let launched = claims(&driver);
    let planned: Vec<&String> = launched.iter().flat_map(|claim| &claim.spec.nominated_pods).collect();
    assert_eq!(planned.len(), 6, "each pod was planned once: {planned:?}");
    let limit = within(&driver, 10);
    driver.advance_to(limit).unwrap();
    assert!(!list(&driver, &NODES).iter().any(|node| is_closed(node)));
    assert_eq!(claims(&driver).len(), launched.len(), "no further node was launched");
    assert!(messages(&driver).is_empty());
}

#[test]
fn a_process_that_ends_while_nodes_wait_changes_nothing() {
    for done in [false, true] {
        for write in 0..8 {
            let world = World::new(WorldOptions::default()).unwrap();
            let faults = FaultInjection::scripted(world.clock().clone());
            let (sink, set) = (Arc::new(Null), FunctionSettings::default());
            let mut driver = Driver::with_fault_injection(world, Schedule::default(), sink, faults.clone(), set);
            configure(&driver);
            annotate(&driver, "kube-system/csi");
            add_daemon_set(&driver, "csi", &everything());
            add_pods(&driver, 1);
            let limit = within(&driver, 300);
            let waits = |driver: &Driver| list(driver, &NODES).iter().any(|node| is_closed(node));
            assert!(driver.advance_until(limit, waits).unwrap(), "{}", picture(&mut driver));
            faults.take_writes();
            faults.kill_at(write, done);
            run(&mut driver, 1);
            assert_eq!(claims(&driver).len(), 1, "killed at write {write}");
        }
    }
}

#[test]
fn daemon_sets_that_cannot_run_on_a_closed_node_are_not_waited_for() {
    let mut driver = start();
    annotate(&driver, "kube-system/strict, kube-system/gone");
    add_daemon_set(&driver, "strict", &json!([]));
    add_pods(&driver, 1);
    let limit = within(&driver, 300);
    let all_bound = driver.advance_until(limit, |driver| bound(driver) == 1).unwrap();
    assert!(all_bound, "{}", picture(&mut driver));
    assert!(claims(&driver).iter().all(|claim| claim.spec.startup_taints.is_empty()));
    let messages = messages(&driver);
    assert!(messages.iter().any(|it| it.contains("kube-system/strict, because it does not tolerate")), "{messages:?}");
    assert!(messages.iter().any(|it| it.contains("kube-system/gone, because it does not exist")), "{messages:?}");
}

#[test]
fn a_malformed_annotation_is_reported_and_nothing_is_waited_for() {
    let mut driver = start();
    annotate(&driver, "csi");
    add_daemon_set(&driver, "csi", &everything());
    add_pods(&driver, 1);
    let limit = within(&driver, 300);
    let all_bound = driver.advance_until(limit, |driver| bound(driver) == 1).unwrap();
    assert!(all_bound, "{}", picture(&mut driver));
    assert!(claims(&driver).iter().all(|claim| claim.spec.startup_taints.is_empty()));
    let messages = messages(&driver);
    assert!(messages.iter().any(|it| it.contains("\"csi\", and nodes wait for no DaemonSet: write")), "{messages:?}");
}

#[test]
fn the_first_node_has_capacity_for_the_default_requests_of_a_daemon_set() {
    let mut driver = start();
    add_daemon_set(&driver, "csi", &everything());
    let item = json!({ "type": "Container", "default": { "cpu": "2" } });
    let metadata = json!({ "name": "all", "namespace": "kube-system" });
    create(&driver, &LIMIT_RANGES, json!({ "metadata": metadata, "spec": { "limits": [item] } }));
    add_pods(&driver, 1);
    let limit = within(&driver, 600);
    let all_run =
        driver.advance_until(limit, |driver| list(driver, &PODS).iter().filter(|pod| is_ready(pod)).count() == 2);
    assert!(all_run.unwrap(), "{}", picture(&mut driver));
    assert_eq!(claims(&driver).len(), 1, "the pods of the DaemonSet and of the workload share the first node");
}

#[test]
fn a_daemon_set_that_cannot_be_read_closes_only_the_nodes_that_wait_for_it() {
    let mut driver = start();
    for (pool, set) in [("default", "csi"), ("other", "odd")] {
        if pool != "default" {
            let mut copy = list(&driver, &NODE_POOLS)[0].as_ref().clone();
            copy["metadata"] = json!({ "name": pool });
            create(&driver, &NODE_POOLS, copy);
        }
        let body =
            json!({ "metadata": { "annotations": { labels::WAIT_FOR_DAEMON_SETS: format!("kube-system/{set}") } } });
        let options = PatchOptions::default();
        driver.world().api().patch(&NODE_POOLS, "", pool, None, PatchType::Merge, &body, &options).unwrap();
        add_daemon_set(&driver, set, &everything());
    }
    let limit = within(&driver, 60);
    driver.advance_to(limit).unwrap();
    for pool in ["default", "other"] {
        let container = json!({ "name": "main", "image": "pause", "resources": { "requests": { "cpu": "1500m" } } });
        let spec = json!({ "nodeSelector": { labels::NODE_POOL: pool }, "containers": [container] });
        create(&driver, &PODS, json!({ "metadata": { "name": pool, "namespace": "default" }, "spec": spec }));
    }
    let limit = within(&driver, 300);
    assert!(driver.advance_until(limit, |driver| claims(driver).len() == 2).unwrap(), "{}", picture(&mut driver));
    // The API server accepts the operator, and no version of nodeless knows it.
    let term = json!({ "matchExpressions": [{ "key": "a", "operator": "Near", "values": ["b"] }] });
    let affinity = json!({ "nodeAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": { "nodeSelectorTerms": [term] } } });
    let body = json!({ "spec": { "template": { "spec": { "affinity": affinity } } } });
    let options = PatchOptions::default();
    driver.world().api().patch(&DAEMON_SETS, "kube-system", "odd", None, PatchType::Merge, &body, &options).unwrap();
    let is_bound = |driver: &Driver, name: &str| {
        list(driver, &PODS).iter().any(|pod| pod["metadata"]["name"] == name && pod["spec"]["nodeName"].is_string())
    };
    let limit = within(&driver, 300);
    let opened = driver.advance_until(limit, |driver| is_bound(driver, "default")).unwrap();
    assert!(opened, "{}", picture(&mut driver));
    assert!(!is_bound(&driver, "other"));
    let limit = within(&driver, 120);
    driver.advance_to(limit).unwrap();
    assert!(!is_bound(&driver, "other"), "its node waits for a DaemonSet that cannot be read");
}

/// How often the Event about a DaemonSet without space on nodes was published, and its message.
fn left_out(driver: &Driver) -> Vec<(i64, String)> {
    let events = list(driver, &EVENTS);
    let ours = events.iter().filter(|event| event["reason"] == "DaemonSetLeftOut");
    ours.map(|event| (event["count"].as_i64().unwrap_or(1), event["message"].as_str().unwrap().to_owned())).collect()
}

#[test]
fn a_daemon_set_without_space_on_any_node_stops_no_launch_and_is_reported_once() {
    let mut driver = start();
    let requests = json!({ "cpu": "1000" });
    add_daemon_set_with(&driver, "huge", &everything(), &requests);
    add_daemon_set_with(&driver, "unknown", &everything(), &json!({ "example.com/thing": "1" }));
    for count in 1..=3 {
        let container = json!({ "name": "main", "image": "pause", "resources": { "requests": { "cpu": "1500m" } } });
        let metadata = json!({ "name": format!("pod-{count}"), "namespace": "default" });
        let spec = json!({ "nodeSelector": { labels::INSTANCE_SIZE: "large" }, "containers": [container] });
        create(&driver, &PODS, json!({ "metadata": metadata, "spec": spec }));
        let limit = within(&driver, 600);
        let all_bound = driver.advance_until(limit, |driver| bound(driver) == count).unwrap();
        assert!(all_bound, "{}", picture(&mut driver));
    }
    let published = left_out(&driver);
    assert_eq!(published.len(), 2, "{published:?}");
    assert!(published.iter().all(|(count, _)| *count == 1), "{published:?}");
    assert!(published.iter().any(|(_, message)| message.starts_with("Its pod needs cpu 1000")), "{published:?}");
    assert!(
        published.iter().any(|(_, message)| message.starts_with("Its pod needs example.com/thing 1")),
        "{published:?}"
    );
}

#[test]
fn no_node_is_launched_for_a_pod_that_a_daemon_set_keeps_off_every_node() {
    let mut driver = start();
    add_daemon_set(&driver, "legacy", &everything());
    let term = json!({
        "labelSelector": { "matchLabels": { "app": "legacy" } },
        "topologyKey": labels::HOSTNAME,
        "namespaces": ["kube-system"],
    });
    let affinity = json!({ "podAntiAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": [term] } });
    let metadata = json!({ "name": "lonely", "namespace": "default" });
    let spec = json!({ "affinity": affinity, "containers": [{ "name": "main", "image": "pause" }] });
    create(&driver, &PODS, json!({ "metadata": metadata, "spec": spec }));
    let limit = within(&driver, 600);
    assert!(!driver.advance_until(limit, |driver| !claims(driver).is_empty()).unwrap(), "{}", picture(&mut driver));
    let events = list(&driver, &EVENTS);
    let names_it = |event: &&Arc<Value>| {
        event["message"].as_str().is_some_and(|it| it.contains("DaemonSet kube-system/legacy runs on every node"))
    };
    assert!(events.iter().any(|event| names_it(&event)));
}
