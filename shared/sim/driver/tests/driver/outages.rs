//! An outage of an hour of each dependency, which does not answer or throttles all calls, in virtual time: no dead letters, and plans go on
//! after it.

use crate::support::{create, picture, running, start_counted, within};
use jiff::SignedDuration;
use nodeless_driver::{Driver, Outcome};
use nodeless_fake_kubernetes::resource::DEPLOYMENTS;
use nodeless_fake_kubernetes::{PatchOptions, PatchType};
use nodeless_ports::ErrorKind;
use serde_json::json;

fn scale(driver: &Driver, replicas: i64) {
    let patch = json!({ "spec": { "replicas": replicas } });
    let options = PatchOptions::default();
    driver.world().api().patch(&DEPLOYMENTS, "default", "web", None, PatchType::Merge, &patch, &options).unwrap();
}

fn with_two_pods() -> Driver {
    let mut driver = start_counted();
    driver.advance_to(within(&driver, 60)).unwrap();
    let requests = json!({ "cpu": "1500m", "memory": "1Gi" });
    let container =
        json!({ "name": "it", "image": "registry.k8s.io/pause:3.9", "resources": { "requests": requests } });
    create(
        &driver,
        &DEPLOYMENTS,
        json!({
            "metadata": { "name": "web" },
            "spec": {
                "replicas": 2, "selector": { "matchLabels": { "app": "web" } },
                "template": { "metadata": { "labels": { "app": "web" } }, "spec": { "containers": [container] } },
            },
        }),
    );
    let limit = within(&driver, 300);
    assert!(driver.advance_until(limit, |it| running(it) == 2).unwrap(), "{}", picture(&mut driver));
    driver.advance_to(within(&driver, 300)).unwrap();
    driver
}

fn outage_of(dependency: &str) {
    for kind in [ErrorKind::Unavailable, ErrorKind::Throttled] {
        outage(dependency, kind);
    }
}

fn outage(dependency: &str, kind: ErrorKind) {
    let mut driver = with_two_pods();
    let end = driver.world().now().saturating_add(SignedDuration::from_hours(1)).unwrap();
    driver.fault_injection().unwrap().fail_until(dependency, end, kind);
    driver.take_outcomes();
    driver.advance_to(within(&driver, 120)).unwrap();
    scale(&driver, 4);
    let spot = driver.world().ec2().instances().into_iter().find(|instance| instance.spot_request_id.is_some());
    driver.world().ec2().interrupt_spot(&spot.expect("spot is the cheapest").id).unwrap();
    driver.advance_to(end).unwrap();
    let failed = driver.take_outcomes().iter().filter(|(_, outcome)| outcome.failure().is_some()).count();
    assert_eq!(driver.dead_letters(), 0, "{dependency}, {kind:?}: {failed} operations failed");

    // Within a minute, plans succeed again, and what waited goes on.
    driver.advance_to(within(&driver, 62)).unwrap();
    let planned = |(_, outcome): &(_, Outcome)| matches!(outcome, Outcome::Planned(Ok(_)));
    assert!(driver.take_outcomes().iter().any(planned), "{dependency}, {kind:?}");
    let limit = within(&driver, 600);
    assert!(
        driver.advance_until(limit, |it| running(it) == 4).unwrap(),
        "{dependency}, {kind:?}: {}",
        picture(&mut driver)
    );
    assert_eq!(driver.dead_letters(), 0, "{dependency}, {kind:?}");
}

#[test]
fn of_the_api_server() {
    outage_of("cluster");
}

#[test]
fn of_the_table() {
    outage_of("claims");
}

#[test]
fn of_the_queues() {
    outage_of("queue");
}

#[test]
fn of_ec2() {
    outage_of("cloud");
}

#[test]
fn of_the_sources_of_the_catalog() {
    outage_of("source");
}
