//! Properties of allocations of generated claims.

use crate::support::*;
use proptest::prelude::*;
use serde_json::{Value, json};
use std::collections::BTreeSet;

fn pools(models: &[Vec<u8>]) -> Value {
    let pool = |(index, models): (usize, &Vec<u8>)| {
        let devices = models.iter().enumerate();
        let devices = devices.map(|(at, model)| device(&format!("d{at}"), "model", &format!("m{model}")));
        slice(&format!("p{index}"), devices.collect())
    };
    models.iter().enumerate().map(pool).collect()
}

fn claims(requested: &[Vec<(u8, i64)>]) -> Value {
    let claim = |requests: &Vec<(u8, i64)>| {
        let requests = requests.iter().enumerate().map(|(at, (model, count))| {
            let expression = format!("device.attributes['{DRIVER}'].model == 'm{model}'");
            request(&format!("r{at}"), json!({"count": count, "selectors": [{"cel": {"expression": expression}}]}))
        });
        claim_of(requests.collect(), json!([]))
    };
    requested.iter().map(claim).collect()
}

proptest! {
    /// Each device is given once, each request gets what it selects, and whether there is an allocation depends on numbers only.
    #[test]
    fn an_allocation_exists_exactly_if_there_are_enough_devices(
        models in prop::collection::vec(prop::collection::vec(0..3_u8, 0..5), 0..4),
        requested in prop::collection::vec(prop::collection::vec((0..3_u8, 1..3_i64), 1..3), 1..3),
    ) {
        let outcome = Case::new(pools(&models), claims(&requested)).allocated();
        let enough = (0..3).all(|model| {
            let present = models.iter().flatten().filter(|it| **it == model).count();
            let needed: i64 = requested.iter().flatten().filter(|(it, _)| *it == model).map(|(_, count)| count).sum();
            i64::try_from(present).unwrap() >= needed
        });
        prop_assert_eq!(outcome.is_ok(), enough, "{:?}", outcome);
        let Ok(given) = outcome else { return Ok(()) };
        let mut seen = BTreeSet::new();
        for (claim, devices) in requested.iter().zip(&given) {
            let expected: i64 = claim.iter().map(|(_, count)| count).sum();
            prop_assert_eq!(devices.len(), usize::try_from(expected).unwrap());
            for device in devices {
                let (request, id) = device.split_once("=p").unwrap();
                let (pool, at) = id.split_once("/d").unwrap();
                let model = models[pool.parse::<usize>().unwrap()][at.parse::<usize>().unwrap()];
                prop_assert_eq!(model, claim[request[1..].parse::<usize>().unwrap()].0);
                prop_assert!(seen.insert(id.to_owned()), "{} twice", id);
            }
        }
    }

    /// The order in which slices are listed decides nothing.
    #[test]
    fn the_order_of_slices_does_not_matter(
        models in prop::collection::vec(prop::collection::vec(0..2_u8, 0..4), 0..4),
        requested in prop::collection::vec(prop::collection::vec((0..2_u8, 1..3_i64), 1..3), 1..3),
    ) {
        let case = Case::new(pools(&models), claims(&requested));
        let mut reversed = Case::new(pools(&models), claims(&requested));
        reversed.slices.reverse();
        prop_assert_eq!(case.outcome(), reversed.outcome());
    }

    /// Any text is compiled or refused, and any device selected or not, without a panic.
    #[test]
    fn no_expression_panics(
        parts in prop::collection::vec(prop::sample::select(vec![
            "device", ".attributes", ".capacity", "['gpu.example.com']", ".model", ".memory", " == ", " && ", " || ", "!", "-", "(", ")",
            "[", "]", "1", "0", "'x'", "quantity('1')", "semver('1.0.0')", ".compareTo(", ".exists(x, ", "x", ",", "{", "}", " in ", " ? ",
            " : ", " / ", " % ", "has(", "cel.bind(x, ", "size(", "1u", "1.5", "null", "b'x'", "\"", "\\",
        ]), 0..14)
    ) {
        let device = serde_json::from_value(json!({"name": "a", "attributes": {"model": {"string": "t4"}}})).unwrap();
        if let Ok(selector) = nodeless_devices::selector::Selector::compile(&parts.concat()) {
            let _ = selector.matches(DRIVER, &device);
        }
    }
}
