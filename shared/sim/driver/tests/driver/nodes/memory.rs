//! Nodes whose memory differs from the estimate for their type, in virtual time.

use crate::support::{create, list, picture, running, start_in, within};
use nodeless_driver::Driver;
use nodeless_fake_aws::InstanceState;
use nodeless_fake_kubernetes::DeleteOptions;
use nodeless_fake_kubernetes::resource::{DEPLOYMENTS, NODES};
use nodeless_world::{RealMemory, WorldOptions};
use serde_json::json;
use std::collections::BTreeMap;

/// A world in which an m6i.large differs from the estimate by this number of thousandths, and an m6i.xlarge does not.
fn world(difference: i64) -> Driver {
    let by_type = BTreeMap::from([("m6i.large".to_owned(), difference), ("m6i.xlarge".to_owned(), 0)]);
    let options =
        WorldOptions { families: vec!["m6i".into()], memory: RealMemory { by_type }, ..WorldOptions::default() };
    let mut driver = start_in(options);
    driver.advance_to(within(&driver, 5)).unwrap();
    driver
}

/// A pod that requests this number of MiB, and its Deployment.
fn deploy(driver: &Driver, name: &str, mebibytes: i64) {
    let container = json!({ "name": "main", "image": "registry.k8s.io/pause:3.9",
        "resources": { "requests": { "cpu": "500m", "memory": format!("{mebibytes}Mi") } } });
    let spec = json!({ "nodeSelector": { "karpenter.sh/capacity-type": "on-demand" }, "containers": [container] });
    let deployment = json!({
        "metadata": { "name": name },
        "spec": {
            "replicas": 1, "selector": { "matchLabels": { "app": name } },
            "template": { "metadata": { "labels": { "app": name } }, "spec": spec },
        },
    });
    create(driver, &DEPLOYMENTS, deployment);
}

/// The types of all instances that were ever launched, or of those that still exist.
fn launched(driver: &Driver, alive: bool) -> Vec<String> {
    let gone = |state: InstanceState| matches!(state, InstanceState::Terminated | InstanceState::ShuttingDown);
    let instances = driver.world().ec2().instances().into_iter().filter(|it| !alive || !gone(it.state));
    let mut types: Vec<String> = instances.map(|it| it.offering.instance_type).collect();
    types.sort();
    types
}

fn wait(driver: &mut Driver, seconds: i64, what: &str, holds: impl Fn(&Driver) -> bool) {
    let limit = within(driver, seconds);
    let came = driver.advance_until(limit, holds).unwrap();
    assert!(came, "{what}: launched {:?}, {}", launched(driver, false), picture(driver));
}

#[test]
fn a_pod_that_a_node_turns_out_too_small_for_gets_a_larger_one_and_no_other_is_launched() {
    // The estimate for an m6i.large is 6903 MiB for pods, and 6525 are there.
    let mut driver = world(-50);
    deploy(&driver, "first", 6700);
    wait(&mut driver, 600, "the pod runs", |it| running(it) == 1);
    assert_eq!(launched(&driver, false), ["m6i.large", "m6i.xlarge"]);
    wait(&mut driver, 600, "the node that is too small goes", |it| launched(it, true) == ["m6i.xlarge"]);
    driver.advance_to(within(&driver, 1800)).unwrap();
    assert_eq!(launched(&driver, false).len(), 2, "{}", picture(&mut driver));

    // The actual memory is remembered when no such node is left.
    driver.world().api().delete(&DEPLOYMENTS, "default", "first", &DeleteOptions::default()).unwrap();
    wait(&mut driver, 900, "all nodes go", |it| list(it, &NODES).is_empty() && launched(it, true).is_empty());
    deploy(&driver, "second", 6700);
    wait(&mut driver, 300, "the pod runs at once", |it| running(it) == 1);
    assert_eq!(launched(&driver, false), ["m6i.large", "m6i.xlarge", "m6i.xlarge"]);
}

#[test]
fn a_node_that_turns_out_larger_shows_what_others_of_its_type_hold() {
    // The estimate for an m6i.large is 6903 MiB for pods, and 7281 are there.
    let mut driver = world(50);
    deploy(&driver, "first", 500);
    wait(&mut driver, 300, "the first runs", |it| running(it) == 1);
    driver.advance_to(within(&driver, 90)).unwrap();
    deploy(&driver, "second", 7100);
    wait(&mut driver, 300, "the second runs too", |it| running(it) == 2);
    assert_eq!(launched(&driver, false), ["m6i.large", "m6i.large"]);
}
