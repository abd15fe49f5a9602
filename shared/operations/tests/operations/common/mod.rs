//! The simulated world in small: its cluster, account and clock, in which machines start and join without delay. Faults are
//! injected as in the simulation.
#![allow(dead_code, unused_imports, reason = "each test uses its part")]
#![allow(unreachable_pub, clippy::unwrap_used, reason = "a test may fail by panic, and only tests use this")]
#![allow(clippy::needless_pass_by_value, reason = "tests write a patch where they apply it")]

mod cloud;
mod cluster;
mod deployment;
mod manifests;
pub mod watched;

pub use cloud::TestCloud;
pub use cluster::TestCluster;
pub use deployment::Deployment;
pub use manifests::{invalid_pod, node_class, node_pool, pod, static_pool};
pub use watched::{
    check_drifted_away, check_nodes, check_order, check_quiescent, drift, fixed_cluster, has_new_hash, is_quiescent,
    phases, running_cluster, watched,
};

use async_trait::async_trait;
use jiff::Timestamp;
use nodeless_catalog::{Catalog, Facts};
use nodeless_lifecycle::Settings;
use nodeless_model::NodeClaim;
use nodeless_operations::{CatalogCache, Context, EventRate};
use nodeless_planner::{PlanSettings, Planner};
use nodeless_ports::queue::{ShardMessage, WakeSource};
use nodeless_ports::{Clock, Cloud, Cluster, Queue, ZonalShifts};
use nodeless_reconciler::{Interrupter, NominationSwitch, Reconciler, Sweeper};
use nodeless_state::State;
use nodeless_telemetry::Captured;
use nodeless_world::WorldClock;
use nodeless_world::fault_injection::{
    FaultInjection, FaultyCloud, FaultyCluster, FaultyQueue, FaultyTable, FaultyZonalShifts,
};
use nodeless_world::memory::{MemoryQueue, MemoryState, MemoryZonalShifts, MeteredTable};
use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

pub const CLUSTER: &str = "test";
/// When each test begins.
const START: Timestamp = Timestamp::constant(1_800_000_000, 0);

/// The ports of the operations.
#[derive(Clone)]
pub struct Ports {
    pub claims: State,
    pub queue: Arc<dyn Queue>,
    pub cluster: Arc<dyn Cluster>,
    pub cloud: Arc<dyn Cloud>,
}

pub struct Harness {
    pub clock: WorldClock,
    pub faults: FaultInjection,
    pub claims: MemoryState,
    /// The limits of the table that operations call.
    pub table: MeteredTable,
    pub queue: MemoryQueue,
    pub cluster: TestCluster,
    pub cloud: TestCloud,
    pub zonal_shifts: MemoryZonalShifts,
    /// The ports of operations: the doubles above, with faults injected.
    pub ports: Ports,
    pub sink: Arc<Captured>,
    /// Every claim that was ever seen, with the instance that it had.
    pub history: BTreeSet<(String, String)>,
    settings: PlanSettings,
    /// How many processes were killed.
    pub killed: u32,
    planner: Planner,
    reconciler: Reconciler,
    ticks: u64,
}

impl Harness {
    /// A cluster with the NodePool and EC2NodeClass `default`, and a catalog of three types.
    pub async fn new() -> Self {
        let cluster = TestCluster::new();
        let clock = cluster.world().clock().clone();
        let cloud = TestCloud::new(cluster.world().ec2().clone(), clock.clone());
        cluster.configure(&cloud).await;
        let faults = FaultInjection::scripted(clock.clone());
        let claims = MemoryState::default();
        let table = MeteredTable::new(Arc::new(claims.table().clone()), Arc::new(clock.clone()));
        claims.put_catalog("1", stored_catalog(), clock.time()).await.unwrap();
        let queue = MemoryQueue::new(Arc::new(clock.clone()));
        let zonal_shifts = cluster.world().zonal_shifts().clone();
        let sink = Arc::new(Captured::default());
        let settings = PlanSettings { zonal_shift: true, ..PlanSettings::default() };
        let ports = Ports {
            claims: State::new(Arc::new(FaultyTable {
                inner: Arc::new(table.clone()),
                fault_injection: faults.clone(),
            })),
            queue: Arc::new(FaultyQueue { inner: Arc::new(queue.clone()), fault_injection: faults.clone() }),
            cluster: Arc::new(FaultyCluster::new(Arc::new(cluster.port.clone()), faults.clone())),
            cloud: Arc::new(FaultyCloud::new(Arc::new(cloud.port.clone()), faults.clone())),
        };
        let context = Context { cluster_name: CLUSTER.into(), clock: Arc::new(clock.clone()), sink: sink.clone() };
        let planner = planner(&context, &ports, &settings);
        let reconciler = reconciler(&context, &ports);
        Self {
            clock,
            claims,
            table,
            queue,
            zonal_shifts,
            cluster,
            cloud,
            ports,
            faults,
            sink,
            history: BTreeSet::new(),
            settings,
            killed: 0,
            planner,
            reconciler,
            ticks: 0,
        }
    }

    pub fn context(&self) -> Context {
        Context { cluster_name: CLUSTER.into(), clock: Arc::new(self.clock.clone()), sink: self.sink.clone() }
    }

    pub fn planner(&self) -> &Planner {
        &self.planner
    }

    /// A planner with an empty memory.
    pub fn cold_planner(&self) -> Planner {
        planner(&self.context(), &self.ports, &self.settings)
    }

    /// Changes the settings of plans.
    pub fn set(&mut self, settings: PlanSettings) {
        self.settings = settings;
        self.planner = self.cold_planner();
    }

    /// A planner whose clock is ahead of that of the other processes.
    pub fn planner_ahead(&self, by: Duration) -> Planner {
        let clock = Arc::new(Ahead { clock: self.clock.clone(), by });
        planner(&Context { clock, ..self.context() }, &self.ports, &self.settings)
    }

    /// The deployment `next` serves the cluster from now on, with empty memory. Returns the one that served it before.
    pub fn serve_with(&mut self, next: Deployment) -> Deployment {
        let (claims, queue) = (self.claims.clone(), self.queue.clone());
        let before = Deployment::new(self, claims, queue);
        (self.claims, self.queue) = (next.claims, next.queue);
        let (context, injected) = (self.context(), self.faults.clone());
        self.table = MeteredTable::new(Arc::new(self.claims.table().clone()), Arc::new(self.clock.clone()));
        self.ports.claims = State::new(Arc::new(FaultyTable {
            inner: Arc::new(self.table.clone()),
            fault_injection: injected.clone(),
        }));
        self.ports.queue = Arc::new(FaultyQueue { inner: Arc::new(self.queue.clone()), fault_injection: injected });
        self.planner = self.cold_planner();
        self.reconciler = reconciler(&context, &self.ports);
        before
    }

    pub async fn claims_named(&self, names: &[String]) -> Vec<NodeClaim> {
        self.records().await.into_iter().filter(|claim| names.contains(&claim.name)).collect()
    }

    pub fn reconciler(&self) -> &Reconciler {
        &self.reconciler
    }

    pub fn sweeper(&self) -> Sweeper {
        let (inner, fault_injection) = (Arc::new(self.zonal_shifts.clone()), self.faults.clone());
        sweeper(&self.context(), &self.ports, Arc::new(FaultyZonalShifts { inner, fault_injection }))
    }

    pub fn interrupter(&self) -> Interrupter {
        let Ports { claims, queue, cluster, .. } = self.ports.clone();
        Interrupter { context: self.context(), claims, queue, cluster }
    }

    /// Starts another planner, with an empty memory.
    pub fn restart(&mut self) {
        self.planner = self.cold_planner();
    }

    /// Runs a process to its end. Returns its result, or nothing when it was killed: then it is followed by one that remembers
    /// nothing, and what it was working on is lost.
    pub async fn process<T>(&mut self, run: impl AsyncFnOnce(&Self) -> T) -> Option<T> {
        let faults = self.faults.clone();
        let result = faults.process(Box::pin(run(self))).await;
        if result.is_none() {
            self.killed += 1;
            self.planner = self.cold_planner();
            self.reconciler = reconciler(&self.context(), &self.ports);
        }
        result
    }

    /// The claims that are due, in all shards. Nothing is due any more then, and the messages are taken.
    pub async fn take_claims(&self) -> Vec<String> {
        let _messages = self.queue.take_shards();
        let now = self.clock.time();
        let mut names = Vec::new();
        for mut shard in self.claims.shards().await.unwrap() {
            names.extend(shard.due.iter().filter(|(_, at)| **at <= now).map(|(name, _)| name.clone()));
            shard.due.retain(|_, at| *at > now);
            shard.message = None;
            self.claims.put_shard(&shard).await.unwrap();
        }
        names
    }

    /// Has a claim reconciled now.
    pub async fn wake_claim(&self, name: &str) {
        let mut shard = self.claims.shard(0).await.unwrap().unwrap_or_default();
        shard.due.insert(name.to_owned(), self.clock.time());
        self.claims.put_shard(&shard).await.unwrap();
        self.queue.wake_shard(message(0), Duration::ZERO).await.unwrap();
    }

    /// Wakes the planner, as the webhook does for pods that wait.
    pub async fn queue_wake(&mut self) {
        self.process(async |harness| drop(harness.ports.queue.wake_planner(WakeSource::Webhook).await)).await;
    }

    pub async fn records(&self) -> Vec<NodeClaim> {
        self.claims.list().await.unwrap()
    }

    /// Five seconds: wake-ups are served, machines start and join, pods are bound. Once a minute there is a plan and a sweep
    /// whatever happens. Returns whether a process was killed.
    pub async fn tick(&mut self) -> bool {
        self.ticks += 1;
        let killed = self.killed;
        let minute = self.ticks.is_multiple_of(12);
        if self.queue.take_plan().is_some() || minute {
            self.process(async |harness| drop(harness.planner.run().await)).await;
        }
        for shard in self.queue.take_shards() {
            self.process(async |harness| drop(harness.reconciler.run_shard(shard).await)).await;
        }
        if minute {
            self.process(async |harness| drop(harness.sweeper().run().await)).await;
        }
        for claim in self.claims.list().await.unwrap() {
            self.history.extend(claim.status.instance.map(|instance| (claim.name, instance.id)));
        }
        self.cluster.advance(Duration::from_secs(5));
        self.killed > killed
    }

    /// Machines that never joined do so now, and later machines, too.
    pub fn repair_joins(&self) {
        self.cloud.end_launch_faults();
        self.cloud.ids().iter().for_each(|id| self.cluster.join_late(id));
    }

    /// Ticks until something holds.
    pub async fn until(&mut self, what: &str, mut holds: impl FnMut(&Self) -> bool) {
        for _ in 0..240 {
            if holds(self) {
                return;
            }
            self.tick().await;
        }
        panic!("{what} did not come true in twenty minutes: {:#?}\n{:#?}", self.records().await, self.sink.take());
    }

    /// Ticks for so many minutes.
    pub async fn minutes(&mut self, minutes: u32) {
        for _ in 0..minutes * 12 {
            self.tick().await;
        }
    }
}

/// A clock that is ahead of another.
struct Ahead {
    clock: WorldClock,
    by: Duration,
}

#[async_trait]
impl Clock for Ahead {
    fn now(&self) -> Timestamp {
        self.clock.time() + self.by
    }

    async fn sleep(&self, duration: Duration) {
        self.clock.sleep(duration).await;
    }
}

/// A message about a shard that is not the shard's last one.
pub fn message(shard: u32) -> ShardMessage {
    ShardMessage { shard, number: 0 }
}

fn planner(context: &Context, ports: &Ports, settings: &PlanSettings) -> Planner {
    let Ports { claims, queue, cluster, .. } = ports.clone();
    // The clock stands still while a plan is made, so none waits for further pods.
    let settings = PlanSettings { batch_idle: Duration::ZERO, batch_max: Duration::ZERO, ..settings.clone() };
    Planner::new(context.clone(), claims, queue, cluster, settings)
}

fn reconciler(context: &Context, ports: &Ports) -> Reconciler {
    let Ports { claims, queue, cluster, cloud } = ports.clone();
    Reconciler {
        context: context.clone(),
        claims,
        queue,
        cluster,
        cloud,
        catalog: CatalogCache::default(),
        events: EventRate::default(),
        nominations: NominationSwitch::default(),
        settings: Settings::new(CLUSTER),
        zonal_shift: true,
        min_values_strict: true,
    }
}

fn sweeper(context: &Context, ports: &Ports, zonal_shifts: Arc<dyn ZonalShifts>) -> Sweeper {
    let Ports { claims, queue, cluster, cloud } = ports.clone();
    Sweeper {
        context: context.clone(),
        claims,
        queue,
        cluster,
        cloud,
        catalog: CatalogCache::default(),
        settings: Settings::new(CLUSTER),
        zonal_shifts: Some(zonal_shifts),
    }
}

/// A catalog of three instance types, made once for all tests.
pub fn small_catalog() -> Catalog {
    static CATALOG: OnceLock<Catalog> = OnceLock::new();
    let make = || {
        let mut catalog = Catalog::synthetic(1, Facts::embedded().unwrap());
        catalog.types.retain(|entry| ["m6i.large", "m6i.xlarge", "c6i.xlarge"].contains(&entry.facts.name.as_str()));
        catalog
    };
    CATALOG.get_or_init(make).clone()
}

/// The small catalog as it is stored.
fn stored_catalog() -> &'static [u8] {
    static STORED: OnceLock<Vec<u8>> = OnceLock::new();
    STORED.get_or_init(|| small_catalog().encode().unwrap())
}
