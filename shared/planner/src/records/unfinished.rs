//! Plans that do not finish: the next plan detects it and skips optional work.

use crate::action::{Action, PlanLine};
use crate::records::decisions::decision;
use crate::records::report::Outcome;
use crate::snapshot::Snapshot;
use jiff::Timestamp;
use nodeless_model::Pod;
use nodeless_state::plans::UnfinishedPlan;
use serde_json::json;
use std::time::Duration;

/// How long an unfinished plan is remembered if no other plan is made.
const KEEP: Duration = Duration::from_hours(24);

impl Snapshot {
    /// Whether the plan does optional work too: the refinement of launches, and voluntary disruption. It does not if the
    /// previous plan did not finish.
    #[must_use]
    pub const fn is_whole(&self) -> bool {
        self.unfinished.is_none()
    }

    /// The plan, if it is recorded: if pods or virtual pods are pending, or the cluster is large. Other plans do little, and two
    /// writes a minute for each of them would be most of the cost of an idle cluster.
    fn itself(&self) -> Option<UnfinishedPlan> {
        let nodes = self.view.nodes.len().max(self.claims.len());
        let view = &self.view;
        let is_pending = !view.capacity_buffers.is_empty()
            || !view.provisioning_requests.is_empty()
            || view.pods().any(Pod::is_provisionable);
        let plan = || UnfinishedPlan {
            id: self.now.as_nanosecond().to_string(),
            began: self.now,
            before: self.unfinished.as_ref().map_or(0, UnfinishedPlan::consecutive),
        };
        (is_pending || nodes >= self.settings.remembered_from).then(plan)
    }
}

/// The first write: the plan begins, and the previous one did not finish.
pub(crate) fn begin(snapshot: &Snapshot) -> (Vec<Action>, Outcome) {
    let mut actions: Vec<Action> = snapshot.itself().map(Action::BeginPlan).into_iter().collect();
    let mut outcome = Outcome::default();
    if let Some(plan) = &snapshot.unfinished {
        let UnfinishedPlan { id, began, .. } = plan;
        let consecutive = plan.consecutive();
        outcome.reduced = true;
        let last = match consecutive {
            1 => format!("the plan of {began} did not finish"),
            _ => format!("the last {consecutive} plans did not finish, the latest of {began}"),
        };
        let summary = format!(
            "{last}, so this one skips the refinement of launches and voluntary disruption, and has a lower work limit"
        );
        outcome.report.problems.push(summary.clone());
        actions.push(Action::Log(PlanLine::PlanUnfinished { plan: id.clone(), began: *began, consecutive }));
        let detail = json!({ "plan": id, "began": began, "consecutive": consecutive }).to_string();
        actions.push(decision("plan-unfinished", Vec::new(), summary, detail, snapshot.now));
    }
    (actions, outcome)
}

/// The last write: the plan has ended, and the record of the previous one is deleted with it.
pub(crate) fn end(snapshot: &Snapshot) -> Vec<Action> {
    let written = snapshot.itself().or_else(|| snapshot.unfinished.clone());
    written.map(|plan| Action::EndPlan(plan.id)).into_iter().collect()
}

/// Until when an unfinished plan is remembered.
pub(crate) fn remembered_until(plan: &UnfinishedPlan) -> Timestamp {
    plan.began.saturating_add(KEEP).unwrap_or(Timestamp::MAX)
}
