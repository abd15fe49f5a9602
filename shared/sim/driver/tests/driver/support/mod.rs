//! A small world with one NodePool, for tests.
#![allow(unreachable_pub)]

use jiff::{SignedDuration, Timestamp};
use nodeless_api::test_support::{ec2_node_class_manifest, node_pool_manifest};
use nodeless_driver::{Driver, FunctionSettings, Outcome, Schedule};
use nodeless_fake_kubernetes::resource::{NODES, PODS};
use nodeless_fake_kubernetes::{CreateOptions, ListOptions, Resource};
use nodeless_telemetry::{Null, Sink};
use nodeless_world::fault_injection::FaultInjection;
use nodeless_world::resources::{NODE_CLASSES, NODE_POOLS};
use nodeless_world::{World, WorldOptions};
use serde_json::{Value, json};
use std::sync::Arc;

pub fn start() -> Driver {
    start_in(WorldOptions::default())
}

pub fn start_in(options: WorldOptions) -> Driver {
    let world = World::new(options).unwrap();
    let driver = Driver::new(world, Schedule::default(), Arc::new(Null));
    configure(&driver);
    driver
}

/// Starts nodeless in a default world, with a sink for log lines and metrics.
pub fn start_with(sink: Arc<dyn Sink>) -> Driver {
    let driver = Driver::new(World::new(WorldOptions::default()).unwrap(), Schedule::default(), sink);
    configure(&driver);
    driver
}

/// Starts nodeless in a default world, with calls counted and no faults.
pub fn start_counted() -> Driver {
    let world = World::new(WorldOptions::default()).unwrap();
    let faults = FaultInjection::scripted(world.clock().clone());
    let sink = Arc::new(Null);
    let driver = Driver::with_fault_injection(world, Schedule::default(), sink, faults, FunctionSettings::default());
    configure(&driver);
    driver
}

/// An EC2NodeClass, and a NodePool for any pod.
pub fn configure(driver: &Driver) {
    create(driver, &NODE_CLASSES, ec2_node_class_manifest("default", "nodeless", &json!({})));
    let requirements = json!([
        { "key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand", "spot"] },
        { "key": "karpenter.k8s.aws/instance-category", "operator": "In", "values": ["c", "m", "r"] },
    ]);
    let fields = json!({
        "disruption": { "consolidationPolicy": "WhenEmptyOrUnderutilized", "consolidateAfter": "30s" },
        "limits": { "cpu": "100" },
    });
    create(driver, &NODE_POOLS, node_pool_manifest("default", &requirements, &fields));
}

pub fn create(driver: &Driver, resource: &Resource, object: Value) {
    driver.world().api().create(resource, object, &CreateOptions::default()).unwrap();
}

pub fn list(driver: &Driver, resource: &Resource) -> Vec<Arc<Value>> {
    driver.world().api().list(resource, &ListOptions::default()).unwrap().items
}

pub fn running(driver: &Driver) -> usize {
    list(driver, &PODS).iter().filter(|pod| pod["status"]["phase"] == "Running").count()
}

pub fn within(driver: &Driver, seconds: i64) -> Timestamp {
    driver.world().now().saturating_add(SignedDuration::from_secs(seconds)).unwrap()
}

/// Describes the state, for a test that fails.
pub fn picture(driver: &mut Driver) -> String {
    let outcomes: Vec<String> = driver
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
    let claims = futures::FutureExt::now_or_never(driver.claims().list()).unwrap().unwrap();
    let claims: Vec<String> =
        claims.iter().map(|claim| format!("{} {:?} {:?}", claim.name, claim.phase, claim.status)).collect();
    let nodes: Vec<String> =
        list(driver, &NODES).iter().map(|node| format!("{} {}", node["metadata"], node["spec"])).collect();
    format!("now {}\n{}\nclaims {claims:#?}\nnodes {nodes:#?}", driver.world().now(), outcomes.join("\n"))
}
