//! NodePools whose machines do not join, in virtual time: from EC2's machines to the condition of the NodePool.

use crate::support::{create, list, picture, running, start, within};
use nodeless_driver::Driver;
use nodeless_fake_aws::{LaunchFault, OfferingPattern};
use nodeless_fake_kubernetes::resource::DEPLOYMENTS;
use nodeless_fake_kubernetes::{PatchOptions, PatchType, Resource};
use nodeless_world::resources::{NODE_CLASSES, NODE_POOLS};
use serde_json::{Value, json};

/// Status and reason of NodeRegistrationHealthy, once it is about the current NodePool and class.
fn health(driver: &Driver) -> Option<(String, String)> {
    let pool = list(driver, &NODE_POOLS).remove(0);
    let class = list(driver, &NODE_CLASSES).remove(0);
    let conditions = pool["status"]["conditions"].as_array()?;
    let found = conditions.iter().find(|condition| condition["type"] == "NodeRegistrationHealthy")?;
    let of_now = found["observedGeneration"] == pool["metadata"]["generation"]
        && pool["status"]["nodeClassObservedGeneration"] == class["metadata"]["generation"];
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    of_now.then(|| (text(&found["status"]), text(&found["reason"])))
}

fn wait(driver: &mut Driver, seconds: i64, what: &str, holds: impl Fn(&Driver) -> bool) {
    let limit = within(driver, seconds);
    let came = driver.advance_until(limit, holds).unwrap();
    assert!(came, "{what}: {}", picture(driver));
}

fn is(driver: &Driver, status: &str, reason: &str) -> bool {
    health(driver) == Some((status.to_owned(), reason.to_owned()))
}

fn change(driver: &Driver, resource: &Resource, spec: &Value) {
    let (api, options) = (driver.world().api(), PatchOptions::default());
    api.patch(resource, "", "default", None, PatchType::Merge, &json!({ "spec": spec }), &options).unwrap();
}

#[test]
fn a_nodepool_reports_whether_its_machines_join() {
    let mut driver = start();
    wait(&mut driver, 120, "nothing is known", |it| is(it, "Unknown", "AwaitingReconciliation"));
    driver.world().ec2().spoil_launches(OfferingPattern::default(), LaunchFault::NeverJoins, 2);
    create(
        &driver,
        &DEPLOYMENTS,
        json!({
            "metadata": { "name": "web" },
            "spec": {
                "replicas": 1, "selector": { "matchLabels": { "app": "web" } },
                "template": { "metadata": { "labels": { "app": "web" } }, "spec": { "containers": [{
                    "name": "main", "image": "registry.k8s.io/pause:3.9",
                    "resources": { "requests": { "cpu": "1", "memory": "256Mi" } } }] } },
            },
        }),
    );
    let launched = |it: &Driver| it.world().ec2().instances().len();
    wait(&mut driver, 1200, "the first is terminated", |it| launched(it) == 2);
    driver.advance_to(within(&driver, 120)).unwrap();
    assert!(is(&driver, "Unknown", "AwaitingReconciliation"), "one is not enough: {:?}", health(&driver));
    wait(&mut driver, 1200, "two are", |it| is(it, "False", "RegistrationFailed"));
    wait(&mut driver, 600, "the third joins", |it| running(it) == 1);
    driver.advance_to(within(&driver, 120)).unwrap();
    assert!(is(&driver, "False", "RegistrationFailed"), "half of the last ones failed: {:?}", health(&driver));

    // A change of either may fix the fault: the evaluation is reset, and the next machines decide.
    change(&driver, &NODE_CLASSES, &json!({ "tags": { "fixed": "true" } }));
    wait(&mut driver, 300, "it is reset", |it| is(it, "Unknown", "AwaitingReconciliation"));
    wait(&mut driver, 1200, "a machine of the new class joins", |it| is(it, "True", "NodeRegistrationHealthy"));
    change(&driver, &NODE_POOLS, &json!({ "template": { "metadata": { "labels": { "team": "a" } } } }));
    wait(&mut driver, 120, "it is reset", |it| is(it, "Unknown", "AwaitingReconciliation"));
    wait(&mut driver, 1800, "a machine of the new template joins", |it| is(it, "True", "NodeRegistrationHealthy"));
}
