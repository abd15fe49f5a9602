//! Measures what expected pods are for: plays scenarios of the simulator without them, and with both values of the setting.
//!
//! `cargo run --release -p nodeless-driver --example expected_pods -- FROM..TO [SCENARIO...]` plays the scenarios with these seeds: without
//! names the bursts, and the built-in ones but `day`. It prints a line of figures for each run, and tables of their means at the end.
#![allow(clippy::unwrap_used, missing_docs)]

mod bursts;

use jiff::Timestamp;
use nodeless_driver::scenarios::Scenario;
use nodeless_driver::simulation::{Report, Run};
use nodeless_telemetry::{Level, Metric, Metrics, Sink};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

const MODES: [&str; 3] = ["off", "samples", "templates"];
/// The interval of the samples of a report, in seconds.
const SAMPLE: f64 = 300.0;
const COLUMNS: [&str; 11] = [
    "pods",
    "pending p50",
    "p95",
    "p99",
    "dollars",
    "launches",
    "evictions",
    "expected came",
    "did not come",
    "vain node seconds",
    "of node seconds %",
];

/// The figures of a run, or the sums of those of several.
#[derive(Clone, Default)]
struct Figures {
    runs: f64,
    values: [f64; 10],
    node_seconds: f64,
    violations: BTreeSet<String>,
}

impl Figures {
    fn new(report: &Report, metrics: &Metrics) -> Self {
        let sum = |metric| metrics.get(metric).iter().sum::<f64>();
        let waits = &report.waits;
        Self {
            runs: 1.0,
            values: [
                waits.pods as f64,
                waits.p50,
                waits.p95,
                waits.p99,
                report.dollars,
                report.launched as f64,
                report.evictions.values().sum::<u64>() as f64,
                sum(Metric::ExpectedPodsCame),
                sum(Metric::ExpectedPodsMissing),
                sum(Metric::ExpectedPodsUnusedNodeSeconds),
            ],
            node_seconds: report.samples.iter().map(|sample| sample.nodes as f64 * SAMPLE).sum(),
            violations: report.violations.iter().map(|one| format!("{}: {}", one.invariant, one.detail)).collect(),
        }
    }

    fn add(&mut self, other: &Self) {
        self.runs += other.runs;
        self.values.iter_mut().zip(other.values).for_each(|(sum, value)| *sum += value);
        self.node_seconds += other.node_seconds;
        self.violations.extend(other.violations.iter().cloned());
    }

    /// The cells of a row of [`COLUMNS`].
    fn row(&self) -> String {
        let vain = self.values[9] / self.node_seconds.max(1.0) * 100.0;
        let means = self.values.iter().map(|sum| format!("{:.1}", sum / self.runs));
        let violated = if self.violations.is_empty() { String::new() } else { format!(" {:?}", self.violations) };
        format!("{} | {vain:.2}{violated}", means.collect::<Vec<_>>().join(" | "))
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (seeds, names) = arguments.split_first().expect("give the seeds, such as 0..3, and scenarios or none");
    let (from, to) = seeds.split_once("..").expect("seeds are written like 0..3");
    let all = bursts::NAMES.into_iter().chain(Scenario::built_in_names().filter(|name| *name != "day"));
    let chosen: Vec<&str> = all.filter(|name| names.is_empty() || names.iter().any(|it| it == name)).collect();
    let mut left = Vec::new();
    for seed in from.parse().unwrap()..to.parse::<u64>().unwrap() {
        left.extend(chosen.iter().flat_map(|name| MODES.map(|mode| (*name, mode, seed))));
    }
    let (next, sums) = (AtomicUsize::default(), Mutex::new(BTreeMap::<(&str, &str), Figures>::new()));
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    println!("| scenario | mode | {} |\n|---|---|{}", COLUMNS.join(" | "), "---:|".repeat(COLUMNS.len()));
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some((name, mode, seed)) = left.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let figures = measure(name, mode, *seed);
                    let mut sums = sums.lock().unwrap();
                    println!("| {name} | {mode} {seed} | {} |", figures.row());
                    sums.entry((name, mode)).or_default().add(&figures);
                }
            });
        }
    });
    println!("\nmeans");
    let sums = sums.into_inner().unwrap();
    sums.iter().for_each(|((name, mode), figures)| println!("| {name} | {mode} | {} |", figures.row()));
    for mode in MODES {
        let mut total = Figures::default();
        sums.iter().filter(|((_, of), _)| *of == mode).for_each(|(_, figures)| total.add(figures));
        println!("| all | {mode} | {} |", total.row());
    }
}

fn measure(name: &str, mode: &str, seed: u64) -> Figures {
    let scenario = bursts::scenario(name).unwrap_or_else(|| Scenario::built_in(name).unwrap());
    let scenario = Scenario { expected_pods: mode.to_owned(), client_limits: true, ..scenario };
    let sink = Arc::new(Totals::default());
    let report = Run::new(scenario, seed, None, sink.clone()).unwrap().finish().unwrap();
    Figures::new(&report, &sink.0.lock().unwrap())
}

/// Collects metrics.
#[derive(Default)]
struct Totals(Mutex<Metrics>);

impl Sink for Totals {
    fn line(&self, _level: Level, _json: &dyn Fn() -> String, _people: &dyn Fn() -> String) {}

    fn metrics(&self, _cluster: &str, _at: Timestamp, metrics: &Metrics) {
        self.0.lock().unwrap().merge(metrics);
    }
}
