//! Cases in processes of their own, which are ended where they take too long.

use crate::path::Outcome;
use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// How long a case may take, all of its runs and the making of its workload together.
pub const MOST: Duration = Duration::from_secs(60);

/// What one run of a case says of itself: seconds of the three parts, then counts, then MiB.
#[derive(Clone, Copy, Debug)]
pub struct Answer([f64; 7]);

impl Answer {
    pub fn of(outcome: &Outcome) -> Self {
        let parts = [outcome.planned, outcome.settled, outcome.judged].map(|part| part.as_secs_f64());
        let counts = [outcome.launches, outcome.left, outcome.going].map(|count| count as f64);
        Self([parts[0], parts[1], parts[2], counts[0], counts[1], counts[2], peak()])
    }

    pub fn seconds(&self) -> f64 {
        self.0[..3].iter().sum()
    }

    pub fn line(&self) -> String {
        self.0.map(|number| number.to_string()).join(" ")
    }

    fn parsed(line: &str) -> Option<Self> {
        let numbers: Vec<f64> = line.split(' ').filter_map(|number| number.parse().ok()).collect();
        numbers.try_into().ok().map(Self)
    }

    /// As the table shows it.
    pub fn cells(&self) -> String {
        let [planned, settled, judged, launches, left, going, peak] = self.0;
        format!(
            "{:.3} | {planned:.3} | {settled:.3} | {judged:.3} | {launches} | {left} | {going} | {peak}",
            self.seconds()
        )
    }
}

/// The most memory that this process has had, in MiB.
fn peak() -> f64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = text.lines().find(|line| line.starts_with("VmHWM")).unwrap();
    (line.split_whitespace().nth(1).unwrap().parse::<f64>().unwrap() / 1024.0).round()
}

/// Runs this program with an argument, and gives what it said before its time was over.
pub fn answers(argument: &str) -> Vec<Answer> {
    let program = std::env::current_exe().unwrap();
    let mut child = Command::new(program).arg(argument).stdout(Stdio::piped()).spawn().unwrap();
    let out = child.stdout.take().unwrap();
    let (said, heard) = mpsc::channel();
    std::thread::spawn(move || {
        for line in BufReader::new(out).lines().map_while(Result::ok) {
            if said.send(line).is_err() {
                break;
            }
        }
    });
    let end = Instant::now() + MOST;
    let mut answers = Vec::new();
    while let Ok(line) = heard.recv_timeout(end.saturating_duration_since(Instant::now())) {
        answers.extend(Answer::parsed(&line));
    }
    // Whether it has ended by itself or not.
    child.kill().unwrap_or_default();
    child.wait().unwrap();
    answers
}
