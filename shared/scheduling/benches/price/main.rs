//! What plans cost, beside what they cannot cost less than and what first-fit-decreasing in Karpenter's manner pays.
//!
//! `cargo bench -p nodeless-scheduling --bench price` prints a table, over the embedded catalog of us-east-1. Spot prices
//! there are synthetic. With arguments, only the lines are made whose name has one of them in it.
#![allow(missing_docs, unreachable_pub, clippy::unwrap_used)]

mod baseline;
mod bound;
#[path = "../clock.rs"]
mod clock;
#[path = "../embedded.rs"]
mod embedded;
mod mixes;
mod world;

use clock::Clock;
use nodeless_model::node_pool::PoolUsage;
use nodeless_scheduling::{Options, PoolOffer, Problem, solve};

/// Plans for so many pods are given to the independent checker too, but for those that spread: to find an order in which
/// they could be placed takes it minutes.
const CHECKED: usize = 1000;

/// Up to this ratio to the plain bound, no better one is looked for.
const EXPLAINED: f64 = 1.05;

fn main() {
    let wanted: Vec<String> = std::env::args().skip(1).filter(|argument| !argument.starts_with('-')).collect();
    let types = embedded::catalog();
    println!(
        "| mix | pods | bought | plain bound $/h | better bound $/h | ours ÷ plain | ours ÷ better | baseline ÷ plain | our nodes | baseline's nodes | seconds |"
    );
    println!("|---|---:|---|---:|---:|---:|---:|---:|---:|---:|---:|");
    for count in [1000, 5000, 10_000] {
        for mix in mixes::all(count) {
            for spot in [false, true] {
                let bought = if spot { "with spot" } else { "on-demand" };
                let name = format!("{} {count} {bought}", mix.name);
                if wanted.is_empty() || wanted.iter().all(|part| name.contains(part.as_str())) {
                    line(&mix, count, spot, bought, &types);
                }
            }
        }
    }
}

fn line(mix: &mixes::Mix, count: usize, spot: bool, bought: &str, types: &nodeless_model::InstanceTypes) {
    let pool = world::node_pool(mix, spot);
    let problem = Problem {
        pods: mix.pods.iter().collect(),
        node_pools: vec![PoolOffer { pool: &pool, instance_types: types.clone(), usage: PoolUsage::default() }],
        daemon_sets: &mix.daemon_sets,
        volumes: mix.volumes.clone(),
        ..Problem::default()
    };
    let clock = Clock::start();
    let solution = solve(&problem, &Options::default());
    let seconds = clock.elapsed().as_secs_f64();
    assert!(solution.unschedulable.is_empty(), "{}: {} left", mix.name, solution.unschedulable.len());
    if count <= CHECKED && mix.pods.iter().all(|pod| pod.topology_spread.is_empty()) {
        let wrong = nodeless_checker::violations(&problem, &solution, &Options::default());
        assert!(wrong.is_empty(), "{} {bought}: {wrong:#?}", mix.name);
    }
    let ours = solution.price_per_hour();
    let world = world::world(mix, &pool, types);
    let (theirs, nodes) = baseline::plan(&world);
    let plain = bound::plain(&world);
    // The better bound takes long, and is for what the plain one does not explain.
    let better = if ours > plain * EXPLAINED { bound::better(&world).max(plain) } else { plain };
    println!(
        "| {} | {count} | {bought} | {plain:.2} | {better:.2} | {:.3} | {:.3} | {:.3} | {} | {nodes} | {seconds:.3} |",
        mix.name,
        ours / plain,
        ours / better,
        theirs / plain,
        solution.launches.len(),
    );
}
