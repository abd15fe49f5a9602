//! What plans cost, beside what they cannot cost less than and what first-fit-decreasing in Karpenter's manner pays.
//!
//! `cargo bench -p nodeless-scheduling --bench price` prints a table, over the embedded catalog of us-east-1. Spot prices
//! there are synthetic. With arguments, only the lines are made whose name has one of them in it.
#![allow(missing_docs, unreachable_pub, clippy::unwrap_used)]

mod baseline;
mod bound;
#[path = "../clock.rs"]
mod clock;
mod mixes;
mod world;

use clock::Clock;
use nodeless_model::node_pool::PoolUsage;
use nodeless_scheduling::{Options, PoolOffer, Problem, solve};
use std::time::Instant;

fn main() {
    let wanted: Vec<String> = std::env::args().skip(1).filter(|argument| !argument.starts_with('-')).collect();
    let types = world::catalog();
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
    let ours = solution.price_per_hour();
    if std::env::var_os("NODES").is_some() {
        for launch in &solution.launches {
            let kind = types.iter().find(|kind| kind.name == launch.offering.instance_type).unwrap();
            let room = kind.allocatable();
            let share = |name: &str| launch.requests.get(name).milli() as f64 / room.get(name).milli().max(1) as f64;
            eprintln!(
                "{:<16} {:>8.4} {:>4} pods cpu {:.3} memory {:.3} pods {:.3} types {}",
                kind.name,
                launch.offering.price,
                launch.pods.len(),
                share("cpu"),
                share("memory"),
                share("pods"),
                launch.instance_types.len()
            );
        }
    }
    let world = world::world(mix, &pool, types);
    let (theirs, nodes) = baseline::plan(&world);
    let start = Instant::now();
    let (plain, better) = bound::bounds(&world);
    if std::env::var_os("TIMES").is_some() {
        eprintln!("bound took {:.1} s", start.elapsed().as_secs_f64());
    }
    println!(
        "| {} | {count} | {bought} | {plain:.2} | {better:.2} | {:.3} | {:.3} | {:.3} | {} | {nodes} | {seconds:.3} |",
        mix.name,
        ours / plain,
        ours / better,
        theirs / plain,
        solution.launches.len(),
    );
}
