//! What came of a run.

use super::MAX_NOTES;
use crate::Outcome;
use crate::invariants::Violation;
use crate::scenarios::Scenario;
use jiff::Timestamp;
use serde::Serialize;
use std::collections::BTreeMap;

/// What came of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// The scenario's name.
    pub scenario: String,
    /// What it is about.
    pub description: String,
    /// The seed.
    pub seed: u64,
    /// How many hours it lasted, without the time at the end in which it becomes quiescent.
    pub hours: u32,
    /// Dollars spent on instances in these hours.
    pub dollars: f64,
    /// How long pods waited for a node.
    pub waits: Waits,
    /// Evictions, by the reason for which the node left.
    pub evictions: BTreeMap<String, u64>,
    /// Pods deleted by force, because their node's time was up.
    pub forced: u64,
    /// How many instances were launched.
    pub launched: usize,
    /// How many plans were made, and how many failed.
    pub plans: (u64, u64),
    /// How many calls and messages did not go as they should.
    pub faults: u64,
    /// How many processes ended in the middle of their work.
    pub killed: u64,
    /// How many writes the operations made.
    pub writes: u64,
    /// How often each API of AWS was called.
    pub calls: BTreeMap<String, u64>,
    /// Figures over time.
    pub samples: Vec<Sample>,
    /// What happened from outside.
    pub notes: Vec<Note>,
    /// What must hold and did not.
    pub violations: Vec<Violation>,
    /// The command that gives the same run again.
    pub replay: String,
}

/// Figures at one time.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Sample {
    /// When.
    pub at: Timestamp,
    /// Nodes that have joined.
    pub nodes: usize,
    /// Those of them that are spot.
    pub spot_nodes: usize,
    /// Pods that run.
    pub running_pods: usize,
    /// Pods without a node, those of DaemonSets aside.
    pub pending_pods: usize,
    /// What EC2 costs.
    pub dollars_per_hour: f64,
    /// Evictions since the beginning.
    pub evictions: u64,
}

/// Something that happened from outside.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Note {
    /// When.
    pub at: Timestamp,
    /// What.
    pub what: String,
}

/// How long pods waited for a node, in seconds, from their creation to their binding.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Waits {
    /// How many pods got one.
    pub pods: usize,
    /// Half of them waited no longer.
    pub p50: f64,
    /// Nine in ten waited no longer.
    pub p90: f64,
    /// Ninety-nine in a hundred waited no longer.
    pub p99: f64,
    /// None waited longer.
    pub longest: f64,
}

impl Waits {
    /// From milliseconds, which are put in order.
    pub(super) fn of(waits: &mut [i64]) -> Self {
        waits.sort_unstable();
        let at = |percent: usize| {
            let rank = (waits.len() * percent).div_ceil(100).max(1) - 1;
            #[expect(clippy::cast_precision_loss, reason = "no run lasts 2^53 milliseconds")]
            let seconds = waits.get(rank).copied().unwrap_or(0) as f64 / 1000.0;
            seconds
        };
        Self { pods: waits.len(), p50: at(50), p90: at(90), p99: at(99), longest: at(100) }
    }
}

impl Report {
    pub(super) fn new(scenario: &Scenario, seed: u64, hours: u32) -> Self {
        let (name, description) = (scenario.name.clone(), scenario.description.clone());
        Self { scenario: name, description, seed, hours, ..Self::default() }
    }

    pub(super) fn note(&mut self, at: Timestamp, what: String) {
        if self.notes.len() < MAX_NOTES {
            self.notes.push(Note { at, what });
        }
    }

    pub(super) fn count(&mut self, outcomes: &[(Timestamp, Outcome)]) {
        for (_, outcome) in outcomes {
            match outcome {
                Outcome::Planned(Ok(_)) => self.plans.0 += 1,
                Outcome::Planned(Err(_)) => self.plans.1 += 1,
                _ => {}
            }
        }
    }

    /// Whether everything held.
    #[must_use]
    pub fn holds(&self) -> bool {
        self.violations.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::Waits;

    #[test]
    fn percentiles_are_of_the_nearest_rank() {
        let mut waits: Vec<i64> = (1..=100).rev().map(|seconds| seconds * 1000).collect();
        let waits = Waits::of(&mut waits);
        assert_eq!((waits.pods, waits.p50, waits.p90, waits.p99, waits.longest), (100, 50.0, 90.0, 99.0, 100.0));
        assert_eq!(Waits::of(&mut []), Waits::default());
    }
}
