//! The number of attempts of searches for devices, and their limits.

use crate::refusal::Refusal;

/// The most attempts of one search. The kube-scheduler gives up after ten seconds (`filterTimeout`); a plan must not depend on the time.
pub(crate) const MAX_ATTEMPTS: u64 = 100_000;

/// The attempts to find devices for the claims of pods: the devices that were tried, and the steps of the selectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attempts {
    made: u64,
    limit: u64,
    /// Where the present search ends.
    end: u64,
}

impl Attempts {
    /// At most this number, in all searches together.
    #[must_use]
    pub const fn at_most(limit: u64) -> Self {
        Self { made: 0, limit, end: limit }
    }

    /// The number so far, which is never above the limit.
    #[must_use]
    pub fn made(&self) -> u64 {
        self.made.min(self.limit)
    }

    /// The limit, if it is reached.
    #[must_use]
    pub const fn exceeded(&self) -> Option<u64> {
        if self.made > self.limit { Some(self.limit) } else { None }
    }

    /// Begins another search.
    pub(crate) fn begin(&mut self) {
        self.end = self.limit.min(self.made.saturating_add(MAX_ATTEMPTS));
    }

    /// Counts attempts of the present search.
    ///
    /// # Errors
    /// Where there may be no more.
    pub(crate) fn add(&mut self, count: u64) -> Result<(), Refusal> {
        self.made = self.made.saturating_add(count);
        if self.made > self.end {
            let limit = self.exceeded().unwrap_or(MAX_ATTEMPTS);
            return Err(Refusal::TooManyAttempts { limit });
        }
        Ok(())
    }
}
