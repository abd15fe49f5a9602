//! The nodes that a decision had no time to look at: the next one begins with them, whoever makes it.

use super::{PlanReport, Planner};
use jiff::Timestamp;
use nodeless_disruption::Decision;
use std::collections::BTreeSet;
use std::sync::PoisonError;
use std::time::Duration;

/// For how long it is remembered.
const KEEP: Duration = Duration::from_hours(24);

impl Planner {
    /// The nodes that the last decision had no time for. `None` where that cannot be read now: only the order of looking depends
    /// on it, so this plan goes on without, and the next one reads again.
    pub(super) async fn backlog(&self, report: &mut PlanReport) -> Option<BTreeSet<String>> {
        let known = self.backlog.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if known.is_some() {
            return known;
        }
        match self.claims.backlog().await {
            Ok(read) => {
                self.remember(read.clone());
                Some(read)
            }
            Err(error) => {
                report.problems.push(format!("which nodes were not looked at last time is not known: {error}"));
                None
            }
        }
    }

    /// Writes down which nodes a decision had no time for, where that has changed. Where it is not known what was there before,
    /// that stays: its nodes have waited longer.
    pub(super) async fn note_backlog(
        &self,
        decision: &Decision,
        before: Option<BTreeSet<String>>,
        now: Timestamp,
        report: &mut PlanReport,
    ) {
        let after = &decision.not_looked_at;
        if before.is_none_or(|before| before == *after) {
            return;
        }
        match self.claims.put_backlog(after, now.saturating_add(KEEP).unwrap_or(Timestamp::MAX)).await {
            Ok(()) => self.remember(after.clone()),
            Err(error) => {
                // Whether it was written is not known, so the next plan reads it again.
                *self.backlog.lock().unwrap_or_else(PoisonError::into_inner) = None;
                report.problems.push(format!("which nodes were not looked at was not written down: {error}"));
            }
        }
    }

    /// Remembers what the table says.
    fn remember(&self, nodes: BTreeSet<String>) {
        *self.backlog.lock().unwrap_or_else(PoisonError::into_inner) = Some(nodes);
    }
}
