//! How long a whole plan takes: the plan itself with its refinement, and the decision about existing nodes.
//!
//! `cargo bench -p nodeless-workloads` prints a table, in processor time of one thread, the best of three; the workloads are drawn by
//! seed, so every run plans the same. With arguments, only the cases are run whose names have all of them in it. Each case
//! runs in a process of its own, which is ended where it gives no answer in time.
#![allow(missing_docs, unreachable_pub, clippy::unwrap_used)]

mod answer;
mod cases;
mod guard;
mod path;

use answer::Answer;
use cases::Case;
use std::time::Duration;

/// How often a case is run.
const RUNS: usize = 3;

/// How much processor time all runs of a case may take together, with the making of its workload.
const MOST: Duration = Duration::from_secs(60);

/// The argument with which this program runs one case itself.
const ONE: &str = "--one-case=";

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let Some(name) = arguments.iter().find_map(|argument| argument.strip_prefix(ONE)) {
        return measure(&Case::all().into_iter().find(|case| case.name == name).unwrap());
    }
    let filters: Vec<&String> = arguments.iter().filter(|argument| !argument.starts_with('-')).collect();
    println!("| case | seconds | plan | disruption | launches | left | nodes that go | peak MiB | reach |");
    println!("|---|---:|---:|---:|---:|---:|---:|---:|---:|");
    for case in Case::all() {
        if filters.iter().all(|part| case.name.contains(part.as_str())) {
            row(&case);
        }
    }
}

/// Runs one case and prints a line after each run, so that one that takes too long for all of them has its best yet.
fn measure(case: &Case) {
    let workload = (case.make)();
    for _ in 0..RUNS {
        let outcome = path::pipeline(&workload);
        println!("{}", Answer::of(&outcome).line());
    }
}

fn row(case: &Case) {
    let reach = case.reach.map(|reach| format!("{reach} s")).unwrap_or_default();
    let reach = [reach, case.reach_mib.map(|most| format!("{most} MiB")).unwrap_or_default()];
    let reach = reach.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(", ");
    let stated = guard::run(&[&format!("{ONE}{}", case.name)], MOST);
    let answers: Vec<Answer> = stated.lines.iter().filter_map(|line| Answer::parsed(line)).collect();
    let best = answers.iter().min_by(|one, other| one.seconds().total_cmp(&other.seconds()));
    match best {
        Some(answer) => println!("| {} | {} | {reach} |", case.name, answer.cells()),
        None => {
            let why = if stated.in_time { "failed".to_owned() } else { format!("no answer in {} s", MOST.as_secs()) };
            println!("| {} | {why} | | | | | | | {reach} |", case.name);
        }
    }
}
