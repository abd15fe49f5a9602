//! The life of a cluster of one size.

use super::binder::{self, Binder};
use super::pool::{Done, Pool};
use super::taken::{Measured, peak_megabytes, rounded};
use jiff::SignedDuration;
use nodeless_fake_kubernetes::{PatchOptions, PatchType, Resource, resource};
use nodeless_tests::lambda::{Function, binary, sample};
use nodeless_tests::proxy::Counts;
use nodeless_tests::stage::{Stage, inflate, node_class, node_pool};
use nodeless_world::JoinTiming;
use nodeless_world::resources::{NODE_CLAIMS, NODE_CLASSES, NODE_POOLS};
use serde_json::{Value, json};
use std::num::ParseIntError;
use std::str::FromStr;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

/// Pods of one node.
const PODS_A_NODE: u32 = 20;
/// The requests of the pods of one node together: more than half of the allocatable CPU of a machine of eight, so that the planned number
/// of nodes is launched.
const MILLICPUS_A_NODE: u32 = 7600;
const MEBIBYTES_A_NODE: u32 = 10 * 1024;
/// The pods that a warm planner gets.
const MORE_PODS: u32 = 100;
/// The time for which a plan does not disrupt nodes that it expects pods on.
const NOMINATED_FOR: Duration = Duration::from_secs(20);
/// The maximum time for what is left when all pods run: the last registrations, tags and statuses.
const LEFT_OVER: Duration = Duration::from_secs(5);
/// The number of measurements of an idle run; the median counts.
const IDLE_RUNS: usize = 5;
/// The timeout of the planner for these measurements; the module's is 40 s, and a longer plan has to show.
const PLANNER_TIMEOUT: Duration = Duration::from_secs(120);
/// The seconds from the launch of an instance to `running`, and from there to a Node and to its readiness. The Nodes of instances that are
/// launched together appear over [`SPREAD`] seconds.
const STARTS_AFTER: i64 = 5;
const REGISTERS_AFTER: i64 = 1;
const READY_AFTER: i64 = 1;
const SPREAD: i64 = 15;
/// The number of problems that a result has in full, and the length of each.
const PROBLEMS: usize = 5;
const PROBLEM_LENGTH: usize = 400;

/// A size of a cluster.
#[derive(Clone, Copy)]
pub(crate) struct Size {
    pub(crate) nodes: u32,
    pub(crate) pods_a_node: u32,
}

impl Size {
    pub(crate) const fn pods(self) -> u32 {
        self.nodes * self.pods_a_node
    }

    /// The result of a size that was not measured to its end.
    pub(crate) fn failed(self, why: &str) -> Value {
        json!({ "nodes": self.nodes, "podsANode": self.pods_a_node, "pods": self.pods(), "failed": why })
    }
}

impl FromStr for Size {
    type Err = ParseIntError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.split_once('x') {
            Some((nodes, pods)) => Ok(Self { nodes: nodes.parse()?, pods_a_node: pods.parse()? }),
            None => Ok(Self { nodes: text.parse()?, pods_a_node: PODS_A_NODE }),
        }
    }
}

/// Scales a cluster up to so many nodes, measures it, and scales it down again.
pub(crate) async fn measure(size: Size) -> Value {
    let nodes = size.nodes;
    let stage = Arc::new(Stage::with_dynamodb_local().await.expect("`make dynamodb` has installed what is needed"));
    prepare(&stage);
    delay_instances(&stage);
    let binder = Binder::start(&stage, size.pods_a_node);
    let (mut catalog, refreshed) = refresh(&stage).await;
    let planner = planner(&stage).await;
    let pods = size.pods();
    eprintln!("{nodes} nodes: creating {pods} pods");
    stage.create(&resource::DEPLOYMENTS, deployment(size));
    until("the pods are unschedulable", || binder.counts().unschedulable == pods as usize).await;

    eprintln!("{nodes} nodes: scaling up");
    stage.forget_calls();
    let started = Instant::now();
    let pool = Pool::start(&stage, planner).await;
    until("the pods run", || binder.counts().running >= pods as usize).await;
    let up_seconds = started.elapsed().as_secs_f64();
    tokio::time::sleep(LEFT_OVER).await;
    let done = pool.stop().await;
    let mut up = done.report(up_seconds);
    up["calls"] = json!(stage.calls());
    let launched = stage.list(&NODE_CLAIMS).len();

    eprintln!("{nodes} nodes: idle, cold, warm");
    let (mut scaled_planner, mut lifecycle) = (done.planner, done.lifecycle);
    let idle_planner = idle(&stage, &mut scaled_planner, "planner.heartbeat.json").await;
    let idle_sweep = idle(&stage, &mut lifecycle, "lifecycle.sweep.json").await;
    let idle_catalog = idle(&stage, &mut catalog, "catalog.schedule.json").await;
    let catalog_megabytes = peak_megabytes(&catalog);
    let mut problems = [done.problems, scaled_planner.end(), lifecycle.end(), catalog.end()].concat();
    let mut planner = self::planner(&stage).await;
    let cold = once(&stage, &mut planner).await;
    scale(&stage, pods + MORE_PODS);
    until("more pods are unschedulable", || binder.counts().unschedulable == MORE_PODS as usize).await;
    let warm = once(&stage, &mut planner).await;

    let more = Instant::now();
    let pool = Pool::start(&stage, planner).await;
    until("more pods run", || binder.counts().running >= (pods + MORE_PODS) as usize).await;
    let more_seconds = more.elapsed().as_secs_f64();
    // Nodes that the last plan expects pods on are not disrupted until then.
    tokio::time::sleep(NOMINATED_FOR + LEFT_OVER).await;
    let more = pool.stop().await;

    let more_pods = more.report(more_seconds);

    let (scale_down, down) = scale_down(&stage, nodes, more.planner).await;
    problems.extend([more.problems, more.lifecycle.end(), down.problems, down.lifecycle.end()].concat());
    let planner_megabytes = peak_megabytes(&down.planner);
    problems.extend(down.planner.end());
    let peaks = [done.lifecycle_megabytes, more.lifecycle_megabytes, down.lifecycle_megabytes];
    json!({
        "nodes": nodes, "podsANode": size.pods_a_node, "pods": pods, "nodesLaunched": launched, "firstCatalog": refreshed.report(),
        "scaleUp": up,
        "idle": { "planner": idle_planner, "lifecycle": idle_sweep, "catalog": idle_catalog },
        "cold": cold, "warm": warm,
        "morePods": more_pods,
        "scaleDown": scale_down,
        "peakMegabytes": {
            "planner": planner_megabytes, "lifecycle": peaks.into_iter().max(), "catalog": catalog_megabytes,
        },
        "instanceSeconds": STARTS_AFTER + REGISTERS_AFTER + READY_AFTER + SPREAD,
        "problems": { "count": problems.len(), "first": first(&problems) },
    })
}

/// Removes all pods, and waits until no node is left.
async fn scale_down(stage: &Arc<Stage>, nodes: u32, planner: Function) -> (Value, Done) {
    let removed = stage.list(&NODE_CLAIMS).len();
    eprintln!("{nodes} nodes: scaling {removed} down");
    stage.forget_calls();
    let pool = Pool::start(stage, planner).await;
    disrupt(stage);
    scale(stage, 0);
    let emptied = Instant::now();
    until("the nodes are gone", || stage.list(&NODE_CLAIMS).is_empty()).await;
    let seconds = emptied.elapsed().as_secs_f64();
    let down = pool.stop().await;
    let mut report = down.report(seconds);
    report["nodes"] = json!(removed);
    report["interruption"] = down.interrupted.report();
    report["calls"] = json!(stage.calls());
    (report, down)
}

/// A NodePool of machines with eight CPUs that disrupts nothing.
fn prepare(stage: &Stage) {
    let mut pool = node_pool("default");
    let cpus = json!({ "key": "karpenter.k8s.aws/instance-cpu", "operator": "In", "values": ["8"] });
    pool["spec"]["template"]["spec"]["requirements"].as_array_mut().unwrap().push(cpus);
    pool["spec"]["disruption"]["consolidateAfter"] = json!("Never");
    stage.create(&NODE_CLASSES, node_class("default"));
    stage.create(&NODE_POOLS, pool);
}

/// From now on instances take as long to join as those of EC2 do, and not all as long.
fn delay_instances(stage: &Stage) {
    let seconds = SignedDuration::from_secs;
    let mut world = stage.world.lock().unwrap_or_else(PoisonError::into_inner);
    world.set_join_timing(JoinTiming {
        registers_after: seconds(REGISTERS_AFTER),
        ready_after: seconds(READY_AFTER),
        spread: seconds(SPREAD),
        ..JoinTiming::default()
    });
    world.ec2().change_account(|account| account.timing.start_up = seconds(STARTS_AFTER));
}

/// The first problems, shortened.
fn first(problems: &[String]) -> Vec<String> {
    problems.iter().take(PROBLEMS).map(|problem| problem.chars().take(PROBLEM_LENGTH).collect()).collect()
}

/// The catalog, and a ready EC2NodeClass.
async fn refresh(stage: &Stage) -> (Function, Measured) {
    let mut catalog = stage.function(&binary("catalog")).await;
    let mut taken = Measured::default();
    taken.invoke(&mut catalog, &sample("catalog.schedule.json")).await;
    // The EC2NodeClass is ready once lifecycle has asked EC2 by dry runs.
    let mut lifecycle = stage.function(&binary("lifecycle")).await;
    lifecycle.invoke(&stage.claims_messages().await).await.unwrap();
    (catalog, taken)
}

async fn planner(stage: &Stage) -> Function {
    let mut planner = stage.function_of_memory(&binary("planner"), 1024).await;
    planner.set_timeout(PLANNER_TIMEOUT);
    planner
}

fn deployment(Size { nodes, pods_a_node }: Size) -> Value {
    let mut deployment = inflate(nodes * pods_a_node);
    deployment["spec"]["template"]["spec"]["schedulerName"] = json!(binder::NAME);
    deployment["spec"]["template"]["spec"]["containers"][0]["resources"]["requests"] = json!({
        "cpu": format!("{}m", MILLICPUS_A_NODE / pods_a_node), "memory": format!("{}Mi", MEBIBYTES_A_NODE / pods_a_node),
    });
    deployment
}

fn scale(stage: &Stage, replicas: u32) {
    merge(stage, &resource::DEPLOYMENTS, "default", "inflate", &json!({ "spec": { "replicas": replicas } }));
}

/// Lets the NodePool disrupt all its nodes as soon as they are empty.
fn disrupt(stage: &Stage) {
    let disruption = json!({ "consolidateAfter": "0s", "budgets": [{ "nodes": "100%" }] });
    merge(stage, &NODE_POOLS, "", "default", &json!({ "spec": { "disruption": disruption } }));
}

fn merge(stage: &Stage, resource: &Resource, namespace: &str, name: &str, patch: &Value) {
    let options = PatchOptions::default();
    stage.api().patch(resource, namespace, name, None, PatchType::Merge, patch, &options).unwrap();
}

/// Waits until something holds that takes a while to find out. The time limit of the size ends what never holds.
async fn until(what: &str, holds: impl Fn() -> bool) {
    eprintln!("waiting: {what}");
    while !holds() {
        tokio::time::sleep(Duration::from_millis(250)).await;
    }
}

/// Runs one plan and reports what the function has used.
async fn once(stage: &Stage, planner: &mut Function) -> Value {
    stage.forget_calls();
    let mut taken = Measured::default();
    taken.invoke(planner, &sample("planner.heartbeat.json")).await;
    let mut report = taken.report();
    report["calls"] = json!(stage.calls());
    report["peakMegabytes"] = json!(peak_megabytes(planner));
    report
}

/// The calls of one idle run, and the median durations of several.
async fn idle(stage: &Stage, function: &mut Function, event: &str) -> Value {
    let (mut seconds, mut processor) = (Vec::new(), Vec::new());
    let mut calls = Counts::new();
    let logged = function.logged_bytes();
    for _ in 0..IDLE_RUNS {
        stage.forget_calls();
        let mut taken = Measured::default();
        taken.invoke(function, &sample(event)).await;
        seconds.push(taken.seconds);
        processor.push(taken.processor_seconds);
        calls = stage.calls();
    }
    seconds.sort_by(f64::total_cmp);
    processor.sort_by(f64::total_cmp);
    json!({
        "seconds": rounded(seconds[IDLE_RUNS / 2]), "processorSeconds": rounded(processor[IDLE_RUNS / 2]),
        "loggedBytes": (function.logged_bytes() - logged) / IDLE_RUNS as u64, "calls": calls,
    })
}
