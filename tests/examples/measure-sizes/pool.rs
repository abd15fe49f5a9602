//! Functions that take the messages of their queues as Lambda gives them: batches of ten, and as many environments as there are
//! batches, up to a limit. EC2's events reach the interruption functions as by the rules of the Terraform module.

use super::taken::{Measured, peak_megabytes, rounded};
use nodeless_tests::lambda::{Function, binary, sample};
use nodeless_tests::stage::Stage;
use serde_json::{Value, json};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::{Mutex, mpsc};
use tokio::task::JoinHandle;

/// The maximum concurrency of lifecycle functions, beside the planner.
const LIFECYCLES: usize = 9;
/// The maximum concurrency of interruption functions, as the Terraform module sets it.
const INTERRUPTIONS: usize = 5;
/// The states of instances whose events EventBridge sends to the interruption queue (terraform/events.tf).
const SENT_STATES: [&str; 4] = ["stopping", "stopped", "shutting-down", "terminated"];
/// The number of messages about claims in a batch.
const BATCH: usize = 10;
/// The number of EC2's events in a batch, and the time for which Lambda collects them (terraform/functions.tf).
const EVENTS: usize = 100;
const WINDOW: Duration = Duration::from_secs(1);
/// The interval at which the queues are polled.
const POLL: Duration = Duration::from_millis(100);
/// The interval at which EventBridge sends the heartbeat and the sweep.
const SCHEDULE: Duration = Duration::from_secs(60);

/// EC2 throttles the tags of hundreds of instances that join at once.
const THROTTLED: &str = "was throttled: RequestLimitExceeded";

/// A planner, lifecycle and interruption functions at work.
pub(crate) struct Pool {
    stop: Arc<AtomicBool>,
    planner: JoinHandle<(Function, Measured)>,
    lifecycles: Vec<JoinHandle<(Function, Measured)>>,
    interruptions: Vec<JoinHandle<(Function, Measured)>>,
    dispatcher: JoinHandle<()>,
    busiest: Arc<AtomicUsize>,
}

/// The results of a pool that was stopped.
pub(crate) struct Done {
    pub(crate) planner: Function,
    pub(crate) lifecycle: Function,
    pub(crate) planned: Measured,
    pub(crate) reconciled: Measured,
    pub(crate) interrupted: Measured,
    /// The most functions that worked at the same time.
    pub(crate) busiest: usize,
    /// The memory of the largest lifecycle function.
    pub(crate) lifecycle_megabytes: Option<u64>,
    /// The warnings and errors that the functions logged, without those of the planner and the lifecycle function here.
    pub(crate) problems: Vec<String>,
}

impl Done {
    /// What the functions took within these seconds.
    pub(crate) fn report(&self, seconds: f64) -> Value {
        json!({
            "seconds": rounded(seconds), "functionsAtOnce": self.busiest,
            "planner": self.planned.report(), "lifecycle": self.reconciled.report(),
        })
    }
}

/// The events for functions of one kind, a batch in each, which the functions take in turn.
type Batches = Arc<Mutex<mpsc::UnboundedReceiver<Value>>>;

/// Counts the functions that are at work.
#[derive(Clone, Default)]
struct Gauge {
    now: Arc<AtomicUsize>,
    max: Arc<AtomicUsize>,
}

impl Gauge {
    async fn during<T>(&self, work: impl Future<Output = T>) -> T {
        let now = self.now.fetch_add(1, Ordering::Relaxed) + 1;
        self.max.fetch_max(now, Ordering::Relaxed);
        let result = work.await;
        self.now.fetch_sub(1, Ordering::Relaxed);
        result
    }
}

impl Pool {
    pub(crate) async fn start(stage: &Arc<Stage>, planner: Function) -> Self {
        let (stop, gauge) = (Arc::new(AtomicBool::new(false)), Gauge::default());
        // Events from before are not sent any more, as if their messages had been handled.
        drop(state_changes(stage));
        let (claims, of_claims) = batches();
        let (events, of_events) = batches();
        let (mut lifecycles, mut interruptions) = (Vec::new(), Vec::new());
        for _ in 0..LIFECYCLES {
            let mut function = stage.function(&binary("lifecycle")).await;
            function.set_timeout(Duration::from_secs(90));
            function.allow_problem(THROTTLED);
            lifecycles.push(tokio::spawn(work(function, Arc::clone(&of_claims), gauge.clone())));
        }
        for _ in 0..INTERRUPTIONS {
            let function = stage.function(&binary("interruption")).await;
            interruptions.push(tokio::spawn(work(function, Arc::clone(&of_events), gauge.clone())));
        }
        let planner = tokio::spawn(plan(Arc::clone(stage), planner, Arc::clone(&stop), gauge.clone()));
        let dispatcher = tokio::spawn(dispatch(Arc::clone(stage), claims, events, Arc::clone(&stop)));
        Self { stop, planner, lifecycles, interruptions, dispatcher, busiest: gauge.max }
    }

    /// Lets the functions end what they do, and returns what they did.
    pub(crate) async fn stop(self) -> Done {
        self.stop.store(true, Ordering::Relaxed);
        self.dispatcher.await.unwrap();
        let (planner, planned) = self.planner.await.unwrap();
        let (mut reconciled, mut megabytes, mut last) = (Measured::default(), None, None);
        let mut problems = Vec::new();
        for lifecycle in self.lifecycles {
            let (function, taken) = lifecycle.await.unwrap();
            reconciled.add(&taken);
            megabytes = megabytes.max(peak_megabytes(&function));
            problems.extend(last.replace(function).into_iter().flat_map(Function::end));
        }
        let mut interrupted = Measured::default();
        for interruption in self.interruptions {
            let (function, taken) = interruption.await.unwrap();
            interrupted.add(&taken);
            problems.extend(function.end());
        }
        Done {
            planner,
            lifecycle: last.unwrap(),
            planned,
            reconciled,
            interrupted,
            busiest: self.busiest.load(Ordering::Relaxed),
            lifecycle_megabytes: megabytes,
            problems,
        }
    }
}

fn batches() -> (mpsc::UnboundedSender<Value>, Batches) {
    let (send, receive) = mpsc::unbounded_channel();
    (send, Arc::new(Mutex::new(receive)))
}

/// Passes on the messages about claims and the events of EC2, ten in a batch, and the sweep of each minute.
async fn dispatch(
    stage: Arc<Stage>,
    claims: mpsc::UnboundedSender<Value>,
    events: mpsc::UnboundedSender<Value>,
    stop: Arc<AtomicBool>,
) {
    let (mut swept, mut collected) = (Instant::now(), Instant::now());
    let mut arrived = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        let messages = stage.claims_messages().await;
        for batch in messages["Records"].as_array().unwrap().chunks(BATCH) {
            claims.send(json!({ "Records": batch })).unwrap();
        }
        arrived.extend(state_changes(&stage));
        if arrived.len() >= EVENTS || collected.elapsed() >= WINDOW {
            collected = Instant::now();
            for batch in std::mem::take(&mut arrived).chunks(EVENTS) {
                events.send(json!({ "Records": batch })).unwrap();
            }
        }
        if swept.elapsed() >= SCHEDULE {
            swept = Instant::now();
            claims.send(sample("lifecycle.sweep.json")).unwrap();
        }
        tokio::time::sleep(POLL).await;
    }
}

/// The events of instances that EventBridge has sent to the interruption queue since the last time, as messages.
fn state_changes(stage: &Stage) -> Vec<Value> {
    let record = stage.delivered("interruption.state-change.json")["Records"][0].clone();
    let events = stage.world.lock().unwrap_or_else(PoisonError::into_inner).take_events();
    let is_sent = |event: &Value| {
        event["detail-type"] == "EC2 Instance State-change Notification"
            && SENT_STATES.iter().any(|state| event["detail"]["state"] == *state)
    };
    let message = |event: Value| {
        let mut message = record.clone();
        message["messageId"] = json!(format!("{}-{}", event["detail"]["instance-id"], event["detail"]["state"]));
        message["body"] = json!(event.to_string());
        message
    };
    events.into_iter().filter(is_sent).map(message).collect()
}

/// Processes batches until there are no more.
async fn work(mut function: Function, batches: Batches, gauge: Gauge) -> (Function, Measured) {
    let mut taken = Measured::default();
    loop {
        let batch = batches.lock().await.recv().await;
        let Some(batch) = batch else { return (function, taken) };
        gauge.during(taken.invoke(&mut function, &batch)).await;
    }
}

/// Plans at once, for the messages of the plan queue, and each minute.
async fn plan(stage: Arc<Stage>, mut function: Function, stop: Arc<AtomicBool>, gauge: Gauge) -> (Function, Measured) {
    let mut taken = Measured::default();
    let mut planned: Option<Instant> = None;
    while !stop.load(Ordering::Relaxed) {
        let messages = stage.plan_messages().await;
        let requested = !messages["Records"].as_array().unwrap().is_empty();
        if requested || planned.is_none_or(|planned| planned.elapsed() >= SCHEDULE) {
            planned = Some(Instant::now());
            gauge.during(taken.invoke(&mut function, &sample("planner.heartbeat.json"))).await;
        }
        tokio::time::sleep(POLL).await;
    }
    (function, taken)
}
