//! How long a burst of spot warnings takes, from the first message to the last eviction, and what it costs
//! in calls and in processor time.
//!
//! ```text
//! cargo run --release -p nodeless-operations --example interruption-burst -- 1000 60
//! ```
//!
//! The operations run against ports in memory. Each call takes a time drawn evenly from 1 ms to twice the second argument
//! (milliseconds on average) on a virtual clock, and as many invocations run at once as the Terraform module allows, with
//! as many messages each. What waiting costs is read off that clock. What this code costs in processor time is measured,
//! and comes on top: once for all, as if one core did everything. The processor time includes that of the simulated API server.
#![allow(missing_docs, clippy::unwrap_used, clippy::print_stdout, reason = "a program for measuring")]

#[path = "../tests/operations/common/mod.rs"]
mod common;

use common::{Harness, pod};
use futures::{FutureExt as _, StreamExt as _, stream};
use jiff::Timestamp;
use nodeless_catalog::{Catalog, Facts};
use nodeless_fake_aws::{self as fake_aws, Offering};
use nodeless_fake_kubernetes::resource::{NODES, PODS};
use nodeless_lifecycle::Settings;
use nodeless_model::claim::{LaunchedInstance, NodeClaimSpec, NodeClaimStatus, condition};
use nodeless_model::node::provider_id;
use nodeless_model::{CapacityType, ConditionStatus, NodeClaim, Phase, labels};
use nodeless_operations::plan::PlanSettings;
use nodeless_operations::{CatalogCache, EventRate, Interrupter, NominationSwitch, PlanReport, Planner, Reconciler};
use nodeless_ports::{Cloud, Cluster, Queue};
use nodeless_state::State;
use nodeless_world::WorldClock;
use nodeless_world::fault_injection::{FaultInjection, FaultyCloud, FaultyCluster, FaultyQueue, FaultyTable, Rates};
use nodeless_world::resources::NODE_CLASSES;
use serde_json::json;
use std::sync::{Arc, Mutex};
use std::time::Duration;

const ZONES: [&str; 3] = ["us-east-1a", "us-east-1b", "us-east-1c"];

/// CPU time of this thread in milliseconds.
fn cpu() -> f64 {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    stat.split(' ').next().unwrap().parse::<f64>().unwrap() / 1e6
}

/// The cluster gets what a NodePool for spot instances usually has: three zones, and all types of the categories c, m and r.
async fn widen(harness: &Harness) {
    let mut catalog = Catalog::synthetic(1, Facts::embedded().unwrap());
    catalog.types.retain(|entry| entry.facts.name.starts_with(['c', 'm', 'r']));
    harness.claims.put_catalog("2", &catalog.encode().unwrap(), harness.clock.time()).await.unwrap();
    let template = json!({ "spec": { "requirements": [] } });
    harness.cluster.patch_node_pool(json!({ "spec": { "limits": null, "template": template } }));
    let subnets = ZONES.map(|zone| json!({ "id": harness.cloud.subnet(zone), "zone": zone }));
    harness.cluster.patch_status(&NODE_CLASSES, "default", json!({ "subnets": subnets }));
}

/// A number of nodes on spot instances, each with a pod. Returns the ids of the instances.
async fn seed(harness: &Harness, count: usize) -> Vec<String> {
    widen(harness).await;
    let at = Timestamp::from_second(1_799_990_000).unwrap();
    for number in 0..count {
        let zone = ZONES[number % ZONES.len()];
        let tags = [(labels::NODE_POOL, "default"), (labels::EC2_NODE_CLASS, "default")];
        // EC2 accepts two RunInstances calls per second.
        harness.clock.advance_to(harness.clock.time().checked_add(Duration::from_millis(500)).unwrap());
        harness.cloud.boot();
        let id = harness.cloud.launch(&Offering::new("m6i.xlarge", zone, fake_aws::CapacityType::Spot), &tags);
        harness.cloud.ec2.change_instance(&id, |instance| instance.launched = at);
        let name = format!("default-{number:05}");
        let node = format!("ip-{number}.ec2.internal");
        let mut claim = NodeClaim {
            name: name.clone(),
            uid: format!("uid-{name}"),
            node_pool: Some("default".into()),
            node_class: "default".into(),
            created: at,
            version: 0,
            spec: NodeClaimSpec::default(),
            phase: Phase::Initialized,
            status: NodeClaimStatus {
                instance: Some(LaunchedInstance {
                    id: id.clone(),
                    instance_type: "m6i.xlarge".into(),
                    zone: zone.into(),
                    capacity_type: CapacityType::Spot,
                    price: 0.08,
                    image_id: "ami-1".into(),
                    private_dns_name: Some(node.clone()),
                    reservation_id: None,
                    subnet_id: None,
                    security_group_ids: Vec::new(),
                    launched: at,
                }),
                node_name: Some(node.clone()),
                ..NodeClaimStatus::default()
            },
        };
        for kind in [condition::LAUNCHED, condition::REGISTERED, condition::INITIALIZED] {
            claim.set_condition(kind, ConditionStatus::True, kind, "", at);
        }
        harness.claims.create(&claim, None).await.unwrap();
        let allocatable = json!({ "cpu": "3900m", "memory": "15000Mi", "pods": "58" });
        let set = json!({ labels::NODE_POOL: "default", labels::REGISTERED: "true", labels::INITIALIZED: "true" });
        let ready = json!([{ "type": "Ready", "status": "True", "lastTransitionTime": at.to_string() }]);
        harness.cluster.create(
            &NODES,
            json!({
                "metadata": { "name": node, "labels": set, "finalizers": [labels::TERMINATION_FINALIZER] },
                "spec": { "providerID": provider_id(zone, &id) },
                "status": { "capacity": allocatable, "allocatable": allocatable, "conditions": ready },
            }),
        );
        let mut web = pod(&format!("web-{number:05}"), 3000);
        web["spec"]["nodeName"] = json!(node);
        harness.cluster.create(&PODS, web);
    }
    harness.faults.take_writes();
    harness.cloud.ids()
}

/// Messages in one invocation of the interruption function, and invocations of it and of the lifecycle function at once: the
/// defaults of the Terraform module.
const BATCH: usize = 100;
const INTERRUPTIONS: usize = 5;
const LIFECYCLES: usize = 10;

/// Runs a number of futures concurrently on the virtual clock. Returns the virtual time that passed.
async fn in_virtual_time<F: Future>(clock: &WorldClock, at_once: usize, jobs: Vec<F>) -> Duration {
    let began = clock.time();
    let mut running = Box::pin(stream::iter(jobs).buffer_unordered(at_once).collect::<Vec<_>>());
    while running.as_mut().now_or_never().is_none() {
        let next = clock.next_sleeper().expect("whatever waits, waits for the clock");
        clock.advance_to(next);
    }
    Duration::try_from(clock.time().duration_since(began)).unwrap()
}

/// One phase of the burst.
fn reported(what: &str, faults: &FaultInjection, waited: Duration, cpu: f64, more: &str) {
    let writes = faults.take_writes();
    println!("{what:24} {:6.1} s waiting  {:6.2} s CPU  {writes:5} writes{more}", waited.as_secs_f64(), cpu / 1000.0);
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let mut arguments = std::env::args().skip(1).map(|text| text.parse::<u64>().unwrap());
    let (count, latency) = (arguments.next().unwrap_or(1000), arguments.next().unwrap_or(60));
    let count = usize::try_from(count).unwrap();
    let harness = Harness::new().await;
    let ids = seed(&harness, count).await;
    let rates = Rates { slow: 1.0, slowest: Duration::from_millis(2 * latency), ..Rates::default() };
    let fault_injection = FaultInjection::new(harness.clock.clone(), 1, rates);
    let table =
        FaultyTable { inner: Arc::new(harness.claims.table().clone()), fault_injection: fault_injection.clone() };
    let claims = State::new(Arc::new(table));
    let queue: Arc<dyn Queue> =
        Arc::new(FaultyQueue { inner: Arc::new(harness.queue.clone()), fault_injection: fault_injection.clone() });
    let cluster: Arc<dyn Cluster> =
        Arc::new(FaultyCluster::new(Arc::new(harness.cluster.port.clone()), fault_injection.clone()));
    let cloud: Arc<dyn Cloud> =
        Arc::new(FaultyCloud::new(Arc::new(harness.cloud.port.clone()), fault_injection.clone()));
    println!(
        "{count} warnings, {latency} ms a call on average, {INTERRUPTIONS} and {LIFECYCLES} invocations at once, {BATCH} warnings in a batch"
    );

    let interrupter = Interrupter {
        context: harness.context(),
        claims: claims.clone(),
        queue: queue.clone(),
        cluster: cluster.clone(),
    };
    let warnings: Vec<String> = ids
        .iter()
        .map(|id| {
            format!(
                r#"{{"source":"aws.ec2","detail-type":"EC2 Spot Instance Interruption Warning","detail":{{"instance-id":"{id}"}}}}"#
            )
        })
        .collect();
    let batches = warnings.chunks(BATCH).map(async |batch| {
        let batch: Vec<&str> = batch.iter().map(String::as_str).collect();
        assert!(interrupter.run_all(&batch).await.iter().all(Result::is_ok));
    });
    let began = cpu();
    let mut waited = in_virtual_time(&harness.clock, INTERRUPTIONS, batches.collect()).await;
    let mut spent = cpu() - began;
    reported("all marked for termination", &fault_injection, waited, spent, "");
    let leaving = harness.records().await.iter().filter(|claim| claim.phase.is_leaving()).count();
    assert_eq!(leaving, count);

    // Drains and the plan begin as soon as the first batch has been dealt with. Here they come one after the other.
    let reconciler = Reconciler {
        context: harness.context(),
        claims: claims.clone(),
        queue: queue.clone(),
        cluster: cluster.clone(),
        cloud,
        catalog: CatalogCache::default(),
        events: EventRate::default(),
        nominations: NominationSwitch::default(),
        settings: Settings::new(common::CLUSTER),
        zonal_shift: false,
        min_values_strict: true,
    };
    let began = cpu();
    let mut drained = Duration::ZERO;
    while harness.cluster.bound() > 0 {
        // Plans are made afterwards.
        let _later = harness.queue.take_plan();
        let shards = harness.queue.take_shards();
        if shards.is_empty() {
            let next = harness.queue.next_due().expect("a shard with claims that leave has a message");
            drained += Duration::try_from(next.duration_since(harness.clock.time())).unwrap();
            harness.clock.advance_to(next);
        }
        let runs = shards.into_iter().map(async |shard| drop(reconciler.run_shard(shard).await.unwrap()));
        drained += in_virtual_time(&harness.clock, LIFECYCLES, runs.collect()).await;
    }
    let draining = cpu() - began;
    reported("tainted, pods evicted", &fault_injection, drained, draining, "");
    (waited, spent) = (waited + drained, spent + draining);

    // Evicted pods come again and have no node.
    harness.cluster.add_pods((0..count).map(|number| pod(&format!("again-{number:05}"), 3000)));
    let settings = PlanSettings { batch_idle: Duration::ZERO, batch_max: Duration::ZERO, ..PlanSettings::default() };
    let planner = Planner::new(harness.context(), claims, queue, cluster, settings);
    let began = cpu();
    let report: Mutex<Option<PlanReport>> = Mutex::default();
    let plan = async { *report.lock().unwrap() = Some(planner.run().await.unwrap()) };
    let planned = in_virtual_time(&harness.clock, 1, vec![plan]).await;
    let planning = cpu() - began;
    let report = report.into_inner().unwrap().unwrap();
    reported("replacements planned", &fault_injection, planned, planning, &format!(", {} nodes", report.created.len()));
    if let Some((pod, why)) = report.unschedulable.first() {
        println!("{} pods wait for the next plan, such as {pod}: {why}", report.unschedulable.len());
    }
    (waited, spent) = (waited + planned, spent + planning);
    println!("{:24} {:6.1} s waiting  {:6.2} s CPU", "one after the other", waited.as_secs_f64(), spent / 1000.0);
}
