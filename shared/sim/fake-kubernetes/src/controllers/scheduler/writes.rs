//! The limit of writes: the client of kube-scheduler writes 50 times a second by default, bindings and conditions together. Events have a
//! client of their own.

use crate::controllers::object::after;
use jiff::Timestamp;

/// The limit of the client of kube-scheduler (`clientConnection.qps`).
pub(in crate::controllers) const PER_SECOND: usize = 50;

/// The writes of a second, if there is a limit.
#[derive(Debug, Default)]
pub(super) struct Writes {
    per_second: Option<usize>,
    /// The second, since the epoch, that is counted.
    second: i64,
    count: usize,
}

impl Writes {
    pub(super) const fn new(per_second: Option<usize>) -> Self {
        Self { per_second, second: 0, count: 0 }
    }

    /// How many writes may be made now.
    pub(super) fn left(&self, now: Timestamp) -> usize {
        let count = if self.second == now.as_second() { self.count } else { 0 };
        self.per_second.map_or(usize::MAX, |limit| limit.saturating_sub(count))
    }

    /// Notes writes that are made now.
    pub(super) fn note(&mut self, writes: usize, now: Timestamp) {
        let second = now.as_second();
        self.count = if self.second == second { self.count + writes } else { writes };
        self.second = second;
    }

    /// When the next write may be made, at the earliest.
    pub(super) fn next(&self) -> Timestamp {
        let counted = Timestamp::from_second(self.second).unwrap_or(Timestamp::MAX);
        match self.per_second {
            Some(0) => Timestamp::MAX,
            _ if self.left(counted) > 0 => Timestamp::MIN,
            _ => after(counted, 1),
        }
    }
}
