//! Measures complete plans, from the snapshot of a cluster to everything that the planner would write: bookkeeping, provisioning
//! with refinement, disruption, and the decision records.
//!
//! `cargo bench -p nodeless-workloads` prints a table of the processor time of one thread, the best of three runs. The
//! workloads are generated from a seed, so every run makes the same plans. With arguments, only the cases run whose names
//! contain all of them. Each case runs in its own process, which is killed if it does not finish in time.
#![allow(missing_docs, unreachable_pub, clippy::unwrap_used)]

mod answer;
mod cases;
mod guard;
mod path;

use answer::Answer;
use cases::Case;
use std::time::Duration;

/// The number of runs of a case.
const RUNS: usize = 3;

/// The maximum processor time of all runs of a case, including the generation of its workload.
const MAX_PROCESSOR_TIME: Duration = Duration::from_secs(60);

/// The argument with which this program runs one case in this process.
const ONE: &str = "--one-case=";

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let Some(name) = arguments.iter().find_map(|argument| argument.strip_prefix(ONE)) {
        return measure(&Case::all().into_iter().find(|case| case.name == name).unwrap());
    }
    let filters: Vec<&String> = arguments.iter().filter(|argument| !argument.starts_with('-')).collect();
    println!("| case | seconds | plan | disruption | launches | left | removed nodes | peak MiB | target |");
    println!("|---|---:|---:|---:|---:|---:|---:|---:|---:|");
    for case in Case::all() {
        if filters.iter().all(|part| case.name.contains(part.as_str())) {
            row(&case);
        }
    }
}

/// Runs one case and prints a line after each run, so that a case that is killed still has its best time.
fn measure(case: &Case) {
    let mut snapshot = path::snapshot((case.make)());
    answer::forget_peak();
    for _ in 0..RUNS {
        let outcome = path::pipeline(&mut snapshot);
        println!("{}", Answer::new(&outcome).line());
    }
}

fn row(case: &Case) {
    let reach = case.reach.map(|reach| format!("{reach} s")).unwrap_or_default();
    let reach = [reach, case.reach_mib.map(|most| format!("{most} MiB")).unwrap_or_default()];
    let reach = reach.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(", ");
    let stated = guard::run(&[&format!("{ONE}{}", case.name)], MAX_PROCESSOR_TIME);
    let answers: Vec<Answer> = stated.lines.iter().filter_map(|line| Answer::parsed(line)).collect();
    let best = answers.iter().min_by(|one, other| one.seconds().total_cmp(&other.seconds()));
    match best {
        Some(answer) => println!("| {} | {} | {reach} |", case.name, answer.cells()),
        None => {
            let why = if stated.in_time {
                "failed".to_owned()
            } else {
                format!("no answer in {} s", MAX_PROCESSOR_TIME.as_secs())
            };
            println!("| {} | {why} | | | | | | | {reach} |", case.name);
        }
    }
}
