//! The operations, wired to the ports of the world as the functions wire them to AWS.

use jiff::Timestamp;
use nodeless_lifecycle::Settings;
use nodeless_model::ExpectedPods;
use nodeless_operations::gates::FeatureGates;
use nodeless_operations::{CapacitySettings, CatalogCache, Context, EventRate};
use nodeless_planner::{Mechanism, PlanError, PlanReport, PlanSettings, Planner};
use nodeless_ports::queue::{ShardMessage, WakeSource};
use nodeless_ports::{CatalogSource, Cloud, Cluster, PortError, Queue, Table, ZonalShifts};
use nodeless_reconciler::{
    Interrupter, NominationSwitch, ReconcileError, Reconciled, Reconciler, SweepError, SweepReport, Sweeper,
    interrupt::InterruptError,
};
use nodeless_refresher::{RefreshError, RefreshReport, Refresher, Validator};
use nodeless_scheduling::{MinValuesPolicy, Options};
use nodeless_state::State;
use nodeless_telemetry::Sink;
use nodeless_world::World;
use nodeless_world::fault_injection::{
    FaultInjection, FaultyCatalogSource, FaultyCloud, FaultyCluster, FaultyQueue, FaultyTable, FaultyZonalShifts,
};
use nodeless_world::memory::{MemoryQueue, MemoryState, MeteredTable};
use nodeless_world::ports::{MemoryCatalogSource, MemoryCloud, MemoryObjects, memory_cluster};
use std::sync::Arc;

/// The settings of the functions that are set for a run; all others have their defaults.
#[derive(Clone, Copy, Debug, Default)]
pub struct FunctionSettings {
    /// The feature gates.
    pub gates: FeatureGates,
    /// The behavior if `minValues` cannot be satisfied.
    pub min_values: MinValuesPolicy,
    /// Which pods are expected.
    pub expected_pods: ExpectedPods,
    /// The mechanism that plans are made without.
    pub without: Option<Mechanism>,
}

/// All operations in one world.
pub struct Functions {
    planner: Planner,
    reconciler: Reconciler,
    sweeper: Sweeper,
    refresher: Refresher,
    validator: Validator,
    interrupter: Interrupter,
}

/// The result of an operation.
#[derive(Debug)]
pub enum Outcome {
    /// The result of a plan.
    Planned(Result<PlanReport, PlanError>),
    /// The result of reconciling the due claims of a shard.
    Reconciled(Result<Vec<Reconciled>, ReconcileError>),
    /// The result of a sweep.
    Swept(Result<SweepReport, SweepError>),
    /// The result of a refresh.
    Refreshed(Result<RefreshReport, RefreshError>),
    /// The result of validating an EC2NodeClass: whether its status changed.
    Validated(Result<bool, PortError>),
    /// The result of an event from EC2: the claims that are terminated because of it.
    Interrupted(Result<Vec<String>, InterruptError>),
    /// No result: the process was killed during this work.
    Ended(&'static str),
    /// No result: the function dropped this work shortly before its timeout.
    OutOfTime(&'static str),
    /// No result: Lambda stopped the invocation as one of a recursive loop.
    Stopped,
}

impl Outcome {
    /// The error.
    pub fn failure(&self) -> Option<String> {
        match self {
            Self::Planned(result) => result.as_ref().err().map(ToString::to_string),
            Self::Reconciled(result) => result.as_ref().err().map(ToString::to_string),
            Self::Swept(result) => result.as_ref().err().map(ToString::to_string),
            Self::Refreshed(result) => result.as_ref().err().map(ToString::to_string),
            Self::Validated(result) => result.as_ref().err().map(ToString::to_string),
            Self::Interrupted(result) => result.as_ref().err().map(ToString::to_string),
            Self::Ended(what) => Some(format!("the process of {what} was killed")),
            Self::OutOfTime(what) => Some(format!("{what} did not end before the function's timeout")),
            Self::Stopped => Some("Lambda stopped an invocation as one of a recursive loop".to_owned()),
        }
    }

    /// Whether the function returns the message of an interruption to its queue.
    pub(crate) fn is_handed_back(&self) -> bool {
        matches!(self, Self::Interrupted(Err(InterruptError::Port(_))) | Self::OutOfTime(_))
    }
}

impl Functions {
    /// The operations over the ports of the world, with these settings of the functions, and with fault injection in every
    /// call if it is given. They start with empty memory.
    pub fn new(
        world: &World,
        claims: &MemoryState,
        queue: MemoryQueue,
        sink: &Arc<dyn Sink>,
        fault_injection: Option<&FaultInjection>,
        set: FunctionSettings,
    ) -> Self {
        let options = world.options();
        let name = options.cluster_name.clone();
        let table: Arc<dyn Table> = Arc::new(claims.table().clone());
        let queue: Arc<dyn Queue> = Arc::new(queue);
        let objects = MemoryObjects::from(world.api());
        let cluster = || -> Arc<dyn Cluster> {
            let cluster = Arc::new(memory_cluster(objects.clone(), world.clock().clone()));
            match fault_injection {
                Some(fault_injection) => Arc::new(FaultyCluster::new(cluster, fault_injection.clone())),
                None => cluster,
            }
        };
        let cloud: Arc<dyn Cloud> = Arc::new(MemoryCloud::new(world.ec2().clone(), name.clone()));
        let catalog = world.catalog().clone();
        let source: Arc<dyn CatalogSource> =
            Arc::new(MemoryCatalogSource::new(world.ec2().clone(), catalog, name.clone(), options.version.clone()));
        let arc: Arc<dyn ZonalShifts> = Arc::new(world.zonal_shifts().clone());
        let (table, queue, cloud, source, arc) = match fault_injection.cloned() {
            None => (table, queue, cloud, source, arc),
            Some(fault_injection) => (
                Arc::new(FaultyTable {
                    // Without faults, the clock stands still while thousands of claims are written, which takes seconds in AWS.
                    inner: Arc::new(MeteredTable::new(table, Arc::new(world.clock().clone()))),
                    fault_injection: fault_injection.clone(),
                }) as Arc<dyn Table>,
                Arc::new(FaultyQueue { inner: queue, fault_injection: fault_injection.clone() }) as Arc<dyn Queue>,
                Arc::new(FaultyCloud::new(cloud, fault_injection.clone())) as Arc<dyn Cloud>,
                Arc::new(FaultyCatalogSource { inner: source, fault_injection: fault_injection.clone() })
                    as Arc<dyn CatalogSource>,
                Arc::new(FaultyZonalShifts { inner: arc, fault_injection }) as Arc<dyn ZonalShifts>,
            ),
        };
        let claims = State::new(table);
        // Each function has its own processes.
        let context = || Context {
            cluster_name: name.clone(),
            clock: match fault_injection {
                Some(fault_injection) => fault_injection.clock_of_process(),
                None => Arc::new(world.clock().clone()),
            },
            sink: sink.clone(),
        };
        let settings = Settings::new(name.clone());
        Self {
            planner: Planner::new(
                context(),
                claims.clone(),
                queue.clone(),
                cluster(),
                PlanSettings {
                    gates: set.gates,
                    zonal_shift: options.zonal_shift,
                    scheduling: Options { min_values: set.min_values, ..Options::default() },
                    expected_pods: set.expected_pods,
                    without: set.without,
                    ..PlanSettings::default()
                },
            ),
            reconciler: Reconciler {
                context: context(),
                claims: claims.clone(),
                queue: queue.clone(),
                cluster: cluster(),
                cloud: cloud.clone(),
                catalog: CatalogCache::default(),
                events: EventRate::default(),
                nominations: NominationSwitch::new(options.nominations && set.without != Some(Mechanism::Nominations)),
                settings: settings.clone(),
                zonal_shift: options.zonal_shift,
                min_values_strict: set.min_values == MinValuesPolicy::Strict,
            },
            sweeper: Sweeper {
                context: context(),
                claims: claims.clone(),
                queue: queue.clone(),
                cluster: cluster(),
                cloud: cloud.clone(),
                catalog: CatalogCache::default(),
                settings,
                zonal_shifts: options.zonal_shift.then_some(arc),
            },
            validator: Validator {
                context: context(),
                claims: claims.clone(),
                queue: queue.clone(),
                cluster: cluster(),
                cloud,
                catalog: CatalogCache::default(),
                dry_runs: true,
            },
            refresher: Refresher {
                context: context(),
                claims: claims.clone(),
                queue: queue.clone(),
                cluster: cluster(),
                source,
                catalog: CatalogCache::default(),
                capacity: CapacitySettings::default(),
                dry_runs: true,
            },
            interrupter: Interrupter { context: context(), claims, queue, cluster: cluster() },
        }
    }

    pub(crate) async fn plan(&self, deadline: Option<Timestamp>, woken: &[WakeSource]) -> Outcome {
        Outcome::Planned(self.planner.run_until(deadline, woken).await)
    }

    pub(crate) async fn reconcile(&self, message: ShardMessage) -> Outcome {
        Outcome::Reconciled(self.reconciler.run_shard(message).await)
    }

    pub(crate) async fn sweep(&self) -> Outcome {
        Outcome::Swept(self.sweeper.run().await)
    }

    pub(crate) async fn refresh(&self) -> Outcome {
        Outcome::Refreshed(self.refresher.run().await)
    }

    pub(crate) async fn validate(&self, node_class: &str) -> Outcome {
        Outcome::Validated(self.validator.run(node_class).await)
    }

    pub(crate) async fn interrupt(&self, event: &str) -> Outcome {
        Outcome::Interrupted(self.interrupter.run(event).await)
    }
}
