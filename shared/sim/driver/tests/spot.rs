//! NodePools with a minimum on demand, and new AMIs that begin with one node, from end to end in virtual time.
#![allow(clippy::unwrap_used)]

mod support;

use nodeless_driver::Driver;
use nodeless_fake_kubernetes::resource::DEPLOYMENTS;
use nodeless_fake_kubernetes::{PatchOptions, PatchType};
use nodeless_model::{CapacityType, Phase};
use nodeless_world::resources::NODE_POOLS;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use support::{create, picture, running, start, within};

fn deployment(replicas: i64) -> Value {
    json!({
        "metadata": { "name": "web" },
        "spec": {
            "replicas": replicas, "selector": { "matchLabels": { "app": "web" } },
            "template": { "metadata": { "labels": { "app": "web" } }, "spec": {
                "containers": [{ "name": "main", "image": "registry.k8s.io/pause:3.9",
                    "resources": { "requests": { "cpu": "1500m", "memory": "256Mi" } } }],
            } },
        },
    })
}

fn annotate(driver: &Driver, pool: &str, annotations: &Value) {
    let patch = json!({ "metadata": { "annotations": annotations }, "spec": {
        "template": { "spec": { "requirements": [
            { "key": "karpenter.sh/capacity-type", "operator": "In", "values": ["spot", "on-demand"] },
            { "key": "karpenter.k8s.aws/instance-size", "operator": "In", "values": ["large"] },
            { "key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"] },
        ] } },
        "disruption": { "budgets": [{ "nodes": "100%" }] },
    } });
    let options = PatchOptions::default();
    driver.world().api().patch(&NODE_POOLS, "", pool, None, PatchType::Merge, &patch, &options).unwrap();
}

/// How many nodes there are on demand, and as spot.
fn bought(driver: &Driver) -> (usize, usize) {
    let claims = driver.claims().snapshot();
    let instances = claims.iter().filter(|claim| claim.phase < Phase::Draining);
    let kinds = instances.filter_map(|claim| claim.status.instance.as_ref()).map(|instance| instance.capacity_type);
    let (spot, others): (Vec<_>, Vec<_>) = kinds.partition(|kind| *kind == CapacityType::Spot);
    (others.len(), spot.len())
}

fn images(driver: &Driver) -> Vec<String> {
    let claims = driver.claims().snapshot();
    let instances = claims.iter().filter_map(|claim| claim.status.instance.as_ref());
    let mut images: Vec<String> = instances.map(|instance| instance.image_id.clone()).collect();
    images.sort();
    images
}

fn wait(driver: &mut Driver, seconds: i64, what: &str, holds: impl Fn(&Driver) -> bool) {
    let limit = within(driver, seconds);
    let came = driver.advance_until(limit, holds).unwrap();
    assert!(came, "{what}: {}", picture(driver));
}

fn scale(driver: &Driver, replicas: u32) {
    let patch = json!({ "spec": { "replicas": replicas } });
    let options = PatchOptions::default();
    driver.world().api().patch(&DEPLOYMENTS, "default", "web", None, PatchType::Merge, &patch, &options).unwrap();
}

#[test]
fn two_nodes_stay_on_demand_and_a_lost_one_is_made_up_for() {
    let mut driver = start();
    annotate(&driver, "default", &json!({ "nodeless.sh/min-on-demand": "2" }));
    driver.advance_to(within(&driver, 5)).unwrap();
    create(&driver, &DEPLOYMENTS, deployment(5));
    wait(&mut driver, 300, "five pods", |driver| running(driver) == 5);
    assert_eq!(bought(&driver), (2, 3), "{}", picture(&mut driver));
    // Consolidation would replace on-demand nodes by spot.
    driver.advance_to(within(&driver, 900)).unwrap();
    assert_eq!(bought(&driver), (2, 3), "{}", picture(&mut driver));
    scale(&driver, 1);
    wait(&mut driver, 1_200, "one node", |driver| bought(driver) == (1, 0));
    scale(&driver, 4);
    wait(&mut driver, 300, "four pods", |driver| running(driver) == 4);
    assert_eq!(bought(&driver), (2, 2), "{}", picture(&mut driver));
}

#[test]
fn a_new_image_begins_with_one_node() {
    let mut driver = start();
    annotate(&driver, "default", &json!({ "nodeless.sh/ami-canary": "20m" }));
    driver.advance_to(within(&driver, 5)).unwrap();
    create(&driver, &DEPLOYMENTS, deployment(4));
    wait(&mut driver, 300, "four pods", |driver| running(driver) == 4);
    driver.advance_to(within(&driver, 600)).unwrap();
    let before: BTreeSet<String> = images(&driver).into_iter().collect();
    assert_eq!(before.len(), 1);
    let (version, now) = (driver.world().options().version.clone(), driver.world().now());
    driver.world().ec2().change_account(|account| account.add_eks_images(&version, now));
    let renewed = |driver: &Driver| images(driver).iter().filter(|image| !before.contains(*image)).count();
    wait(&mut driver, 1_200, "the first node", |driver| renewed(driver) == 1);
    driver.advance_to(within(&driver, 1_140)).unwrap();
    assert_eq!((renewed(&driver), images(&driver).len()), (1, 4), "{}", picture(&mut driver));
    wait(&mut driver, 1_200, "all nodes", |driver| renewed(driver) == 4 && running(driver) == 4);
}
