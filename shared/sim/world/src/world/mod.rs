//! An EKS cluster's control plane, an EC2 account, the instances that join the cluster as nodes, and one clock for both.
//!
//! The state changes only by calls: [`World::converge`] performs everything that is due now, [`World::next_wakeup`] returns when
//! something is due next, and [`World::advance_to`] advances time. The same calls with the same seed have the same result.

mod certificate_authority;
mod clock;
mod join;
mod memory;
mod user_data;
mod zonal_shift;
mod zone_failure;

pub use certificate_authority::CertificateAuthorities;
pub(crate) use certificate_authority::FIRST_BUNDLE;
pub use clock::WorldClock;
pub use join::JoinTiming;
pub use memory::RealMemory;

use crate::memory::MemoryZonalShifts;
use jiff::{SignedDuration, Timestamp};
use nodeless_catalog::facts::RegionError;
use nodeless_catalog::{Catalog, Facts};
use nodeless_fake_aws::{Account, Ec2, Ec2Event, Instance, InstanceState, RegionFacts};
use nodeless_fake_kubernetes::controllers::{Controllers, DeletionCosts};
use nodeless_fake_kubernetes::resource::CUSTOM_RESOURCE_DEFINITIONS;
use nodeless_fake_kubernetes::{ApiServer, CreateOptions, Options, Status};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, OnceLock};
use zone_failure::ZoneFailure;

/// The configuration of a [`World`].
#[derive(Clone, Debug)]
pub struct WorldOptions {
    /// The start time.
    pub start: Timestamp,
    /// The cluster's name in EKS.
    pub cluster_name: String,
    /// The Kubernetes version, such as `1.36`.
    pub version: String,
    /// The AWS account, twelve digits.
    pub account: String,
    /// The names of the zones, among those that [`Facts::renamed`] gives the region; all of them if empty.
    pub zones: Vec<String>,
    /// The region. Instance types and prices are those of us-east-1 whatever it is.
    pub region: String,
    /// The available instance families, such as `m6i`; all of them if empty.
    pub families: Vec<String>,
    /// The seed of uids and generated names.
    pub seed: u64,
    /// The bearer token that HTTP requests to the Kubernetes API must have; if unset, any or none.
    pub token: Option<String>,
    /// How long machines take to join.
    pub join: JoinTiming,
    /// The actual memory of nodes.
    pub memory: RealMemory,
    /// Whether the cluster is registered with ARC for zonal shifts, and nodeless honours them.
    pub zonal_shift: bool,
    /// Whether lifecycle nominates nodes for pods.
    pub nominations: bool,
    /// Which pods a smaller ReplicaSet deletes first; by their annotations if unset.
    pub deletion_costs: Option<DeletionCosts>,
}

impl Default for WorldOptions {
    fn default() -> Self {
        Self {
            start: Timestamp::UNIX_EPOCH,
            cluster_name: "nodeless".to_owned(),
            version: "1.36".to_owned(),
            account: "123456789012".to_owned(),
            zones: ["us-east-1a", "us-east-1b", "us-east-1c"].map(str::to_owned).to_vec(),
            region: "us-east-1".to_owned(),
            families: Vec::new(),
            seed: 0,
            token: None,
            join: JoinTiming::default(),
            memory: RealMemory::default(),
            zonal_shift: false,
            nominations: true,
            deletion_costs: None,
        }
    }
}

/// Why a world cannot be created or continued.
#[derive(Debug, thiserror::Error)]
pub enum WorldError {
    /// A custom resource definition is invalid.
    #[error("the custom resource definitions cannot be made: {0}")]
    Definitions(String),
    /// There are no facts of the region.
    #[error(transparent)]
    Region(#[from] RegionError),
    /// The API server rejected a request of a controller.
    #[error("the simulated control plane failed: {0}")]
    ControlPlane(#[from] Status),
}

/// The maximum number of rounds of EC2 and the cluster at one time.
const ROUNDS: usize = 1_000;
/// The maximum number of EventBridge events that are kept; older ones are dropped.
const WAITING_EVENTS: usize = 10_000;

/// A cluster and an EC2 account.
#[derive(Debug)]
pub struct World {
    api: ApiServer,
    ec2: Ec2,
    clock: WorldClock,
    controllers: Controllers,
    catalog: Arc<Catalog>,
    options: WorldOptions,
    events: VecDeque<Value>,
    zonal_shifts: MemoryZonalShifts,
    /// The nodes that EKS cordoned because of a zonal shift away from their zone.
    cordoned: BTreeSet<String>,
    failed_zones: BTreeMap<String, ZoneFailure>,
    authorities: CertificateAuthorities,
}

impl World {
    /// A new world: an empty cluster with Karpenter's CRDs, and an account with a VPC, a subnet in each zone, a security group,
    /// EKS images, and an instance profile, as [`Account::for_cluster`] creates them.
    ///
    /// # Errors
    /// If the compiled-in data is invalid.
    pub fn new(options: WorldOptions) -> Result<Self, WorldError> {
        let mut facts = Facts::of_region(&options.region)?;
        if !options.zones.is_empty() {
            facts = facts.within_zones(&options.zones.iter().map(String::as_str).collect::<Vec<_>>());
        }
        if !options.families.is_empty() {
            let family = |name: &str| name.split('.').next().unwrap_or_default().to_owned();
            facts.instance_types.retain(|name, _| options.families.contains(&family(name)));
        }
        let clock = WorldClock::new(options.start);
        let read = clock.clone();
        let api_options = Options {
            seed: options.seed,
            token: options.token.clone(),
            ..Options::with_clock(Arc::new(move || read.time()))
        };
        let api = ApiServer::new(api_options)?;
        install_definitions(&api)?;
        let WorldOptions { cluster_name, version, account, start, .. } = &options;
        let region = RegionFacts::from_catalog(&facts);
        let account = Account::for_cluster(account, region, cluster_name, version, *start);
        let mut world = Self {
            api,
            ec2: Ec2::new(account, *start),
            clock,
            controllers: Controllers::default(),
            catalog: Arc::new(Catalog::synthetic(1, &facts)),
            authorities: CertificateAuthorities::starting(options.start),
            options,
            events: VecDeque::new(),
            zonal_shifts: MemoryZonalShifts::default(),
            cordoned: BTreeSet::new(),
            failed_zones: BTreeMap::new(),
        };
        world.controllers.replica_sets.deletion_costs = world.options.deletion_costs;
        world.converge()?;
        Ok(world)
    }

    /// The Kubernetes API. Clones share one state, so keep one for HTTP.
    pub fn api(&self) -> &ApiServer {
        &self.api
    }

    /// The EC2 account. Clones share one state.
    pub fn ec2(&self) -> &Ec2 {
        &self.ec2
    }

    /// The clock. Clones share one state.
    pub fn clock(&self) -> &WorldClock {
        &self.clock
    }

    /// The catalog, with synthetic spot prices.
    pub fn catalog(&self) -> &Arc<Catalog> {
        &self.catalog
    }

    /// The configuration of the world.
    pub fn options(&self) -> &WorldOptions {
        &self.options
    }

    /// The current time.
    pub fn now(&self) -> Timestamp {
        self.clock.time()
    }

    /// Takes the EventBridge events since the last call, oldest first: state changes, spot interruptions and others.
    pub fn take_events(&mut self) -> Vec<Value> {
        self.events.drain(..).collect()
    }

    /// Performs everything that is due now, until nothing changes any more. Returns whether anything changed.
    ///
    /// # Errors
    /// If the control plane fails, or does not converge.
    pub fn converge(&mut self) -> Result<bool, WorldError> {
        let now = self.now();
        let before = self.api.revision();
        for round in 0..ROUNDS {
            self.ec2.advance_to(now);
            let events = self.ec2.drain_events();
            let revision = self.api.revision();
            for event in &events {
                self.take(event, now);
            }
            self.apply_zonal_shifts(now)?;
            self.controllers.converge(&self.api, now)?;
            if events.is_empty() && self.api.revision() == revision {
                return Ok(round > 0 || self.api.revision() != before);
            }
        }
        let message = format!("the simulated cluster and account did not converge in {ROUNDS} rounds");
        Err(Status::new(500, "InternalError", message).into())
    }

    /// When something is due next, if anything is.
    pub fn next_wakeup(&mut self) -> Option<Timestamp> {
        [self.ec2.next_due(), self.controllers.next_wakeup(), self.zonal_shift_ends()].into_iter().flatten().min()
    }

    /// Advances time: everything that is due until then happens at its own time. Time never decreases.
    ///
    /// # Errors
    /// As for [`World::converge`].
    pub fn advance_to(&mut self, target: Timestamp) -> Result<(), WorldError> {
        self.converge()?;
        while let Some(next) = self.next_wakeup().filter(|next| *next <= target) {
            self.clock.advance_to(next);
            self.converge()?;
        }
        self.clock.advance_to(target);
        self.converge().map(drop)
    }

    /// Continues to `target` in one step: what is due until then happens at `target`. A world that follows the clock of the machine would
    /// otherwise fall behind it, while thousands of nodes join at thousands of times.
    ///
    /// # Errors
    /// As [`advance_to`](Self::advance_to).
    pub fn jump_to(&mut self, target: Timestamp) -> Result<(), WorldError> {
        self.clock.advance_to(target);
        self.converge()?;
        while self.next_wakeup().is_some_and(|next| next <= target) {
            self.converge()?;
        }
        Ok(())
    }

    /// Stops the kubelet of an instance while EC2 still runs the instance. Returns whether it was running.
    pub fn silence(&mut self, instance_id: &str) -> bool {
        let instances = self.ec2.instances();
        let Some(instance) = instances.iter().find(|instance| instance.id == instance_id) else { return false };
        let (name, now) = (&instance.private_dns_name, self.now());
        let answered = self.controllers.kubelets.stop(name);
        if answered {
            self.controllers.node_lifecycle.machine_stopped(name, now);
        }
        answered
    }

    /// The readiness probes of a pod, by its uid, fail or succeed from now on.
    pub fn set_pod_ready(&mut self, pod: &str, ready: bool) {
        let now = self.now();
        self.controllers.kubelets.set_ready(pod, ready, now);
    }

    /// The containers of a pod, by its uid, stop when they are asked to from now on, or do not.
    pub fn set_pod_stops(&mut self, pod: &str, stops: bool) {
        let now = self.now();
        self.controllers.kubelets.set_stops(pod, stops, now);
    }

    /// The kube-scheduler places no pods with this label and value from now on, or does again.
    pub fn set_refused(&mut self, key: &str, value: &str, refused: bool) {
        self.controllers.scheduler.set_refused(key, value, refused);
    }

    /// The kube-scheduler writes so often a second at most from now on, bindings and conditions together; `None` for no limit.
    pub fn set_scheduler_writes(&mut self, per_second: Option<usize>) {
        self.controllers.scheduler.set_writes(per_second);
    }

    /// The clients of kube-controller-manager and kube-scheduler have their default limits from now on, or none.
    pub fn set_client_limits(&mut self, limited: bool) {
        let now = self.now();
        self.controllers.set_client_limits(limited, now);
    }

    /// Instances that start from now on join with these delays.
    pub fn set_join_timing(&mut self, timing: JoinTiming) {
        self.options.join = timing;
    }

    /// From now on volumes stay attached for this long after their last pod; `None` for the default of eight seconds.
    pub fn set_detachment(&mut self, takes: Option<SignedDuration>) {
        let now = self.now();
        self.controllers.attach_detach.set_detaches_after(takes.map(|takes| takes.as_secs()), now);
    }

    /// The machine of a running instance that has not joined the cluster joins now. Returns whether there is such an instance.
    pub fn join_late(&mut self, instance_id: &str) -> bool {
        let mut instances = self.ec2.instances().into_iter();
        let runs = |it: &Instance| it.id == instance_id && it.state == InstanceState::Running;
        let Some(instance) = instances.find(|it| runs(it) && !it.joins) else { return false };
        self.ec2.change_instance(instance_id, |instance| instance.joins = true);
        let instance = Instance { joins: true, ..instance };
        self.machine(&instance).map(|machine| self.controllers.kubelets.start(machine)).is_some()
    }

    /// Applies the effect of an EC2 event to the cluster.
    fn take(&mut self, event: &Ec2Event, now: Timestamp) {
        match event {
            Ec2Event::InstanceRunning { instance } if self.starts_in_failed_zone(instance) => {}
            Ec2Event::InstanceRunning { instance } => {
                self.controllers.node_lifecycle.machine_started(&instance.private_dns_name);
                self.machine(instance).into_iter().for_each(|machine| self.controllers.kubelets.start(machine));
            }
            Ec2Event::InstanceRebooted { instance } => {
                // A kubelet that was silenced starts again, too.
                self.controllers.kubelets.stop(&instance.private_dns_name);
                self.controllers.node_lifecycle.machine_started(&instance.private_dns_name);
                self.machine(instance).into_iter().for_each(|machine| self.controllers.kubelets.start(machine));
            }
            Ec2Event::InstanceStopping { instance } | Ec2Event::InstanceShuttingDown { instance } => {
                if self.controllers.kubelets.stop(&instance.private_dns_name) {
                    self.controllers.node_lifecycle.machine_stopped(&instance.private_dns_name, now);
                }
            }
            Ec2Event::InstanceTerminated { instance } => {
                let provider_id = nodeless_model::node::provider_id(&instance.offering.zone, &instance.id);
                self.controllers.node_lifecycle.instance_terminated(&provider_id, now);
            }
            Ec2Event::SpotInterruption { .. }
            | Ec2Event::CapacityReclaimed { .. }
            | Ec2Event::RebalanceRecommendation { .. }
            | Ec2Event::StateChange { .. } => {}
        }
        if let Some(event) = event.event_bridge() {
            self.keep_event(event.clone());
        }
    }

    fn keep_event(&mut self, event: Value) {
        if self.events.len() == WAITING_EVENTS {
            self.events.pop_front();
        }
        self.events.push_back(event);
    }
}

fn install_definitions(api: &ApiServer) -> Result<(), WorldError> {
    for definition in definitions()? {
        api.create(&CUSTOM_RESOURCE_DEFINITIONS, definition.clone(), &CreateOptions::default())?;
    }
    Ok(())
}

/// The custom resource definitions. They are generated once in a process: tests make hundreds of worlds.
fn definitions() -> Result<&'static [Value], WorldError> {
    static GENERATED: OnceLock<Vec<Value>> = OnceLock::new();
    if let Some(generated) = GENERATED.get() {
        return Ok(generated);
    }
    let definitions = nodeless_api::crds().map_err(|error| WorldError::Definitions(error.to_string()))?;
    let objects: Result<Vec<Value>, serde_json::Error> = definitions.iter().map(serde_json::to_value).collect();
    let objects = objects.map_err(|error| WorldError::Definitions(error.to_string()))?;
    Ok(GENERATED.get_or_init(|| objects))
}

#[cfg(test)]
mod tests;
