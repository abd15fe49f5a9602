//! The work of plans with pods that claim devices.

use crate::claims::{claiming, devices, existing, slice, with};
use crate::support::*;
use nodeless_devices::ClusterDevices;
use nodeless_model::*;
use nodeless_scheduling::{Problem, Solution};
use serde_json::{Value, json};

/// Adds a template with these requests.
fn add(devices: &mut ClusterDevices, name: &str, requests: &[Value]) {
    let requests = serde_json::from_value(json!({"requests": requests})).unwrap();
    devices.templates.insert(format!("default/{name}"), requests);
}

fn request(name: &str, expression: Option<&str>) -> Value {
    let selectors: Vec<Value> = expression.iter().map(|it| json!({"cel": {"expression": it}})).collect();
    json!({"name": name, "exactly": {"deviceClassName": "gpu.nvidia.com", "selectors": selectors}})
}

/// 12 requests for any device, and then 20 for devices that these take first: the devices are there, and have more orders than anyone
/// can try.
fn costly() -> Vec<Value> {
    let any = (0..12).map(|index| request(&format!("any{index}"), None));
    let of_model = "device.attributes['gpu.nvidia.com'].model == 'a'";
    any.chain((0..20).map(|index| request(&format!("a{index}"), Some(of_model)))).collect()
}

/// A node whose devices are of model a, and behind them as many of model b.
fn with_models(name: &str) -> nodeless_devices::Slice {
    let mut made = slice(name, 0, "0");
    let device = |index: usize| {
        let model = if index < 20 { "a" } else { "b" };
        json!({"name": format!("gpu-{index:02}"), "attributes": {"type": {"string": "gpu"}, "model": {"string": model}}})
    };
    made.spec.devices = serde_json::from_value((0..40).map(device).collect()).unwrap();
    made
}

fn unschedulable(problem: &Problem<'_>, solution: &Solution) -> Vec<(String, String)> {
    let reasons = |reasons: &[nodeless_scheduling::Reason]| {
        reasons.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
    };
    let refused = solution.unschedulable.iter();
    refused.map(|refused| (problem.pods[refused.pod].name.clone(), reasons(&refused.reasons))).collect()
}

#[test]
fn a_pod_whose_claims_cost_too_much_is_left_out_alone() {
    let pools = [node_pool("default")];
    let mut devices = devices();
    add(&mut devices, "costly", &costly());
    let names: Vec<String> = (0..30).map(|index| format!("node-{index}")).collect();
    devices.slices = names.iter().map(|name| with_models(name)).collect();
    let mut pods: Vec<Pod> = (0..5).map(|index| claiming(&format!("ordinary-{index}"), "one")).collect();
    pods.push(claiming("costly", "costly"));
    pods.push(pod("web", 500, 512));
    let mut problem = with(&devices, &pods, &pools);
    problem.nodes = names.iter().map(|name| existing(name, "g9.12xlarge")).collect();
    let solution = solve_checked(&problem);
    let reason =
        "no devices were found within 260000 attempts; use fewer requests, or requests that select fewer devices";
    assert_eq!(unschedulable(&problem, &solution), [("costly".to_owned(), reason.to_owned())]);
    assert_eq!(solution.placements.len(), 6);
    // The attempts are work of the plan, and those of a kind are bounded.
    assert!((260_000..400_000).contains(&solution.work), "{}", solution.work);
}

/// A selector that takes long for each device holds up no others either, and no instance type is searched for it again.
#[test]
fn selectors_that_cost_too_much_are_left_out_alone() {
    let pools = [node_pool("default")];
    let mut devices = devices();
    let many = vec!["1"; 100].join(",");
    let expression = format!("[{many}].all(x, [{many}].all(y, x == y))");
    add(&mut devices, "costly", &[request("r", Some(&expression))]);
    let names: Vec<String> = (0..100).map(|index| format!("node-{index:02}")).collect();
    devices.slices = names.iter().map(|name| slice(name, 8, "24Gi")).collect();
    let pods = [claiming("ordinary", "one"), claiming("costly", "costly")];
    let mut problem = with(&devices, &pods, &pools);
    problem.nodes = names.iter().map(|name| existing(name, "g9.12xlarge")).collect();
    let solution = solve_checked(&problem);
    assert_eq!(solution.placements.len(), 1);
    assert_eq!(solution.unschedulable.len(), 1);
    assert!(solution.work < 400_000, "{}", solution.work);
}

/// Twenty pods, each with a claim of its own that has names of its own, on fifty nodes with eight devices.
#[test]
fn equal_claims_share_a_search() {
    let pools = [node_pool("default")];
    let mut devices = devices();
    let names: Vec<String> = (0..50).map(|index| format!("node-{index:02}")).collect();
    devices.slices = names.iter().map(|name| slice(name, 8, "24Gi")).collect();
    for index in 0..20 {
        add(&mut devices, &format!("own-{index}"), &[request(&format!("r{index}"), None)]);
    }
    let work = |own: bool| {
        let pod = |index: usize| {
            let template = if own { format!("own-{index}") } else { "own-0".to_owned() };
            claiming(&format!("pod-{index:02}"), &template).with_template(|it| {
                it.resource_claims[0].name = if own { format!("gpu-{index}") } else { "gpu".to_owned() };
            })
        };
        let pods: Vec<Pod> = (0..20).map(pod).collect();
        let mut problem = with(&devices, &pods, &pools);
        problem.nodes = names.iter().map(|name| existing(name, "g9.12xlarge")).collect();
        let solution = solve_checked(&problem);
        assert_eq!(solution.placements.len(), 20);
        solution.work
    };
    let (own, shared) = (work(true), work(false));
    // Each device is evaluated once, and tried by a few pods.
    assert!(shared < 50 * 8 * 60, "{shared}");
    assert!(own < shared + 10_000, "{own} {shared}");
}

/// Reasons have the names that the pod has for its claims, which other pods of the kind do not have.
#[test]
fn reasons_name_the_claims_of_the_pod() {
    let pools = [node_pool("default")];
    let mut devices = devices();
    let select = "device.attributes['gpu.nvidia.com'].type == 'mig'";
    for (template, name) in [("first", "one"), ("second", "two")] {
        add(&mut devices, template, &[request(name, Some(select))]);
    }
    let pods = ["first", "second"].map(|template| {
        claiming(template, template).with_template(|it| it.resource_claims[0].name = format!("claim-of-{template}"))
    });
    let problem = with(&devices, &pods, &pools);
    let reason = |claim: &str, request: &str| {
        format!(
            "NodePool default: no instance type has the claimed devices: ResourceClaim {claim}, request {request}: no free device meets the request and the constraints of the claim"
        )
    };
    let expected = [("first", reason("claim-of-first", "one")), ("second", reason("claim-of-second", "two"))];
    assert_eq!(unschedulable(&problem, &solve_checked(&problem)), expected.map(|(name, why)| (name.to_owned(), why)));
}
