//! Many seeds of a world in which everything goes wrong.
//!
//! `NODELESS_SEEDS=FROM..TO` runs others than a few; CI runs 200.
#![allow(clippy::unwrap_used)]

use nodeless_controller::simulate::{Report, Run, Scenario};
use nodeless_telemetry::Null;
use std::ops::Range;
use std::sync::Arc;

/// How many seeds run when nobody says so.
const FEW: Range<u64> = 0..4;

fn run(scenario: &str, seed: u64, hours: u32) -> Report {
    let scenario = Scenario::built_in(scenario).unwrap();
    Run::new(scenario, seed, Some(hours), Arc::new(Null)).unwrap().finish().unwrap()
}

fn seeds() -> Range<u64> {
    let Ok(text) = std::env::var("NODELESS_SEEDS") else { return FEW };
    let parsed = text.split_once("..").and_then(|(from, to)| Some(from.parse().ok()?..to.parse().ok()?));
    parsed.unwrap_or_else(|| panic!("NODELESS_SEEDS={text} is no range; write it like 0..200"))
}

#[test]
fn every_invariant_holds_whatever_goes_wrong() {
    let mut failed = Vec::new();
    for seed in seeds() {
        let report = run("storm", seed, 1);
        assert!(report.plans.0 > 50 && report.launched > 0, "seed {seed}: the scenario has shrunk: {report:#?}");
        if !report.holds() {
            for violation in report.violations.iter().take(3) {
                println!("seed {seed}: {} {}: {}", violation.at, violation.invariant, violation.detail);
            }
            println!("again: cargo run --release -p {}", report.replay);
            failed.push(seed);
        }
    }
    assert!(failed.is_empty(), "seeds {failed:?} broke an invariant; the commands above show each again");
}

#[test]
fn the_same_seed_gives_the_same_run_to_the_byte() {
    let text = |seed| serde_json::to_string(&run("storm", seed, 1)).unwrap();
    let first = text(7);
    assert!(first == text(7), "two runs of one seed differ");
    assert!(first != text(8), "two seeds gave one run");
}
