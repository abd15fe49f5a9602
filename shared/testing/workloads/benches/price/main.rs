//! The prices of plans, compared with a lower bound and with first-fit-decreasing as in Karpenter.
//!
//! The plans are those of users: [`nodeless_placement::plan`] with refinement and the default options. The bound and the
//! baseline satisfy the same preferences as the plans: all of them.
//!
//! `cargo bench -p nodeless-workloads --bench price` prints a table, over the embedded catalog of us-east-1. Spot prices
//! there are synthetic. With arguments, only the lines are printed whose names contain all of them.
#![allow(missing_docs, unreachable_pub, clippy::unwrap_used)]

mod baseline;
mod bound;
#[path = "../clock.rs"]
mod clock;
mod mixes;
mod strict;
mod usable;
mod world;

use clock::Clock;
use mixes::Priced;
use nodeless_model::CapacityType;
use nodeless_placement::{Policy, plan};
use nodeless_scheduling::Options;

/// Plans for at most this number of pods are also validated by the independent checker, except those with spread constraints, for
/// which it takes too long to find an order of the pods. Tests validate small plans of all mixes.
const CHECKED: usize = 1000;

/// Up to this ratio to the plain bound, the better one is not computed.
const EXPLAINED: f64 = 1.05;

fn main() {
    let filters: Vec<String> = std::env::args().skip(1).filter(|argument| !argument.starts_with('-')).collect();
    println!(
        "| mix | pods | bought | plain bound $/h | better bound $/h | ours ÷ plain | ours ÷ better | baseline ÷ plain | our nodes | baseline's nodes | seconds |"
    );
    println!("|---|---:|---|---:|---:|---:|---:|---:|---:|---:|---:|");
    for count in [1000, 5000, 10_000] {
        for mix in mixes::all(count) {
            for (bought, ways) in [
                ("on-demand", &[CapacityType::OnDemand][..]),
                ("with spot", &[CapacityType::OnDemand, CapacityType::Spot]),
            ] {
                let name = format!("{} {count} {bought}", mix.name);
                if filters.iter().all(|part| name.contains(part.as_str())) {
                    line(&mix, count, bought, ways);
                }
            }
        }
    }
}

fn line(mix: &Priced, count: usize, bought: &str, ways: &[CapacityType]) {
    let workload = mix.workload(ways);
    let problem = workload.problem();
    let clock = Clock::start();
    let solution = plan(&problem, &Policy::new(&Options::default(), true));
    let seconds = clock.elapsed().as_secs_f64();
    assert!(solution.unschedulable.is_empty(), "{}: {} left", mix.name, solution.unschedulable.len());
    let strict = strict::strict(&workload);
    if count <= CHECKED && mix.pods.iter().all(|pod| pod.template.topology_spread.is_empty()) {
        let wrong = nodeless_checker::violations(&problem, &solution, &Options::default());
        assert!(wrong.is_empty(), "{} {bought}: {wrong:#?}", mix.name);
    }
    let ours = solution.price_per_hour();
    let world = world::world(&strict);
    let (theirs, nodes) = baseline::plan(&world);
    let plain = bound::plain(&world);
    // The better bound takes long, and is computed only if the plain one is far from the price.
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
