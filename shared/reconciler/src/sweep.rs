//! Compares all claims with EC2 and the cluster once a minute, and so finds what a lost message missed.

mod abandoned;
mod conditions;
mod idle;
mod measures;
mod moved;
mod raises;
mod templates;
mod usage;
mod zonal_shifts;

use crate::capacity_blocks::{self, Ending};
use crate::health;
use jiff::Timestamp;
use nodeless_lifecycle::{
    Collection, Learned, Observation, Seen, Settings, World, adopt, begin_termination, collect, of_earlier_cluster,
    step,
};
use nodeless_model::claim::TerminationReason;
use nodeless_model::events::instance_unhealthy;
use nodeless_model::object::{MirroredClaim, NodePatch, ObjectEvent, ObjectRef};
use nodeless_model::{Instance, Node, NodeClaim, NodePool, Phase, check_owner, labels};
use nodeless_operations::{
    leaving,
    log_lines::{Collected, Failed, SweepEnded},
    node_class,
    offers::{CatalogCache, learn, shortages},
    ownership, shards, zonal_shift,
};
use nodeless_ports::cluster::{FoundNodeClaims, OtherNodeClaim, SystemNamespace};
use nodeless_ports::queue::WakeSource;
use nodeless_ports::{Cloud, Cluster, ErrorKind, PortError, Queue, ShiftedZone, ZonalShifts};
use nodeless_state::State;
use nodeless_telemetry::Context;
use nodeless_telemetry::{Metric, Metrics};
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

/// After this time without a change, a claim that launches, terminates or is rebooted must be in a shard.
const UNSEEN: Duration = Duration::from_secs(30);
/// A claim that is due within this time is not made due again.
const SOON: Duration = Duration::from_secs(5);
/// The maximum number of missing NodeClaim objects that one sweep creates.
const MIRRORS: usize = 100;
/// The maximum number of claims that one sweep writes because the network or reservation of their instances changed.
const MOVED: usize = 400;
/// Compares and repairs.
pub struct Sweeper {
    /// Time and logs.
    pub context: Context,
    /// The claims table.
    pub claims: State,
    /// The queues.
    pub queue: Arc<dyn Queue>,
    /// The cluster.
    pub cluster: Arc<dyn Cluster>,
    /// EC2.
    pub cloud: Arc<dyn Cloud>,
    /// The catalog, for the prices of adopted nodes.
    pub catalog: CatalogCache,
    /// Karpenter's times, and the cluster's name.
    pub settings: Settings,
    /// ARC, if zonal shifts are honoured.
    pub zonal_shifts: Option<Arc<dyn ZonalShifts>>,
}

/// The result of a sweep.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SweepReport {
    /// The number of claims.
    pub claims: usize,
    /// The number of instances.
    pub instances: usize,
    /// The orphans that were handled.
    pub collected: Vec<Collection>,
    /// The claims that are made due.
    pub requeued: Vec<String>,
    /// The errors.
    pub problems: Vec<String>,
}

/// The sweep could not start.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("nothing was swept: {0}")]
pub struct SweepError(#[from] pub PortError);

/// The observed state of EC2 and the cluster.
struct Read {
    instances: Vec<Instance>,
    /// With the label of a NodePool or EC2NodeClass, whosever they are.
    nodes: Vec<Node>,
    mirrors: Vec<MirroredClaim>,
    /// The NodeClaims of other controllers.
    other_claims: Vec<OtherNodeClaim>,
    node_pools: Vec<NodePool>,
    /// The names of all NodePools, including invalid ones and those of other controllers.
    pool_names: BTreeSet<String>,
    system: SystemNamespace,
}

impl Read {
    fn mirror(&self, name: &str) -> Option<&MirroredClaim> {
        self.mirrors.iter().find(|mirror| mirror.name == name)
    }
}

/// What was read, by the keys by which it belongs to claims.
struct Found<'r> {
    instances: HashMap<&'r str, &'r Instance>,
    /// The nodes of each instance.
    nodes: HashMap<&'r str, Vec<&'r Node>>,
    mirrors: HashMap<&'r str, &'r MirroredClaim>,
    pool_names: &'r BTreeSet<String>,
}

impl<'r> Found<'r> {
    fn new(read: &'r Read) -> Self {
        let mut nodes: HashMap<&str, Vec<&Node>> = HashMap::new();
        for node in &read.nodes {
            if let Some(id) = node.instance_id() {
                nodes.entry(id).or_default().push(node);
            }
        }
        Self {
            instances: read.instances.iter().map(|instance| (instance.id.as_str(), instance)).collect(),
            nodes,
            mirrors: read.mirrors.iter().map(|mirror| (mirror.name.as_str(), mirror)).collect(),
            pool_names: &read.pool_names,
        }
    }
}

/// Why a claim terminates, and when EC2 ends its instance, if that is known.
struct End<'a> {
    reason: TerminationReason,
    message: &'a str,
    instance_ends: Option<Timestamp>,
}

impl Sweeper {
    /// Compares once.
    ///
    /// # Errors
    /// If EC2, the cluster or the claims table cannot be read, or another deployment serves the cluster. Nothing was done then, because
    /// objects that look missing may only be unreadable, or in the other deployment's table.
    pub async fn run(&self) -> Result<SweepReport, SweepError> {
        let mut metrics = Metrics::new();
        let result = self.sweep(&mut metrics).await;
        if let Ok(report) = &result {
            metrics.count(Metric::ReconcileErrors, report.problems.len());
            self.context.log(&SweepEnded {
                claims: report.claims,
                instances: report.instances,
                collected: report.collected.len(),
                requeued: report.requeued.len(),
                problems: &report.problems,
            });
        } else {
            metrics.count(Metric::ReconcileErrors, 1);
        }
        self.context.flush(&metrics);
        result
    }

    async fn sweep(&self, metrics: &mut Metrics) -> Result<SweepReport, SweepError> {
        let mut report = SweepReport::default();
        // First and independently: a zone that fails may make EC2 unavailable too.
        let shifted = self.honour_zonal_shifts(&mut report).await?;
        let usage = self.claims.usage().await?;
        // The observed state first and the claims last, so that an object that was just created does not look like an orphan.
        let (read, raised) = futures::join!(self.read(), self.left_as_raised(&mut report));
        let read = read?;
        check_owner(read.system.table.as_deref(), self.claims.table_name())
            .map_err(|other| ownership::denied(&other))?;
        let mut claims = self.claims.list_eventually().await?;
        if !raised.is_empty() || !idle::is_idle(&claims, &read, &usage) {
            claims = self.claims.list().await?;
        }
        let now = self.context.now();
        report.claims = claims.len();
        report.instances = read.instances.len();
        let world = World {
            claims: &claims,
            instances: &read.instances,
            nodes: &read.nodes,
            mirrors: &read.mirrors,
            other_claims: &read.other_claims,
            node_pools: &read.node_pools,
        };
        let found = collect(&world, now, &self.settings);
        for collection in self.without_doubt(found, &read, &mut report).await {
            if outlasts_a_shift(&collection, &read.instances, &shifted) {
                continue;
            }
            match self.deal_with(&collection, &read, now).await {
                Ok(()) => report.collected.push(collection),
                Err(error) => report.problems.push(error.to_string()),
            }
        }
        self.end_earlier_cluster(&claims, &read, now, &mut report).await;
        self.end_blocks(&claims, now, &mut report).await;
        self.terminate_unhealthy(&claims, &shifted, now, &mut report).await;
        let claims = self.note_moved(claims, &read, now, &mut report).await;
        self.lower_left_behind(&claims, &raised, &read, &mut report).await;
        self.requeue(&claims, &read, now, &mut report).await;
        let claims = self.check_consistency(claims, &read, now, &mut report).await;
        self.mirror_missing(&claims, &read, now, &mut report).await;
        self.mirror_changed(&claims, &read, now, &mut report).await;
        self.recount(&claims, &usage, now, &mut report).await;
        self.delete_unused_templates(now, &mut report).await;
        self.measure(&claims, &report, metrics).await;
        Ok(report)
    }

    async fn read(&self) -> Result<Read, PortError> {
        let (instances, nodes, claims, pools, system) = futures::try_join!(
            self.cloud.all_instances(),
            self.cluster.labelled_nodes(),
            self.cluster.mirrored_claims(),
            self.cluster.node_pools(),
            self.cluster.system_namespace(),
        )?;
        let (pool_names, node_pools) = (pools.names().cloned().collect(), pools.node_pools);
        let FoundNodeClaims { mirrors, others: other_claims } = claims;
        Ok(Read { instances, nodes, mirrors, other_claims, node_pools, pool_names, system })
    }

    async fn deal_with(&self, collection: &Collection, read: &Read, now: Timestamp) -> Result<(), PortError> {
        let (what, name, why) = match collection {
            Collection::Adopt(claim) => {
                self.adopt(claim, read, now).await?;
                ("instance adopted", claim.name.clone(), "it has a node or NodeClaim but no record".to_owned())
            }
            Collection::TerminateInstance { id, why } => {
                self.cloud.terminate(std::slice::from_ref(id)).await?;
                ("instance terminated", id.clone(), why.clone())
            }
            Collection::ReleaseNode { name, uid, .. } => {
                let patch = NodePatch {
                    remove_finalizer: Some(labels::TERMINATION_FINALIZER.to_owned()),
                    ..NodePatch::default()
                };
                self.cluster.delete_node(name, uid).await?;
                match self.cluster.patch_node(name, uid, &patch).await {
                    Err(error) if error.kind != ErrorKind::NotFound => return Err(error),
                    _ => ("node released", name.clone(), "its instance and claim are gone".to_owned()),
                }
            }
            Collection::RemoveMirror { name, uid } => {
                self.cluster.remove_claim(name, Some(uid)).await?;
                ("NodeClaim removed", name.clone(), "its record and instance are gone".to_owned())
            }
        };
        self.context.log(&Collected { what, name: &name, why: &why });
        Ok(())
    }

    async fn adopt(&self, claim: &NodeClaim, read: &Read, now: Timestamp) -> Result<(), PortError> {
        let mut claim = claim.clone();
        let found =
            claim.status.instance.as_ref().and_then(|launched| read.instances.iter().find(|one| one.id == launched.id));
        if let Some(instance) = found
            && let Some(learned) = self.learned(&claim, instance, now).await
        {
            adopt::complete(&mut claim, &learned);
        }
        // Limits do not apply: a node that exists must not be lost.
        self.claims.create(&claim, None).await?;
        self.reconcile_now(&[claim.name]).await
    }

    /// What is known about an instance, if the catalog and the EC2NodeClass can be read.
    async fn learned(&self, claim: &NodeClaim, instance: &Instance, now: Timestamp) -> Option<Learned> {
        let class = self.cluster.node_class(&claim.node_class).await.ok().flatten()?;
        let catalog = self.catalog.current(&self.claims).await.ok()?;
        let settings = node_class::settings_with(&class, &catalog).ok()?;
        let settings = node_class::for_claim(settings, &class, claim);
        let names = [instance.instance_type.as_str()];
        Some(learn(instance, &catalog.instance_types_named(names, &settings, &shortages(&[], &[], now))))
    }

    async fn begin(&self, claims: &[NodeClaim], name: &str, end: End<'_>, now: Timestamp) -> Result<(), PortError> {
        let Some(mut claim) = claims.iter().find(|claim| claim.name == name).cloned() else { return Ok(()) };
        let is_earlier = end.instance_ends.is_some_and(|at| claim.status.end_by(at));
        if begin_termination(&mut claim, end.reason, end.message, now) || is_earlier {
            leaving::write(&self.claims, &claim, None).await?;
        }
        self.reconcile_now(&[claim.name]).await?;
        self.queue.wake_planner(WakeSource::Lifecycle).await
    }

    /// Terminates the claims of an earlier cluster of the same name. Nothing else would: their instances run, and their nodes cannot join.
    async fn end_earlier_cluster(&self, claims: &[NodeClaim], read: &Read, now: Timestamp, report: &mut SweepReport) {
        let Some(created) = read.system.created else { return };
        let why = format!("it was launched for an earlier cluster of this name: the cluster was created at {created}");
        for claim in of_earlier_cluster(claims, &read.nodes, created) {
            let end = End { reason: TerminationReason::Deleted, message: &why, instance_ends: None };
            match self.begin(claims, &claim.name, end, now).await {
                Ok(()) => self.context.log(&Collected { what: "claim terminates", name: &claim.name, why: &why }),
                Err(error) => report.problems.push(error.to_string()),
            }
        }
    }

    /// Terminates claims whose capacity block ends soon.
    async fn end_blocks(&self, claims: &[NodeClaim], now: Timestamp, report: &mut SweepReport) {
        let reserved = |claim: &&NodeClaim| {
            claim.status.instance.as_ref().is_some_and(|instance| instance.reservation_id.is_some())
        };
        if !claims.iter().any(|claim| reserved(&claim)) {
            return;
        }
        let classes = match self.cluster.node_classes().await {
            Ok((classes, _)) => classes,
            Err(error) => {
                report.problems.push(format!("capacity blocks that may end: {error}"));
                return;
            }
        };
        for Ending { claim, why, ends } in capacity_blocks::ending(claims.iter().filter(reserved), &classes, now) {
            let end = End { reason: TerminationReason::Interrupted, message: &why, instance_ends: ends };
            match self.begin(claims, &claim.name, end, now).await {
                Ok(()) => self.context.log(&Collected { what: "claim terminates", name: &claim.name, why: &why }),
                Err(error) => report.problems.push(error.to_string()),
            }
        }
    }

    /// Terminates claims whose instance fails its status checks or has a scheduled event. During a zonal shift, failing status
    /// checks in that zone may be caused by the zone, and its nodes are needed again after the shift.
    async fn terminate_unhealthy(
        &self,
        claims: &[NodeClaim],
        shifted: &[ShiftedZone],
        now: Timestamp,
        report: &mut SweepReport,
    ) {
        if !claims.iter().any(|claim| claim.status.instance.is_some() && !claim.phase.is_leaving()) {
            return;
        }
        let faults = match self.cloud.instance_faults().await {
            Ok(faults) => faults,
            Err(error) => {
                report.problems.push(format!("status checks of instances: {error}"));
                return;
            }
        };
        let mut events = Vec::new();
        let unhealthy = health::unhealthy_instances(claims, &faults, now).into_iter();
        for one in unhealthy
            .filter(|one| one.reason != TerminationReason::Unhealthy || !is_shifted(claims, &one.claim, shifted))
        {
            let end = End { reason: one.reason, message: &one.message, instance_ends: one.ends };
            match self.begin(claims, &one.claim, end, now).await {
                Ok(()) => {
                    self.context.log(&Collected { what: "claim terminates", name: &one.claim, why: &one.message });
                    let node = one.node.map(|node| ObjectRef::node(&node, ""));
                    let objects = node.into_iter().chain([ObjectRef::node_claim(&one.claim, "")]);
                    events.extend(objects.map(|object| instance_unhealthy(object, &one.message)));
                }
                Err(error) => report.problems.push(error.to_string()),
            }
        }
        self.publish(&events).await;
    }

    /// Publishes events. Nothing depends on them.
    async fn publish(&self, events: &[ObjectEvent]) {
        if !events.is_empty()
            && let Err(error) = nodeless_operations::events::publish(self.cluster.as_ref(), events).await
        {
            self.context.log(&Failed { what: "publish events", why: &error.to_string() });
        }
    }

    async fn reconcile_now(&self, names: &[String]) -> Result<(), PortError> {
        let now = self.context.now();
        let due: Vec<(String, Duration)> = names.iter().map(|name| (name.clone(), Duration::ZERO)).collect();
        shards::enqueue(&self.claims, self.queue.as_ref(), now, &due).await
    }

    /// Makes claims due that have something to do, or that launch, terminate or are rebooted and are in no shard.
    async fn requeue(&self, claims: &[NodeClaim], read: &Read, now: Timestamp, report: &mut SweepReport) {
        let pending = match shards::repair(&self.claims, self.queue.as_ref(), now).await {
            Ok(pending) => pending,
            Err(error) => {
                report.problems.push(format!("claims that are reconciled: {error}"));
                return;
            }
        };
        let found = Found::new(read);
        let due: Vec<String> = claims
            .iter()
            .filter(|claim| match pending.get(&claim.name) {
                Some(at) => *at > soon(now) && self.has_to_act(claim, &found, now),
                None => is_forgotten(claim, now) || self.has_to_act(claim, &found, now),
            })
            .map(|claim| claim.name.clone())
            .collect();
        if due.is_empty() {
            return;
        }
        match self.reconcile_now(&due).await {
            Ok(()) => report.requeued.extend(due),
            Err(error) => report.problems.push(error.to_string()),
        }
    }

    /// Whether a step of an initialized claim, with the state that the sweep has already read, would do anything.
    fn has_to_act(&self, claim: &NodeClaim, found: &Found<'_>, now: Timestamp) -> bool {
        if !(Phase::Launched..Phase::Draining).contains(&claim.phase) {
            return false;
        }
        let Some(launched) = &claim.status.instance else { return false };
        let id = launched.id.as_str();
        let nodes = found.nodes.get(id).into_iter().flatten();
        let seen = Observation {
            node_pool_exists: match &claim.node_pool {
                Some(name) => Seen::Known(found.pool_names.contains(name)),
                None => Seen::Unknown(String::new()),
            },
            instance: Seen::Known(found.instances.get(id).copied().cloned()),
            nodes: Seen::Known(nodes.copied().cloned().collect()),
            mirror: Seen::Known(found.mirrors.get(claim.name.as_str()).copied().cloned()),
            ..Observation::default()
        };
        let next = step(claim, &seen, now, &self.settings);
        next.claim.phase != claim.phase || !next.effects.is_empty()
    }

    /// Creates missing NodeClaim objects.
    async fn mirror_missing(&self, claims: &[NodeClaim], read: &Read, now: Timestamp, report: &mut SweepReport) {
        // No object is written whose name another controller has taken.
        let taken = read.other_claims.iter().map(|other| other.name.as_str());
        let present: BTreeSet<&str> = read.mirrors.iter().map(|mirror| mirror.name.as_str()).chain(taken).collect();
        let missing = claims.iter().filter(|claim| {
            claim.phase != Phase::Gone
                && !claim.is_standalone()
                && !present.contains(claim.name.as_str())
                && age(claim.created, now) >= UNSEEN
        });
        for claim in missing.take(MIRRORS) {
            if let Err(error) = self.cluster.mirror_claim(claim).await {
                report.problems.push(format!("NodeClaim {}: {error}", claim.name));
            }
        }
    }
}

/// Whether an orphaned instance is in a zone that is shifted away from. EC2 is then called later.
fn outlasts_a_shift(collection: &Collection, instances: &[Instance], shifted: &[ShiftedZone]) -> bool {
    let Collection::TerminateInstance { id, .. } = collection else { return false };
    instances.iter().any(|instance| instance.id == *id && zonal_shift::of_zone(shifted, &instance.zone).is_some())
}

fn is_shifted(claims: &[NodeClaim], name: &str, shifted: &[ShiftedZone]) -> bool {
    let launched = claims.iter().find(|claim| claim.name == name).and_then(|claim| claim.status.instance.as_ref());
    launched.is_some_and(|instance| zonal_shift::of_zone(shifted, &instance.zone).is_some())
}

fn age(since: Timestamp, now: Timestamp) -> Duration {
    Duration::try_from(now.duration_since(since)).unwrap_or(Duration::ZERO)
}

/// The time before which a claim is reconciled without a message of the sweep.
fn soon(now: Timestamp) -> Timestamp {
    now.saturating_add(SOON).unwrap_or(Timestamp::MAX)
}

/// Whether a claim that launches, terminates or is rebooted is in no shard for longer than a moment. Members of a launch group wait for
/// their launch.
fn is_forgotten(claim: &NodeClaim, now: Timestamp) -> bool {
    let last = claim.status.conditions.iter().map(|condition| condition.last_transition_time).max();
    let requested = claim.status.termination.as_ref().map(|end| end.requested);
    let reboot = claim.rebooting().map(|reboot| reboot.requested);
    let latest = [last, requested, reboot].into_iter().flatten().fold(claim.created, Timestamp::max);
    // A stopped instance waits for a plan that takes it.
    let waits_for_nothing = matches!(claim.phase, Phase::Initialized | Phase::Stopped) && reboot.is_none();
    !waits_for_nothing && age(latest, now) >= UNSEEN
}
