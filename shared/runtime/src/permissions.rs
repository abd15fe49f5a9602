//! Calls of a role whose policy was written seconds before.
//!
//! Terraform invokes the installer, and the catalog for the first time, as soon as their roles have policies. IAM is eventually
//! consistent: <https://docs.aws.amazon.com/IAM/latest/UserGuide/troubleshoot.html#troubleshoot_general_eventual-consistency>.

use crate::log_lines::WaitingForPermission;
use nodeless_telemetry::log;
use std::fmt::Display;
use std::time::Duration;
use tokio::time::sleep;

/// How long a policy may take to apply.
const ALLOWED_WITHIN: Duration = Duration::from_secs(60);
/// The wait between two calls.
const RETRY: Duration = Duration::from_secs(5);

/// Makes a call, and repeats it while it is denied: for a minute, and within the remaining time of the function.
///
/// # Errors
/// Those of the last call. An error that is no denial is returned at once.
pub async fn once_allowed<T, E: Display, F: Future<Output = Result<T, E>>>(
    cluster: Option<&str>,
    time: Duration,
    is_denied: impl Fn(&E) -> bool,
    call: impl Fn() -> F,
) -> Result<T, E> {
    repeated(cluster, time, sleep, is_denied, call).await
}

async fn repeated<T, E: Display, F: Future<Output = Result<T, E>>>(
    cluster: Option<&str>,
    time: Duration,
    wait: impl AsyncFn(Duration),
    is_denied: impl Fn(&E) -> bool,
    call: impl Fn() -> F,
) -> Result<T, E> {
    let mut left = time.min(ALLOWED_WITHIN);
    loop {
        match call().await {
            // A denial is answered at once, so the waits are what takes time.
            Err(error) if is_denied(&error) && left >= RETRY => {
                log(cluster, &WaitingForPermission { error: &error.to_string() });
                wait(RETRY).await;
                left -= RETRY;
            }
            done => return done,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    /// Makes a call whose first results are this error. Returns its result, how often it was made, and for how long it waited.
    async fn call(error: &str, times: u32, time: Duration) -> (Result<(), String>, u32, Duration) {
        let (calls, waited) = (Cell::new(0), Cell::new(Duration::ZERO));
        let one = async || {
            calls.set(calls.get() + 1);
            if calls.get() > times { Ok(()) } else { Err(error.to_owned()) }
        };
        let wait = async |duration| waited.set(waited.get() + duration);
        let result = repeated(None, time, wait, |error: &String| error == "denied", one).await;
        (result, calls.get(), waited.get())
    }

    #[tokio::test]
    async fn a_policy_may_take_a_minute_to_apply() {
        assert_eq!(call("denied", 0, Duration::MAX).await, (Ok(()), 1, Duration::ZERO));
        assert_eq!(call("denied", 3, Duration::MAX).await, (Ok(()), 4, Duration::from_secs(15)));
        let lacking = call("denied", 100, Duration::MAX).await;
        assert_eq!(
            lacking,
            (Err("denied".to_owned()), 13, Duration::from_secs(60)),
            "then the role lacks the permission"
        );
    }

    #[tokio::test]
    async fn the_function_answers_before_it_ends() {
        let (result, calls, waited) = call("denied", 100, Duration::from_secs(12)).await;
        assert_eq!((result.is_err(), calls, waited), (true, 3, Duration::from_secs(10)));
        assert_eq!(call("denied", 100, Duration::ZERO).await.1, 1);
    }

    #[tokio::test]
    async fn another_error_is_final() {
        assert_eq!(call("no such cluster", 100, Duration::MAX).await.1, 1);
    }
}
