//! Scenarios with expected pods: every invariant holds, and no more is launched than the pods need.

use nodeless_driver::scenarios::Scenario;
use nodeless_driver::simulation::{Report, Run};
use nodeless_telemetry::Null;
use std::sync::Arc;

fn hour(scenario: &str, mode: &str) -> Report {
    let scenario = Scenario { expected_pods: mode.to_owned(), ..Scenario::built_in(scenario).unwrap() };
    Run::new(scenario, 1, Some(1), Arc::new(Null)).unwrap().finish().unwrap()
}

#[test]
fn every_invariant_holds_while_pods_are_expected() {
    for mode in ["samples", "templates"] {
        for scenario in ["autoscalers", "tenants"] {
            let report = hour(scenario, mode);
            assert!(report.violations.is_empty(), "{scenario} with {mode}: {:#?}", report.violations);
        }
    }
}

#[test]
fn another_value_of_the_setting_is_refused() {
    let scenario = Scenario { expected_pods: "on".to_owned(), ..Scenario::built_in("day").unwrap() };
    let error = Run::new(scenario, 1, Some(1), Arc::new(Null)).err().unwrap().to_string();
    assert!(error.contains("expectedPods") && error.contains("samples"), "{error}");
}
