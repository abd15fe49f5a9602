//! Many seeds of each scenario with faults.
//!
//! `NODELESS_SEEDS=FROM..TO` selects the seeds of every scenario. `make test` runs a few, which change with the commit, and `make nightly`
//! hundreds, of the longer scenarios too.

use nodeless_driver::scenarios::Scenario;
use nodeless_driver::simulation::{Report, Run};
use nodeless_telemetry::{Captured, Null};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// The seeds of each scenario by default.
const FEW: Range<u64> = 0..2;

fn run(scenario: &str, seed: u64) -> Report {
    let scenario = Scenario::built_in(scenario).unwrap();
    Run::new(scenario, seed, None, Arc::new(Null)).unwrap().finish().unwrap()
}

fn seeds() -> Range<u64> {
    let Ok(text) = std::env::var("NODELESS_SEEDS") else { return FEW };
    let parsed = text.split_once("..").and_then(|(from, to)| Some(from.parse().ok()?..to.parse().ok()?));
    let range = parsed.unwrap_or_else(|| panic!("NODELESS_SEEDS={text} is not a range; write it like 0..200"));
    assert!(!range.is_empty(), "NODELESS_SEEDS={text} is empty; write it like 0..200");
    range
}

/// The violations of one seed, or that it panicked.
fn wrong_with(scenario: &str, seed: u64) -> Vec<String> {
    let Ok(report) = std::panic::catch_unwind(|| run(scenario, seed)) else {
        return vec!["it panicked".to_owned()];
    };
    let mut wrong: Vec<String> =
        report.violations.iter().take(3).map(|it| format!("{} {}: {}", it.at, it.invariant, it.detail)).collect();
    if report.plans.0 <= 50 || report.launched == 0 {
        wrong.push(format!("the scenario covers too little: {} plans, {} launches", report.plans.0, report.launched));
    }
    wrong
}

/// Runs the seeds of a scenario on all processors, and fails with the commands that reproduce the failures.
fn run_all(scenario: &str) {
    let seeds = seeds();
    let next = AtomicU64::new(seeds.start);
    let failed: Mutex<BTreeMap<u64, Vec<String>>> = Mutex::default();
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= seeds.end {
                        break;
                    }
                    let wrong = wrong_with(scenario, seed);
                    if !wrong.is_empty() {
                        failed.lock().unwrap().insert(seed, wrong);
                    }
                }
            });
        }
    });
    let failed = failed.into_inner().unwrap();
    for (seed, wrong) in &failed {
        wrong.iter().for_each(|what| println!("seed {seed}: {what}"));
        println!("again: cargo run --release -p nodeless -- simulate --seed {seed} --scenario {scenario}");
    }
    let numbers: Vec<&u64> = failed.keys().collect();
    assert!(
        failed.is_empty(),
        "seeds {numbers:?} of {scenario} violated an invariant; the commands above reproduce them"
    );
}

#[test]
fn every_invariant_holds_whatever_goes_wrong() {
    run_all("faults");
}

#[test]
fn every_invariant_holds_with_fixed_capacity_repair_and_expiry() {
    run_all("faults-all-features");
}

#[test]
fn every_invariant_holds_with_schedules_graceful_expiration_and_failing_machines() {
    run_all("schedules");
}

#[test]
fn every_invariant_holds_with_limits_of_the_cluster_and_maintenance_windows() {
    run_all("cluster-settings");
}

#[test]
fn every_invariant_holds_with_volumes_zones_and_agents() {
    run_all("stateful");
}

#[test]
fn every_invariant_holds_with_spot_beside_a_minimum_on_demand() {
    run_all("spot");
}

#[test]
fn every_invariant_holds_while_new_images_begin_with_one_node() {
    run_all("canary");
}

#[test]
fn every_invariant_holds_while_successors_of_pods_come_before_drains() {
    run_all("surge");
}

#[test]
fn every_invariant_holds_while_autoscalers_change_the_replicas_of_such_pods() {
    run_all("autoscalers");
}

#[test]
fn every_invariant_holds_while_stopped_instances_are_started_before_others_are_launched() {
    run_all("warm");
}

#[test]
fn every_invariant_holds_while_replacements_never_become_ready() {
    run_all("unready-nodes");
}

#[test]
fn every_invariant_holds_while_pods_move_that_cannot_go_anywhere() {
    run_all("moving-pods");
}

#[test]
fn every_invariant_holds_while_kube_scheduler_refuses_pods_for_an_unknown_reason() {
    run_all("refused-pods");
}

#[test]
fn every_invariant_holds_while_an_api_server_answers_slowly() {
    run_all("slow-api");
}

/// The invariants would hold without warm nodes, too.
#[test]
fn instances_are_stopped_and_started() {
    let run = Run::new(Scenario::built_in("warm").unwrap(), 1, None, Arc::new(Null)).unwrap();
    let ec2 = run.driver().world().ec2().clone();
    run.finish().unwrap();
    let calls = ec2.call_counts();
    let of = |api: &str| calls.get(&format!("ec2:{api}")).copied().unwrap_or(0);
    assert!(of("StopInstances") >= 6 && of("StartInstances") >= 3, "{calls:?}");
}

/// The invariant about them would hold without surges, too, if no node with such a pod were drained.
#[test]
fn successors_of_pods_come_by_restarts_and_by_replicas() {
    let lines = Arc::new(Captured::default());
    Run::new(Scenario::built_in("surge").unwrap(), 1, None, lines.clone()).unwrap().finish().unwrap();
    let lines = lines.take();
    let of = |event: &str, mode: &str| {
        lines.iter().filter(|line| line["event"] == event && (mode.is_empty() || line["mode"] == mode)).count()
    };
    assert!(of("surge-begun", "restart") >= 3 && of("surge-begun", "scale") >= 3, "too few drains of such pods");
    assert!(of("surge-ended", "") >= 3);
}

#[test]
fn the_same_seed_gives_the_same_run_to_the_byte() {
    let text = |seed| serde_json::to_string(&run("faults", seed)).unwrap();
    let first = text(7);
    assert!(first == text(7), "two runs of one seed differ");
    assert!(first != text(8), "two seeds gave one run");
    // In a runtime with task budgets, as that of the command line, nothing is deferred to the next poll.
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    assert!(first == runtime.block_on(async { text(7) }), "a run depends on where it runs");
}
