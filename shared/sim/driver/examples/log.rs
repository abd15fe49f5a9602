//! Prints the log of a simulated run as the functions write it to CloudWatch Logs: JSON lines, and metrics in the embedded metric
//! format. `cargo run --release -p nodeless-driver --example log -- SCENARIO.yaml SEED`. scripts/docs/dashboard_recording.py reads it.
#![allow(clippy::unwrap_used, missing_docs)]

use nodeless_driver::scenarios::Scenario;
use nodeless_driver::simulation::Run;
use nodeless_telemetry::Stdout;
use std::sync::Arc;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [scenario, seed] = arguments.as_slice() else { panic!("give a scenario file and a seed") };
    let scenario = Scenario::parse(&std::fs::read_to_string(scenario).unwrap()).unwrap();
    let run = Run::new(
        scenario,
        seed.parse().unwrap(),
        None,
        Arc::new(Stdout { cluster: Some("example".to_owned()), ..Stdout::default() }),
    )
    .unwrap();
    let report = run.finish().unwrap();
    assert!(report.holds(), "{:?}", report.violations);
}
