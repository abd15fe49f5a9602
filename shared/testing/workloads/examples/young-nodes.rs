//! The cost of leaving young nodes alone: the savings of a decision without that rule right after a plan was launched.
//!
//!     cargo run --release -p nodeless-workloads --example young-nodes
//!
//! The nodes of each plan count as two days old, so that the rule of `just_launched.rs` does not apply to them. Savings of a tenth and
//! more would be taken with the rule too.
#![allow(missing_docs, unreachable_pub)]

use nodeless_disruption::{Options, decide};
use nodeless_model::CapacityType;
use nodeless_model::node_pool::{Budget, BudgetNodes};
use nodeless_placement::{Policy, plan};
use nodeless_workloads::{Mix, NOW, Workload, catalog, node_pool};

const MIXES: [&str; 6] = ["plain", "gpu_and_web", "stateful", "soft", "enterprise", "diverse"];

fn main() {
    println!("| mix | pods | capacity | nodes | $/h | saved by the next decision | removed nodes | evictions |");
    println!("|---|---:|---|---:|---:|---:|---:|---:|");
    for count in [100, 1000, 5000] {
        for name in MIXES {
            for (capacity, types) in [
                ("on-demand", &[CapacityType::OnDemand][..]),
                ("with spot", &[CapacityType::OnDemand, CapacityType::Spot]),
            ] {
                line(Mix::named(name).expect("a mix of this name"), count, capacity, types);
            }
        }
    }
}

fn line(mix: Mix, count: usize, capacity: &str, types: &[CapacityType]) {
    let mut pool = node_pool("default", mix.categories(), types);
    pool.disruption.budgets = vec![Budget { nodes: BudgetNodes::Percent(100), reasons: Vec::new(), window: None }];
    let workload = Workload { node_pools: vec![pool], instance_types: catalog::embedded(), ..mix.pending(count, 1) };
    let options = Options::default();
    let solution = plan(&workload.problem(), &Policy::new(&options.scheduling, true));
    let launched = workload.launched(&solution);
    let decision = decide(&launched.cluster(), NOW, &options);
    let price = solution.price_per_hour();
    assert!(decision.commands.iter().all(|command| command.savings_per_hour > 0.0), "{:#?}", decision.commands);
    let saved: f64 = decision.commands.iter().fold(0.0, |sum, command| sum + command.savings_per_hour);
    let removed: usize = decision.commands.iter().map(|command| command.candidates.len()).sum();
    let evictions: usize = decision.commands.iter().map(|command| command.evictions.len()).sum();
    println!(
        "| {} | {count} | {capacity} | {} | {price:.2} | {:.1}% | {removed} | {evictions} |",
        mix.name(),
        solution.launches.len(),
        saved / price * 100.0,
    );
}
