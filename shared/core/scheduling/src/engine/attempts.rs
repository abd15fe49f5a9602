//! The division of a plan's work limit between its attempts.

/// The classes of pods that an attempt at a plan places.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Stage {
    /// All of them.
    #[default]
    All,
    /// After an attempt that reached its work limit: the classes of which it placed pods.
    Started,
    /// The classes that the last attempt placed completely, with everything that they depend on.
    Complete,
    /// The classes that depend on no pods.
    Independent,
}

impl Stage {
    /// The stage after this one.
    pub(super) const fn next(self) -> Self {
        match self {
            Self::All => Self::Started,
            Self::Started => Self::Complete,
            Self::Complete | Self::Independent => Self::Independent,
        }
    }

    /// The number of remaining stages, including this one.
    const fn left(self) -> u64 {
        match self {
            Self::All => 4,
            Self::Started => 3,
            Self::Complete => 2,
            Self::Independent => 1,
        }
    }
}

/// An attempt may always do this fraction of the work of the plan, so that every plan places some pods.
const MIN_SHARE: u64 = 16;

/// The work limit of a plan. All attempts together do at most 5/4 of it, beyond reading the problem, which they do at most four times
/// at no charge: the first of all, and the first of each later stage.
#[derive(Clone, Copy, Debug)]
pub(super) struct Budget {
    pub(super) total: u64,
    left: u64,
}

impl Budget {
    pub(super) const fn new(total: u64) -> Self {
        Self { total, left: total }
    }

    /// The work limit of an attempt of this stage: an equal share for each of the stages that are left.
    pub(super) fn of_attempt(&self, stage: Stage) -> u64 {
        (self.left / stage.left()).max(self.total / MIN_SHARE)
    }

    /// Whether the rest of the work limit is reserved for later stages.
    pub(super) const fn is_reserved(&self) -> bool {
        self.left < self.total / 2
    }

    /// Charges an attempt.
    pub(super) const fn charge(&mut self, work: u64) {
        self.left = self.left.saturating_sub(work);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attempts_do_not_exceed_five_quarters_of_the_limit() {
        for repeats in 0..10 {
            let (mut budget, mut spent) = (Budget::new(1600), 0);
            let mut attempt = |stage| {
                let work = budget.of_attempt(stage);
                budget.charge(work);
                spent += work;
                budget.is_reserved()
            };
            for _ in 0..repeats {
                if attempt(Stage::All) {
                    break;
                }
            }
            let mut stage = Stage::Started;
            loop {
                attempt(stage);
                if stage == Stage::Independent {
                    break;
                }
                stage = stage.next();
            }
            assert!(spent <= 2000, "{repeats} repeats: {spent}");
        }
    }

    #[test]
    fn an_attempt_that_reached_its_limit_is_repeated_with_the_same_limit() {
        let mut budget = Budget::new(1600);
        assert_eq!(budget.of_attempt(Stage::All), 400);
        budget.charge(400);
        assert_eq!(budget.of_attempt(Stage::Started), 400);
        // Reading alone may take more than everything.
        budget.charge(5000);
        assert!(budget.is_reserved());
        assert_eq!(budget.of_attempt(Stage::Complete), 100);
    }
}
