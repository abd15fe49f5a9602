//! Compares plans with the actual nodes in the simulated cluster, for the pods of each mix, with all mechanisms of plans and without one at a
//! time.
//!
//! - `provisioning`: the planned price and nodes, and the actual ones once no pod is pending; nothing is consolidated.
//! - `rest`: the launches and evictions until a cluster with consolidation is quiescent, and its price then.
//! - `scaled-down`: the same once a third of the Deployments have lost half of their pods, from the nodes of the first plans.
//!
//! `cargo run --release -p nodeless-driver --example realized -- provisioning|rest|scaled-down PODS SEED [MIX [WITHOUT...]]`
#![allow(clippy::unwrap_used, missing_docs)]

mod cluster;
mod provisioning;
mod rest;

use nodeless_planner::Mechanism;
use nodeless_workloads::Mix;

/// What plans are made without.
#[derive(Clone, Copy)]
pub(crate) struct Arm {
    pub(crate) name: &'static str,
    pub(crate) without: Option<Mechanism>,
}

const ARMS: [(&str, Option<Mechanism>); 7] = [
    ("nothing", None),
    ("prediction", Some(Mechanism::Prediction)),
    ("exchange", Some(Mechanism::Exchange)),
    ("nominations", Some(Mechanism::Nominations)),
    ("churn-breaker", Some(Mechanism::ChurnBreaker)),
    ("waiting-pods", Some(Mechanism::WaitingPods)),
    ("repeated-plans", Some(Mechanism::RepeatedPlans)),
];

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [what, count, seed, ..] = arguments.as_slice() else {
        panic!("provisioning|rest|scaled-down PODS SEED [MIX [WITHOUT...]]")
    };
    let run = match what.as_str() {
        "provisioning" => provisioning::run,
        "rest" => rest::run,
        "scaled-down" => rest::scaled_down,
        other => panic!("{other} is none of provisioning, rest and scaled-down"),
    };
    let (count, seed) = (count.parse().unwrap(), seed.parse().unwrap());
    for mix in Mix::ALL.into_iter().filter(|mix| arguments.get(3).is_none_or(|name| mix.name() == name)) {
        for (name, without) in
            ARMS.into_iter().filter(|(name, _)| arguments.len() < 5 || arguments[4..].iter().any(|arm| arm == name))
        {
            run(mix, count, seed, Arm { name, without });
        }
    }
}
