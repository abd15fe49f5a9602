//! Launch templates that no launch uses any more.
//!
//! Each launch marks the templates that it uses with the day, before it uses them. Whatever an EC2NodeClass, its images or its
//! user data were before leaves templates behind, and EC2 keeps at most 5,000 in a region.

use super::{SweepReport, Sweeper};
use crate::lines::Collected;
use jiff::{SignedDuration, Timestamp};

/// For how long a template is kept that no launch uses. Marks are days, so that a launch on its way is two of them away at least.
const KEPT: SignedDuration = SignedDuration::from_hours(3 * 24);
/// How often is looked, in minutes: sweeps come once a minute.
const EVERY: i64 = 60;
/// The most that one sweep deletes.
const MOST: usize = 25;

impl Sweeper {
    pub(super) async fn delete_unused_templates(&self, now: Timestamp, report: &mut SweepReport) {
        if !is_due(now) {
            return;
        }
        match self.cloud.delete_unused_launch_templates(now.saturating_sub(KEPT).unwrap_or(Timestamp::MIN), MOST).await
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
