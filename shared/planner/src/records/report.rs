//! The outcome of a plan.

use nodeless_disruption::Kept;
use nodeless_model::object::ObjectEvent;
use serde::Serialize;
use std::time::Duration;

/// The outcome of a plan.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PlanReport {
    /// The number of pending pods.
    pub pods: usize,
    /// How many of them fit on existing or launching nodes.
    pub placed: usize,
    /// The pods that fit, `namespace/name`, each with the node, or with the claim of a future node.
    pub placements: Vec<(String, String)>,
    /// The claims that were written.
    pub created: Vec<String>,
    /// The unschedulable pods, `namespace/name`, each with the reason.
    pub unschedulable: Vec<(String, String)>,
    /// The claims that begin termination.
    pub leaving: Vec<String>,
    /// The claims of commands that are executed if a later plan validates them.
    pub proposed: Vec<String>,
    /// Why every other managed node stays. Empty when disruption was not considered.
    pub kept: Vec<Kept>,
    /// The errors.
    pub problems: Vec<String>,
    /// When another plan has something to do even if nothing else happens.
    pub next: Option<Duration>,
    /// Whether no plan was made, because the last one placed the same pods a moment ago.
    #[serde(skip)]
    pub repeated: bool,
}

impl PlanReport {
    /// Schedules the next plan for this time at the latest.
    pub(crate) fn wait_at_most(&mut self, wait: Duration) {
        self.next = Some(self.next.map_or(wait, |next| next.min(wait)));
    }
}

/// The outcome of a plan, or of a part of one.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Outcome {
    /// The report for the caller.
    pub report: PlanReport,
    /// The events to publish.
    pub events: Vec<ObjectEvent>,
    /// How many NodePools have stopped disruption because their nodes were replaced repeatedly.
    pub stopped: usize,
    /// In how many NodePools the first node with a new AMI fails, so that no other is replaced by one.
    pub failed_canaries: usize,
    /// For how many owners of pods nothing is launched for a time, because their pods took none of the nodes that were launched for them.
    pub unused_launches: usize,
    /// How many expected pods came since the last plan.
    pub expected_pods_came: usize,
    /// How many pods are not expected any more although they did not come.
    pub expected_pods_missing: usize,
    /// How many seconds the nodes existed that leave without any of the expected pods that they were launched for.
    pub unused_node_seconds: f64,
    /// How many budgets nodes exceed, or will at the present pace.
    pub over_budget: usize,
    /// Whether an earlier plan did not finish, so that this one skipped optional work.
    pub reduced: bool,
}

impl Outcome {
    /// Adds the outcome of the next part.
    pub(crate) fn add(&mut self, other: Self) {
        let Self { report, events, stopped, failed_canaries, unused_launches, .. } = other;
        self.expected_pods_came += other.expected_pods_came;
        self.expected_pods_missing += other.expected_pods_missing;
        self.unused_node_seconds += other.unused_node_seconds;
        self.over_budget += other.over_budget;
        self.reduced |= other.reduced;
        let own = &mut self.report;
        own.pods += report.pods;
        own.placed += report.placed;
        own.placements.extend(report.placements);
        own.created.extend(report.created);
        own.unschedulable.extend(report.unschedulable);
        own.leaving.extend(report.leaving);
        own.proposed.extend(report.proposed);
        own.kept.extend(report.kept);
        own.problems.extend(report.problems);
        if let Some(wait) = report.next {
            own.wait_at_most(wait);
        }
        self.events.extend(events);
        self.stopped += stopped;
        self.failed_canaries += failed_canaries;
        self.unused_launches += unused_launches;
    }
}
