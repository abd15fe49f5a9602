//! The operations, wired to the ports of the world as the functions wire them to AWS.

use jiff::Timestamp;
use nodeless_lifecycle::Settings;
use nodeless_model::ExpectedPods;
use nodeless_operations::gates::FeatureGates;
use nodeless_operations::{CapacitySettings, CatalogCache, Context, EventRate};
use nodeless_planner::{Mechanism, PlanError, PlanReport, PlanSettings, Planner};
use nodeless_ports::queue::{ShardMessage, WakeSource};
use nodeless_ports::{CatalogSource, Cloud, Cluster, PortError, Queue, ZonalShifts};
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

impl FunctionSettings {
    fn plans(self, zonal_shift: bool) -> PlanSettings {
        PlanSettings {
            gates: self.gates,
            zonal_shift,
            scheduling: Options { min_values: self.min_values, ..Options::default() },
            expected_pods: self.expected_pods,
            without: self.without,
            ..PlanSettings::default()
        }
    }
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

/// What the functions are made of.
struct Ports<'w> {
    world: &'w World,
    sink: &'w Arc<dyn Sink>,
    fault_injection: Option<&'w FaultInjection>,
    objects: MemoryObjects,
    claims: State,
    queue: Arc<dyn Queue>,
    cloud: Arc<dyn Cloud>,
    source: Arc<dyn CatalogSource>,
    zonal_shifts: Arc<dyn ZonalShifts>,
}

impl<'w> Ports<'w> {
    fn new(world: &'w World, claims: &MemoryState, queue: MemoryQueue, sink: &'w Arc<dyn Sink>) -> Self {
        let (ec2, options) = (world.ec2(), world.options());
        let (name, version) = (options.cluster_name.clone(), options.version.clone());
        Self {
            world,
            sink,
            fault_injection: None,
            objects: MemoryObjects::from(world.api()),
            claims: State::new(Arc::new(claims.table().clone())),
            queue: Arc::new(queue),
            cloud: Arc::new(MemoryCloud::new(ec2.clone(), name.clone())),
            source: Arc::new(MemoryCatalogSource::new(ec2.clone(), world.catalog().clone(), name, version)),
            zonal_shifts: Arc::new(world.zonal_shifts().clone()),
        }
    }

    fn with_faults(self, claims: &MemoryState, faults: &'w FaultInjection) -> Self {
        let (clock, fault_injection) = (self.world.clock().clone(), faults.clone());
        // Without faults, the clock stands still while thousands of claims are written, which takes seconds in AWS.
        let inner = Arc::new(MeteredTable::new(Arc::new(claims.table().clone()), Arc::new(clock)));
        Self {
            fault_injection: Some(faults),
            claims: State::new(Arc::new(FaultyTable { inner, fault_injection: fault_injection.clone() })),
            queue: Arc::new(FaultyQueue { inner: self.queue, fault_injection: fault_injection.clone() }),
            cloud: Arc::new(FaultyCloud::new(self.cloud, fault_injection.clone())),
            source: Arc::new(FaultyCatalogSource { inner: self.source, fault_injection: fault_injection.clone() }),
            zonal_shifts: Arc::new(FaultyZonalShifts { inner: self.zonal_shifts, fault_injection }),
            ..self
        }
    }

    /// The cluster as a new process reads it, which keeps what it has read.
    fn cluster(&self) -> Arc<dyn Cluster> {
        let cluster = Arc::new(memory_cluster(self.objects.clone(), self.world.clock().clone()));
        match self.fault_injection {
            Some(fault_injection) => Arc::new(FaultyCluster::new(cluster, fault_injection.clone())),
            None => cluster,
        }
    }

    /// The context of a new process. Each function has its own.
    fn context(&self) -> Context {
        Context {
            cluster_name: self.world.options().cluster_name.clone(),
            clock: match self.fault_injection {
                Some(fault_injection) => fault_injection.clock_of_process(),
                None => Arc::new(self.world.clock().clone()),
            },
            sink: self.sink.clone(),
        }
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
        let ports = Ports::new(world, claims, queue, sink);
        let ports = match fault_injection {
            Some(faults) => ports.with_faults(claims, faults),
            None => ports,
        };
        let settings = Settings::new(options.cluster_name.clone());
        let plans = set.plans(options.zonal_shift);
        Self {
            planner: Planner::new(ports.context(), ports.claims.clone(), ports.queue.clone(), ports.cluster(), plans),
            reconciler: Reconciler {
                context: ports.context(),
                claims: ports.claims.clone(),
                queue: ports.queue.clone(),
                cluster: ports.cluster(),
                cloud: ports.cloud.clone(),
                catalog: CatalogCache::default(),
                events: EventRate::default(),
                nominations: NominationSwitch::new(options.nominations && set.without != Some(Mechanism::Nominations)),
                settings: settings.clone(),
                zonal_shift: options.zonal_shift,
                min_values_strict: set.min_values == MinValuesPolicy::Strict,
            },
            sweeper: Sweeper {
                context: ports.context(),
                claims: ports.claims.clone(),
                queue: ports.queue.clone(),
                cluster: ports.cluster(),
                cloud: ports.cloud.clone(),
                catalog: CatalogCache::default(),
                settings,
                zonal_shifts: options.zonal_shift.then(|| ports.zonal_shifts.clone()),
            },
            validator: Validator {
                context: ports.context(),
                claims: ports.claims.clone(),
                queue: ports.queue.clone(),
                cluster: ports.cluster(),
                cloud: ports.cloud.clone(),
                catalog: CatalogCache::default(),
                dry_runs: true,
            },
            refresher: Refresher {
                context: ports.context(),
                claims: ports.claims.clone(),
                queue: ports.queue.clone(),
                cluster: ports.cluster(),
                source: ports.source.clone(),
                catalog: CatalogCache::default(),
                capacity: CapacitySettings::default(),
                dry_runs: true,
            },
            interrupter: Interrupter {
                context: ports.context(),
                cluster: ports.cluster(),
                claims: ports.claims,
                queue: ports.queue,
            },
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
