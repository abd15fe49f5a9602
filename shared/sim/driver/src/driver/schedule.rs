//! The schedules of EventBridge.

use jiff::{SignedDuration, Timestamp};

/// How often the scheduled operations run. The defaults are those of the Terraform module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Schedule {
    /// Between two heartbeats of the planner.
    pub heartbeat: SignedDuration,
    /// Between two sweeps.
    pub sweep: SignedDuration,
    /// Between two refreshes of the catalog.
    pub catalog: SignedDuration,
    next: [Timestamp; 3],
}

/// Operations that are due.
pub(crate) struct Due {
    pub(crate) heartbeat: bool,
    pub(crate) sweep: bool,
    pub(crate) refresh: bool,
}

impl Default for Schedule {
    fn default() -> Self {
        Self {
            heartbeat: SignedDuration::from_mins(1),
            sweep: SignedDuration::from_mins(1),
            catalog: SignedDuration::from_mins(5),
            next: [Timestamp::MIN; 3],
        }
    }
}

impl Schedule {
    /// The catalog is due first, and the operations that need it a second later.
    pub(crate) fn starting(self, now: Timestamp) -> Self {
        let then = now.saturating_add(SignedDuration::from_secs(1)).unwrap_or(now);
        Self { next: [then, then, now], ..self }
    }

    /// When something is due next.
    pub(crate) fn next(&self) -> Timestamp {
        self.next.into_iter().min().unwrap_or(Timestamp::MAX)
    }

    /// Returns the operations due now; each is due again after its interval.
    pub(crate) fn take(&mut self, now: Timestamp) -> Due {
        let intervals = [self.heartbeat, self.sweep, self.catalog];
        let mut due = [false; 3];
        for ((next, interval), due) in self.next.iter_mut().zip(intervals).zip(&mut due) {
            *due = *next <= now;
            if *due {
                *next = now.saturating_add(interval).unwrap_or(Timestamp::MAX);
            }
        }
        let [heartbeat, sweep, refresh] = due;
        Due { heartbeat, sweep, refresh }
    }
}
