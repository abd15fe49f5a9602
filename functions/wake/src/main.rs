//! The Function URL of the admission webhook, which only requests a plan.
//!
//! The API server waits for the answer, so the function answers at once and always "allowed". A lost wake-up is replaced by the
//! next heartbeat within a minute.
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod admission;
mod log_lines;

use admission::{Answer, Call, check};
use jiff::Timestamp;
use log_lines::PlannerNotWoken;
use nodeless_ports::Queue;
use nodeless_ports::queue::{WAKE_INTERVAL, WakeSource};
use nodeless_runtime::{Environment, EnvironmentError};
use nodeless_storage::SqsQueue;
use nodeless_telemetry::{Context, Stdout, SystemClock, log};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

struct Wake {
    cluster: String,
    secret_path: String,
    queue: SqsQueue,
    sent: Sent,
}

/// When the last message was sent.
#[derive(Default)]
struct Sent(Mutex<Option<Instant>>);

impl Sent {
    /// Whether a call at this time sends a message. Further calls within the interval send none: the plan of the message reads the
    /// cluster later.
    fn is_due(&self, now: Instant) -> bool {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let due = last.is_none_or(|last| now.duration_since(last) >= WAKE_INTERVAL);
        if due {
            *last = Some(now);
        }
        due
    }

    /// The message could not be sent: the next call tries again.
    fn failed(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

impl Wake {
    async fn handle(&self, call: Call) -> Answer {
        let checked = match check(&call, &self.secret_path) {
            Ok(checked) => checked,
            Err(answer) => return answer,
        };
        if checked.is_news(Timestamp::now())
            && self.sent.is_due(Instant::now())
            && let Err(error) = self.queue.wake_planner(WakeSource::Webhook).await
        {
            self.sent.failed();
            log(Some(&self.cluster), &PlannerNotWoken { error: &error.to_string() });
        }
        checked.answer
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), lambda_runtime::Error> {
    nodeless_telemetry::init()?;
    let wake = connect().await.map_err(|error| error.to_string())?;
    nodeless_runtime::run(async |call: Call| Ok(wake.handle(call).await)).await
}

/// Reads the environment first: a missing variable is reported before any slow call.
async fn connect() -> Result<Wake, EnvironmentError> {
    let environment = Environment::of_process();
    let secret_path = environment.required("NODELESS_WAKE_PATH", "the secret path of the webhook, such as /3f9c")?;
    let (cluster, plan_queue_url) = (environment.cluster_name()?, environment.plan_queue_url()?);
    let context = Context {
        cluster_name: cluster.clone(),
        clock: Arc::new(SystemClock),
        sink: Arc::new(Stdout { cluster: Some(cluster.clone()), ..Stdout::default() }),
    };
    let queue = SqsQueue::new(&nodeless_aws::load_config().await, context, plan_queue_url, None);
    Ok(Wake { cluster, secret_path, queue, sent: Sent::default() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn one_call_in_an_interval_sends_a_message() {
        let (sent, start) = (Sent::default(), Instant::now());
        let is_due = |milliseconds| sent.is_due(start + Duration::from_millis(milliseconds));
        assert_eq!([0, 300, 499, 500, 999, 1000].map(is_due), [true, false, false, true, false, true]);
        sent.failed();
        assert!(is_due(1001), "nothing was sent");
    }
}
