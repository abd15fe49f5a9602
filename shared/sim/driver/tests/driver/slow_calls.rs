//! Calls that take up to 20 seconds: a launch whose answer is recorded late, and nodes that open late.

use nodeless_driver::scenarios::Scenario;
use nodeless_driver::simulation::Run;
use nodeless_telemetry::Null;
use std::sync::Arc;

/// Nodes stayed unregistered for most of an hour, because the time of a claim's steps ended before the answer of EC2 was recorded.
#[test]
fn nodes_open_although_most_calls_are_slow() {
    for seed in [12000, 12001, 12003, 12006, 12007] {
        let scenario = Scenario::parse(include_str!("scenarios/slow-calls.yaml")).unwrap();
        let report = Run::new(scenario, seed, None, Arc::new(Null)).unwrap().finish().unwrap();
        assert!(report.holds(), "seed {seed}: {:#?}", report.violations);
    }
}
