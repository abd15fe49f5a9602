//! Searches for inputs that take more work than plain pods of the same size.
//!
//!     cargo run --release -p nodeless-workloads --example search -- climb PART PODS SECONDS SEED [FIELD...]
//!     cargo run --release -p nodeless-workloads --example search -- table PART [FILE]
//!     cargo run --release -p nodeless-workloads --example search -- one PART LINE
//!
//! `climb` prints the worst inputs that it finds, with the ratio of their work to that of plain pods. FIELDs after the seed
//! keep the values of plain pods, to find other slow inputs. `table` measures the stored inputs, or the lines of a file;
//! `one` measures one line in this process, for profilers. PART is `work`, the counted work of the plan, its refinement and the
//! decision about existing nodes, which is the same on every machine, or `all`, the processor time of the whole path. Each input
//! is measured in its own process, which is killed if it takes too long.
#![allow(unreachable_pub, clippy::unwrap_used)]

#[path = "../benches/pipeline/guard.rs"]
mod guard;
#[path = "../benches/pipeline/path.rs"]
mod path;

use nodeless_workloads::Draw;
use nodeless_workloads::search::{Combination, worst};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// The maximum processor time of an input: in the search, which only has to detect very slow inputs, and in the table.
const MAX_SECONDS: [(&str, u64); 3] = [("work", 20), ("all", 60), ("table", 60)];

/// After this number of changes without a slower input, the search starts elsewhere.
const MAX_ATTEMPTS: u32 = 12;

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match *words.as_slice() {
        ["climb", part, pods, seconds, seed, ref fixed @ ..] => {
            let end = Instant::now() + Duration::from_secs(seconds.parse().unwrap());
            let plain = Combination::plain(pods.parse().unwrap());
            climb(&mut Measure::new(part, part), &plain, fixed, end, seed.parse().unwrap());
        }
        ["table", part] => table(&mut Measure::new(part, "table"), &worst()),
        ["table", part, file] => {
            let text = std::fs::read_to_string(file).unwrap();
            let lines = text.lines().filter(|line| !line.starts_with('#'));
            table(&mut Measure::new(part, "table"), &lines.map(|line| line.parse().unwrap()).collect::<Vec<_>>());
        }
        ["one", part, line] => one(part, &line.parse().unwrap()),
        _ => eprintln!("climb PART PODS SECONDS SEED [FIELD...] | table PART [FILE] | one PART LINE"),
    }
}

fn one(part: &str, input: &Combination) {
    let workload = input.workload();
    if part == "work" {
        let start = path::spent();
        let work = nodeless_workloads::search::work(&workload);
        println!("{work} in {:.3} s", (path::spent() - start).as_secs_f64());
        return;
    }
    let found = path::pipeline(&mut path::snapshot(workload));
    let [all, planned] = [found.all, found.planned].map(|part| part.as_secs_f64());
    let (launches, left, going) = (found.launches, found.left, found.going);
    println!("{all:.3}, of which {planned:.3} without disruption: {launches} launches, {left} left, {going} go");
}

/// Measures inputs, and caches the results of plain ones.
struct Measure<'p> {
    part: &'p str,
    max: Duration,
    /// The work of plain pods by input.
    plain: BTreeMap<String, f64>,
}

impl<'p> Measure<'p> {
    fn new(part: &'p str, limit: &str) -> Self {
        let seconds = MAX_SECONDS.iter().find(|(name, _)| *name == limit).expect("work or all").1;
        Self { part, max: Duration::from_secs(seconds), plain: BTreeMap::new() }
    }

    /// The ratio of the work of an input to that of plain pods of the same size, and its result. The ratio of an input that
    /// was killed is infinite.
    fn ratio(&mut self, input: &Combination) -> (f64, String) {
        let plain = input.plain_of_its_size();
        if !self.plain.contains_key(&plain.to_string()) {
            // Processor time differs from run to run.
            let best = (0..3).map(|_| self.work(&plain).0).fold(f64::INFINITY, f64::min);
            self.plain.insert(plain.to_string(), best);
        }
        let (work, stated) = self.work(input);
        (work / self.plain[&plain.to_string()], stated)
    }

    /// The counted work, or the seconds of the whole path.
    fn work(&self, input: &Combination) -> (f64, String) {
        let max = self.max;
        let stated = guard::run(&["one", self.part, &input.to_string()], max);
        if !stated.in_time {
            return (f64::INFINITY, format!("no answer in {} s", max.as_secs()));
        }
        let stated = stated.lines.concat();
        let work = stated.split([' ', ',', ':']).next().and_then(|word| word.parse().ok());
        (work.unwrap_or(0.0), stated)
    }
}

/// From many random inputs, changes an input as long as it becomes worse.
fn climb(measure: &mut Measure<'_>, plain: &Combination, fixed: &[&str], end: Instant, seed: u64) {
    let mut draw = Draw::new(seed);
    let held = |mut input: Combination| {
        fixed.iter().for_each(|name| input.set(name, plain.get(name)));
        input
    };
    while Instant::now() < end {
        let mut best = held(Combination::any(plain.pods, &mut draw));
        let (mut ratio, mut measured) = measure.ratio(&best);
        let mut attempts = MAX_ATTEMPTS;
        while attempts > 0 && Instant::now() < end && !measured.starts_with("no answer") {
            let next = held(best.changed(&mut draw));
            let (worse, stated) = measure.ratio(&next);
            if worse > ratio * 1.05 {
                (best, ratio, measured, attempts) = (next, worse, stated, MAX_ATTEMPTS);
            } else {
                attempts -= 1;
            }
        }
        let best = simpler(measure, best, ratio);
        println!("{ratio:8.1}  {best}  # {measured}");
    }
}

/// Removes the fields that do not make an input slow.
fn simpler(measure: &mut Measure<'_>, mut worst: Combination, ratio: f64) -> Combination {
    let plain = Combination::plain(worst.pods);
    for (name, _) in nodeless_workloads::search::FIELDS {
        if worst.get(name) != plain.get(name) {
            let mut without = worst.clone();
            without.set(name, plain.get(name));
            if measure.ratio(&without).0 >= ratio * 0.9 {
                worst = without;
            }
        }
    }
    worst
}

fn table(measure: &mut Measure<'_>, inputs: &[Combination]) {
    println!("| times plain pods | input | work and outcome |");
    println!("|---:|---|---|");
    for input in inputs {
        let (ratio, stated) = measure.ratio(input);
        println!("| {ratio:.1} | {input} | {stated} |");
    }
}
