//! EC2NodeClasses that change, in virtual time: the webhook, the planner and the catalog queue, without the schedule.

use crate::support::{create, list, picture, running, start, start_counted, within};
use jiff::SignedDuration;
use nodeless_driver::Driver;
use nodeless_fake_kubernetes::resource::PODS;
use nodeless_fake_kubernetes::{DeleteOptions, PatchOptions, PatchType};
use nodeless_ports::ErrorKind;
use nodeless_world::resources::{NODE_CLASSES, NODE_POOLS};
use serde_json::{Value, json};

fn wait(driver: &mut Driver, seconds: i64, what: &str, holds: impl Fn(&Driver) -> bool) {
    let limit = within(driver, seconds);
    let came = driver.advance_until(limit, holds).unwrap();
    assert!(came, "{what}: {}", picture(driver));
}

fn is_ready(driver: &Driver) -> bool {
    let class = list(driver, &NODE_CLASSES).remove(0);
    let is = |condition: &Value| {
        condition["type"] == "Ready"
            && condition["status"] == "True"
            && condition["observedGeneration"] == class["metadata"]["generation"]
    };
    class["status"]["conditions"].as_array().is_some_and(|conditions| conditions.iter().any(is))
}

/// Whether the NodePool can launch nodes from its class.
fn launches(driver: &Driver) -> bool {
    let pool = list(driver, &NODE_POOLS).remove(0);
    let is = |condition: &Value| condition["type"] == "NodeClassReady" && condition["status"] == "True";
    pool["status"]["conditions"].as_array().is_some_and(|conditions| conditions.iter().any(is))
}

fn change_class(driver: &Driver, spec: &Value) {
    let (patch, options) = (json!({ "spec": spec }), PatchOptions::default());
    driver.world().api().patch(&NODE_CLASSES, "", "default", None, PatchType::Merge, &patch, &options).unwrap();
}

fn create_pod(driver: &Driver) {
    let requests = json!({ "cpu": "1", "memory": "1Gi" });
    let container =
        json!({ "name": "it", "image": "registry.k8s.io/pause:3.9", "resources": { "requests": requests } });
    create(driver, &PODS, json!({ "metadata": { "name": "web" }, "spec": { "containers": [container] } }));
}

/// Nothing is launched from a class between a change of what it selects and its next status.
#[test]
fn a_node_pool_launches_again_seconds_after_the_selectors_of_its_class_changed() {
    let mut driver = start();
    driver.advance_to(within(&driver, 90)).unwrap();
    assert!(launches(&driver), "{}", picture(&mut driver));
    let subnet = list(&driver, &NODE_CLASSES).remove(0)["status"]["subnets"][0]["id"].clone();
    change_class(&driver, &json!({ "subnetSelectorTerms": [{ "id": subnet }], "tags": { "team": "search" } }));
    create_pod(&driver);
    wait(&mut driver, 20, "the NodePool does not launch", |it| !launches(it));
    assert!(driver.world().ec2().instances().is_empty());
    wait(&mut driver, 20, "the NodePool launches again", launches);
    wait(&mut driver, 20, "the pod's node is launched", |it| !it.world().ec2().instances().is_empty());
    let tags = driver.world().ec2().instances().remove(0).tags;
    assert_eq!(tags.get("team").map(String::as_str), Some("search"), "from the new spec");
}

/// A tag is no reason to resolve the class again, so launches do not depend on the catalog function.
#[test]
fn a_class_launches_with_a_changed_tag_while_the_catalog_fails() {
    let mut driver = start_counted();
    driver.advance_to(within(&driver, 90)).unwrap();
    assert!(launches(&driver), "{}", picture(&mut driver));
    let end = driver.world().now().saturating_add(SignedDuration::from_hours(1)).unwrap();
    driver.fault_injection().unwrap().fail_until("source", end, ErrorKind::Unavailable);
    change_class(&driver, &json!({ "tags": { "team": "search" } }));
    create_pod(&driver);
    wait(&mut driver, 120, "the pod does not run", |it| running(it) == 1);
    assert!(!is_ready(&driver), "the catalog has resolved the class");
    let tags = driver.world().ec2().instances().remove(0).tags;
    assert_eq!(tags.get("team").map(String::as_str), Some("search"));

    // Once the class is resolved, the node matches it.
    driver.advance_to(end).unwrap();
    wait(&mut driver, 600, "the class is not resolved", is_ready);
    driver.advance_to(within(&driver, 1200)).unwrap();
    assert_eq!(driver.world().ec2().instances().len(), 1, "{}", picture(&mut driver));
}

/// The schedule runs every five minutes, at 0 and at 300 seconds.
#[test]
fn a_class_that_changes_is_resolved_and_one_that_is_deleted_is_released_within_seconds() {
    let mut driver = start();
    driver.advance_to(within(&driver, 90)).unwrap();
    assert!(is_ready(&driver), "{}", picture(&mut driver));
    change_class(&driver, &json!({ "tags": { "team": "search" } }));
    assert!(!is_ready(&driver));
    wait(&mut driver, 20, "the changed class is ready", is_ready);

    driver.world().api().delete(&NODE_CLASSES, "", "default", &DeleteOptions::default()).unwrap();
    wait(&mut driver, 20, "the deleted class is gone", |it| list(it, &NODE_CLASSES).is_empty());
}
