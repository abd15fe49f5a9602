use serde_json::{Value, json};

use super::{World, deployment, pod, running_pod, world};
use crate::server::resource::{CONFIG_MAPS, DEPLOYMENTS, NAMESPACES, POD_DISRUPTION_BUDGETS, PODS, REPLICA_SETS};
use crate::server::{DeleteOptions, Preconditions, Propagation, UpdateOptions};

#[test]
fn a_running_pod_is_given_time_and_a_pending_one_is_not() {
    let world = world();
    world.create(&PODS, pod("pending")).unwrap();
    world.create(&PODS, running_pod("running", "n")).unwrap();
    world.delete(&PODS, "pending").unwrap();
    assert!(!world.exists(&PODS, "pending"));
    let marked = world.delete(&PODS, "running").unwrap();
    assert_eq!(marked["metadata"]["deletionGracePeriodSeconds"], 30);
    assert_eq!(marked["metadata"]["deletionTimestamp"], "2027-01-15T08:00:30Z");
    let longer = DeleteOptions { grace_period_seconds: Some(60), ..DeleteOptions::default() };
    let still = world.server.delete(&PODS, "default", "running", &longer).unwrap();
    assert_eq!(still["metadata"]["deletionGracePeriodSeconds"], 30);
    let now = DeleteOptions { grace_period_seconds: Some(0), ..DeleteOptions::default() };
    world.server.delete(&PODS, "default", "running", &now).unwrap();
    assert!(!world.exists(&PODS, "running"));
}

#[test]
fn finalizers_hold_an_object_and_cannot_be_added_late() {
    let world = world();
    let map = json!({"metadata": {"name": "m", "namespace": "default", "finalizers": ["example.com/a"]}});
    world.create(&CONFIG_MAPS, map).unwrap();
    world.delete(&CONFIG_MAPS, "m").unwrap();
    let held = world.get(&CONFIG_MAPS, "m").as_ref().clone();
    assert_eq!(held["metadata"]["deletionGracePeriodSeconds"], 0);
    let mut more = held.clone();
    more["metadata"]["finalizers"] = json!(["example.com/a", "example.com/b"]);
    assert_eq!(world.server.update(&CONFIG_MAPS, more, &UpdateOptions::default()).unwrap_err().code, 422);
    let mut free = held;
    free["metadata"]["finalizers"] = json!([]);
    world.server.update(&CONFIG_MAPS, free, &UpdateOptions::default()).unwrap();
    assert!(!world.exists(&CONFIG_MAPS, "m"));
}

#[test]
fn preconditions_are_checked() {
    let world = world();
    world.create(&PODS, pod("a")).unwrap();
    let preconditions = Preconditions { uid: Some("other".into()), resource_version: None };
    let options = DeleteOptions { preconditions, ..DeleteOptions::default() };
    assert_eq!(world.server.delete(&PODS, "default", "a", &options).unwrap_err().code, 409);
    assert_eq!(world.server.evict("default", "a", &options).unwrap_err().code, 409);
}

/// A deployment that owns a replica set that owns a pod.
fn family() -> World {
    let world = world();
    let owner = |kind: &str, object: &Value| {
        json!([{"apiVersion": "apps/v1", "kind": kind, "name": object["metadata"]["name"],
            "uid": object["metadata"]["uid"], "controller": true, "blockOwnerDeletion": true}])
    };
    let parent = world.create(&DEPLOYMENTS, deployment(1)).unwrap();
    let mut set = deployment(1);
    set["kind"] = json!("ReplicaSet");
    set["metadata"]["ownerReferences"] = owner("Deployment", &parent);
    let set = world.create(&REPLICA_SETS, set).unwrap();
    let mut child = running_pod("child", "n");
    child["metadata"]["ownerReferences"] = owner("ReplicaSet", &set);
    world.create(&PODS, child).unwrap();
    world
}

fn delete_family(world: &World, propagation: Propagation) {
    let options = DeleteOptions { propagation, ..DeleteOptions::default() };
    world.server.delete(&DEPLOYMENTS, "default", "web", &options).unwrap();
}

fn kill_child(world: &World) {
    let options = DeleteOptions { grace_period_seconds: Some(0), ..DeleteOptions::default() };
    world.server.delete(&PODS, "default", "child", &options).unwrap();
}

#[test]
fn in_the_background_the_owner_goes_first() {
    let world = family();
    delete_family(&world, Propagation::Background);
    assert!(!world.exists(&DEPLOYMENTS, "web") && !world.exists(&REPLICA_SETS, "web"));
    assert!(world.get(&PODS, "child")["metadata"]["deletionTimestamp"].is_string());
}

#[test]
fn in_the_foreground_the_owner_goes_last() {
    let world = family();
    delete_family(&world, Propagation::Foreground);
    assert!(world.exists(&DEPLOYMENTS, "web") && world.exists(&REPLICA_SETS, "web"));
    kill_child(&world);
    assert!(!world.exists(&PODS, "child"));
    assert!(!world.exists(&DEPLOYMENTS, "web") && !world.exists(&REPLICA_SETS, "web"));
}

#[test]
fn orphans_stay_without_owner() {
    let world = family();
    delete_family(&world, Propagation::Orphan);
    assert!(!world.exists(&DEPLOYMENTS, "web"));
    let set = world.get(&REPLICA_SETS, "web");
    assert!(set["metadata"].get("ownerReferences").is_none() && set["metadata"].get("deletionTimestamp").is_none());
    assert!(world.exists(&PODS, "child"));
}

#[test]
fn an_object_of_a_missing_owner_is_collected() {
    let world = world();
    let mut orphan = pod("orphan");
    orphan["metadata"]["ownerReferences"] =
        json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "gone", "uid": "no-such-uid"}]);
    world.create(&PODS, orphan).unwrap();
    assert!(!world.exists(&PODS, "orphan"));
}

#[test]
fn a_namespace_goes_when_it_is_empty() {
    let world = world();
    world.create(&NAMESPACES, json!({"metadata": {"name": "t"}})).unwrap();
    let mut held = running_pod("a", "n");
    held["metadata"]["namespace"] = json!("t");
    world.create(&PODS, held.clone()).unwrap();
    world.server.delete(&NAMESPACES, "", "t", &DeleteOptions::default()).unwrap();
    assert_eq!(world.server.get(&NAMESPACES, "", "t").unwrap()["status"]["phase"], "Terminating");
    held["metadata"]["name"] = json!("b");
    assert_eq!(world.create(&PODS, held).unwrap_err().code, 403);
    let now = DeleteOptions { grace_period_seconds: Some(0), ..DeleteOptions::default() };
    world.server.delete(&PODS, "t", "a", &now).unwrap();
    assert_eq!(world.server.get(&NAMESPACES, "", "t").unwrap_err().code, 404);
}

fn make_ready(world: &World, name: &str, ready: bool) {
    let mut pod = world.get(&PODS, name).as_ref().clone();
    let status = if ready { "True" } else { "False" };
    pod["status"] = json!({"phase": "Running", "conditions": [{"type": "Ready", "status": status}]});
    world.server.update_status(&PODS, pod, &UpdateOptions::default()).unwrap();
}

fn with_budget(spec: Value) -> World {
    let world = world();
    for name in ["a", "b"] {
        world.create(&PODS, running_pod(name, "n")).unwrap();
        make_ready(&world, name, true);
    }
    let mut spec = spec;
    spec["selector"] = json!({"matchLabels": {"app": "web"}});
    let budget = json!({"metadata": {"name": "budget", "namespace": "default"}, "spec": spec});
    world.create(&POD_DISRUPTION_BUDGETS, budget).unwrap();
    world
}

fn evict(world: &World, name: &str) -> Result<(), crate::Status> {
    world.server.evict("default", name, &DeleteOptions::default())
}

#[test]
fn a_budget_allows_one_eviction_and_refuses_the_next() {
    let world = with_budget(json!({"minAvailable": 1}));
    let error = evict(&world, "a").unwrap_err();
    assert!(error.code == 429 && error.causes[0].message.contains("still being processed"), "{error:?}");
    assert_eq!(error.retry_after_seconds, Some(10));
    world.server.refresh_disruption_budgets().unwrap();
    evict(&world, "a").unwrap();
    let error = evict(&world, "b").unwrap_err();
    assert_eq!(error.message, "Cannot evict pod as it would violate the pod's disruption budget.");
    world.server.refresh_disruption_budgets().unwrap();
    let error = evict(&world, "b").unwrap_err();
    assert_eq!(error.causes[0].message, "The disruption budget budget needs 1 healthy pods and has 1 currently");
    // The pod that is already being deleted can be evicted again.
    evict(&world, "a").unwrap();
}

#[test]
fn a_budget_counts_an_eviction_whose_precondition_fails() {
    let world = with_budget(json!({"minAvailable": 1}));
    world.server.refresh_disruption_budgets().unwrap();
    let preconditions = Preconditions { uid: Some("other".into()), resource_version: None };
    let options = DeleteOptions { preconditions, ..DeleteOptions::default() };
    let error = world.server.evict("default", "a", &options).unwrap_err();
    assert!(error.code == 409 && error.message.contains("does not match the UID in record"), "{error}");
    assert_eq!(evict(&world, "b").unwrap_err().code, 429);
}

#[test]
fn an_unready_pod_may_be_evicted_if_the_budget_is_healthy_or_allows_it() {
    let world = with_budget(json!({"minAvailable": 1}));
    make_ready(&world, "b", false);
    world.server.refresh_disruption_budgets().unwrap();
    evict(&world, "b").unwrap();
    let world = with_budget(json!({"minAvailable": 2, "unhealthyPodEvictionPolicy": "AlwaysAllow"}));
    make_ready(&world, "b", false);
    world.server.refresh_disruption_budgets().unwrap();
    assert_eq!(evict(&world, "a").unwrap_err().code, 429);
    evict(&world, "b").unwrap();
}

#[test]
fn two_budgets_for_a_pod_are_an_error() {
    let world = with_budget(json!({"minAvailable": 0}));
    let second = json!({"metadata": {"name": "second", "namespace": "default"},
        "spec": {"maxUnavailable": "50%", "selector": {"matchLabels": {"app": "web"}}}});
    world.create(&POD_DISRUPTION_BUDGETS, second).unwrap();
    world.server.refresh_disruption_budgets().unwrap();
    let error = evict(&world, "a").unwrap_err();
    assert!(error.code == 500 && error.message.contains("more than one PodDisruptionBudget"), "{error}");
}

#[test]
fn a_percentage_counts_what_the_controller_wants() {
    let world = family();
    make_ready(&world, "child", true);
    let mut web = world.get(&DEPLOYMENTS, "web").as_ref().clone();
    web["spec"]["replicas"] = json!(4);
    world.server.update(&DEPLOYMENTS, web, &UpdateOptions::default()).unwrap();
    let budget = json!({"metadata": {"name": "budget", "namespace": "default"},
        "spec": {"maxUnavailable": "25%", "selector": {"matchLabels": {"app": "web"}}}});
    world.create(&POD_DISRUPTION_BUDGETS, budget).unwrap();
    world.server.refresh_disruption_budgets().unwrap();
    let status = world.get(&POD_DISRUPTION_BUDGETS, "budget")["status"].clone();
    assert_eq!((&status["expectedPods"], &status["desiredHealthy"]), (&json!(4), &json!(3)));
    assert_eq!((&status["currentHealthy"], &status["disruptionsAllowed"]), (&json!(1), &json!(0)));
}
