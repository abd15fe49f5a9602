//! Measures what the functions take and call in clusters of several sizes, and prints it as JSON.
//!
//! `make cost SIZES="100x1 100"` builds the functions, runs this, and writes docs/benchmarks/cost.md.
//!
//! The arguments are a folder and numbers of nodes, with 20 pods each or as many as follow the `x`. Each size is measured by a process of
//! its own, which writes its result to a file in the folder. A size whose file is there is not measured again, so a measurement that was
//! interrupted goes on. A size that takes more than its time limit, or that fails, has a result that states so.
//!
//! For each size, a Deployment of all pods is created in an empty cluster, which is scaled up by the function binaries; then idle runs are
//! measured, a plan of a planner that has just started, and one for 100 more pods. When these run and no node is nominated for pods any
//! more, the Deployment is scaled to zero. The Kubernetes API and EC2 are simulated and answer over HTTP, the table is in DynamoDB Local,
//! the queues are in moto. EC2's state-change events reach the interruption function. A scheduler of the measurement binds the pods
//! (`binder.rs`).
#![allow(clippy::unwrap_used)]

mod binder;
mod pool;
mod size;
mod taken;

use nodeless_tests::lambda::{Function, binary};
use nodeless_tests::stage::Stage;
use serde_json::{Value, json};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// The simulated API server and EC2 of this process allocate and free objects of many small parts on all processors.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The argument of the process that measures one size.
const ONE: &str = "--one";
/// The time limit of one size.
const TIME_LIMIT: Duration = Duration::from_secs(1800);

#[tokio::main]
async fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.as_slice() {
        [flag, size] if flag == ONE => one(size).await,
        [folder, sizes @ ..] if !sizes.is_empty() => Box::pin(all(Path::new(folder), sizes)).await,
        _ => panic!("the arguments are a folder and numbers of nodes, such as 100 or 100x1"),
    }
}

fn parsed(size: &str) -> size::Size {
    size.parse().expect("a size is a number of nodes, such as 100 or 100x1")
}

/// Measures the sizes that the folder does not have yet, and prints all of them.
async fn all(folder: &Path, sizes: &[String]) {
    std::fs::create_dir_all(folder).unwrap();
    let mut measured = Vec::new();
    for size in sizes {
        let file = folder.join(format!("{size}.json"));
        if !file.exists() {
            std::fs::write(&file, in_a_process(size).to_string()).unwrap();
        }
        measured.push(serde_json::from_slice::<Value>(&std::fs::read(&file).unwrap()).unwrap());
    }
    println!("{:#}", json!({ "starts": Box::pin(starts()).await, "sizes": measured }));
}

/// Prints the result of a size, or that it took too long. Everything that was started ends with this process.
async fn one(text: &str) {
    let size = parsed(text);
    let mut measured = Box::pin(size::measure(size));
    let result = tokio::time::timeout(TIME_LIMIT, &mut measured).await;
    let minutes = TIME_LIMIT.as_secs() / 60;
    println!("{}", result.unwrap_or_else(|_| size.failed(&format!("not done after {minutes} minutes"))));
}

/// The result of the process that measures a size. One that panics prints none.
fn in_a_process(text: &str) -> Value {
    let mut command = Command::new(std::env::current_exe().unwrap());
    let output = command.args([ONE, text]).stdin(Stdio::null()).stderr(Stdio::inherit()).output().unwrap();
    let result = serde_json::from_slice(&output.stdout);
    result.unwrap_or_else(|_| parsed(text).failed(&format!("the measurement ended with {}", output.status)))
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
