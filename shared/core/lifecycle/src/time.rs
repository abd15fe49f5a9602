//! Arithmetic with points in time that cannot fail, and how often something is polled.

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

/// How often an instance that is being terminated is read, as in Karpenter.
pub(crate) const TERMINATION_POLL: Duration = Duration::from_secs(5);

/// How long to wait before the next step of something that has lasted for `lasting`: an eighth of that, within bounds,
/// since each step costs an invocation.
pub(crate) fn poll_delay(lasting: Duration, shortest: Duration, longest: Duration) -> Duration {
    (lasting / 8).clamp(shortest, longest)
}
