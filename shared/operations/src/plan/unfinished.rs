//! Plans that were too much: one that is begun and does not end is known to the next, which leaves out what is optional.

use super::action::{Action, PlanLine};
use super::record::decision;
use super::report::Outcome;
use super::snapshot::Snapshot;
use jiff::Timestamp;
use nodeless_ports::plans::UnfinishedPlan;
use serde_json::json;
use std::time::Duration;

/// For how long a plan that did not end is remembered if no other is made.
const KEEP: Duration = Duration::from_hours(24);

impl Snapshot {
    /// Whether the plan does what is optional too: the second pass over what is launched, and voluntary disruption. It does not
    /// where the plan before did not finish.
    #[must_use]
    pub const fn is_whole(&self) -> bool {
        self.unfinished.is_none()
    }

    /// The plan, where it may be too much. Smaller ones are made in well under a second, and two writes a minute for each of
    /// them would be most of what an idle cluster costs.
    fn itself(&self) -> Option<UnfinishedPlan> {
        let waiting = self.view.pods.iter().filter(|pod| pod.is_provisionable()).count();
        let size = waiting + self.view.nodes.len().max(self.claims.len());
        let plan = || UnfinishedPlan { id: self.now.as_nanosecond().to_string(), began: self.now };
        (size >= self.settings.remembered_from).then(plan)
    }
}

/// What is written before anything else: that the plan begins, and that the one before did not finish.
pub(super) fn begin(snapshot: &Snapshot) -> (Vec<Action>, Outcome) {
    let mut actions: Vec<Action> = snapshot.itself().map(Action::BeginPlan).into_iter().collect();
    let mut outcome = Outcome::default();
    if let Some(UnfinishedPlan { id, began }) = &snapshot.unfinished {
        outcome.reduced = true;
        let summary = format!(
            "the plan of {began} did not finish, so this one leaves out the second look at launches and disruption by choice"
        );
        outcome.report.problems.push(summary.clone());
        actions.push(Action::Log(PlanLine::PlanUnfinished { plan: id.clone(), began: *began }));
        let detail = json!({ "plan": id, "began": began }).to_string();
        actions.push(decision("plan-unfinished", Vec::new(), summary, detail, snapshot.now));
    }
    (actions, outcome)
}

/// What is written last: that the plan has ended, and with it the matter of the one before.
pub(super) fn end(snapshot: &Snapshot) -> Vec<Action> {
    let written = snapshot.itself().or_else(|| snapshot.unfinished.clone());
    written.map(|plan| Action::EndPlan(plan.id)).into_iter().collect()
}

/// Until when a plan that does not end is remembered.
pub(super) fn remembered_until(plan: &UnfinishedPlan) -> Timestamp {
    plan.began.saturating_add(KEEP).unwrap_or(Timestamp::MAX)
}
