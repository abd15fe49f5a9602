//! Counts for tests what an evaluation does, independently of the work that it charges.
//!
//! Without the feature `test-support`, nothing is counted.

#[cfg(feature = "test-support")]
mod counting {
    use std::cell::Cell;

    thread_local! {
        static COUNTS: Cell<Counts> = const { Cell::new(Counts { visits: 0, admissions: 0, scheduler: 0 }) };
    }

    /// The work on this thread.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct Counts {
        /// The number of ranges of nodes that the packed cluster compared with a pod, or computed again.
        pub visits: u64,
        /// The number of comparisons of a node's labels and taints with a pod.
        pub admissions: u64,
        /// The work of the scheduler's plans, launches and prices, as the scheduler reports it.
        pub scheduler: u64,
    }

    /// Returns what was counted on this thread, and begins again.
    #[must_use]
    pub fn take() -> Counts {
        COUNTS.take()
    }

    /// Adds to the counts of this thread. Crates that do further work of an evaluation add theirs.
    pub fn add(more: Counts) {
        let known = COUNTS.get();
        COUNTS.set(Counts {
            visits: known.visits + more.visits,
            admissions: known.admissions + more.admissions,
            scheduler: known.scheduler + more.scheduler,
        });
    }
}

#[cfg(feature = "test-support")]
pub use counting::{Counts, add, take};

/// A range of nodes was compared or computed again.
#[inline]
pub(crate) fn visit() {
    #[cfg(feature = "test-support")]
    counting::add(Counts { visits: 1, ..Counts::default() });
}

/// The labels and taints of a node were compared with a pod.
#[inline]
pub(crate) fn admission() {
    #[cfg(feature = "test-support")]
    counting::add(Counts { admissions: 1, ..Counts::default() });
}

/// The scheduler reported work.
#[inline]
pub(crate) fn scheduler(work: u64) {
    #[cfg(feature = "test-support")]
    counting::add(Counts { scheduler: work, ..Counts::default() });
    #[cfg(not(feature = "test-support"))]
    let _ = work;
}
