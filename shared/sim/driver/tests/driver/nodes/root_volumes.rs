//! Root volumes whose size a NodePool determines, in virtual time.

use crate::support::{create, list, picture, running, start, within};
use nodeless_driver::Driver;
use nodeless_fake_aws::{Instance, InstanceState};
use nodeless_fake_kubernetes::resource::{DEPLOYMENTS, NODES};
use nodeless_fake_kubernetes::{PatchOptions, PatchType};
use nodeless_model::{labels, root_volume};
use nodeless_world::resources::NODE_POOLS;
use serde_json::json;

/// Sets the size that the NodePool determines.
fn ask(driver: &Driver, size: &str) {
    let body = json!({ "metadata": { "annotations": { labels::ROOT_VOLUME: size } } });
    let api = driver.world().api();
    api.patch(&NODE_POOLS, "", "default", None, PatchType::Merge, &body, &PatchOptions::default()).unwrap();
}

fn deploy(driver: &Driver, name: &str, storage: &str) {
    let requests = json!({ "cpu": "100m", "memory": "1Gi", "ephemeral-storage": storage });
    let container =
        json!({ "name": "main", "image": "registry.k8s.io/pause:3.9", "resources": { "requests": requests } });
    let deployment = json!({
        "metadata": { "name": name },
        "spec": {
            "replicas": 1, "selector": { "matchLabels": { "app": name } },
            "template": { "metadata": { "labels": { "app": name } }, "spec": { "containers": [container] } },
        },
    });
    create(driver, &DEPLOYMENTS, deployment);
}

fn alive(driver: &Driver) -> Vec<Instance> {
    let gone = |state: InstanceState| matches!(state, InstanceState::Terminated | InstanceState::ShuttingDown);
    driver.world().ec2().instances().into_iter().filter(|it| !gone(it.state)).collect()
}

/// The sizes of the root volumes of the instances that exist.
fn volumes(driver: &Driver) -> Vec<i64> {
    let size = |instance: Instance| {
        let mappings = instance.data.other.get("BlockDeviceMappings").cloned().unwrap_or_default();
        mappings[0]["Ebs"]["VolumeSize"].as_i64().unwrap_or_default()
    };
    alive(driver).into_iter().map(size).collect()
}

fn wait(driver: &mut Driver, seconds: i64, what: &str, holds: impl Fn(&Driver) -> bool) {
    let limit = within(driver, seconds);
    let came = driver.advance_until(limit, holds).unwrap();
    assert!(came, "{what}: {:?}, {}", volumes(driver), picture(driver));
}

#[test]
fn the_root_volume_has_the_size_that_the_planned_pods_need() {
    let mut driver = start();
    ask(&driver, "20Gi+pods max 500Gi");
    driver.advance_to(within(&driver, 5)).unwrap();
    deploy(&driver, "builds", "170Gi");
    wait(&mut driver, 300, "the pod runs", |it| running(it) == 1);
    // 20 GiB, and 170 GiB with 10% below which the kubelet evicts.
    assert_eq!(volumes(&driver), [209]);
    let capacity = list(&driver, &NODES)[0]["status"]["capacity"]["ephemeral-storage"].clone();
    assert_eq!(capacity.as_str().unwrap().parse(), Ok(root_volume::quantity(209)));

    // Another pod fits, and the next one gets a node of its own.
    deploy(&driver, "small", "10Gi");
    wait(&mut driver, 300, "the second runs", |it| running(it) == 2);
    assert_eq!(volumes(&driver), [209]);
    deploy(&driver, "large", "100Gi");
    wait(&mut driver, 300, "the third runs", |it| running(it) == 3);
    let mut sizes = volumes(&driver);
    sizes.sort_unstable();
    assert_eq!(sizes, [132, 209]);
}

#[test]
fn nodes_with_smaller_root_volumes_than_their_node_pool_states_are_replaced() {
    let mut driver = start();
    deploy(&driver, "web", "1Gi");
    wait(&mut driver, 300, "the pod runs", |it| running(it) == 1);
    assert_eq!(volumes(&driver), [20]);
    ask(&driver, "40Gi+5Gi/vcpu");
    let has_larger = |it: &Driver| volumes(it).iter().all(|gib| *gib > 40) && running(it) == 1;
    wait(&mut driver, 1800, "the node is replaced", has_larger);
    let larger = volumes(&driver);
    // What is large enough stays.
    ask(&driver, "40Gi");
    driver.advance_to(within(&driver, 1800)).unwrap();
    assert_eq!(volumes(&driver), larger);
}
