//! NodePools with a minimum on demand, and new AMIs that begin with one node, from end to end in virtual time.

use crate::support::{create, list, picture, running, start, start_with, within};
use nodeless_driver::Driver;
use nodeless_fake_aws::{LaunchFault, OfferingPattern};
use nodeless_fake_kubernetes::resource::{DEPLOYMENTS, EVENTS, PODS};
use nodeless_fake_kubernetes::{PatchOptions, PatchType};
use nodeless_model::claim::OfferingKey;
use nodeless_model::{CapacityType, NodeClaim, Phase};
use nodeless_telemetry::{Captured, Metric};
use nodeless_world::resources::NODE_POOLS;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::Arc;

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

/// The numbers of on-demand and spot nodes.
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

/// The only claim whose node is not on its way out.
fn only(driver: &Driver) -> NodeClaim {
    let mut claims = driver.claims().snapshot();
    claims.retain(|claim| claim.phase < Phase::Draining);
    assert_eq!(claims.len(), 1, "{claims:#?}");
    claims.remove(0)
}

/// The offering of a claim's instance.
fn offering(claim: &NodeClaim) -> OfferingKey {
    let instance = claim.status.instance.as_ref().unwrap();
    OfferingKey {
        instance_type: instance.instance_type.clone(),
        zone: instance.zone.clone(),
        capacity_type: instance.capacity_type,
    }
}

/// The offering of the first launch, that of a later launch, and those that this one avoids. In between, EC2 interrupts the first
/// instance, and the three minutes pass in which no NodePool uses its offering.
fn after_an_interruption(setting: &str) -> (OfferingKey, OfferingKey, Vec<OfferingKey>) {
    let mut driver = start();
    annotate(&driver, "default", &json!({ "nodeless.sh/spot-interruptions": setting }));
    driver.advance_to(within(&driver, 5)).unwrap();
    create(&driver, &DEPLOYMENTS, deployment(1));
    wait(&mut driver, 300, "a pod", |driver| running(driver) == 1);
    let first = only(&driver);
    assert_eq!(first.spec.avoided_offerings, []);
    driver.world().ec2().interrupt_spot(&first.status.instance.as_ref().unwrap().id).unwrap();
    scale(&driver, 0);
    wait(&mut driver, 1_200, "no node", |driver| driver.claims().snapshot().is_empty());
    driver.advance_to(within(&driver, 600)).unwrap();
    scale(&driver, 1);
    wait(&mut driver, 300, "a pod again", |driver| running(driver) == 1);
    let later = only(&driver);
    (offering(&first), offering(&later), later.spec.avoided_offerings)
}

#[test]
fn an_offering_that_was_interrupted_is_launched_less() {
    let (first, later, avoided) = after_an_interruption("ignore");
    assert_eq!(
        (&later, avoided),
        (&first, Vec::new()),
        "without the annotation the cheapest offering is launched again"
    );
    let (first, later, avoided) = after_an_interruption("avoid");
    assert_eq!(first.capacity_type, CapacityType::Spot);
    assert_eq!(avoided, std::slice::from_ref(&first));
    assert_eq!(later.capacity_type, CapacityType::Spot);
    assert_ne!((later.instance_type, later.zone), (first.instance_type, first.zone));
}

/// The numbers of NodePools whose canaries failed that plans reported since the last call.
fn reported(sink: &Captured) -> Vec<f64> {
    let values = sink.totals().get(Metric::AmiCanariesFailed).to_vec();
    sink.forget_metrics();
    values
}

/// Four nodes with pods, of a NodePool with a canary, and the images before a new one.
fn with_canary(sink: &Arc<Captured>) -> (Driver, BTreeSet<String>) {
    let mut driver = start_with(sink.clone());
    annotate(&driver, "default", &json!({ "nodeless.sh/ami-canary": "20m" }));
    driver.advance_to(within(&driver, 5)).unwrap();
    create(&driver, &DEPLOYMENTS, deployment(4));
    wait(&mut driver, 300, "four pods", |driver| running(driver) == 4);
    driver.advance_to(within(&driver, 600)).unwrap();
    let before: BTreeSet<String> = images(&driver).into_iter().collect();
    assert_eq!(before.len(), 1);
    (driver, before)
}

fn publish_image(driver: &Driver) {
    let (version, now) = (driver.world().options().version.clone(), driver.world().now());
    driver.world().ec2().change_account(|account| account.add_eks_images(&version, now));
}

/// The messages of the events that canaries failed.
fn failures(driver: &Driver) -> Vec<String> {
    let events = list(driver, &EVENTS);
    let failed = events.iter().filter(|event| event["reason"] == "AmiCanaryFailed");
    failed
        .map(|event| {
            assert_eq!(
                (&event["type"], &event["involvedObject"]["kind"]),
                (&json!("Warning"), &json!("NodePool")),
                "{event}"
            );
            event["message"].as_str().unwrap_or_default().to_owned()
        })
        .collect()
}

#[test]
fn a_new_image_with_which_nodes_do_not_join_stops_after_two() {
    let sink = Arc::new(Captured::default());
    let (mut driver, before) = with_canary(&sink);
    // More than are launched: without the stop, each replacement would be attempted again.
    driver.world().ec2().spoil_launches(OfferingPattern::default(), LaunchFault::NeverJoins, 20);
    let launched = |driver: &Driver| -> BTreeSet<String> {
        driver.world().ec2().instances().iter().map(|instance| instance.id.clone()).collect()
    };
    let at_first = launched(&driver);
    publish_image(&driver);
    wait(&mut driver, 7_200, "the event", |driver| !failures(driver).is_empty());
    assert!(failures(&driver)[0].starts_with("Nodes are not replaced by ones with AMI "), "{:?}", failures(&driver));
    let stopped = launched(&driver);
    assert_eq!(stopped.difference(&at_first).count(), 2, "two of the last four launches: {}", picture(&mut driver));
    assert!(reported(&sink).iter().all(|number| *number == 1.0));
    driver.advance_to(within(&driver, 3_600)).unwrap();
    assert!(launched(&driver).is_subset(&stopped), "{}", picture(&mut driver));
    let numbers = reported(&sink);
    assert!(
        !numbers.is_empty() && numbers.iter().all(|number| *number == 1.0),
        "each plan has the metric: {numbers:?}"
    );
    let now: BTreeSet<String> = images(&driver).into_iter().collect();
    assert_eq!((now, running(&driver)), (before, 4), "{}", picture(&mut driver));
}

#[test]
fn a_new_image_on_which_pods_fail_stops_with_the_first_node() {
    let sink = Arc::new(Captured::default());
    let (mut driver, before) = with_canary(&sink);
    publish_image(&driver);
    let renewed = |driver: &Driver| images(driver).iter().filter(|image| !before.contains(*image)).count();
    let replaced = |driver: &Driver| renewed(driver) == 1 && images(driver).len() == 4 && running(driver) == 4;
    wait(&mut driver, 1_200, "the first node", replaced);
    let claims = driver.claims().snapshot();
    let is_new = |claim: &&NodeClaim| claim.status.instance.as_ref().is_some_and(|it| !before.contains(&it.image_id));
    let node = claims.iter().find(is_new).unwrap().status.node_name.clone().unwrap();
    let pods = list(&driver, &PODS);
    let pod = pods.iter().find(|pod| pod["spec"]["nodeName"] == *node).unwrap();
    let (name, uid) = (pod["metadata"]["name"].as_str().unwrap(), pod["metadata"]["uid"].as_str().unwrap());
    driver.world_mut().set_pod_ready(uid, false);
    wait(&mut driver, 900, "the event", |driver| !failures(driver).is_empty());
    let message = failures(&driver).remove(0);
    assert!(message.contains(&format!("pod default/{name} is not ready on {node}")), "{message}");
    // The twenty minutes of the canary pass, and nothing follows.
    driver.advance_to(within(&driver, 3_600)).unwrap();
    assert_eq!((renewed(&driver), images(&driver).len()), (1, 4), "{}", picture(&mut driver));
    let numbers = reported(&sink);
    assert!(!numbers.is_empty() && numbers.iter().all(|number| *number == 1.0), "{numbers:?}");
}
