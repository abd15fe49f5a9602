//! The price and the nodes once no pod is pending.

use crate::Arm;
use crate::cluster::{Owner, claims, note_first_plan, pods, price, start};
use jiff::SignedDuration;
use nodeless_model::NodeClaim;
use nodeless_workloads::Mix;
use std::collections::BTreeMap;

/// The maximum time until no pod is pending, in seconds.
const MAX_SECONDS: i64 = 3_600;

/// Prints one line.
pub(crate) fn run(mix: Mix, count: usize, seed: u64, arm: Arm) {
    let mut driver = start(mix, count, seed, arm, Owner::Nothing);
    let began = driver.world().now();
    let mut planned: BTreeMap<String, NodeClaim> = BTreeMap::new();
    let mut last = None;
    let limit = began.saturating_add(SignedDuration::from_secs(MAX_SECONDS)).unwrap();
    let bound = driver
        .advance_until(limit, |driver| {
            let present = claims(driver);
            note_first_plan(&mut planned, &present);
            let pending = pods(driver).iter().filter(|pod| pod["spec"]["nodeName"].is_null()).count();
            if pending == 0 {
                last = Some(driver.world().now());
            }
            pending == 0
        })
        .unwrap();
    let all = claims(&driver);
    let by_node: BTreeMap<&str, &NodeClaim> =
        all.iter().filter_map(|claim| Some((claim.status.node_name.as_deref()?, claim))).collect();
    let right = pods(&driver)
        .iter()
        .filter(|pod| {
            let key = format!(
                "{}/{}",
                pod["metadata"]["namespace"].as_str().unwrap(),
                pod["metadata"]["name"].as_str().unwrap()
            );
            let claim = pod["spec"]["nodeName"].as_str().and_then(|node| by_node.get(node));
            claim.is_some_and(|claim| planned.contains_key(&claim.name) && claim.spec.nominated_pods.contains(&key))
        })
        .count();
    let (before, after) = (price(planned.values()), price(all.iter()));
    let seconds = last.map_or(MAX_SECONDS, |at| at.duration_since(began).as_secs());
    println!(
        "{:11} {} without {:18} planned ${before:7.2} {:3} nodes, became ${after:7.2} {:3} nodes, ratio {:.3}, where planned {:.2}, {seconds} s{}",
        mix.name(),
        seed,
        arm.name,
        planned.len(),
        all.len(),
        after / before,
        right as f64 / count as f64,
        if bound { "" } else { ", pods are still pending" },
    );
}
