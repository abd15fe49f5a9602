//! Functions that take the messages of their queues as Lambda gives them: batches of ten, and as many environments as there are
//! batches, up to a limit.

use super::taken::{Taken, peak_megabytes};
use nodeless_tests::lambda::{Function, binary, sample};
use nodeless_tests::stage::Stage;
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::{Mutex, mpsc};
use tokio::task::JoinHandle;

/// How many lifecycle functions run at most at a time, beside the planner.
const LIFECYCLES: usize = 9;
/// How often the queues are asked.
const POLL: Duration = Duration::from_millis(100);
/// How often EventBridge sends the heartbeat and the sweep.
const SCHEDULE: Duration = Duration::from_secs(60);

/// EC2 throttles the tags of hundreds of instances that join at once.
const THROTTLED: &str = "was throttled: RequestLimitExceeded";

/// A planner and lifecycle functions at work.
pub(crate) struct Pool {
    stop: Arc<AtomicBool>,
    planner: JoinHandle<(Function, Taken)>,
    lifecycles: Vec<JoinHandle<(Function, Taken)>>,
    dispatcher: JoinHandle<()>,
    busiest: Arc<AtomicUsize>,
}

/// What they did until they were stopped.
pub(crate) struct Done {
    pub(crate) planner: Function,
    pub(crate) lifecycle: Function,
    pub(crate) planned: Taken,
    pub(crate) reconciled: Taken,
    /// The most functions that worked at the same time.
    pub(crate) busiest: usize,
    /// The memory of the largest lifecycle function.
    pub(crate) lifecycle_megabytes: Option<u64>,
}

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
        let (send, batches) = mpsc::unbounded_channel();
        let batches = Arc::new(Mutex::new(batches));
        let mut lifecycles = Vec::new();
        for _ in 0..LIFECYCLES {
            let mut function = stage.function(&binary("lifecycle")).await;
            function.set_timeout(Duration::from_secs(90));
            function.allow_problem(THROTTLED);
            lifecycles.push(tokio::spawn(reconcile(function, Arc::clone(&batches), gauge.clone())));
        }
        let planner = tokio::spawn(plan(Arc::clone(stage), planner, Arc::clone(&stop), gauge.clone()));
        let dispatcher = tokio::spawn(dispatch(Arc::clone(stage), send, Arc::clone(&stop)));
        Self { stop, planner, lifecycles, dispatcher, busiest: gauge.max }
    }

    /// Lets the functions end what they do, and returns what they did.
    pub(crate) async fn stop(self) -> Done {
        self.stop.store(true, Ordering::Relaxed);
        self.dispatcher.await.unwrap();
        let (planner, planned) = self.planner.await.unwrap();
        let (mut reconciled, mut megabytes, mut last) = (Taken::default(), None, None);
        for lifecycle in self.lifecycles {
            let (function, taken) = lifecycle.await.unwrap();
            reconciled.add(&taken);
            megabytes = megabytes.max(peak_megabytes(&function));
            last = Some(function);
        }
        Done {
            planner,
            lifecycle: last.unwrap(),
            planned,
            reconciled,
            busiest: self.busiest.load(Ordering::Relaxed),
            lifecycle_megabytes: megabytes,
        }
    }
}

/// Passes the messages about claims on, ten in a batch, and the sweep of each minute.
async fn dispatch(stage: Arc<Stage>, send: mpsc::UnboundedSender<Value>, stop: Arc<AtomicBool>) {
    let mut swept = Instant::now();
    while !stop.load(Ordering::Relaxed) {
        let messages = stage.claims_messages().await;
        for batch in messages["Records"].as_array().unwrap().chunks(10) {
            send.send(json!({ "Records": batch })).unwrap();
        }
        if swept.elapsed() >= SCHEDULE {
            swept = Instant::now();
            send.send(sample("lifecycle.sweep.json")).unwrap();
        }
        tokio::time::sleep(POLL).await;
    }
}

/// Processes batches until there are no more.
async fn reconcile(
    mut function: Function,
    batches: Arc<Mutex<mpsc::UnboundedReceiver<Value>>>,
    gauge: Gauge,
) -> (Function, Taken) {
    let mut taken = Taken::default();
    loop {
        let batch = batches.lock().await.recv().await;
        let Some(batch) = batch else { return (function, taken) };
        gauge.during(taken.invoke(&mut function, &batch)).await;
    }
}

/// Plans at once, for the messages of the plan queue, and each minute.
async fn plan(stage: Arc<Stage>, mut function: Function, stop: Arc<AtomicBool>, gauge: Gauge) -> (Function, Taken) {
    let mut taken = Taken::default();
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
