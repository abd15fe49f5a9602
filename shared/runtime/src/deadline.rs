//! The deadline of the work for an event.

use jiff::Timestamp;
use std::future::Future;
use std::time::Duration;
use tokio::time::Instant;

/// The part of a function's time that is reserved for its answer to reach Lambda.
const KEPT_FOR_THE_ANSWER: Duration = Duration::from_secs(2);

/// When Lambda ends a function that has not answered. Lambda counts such an invocation as failed, and SQS delivers its messages
/// again until it moves them to the dead-letter queue, whatever the reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Deadline {
    at: Option<Timestamp>,
    work_until: Option<Instant>,
}

/// Work was canceled because Lambda would have ended the function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the work did not end before the function's timeout: the API server or an AWS service answers slowly or not at all, or the \
     function needs more memory or time (functions in Terraform)"
)]
pub struct OutOfTime;

impl Deadline {
    /// The deadline that Lambda reports, in milliseconds since 1970; zero if it is missing.
    ///
    /// Lambda reports a date and not a duration (<https://docs.aws.amazon.com/lambda/latest/dg/runtimes-api.html>). As in AWS's own
    /// runtimes, the remaining time is its difference from the local clock. It is computed once; the work is then bounded by a
    /// monotonic clock.
    pub(crate) fn of_lambda(milliseconds: u64) -> Self {
        let at = i64::try_from(milliseconds).ok().filter(|milliseconds| *milliseconds > 0);
        at.and_then(|at| Timestamp::from_millisecond(at).ok()).map_or_else(Self::default, Self::at)
    }

    /// A function that ends at this time.
    pub(crate) fn at(at: Timestamp) -> Self {
        let left = Duration::try_from(at.duration_since(Timestamp::now())).unwrap_or_default();
        let work_until = Instant::now().checked_add(left.saturating_sub(KEPT_FOR_THE_ANSWER));
        Self { at: Some(at), work_until }
    }

    /// The time itself, for work that is planned for the remaining time; `None` if Lambda does not report it.
    #[must_use]
    pub const fn timestamp(&self) -> Option<Timestamp> {
        self.at
    }

    /// The remaining time for work; `Duration::MAX` if Lambda does not report the deadline.
    #[must_use]
    pub fn left(&self) -> Duration {
        self.work_until.map_or(Duration::MAX, |until| until.saturating_duration_since(Instant::now()))
    }

    /// Works until shortly before the deadline. Work that is not finished is dropped, as when the process ends.
    ///
    /// # Errors
    /// When the work did not finish in time.
    pub async fn bound<T>(self, work: impl Future<Output = T>) -> Result<T, OutOfTime> {
        match self.work_until {
            None => Ok(work.await),
            Some(until) => tokio::time::timeout_at(until, work).await.map_err(|_| OutOfTime),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future;

    #[tokio::test]
    async fn work_without_end_is_given_up_before_lambda_ends_the_function() {
        let soon = Deadline::at(Timestamp::now() + KEPT_FOR_THE_ANSWER);
        assert_eq!(soon.bound(future::pending::<()>()).await, Err(OutOfTime));
        assert_eq!(Deadline::at(Timestamp::UNIX_EPOCH).bound(future::pending::<()>()).await, Err(OutOfTime));
    }

    #[tokio::test]
    async fn a_deadline_that_lambda_leaves_out_bounds_nothing() {
        let none = Deadline::of_lambda(0);
        assert_eq!((none, none.timestamp(), none.left()), (Deadline::default(), None, Duration::MAX));
        assert_eq!(Deadline::at(Timestamp::UNIX_EPOCH).left(), Duration::ZERO);
        assert_eq!(none.bound(tokio::task::yield_now()).await, Ok(()));
        let far = Deadline::of_lambda(4_000_000_000_000);
        assert_eq!(far.timestamp(), Timestamp::from_second(4_000_000_000).ok());
        assert_eq!(far.bound(tokio::task::yield_now()).await, Ok(()));
    }
}
