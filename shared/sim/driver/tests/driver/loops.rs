//! Lambda stops chains of messages as recursive loops. The schedules start new chains, so nodeless still makes progress.

use crate::support::{create, picture, running, start_counted, within};
use jiff::SignedDuration;
use nodeless_driver::scenarios::Scenario;
use nodeless_driver::simulation::Run;
use nodeless_driver::{Driver, Outcome};
use nodeless_fake_kubernetes::resource::{DEPLOYMENTS, NODES};
use nodeless_fake_kubernetes::{DeleteOptions, PatchOptions, PatchType};
use nodeless_telemetry::Null;
use serde_json::json;
use std::sync::Arc;

fn scale(driver: &Driver, replicas: i64) {
    let patch = json!({ "spec": { "replicas": replicas } });
    let options = PatchOptions::default();
    driver.world().api().patch(&DEPLOYMENTS, "default", "web", None, PatchType::Merge, &patch, &options).unwrap();
}

fn stopped(driver: &mut Driver) -> usize {
    driver.take_outcomes().iter().filter(|(_, outcome)| matches!(outcome, Outcome::Stopped)).count()
}

#[test]
fn nodes_join_and_leave_although_lambda_stops_the_chain_of_their_messages() {
    let mut driver = start_counted().stopping_loops(true);
    // Slow enough that the chain of a launch is stopped before its node joins.
    driver.world().ec2().change_account(|account| account.timing.start_up = SignedDuration::from_secs(100));
    driver.advance_to(within(&driver, 60)).unwrap();
    let requests = json!({ "cpu": "1500m", "memory": "1Gi" });
    let container =
        json!({ "name": "it", "image": "registry.k8s.io/pause:3.9", "resources": { "requests": requests } });
    let template = json!({ "metadata": { "labels": { "app": "web" } }, "spec": { "containers": [container] } });
    let spec = json!({ "replicas": 2, "selector": { "matchLabels": { "app": "web" } }, "template": template });
    create(&driver, &DEPLOYMENTS, json!({ "metadata": { "name": "web" }, "spec": spec }));
    let limit = within(&driver, 600);
    assert!(driver.advance_until(limit, |it| running(it) == 2).unwrap(), "{}", picture(&mut driver));
    assert!(stopped(&mut driver) > 0, "the chain of the launch is stopped");

    let nodes = crate::support::list(&driver, &NODES);
    let name = nodes[0]["metadata"]["name"].as_str().unwrap();
    driver.world().api().delete(&NODES, "", name, &DeleteOptions::default()).unwrap();
    scale(&driver, 3);
    let limit = within(&driver, 900);
    let done = |it: &Driver| running(it) == 3 && it.world().api().get(&NODES, "", name).is_err();
    assert!(driver.advance_until(limit, done).unwrap(), "{}", picture(&mut driver));
}

#[test]
fn a_cluster_with_loops_that_are_stopped_becomes_quiescent() {
    let scenario = Scenario { stops_loops: true, ..Scenario::built_in("spot").unwrap() };
    let report = Run::new(scenario, 1, Some(6), Arc::new(Null)).unwrap().finish().unwrap();
    assert!(report.holds(), "{:?}", report.violations.iter().take(3).collect::<Vec<_>>());
    assert!(report.stopped_loops > 0 && report.launched > 0, "{} of {}", report.stopped_loops, report.launched);
}
