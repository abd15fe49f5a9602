//! nodeless at work in a local world: what schedules, queues and the webhook do in AWS, around the same operations.

use super::log::LocalFailure;
use jiff::Timestamp;
use nodeless_lifecycle::Settings;
use nodeless_operations::plan::PlanSettings;
use nodeless_operations::{CatalogCache, Context, Interrupter, Planner, Reconciler, Refresher, Sweeper};
use nodeless_ports::queue::WakeSource;
use nodeless_ports::{CatalogSource, Claims, Clock, Cloud, Cluster, Queue};
use nodeless_simulation::kubernetes::{ApiServer, Change, ChangeKind};
use nodeless_simulation::memory::MemoryQueue;
use nodeless_simulation::world::WorldClock;
use nodeless_telemetry::emit;
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc::UnboundedReceiver;

/// How often the queues are looked at, on the wall clock.
const POLL: Duration = Duration::from_millis(5);
/// The heartbeat and the sweep, as the Terraform module schedules them.
const MINUTE: Duration = Duration::from_mins(1);
/// The catalog's refresh, as the Terraform module schedules it.
const CATALOG_EVERY: Duration = Duration::from_mins(5);
/// The wake function sends at most one message in this time.
const WAKE_INTERVAL: Duration = Duration::from_secs(1);

/// What the operations work on.
pub(crate) struct Ports {
    pub(crate) claims: Arc<dyn Claims>,
    pub(crate) cluster: Arc<dyn Cluster>,
    pub(crate) cloud: Arc<dyn Cloud>,
    pub(crate) source: Arc<dyn CatalogSource>,
    pub(crate) queue: MemoryQueue,
}

/// Starts everything. It works until the process ends.
pub(crate) fn start(
    context: &Context,
    clock: &WorldClock,
    ports: &Ports,
    api: &ApiServer,
    events: UnboundedReceiver<Value>,
) {
    let Ports { claims, cluster, cloud, source, queue } = ports;
    let shared_queue: Arc<dyn Queue> = Arc::new(queue.clone());
    let settings = Settings::new(context.cluster_name.clone());
    let planner =
        Planner::new(context.clone(), claims.clone(), shared_queue.clone(), cluster.clone(), PlanSettings::default());
    let reconciler = Reconciler {
        context: context.clone(),
        claims: claims.clone(),
        queue: shared_queue.clone(),
        cluster: cluster.clone(),
        cloud: cloud.clone(),
        catalog: CatalogCache::default(),
        settings: settings.clone(),
    };
    let sweeper = Sweeper {
        context: context.clone(),
        claims: claims.clone(),
        queue: shared_queue.clone(),
        cluster: cluster.clone(),
        cloud: cloud.clone(),
        catalog: CatalogCache::default(),
        settings,
    };
    let refresher = Refresher {
        context: context.clone(),
        claims: claims.clone(),
        queue: shared_queue.clone(),
        cluster: cluster.clone(),
        source: source.clone(),
        catalog: CatalogCache::default(),
    };
    let interrupter =
        Interrupter { context: context.clone(), claims: claims.clone(), queue: shared_queue, cluster: cluster.clone() };
    tokio::spawn(plan(planner, queue.clone(), clock.clone()));
    tokio::spawn(reconcile(reconciler, queue.clone()));
    tokio::spawn(heartbeat(queue.clone(), clock.clone()));
    tokio::spawn(sweep(sweeper, clock.clone()));
    tokio::spawn(refresh(refresher, clock.clone(), api.clone()));
    tokio::spawn(interrupt(interrupter, events));
    tokio::spawn(wake(queue.clone(), clock.clone(), api.clone()));
}

/// The planner function behind the plan queue: one plan at a time.
async fn plan(planner: Planner, queue: MemoryQueue, clock: WorldClock) {
    let mut due: Option<Timestamp> = None;
    loop {
        let is_due = due.is_some_and(|due| due <= clock.time());
        if queue.take_plan().is_none() && !is_due {
            tokio::time::sleep(POLL).await;
            continue;
        }
        match planner.run().await {
            Ok(report) => due = report.next.map(|delay| later(&clock, delay)),
            Err(error) => {
                tell(&planner.context, "plan", &error);
                // A message that failed comes again.
                due = Some(later(&clock, MINUTE));
            }
        }
    }
}

/// The lifecycle function behind the claims queue.
async fn reconcile(reconciler: Reconciler, queue: MemoryQueue) {
    loop {
        let due = queue.take_claims();
        if due.is_empty() {
            tokio::time::sleep(POLL).await;
        }
        for claim in due {
            if let Err(error) = reconciler.run(&claim).await {
                tell(&reconciler.context, "lifecycle", &error);
                // A message that failed comes again.
                let _lost_until_the_sweep = queue.wake_claims(&[(claim, MINUTE)]).await;
            }
        }
    }
}

async fn heartbeat(queue: MemoryQueue, clock: WorldClock) {
    loop {
        clock.sleep(MINUTE).await;
        // The next heartbeat is a minute away.
        let _lost_until_then = queue.wake_planner(WakeSource::Heartbeat).await;
    }
}

async fn sweep(sweeper: Sweeper, clock: WorldClock) {
    loop {
        clock.sleep(MINUTE).await;
        if let Err(error) = sweeper.run().await {
            tell(&sweeper.context, "sweep", &error);
        }
    }
}

/// The catalog function: at the beginning, on its schedule, and when an EC2NodeClass was made, changed or deleted.
async fn refresh(refresher: Refresher, clock: WorldClock, api: ApiServer) {
    let mut seen = api.revision();
    loop {
        if let Err(error) = refresher.run().await {
            tell(&refresher.context, "catalog", &error);
        }
        let schedule = clock.sleep(CATALOG_EVERY);
        tokio::select! {
            () = schedule => {}
            () = changed(&api, &mut seen, is_news_of_class) => {}
        }
    }
}

/// EventBridge and the interruption function.
async fn interrupt(interrupter: Interrupter, mut events: UnboundedReceiver<Value>) {
    while let Some(event) = events.recv().await {
        if let Err(error) = interrupter.run(&event.to_string()).await {
            tell(&interrupter.context, "interruption", &error);
        }
    }
}

/// The webhook and the wake function.
async fn wake(queue: MemoryQueue, clock: WorldClock, api: ApiServer) {
    let mut seen = 0;
    loop {
        changed(&api, &mut seen, is_about_pod_that_waits).await;
        // The heartbeat wakes it within a minute otherwise.
        let _lost_until_then = queue.wake_planner(WakeSource::Webhook).await;
        clock.sleep(WAKE_INTERVAL).await;
    }
}

/// Waits for a change of this kind after the revision that was seen last.
async fn changed(api: &ApiServer, seen: &mut u64, wanted: fn(&Change) -> bool) {
    let mut revisions = api.subscribe();
    loop {
        let now = *revisions.borrow_and_update();
        // A history that does not reach back so far may have held such a change.
        let found = api.watch_since(None, *seen).map_or(true, |changes| changes.iter().any(wanted));
        *seen = now;
        if found {
            return;
        }
        if revisions.changed().await.is_err() {
            return;
        }
    }
}

fn is_news_of_class(change: &Change) -> bool {
    let part = |object: &Value, pointer: &str| object.pointer(pointer).cloned();
    let same = |previous: &Value| {
        ["/metadata/generation", "/metadata/deletionTimestamp"]
            .iter()
            .all(|pointer| part(previous, pointer) == part(&change.object, pointer))
    };
    change.resource.kind == "EC2NodeClass"
        && change.kind != ChangeKind::Deleted
        && !change.previous.as_deref().is_some_and(same)
}

/// What the webhook's matchConditions let through.
fn is_about_pod_that_waits(change: &Change) -> bool {
    let text = |pointer: &str| change.object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    change.resource.kind == "Event"
        && change.kind != ChangeKind::Deleted
        && text("/reason") == "FailedScheduling"
        && [text("/involvedObject/kind"), text("/regarding/kind")].contains(&"Pod")
        && !["/reportingController", "/reportingComponent", "/source/component"].iter().any(|pointer| {
            let reporter = text(pointer);
            reporter.starts_with("nodeless") || reporter.starts_with("karpenter")
        })
}

fn later(clock: &WorldClock, delay: Duration) -> Timestamp {
    clock.time().saturating_add(delay).unwrap_or(Timestamp::MAX)
}

/// Says that an operation failed as a whole. It is tried again, as in AWS.
fn tell(context: &Context, what: &'static str, error: &dyn std::error::Error) {
    emit(context.sink.as_ref(), context.clock.now(), &LocalFailure { what, why: error.to_string() });
}
