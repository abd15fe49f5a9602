//! Test doubles of a cluster, an EC2 account and a clock, small enough to set every value directly. Faults are injected as in the
//! simulation.
#![allow(dead_code, unused_imports, reason = "each test uses its part")]
#![allow(unreachable_pub, clippy::unwrap_used, reason = "a test may fail by panic, and only tests use this")]

mod cloud;
mod cluster;
pub mod watched;

pub use cloud::{Answering, TestCloud};
pub use cluster::{TestCluster, node_pool};
pub use watched::{check_drifted_away, check_order, check_quiescent, drift, phases, running_town, watched};

use jiff::Timestamp;
use nodeless_catalog::{Catalog, Facts};
use nodeless_lifecycle::Settings;
use nodeless_model::{NodeClaim, Pod, Quantity, ResourceList};
use nodeless_operations::plan::PlanSettings;
use nodeless_operations::{CatalogCache, Context, EventRate, Interrupter, Planner, Reconciler, Sweeper};
use nodeless_ports::queue::WakeSource;
use nodeless_ports::{Claims, Cloud, Cluster, Queue, Shards, State, StoredCatalog, ZonalShifts};
use nodeless_telemetry::Captured;
use nodeless_world::WorldClock;
use nodeless_world::fault_injection::{
    FaultInjection, FaultyClaims, FaultyCloud, FaultyCluster, FaultyQueue, FaultyZonalShifts,
};
use nodeless_world::memory::{MemoryClaims, MemoryQueue, MemoryZonalShifts};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

pub const CLUSTER: &str = "town";

/// The ports of the operations.
#[derive(Clone)]
pub struct Ports {
    pub claims: Arc<dyn State>,
    pub queue: Arc<dyn Queue>,
    pub cluster: Arc<dyn Cluster>,
    pub cloud: Arc<dyn Cloud>,
}

pub struct Town {
    pub clock: WorldClock,
    pub faults: FaultInjection,
    pub claims: MemoryClaims,
    pub queue: MemoryQueue,
    pub cluster: TestCluster,
    pub cloud: TestCloud,
    pub zonal_shifts: MemoryZonalShifts,
    /// What operations call: the doubles above, with faults injected.
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

impl Town {
    /// A town with the NodePool and EC2NodeClass `default`, and a catalog of three types.
    pub async fn new() -> Self {
        let clock = WorldClock::new(Timestamp::from_second(1_800_000_000).unwrap());
        let faults = FaultInjection::scripted(clock.clone());
        let claims = MemoryClaims::default();
        claims.put_catalog("1", &small_catalog().encode().unwrap()).await.unwrap();
        let queue = MemoryQueue::new(Arc::new(clock.clone()));
        let cluster = TestCluster::new(clock.clone());
        let cloud = TestCloud::new(clock.clone());
        let sink = Arc::new(Captured::default());
        let settings = PlanSettings { zonal_shift: true, ..PlanSettings::default() };
        let ports = Ports {
            claims: Arc::new(FaultyClaims { inner: Arc::new(claims.clone()), fault_injection: faults.clone() }),
            queue: Arc::new(FaultyQueue { inner: Arc::new(queue.clone()), fault_injection: faults.clone() }),
            cluster: Arc::new(FaultyCluster::new(Arc::new(cluster.clone()), faults.clone())),
            cloud: Arc::new(FaultyCloud::new(Arc::new(cloud.clone()), faults.clone())),
        };
        let context = Context { cluster_name: CLUSTER.into(), clock: Arc::new(clock.clone()), sink: sink.clone() };
        let planner = planner(&context, &ports, &settings);
        let reconciler = reconciler(&context, &ports);
        Self {
            clock,
            claims,
            queue,
            cluster,
            cloud,
            zonal_shifts: MemoryZonalShifts::default(),
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

    pub async fn claims_named(&self, names: &[String]) -> Vec<NodeClaim> {
        self.records().await.into_iter().filter(|claim| names.contains(&claim.name)).collect()
    }

    pub fn reconciler(&self) -> &Reconciler {
        &self.reconciler
    }

    pub fn sweeper(&self) -> Sweeper {
        let Ports { claims, queue, cluster, cloud } = self.ports.clone();
        let (inner, fault_injection) = (Arc::new(self.zonal_shifts.clone()), self.faults.clone());
        let zonal_shifts: Arc<dyn ZonalShifts> = Arc::new(FaultyZonalShifts { inner, fault_injection });
        Sweeper {
            context: self.context(),
            claims,
            queue,
            cluster,
            cloud,
            catalog: CatalogCache::default(),
            settings: Settings::new(CLUSTER),
            zonal_shifts: Some(zonal_shifts),
        }
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
        self.queue.wake_shard(0, Duration::ZERO).await.unwrap();
    }

    /// Wakes the planner, as the webhook does for pods that wait.
    pub async fn queue_wake(&mut self) {
        self.process(async |town| drop(town.ports.queue.wake_planner(WakeSource::Webhook).await)).await;
    }

    pub async fn records(&self) -> Vec<NodeClaim> {
        self.claims.list().await.unwrap()
    }

    /// Five seconds: wake-ups are served, machines boot and join, pods are bound. Once a minute there is a plan and a sweep
    /// whatever happens. Returns whether a process was killed.
    pub async fn tick(&mut self) -> bool {
        self.ticks += 1;
        let killed = self.killed;
        let minute = self.ticks.is_multiple_of(12);
        if self.queue.take_plan().is_some() || minute {
            self.process(async |town| drop(town.planner.run().await)).await;
        }
        for shard in self.queue.take_shards() {
            self.process(async |town| drop(town.reconciler.run_shard(shard).await)).await;
        }
        if minute {
            self.process(async |town| drop(town.sweeper().run().await)).await;
        }
        self.cloud.boot();
        self.cluster.join(&self.cloud.running());
        self.cluster.bind();
        for claim in self.claims.list().await.unwrap() {
            self.history.extend(claim.status.instance.map(|instance| (claim.name, instance.id)));
        }
        self.clock.advance_to(self.clock.time().checked_add(Duration::from_secs(5)).unwrap());
        self.killed > killed
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

fn planner(context: &Context, ports: &Ports, settings: &PlanSettings) -> Planner {
    let Ports { claims, queue, cluster, .. } = ports.clone();
    Planner::new(context.clone(), claims, queue, cluster, settings.clone())
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
        settings: Settings::new(CLUSTER),
        zonal_shift: true,
        min_values_strict: true,
    }
}

pub fn small_catalog() -> Catalog {
    let mut catalog = Catalog::synthetic(1, Facts::embedded().unwrap());
    catalog.types.retain(|entry| ["m6i.large", "m6i.xlarge", "c6i.xlarge"].contains(&entry.facts.name.as_str()));
    catalog
}

pub fn pod(name: &str, milli_cpu: i64) -> Pod {
    Pod {
        namespace: "default".into(),
        name: name.into(),
        uid: format!("uid-{name}"),
        owner_kind: Some("ReplicaSet".into()),
        requests: ResourceList::from([
            ("cpu", Quantity::from_milli(milli_cpu)),
            ("memory", Quantity::from_mebibytes(256)),
            ("pods", Quantity::from_units(1)),
        ]),
        marked_unschedulable: true,
        termination_grace_period_seconds: Some(30),
        ..Pod::default()
    }
}
