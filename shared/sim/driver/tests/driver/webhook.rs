//! The webhook leads to actions within seconds of virtual time; the heartbeat and the sweep come an hour later.

use crate::support::{configure, create, list, picture, running, within};
use jiff::SignedDuration;
use nodeless_driver::{Driver, Outcome, Schedule};
use nodeless_fake_kubernetes::resource::{DEPLOYMENTS, EVENTS, NAMESPACES, NODES, PODS};
use nodeless_fake_kubernetes::{DeleteOptions, Resource};
use nodeless_model::Phase;
use nodeless_telemetry::Null;
use nodeless_world::resources::{NODE_CLAIMS, NODE_POOLS};
use nodeless_world::{World, WorldOptions};
use serde_json::json;
use std::sync::Arc;

/// Three nodes with a pod each.
fn with_three_nodes() -> Driver {
    let hour = SignedDuration::from_hours(1);
    let mut schedule = Schedule::default();
    (schedule.heartbeat, schedule.sweep, schedule.catalog) = (hour, hour, hour);
    let mut driver = Driver::new(World::new(WorldOptions::default()).unwrap(), schedule, Arc::new(Null));
    configure(&driver);
    driver.advance_to(within(&driver, 60)).unwrap();
    let labels = json!({ "app": "spread" });
    let apart = json!([{ "labelSelector": { "matchLabels": labels }, "topologyKey": "kubernetes.io/hostname" }]);
    let requests = json!({ "cpu": "1", "memory": "1Gi" });
    let container =
        json!({ "name": "it", "image": "registry.k8s.io/pause:3.9", "resources": { "requests": requests } });
    create(
        &driver,
        &DEPLOYMENTS,
        json!({
            "metadata": { "name": "spread" },
            "spec": {
                "replicas": 3, "selector": { "matchLabels": labels },
                "template": { "metadata": { "labels": labels }, "spec": {
                    "containers": [container],
                    "affinity": { "podAntiAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": apart } },
                } },
            },
        }),
    );
    let limit = within(&driver, 300);
    let came = driver.advance_until(limit, |it| running(it) == 3 && initialized(it).len() == 3).unwrap();
    assert!(came, "{}", picture(&mut driver));
    driver
}

fn claims(driver: &Driver, holds: impl Fn(Phase) -> bool) -> Vec<String> {
    let claims = futures::FutureExt::now_or_never(driver.claims().list()).unwrap().unwrap();
    claims.into_iter().filter(|claim| holds(claim.phase)).map(|claim| claim.name).collect()
}

fn initialized(driver: &Driver) -> Vec<String> {
    claims(driver, |phase| phase == Phase::Initialized)
}

fn delete(driver: &Driver, resource: &Resource, name: &str) {
    driver.world().api().delete(resource, "", name, &DeleteOptions::default()).unwrap();
}

fn drains_within_seconds(driver: &mut Driver, names: &[String]) {
    let limit = within(driver, 10);
    let left = |it: &Driver| {
        let kept = claims(it, |phase| !phase.is_leaving());
        names.iter().all(|name| !kept.contains(name))
    };
    assert!(driver.advance_until(limit, left).unwrap(), "{}", picture(driver));
}

#[test]
fn a_deleted_nodeclaim_is_drained_within_seconds() {
    let mut driver = with_three_nodes();
    let name = initialized(&driver).remove(0);
    delete(&driver, &NODE_CLAIMS, &name);
    drains_within_seconds(&mut driver, &[name]);
}

#[test]
fn a_deleted_node_is_drained_within_seconds() {
    let mut driver = with_three_nodes();
    let claim = list(&driver, &NODE_CLAIMS).remove(0);
    delete(&driver, &NODES, claim["status"]["nodeName"].as_str().unwrap());
    drains_within_seconds(&mut driver, &[claim["metadata"]["name"].as_str().unwrap().to_owned()]);
}

#[test]
fn the_nodes_of_a_deleted_node_pool_are_drained_within_seconds() {
    let mut driver = with_three_nodes();
    let names = initialized(&driver);
    delete(&driver, &NODE_POOLS, "default");
    drains_within_seconds(&mut driver, &names);
}

/// Wake sends a message for the first only, and its plan starts at once.
#[test]
fn nodeclaims_that_are_deleted_within_half_a_second_are_all_drained_within_seconds() {
    let mut driver = with_three_nodes();
    let names = initialized(&driver);
    for name in &names {
        delete(&driver, &NODE_CLAIMS, name);
        let soon = driver.world().now().saturating_add(SignedDuration::from_millis(200)).unwrap();
        driver.advance_to(soon).unwrap();
    }
    drains_within_seconds(&mut driver, &names);
}

#[test]
fn a_node_claim_that_a_user_creates_is_launched_and_terminated_within_minutes() {
    let mut driver = with_three_nodes();
    create(
        &driver,
        &NODE_CLAIMS,
        json!({
            "metadata": { "name": "single" },
            "spec": {
                "nodeClassRef": { "group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default" },
                "requirements": [{ "key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"] }],
                "resources": { "requests": { "cpu": "1" } },
                "expireAfter": "Never",
            },
        }),
    );
    let is_there = |driver: &Driver, name: &str| initialized(driver).iter().any(|claim| claim == name);
    let limit = within(&driver, 180);
    let came = driver.advance_until(limit, |driver| is_there(driver, "single")).unwrap();
    assert!(came, "{}", picture(&mut driver));
    delete(&driver, &NODE_CLAIMS, "single");
    let limit = within(&driver, 300);
    let came = driver.advance_until(limit, |driver| claims(driver, |_| true).len() == 3).unwrap();
    assert!(came && list(&driver, &NODE_CLAIMS).len() == 3, "{}", picture(&mut driver));
}

/// An Event about a pod that does not exist, as whoever may create Events in a namespace can write it.
fn forge(driver: &mut Driver, number: usize) {
    let event = json!({
        "metadata": { "name": format!("forged-{number}"), "namespace": "default" },
        "type": "Warning", "reason": "FailedScheduling", "message": "0/3 nodes are available",
        "reportingComponent": "default-scheduler",
        "involvedObject": { "apiVersion": "v1", "kind": "Pod", "namespace": "default", "name": "x", "uid": format!("x-{number}") },
    });
    create(driver, &EVENTS, event);
    let soon = driver.world().now().saturating_add(SignedDuration::from_millis(500)).unwrap();
    driver.advance_to(soon).unwrap();
}

#[test]
fn a_flood_of_events_makes_few_plans_and_delays_no_pod_of_another_namespace() {
    let mut driver = with_three_nodes();
    driver.take_outcomes();
    (0..600).for_each(|number| forge(&mut driver, number));
    let is_made = |outcome: &Outcome| matches!(outcome, Outcome::Planned(Ok(report)) if !report.repeated);
    let plans = driver.take_outcomes().iter().filter(|(_, outcome)| is_made(outcome)).count();
    assert!((1..20).contains(&plans), "{plans} plans in five minutes");

    create(&driver, &NAMESPACES, json!({ "metadata": { "name": "shop" } }));
    let requests = json!({ "cpu": "1500m", "memory": "1Gi" });
    let container =
        json!({ "name": "web", "image": "registry.k8s.io/pause:3.9", "resources": { "requests": requests } });
    create(
        &driver,
        &PODS,
        json!({ "metadata": { "name": "web", "namespace": "shop" }, "spec": { "containers": [container] } }),
    );
    let began = (600..800).find(|number| {
        forge(&mut driver, *number);
        !claims(&driver, |phase| phase != Phase::Initialized).is_empty()
    });
    assert!(began.is_some_and(|number| number < 620), "a claim after {began:?} Events, two a second");
}
