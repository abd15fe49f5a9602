//! Measures what each mechanism of plans is for: runs scenarios of the simulator with all mechanisms, and without one at a time.
//!
//! - `run FILE FROM..TO [NAME...]` appends a line of JSON to FILE for each mechanism, scenario and seed, and skips those that FILE has, so
//!   a run that was stopped is continued. With names, only those mechanisms or scenarios are run.
//! - `table FILE` prints the tables of docs/design/mechanisms.md.
//!
//! `cargo run --release -p nodeless-driver --example mechanisms -- run mechanisms.jsonl 0..60`
#![allow(clippy::unwrap_used, missing_docs)]

use nodeless_driver::scenarios::Scenario;
use nodeless_driver::simulation::{Report, Run};
use nodeless_planner::Mechanism;
use nodeless_telemetry::Null;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

/// Plans with all mechanisms.
const ALL: &str = "all";

/// What plans are made without.
const ARMS: [(&str, Option<Mechanism>); 7] = [
    (ALL, None),
    ("prediction", Some(Mechanism::Prediction)),
    ("exchange", Some(Mechanism::Exchange)),
    ("nominations", Some(Mechanism::Nominations)),
    ("churn-breaker", Some(Mechanism::ChurnBreaker)),
    ("waiting-pods", Some(Mechanism::WaitingPods)),
    ("repeated-plans", Some(Mechanism::RepeatedPlans)),
];

/// A part of the difference between two figures that is listed by scenario.
const NOTABLE: f64 = 0.01;

/// What a run is of.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
struct Key {
    scenario: String,
    seed: u64,
    without: String,
}

/// The result of a run.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Figures {
    dollars: f64,
    launches: f64,
    evictions: f64,
    /// The seconds from the creation of a pod to its binding.
    pending_p50: f64,
    pending_p99: f64,
    plans: f64,
    /// The invariants that were violated, and why the run failed.
    violations: BTreeSet<String>,
}

#[derive(Serialize, Deserialize)]
struct Line {
    #[serde(flatten)]
    key: Key,
    #[serde(flatten)]
    figures: Figures,
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["run", path, seeds, names @ ..] => run(path, &range(seeds), names),
        ["table", path] => print!("{}", tables(&read(path))),
        _ => panic!("run FILE FROM..TO [NAME...], or table FILE"),
    }
}

fn range(text: &str) -> Range<u64> {
    let (from, to) = text.split_once("..").unwrap_or_else(|| panic!("{text} is not a range; write it like 0..60"));
    from.parse().unwrap()..to.parse().unwrap()
}

/// The lines of a file that are whole; none if there is no file.
fn read(path: &str) -> BTreeMap<Key, Figures> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let lines = text.lines().filter_map(|line| serde_json::from_str::<Line>(line).ok());
    lines.map(|line| (line.key, line.figures)).collect()
}

/// The runs that are left, seed by seed, so that those of one seed can be compared early.
fn left(seeds: &Range<u64>, names: &[&str], done: &BTreeMap<Key, Figures>) -> Vec<(Key, Option<Mechanism>)> {
    let scenarios: Vec<&str> = Scenario::built_in_names().filter(|name| *name != "day").collect();
    let known = |name: &&&str| scenarios.contains(*name) || ARMS.iter().any(|(arm, _)| arm == *name);
    let unknown: Vec<_> = names.iter().filter(|name| !known(name)).collect();
    assert!(unknown.is_empty(), "{unknown:?} are no scenarios and no mechanisms");
    let some_scenarios = scenarios.iter().any(|name| names.contains(name));
    let some_arms = ARMS.iter().any(|(arm, _)| names.contains(arm));
    let mut left = Vec::new();
    for seed in seeds.clone() {
        for scenario in scenarios.iter().filter(|name| !some_scenarios || names.contains(name)) {
            for (arm, mechanism) in ARMS.iter().filter(|(arm, _)| !some_arms || names.contains(arm)) {
                let key = Key { scenario: (*scenario).to_owned(), seed, without: (*arm).to_owned() };
                if !done.contains_key(&key) {
                    left.push((key, *mechanism));
                }
            }
        }
    }
    left
}

/// Runs what is left on all processors.
fn run(path: &str, seeds: &Range<u64>, names: &[&str]) {
    let left = left(seeds, names, &read(path));
    let mut file = OpenOptions::new().create(true).append(true).open(path).unwrap();
    // The last line may be a part of one.
    if std::fs::read(path).unwrap().last().is_some_and(|last| *last != b'\n') {
        writeln!(file).unwrap();
    }
    let (file, next) = (Mutex::new(file), AtomicUsize::default());
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some((key, mechanism)) = left.get(next.fetch_add(1, Ordering::Relaxed)) {
                    append(&file, &Line { key: key.clone(), figures: measure(key, *mechanism) });
                }
            });
        }
    });
}

fn append(file: &Mutex<File>, line: &Line) {
    let text = serde_json::to_string(line).unwrap();
    writeln!(file.lock().unwrap(), "{text}").unwrap();
}

fn measure(key: &Key, without: Option<Mechanism>) -> Figures {
    let simulate = || -> Result<Report, String> {
        let scenario = Scenario { without, ..Scenario::built_in(&key.scenario).map_err(|error| error.to_string())? };
        let run = Run::new(scenario, key.seed, None, Arc::new(Null)).map_err(|error| error.to_string())?;
        run.finish().map_err(|error| error.to_string())
    };
    let ended = std::panic::catch_unwind(simulate).unwrap_or_else(|_| Err("it panicked".to_owned()));
    match ended {
        Ok(report) => figures(&report),
        Err(why) => Figures { violations: [why].into(), ..Figures::default() },
    }
}

fn figures(report: &Report) -> Figures {
    Figures {
        dollars: report.dollars,
        launches: report.launched as f64,
        evictions: report.evictions.values().sum::<u64>() as f64,
        pending_p50: report.waits.p50,
        pending_p99: report.waits.p99,
        plans: (report.plans.0 + report.plans.1) as f64,
        violations: report.violations.iter().map(|one| one.invariant.to_owned()).collect(),
    }
}

/// The sum of the runs without a mechanism, and of the same runs with all.
#[derive(Default)]
struct Pair {
    runs: usize,
    with: Figures,
    without: Figures,
    violated: (usize, usize),
}

impl Figures {
    fn values(&self) -> [f64; 6] {
        [self.dollars, self.launches, self.evictions, self.pending_p50, self.pending_p99, self.plans]
    }

    fn add(&mut self, other: &Self) {
        self.dollars += other.dollars;
        self.launches += other.launches;
        self.evictions += other.evictions;
        self.pending_p50 += other.pending_p50;
        self.pending_p99 += other.pending_p99;
        self.plans += other.plans;
        self.violations.extend(other.violations.iter().cloned());
    }
}

impl Pair {
    fn add(&mut self, with: &Figures, without: &Figures) {
        self.runs += 1;
        self.with.add(with);
        self.without.add(without);
        self.violated.0 += usize::from(!with.violations.is_empty());
        self.violated.1 += usize::from(!without.violations.is_empty());
    }

    /// The differences of the figures without the mechanism, as parts of those with all.
    fn changes(&self) -> impl Iterator<Item = f64> {
        let pairs = self.with.values().into_iter().zip(self.without.values());
        pairs.map(|(with, without)| if with == without { 0.0 } else { without / with - 1.0 })
    }

    fn is_notable(&self) -> bool {
        self.violated.0 != self.violated.1 || self.changes().any(|change| change.abs() >= NOTABLE)
    }

    /// The cells of a row: the runs, the change of each figure, and the runs that violated an invariant, with all mechanisms and without
    /// this one.
    fn row(&self) -> String {
        let changes: Vec<String> = self.changes().map(|change| format!("{:+.1} %", change * 100.0)).collect();
        let new: Vec<&str> = self.without.violations.difference(&self.with.violations).map(String::as_str).collect();
        let (with, without) = self.violated;
        let more = if new.is_empty() { String::new() } else { format!(" ({})", new.join(", ")) };
        format!("{} | {} | {with} | {without}{more} |", self.runs, changes.join(" | "))
    }
}

/// What changes without each mechanism: over all scenarios, and in those where it is notable.
fn tables(lines: &BTreeMap<Key, Figures>) -> String {
    let figures =
        "runs | dollars | launches | evictions | pending p50 | pending p99 | plans | violating, with all | without |";
    let rule = "---:|---:|---:|---:|---:|---:|---:|---:|---|";
    let mut total = format!("| without | {figures}\n|---|{rule}\n");
    let mut by_scenario = format!("| without | scenario | {figures}\n|---|---|{rule}\n");
    for (arm, _) in &ARMS[1..] {
        let mut all = Pair::default();
        let mut scenarios: BTreeMap<&str, Pair> = BTreeMap::new();
        for (key, without) in lines.iter().filter(|(key, _)| key.without == *arm) {
            let Some(with) = lines.get(&Key { without: ALL.to_owned(), ..key.clone() }) else { continue };
            all.add(with, without);
            scenarios.entry(&key.scenario).or_default().add(with, without);
        }
        total.push_str(&format!("| {arm} | {}\n", all.row()));
        for (scenario, pair) in scenarios.iter().filter(|(_, pair)| pair.is_notable()) {
            by_scenario.push_str(&format!("| {arm} | {scenario} | {}\n", pair.row()));
        }
    }
    format!("{total}\n{by_scenario}")
}
