//! Scenarios with expected pods: every invariant holds, and no more is launched than the pods need.

use crate::support::{configure, create, within};
use nodeless_driver::scenarios::Scenario;
use nodeless_driver::simulation::Run;
use nodeless_driver::{Driver, FunctionSettings, Outcome, Schedule};
use nodeless_fake_kubernetes::resource::DEPLOYMENTS;
use nodeless_model::ExpectedPods;
use nodeless_ports::ErrorKind;
use nodeless_telemetry::Null;
use nodeless_world::fault_injection::FaultInjection;
use nodeless_world::{World, WorldOptions};
use serde_json::json;
use std::sync::Arc;

#[test]
fn every_invariant_holds_while_pods_are_expected() {
    for mode in ["samples", "templates"] {
        // Pods of `refused-pods` are refused for 75 minutes, and the launches for them wait for up to 96 minutes after that.
        for (name, hours) in [("autoscalers", 1), ("tenants", 1), ("refused-pods", 2)] {
            let scenario = Scenario::built_in(name).unwrap();
            let scenario = Scenario { expected_pods: mode.to_owned(), client_limits: true, ..scenario };
            let report = Run::new(scenario, 1, Some(hours), Arc::new(Null)).unwrap().finish().unwrap();
            assert!(report.violations.is_empty(), "{name} with {mode}: {:#?}", report.violations);
        }
    }
}

#[test]
fn another_value_of_the_setting_is_refused() {
    let scenario = Scenario { expected_pods: "on".to_owned(), ..Scenario::built_in("day").unwrap() };
    let error = Run::new(scenario, 1, Some(1), Arc::new(Null)).err().unwrap().to_string();
    assert!(error.contains("expectedPods") && error.contains("samples"), "{error}");
}

/// Until when the workloads cannot be read.
#[derive(Clone, Copy, PartialEq)]
enum Denied {
    Never,
    UntilThePods,
    Always,
}

/// How many pods the first plan sees of a Deployment of 100, if pods are expected, and if the workloads can be read.
fn seen_first(mode: ExpectedPods, denied: Denied) -> usize {
    let mut world = World::new(WorldOptions::default()).unwrap();
    world.set_client_limits(true);
    let faults = FaultInjection::scripted(world.clock().clone());
    let set = FunctionSettings { expected_pods: mode, ..FunctionSettings::default() };
    let mut driver = Driver::with_fault_injection(world, Schedule::default(), Arc::new(Null), faults.clone(), set);
    if denied != Denied::Never {
        faults.fail("cluster pod controllers", ErrorKind::Denied);
    }
    configure(&driver);
    driver.advance_to(within(&driver, 90)).unwrap();
    driver.take_outcomes();
    if denied == Denied::UntilThePods {
        faults.end_outages();
    }
    let labels = json!({ "app": "web" });
    let container = json!({ "name": "web", "image": "x", "resources": { "requests": { "cpu": "100m" } } });
    let template = json!({ "metadata": { "labels": labels }, "spec": { "containers": [container] } });
    let spec = json!({ "replicas": 100, "selector": { "matchLabels": labels }, "template": template });
    create(&driver, &DEPLOYMENTS, json!({ "metadata": { "name": "web", "namespace": "default" }, "spec": spec }));
    driver.advance_to(within(&driver, 30)).unwrap();
    let plans = driver.take_outcomes().into_iter().filter_map(|(_, outcome)| match outcome {
        Outcome::Planned(Ok(report)) if report.pods > 0 => Some(report.pods),
        _ => None,
    });
    plans.min().unwrap()
}

#[test]
fn pods_are_not_waited_for_only_if_the_plan_expects_them() {
    assert_eq!(seen_first(ExpectedPods::Off, Denied::Never), 100, "all are waited for");
    assert!(seen_first(ExpectedPods::Samples, Denied::Never) < 70);
    assert!(seen_first(ExpectedPods::Samples, Denied::UntilThePods) < 70, "the right was granted meanwhile");
    assert_eq!(seen_first(ExpectedPods::Samples, Denied::Always), 100, "the workloads cannot be read");
}
