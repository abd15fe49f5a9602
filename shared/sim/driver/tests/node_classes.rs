//! EC2NodeClasses that change, in virtual time: the webhook, the planner and the catalog queue, without the schedule.
#![allow(clippy::unwrap_used)]

mod support;

use nodeless_driver::Driver;
use nodeless_fake_kubernetes::{DeleteOptions, PatchOptions, PatchType};
use nodeless_world::resources::NODE_CLASSES;
use serde_json::{Value, json};
use support::{list, picture, start, within};

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

/// The schedule runs every five minutes, at 0 and at 300 seconds.
#[test]
fn a_class_that_changes_is_resolved_and_one_that_is_deleted_is_released_within_seconds() {
    let mut driver = start();
    driver.advance_to(within(&driver, 90)).unwrap();
    assert!(is_ready(&driver), "{}", picture(&mut driver));
    let patch = json!({ "spec": { "tags": { "team": "search" } } });
    let options = PatchOptions::default();
    driver.world().api().patch(&NODE_CLASSES, "", "default", None, PatchType::Merge, &patch, &options).unwrap();
    assert!(!is_ready(&driver));
    wait(&mut driver, 20, "the changed class is ready", is_ready);

    driver.world().api().delete(&NODE_CLASSES, "", "default", &DeleteOptions::default()).unwrap();
    wait(&mut driver, 20, "the deleted class is gone", |it| list(it, &NODE_CLASSES).is_empty());
}
