//! Nodes whose memory is not what was expected of their type, in virtual time.
#![allow(clippy::unwrap_used)]

mod support;

use nodeless_driver::Controller;
use nodeless_fake_aws::InstanceState;
use nodeless_fake_kubernetes::DeleteOptions;
use nodeless_fake_kubernetes::resource::{DEPLOYMENTS, NODES};
use nodeless_world::{RealMemory, WorldOptions};
use serde_json::json;
use std::collections::BTreeMap;
use support::{create, list, picture, running, start_in, within};

/// A world in which an m6i.large differs by so many thousandths from what is expected, and an m6i.xlarge does not.
fn world(difference: i64) -> Controller {
    let by_type = BTreeMap::from([("m6i.large".to_owned(), difference), ("m6i.xlarge".to_owned(), 0)]);
    let options =
        WorldOptions { families: vec!["m6i".into()], memory: RealMemory { by_type }, ..WorldOptions::default() };
    let mut controller = start_in(options);
    controller.advance_to(within(&controller, 5)).unwrap();
    controller
}

/// A pod that asks for so many MiB, and the Deployment that keeps it.
fn deploy(controller: &Controller, name: &str, mebibytes: i64) {
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
    create(controller, &DEPLOYMENTS, deployment);
}

/// The types of all instances that were ever launched, or of those that are still there.
fn launched(controller: &Controller, alive: bool) -> Vec<String> {
    let gone = |state: InstanceState| matches!(state, InstanceState::Terminated | InstanceState::ShuttingDown);
    let instances = controller.world().ec2().instances().into_iter().filter(|it| !alive || !gone(it.state));
    let mut types: Vec<String> = instances.map(|it| it.offering.instance_type).collect();
    types.sort();
    types
}

fn wait(controller: &mut Controller, seconds: i64, what: &str, holds: impl Fn(&Controller) -> bool) {
    let limit = within(controller, seconds);
    let came = controller.advance_until(limit, holds).unwrap();
    assert!(came, "{what}: launched {:?}, {}", launched(controller, false), picture(controller));
}

#[test]
fn a_pod_that_a_node_turns_out_too_small_for_gets_a_larger_one_and_no_other_is_launched() {
    // Of an m6i.large 6903 MiB are expected for pods, and 6525 are there.
    let mut controller = world(-50);
    deploy(&controller, "first", 6700);
    wait(&mut controller, 600, "the pod runs", |it| running(it) == 1);
    assert_eq!(launched(&controller, false), ["m6i.large", "m6i.xlarge"]);
    wait(&mut controller, 600, "the node that is too small goes", |it| launched(it, true) == ["m6i.xlarge"]);
    controller.advance_to(within(&controller, 1800)).unwrap();
    assert_eq!(launched(&controller, false).len(), 2, "{}", picture(&mut controller));

    // It is known as well when no such node is left.
    controller.world().api().delete(&DEPLOYMENTS, "default", "first", &DeleteOptions::default()).unwrap();
    wait(&mut controller, 900, "all nodes go", |it| list(it, &NODES).is_empty() && launched(it, true).is_empty());
    deploy(&controller, "second", 6700);
    wait(&mut controller, 300, "the pod runs at once", |it| running(it) == 1);
    assert_eq!(launched(&controller, false), ["m6i.large", "m6i.xlarge", "m6i.xlarge"]);
}

#[test]
fn a_node_that_turns_out_larger_shows_what_others_of_its_type_hold() {
    // Of an m6i.large 6903 MiB are expected for pods, and 7281 are there.
    let mut controller = world(50);
    deploy(&controller, "first", 500);
    wait(&mut controller, 300, "the first runs", |it| running(it) == 1);
    controller.advance_to(within(&controller, 90)).unwrap();
    deploy(&controller, "second", 7100);
    wait(&mut controller, 300, "the second runs too", |it| running(it) == 2);
    assert_eq!(launched(&controller, false), ["m6i.large", "m6i.large"]);
}
