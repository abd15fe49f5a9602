//! EC2NodeClasses that change, in virtual time: the webhook, the planner and the catalog queue, without the schedule.
#![allow(clippy::unwrap_used)]

mod support;

use nodeless_driver::Controller;
use nodeless_simulation::kubernetes::{DeleteOptions, PatchOptions, PatchType};
use serde_json::{Value, json};
use support::{custom, list, picture, start, within};

fn wait(controller: &mut Controller, seconds: i64, what: &str, holds: impl Fn(&Controller) -> bool) {
    let limit = within(controller, seconds);
    let came = controller.advance_until(limit, holds).unwrap();
    assert!(came, "{what}: {}", picture(controller));
}

fn is_ready(controller: &Controller) -> bool {
    let class = list(controller, &custom("ec2nodeclasses")).remove(0);
    let is = |condition: &Value| {
        condition["type"] == "Ready"
            && condition["status"] == "True"
            && condition["observedGeneration"] == class["metadata"]["generation"]
    };
    class["status"]["conditions"].as_array().is_some_and(|conditions| conditions.iter().any(is))
}

/// The schedule comes each five minutes, at 0 and at 300 seconds.
#[test]
fn a_class_that_changes_is_resolved_and_one_that_is_deleted_is_released_within_seconds() {
    let mut controller = start();
    controller.advance_to(within(&controller, 90)).unwrap();
    assert!(is_ready(&controller), "{}", picture(&mut controller));
    let patch = json!({ "spec": { "tags": { "team": "search" } } });
    let (class, options) = (custom("ec2nodeclasses"), PatchOptions::default());
    controller.world().api().patch(&class, "", "default", None, PatchType::Merge, &patch, &options).unwrap();
    assert!(!is_ready(&controller));
    wait(&mut controller, 20, "the changed class is ready", is_ready);

    controller.world().api().delete(&class, "", "default", &DeleteOptions::default()).unwrap();
    wait(&mut controller, 20, "the deleted class is gone", |it| list(it, &custom("ec2nodeclasses")).is_empty());
}
