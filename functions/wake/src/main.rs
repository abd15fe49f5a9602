//! The Function URL of the admission webhook, which only requests a plan.
//!
//! The API server waits for the answer, so the function answers at once and always "allowed". A lost wake-up is replaced by the
//! next heartbeat within a minute. `nodeless_model::wake_ups` decides which calls request a plan.
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod admission;
mod log_lines;

use admission::{Answer, Call, Checked, check};
use jiff::{SignedDuration, Timestamp};
use log_lines::PlannerNotWoken;
use nodeless_model::wake_ups::WakeUps;
use nodeless_ports::Queue;
use nodeless_ports::queue::{WAKE_INTERVAL, WakeSource};
use nodeless_runtime::{Environment, EnvironmentError};
use nodeless_storage::SqsQueue;
use nodeless_telemetry::{Context, Stdout, SystemClock, log};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

struct Wake {
    cluster: String,
    secret_path: String,
    queue: SqsQueue,
    wake_ups: Mutex<WakeUps>,
}

impl Wake {
    /// The source of a wake-up for a call, if it requests a plan.
    fn requested(&self, call: &Checked, now: Timestamp) -> Option<WakeSource> {
        if !call.is_news(now) {
            return None;
        }
        let interval = SignedDuration::try_from(WAKE_INTERVAL).unwrap_or_default();
        let mut wake_ups = self.wake_ups();
        match &call.pod {
            Some(pod) => wake_ups.requests_plan(&pod.namespace, &pod.uid, interval, now).then_some(WakeSource::Webhook),
            None => wake_ups.requests_plan_for_object(interval, now).then_some(WakeSource::Object),
        }
    }

    fn wake_ups(&self) -> MutexGuard<'_, WakeUps> {
        self.wake_ups.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn handle(&self, call: Call) -> Answer {
        let checked = match check(&call, &self.secret_path) {
            Ok(checked) => checked,
            Err(answer) => return answer,
        };
        if let Some(source) = self.requested(&checked, Timestamp::now())
            && let Err(error) = self.queue.wake_planner(source).await
        {
            self.wake_ups().request_failed();
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
    Ok(Wake { cluster, secret_path, queue, wake_ups: Mutex::default() })
}
