//! Which devices claims get.

use crate::support::*;
use serde_json::{Value, json};

const NONE_OF_S: &str = "ResourceClaim c, request s: no free device meets the request and the constraints of the claim";
const NONE: &str = "ResourceClaim c, request r: no free device meets the request and the constraints of the claim";

fn select(expression: &str) -> Value {
    json!([{"cel": {"expression": expression}}])
}

#[test]
fn requests_get_the_first_free_devices() {
    let two = || json!([slice("p", devices(&["a", "b"]))]);
    let r = |count| json!([claim(&[("r", count)])]);
    for (name, case, expected) in [
        ("one device", Case::new(two(), r(1)), "r=p/a"),
        ("several devices of a request", Case::new(two(), r(2)), "r=p/a r=p/b"),
        ("not enough devices", Case::new(two(), r(3)), NONE),
        ("several requests", Case::new(two(), json!([claim(&[("r", 1), ("s", 1)])])), "r=p/a s=p/b"),
        (
            "more requests than devices",
            Case::new(two(), json!([claim(&[("r", 2), ("s", 1)])])),
            "ResourceClaim c, request s: no free device meets the request and the constraints of the claim",
        ),
        ("several claims", Case::new(two(), json!([claim(&[("r", 1)]), claim(&[("r", 1)])])), "r=p/a; r=p/b"),
        ("more claims than devices", Case::new(two(), json!([claim(&[("r", 2)]), claim(&[("r", 1)])])), NONE),
        ("a device is taken", Case::new(two(), r(1)).taken(&["p/a"]), "r=p/b"),
        ("all devices are taken", Case::new(two(), r(1)).taken(&["p/a", "p/b"]), NONE),
        ("no slices", Case::new(json!([]), r(1)), NONE),
        ("no devices", Case::new(json!([slice("p", json!([]))]), r(1)), NONE),
        ("no requests", Case::new(two(), json!([claim(&[])])), ""),
        ("no claims", Case::new(two(), json!([])), ""),
        (
            "the same name in two pools",
            Case::new(json!([slice("q", devices(&["a"])), slice("p", devices(&["a"]))]), r(2)),
            "r=p/a r=q/a",
        ),
        (
            "pools have the order of their names",
            Case::new(json!([slice("q", devices(&["a"])), slice("p", devices(&["z"]))]), r(1)),
            "r=p/z",
        ),
        (
            "slices have the order of their names, devices that of their slice",
            Case::new(
                json!([
                    named("2", slice_of("p", 1, 2, json!({"nodeName": "node-1", "devices": devices(&["a"])}))),
                    named("1", slice_of("p", 1, 2, json!({"nodeName": "node-1", "devices": devices(&["d", "c"])}))),
                ]),
                r(3),
            ),
            "r=p/d r=p/c r=p/a",
        ),
        (
            "devices with binding conditions are left",
            Case::new(json!([slice("p", json!([{"name": "a", "bindingConditions": ["ready"]}, {"name": "b"}]))]), r(1)),
            "r=p/b",
        ),
    ] {
        assert_eq!(case.outcome(), expected, "{name}");
    }
}

#[test]
fn classes_and_requests_select_devices() {
    let models = || json!([slice("p", json!([device("a", "model", "t4"), device("b", "model", "l4")]))]);
    let of = |class: &str, expression: &str| {
        let exact = json!({"deviceClassName": class, "selectors": select(expression)});
        json!([claim_of(json!([{"name": "r", "exactly": exact}]), json!([]))])
    };
    let memory = |amount: &str| json!([slice("p", json!([{"name": "a", "capacity": {"memory": {"value": amount}}}]))]);
    let model = "device.attributes['gpu.example.com'].model == 'l4'";
    for (name, case, expected) in [
        ("a request selects", Case::new(models(), of("gpu", model)), "r=p/b"),
        ("all selectors must match", Case::new(models(), of("gpu", "false")), NONE),
        ("a class selects", Case::new(memory("40Gi"), of("large", "true")), "r=p/a"),
        ("a class selects nothing", Case::new(memory("24Gi"), of("large", "true")), NONE),
        ("a class without selectors", Case::new(models(), of("any", model)), "r=p/b"),
    ] {
        assert_eq!(case.outcome(), expected, "{name}");
    }
}

#[test]
fn requests_for_all_devices_get_all_or_none() {
    let all = || json!([claim_of(json!([request("r", json!({"allocationMode": "All"}))]), json!([]))]);
    let two = || json!([slice("p", devices(&["a", "b"])), slice("q", devices(&["c"]))]);
    let mixed = json!([
        request(
            "r",
            json!({"allocationMode": "All", "selectors": select("device.attributes['gpu.example.com'].model == 't4'")})
        ),
        request("s", json!({}))
    ]);
    let models = json!([slice(
        "p",
        json!([device("a", "model", "t4"), device("b", "model", "t4"), device("c", "model", "l4")])
    )]);
    let many: Vec<String> = (0..33).map(|index| format!("d{index:02}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    for (name, case, expected) in [
        ("of all pools", Case::new(two(), all()), "r=p/a r=p/b r=q/c"),
        ("none", Case::new(json!([slice("p", json!([]))]), all()), NONE),
        ("one is taken", Case::new(two(), all()).taken(&["q/c"]), NONE),
        ("beside a number of others", Case::new(models, json!([claim_of(mixed, json!([]))])), "r=p/a r=p/b s=p/c"),
        (
            "more than a claim may have",
            Case::new(json!([slice("p", devices(&many))]), all()),
            "ResourceClaim c requests 33 devices, more than the 32 that a claim may have",
        ),
        (
            "as many as a claim may have",
            Case::new(json!([slice("p", devices(&many[..32]))]), json!([claim(&[("r", 32)])])),
            &{
                let given: Vec<String> = many[..32].iter().map(|name| format!("r=p/{name}")).collect();
                given.join(" ")
            },
        ),
    ] {
        assert_eq!(case.outcome(), expected, "{name}");
    }
}

#[test]
fn the_first_alternative_with_devices_is_allocated() {
    let sub = |name: &str, count: i64, model: &str| {
        let selectors = select(&format!("device.attributes['gpu.example.com'].model == '{model}'"));
        let mut sub = with_class(json!({"count": count, "selectors": selectors}));
        sub["name"] = json!(name);
        sub
    };
    let models = || {
        let names = [("a", "t4"), ("b", "t4"), ("c", "l4")];
        json!([slice("p", names.iter().map(|(name, model)| device(name, "model", model)).collect())])
    };
    let first = |options: Value| json!([claim_of(json!([{"name": "r", "firstAvailable": options}]), json!([]))]);
    let then = |options: Value, exact: Value| {
        json!([claim_of(json!([{"name": "r", "firstAvailable": options}, request("s", exact)]), json!([]))])
    };
    let t4 = select("device.attributes['gpu.example.com'].model == 't4'");
    for (name, case, expected) in [
        ("the first", Case::new(models(), first(json!([sub("l", 1, "l4"), sub("t", 2, "t4")]))), "r/l=p/c"),
        ("the second", Case::new(models(), first(json!([sub("l", 2, "l4"), sub("t", 2, "t4")]))), "r/t=p/a r/t=p/b"),
        (
            "a taken device",
            Case::new(models(), first(json!([sub("l", 1, "l4"), sub("t", 1, "t4")]))).taken(&["p/c"]),
            "r/t=p/a",
        ),
        ("none", Case::new(models(), first(json!([sub("l", 2, "l4"), sub("t", 3, "t4")]))), NONE),
        ("the only one", Case::new(models(), first(json!([sub("l", 1, "l4")]))), "r/l=p/c"),
        (
            "a later request needs the devices of the first",
            Case::new(
                models(),
                then(json!([sub("t", 1, "t4"), sub("l", 1, "l4")]), json!({"count": 2, "selectors": t4})),
            ),
            "r/l=p/c s=p/a s=p/b",
        ),
        (
            "too many devices for a claim",
            Case::new(models(), first(json!([sub("l", 33, "l4"), sub("t", 1, "t4")]))),
            "r/t=p/a",
        ),
        (
            "too many devices in every alternative",
            Case::new(models(), first(json!([sub("l", 33, "l4"), sub("t", 34, "t4")]))),
            "ResourceClaim c requests 33 devices, more than the 32 that a claim may have",
        ),
    ] {
        assert_eq!(case.outcome(), expected, "{name}");
    }
}

#[test]
fn constraints_hold_for_the_devices_of_their_requests() {
    let numa = |names: &[(&str, &str)]| {
        json!([slice("p", names.iter().map(|(name, node)| device(name, "numa", node)).collect())])
    };
    let two = |constraint: Value| {
        json!([claim_of(json!([request("r", json!({})), request("s", json!({}))]), json!([constraint]))])
    };
    let same = |requests: Value| json!({"matchAttribute": "gpu.example.com/numa", "requests": requests});
    let other = json!({"distinctAttribute": "gpu.example.com/numa"});
    let count = |count: i64, constraint: &Value| {
        json!([claim_of(json!([request("r", json!({"count": count}))]), json!([constraint]))])
    };
    let all = json!([claim_of(json!([request("r", json!({"allocationMode": "All"}))]), json!([same(json!([]))]))]);
    let ab = [("a", "0"), ("b", "1"), ("c", "1")];
    for (name, case, expected) in [
        ("the first pair", Case::new(numa(&ab), two(same(json!([])))), "r=p/b s=p/c"),
        ("one request", Case::new(numa(&ab), count(2, &same(json!([])))), "r=p/b r=p/c"),
        ("no pair", Case::new(numa(&ab[..2]), two(same(json!([])))), NONE_OF_S),
        ("other requests only", Case::new(numa(&ab), two(same(json!(["s"])))), "r=p/a s=p/b"),
        ("named requests", Case::new(numa(&ab), two(same(json!(["r", "s"])))), "r=p/b s=p/c"),
        ("a missing attribute", Case::new(json!([slice("p", devices(&["a", "b"]))]), two(same(json!([])))), NONE),
        (
            "an attribute of another domain",
            Case::new(
                json!([slice("p", json!([device("a", "k8s.io/numa", "0"), device("b", "k8s.io/numa", "0")]))]),
                two(json!({"matchAttribute": "k8s.io/numa"})),
            ),
            "r=p/a s=p/b",
        ),
        (
            "values of another type differ",
            Case::new(
                json!([slice(
                    "p",
                    json!([{"name": "a", "attributes": {"numa": {"int": 0}}}, device("b", "numa", "0")])
                )]),
                two(same(json!([]))),
            ),
            NONE_OF_S,
        ),
        ("distinct values", Case::new(numa(&[("a", "0"), ("b", "0"), ("c", "1")]), two(other.clone())), "r=p/a s=p/c"),
        (
            "distinct values of one request",
            Case::new(numa(&[("a", "0"), ("b", "0"), ("c", "1")]), count(2, &other)),
            "r=p/a r=p/c",
        ),
        ("too few distinct values", Case::new(numa(&[("a", "0"), ("b", "0"), ("c", "1")]), count(3, &other)), NONE),
        (
            "all devices, which differ",
            Case::new(numa(&ab), all),
            "ResourceClaim c, request r: a constraint of the claim excludes device gpu.example.com/p/b, and all devices are requested",
        ),
    ] {
        assert_eq!(case.outcome(), expected, "{name}");
    }
}

#[test]
fn constraints_name_alternatives() {
    let slices =
        || json!([slice("p", json!([device("a", "numa", "0"), device("b", "numa", "1"), device("c", "numa", "1")]))]);
    let claims = |requests: Value| {
        let mut option = with_class(json!({}));
        option["name"] = json!("x");
        let first = json!({"name": "r", "firstAvailable": [option]});
        let constraint = json!({"matchAttribute": "gpu.example.com/numa", "requests": requests});
        json!([claim_of(json!([first, request("s", json!({}))]), json!([constraint]))])
    };
    for (requests, expected) in [
        (json!(["r", "s"]), "r/x=p/b s=p/c"),
        (json!(["r/x", "s"]), "r/x=p/b s=p/c"),
        (json!(["r/y", "s"]), "r/x=p/a s=p/b"),
    ] {
        assert_eq!(Case::new(slices(), claims(requests.clone())).outcome(), expected, "{requests}");
    }
}

#[test]
fn taints_have_to_be_tolerated() {
    let slices = |effect: &str| {
        let taint = json!([{"key": "health", "value": "bad", "effect": effect}]);
        json!([slice("p", json!([{"name": "a", "taints": taint}]))])
    };
    let claims =
        |tolerations: Value| json!([claim_of(json!([request("r", json!({"tolerations": tolerations}))]), json!([]))]);
    for (effect, tolerations, fits) in [
        ("NoSchedule", json!([]), false),
        ("NoExecute", json!([]), false),
        ("None", json!([]), true),
        ("NoSchedule", json!([{"operator": "Exists"}]), true),
        ("NoSchedule", json!([{"key": "health", "operator": "Exists"}]), true),
        ("NoSchedule", json!([{"key": "other", "operator": "Exists"}]), false),
        ("NoSchedule", json!([{"key": "health", "value": "bad"}]), true),
        ("NoSchedule", json!([{"key": "health", "operator": "Equal", "value": "good"}]), false),
        ("NoSchedule", json!([{"key": "health", "operator": "Exists", "effect": "NoExecute"}]), false),
        ("NoExecute", json!([{"key": "health", "operator": "Exists", "effect": "NoExecute"}]), true),
        ("NoSchedule", json!([{"key": "health", "operator": "Unknown"}]), false),
    ] {
        let outcome = Case::new(slices(effect), claims(tolerations.clone())).outcome();
        assert_eq!(outcome, if fits { "r=p/a" } else { NONE }, "{effect} {tolerations}");
    }
}

#[test]
fn admin_access_shares_devices() {
    let slices = || json!([slice("p", devices(&["a", "b"]))]);
    let admin = |mode: &str| json!({"name": "m", "devices": {"requests": [request("r", json!({"adminAccess": true, "allocationMode": mode}))]}});
    let twice = json!({"name": "m", "devices": {"requests": [request("r", json!({"adminAccess": true})), request("s", json!({"adminAccess": true}))]}});
    for (name, case, expected) in [
        ("a taken device", Case::new(slices(), json!([admin("ExactCount")])).taken(&["p/a"]), "r=p/a"),
        ("all devices", Case::new(slices(), json!([admin("All")])).taken(&["p/a"]), "r=p/a r=p/b"),
        ("each device once in a claim", Case::new(slices(), json!([twice])), "r=p/a s=p/b"),
        (
            "beside another claim",
            Case::new(slices(), json!([claim(&[("r", 2)]), admin("All")])),
            "r=p/a r=p/b; r=p/a r=p/b",
        ),
    ] {
        assert_eq!(case.outcome(), expected, "{name}");
    }
}

#[test]
fn partitions_share_the_counters_of_their_pool() {
    let consumes = |name: &str, amount: &str| json!({"name": name, "consumesCounters": [{"counterSet": "gpu-0", "counters": {"memory": {"value": amount}}}]});
    let pool = |memory: &str, devices: Value| {
        let counters = json!({"nodeName": "node-1", "sharedCounters": [{"name": "gpu-0", "counters": {"memory": {"value": memory}}}]});
        json!([
            named("1", slice_of("p", 1, 2, counters)),
            named("2", slice_of("p", 1, 2, json!({"nodeName": "node-1", "devices": devices}))),
        ])
    };
    let partitions = || {
        json!([
            consumes("whole", "80Gi"),
            consumes("half-1", "40Gi"),
            consumes("half-2", "40Gi"),
            consumes("quarter", "20Gi")
        ])
    };
    let r = |count: i64| json!([claim(&[("r", count)])]);
    let all = json!([claim_of(json!([request("r", json!({"allocationMode": "All"}))]), json!([]))]);
    for (name, case, expected) in [
        ("the whole", Case::new(pool("80Gi", partitions()), r(1)), "r=p/whole"),
        ("two halves", Case::new(pool("80Gi", partitions()), r(2)), "r=p/half-1 r=p/half-2"),
        ("more than there is", Case::new(pool("80Gi", partitions()), r(3)), NONE),
        ("a half is taken", Case::new(pool("80Gi", partitions()), r(1)).taken(&["p/half-2"]), "r=p/half-1"),
        ("the whole is taken", Case::new(pool("80Gi", partitions()), r(1)).taken(&["p/whole"]), NONE),
        ("all devices need too much", Case::new(pool("80Gi", partitions()), all.clone()), NONE),
        ("all devices", Case::new(pool("180Gi", partitions()), all), "r=p/whole r=p/half-1 r=p/half-2 r=p/quarter"),
        ("nothing left", Case::new(pool("0", partitions()), r(1)), NONE),
        ("nothing needed", Case::new(pool("0", json!([consumes("a", "0")])), r(1)), "r=p/a"),
        (
            "other claims",
            Case::new(pool("80Gi", partitions()), json!([claim(&[("r", 1)]), claim(&[("r", 1)])])),
            "r=p/half-1; r=p/half-2",
        ),
    ] {
        assert_eq!(case.outcome(), expected, "{name}");
    }
}

#[test]
fn devices_elsewhere_take_of_the_counters() {
    let consumes = |name: &str| json!([{"name": name, "consumesCounters": [{"counterSet": "s", "counters": {"slots": {"value": "1"}}}]}]);
    let slices = json!([
        named(
            "1",
            slice_of(
                "p",
                1,
                3,
                json!({"allNodes": true, "sharedCounters": [{"name": "s", "counters": {"slots": {"value": "1"}}}]})
            )
        ),
        named("2", slice_of("p", 1, 3, json!({"nodeName": "node-1", "devices": consumes("here")}))),
        named("3", slice_of("p", 1, 3, json!({"nodeName": "node-2", "devices": consumes("there")}))),
    ]);
    let r = || json!([claim(&[("r", 1)])]);
    assert_eq!(Case::new(slices.clone(), r()).outcome(), "r=p/here");
    assert_eq!(Case::new(slices, r()).taken(&["p/there"]).outcome(), NONE);
}
