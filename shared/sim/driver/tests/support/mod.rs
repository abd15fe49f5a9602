//! A small world with one NodePool, for tests.
#![allow(dead_code, unreachable_pub, reason = "each test file uses its part")]

use jiff::{SignedDuration, Timestamp};
use nodeless_driver::{Controller, Outcome, Schedule};
use nodeless_fake_kubernetes::resource::{NODES, PODS};
use nodeless_fake_kubernetes::{CreateOptions, ListOptions, Resource};
use nodeless_ports::Claims;
use nodeless_telemetry::Null;
use nodeless_world::memory::Faults;
use nodeless_world::{World, WorldOptions};
use serde_json::{Value, json};
use std::sync::Arc;

pub fn custom(plural: &str) -> Resource {
    match plural {
        "nodepools" => Resource::custom("karpenter.sh", "v1", "nodepools", "NodePool", false),
        "nodeclaims" => Resource::custom("karpenter.sh", "v1", "nodeclaims", "NodeClaim", false),
        "nodeoverlays" => Resource::custom("karpenter.sh", "v1alpha1", "nodeoverlays", "NodeOverlay", false),
        "capacitybuffers" => {
            Resource::custom("autoscaling.x-k8s.io", "v1beta1", "capacitybuffers", "CapacityBuffer", true)
        }
        _ => Resource::custom("karpenter.k8s.aws", "v1", "ec2nodeclasses", "EC2NodeClass", false),
    }
}

pub fn start() -> Controller {
    start_in(WorldOptions::default())
}

pub fn start_in(options: WorldOptions) -> Controller {
    let world = World::new(options).unwrap();
    let controller = Controller::new(world, Schedule::default(), Arc::new(Null), Faults::default());
    create(
        &controller,
        &custom("ec2nodeclasses"),
        json!({
            "apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass", "metadata": { "name": "default" },
            "spec": {
                "role": "nodeless-node", "amiSelectorTerms": [{ "alias": "al2023@latest" }],
                "subnetSelectorTerms": [{ "tags": { "karpenter.sh/discovery": "nodeless" } }],
                "securityGroupSelectorTerms": [{ "tags": { "karpenter.sh/discovery": "nodeless" } }],
            },
        }),
    );
    create(
        &controller,
        &custom("nodepools"),
        json!({
            "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": { "name": "default" },
            "spec": {
                "template": { "spec": {
                    "nodeClassRef": { "group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default" },
                    "requirements": [
                        { "key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand", "spot"] },
                        { "key": "karpenter.k8s.aws/instance-category", "operator": "In", "values": ["c", "m", "r"] },
                    ],
                } },
                "disruption": { "consolidationPolicy": "WhenEmptyOrUnderutilized", "consolidateAfter": "30s" },
                "limits": { "cpu": "100" },
            },
        }),
    );
    controller
}

pub fn create(controller: &Controller, resource: &Resource, object: Value) {
    controller.world().api().create(resource, object, &CreateOptions::default()).unwrap();
}

pub fn list(controller: &Controller, resource: &Resource) -> Vec<Arc<Value>> {
    controller.world().api().list(resource, &ListOptions::default()).unwrap().items
}

pub fn running(controller: &Controller) -> usize {
    list(controller, &PODS).iter().filter(|pod| pod["status"]["phase"] == "Running").count()
}

pub fn within(controller: &Controller, seconds: i64) -> Timestamp {
    controller.world().now().saturating_add(SignedDuration::from_secs(seconds)).unwrap()
}

/// Says what stands where, for a test that fails.
pub fn picture(controller: &mut Controller) -> String {
    let outcomes: Vec<String> = controller
        .take_outcomes()
        .iter()
        .map(|(at, outcome)| match outcome {
            Outcome::Planned(Ok(report)) => format!(
                "{at} plan: {} pods, created {:?}, unschedulable {:?}, leaving {:?}, proposed {:?}, kept {:?}, problems {:?}",
                report.pods, report.created, report.unschedulable, report.leaving, report.proposed, report.kept, report.problems
            ),
            other => format!("{at} {other:?}"),
        })
        .collect();
    let claims = futures::FutureExt::now_or_never(controller.claims().list()).unwrap().unwrap();
    let claims: Vec<String> =
        claims.iter().map(|claim| format!("{} {:?} {:?}", claim.name, claim.phase, claim.status)).collect();
    let nodes: Vec<String> =
        list(controller, &NODES).iter().map(|node| format!("{} {}", node["metadata"], node["spec"])).collect();
    format!("now {}\n{}\nclaims {claims:#?}\nnodes {nodes:#?}", controller.world().now(), outcomes.join("\n"))
}
