//! NodePools whose machines do not join, in virtual time: from EC2's machines to the condition that kubectl shows.
#![allow(clippy::unwrap_used)]

mod support;

use nodeless_driver::Controller;
use nodeless_fake_aws::{LaunchFault, OfferingPattern};
use nodeless_fake_kubernetes::resource::DEPLOYMENTS;
use nodeless_fake_kubernetes::{PatchOptions, PatchType};
use serde_json::{Value, json};
use support::{create, custom, list, picture, running, start, within};

/// Status and reason of NodeRegistrationHealthy, once it is about the NodePool and the class as they are.
fn health(controller: &Controller) -> Option<(String, String)> {
    let pool = list(controller, &custom("nodepools")).remove(0);
    let class = list(controller, &custom("ec2nodeclasses")).remove(0);
    let conditions = pool["status"]["conditions"].as_array()?;
    let found = conditions.iter().find(|condition| condition["type"] == "NodeRegistrationHealthy")?;
    let of_now = found["observedGeneration"] == pool["metadata"]["generation"]
        && pool["status"]["nodeClassObservedGeneration"] == class["metadata"]["generation"];
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    of_now.then(|| (text(&found["status"]), text(&found["reason"])))
}

fn wait(controller: &mut Controller, seconds: i64, what: &str, holds: impl Fn(&Controller) -> bool) {
    let limit = within(controller, seconds);
    let came = controller.advance_until(limit, holds).unwrap();
    assert!(came, "{what}: {}", picture(controller));
}

fn is(controller: &Controller, status: &str, reason: &str) -> bool {
    health(controller) == Some((status.to_owned(), reason.to_owned()))
}

fn change(controller: &Controller, kind: &str, spec: &Value) {
    let (api, options) = (controller.world().api(), PatchOptions::default());
    api.patch(&custom(kind), "", "default", None, PatchType::Merge, &json!({ "spec": spec }), &options).unwrap();
}

#[test]
fn a_nodepool_says_whether_its_machines_join() {
    let mut controller = start();
    wait(&mut controller, 120, "nothing is known", |it| is(it, "Unknown", "AwaitingReconciliation"));
    controller.world().ec2().spoil_launches(OfferingPattern::default(), LaunchFault::NeverJoins, 2);
    create(
        &controller,
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
    let launched = |it: &Controller| it.world().ec2().instances().len();
    wait(&mut controller, 1200, "the first is given up", |it| launched(it) == 2);
    controller.advance_to(within(&controller, 120)).unwrap();
    assert!(is(&controller, "Unknown", "AwaitingReconciliation"), "one is not enough: {:?}", health(&controller));
    wait(&mut controller, 1200, "two are", |it| is(it, "False", "RegistrationFailed"));
    wait(&mut controller, 600, "the third joins", |it| running(it) == 1);
    controller.advance_to(within(&controller, 120)).unwrap();
    assert!(is(&controller, "False", "RegistrationFailed"), "half of the last ones failed: {:?}", health(&controller));

    // Whatever was wrong may be mended by a change of either: the judgement begins anew, and what joins then decides.
    change(&controller, "ec2nodeclasses", &json!({ "tags": { "mended": "true" } }));
    wait(&mut controller, 300, "it begins anew", |it| is(it, "Unknown", "AwaitingReconciliation"));
    wait(&mut controller, 1200, "a machine of the new class joins", |it| is(it, "True", "NodeRegistrationHealthy"));
    change(&controller, "nodepools", &json!({ "template": { "metadata": { "labels": { "team": "a" } } } }));
    wait(&mut controller, 120, "it begins anew", |it| is(it, "Unknown", "AwaitingReconciliation"));
    wait(&mut controller, 1800, "a machine of the new template joins", |it| is(it, "True", "NodeRegistrationHealthy"));
}
