//! Arithmetic on times that cannot fail, and polling intervals.

use jiff::Timestamp;
use std::time::Duration;

/// The time that has passed since; zero for a future time.
pub(crate) fn elapsed(since: Timestamp, now: Timestamp) -> Duration {
    Duration::try_from(now.duration_since(since)).unwrap_or(Duration::ZERO)
}

/// The time after this duration; the maximum time on overflow.
pub(crate) fn after(start: Timestamp, duration: Duration) -> Timestamp {
    start.checked_add(duration).unwrap_or(Timestamp::MAX)
}

/// How often a terminating instance is read, as in Karpenter.
pub(crate) const TERMINATION_POLL: Duration = Duration::from_secs(5);

/// When the next step is due for a state that has lasted for `lasting`: an eighth of that, within bounds, because each step costs
/// an invocation.
pub(crate) fn poll_delay(lasting: Duration, shortest: Duration, longest: Duration) -> Duration {
    (lasting / 8).clamp(shortest, longest)
}
