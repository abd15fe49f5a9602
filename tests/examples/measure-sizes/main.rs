//! Measures what the functions take and call in clusters of several sizes, and prints it as JSON.
//!
//! `make cost SIZES="100x1 100"` builds the functions, runs this, and writes docs/cost.md.
//!
//! The arguments are numbers of nodes, with 20 pods each or as many as follow the `x`. For each, a Deployment of all pods is created
//! in an empty cluster, which is scaled up by the function binaries; then idle runs are measured, a plan of a planner that has just
//! started, and one for 100 more pods. When these run and no node is nominated for pods any more, the Deployment is scaled to zero.
//! The Kubernetes API and EC2 are simulated and answer over HTTP, the table is in DynamoDB Local, the queues are in moto. EC2's
//! state-change events reach the interruption function. A scheduler of the measurement binds the pods (`binder.rs`).
#![allow(clippy::unwrap_used)]

mod binder;
mod pool;
mod size;
mod taken;

use nodeless_tests::lambda::{Function, binary};
use nodeless_tests::stage::Stage;
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// The size that is measured without an argument.
const DEFAULT: &str = "100";

#[tokio::main]
async fn main() {
    let mut sizes: Vec<String> = std::env::args().skip(1).collect();
    if sizes.is_empty() {
        sizes.push(DEFAULT.to_owned());
    }
    let sizes: Vec<size::Size> = sizes
        .iter()
        .map(|size| size.parse().expect("an argument is a number of nodes, such as 100 or 100x1"))
        .collect();
    let mut measured = Vec::new();
    for size in sizes {
        measured.push(Box::pin(size::measure(size)).await);
    }
    println!("{:#}", json!({ "starts": starts().await, "sizes": measured }));
}

/// The start times of functions that are not measured otherwise.
async fn starts() -> Value {
    let stage = Stage::start().await.expect("moto is installed");
    let mut starts = serde_json::Map::new();
    for name in ["catalog", "installer", "interruption", "lifecycle", "planner", "wake"] {
        let function = stage.function(&binary(name)).await;
        let deadline = Instant::now() + Duration::from_secs(10);
        while function.start_to_ready().is_none() && Instant::now() < deadline {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        assert!(function.start_to_ready().is_some(), "{name} is not ready after ten seconds");
        starts.insert(name.to_owned(), started(&function));
    }
    starts.into()
}

fn started(function: &Function) -> Value {
    json!({
        "startToReadyMilliseconds": function.start_to_ready().map(|ready| ready.as_secs_f64() * 1000.0),
        "memoryMegabytes": taken::peak_megabytes(function),
    })
}
