//! What is refused, and the reason that names it.

use crate::support::*;
use serde_json::{Value, json};

fn case(request: Value) -> Case {
    Case::new(json!([slice("p", devices(&["a"]))]), json!([claim_of(json!([request]), json!([]))]))
}

#[test]
fn what_is_not_supported_is_named() {
    let unsupported = |what: &str| format!("ResourceClaim c, request r: {what} is not supported");
    let sub = json!({"name": "x", "deviceClassName": "gpu", "allocationMode": "Some"});
    for (case, expected) in [
        (
            case(request("r", json!({"capacity": {"requests": {"memory": "1Gi"}}}))),
            unsupported("a request for a part of a device's capacity"),
        ),
        (case(request("r", json!({"allocationMode": "Some"}))), unsupported("allocationMode Some")),
        (case(request("r", json!({"selectors": [{}]}))), unsupported("a selector that is no expression of CEL")),
        (case(json!({"name": "r"})), unsupported("a request with neither exactly nor firstAvailable")),
        (
            case(json!({"name": "r", "firstAvailable": []})),
            unsupported("a request with neither exactly nor firstAvailable"),
        ),
        (
            case(json!({"name": "r", "firstAvailable": [sub]})),
            "ResourceClaim c, request r/x: allocationMode Some is not supported".into(),
        ),
        (
            case(request("r", json!({"deviceClassName": "tpu"}))),
            "ResourceClaim c, request r: there is no DeviceClass tpu".into(),
        ),
        (
            case(request("r", json!({"deviceClassName": ""}))),
            "ResourceClaim c, request r: there is no DeviceClass ".into(),
        ),
        (
            Case::new(
                json!([slice("p", json!([{"name": "a", "allowMultipleAllocations": true}]))]),
                json!([claim(&[("r", 1)])]),
            ),
            unsupported("device gpu.example.com/p/a, which several claims may share,"),
        ),
        (
            Case::new(
                json!([slice("p", devices(&["a"]))]),
                json!([claim_of(json!([request("r", json!({}))]), json!([{}]))]),
            ),
            "ResourceClaim c, request constraint 0: a constraint of an unknown kind is not supported".into(),
        ),
    ] {
        assert_eq!(case.outcome(), expected);
    }
}

#[test]
fn selectors_that_fail_are_named() {
    let with = |expression: &str| case(request("r", json!({"selectors": [{"cel": {"expression": expression}}]})));
    let selector = "selector 0 of ResourceClaim c, request r";
    for (expression, expected) in [
        (
            "device.attributes['x'].y == 1",
            format!(
                "{selector} fails for device gpu.example.com/p/a: the device has no attribute x/y; test for it first, as in \"name\" in device.attributes[\"domain\"]"
            ),
        ),
        ("device.driver", format!("{selector} fails for device gpu.example.com/p/a: expected a bool, not a string")),
        (
            "node == 1",
            format!(
                "{selector} cannot be evaluated: the expression is not valid: node is no variable; it may use device"
            ),
        ),
        (
            "device.driver.split('.')[0] == 'gpu'",
            format!("{selector} cannot be evaluated: the method split with 1 argument is not supported"),
        ),
    ] {
        assert_eq!(with(expression).outcome(), expected);
    }
    let class = case(request("r", json!({"deviceClassName": "broken"}))).outcome();
    assert!(
        class.starts_with("selector 0 of DeviceClass broken cannot be evaluated: the expression is not valid: "),
        "{class}"
    );
}

/// A selector must not be evaluated with values that the device may turn out not to have.
#[test]
fn what_no_driver_has_published_yet_is_unknown() {
    let slices = || json!([slice("p", json!([{"name": "a", "attributes": {"model": {"string": "t4"}, "uuid": {}}}]))]);
    let predicted = |expression: &str| {
        let selectors = json!([{"cel": {"expression": expression}}]);
        Case::new(slices(), json!([claim_of(json!([request("r", json!({"selectors": selectors}))]), json!([]))]))
            .predicted()
            .outcome()
    };
    let unknown = |what: &str| {
        format!(
            "selector 0 of ResourceClaim c, request r needs {what} of driver gpu.example.com, which is not known before the driver publishes the device"
        )
    };
    let model = "device.attributes['gpu.example.com'].model == 't4'";
    let version = "device.attributes['gpu.example.com'].driverVersion.isGreaterThan(semver('1.0.0'))";
    assert_eq!(predicted(model), "r=p/a");
    for (expression, what) in [
        (version.to_owned(), "attribute gpu.example.com/driverVersion"),
        (format!("{model} && {version}"), "attribute gpu.example.com/driverVersion"),
        ("device.attributes['gpu.example.com'].uuid == 'x'".into(), "attribute gpu.example.com/uuid"),
        ("'uuid' in device.attributes['gpu.example.com']".into(), "attribute gpu.example.com/uuid"),
        ("has(device.attributes['gpu.example.com'].numa)".into(), "attribute gpu.example.com/numa"),
        (
            "device.capacity['gpu.example.com'].memory.isGreaterThan(quantity('1Gi'))".into(),
            "capacity gpu.example.com/memory",
        ),
        ("'gpu.example.com' in device.attributes".into(), "the list of attributes"),
    ] {
        assert_eq!(predicted(&expression), unknown(what), "{expression}");
    }
    // What decides an expression is known.
    assert_eq!(predicted(&format!("{model} || {version}")), "r=p/a");
    assert_eq!(
        predicted(&format!("!({model}) && {version}")),
        "ResourceClaim c, request r: no free device meets the request and the constraints of the claim"
    );
}

#[test]
fn constraints_for_what_is_not_published_are_refused() {
    let slices = json!([slice("p", devices(&["a", "b"]))]);
    let claims = json!([claim_of(
        json!([request("r", json!({"count": 2}))]),
        json!([{"matchAttribute": "gpu.example.com/numa"}])
    )]);
    assert_eq!(
        Case::new(slices, claims).predicted().outcome(),
        "a constraint of ResourceClaim c needs attribute gpu.example.com/numa of driver gpu.example.com, which is not known before the driver publishes the device"
    );
}

/// The kube-scheduler evaluates selectors before it looks at taints.
#[test]
fn a_selector_fails_for_devices_that_are_tainted() {
    let taint = json!([{"key": "health", "effect": "NoSchedule"}]);
    let slices = json!([slice("p", json!([{"name": "a", "taints": taint}, device("b", "model", "t4")]))]);
    let selectors = json!([{"cel": {"expression": "device.attributes['gpu.example.com'].model == 't4'"}}]);
    let claims = json!([claim_of(json!([request("r", json!({"selectors": selectors}))]), json!([]))]);
    let outcome = Case::new(slices, claims).outcome();
    assert!(
        outcome.starts_with("selector 0 of ResourceClaim c, request r fails for device gpu.example.com/p/a"),
        "{outcome}"
    );
}
