//! A second deployment for one cluster.

use super::{Harness, Ports, message, planner, reconciler, stored_catalog, sweeper};
use nodeless_catalog::stored::CapacitySettings;
use nodeless_operations::CatalogCache;
use nodeless_planner::{PlanSettings, Planner};
use nodeless_reconciler::{Reconciler, Sweeper};
use nodeless_refresher::Refresher;
use nodeless_state::State;
use nodeless_world::memory::{MemoryQueue, MemoryState, MemoryTable};
use std::sync::Arc;

/// The operations of a deployment that does not serve the cluster of a harness, with a table and queues of their own.
pub struct Deployment {
    pub claims: MemoryState,
    pub refresher: Refresher,
    pub queue: MemoryQueue,
    planner: Planner,
    reconciler: Reconciler,
    sweeper: Sweeper,
}

impl Deployment {
    pub async fn beside(harness: &Harness, table: &str) -> Self {
        let claims = MemoryState::new(MemoryTable::named(table));
        claims.put_catalog("1", stored_catalog(), harness.clock.time()).await.unwrap();
        Self::new(harness, claims, MemoryQueue::new(Arc::new(harness.clock.clone())))
    }

    /// The deployment with this table and these queues.
    pub fn new(harness: &Harness, claims: MemoryState, queue: MemoryQueue) -> Self {
        let context = harness.context();
        let ports = Ports { claims: State::clone(&claims), queue: Arc::new(queue.clone()), ..harness.ports.clone() };
        let refresher = Refresher {
            context: context.clone(),
            claims: ports.claims.clone(),
            queue: ports.queue.clone(),
            cluster: ports.cluster.clone(),
            source: Arc::new(harness.cloud.source()),
            catalog: CatalogCache::default(),
            capacity: CapacitySettings::default(),
            dry_runs: false,
        };
        Self {
            planner: planner(&context, &ports, &PlanSettings::default()),
            reconciler: reconciler(&context, &ports),
            sweeper: sweeper(&context, &ports, Arc::new(harness.zonal_shifts.clone())),
            claims,
            refresher,
            queue,
        }
    }

    /// A plan, the messages of shards that arrived and one more, and a sweep. Returns their errors.
    pub async fn run(&self) -> Vec<String> {
        let mut errors: Vec<String> =
            self.planner.run().await.err().map(|error| error.to_string()).into_iter().collect();
        for shard in self.queue.take_shards().into_iter().chain([message(0)]) {
            errors.extend(self.reconciler.run_shard(shard).await.err().map(|error| error.to_string()));
        }
        errors.extend(self.sweeper.run().await.err().map(|error| error.to_string()));
        errors
    }
}
