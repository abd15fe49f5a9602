//! Measures what the functions take and call, idle and for a scale-up of 100 nodes, and prints it as JSON. From it
//! `docs/cost.py` makes `docs/cost.md`.
//!
//! ```sh
//! cargo build --release -p planner -p lifecycle -p interruption -p catalog -p wake -p installer
//! cargo run --release -p nodeless-tests --all-features --example measure-functions > docs/measurements.json
//! ```
#![allow(clippy::unwrap_used)]

use nodeless_fake_kubernetes::resource;
use nodeless_tests::lambda::{Function, binary, sample};
use nodeless_tests::proxy::Counts;
use nodeless_tests::stage::{Stage, inflate, node_class, node_pool};
use nodeless_world::resources::{NODE_CLASSES, NODE_POOLS};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// How many nodes the scale-up makes: one pod of one CPU on each machine of two.
const NODES: u32 = 100;
/// How often an idle run is measured; the median counts.
const IDLE_RUNS: usize = 5;

/// What invocations of a function took together.
#[derive(Default)]
struct Taken {
    invocations: u64,
    milliseconds: f64,
    calls: Counts,
}

impl Taken {
    async fn invoke(&mut self, stage: &Stage, function: &mut Function, event: &Value) -> Value {
        stage.forget_calls();
        let before = Instant::now();
        let answer = function.invoke(event).await.unwrap();
        self.milliseconds += before.elapsed().as_secs_f64() * 1000.0;
        self.invocations += 1;
        for (name, count) in stage.calls() {
            *self.calls.entry(name).or_default() += count;
        }
        answer
    }

    fn report(&self) -> Value {
        json!({ "invocations": self.invocations, "milliseconds": self.milliseconds.round(), "calls": self.calls })
    }
}

#[tokio::main]
async fn main() {
    let stage = Stage::start().await.expect("moto is installed");
    let mut pool = node_pool("default");
    pool["spec"]["template"]["spec"]["requirements"]
        .as_array_mut()
        .unwrap()
        .push(json!({ "key": "karpenter.k8s.aws/instance-cpu", "operator": "In", "values": ["2"] }));
    pool["spec"]["disruption"]["consolidateAfter"] = json!("Never");
    stage.create(&NODE_CLASSES, node_class("default"));
    stage.create(&NODE_POOLS, pool);

    let mut catalog = stage.function(&binary("catalog")).await;
    let mut planner = stage.function(&binary("planner")).await;
    let mut lifecycle = stage.function(&binary("lifecycle")).await;
    let mut first_catalog = Taken::default();
    first_catalog.invoke(&stage, &mut catalog, &sample("catalog.schedule.json")).await;
    // The EC2NodeClass is ready once lifecycle has asked EC2 by dry runs.
    lifecycle.invoke(&stage.claims_messages().await).await.unwrap();

    stage.create(&resource::DEPLOYMENTS, inflate(NODES));
    stage
        .until("all pods are unschedulable", |stage| {
            let pods = stage.list(&resource::PODS);
            pods.iter().filter(|pod| pod["status"]["conditions"][0]["reason"] == "Unschedulable").count()
                == NODES as usize
        })
        .await;
    let started = Instant::now();
    let (mut plans, mut claims) = (Taken::default(), Taken::default());
    plans.invoke(&stage, &mut planner, &sample("planner.heartbeat.json")).await;
    let running =
        |stage: &Stage| stage.list(&resource::PODS).iter().filter(|pod| pod["status"]["phase"] == "Running").count();
    while running(&stage) < NODES as usize {
        let messages = stage.claims_messages().await;
        // Lambda passes at most ten messages at a time.
        for batch in messages["Records"].as_array().unwrap().chunks(10) {
            claims.invoke(&stage, &mut lifecycle, &json!({ "Records": batch })).await;
        }
        assert!(
            started.elapsed() < Duration::from_secs(600),
            "{} of {NODES} pods run after ten minutes",
            running(&stage)
        );
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    let scale_up_seconds = started.elapsed().as_secs_f64();
    // What is left to do for claims whose pods run: the last registrations and tags.
    for _ in 0..20 {
        let messages = stage.claims_messages().await;
        for batch in messages["Records"].as_array().unwrap().chunks(10) {
            claims.invoke(&stage, &mut lifecycle, &json!({ "Records": batch })).await;
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }

    let idle_plan = idle(&stage, &mut planner, "planner.heartbeat.json").await;
    let idle_sweep = idle(&stage, &mut lifecycle, "lifecycle.sweep.json").await;
    let idle_catalog = idle(&stage, &mut catalog, "catalog.schedule.json").await;
    let mut functions = serde_json::Map::new();
    for (name, function) in [("catalog", &catalog), ("planner", &planner), ("lifecycle", &lifecycle)] {
        functions.insert(name.to_owned(), process(function));
    }
    for name in ["interruption", "installer", "wake"] {
        let function = start(&stage, name).await;
        functions.insert(name.to_owned(), process(&function));
    }
    let report = json!({
        "nodes": NODES,
        "functions": functions,
        "firstCatalog": first_catalog.report(),
        "scaleUp": { "seconds": scale_up_seconds.round(), "planner": plans.report(), "lifecycle": claims.report() },
        "idle": { "planner": idle_plan, "lifecycle": idle_sweep, "catalog": idle_catalog },
    });
    println!("{report:#}");
}

/// Starts a function that is not invoked, and waits until it asks for its first event, or panics when it does not.
async fn start(stage: &Stage, name: &str) -> Function {
    let function = stage.function(&binary(name)).await;
    let deadline = Instant::now() + Duration::from_secs(10);
    while function.start_to_ready().is_none() && Instant::now() < deadline {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert!(function.start_to_ready().is_some(), "{name} is not ready after ten seconds");
    function
}

fn process(function: &Function) -> Value {
    json!({
        "startToReadyMilliseconds": function.start_to_ready().map(|ready| ready.as_secs_f64() * 1000.0),
        "peakMemoryMegabytes": function.peak_memory_kilobytes().map(|kilobytes| kilobytes / 1000),
    })
}

/// The calls of one idle run, and the median duration of several.
async fn idle(stage: &Stage, function: &mut Function, event: &str) -> Value {
    let mut milliseconds = Vec::new();
    let mut calls = Value::Null;
    for _ in 0..IDLE_RUNS {
        let mut taken = Taken::default();
        taken.invoke(stage, function, &sample(event)).await;
        milliseconds.push(taken.milliseconds);
        calls = json!(taken.calls);
    }
    milliseconds.sort_by(f64::total_cmp);
    json!({ "milliseconds": milliseconds[IDLE_RUNS / 2].round(), "calls": calls })
}
