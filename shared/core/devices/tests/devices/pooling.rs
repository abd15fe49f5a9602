//! Which pools a node has.

use crate::support::*;
use serde_json::{Value, json};

const NONE: &str = "ResourceClaim c, request r: no free device meets the request and the constraints of the claim";
const UPDATED: &str =
    "ResourceClaim c, request r: all devices are requested, and pool gpu.example.com/p is being updated";

fn one() -> Value {
    json!([claim(&[("r", 1)])])
}

fn all() -> Value {
    json!([claim_of(json!([request("r", json!({"allocationMode": "All"}))]), json!([]))])
}

fn slice_with(fields: Value) -> Value {
    json!([slice_of("p", 1, 1, fields)])
}

fn zone(operator: &str, values: &[&str]) -> Value {
    json!({"nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": operator, "values": values}]}]})
}

#[test]
fn slices_are_for_the_nodes_that_they_select() {
    let a = || devices(&["a"]);
    let name = json!({"nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["node-1"]}]}]});
    for (case, fields, fits) in [
        ("nodeName", json!({"nodeName": "node-1", "devices": a()}), true),
        ("nodeName of another", json!({"nodeName": "node-2", "devices": a()}), false),
        ("allNodes", json!({"allNodes": true, "devices": a()}), true),
        ("allNodes is false", json!({"allNodes": false, "devices": a()}), false),
        ("nothing", json!({"devices": a()}), false),
        ("the zone", json!({"nodeSelector": zone("In", &["a", "b"]), "devices": a()}), true),
        ("another zone", json!({"nodeSelector": zone("In", &["b"]), "devices": a()}), false),
        ("not the zone", json!({"nodeSelector": zone("NotIn", &["a"]), "devices": a()}), false),
        ("a label", json!({"nodeSelector": zone("Exists", &[]), "devices": a()}), true),
        ("no label", json!({"nodeSelector": zone("DoesNotExist", &[]), "devices": a()}), false),
        ("the name", json!({"nodeSelector": name, "devices": a()}), true),
        ("an empty term", json!({"nodeSelector": {"nodeSelectorTerms": [{}]}, "devices": a()}), false),
        ("no term", json!({"nodeSelector": {"nodeSelectorTerms": []}, "devices": a()}), false),
    ] {
        let outcome = Case::new(slice_with(fields), one()).outcome();
        assert_eq!(outcome, if fits { "r=p/a" } else { NONE }, "{case}");
    }
}

#[test]
fn devices_have_their_own_selection() {
    let slices = || {
        slice_with(json!({"perDeviceNodeSelection": true, "devices": [
            {"name": "there", "nodeName": "node-2"},
            {"name": "here", "nodeName": "node-1"},
            {"name": "zonal", "nodeSelector": zone("In", &["a"])},
            {"name": "elsewhere", "nodeSelector": zone("In", &["b"])},
            {"name": "everywhere", "allNodes": true},
            {"name": "nowhere"},
        ]}))
    };
    assert_eq!(Case::new(slices(), json!([claim(&[("r", 3)])])).outcome(), "r=p/here r=p/zonal r=p/everywhere");
    assert_eq!(Case::new(slices(), json!([claim(&[("r", 4)])])).outcome(), NONE);
    assert_eq!(Case::new(slices(), all()).outcome(), "r=p/here r=p/zonal r=p/everywhere");
}

#[test]
fn the_newest_complete_generation_counts() {
    let here = |generation, count, device: &str| {
        slice_of("p", generation, count, json!({"nodeName": "node-1", "devices": devices(&[device])}))
    };
    let there = |generation, count, device: &str| {
        named("there", slice_of("p", generation, count, json!({"nodeName": "node-2", "devices": devices(&[device])})))
    };
    for (name, slices, one_device, all_devices) in [
        ("older slices", json!([here(1, 1, "old"), here(2, 1, "new")]), "r=p/new", "r=p/new"),
        ("in any order", json!([here(2, 1, "new"), here(1, 1, "old")]), "r=p/new", "r=p/new"),
        ("a newer slice, not yet complete", json!([here(1, 1, "old"), here(2, 2, "new")]), NONE, UPDATED),
        ("fewer slices", json!([here(1, 2, "a")]), NONE, UPDATED),
        ("more slices", json!([here(1, 1, "a"), named("more", here(1, 1, "b"))]), NONE, UPDATED),
        ("no number of slices", json!([here(1, 0, "a")]), NONE, UPDATED),
        ("slices for other nodes complete it", json!([here(1, 2, "a"), there(1, 2, "b")]), "r=p/a", "r=p/a"),
        ("a newer slice for another node", json!([here(1, 2, "a"), there(2, 2, "b")]), NONE, NONE),
        ("only slices for other nodes", json!([there(1, 2, "b")]), NONE, NONE),
    ] {
        assert_eq!(Case::new(slices.clone(), one()).outcome(), one_device, "{name}");
        assert_eq!(Case::new(slices, all()).outcome(), all_devices, "{name}, all");
    }
}

#[test]
fn another_pool_serves_while_one_is_updated() {
    let slices = json!([
        slice_of("p", 1, 2, json!({"nodeName": "node-1", "devices": devices(&["a"])})),
        slice("q", devices(&["b"]))
    ]);
    assert_eq!(Case::new(slices, one()).outcome(), "r=q/b");
}

#[test]
fn invalid_pools_have_no_devices() {
    let counters = |names: &[&str]| -> Value {
        names.iter().map(|name| json!({"name": name, "counters": {"m": {"value": "1"}}})).collect()
    };
    let consumes = |set: &str, counter: &str| json!([{"name": "a", "consumesCounters": [{"counterSet": set, "counters": {counter: {"value": "1"}}}]}]);
    let with = |names: &[&str], node: &str, devices: Value| {
        json!([
            named("1", slice_of("p", 1, 2, json!({"nodeName": "node-1", "sharedCounters": counters(names)}))),
            named("2", slice_of("p", 1, 2, json!({"nodeName": node, "devices": devices}))),
        ])
    };
    let valid = || slice("q", devices(&["z"]));
    for (name, slices, why) in [
        ("a name twice", json!([slice("p", devices(&["a", "a"]))]), Some("two devices have the name a")),
        ("a set twice", with(&["s", "s"], "node-1", devices(&["a"])), Some("two counter sets have the name s")),
        ("no set", with(&["s"], "node-1", consumes("t", "m")), Some("there is no counter set t")),
        ("no counter", with(&["s"], "node-1", consumes("s", "n")), Some("counter set s has no counter n")),
        ("no set, elsewhere", with(&["s"], "node-2", consumes("t", "m")), Some("there is no counter set t")),
        ("no sets", json!([slice("p", consumes("s", "m"))]), Some("there is no counter set s")),
        ("a set that is there", with(&["s"], "node-1", consumes("s", "m")), None),
    ] {
        let expected = why.map(|why| format!("ResourceClaim c: pool gpu.example.com/p is invalid: {why}"));
        let outcome = Case::new(slices.clone(), one()).outcome();
        assert_eq!(outcome, expected.clone().unwrap_or_else(|| "r=p/a".to_owned()), "{name}");
        let mut beside = slices;
        beside.as_array_mut().unwrap().push(valid());
        let one_device = if why.is_some() { "r=q/z" } else { "r=p/a" };
        assert_eq!(Case::new(beside.clone(), one()).outcome(), one_device, "{name}, beside a valid pool");
        let all_devices = expected.unwrap_or_else(|| "r=p/a r=q/z".to_owned());
        assert_eq!(Case::new(beside, all()).outcome(), all_devices, "{name}, all devices");
    }
}

#[test]
fn slices_with_counters_have_no_devices() {
    let both =
        json!({"nodeName": "node-1", "sharedCounters": [{"name": "s", "counters": {}}], "devices": devices(&["a"])});
    assert_eq!(Case::new(slice_with(both), one()).outcome(), NONE);
}

#[test]
fn an_allocation_is_for_the_nodes_that_have_its_devices() {
    use nodeless_devices::{Inventory, Place, ResourceClaim, Selectors, Slice, Taken, allocate};
    let zonal = slice_with(json!({"nodeSelector": zone("In", &["a"]), "devices": devices(&["a"])}));
    let per_device = slice_with(
        json!({"perDeviceNodeSelection": true, "devices": [{"name": "a", "nodeSelector": zone("In", &["a"])}]}),
    );
    let local = json!({"nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["node-1"]}]}]});
    for (slices, expected) in [
        (json!([slice("p", devices(&["a"]))]), local),
        (zonal, zone("In", &["a"])),
        (per_device, zone("In", &["a"])),
        (slice_with(json!({"allNodes": true, "devices": devices(&["a"])})), Value::Null),
    ] {
        let slices: Vec<Slice> = serde_json::from_value(slices).unwrap();
        let claim: ResourceClaim = serde_json::from_value(claim(&[("r", 1)])).unwrap();
        let labels = [("zone".to_owned(), "a".to_owned())].into();
        let place = Place { name: Some("node-1"), labels: &labels };
        let inventory = Inventory::new(&slices);
        let pools = inventory.pools(&place).unwrap();
        let given = allocate(&[&claim], &place, &pools, &classes(), &Taken::default(), &Selectors::default()).unwrap();
        assert_eq!(serde_json::to_value(&given[0].node_selector).unwrap(), expected);
    }
}
