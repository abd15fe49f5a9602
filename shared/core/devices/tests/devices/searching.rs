//! The number of attempts of a search.

use crate::support::*;
use nodeless_devices::{
    Attempts, Fit, Inventory, Place, PodClaims, Refusal, ResourceClaim, Selectors, Site, Slice, Taken,
};
use proptest::prelude::*;
use serde_json::{Value, json};
use std::collections::BTreeMap;

const LIMIT: u64 = 1_000_000;

/// How many pods of each kind fit, and the attempts of each. Each kind has a claim and a number of pods.
fn fit(slices: Value, kinds: &[(Value, u32)], limit: u64) -> (Fit, Vec<u64>) {
    let slices: Vec<Slice> = serde_json::from_value(slices).unwrap();
    let claims: Vec<ResourceClaim> =
        kinds.iter().map(|(claim, _)| serde_json::from_value(claim.clone()).unwrap()).collect();
    let labels = BTreeMap::new();
    let place = Place { name: Some("node-1"), labels: &labels };
    let inventory = Inventory::new(&slices);
    let (pools, classes, selectors) = (inventory.pools(&place).unwrap(), classes(), Selectors::default());
    let mut pods: Vec<PodClaims<'_>> = claims
        .iter()
        .zip(kinds)
        .map(|(claim, (_, pods))| PodClaims::new([claim], &classes, &selectors, *pods, Attempts::at_most(limit)))
        .collect();
    let fit = Site { place: &place, pools: &pools, taken: &Taken::default() }.fit(&mut pods, None);
    (fit, pods.iter().map(|pod| pod.attempts.made()).collect())
}

/// The outcome for one pod with a claim, and the attempts.
fn search(slices: Value, claim: Value) -> (Result<u32, String>, u64) {
    let (fit, made) = fit(slices, &[(claim, 1)], LIMIT);
    (fit.times[0].clone().map_err(|refusal| refusal.to_string()), made[0])
}

/// A number of requests for a device each, with constraints.
fn requests(count: usize, constraints: Value) -> Value {
    let requests = (0..count).map(|index| request(&format!("r{index}"), json!({"count": 1})));
    claim_of(requests.collect(), constraints)
}

/// Pools for all nodes whose devices have the attribute `numa`, the same values in each pool.
fn pools(pools: usize, devices: usize) -> Value {
    let devices: Value =
        (0..devices).map(|at| json!({"name": format!("d{at}"), "attributes": {"numa": {"int": at}}})).collect();
    let pool = |at| slice_of(&format!("p{at}"), 1, 1, json!({"allNodes": true, "devices": devices}));
    (0..pools).map(pool).collect()
}

fn none(request: &str) -> Result<u32, String> {
    Err(format!(
        "ResourceClaim c, request {request}: no free device meets the request and the constraints of the claim"
    ))
}

/// Each request could have a device, but not all of them together, in whatever order they are tried.
#[test]
fn requests_that_are_alike_are_counted_before_they_are_tried() {
    let same = json!([{"matchAttribute": "gpu.example.com/numa"}]);
    let distinct = json!([{"distinctAttribute": "gpu.example.com/numa"}]);
    let apart = json!([{"matchAttribute": "gpu.example.com/numa", "requests": ["r0", "r1"]}]);
    for (name, slices, claim, expected) in [
        ("one more than there are", pools(1, 16), requests(17, json!([])), none("r16")),
        ("32 of 20 with the same value", pools(20, 128), requests(32, same.clone()), none("r20")),
        ("as many as there are with the same value", pools(20, 128), requests(20, same), Ok(1)),
        ("more than there are values", pools(20, 17), requests(18, distinct.clone()), none("r17")),
        ("as many as there are values", pools(20, 17), requests(17, distinct), Ok(1)),
        ("a constraint for some of them", pools(1, 16), requests(17, apart), none("r1")),
        ("all devices", pools(20, 128), requests(32, json!([])), Ok(1)),
    ] {
        let devices = slices.as_array().unwrap().len() * 128;
        let (outcome, made) = search(slices, claim);
        assert_eq!(outcome, expected, "{name}");
        // Each of the requests may look at each device, and not at each combination of them.
        assert!(made <= 32 * u64::try_from(devices).unwrap(), "{name}: {made} attempts for {devices} devices");
    }
}

/// What later requests need is not known to the first one.
#[test]
fn a_search_that_takes_too_many_attempts_ends() {
    let model =
        |model: &str| json!([{"cel": {"expression": format!("device.attributes['{DRIVER}'].model == '{model}'")}}]);
    let devices = (0..40).map(|at| device(&format!("d{at:02}"), "model", if at < 20 { "a" } else { "b" })).collect();
    let first = (0..12).map(|at| request(&format!("any{at}"), json!({"count": 1})));
    let later = (0..20).map(|at| request(&format!("a{at}"), json!({"count": 1, "selectors": model("a")})));
    let claim = claim_of(first.chain(later).collect(), json!([]));
    let (outcome, made) = search(json!([slice("p", devices)]), claim);
    assert_eq!(
        outcome,
        Err("no devices were found within 100000 attempts; use fewer requests, or requests that select fewer devices"
            .into())
    );
    assert!(made <= 100_100, "{made}");
}

#[test]
fn ordinary_claims_take_a_few_attempts_for_each_device() {
    let gpus: Vec<String> = (0..8).map(|at| format!("gpu-{at}")).collect();
    let gpus: Vec<&str> = gpus.iter().map(String::as_str).collect();
    let node = || json!([slice("node-1", devices(&gpus))]);
    let (all, made) = fit(node(), &[(claim(&[("r", 1)]), 100)], LIMIT);
    assert_eq!(all.times, [Ok(8)]);
    assert!(made[0] < 8 * 20, "{made:?}");
    // No more are counted than there are pods.
    let (two, fewer) = fit(node(), &[(claim(&[("r", 1)]), 2)], LIMIT);
    assert_eq!(two.times, [Ok(2)]);
    assert!(fewer < made);
}

/// Everybody who may create a ResourceClaim can write a selector that takes long.
#[test]
fn claims_that_take_too_many_attempts_do_not_hold_up_others() {
    let costly = format!("[{}].all(x, [{}].all(y, x > y))", vec!["2"; 60].join(","), vec!["1"; 60].join(","));
    let selected = |expression: &str| {
        claim_of(json!([request("r", json!({"selectors": [{"cel": {"expression": expression}}]}))]), json!([]))
    };
    let gpus: Vec<String> = (0..32).map(|at| format!("gpu-{at}")).collect();
    let gpus: Vec<&str> = gpus.iter().map(String::as_str).collect();
    let kinds = [(claim(&[("r", 1)]), 8), (selected(&costly), 8)];
    let (fit, made) = fit(json!([slice("node-1", devices(&gpus))]), &kinds, 10_000);
    assert_eq!(fit.times[0], Ok(8));
    assert_eq!(fit.times[1], Err(Refusal::TooManyAttempts { limit: 10_000 }));
    assert!(made[0] < 1_000 && made[1] == 10_000, "{made:?}");
}

/// A device: its model and its NUMA node.
type Gpu = (u8, u8);

/// A request: the model that it is for, or any, and its number of devices.
type Asked = (Option<u8>, usize);

/// A constraint: whether values are to differ, and which requests it is for; all of them if there are none.
type Constraint = (bool, Vec<bool>);

/// The first allocation that meets everything, found by trying all in order.
fn first(gpus: &[Gpu], asked: &[Asked], constraints: &[Constraint], given: &mut Vec<Vec<usize>>) -> bool {
    let Some((model, count)) = asked.get(given.len().saturating_sub(1)) else { return false };
    let request = given.len() - 1;
    if given[request].len() == *count {
        if given.len() == asked.len() {
            return true;
        }
        given.push(Vec::new());
        let found = first(gpus, asked, constraints, given);
        if !found {
            given.pop();
        }
        return found;
    }
    let from = given[request].last().map_or(0, |last| last + 1);
    for device in from..gpus.len() {
        if model.is_some_and(|model| model != gpus[device].0) || given.iter().flatten().any(|taken| *taken == device) {
            continue;
        }
        given[request].push(device);
        if constraints.iter().all(|constraint| holds(gpus, constraint, given)) && first(gpus, asked, constraints, given)
        {
            return true;
        }
        given[request].pop();
    }
    false
}

fn holds(gpus: &[Gpu], constraint: &Constraint, given: &[Vec<usize>]) -> bool {
    let (distinct, of) = constraint;
    let is_for = |request: &usize| !of.contains(&true) || of.get(*request) == Some(&true);
    let of_all = (0..given.len()).filter(is_for).flat_map(|request| &given[request]);
    let values: Vec<u8> = of_all.map(|device| gpus[*device].1).collect();
    (1..values.len()).all(|at| values[..at].contains(&values[at]) != *distinct)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    /// Counting devices, and leaving out orders that are no better, changes no allocation.
    #[test]
    fn the_first_allocation_is_found(
        gpus in prop::collection::vec((0..2_u8, 0..3_u8), 0..7),
        asked in prop::collection::vec((prop::option::of(0..2_u8), 1..3_usize), 1..5),
        constraints in prop::collection::vec((any::<bool>(), prop::collection::vec(any::<bool>(), 0..4)), 0..3),
    ) {
        let attributes = |(model, numa): &Gpu| json!({"model": {"int": model}, "numa": {"int": numa}});
        let devices = gpus.iter().enumerate().map(|(at, gpu)| json!({"name": format!("d{at}"), "attributes": attributes(gpu)}));
        let requests = asked.iter().enumerate().map(|(at, (model, count))| {
            let selectors: Vec<Value> = model.iter().map(|model| json!({"cel": {"expression": format!("device.attributes['{DRIVER}'].model == {model}")}})).collect();
            request(&format!("r{at}"), json!({"count": count, "selectors": selectors}))
        });
        let of = constraints.iter().map(|(distinct, of)| {
            let kind = if *distinct { "distinctAttribute" } else { "matchAttribute" };
            let named: Vec<String> = (0..of.len()).filter(|at| of[*at]).map(|at| format!("r{at}")).collect();
            json!({kind: format!("{DRIVER}/numa"), "requests": named})
        });
        let case = Case::new(json!([slice("p", devices.collect())]), json!([claim_of(requests.collect(), of.collect())]));
        let mut given = vec![Vec::new()];
        let expected = first(&gpus, &asked, &constraints, &mut given).then(|| {
            let names = |(request, of): (usize, &Vec<usize>)| of.iter().map(move |device| format!("r{request}=p/d{device}")).collect::<Vec<_>>();
            given.iter().enumerate().flat_map(names).collect::<Vec<_>>()
        });
        prop_assert_eq!(case.allocated().ok().map(|claims| claims.concat()), expected);
    }
}
