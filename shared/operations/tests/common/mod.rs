//! A small town to run operations in: a cluster, an EC2 account and a clock, with faults in the way of every write.
#![allow(dead_code, unused_imports, reason = "each test uses its part")]
#![allow(unreachable_pub, clippy::unwrap_used, reason = "a test may fail by panic, and nobody else uses this")]

mod cloud;
mod cluster;
pub mod watched;

pub use cloud::{Answering, TestCloud};
pub use cluster::{TestCluster, node_pool};
pub use watched::{check_drifted_away, check_order, check_rest, drift, phases, running_town, watched};

use jiff::Timestamp;
use nodeless_catalog::{Catalog, Facts};
use nodeless_lifecycle::Settings;
use nodeless_model::{NodeClaim, Pod, Quantity, ResourceList};
use nodeless_operations::plan::PlanSettings;
use nodeless_operations::{CatalogCache, Context, Interrupter, Planner, Reconciler, Sweeper};
use nodeless_ports::queue::WakeSource;
use nodeless_ports::{Claims, Queue, StoredCatalog};
use nodeless_telemetry::Captured;
use nodeless_world::WorldClock;
use nodeless_world::memory::{Faults, MemoryClaims, MemoryQueue, MemoryZonalShifts};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

pub const CLUSTER: &str = "town";

pub struct Town {
    pub clock: WorldClock,
    pub faults: Faults,
    pub claims: MemoryClaims,
    pub queue: MemoryQueue,
    pub cluster: TestCluster,
    pub cloud: TestCloud,
    pub zonal_shifts: MemoryZonalShifts,
    pub sink: Arc<Captured>,
    /// Every claim that was ever seen, with the instance that it had.
    pub history: BTreeSet<(String, String)>,
    settings: PlanSettings,
    /// How many processes died.
    pub deaths: u32,
    planner: Planner,
    reconciler: Reconciler,
    ticks: u64,
}

impl Town {
    /// A town with the NodePool and EC2NodeClass `default`, and a catalog of three types.
    pub async fn new() -> Self {
        let clock = WorldClock::new(Timestamp::from_second(1_800_000_000).unwrap());
        let faults = Faults::default();
        let claims = MemoryClaims::new(faults.clone());
        claims.put_catalog("1", &small_catalog().encode().unwrap()).await.unwrap();
        let queue = MemoryQueue::new(Arc::new(clock.clone()), faults.clone());
        let cluster = TestCluster::new(clock.clone(), faults.clone());
        let cloud = TestCloud::new(clock.clone(), faults.clone());
        let sink = Arc::new(Captured::default());
        let context = Context { cluster_name: CLUSTER.into(), clock: Arc::new(clock.clone()), sink: sink.clone() };
        let settings = PlanSettings { zonal_shift: true, ..PlanSettings::default() };
        let planner = planner(&context, &claims, &queue, &cluster, &settings);
        let reconciler = reconciler(&context, &claims, &queue, &cluster, &cloud);
        faults.revive();
        Self {
            clock,
            claims,
            queue,
            cluster,
            cloud,
            zonal_shifts: MemoryZonalShifts::new(faults.clone()),
            faults,
            sink,
            history: BTreeSet::new(),
            settings,
            deaths: 0,
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

    /// A planner that remembers nothing.
    pub fn cold_planner(&self) -> Planner {
        planner(&self.context(), &self.claims, &self.queue, &self.cluster, &self.settings)
    }

    /// Has plans made in another way from now on.
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
        Sweeper {
            context: self.context(),
            claims: Arc::new(self.claims.clone()),
            queue: Arc::new(self.queue.clone()),
            cluster: Arc::new(self.cluster.clone()),
            cloud: Arc::new(self.cloud.clone()),
            catalog: CatalogCache::default(),
            settings: Settings::new(CLUSTER),
            zonal_shifts: Some(Arc::new(self.zonal_shifts.clone())),
        }
    }

    pub fn interrupter(&self) -> Interrupter {
        Interrupter {
            context: self.context(),
            claims: Arc::new(self.claims.clone()),
            queue: Arc::new(self.queue.clone()),
            cluster: Arc::new(self.cluster.clone()),
        }
    }

    /// Another planner goes on, which remembers nothing.
    pub fn restart(&mut self) {
        self.planner = self.cold_planner();
    }

    /// A process that died is followed by one that remembers nothing. What it was told is lost.
    fn bury(&mut self) -> bool {
        let (_, died) = self.faults.revive();
        if died {
            self.deaths += 1;
            let context = self.context();
            self.planner = self.cold_planner();
            self.reconciler = reconciler(&context, &self.claims, &self.queue, &self.cluster, &self.cloud);
        }
        died
    }

    /// Somebody tells the planner that pods wait.
    pub async fn queue_wake(&mut self) {
        let _may_have_died = self.queue.wake_planner(WakeSource::Webhook).await;
        self.bury_if_dead();
    }

    pub async fn records(&self) -> Vec<NodeClaim> {
        self.claims.list().await.unwrap()
    }

    /// Five seconds: wake-ups are served, machines boot and join, pods are bound. Once a minute there is a plan and a sweep
    /// whatever happens. Says whether a process died.
    pub async fn tick(&mut self) -> bool {
        self.ticks += 1;
        let mut died = false;
        let minute = self.ticks.is_multiple_of(12);
        if self.queue.take_plan().is_some() || minute {
            let _may_have_died = self.planner.run().await;
            died |= self.bury_if_dead();
        }
        for name in self.queue.take_claims() {
            let _may_have_died = self.reconciler.run(&name).await;
            died |= self.bury_if_dead();
        }
        if minute {
            let _may_have_died = self.sweeper().run().await;
            died |= self.bury_if_dead();
        }
        self.cloud.boot();
        self.cluster.join(&self.cloud.running());
        self.cluster.bind();
        for claim in self.claims.list().await.unwrap() {
            self.history.extend(claim.status.instance.map(|instance| (claim.name, instance.id)));
        }
        self.clock.advance_to(self.clock.time().checked_add(Duration::from_secs(5)).unwrap());
        died
    }

    /// Follows a process that died by one that remembers nothing, and says whether one did.
    pub fn bury_if_dead(&mut self) -> bool {
        self.faults.is_dead() && self.bury()
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

fn planner(
    context: &Context,
    claims: &MemoryClaims,
    queue: &MemoryQueue,
    cluster: &TestCluster,
    settings: &PlanSettings,
) -> Planner {
    Planner::new(
        context.clone(),
        Arc::new(claims.clone()),
        Arc::new(queue.clone()),
        Arc::new(cluster.clone()),
        settings.clone(),
    )
}

fn reconciler(
    context: &Context,
    claims: &MemoryClaims,
    queue: &MemoryQueue,
    cluster: &TestCluster,
    cloud: &TestCloud,
) -> Reconciler {
    Reconciler {
        context: context.clone(),
        claims: Arc::new(claims.clone()),
        queue: Arc::new(queue.clone()),
        cluster: Arc::new(cluster.clone()),
        cloud: Arc::new(cloud.clone()),
        catalog: CatalogCache::default(),
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
