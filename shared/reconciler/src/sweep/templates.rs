//! Deletes launch templates that no launch uses any more.
//!
//! Each launch marks the templates that it uses with the day before it uses them. Every change of an EC2NodeClass, its images or
//! its user data leaves unused templates, and EC2 allows at most 5,000 in a region.

use super::{SweepReport, Sweeper};
use jiff::{SignedDuration, Timestamp};
use nodeless_operations::log_lines::Collected;

/// How long an unused template is kept. Marks are days, so a launch in progress is at least two marks away.
const KEPT: SignedDuration = SignedDuration::from_hours(3 * 24);
/// How often unused templates are looked for, in minutes. Sweeps run once a minute.
const EVERY: i64 = 60;
/// The maximum number of templates that one sweep deletes.
const MAX_DELETED: usize = 25;

impl Sweeper {
    pub(super) async fn delete_unused_templates(&self, now: Timestamp, report: &mut SweepReport) {
        if !is_due(now) {
            return;
        }
        match self
            .cloud
            .delete_unused_launch_templates(now.saturating_sub(KEPT).unwrap_or(Timestamp::MIN), MAX_DELETED)
            .await
        {
            Ok(deleted) => {
                for name in &deleted {
                    self.context.log(&Collected { what: "launch template deleted", name, why: "no launch uses it" });
                }
            }
            Err(error) => report.problems.push(format!("launch templates that no launch uses: {error}")),
        }
    }
}

fn is_due(now: Timestamp) -> bool {
    (now.as_second() / 60) % EVERY == 0
}
