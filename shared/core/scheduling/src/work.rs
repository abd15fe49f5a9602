//! The work of a plan, as a count: the same input always takes the same work, whatever the load of the machine.

/// The work so far, and its limit.
///
/// A unit is about one comparison of a pod with a node, an instance type or another kind of pod: some 20 to 50 nanoseconds on the
/// machines of AWS Lambda with 1.8 GB of memory.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Work {
    pub(crate) done: u64,
    max: Option<u64>,
}

impl Work {
    /// The limit, if there is one.
    pub(crate) const fn at_most(max: Option<u64>) -> Self {
        Self { done: 0, max }
    }

    pub(crate) fn add(&mut self, count: usize) {
        self.done = self.done.saturating_add(u64::try_from(count).unwrap_or(u64::MAX));
    }

    /// Work that is done whatever the limit, such as reading the input.
    pub(crate) fn add_beyond_limit(&mut self, count: usize) {
        self.add(count);
        let count = u64::try_from(count).unwrap_or(u64::MAX);
        self.max = self.max.map(|max| max.saturating_add(count));
    }

    /// Lowers the limit so that the work here and the work elsewhere together do not exceed the limit of one.
    pub(crate) fn share_limit(&mut self, total: Option<u64>, elsewhere: u64) {
        self.max = total.map(|total| total.saturating_sub(elsewhere));
    }

    pub(crate) fn is_used_up(&self) -> bool {
        self.max.is_some_and(|max| self.done >= max)
    }
}
