//! The outcome of a plan.

use nodeless_disruption::Kept;
use nodeless_model::object::ObjectEvent;
use serde::Serialize;
use std::time::Duration;

/// The outcome of a plan.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PlanReport {
    /// How many pods waited for a node.
    pub pods: usize,
    /// How many of them fit on nodes that exist or are on their way.
    pub placed: usize,
    /// These pods, `namespace/name`, and the nodes, or claims whose nodes will come.
    pub placements: Vec<(String, String)>,
    /// The claims that were written.
    pub created: Vec<String>,
    /// The pods that cannot be placed, `namespace/name`, and why.
    pub unschedulable: Vec<(String, String)>,
    /// The claims that begin to leave.
    pub leaving: Vec<String>,
    /// The claims of commands that are carried out if a later plan still finds them right.
    pub proposed: Vec<String>,
    /// Why every other managed node stays. Empty when disruption was not considered.
    pub kept: Vec<Kept>,
    /// What could not be used or done, in words.
    pub problems: Vec<String>,
    /// When another plan will have something to do even if nothing happens meanwhile.
    pub next: Option<Duration>,
}

impl PlanReport {
    /// Has the next plan made after this time at the latest.
    pub(super) fn wait_at_most(&mut self, wait: Duration) {
        self.next = Some(self.next.map_or(wait, |next| next.min(wait)));
    }
}

/// What came of a plan, or of a part of one.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Outcome {
    /// For whoever asked for the plan.
    pub report: PlanReport,
    /// The events to publish.
    pub events: Vec<ObjectEvent>,
    /// How many NodePools have stopped disruption because their nodes were replaced again and again.
    pub stopped: usize,
    /// Whether an earlier plan did not finish, so that this one left out what is optional.
    pub reduced: bool,
}

impl Outcome {
    /// Adds the outcome of the part after this one.
    pub(super) fn add(&mut self, other: Self) {
        let Self { report, events, stopped, reduced } = other;
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
        self.reduced |= reduced;
    }
}
