//! Arithmetic with points in time that cannot fail.

use jiff::Timestamp;
use std::time::Duration;

/// How much time has passed since; zero when that lies ahead.
pub(crate) fn elapsed(since: Timestamp, now: Timestamp) -> Duration {
    Duration::try_from(now.duration_since(since)).unwrap_or(Duration::ZERO)
}

/// The moment so much later; the end of time when there is none.
pub(crate) fn after(start: Timestamp, duration: Duration) -> Timestamp {
    start.checked_add(duration).unwrap_or(Timestamp::MAX)
}
