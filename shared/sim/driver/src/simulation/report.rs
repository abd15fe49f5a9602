//! The report of a run.

use super::MAX_NOTES;
use crate::Outcome;
use crate::invariants::Violation;
use crate::scenarios::Scenario;
use jiff::Timestamp;
use serde::Serialize;
use std::collections::BTreeMap;

/// The report of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// The scenario's name.
    pub scenario: String,
    /// The scenario's description.
    pub description: String,
    /// The seed.
    pub seed: u64,
    /// The duration in hours, without the time at the end in which it becomes quiescent.
    pub hours: u32,
    /// The simulated time when the run was ended early, if it was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interrupted: Option<Timestamp>,
    /// The dollars spent on instances in these hours.
    pub dollars: f64,
    /// How long pods waited for a node.
    pub waits: Waits,
    /// Evictions, by the reason of the node's disruption.
    pub evictions: BTreeMap<String, u64>,
    /// Pods that were deleted forcefully at the end of the termination grace period of their node.
    pub forced: u64,
    /// The number of launched instances.
    pub launched: usize,
    /// The numbers of plans and of failed plans.
    pub plans: (u64, u64),
    /// The number of calls and messages with a fault.
    pub faults: u64,
    /// The number of processes that were killed.
    pub killed: u64,
    /// The number of invocations that Lambda stopped as those of a recursive loop.
    pub stopped_loops: u64,
    /// The number of writes of the operations.
    pub writes: u64,
    /// The number of calls of each AWS API.
    pub calls: BTreeMap<String, u64>,
    /// Figures over time.
    pub samples: Vec<Sample>,
    /// The events from outside.
    pub notes: Vec<Note>,
    /// The violated invariants.
    pub violations: Vec<Violation>,
    /// The command that repeats the run.
    pub replay: String,
}

/// Figures at one time.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Sample {
    /// The time.
    pub at: Timestamp,
    /// Nodes that have joined.
    pub nodes: usize,
    /// Spot nodes that have joined.
    pub spot_nodes: usize,
    /// Running pods.
    pub running_pods: usize,
    /// Pods without a node, except for those of DaemonSets.
    pub pending_pods: usize,
    /// The price of the instances.
    pub dollars_per_hour: f64,
    /// Evictions since the start.
    pub evictions: u64,
}

/// An event from outside.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Note {
    /// The time.
    pub at: Timestamp,
    /// The description.
    pub what: String,
}

/// How long pods waited for a node, in seconds, from creation to binding.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Waits {
    /// The number of pods that got a node.
    pub pods: usize,
    /// The median.
    pub p50: f64,
    /// The 90th percentile.
    pub p90: f64,
    /// The 95th percentile.
    pub p95: f64,
    /// The 99th percentile.
    pub p99: f64,
    /// The maximum.
    pub longest: f64,
}

impl Waits {
    /// Computes the percentiles of these milliseconds.
    pub(super) fn new(waits: &mut [i64]) -> Self {
        waits.sort_unstable();
        let at = |percent: usize| {
            let rank = (waits.len() * percent).div_ceil(100).max(1) - 1;
            #[expect(clippy::cast_precision_loss, reason = "no run lasts 2^53 milliseconds")]
            let seconds = waits.get(rank).copied().unwrap_or(0) as f64 / 1000.0;
            seconds
        };
        Self { pods: waits.len(), p50: at(50), p90: at(90), p95: at(95), p99: at(99), longest: at(100) }
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
                Outcome::Stopped => self.stopped_loops += 1,
                _ => {}
            }
        }
    }

    /// Whether all invariants held.
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
        let waits = Waits::new(&mut waits);
        assert_eq!((waits.pods, waits.p50, waits.p90, waits.p99, waits.longest), (100, 50.0, 90.0, 99.0, 100.0));
        assert_eq!(Waits::new(&mut []), Waits::default());
    }
}
