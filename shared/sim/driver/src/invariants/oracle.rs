//! The oracle, which checks the invariants after every step.

use super::announced_ends::AnnouncedEnds;
use super::certificate_authorities::AuthorityChecks;
use super::commands::CommandChecks;
use super::empty_nodes::EmptyNodes;
use super::lifetimes::{InterruptionChecks, drain_too_long, expired};
use super::node_pools::NodePoolChecks;
use super::nodes::{Nodes, OpenNodes};
use super::on_demand_minimum::OnDemandChecks;
use super::other_controllers::written;
use super::recorded_time::RecordedTime;
use super::records::{ClaimObjects, same_places};
use super::surges::SurgeChecks;
use super::unready_replacements::UnreadyReplacements;
use super::unused_launches::UnusedLaunches;
use super::unused_nodes::UnusedNodes;
use super::virtual_pods::VirtualPodChecks;
use super::{
    ACTIVE_AUTHORITY, AMI_CANARY, ANNOUNCED_ENDS, CLAIM_OBJECTS, CLUSTER_LIMITS, DELETED_NODE_POOLS,
    DISRUPTION_BUDGETS, DO_NOT_DISRUPT, DRAINS_END, EMPTY_NODES, EXPIRY, EXPLAINED, INTERRUPTIONS, LAUNCHES_ARE_TAKEN,
    LIMITS, LOCAL_VOLUMES, MAINTENANCE, METADATA, NO_ORPHANS, NODES_ARE_USED, ON_DEMAND_MINIMUM, ONE_INSTANCE,
    ONE_ROTATION, OTHER_CONTROLLERS, PODS_RUN, QUOTAS, RECORDED_TIME, STAYS_OPEN, SURGES, UNREADY_REPLACEMENTS,
    UNUSABLE_NODE_POOLS, Violation, ami_canary, condition as condition_of, disruption_budgets, local_volumes, metadata,
    text,
};
use crate::scenarios::Scenario;
use crate::scenarios::other_objects::is_instance_of_other;
use crate::{Driver, Outcome};
use jiff::{SignedDuration, Timestamp};
use nodeless_fake_aws::TypeFacts;
use nodeless_fake_kubernetes::resource::{EVENTS, NAMESPACES, NODES, PODS};
use nodeless_fake_kubernetes::{Change, ChangeKind, ListOptions};
use nodeless_model::claim::{TerminationReason, condition};
use nodeless_model::{NodeClaim, Phase, labels};
use nodeless_planner::PlanReport;
use nodeless_world::resources::NODE_CLASSES;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// How long an instance may be without a claim.
const UNOWNED: SignedDuration = SignedDuration::from_mins(10);
/// A plan has seen a pod that was pending for this long when the plan ended, including batching, slow calls and stale snapshots.
const SEEN_AFTER: SignedDuration = SignedDuration::from_secs(60);
/// How long a pod may wait for the node that a plan assigned to it.
const LONGEST_WAIT: SignedDuration = SignedDuration::from_mins(45);
/// The additional wait for each of its instances that never joins: until the claim is deleted, as in Karpenter, and the next one is
/// planned.
const WAIT_PER_FAILURE: SignedDuration = SignedDuration::from_mins(16);
/// The time for which the maximum number of nodes of a NodePool counts for its budgets: a plan uses the state at its start.
const BUDGET_WINDOW: SignedDuration = SignedDuration::from_mins(5);

/// The maximum time after the table was restored until Nodes have what their claims have: two sweeps, with calls that fail.
const REPAIRED_AFTER: SignedDuration = SignedDuration::from_mins(3);

/// The reason of the kube-scheduler that no object states, and no plan can know.
const UNKNOWABLE: &str = "node(s) were refused by a plugin";

/// The minimum fraction of a type's memory that counts against a limit: EC2 and the system use about 7.5%, and simulated nodes
/// report up to 1.5% less than that.
const MIN_MEMORY_SHARE: f64 = 0.925 * 0.985;

/// A pod without a node.
#[derive(Debug)]
struct Pending {
    key: String,
    created: Timestamp,
    /// When the scheduler first reported it as unschedulable.
    marked: Option<Timestamp>,
    /// The number of successful plans that have ended and could have seen the pod.
    plans: u32,
    /// Whether the last such plan reported the pod as unschedulable.
    refused: bool,
    /// When a plan last reported the pod as unschedulable, or an Event that kube-scheduler does not place it as planned: until then there
    /// was no node to wait for.
    last_refused: Option<Timestamp>,
    /// The last message of kube-scheduler about the pod.
    message: String,
}

/// Whether a plan that ended at this time could see that the pod is pending.
fn is_seen(pod: &Pending, at: Timestamp) -> bool {
    pod.marked.is_some_and(|marked| at.duration_since(marked) >= SEEN_AFTER)
}

/// The resources of the running instances of a NodePool.
#[derive(Clone, Copy, Debug, Default)]
struct Running {
    cpus: f64,
    /// Bytes.
    memory: f64,
    gpus: f64,
    nodes: f64,
    dollars: f64,
}

impl Running {
    #[expect(clippy::cast_precision_loss, reason = "numbers of CPUs, GPUs and MiB are small")]
    fn add(&mut self, kind: &TypeFacts) {
        self.cpus += kind.vcpus() as f64;
        self.memory += kind.memory_mib() as f64 * f64::from(1 << 20) * MIN_MEMORY_SHARE;
        let gpus = kind.description.pointer("/GpuInfo/Gpus").and_then(Value::as_array);
        let nvidia = gpus.into_iter().flatten().filter(|gpu| gpu["Manufacturer"] == "NVIDIA");
        self.gpus += nvidia.filter_map(|gpu| gpu["Count"].as_f64()).sum::<f64>();
    }
}

/// Checks a world from outside.
#[derive(Debug)]
pub(crate) struct Oracle {
    seen: u64,
    claims_seen: u64,
    pending: BTreeMap<String, Pending>,
    /// How long pods waited for their node, in milliseconds.
    pub(crate) waits: Vec<i64>,
    /// Instances by the uid of the claim that they were recorded on.
    instances: BTreeMap<String, String>,
    /// The name of the claim that an instance was recorded on, by the instance's id.
    machines: BTreeMap<String, String>,
    unowned: BTreeMap<String, Timestamp>,
    /// Claims with a voluntary disruption, by NodePool.
    leaving: BTreeSet<String>,
    /// Number of nodes by NodePool over the last minutes.
    sizes: BTreeMap<String, Vec<(Timestamp, usize)>>,
    pools: BTreeMap<String, Value>,
    node_pools: NodePoolChecks,
    authorities: AuthorityChecks,
    open_nodes: OpenNodes,
    launched: BTreeSet<String>,
    /// Instances whose nodes were disrupted involuntarily. A table that is restored to an earlier time does not know that.
    forced: BTreeSet<String>,
    /// When the table was last replaced.
    replaced: Option<Timestamp>,
    commands: CommandChecks,
    unready: UnreadyReplacements,
    on_demand: OnDemandChecks,
    surges: SurgeChecks,
    pub(crate) empty_nodes: EmptyNodes,
    pub(crate) virtual_pods: VirtualPodChecks,
    unused_nodes: UnusedNodes,
    unused_launches: UnusedLaunches,
    /// `None` if calls fail or messages are lost: then EC2 may end a spot instance before nodeless can act on its warning.
    interruptions: Option<InterruptionChecks>,
    /// `None` for the same reason.
    announced_ends: Option<AnnouncedEnds>,
    /// The pods that claims were created and started for. The reports of plans are checked a little later, when such a claim may be
    /// deleted again, or started for others.
    nominated: BTreeMap<String, BTreeSet<String>>,
    looked: Timestamp,
    recorded_time: RecordedTime,
    claim_objects: ClaimObjects,
    /// Whether limits of dollars per hour are checked: nodeless learns of new prices later, so a launch may cost more than it assumed.
    checks_dollars: bool,
    pub(crate) violations: Vec<Violation>,
}

impl Oracle {
    pub(crate) fn new(scenario: &Scenario, driver: &Driver) -> Self {
        let pools = scenario.objects.iter().filter(|object| object["kind"] == "NodePool");
        Self {
            seen: driver.world().api().revision(),
            claims_seen: 0,
            pending: BTreeMap::new(),
            waits: Vec::new(),
            instances: BTreeMap::new(),
            machines: BTreeMap::new(),
            unowned: BTreeMap::new(),
            leaving: BTreeSet::new(),
            sizes: BTreeMap::new(),
            pools: pools.map(|pool| (text(pool, "/metadata/name").to_owned(), pool.clone())).collect(),
            node_pools: NodePoolChecks::default(),
            authorities: AuthorityChecks::default(),
            open_nodes: OpenNodes::default(),
            launched: BTreeSet::new(),
            forced: BTreeSet::new(),
            replaced: None,
            commands: CommandChecks::default(),
            unready: UnreadyReplacements::default(),
            on_demand: OnDemandChecks::default(),
            surges: SurgeChecks::default(),
            empty_nodes: EmptyNodes::default(),
            virtual_pods: VirtualPodChecks::default(),
            unused_nodes: UnusedNodes::default(),
            unused_launches: UnusedLaunches::default(),
            interruptions: scenario.is_reliable().then(InterruptionChecks::default),
            announced_ends: scenario.is_reliable().then(AnnouncedEnds::default),
            nominated: BTreeMap::new(),
            looked: driver.world().now(),
            recorded_time: RecordedTime::default(),
            claim_objects: ClaimObjects::default(),
            checks_dollars: !scenario.changes_prices(),
            violations: Vec::new(),
        }
    }

    /// The claims table was replaced by one of this earlier time, or by an empty one.
    pub(crate) fn table_replaced(&mut self, now: Timestamp, restored_to: Option<Timestamp>) {
        self.replaced = Some(now);
        self.unready.forget();
        self.unused_launches.forget();
        self.recorded_time.table_replaced(restored_to);
    }

    /// The number of launched instances that were observed.
    pub(crate) fn launched(&self) -> usize {
        self.launched.len()
    }

    /// Checks the cost records against the instances that ran.
    pub(crate) fn check_recorded_time(&mut self, driver: &Driver) {
        if let Some(detail) = self.recorded_time.wrong(driver) {
            self.violated(driver.world().now(), RECORDED_TIME, detail);
        }
    }

    fn violated(&mut self, at: Timestamp, invariant: &'static str, detail: String) {
        self.violations.push(Violation { at, invariant, detail });
    }

    /// Checks what changed since the last call.
    pub(crate) fn check(&mut self, driver: &Driver) {
        let now = driver.world().now();
        let api = driver.world().api();
        if api.revision() != self.seen {
            let changes = api.watch_since(None, self.seen).unwrap_or_default();
            self.seen = api.revision();
            for change in changes.iter().filter(|change| change.resource == PODS) {
                self.pod_changed(change, now);
                self.unused_launches.pod_changed(&change.object, change.kind == ChangeKind::Deleted);
                if let Some(detail) = self.surges.pod_changed(driver, change, now) {
                    self.violated(now, SURGES, detail);
                }
            }
            for change in &changes {
                if let Some(detail) = written(driver, change) {
                    self.violated(now, OTHER_CONTROLLERS, detail);
                }
                self.node_pools.changed(change, now);
                self.note_event(change, now);
                if change.resource.kind == "NodePool" {
                    self.pool_changed(change);
                }
                if change.resource == NODES
                    && let Some(detail) = self.open_nodes.changed(&change.object, change.kind == ChangeKind::Deleted)
                {
                    self.violated(now, STAYS_OPEN, detail);
                }
            }
        }
        let revision = driver.claims().revision();
        let due = now.duration_since(self.looked) >= SignedDuration::from_secs(30);
        if revision != self.claims_seen || due {
            self.claims_seen = revision;
            self.looked = now;
            let claims = driver.claims().snapshot();
            for claim in claims.iter().filter(|claim| !claim.spec.nominated_pods.is_empty()) {
                let nominated = self.nominated.entry(claim.name.clone()).or_default();
                nominated.extend(claim.spec.nominated_pods.iter().cloned());
            }
            let commands = driver.claims().commands_now();
            self.violations.extend(self.commands.check(&commands, &claims, now));
            let pools = &self.pools;
            let again = self.unready.check(&commands, &claims, |pool| template_of(driver, pools.get(pool)), now);
            again.into_iter().for_each(|detail| self.violated(now, UNREADY_REPLACEMENTS, detail));
            let in_vain = self.unused_launches.check(&claims, now);
            in_vain.into_iter().for_each(|detail| self.violated(now, LAUNCHES_ARE_TAKEN, detail));
            let exceeded = self.virtual_pods.check(driver, &claims);
            exceeded.into_iter().for_each(|detail| self.violated(now, QUOTAS, detail));
            same_places(&claims).into_iter().for_each(|detail| self.violated(now, ONE_INSTANCE, detail));
            self.check_instances(driver, &claims, now);
            self.check_voluntary_disruption(driver, &claims, now);
            self.check_lifetimes(driver, &claims, now);
            self.check_node_pools(driver, &claims, now);
        }
    }

    /// When claims and their instances ended or should have, and what their Nodes have of them.
    fn check_lifetimes(&mut self, driver: &Driver, claims: &[NodeClaim], now: Timestamp) {
        let without = self.authorities.launched_without(driver);
        without.into_iter().for_each(|detail| self.violated(now, ACTIVE_AUTHORITY, detail));
        let instances = driver.world().ec2().instances();
        self.recorded_time.observe(claims, &instances, now);
        expired(claims, now).into_iter().for_each(|detail| self.violated(now, EXPIRY, detail));
        drain_too_long(claims, now).into_iter().for_each(|detail| self.violated(now, DRAINS_END, detail));
        let unhandled = self.interruptions.as_mut().map(|checks| checks.check(claims, &instances)).unwrap_or_default();
        unhandled.into_iter().for_each(|detail| self.violated(now, INTERRUPTIONS, detail));
        let unused = self.announced_ends.as_mut().map(|checks| checks.check(driver, claims, now)).unwrap_or_default();
        unused.into_iter().for_each(|detail| self.violated(now, ANNOUNCED_ENDS, detail));
        // Records of a table that was just restored may be older than the Nodes of their claims.
        let known = self.replaced.is_none_or(|at| now.duration_since(at) > REPAIRED_AFTER);
        let differences = if known { metadata::differences(&Nodes::read(driver), claims) } else { Vec::new() };
        differences.into_iter().for_each(|detail| self.violated(now, METADATA, detail));
    }

    fn check_node_pools(&mut self, driver: &Driver, claims: &[NodeClaim], now: Timestamp) {
        let unusable =
            driver.world().ec2().with_account(|account| self.node_pools.created_for_unusable(claims, account));
        unusable.into_iter().for_each(|detail| self.violated(now, UNUSABLE_NODE_POOLS, detail));
        let stay = self.node_pools.outlive_their_pool(claims, now);
        stay.into_iter().for_each(|detail| self.violated(now, DELETED_NODE_POOLS, detail));
    }

    fn pool_changed(&mut self, change: &Change) {
        // Limits and budgets of a deleted NodePool no longer apply.
        if change.kind == ChangeKind::Deleted {
            self.pools.remove(change.name());
        } else {
            self.pools.insert(change.name().to_owned(), change.object.as_ref().clone());
        }
    }

    fn pod_changed(&mut self, change: &Change, now: Timestamp) {
        let pod = &change.object;
        let uid = text(pod, "/metadata/uid");
        let bound = !text(pod, "/spec/nodeName").is_empty();
        let gone = change.kind == ChangeKind::Deleted || pod.pointer("/metadata/deletionTimestamp").is_some();
        if bound || gone {
            if let Some(waited) = self.pending.remove(uid)
                && bound
            {
                let wait = now.duration_since(waited.created).as_millis();
                self.waits.push(i64::try_from(wait).unwrap_or(i64::MAX));
            }
            return;
        }
        let owners = pod.pointer("/metadata/ownerReferences").and_then(Value::as_array);
        if owners.into_iter().flatten().any(|owner| owner["kind"] == "DaemonSet") {
            return;
        }
        let unschedulable = condition_of(pod, "PodScheduled")
            .is_some_and(|scheduled| scheduled["status"] == "False" && scheduled["reason"] == "Unschedulable");
        let entry = self.pending.entry(uid.to_owned()).or_insert_with(|| Pending {
            key: format!("{}/{}", text(pod, "/metadata/namespace"), text(pod, "/metadata/name")),
            created: now,
            marked: None,
            plans: 0,
            refused: false,
            last_refused: None,
            message: String::new(),
        });
        if unschedulable {
            entry.marked.get_or_insert(now);
        }
        if let Some(scheduled) = condition_of(pod, "PodScheduled") {
            entry.message = scheduled["message"].as_str().unwrap_or_default().to_owned();
        }
    }

    /// An Event may state that kube-scheduler does not place a pod where plans do.
    fn note_event(&mut self, change: &Change, now: Timestamp) {
        if change.resource == EVENTS
            && text(&change.object, "/reason") == "NotScheduledAsPlanned"
            && let Some(pod) = self.pending.get_mut(text(&change.object, "/involvedObject/uid"))
        {
            pod.last_refused = Some(now);
        }
    }

    /// Checks the reports of operations.
    pub(crate) fn take_outcomes(&mut self, outcomes: &[(Timestamp, Outcome)], driver: &Driver) {
        for (at, outcome) in outcomes {
            if let Outcome::Planned(Ok(report)) = outcome
                && !report.repeated
            {
                self.note_refused(*at, report);
                if report.problems.is_empty() {
                    self.planned(*at, report, driver);
                }
            }
        }
        let now = driver.world().now();
        let missing = self.claim_objects.missing(outcomes, driver);
        missing.into_iter().for_each(|detail| self.violated(now, CLAIM_OBJECTS, detail));
        let waited = |pod: &Pending| {
            let since = pod.last_refused.max(pod.marked).filter(|_| !pod.refused && pod.marked.is_some());
            since.map_or(SignedDuration::ZERO, |since| now.duration_since(since))
        };
        let stuck = self.pending.values().filter(|pod| waited(pod) > LONGEST_WAIT);
        let stuck: Vec<String> = stuck
            .map(|pod| (pod, self.failed_instances(&pod.key, driver)))
            .filter(|(pod, dead)| waited(pod) > LONGEST_WAIT + WAIT_PER_FAILURE * *dead)
            .map(|(pod, dead)| {
                let waited = waited(pod).as_mins();
                format!(
                    "pod {} has waited for {waited} minutes and {dead} instances that never joined, although no plan \
                     reports it unschedulable; kube-scheduler: {}",
                    pod.key, pod.message
                )
            })
            .collect();
        for detail in stuck {
            self.violated(now, PODS_RUN, detail);
        }
    }

    /// The number of machines that were launched for a pod and never join.
    fn failed_instances(&self, pod: &str, driver: &Driver) -> i32 {
        let pods_of = |id: &str| self.nominated.get(self.machines.get(id)?);
        let dead = driver.world().ec2().instances().into_iter().filter(|instance| !instance.joins);
        let of_pod = dead.filter(|instance| pods_of(&instance.id).is_some_and(|pods| pods.contains(pod)));
        i32::try_from(of_pod.count()).unwrap_or(i32::MAX)
    }

    /// Which pods a plan reports as unschedulable. A plan with problems does too.
    fn note_refused(&mut self, at: Timestamp, report: &PlanReport) {
        let refused: BTreeSet<&str> = report.unschedulable.iter().map(|(pod, _)| pod.as_str()).collect();
        for pod in self.pending.values_mut().filter(|pod| is_seen(pod, at)) {
            pod.refused = refused.contains(pod.key.as_str());
            if pod.refused {
                pod.last_refused = Some(at);
            }
        }
    }

    fn planned(&mut self, at: Timestamp, report: &PlanReport, driver: &Driver) {
        if self.pending.is_empty() && self.announced_ends.is_none() {
            return;
        }
        let refused: BTreeSet<&str> = report.unschedulable.iter().map(|(pod, _)| pod.as_str()).collect();
        let placed: BTreeSet<&str> = report.placements.iter().map(|(pod, _)| pod.as_str()).collect();
        let claims = driver.claims().snapshot();
        let names = claims.iter().map(|claim| &claim.name).chain(&report.created);
        let nominated: BTreeSet<&str> =
            names.filter_map(|name| self.nominated.get(name)).flatten().map(String::as_str).collect();
        // The node that ends may have been launched for the pod itself.
        let staying = claims.iter().filter(|claim| !claim.phase.is_leaving()).map(|claim| &claim.name);
        let staying: BTreeSet<&str> = staying
            .chain(&report.created)
            .filter_map(|name| self.nominated.get(name))
            .flatten()
            .map(String::as_str)
            .collect();
        let has_other_place = |pod: &str| refused.contains(pod) || placed.contains(pod) || staying.contains(pod);
        let ends = self.announced_ends.as_mut();
        let without = ends.map(|checks| checks.planned(driver, at, &claims, has_other_place)).unwrap_or_default();
        let mut forgotten = Vec::new();
        for pod in self.pending.values_mut().filter(|pod| is_seen(pod, at)) {
            pod.plans += 1;
            let key = pod.key.as_str();
            if pod.plans >= 2 && !pod.refused && !placed.contains(key) && !nominated.contains(key) {
                forgotten.push(format!(
                    "pod {key} is pending since {} and {} plans do not mention it",
                    pod.created, pod.plans
                ));
            }
        }
        without.into_iter().for_each(|detail| self.violated(at, ANNOUNCED_ENDS, detail));
        for detail in forgotten {
            self.violated(at, EXPLAINED, detail);
        }
    }

    fn check_instances(&mut self, driver: &Driver, claims: &[NodeClaim], now: Timestamp) {
        let mut owners: BTreeMap<&str, &str> = BTreeMap::new();
        for claim in claims {
            let Some(instance) = &claim.status.instance else { continue };
            if let Some(other) = owners.insert(&instance.id, &claim.name) {
                let detail = format!("claims {other} and {} both have instance {}", claim.name, instance.id);
                self.violated(now, ONE_INSTANCE, detail);
            }
            self.machines.insert(instance.id.clone(), claim.name.clone());
            let known = self.instances.entry(claim.uid.clone()).or_insert_with(|| instance.id.clone());
            if *known != instance.id {
                let detail = format!("claim {} had instance {known} and now has {}", claim.name, instance.id);
                self.violated(now, ONE_INSTANCE, detail);
            }
        }
        let mut running: BTreeMap<String, Running> = BTreeMap::new();
        let mut unowned = BTreeMap::new();
        let mut groups: BTreeMap<String, u32> = BTreeMap::new();
        let facts = driver.world().ec2().facts();
        let nodes = Nodes::read(driver);
        for instance in driver.world().ec2().instances() {
            if let Some(group) = instance.tags.get(labels::LAUNCH_GROUP_TAG) {
                *groups.entry(group.clone()).or_default() += 1;
            }
            if is_instance_of_other(&instance) {
                continue;
            }
            self.launched.insert(instance.id.clone());
            if !instance.state.is_alive() {
                continue;
            }
            let pool = instance.tags.get(labels::NODE_POOL);
            // A user may have removed the tags of an instance that was recorded on a claim.
            if pool.is_none() && !self.machines.contains_key(&instance.id) {
                continue;
            }
            let kind = facts.types.get(&instance.offering.instance_type);
            let owner =
                claims.iter().find(|claim| Some(claim.name.as_str()) == owners.get(instance.id.as_str()).copied());
            let leaves = owner.is_some_and(leaves_involuntarily);
            if leaves {
                self.forced.insert(instance.id.clone());
            }
            let is_exempt = leaves || (self.forced.contains(&instance.id) && nodes.are_ending(&instance.id));
            let owner_pool = owner.and_then(|claim| claim.node_pool.as_ref());
            // No limits apply to a node without a NodePool.
            let name = pool.or(owner_pool).filter(|name| !name.is_empty());
            if let Some(name) = name.filter(|_| !is_exempt) {
                let entry = running.entry(name.clone()).or_default();
                if let Some(kind) = kind {
                    entry.add(kind);
                }
                entry.nodes += 1.0;
                entry.dollars += if self.checks_dollars { instance.price } else { 0.0 };
            }
            if !owners.contains_key(instance.id.as_str()) {
                // EC2 is not called for a zone that is shifted away from, and does nothing that it does not authorize.
                let denied = |api: &&str| driver.world().ec2().denies(api);
                let waits = driver.world().is_shifted(&instance.offering.zone)
                    || ["DescribeInstances", "TerminateInstances"].iter().any(denied);
                let since = self.unowned.get(&instance.id).copied().filter(|_| !waits).unwrap_or(now);
                if now.duration_since(since) > UNOWNED {
                    let detail = format!("instance {} has no claim since {since}", instance.id);
                    self.violated(now, NO_ORPHANS, detail);
                }
                unowned.insert(instance.id, since);
            }
        }
        self.unowned = unowned;
        for claim in claims {
            let Some(group) = &claim.spec.launch_group else { continue };
            let launched = groups.get(&group.id).copied().unwrap_or(0);
            if launched > group.size {
                let detail = format!("{launched} instances were launched for group {} of {}", group.id, group.size);
                self.violated(now, ONE_INSTANCE, detail);
            }
        }
        self.check_limits(&running, now);
        self.check_cluster_limits(driver, &running, now);
    }

    /// Checks the instances of each NodePool, except for those terminated forcefully, against its limits of cpu, memory, GPUs, nodes and
    /// dollars per hour.
    fn check_limits(&mut self, running: &BTreeMap<String, Running>, now: Timestamp) {
        let mut passed = Vec::new();
        for (pool, running) in running {
            let Some(object) = self.pools.get(pool) else { continue };
            let limits = &object["spec"]["limits"];
            let annotated = &object["metadata"]["annotations"]["nodeless.sh/dollars-per-hour"];
            let number = |value: &Value| match value {
                Value::String(text) => text.parse::<f64>().ok().or_else(|| bytes(text)),
                other => other.as_f64(),
            };
            for (what, used, limit) in [
                ("CPUs", running.cpus, &limits["cpu"]),
                ("bytes of memory", running.memory, &limits["memory"]),
                ("GPUs", running.gpus, &limits["nvidia.com/gpu"]),
                ("nodes", running.nodes, &limits["nodes"]),
                ("dollars per hour", running.dollars, &limits["nodeless.sh/dollars-per-hour"]),
                ("dollars per hour", running.dollars, annotated),
            ] {
                // Prices are added in another order than in the table.
                if let Some(limit) = number(limit).filter(|limit| used > limit + 1e-6) {
                    passed.push(format!("NodePool {pool} has {used} {what}, and its limit is {limit}"));
                }
            }
        }
        passed.into_iter().for_each(|detail| self.violated(now, LIMITS, detail));
    }

    /// Checks the instances of all NodePools together against the annotations of the Namespace `kube-system`.
    fn check_cluster_limits(&mut self, driver: &Driver, running: &BTreeMap<String, Running>, now: Timestamp) {
        let Ok(system) = driver.world().api().get(&NAMESPACES, "", "kube-system") else { return };
        let sum = |of: fn(&Running) -> f64| running.values().map(of).sum::<f64>();
        for (what, used, annotation) in [
            ("CPUs", sum(|one| one.cpus), "nodeless.sh/max-cpu"),
            ("nodes", sum(|one| one.nodes), "nodeless.sh/max-nodes"),
            ("dollars per hour", sum(|one| one.dollars), "nodeless.sh/max-dollars-per-hour"),
        ] {
            let limit =
                system["metadata"]["annotations"][annotation].as_str().and_then(|text| text.parse::<f64>().ok());
            if let Some(limit) = limit.filter(|limit| used > limit + 1e-6) {
                let detail = format!("all NodePools have {used} {what}, and the cluster's limit is {limit}");
                self.violated(now, CLUSTER_LIMITS, detail);
            }
        }
    }

    /// Whenever the voluntary disruption of a claim begins, all disruptions with that reason are counted against the budgets, and
    /// its pods are checked for blocking it.
    fn check_voluntary_disruption(&mut self, driver: &Driver, claims: &[NodeClaim], now: Timestamp) {
        let nodes = Nodes::read(driver);
        for (pool, size) in nodes.sizes() {
            let history = self.sizes.entry(pool.to_owned()).or_default();
            history.retain(|(at, _)| now.duration_since(*at) <= BUDGET_WINDOW);
            history.push((now, size));
        }
        let leaving: Vec<(&NodeClaim, &'static str)> =
            claims.iter().filter_map(|claim| Some((claim, voluntary_reason(claim)?))).collect();
        let system = driver.world().api().get(&NAMESPACES, "", "kube-system").ok();
        let windows = system.and_then(|it| {
            it["metadata"]["annotations"]["nodeless.sh/maintenance-windows"].as_str().map(str::to_owned)
        });
        let mut wrong = Vec::new();
        let left: Vec<&NodeClaim> = leaving.iter().map(|(claim, _)| *claim).collect();
        let below = self.on_demand.check(driver, &self.pools, claims, &left, now);
        wrong.extend(below.into_iter().map(|detail| (ON_DEMAND_MINIMUM, detail)));
        let empty = self.empty_nodes.check(driver, &self.pools, claims, now);
        wrong.extend(empty.into_iter().map(|detail| (EMPTY_NODES, detail)));
        for (claim, reason) in leaving.iter().filter(|(claim, _)| !self.leaving.contains(&claim.name)) {
            // A plan uses the state at its start.
            let taken = claim.condition(condition::DISRUPTION_REASON).map_or(now, |it| it.last_transition_time);
            let decided = self.commands.decided(claim, now).map_or(taken, |validated| validated.min(taken));
            // A plan uses the time at its start.
            let begun = claim.status.termination.as_ref().map_or(now, |end| end.requested);
            if windows.as_ref().is_some_and(|windows| !disruption_budgets::is_open(windows, begun)) {
                let detail =
                    format!("node of claim {} leaves for {reason} since {begun}, outside of the windows", claim.name);
                wrong.push((MAINTENANCE, detail));
            }
            if let Some(violation) = self.commands.leaves(claim, now) {
                wrong.push((violation.invariant, violation.detail));
            }
            if let Some(what) = do_not_disrupt_on(driver, &nodes, claim, decided) {
                let detail = format!("node of claim {} leaves for {reason}, and {what}", claim.name);
                wrong.push((DO_NOT_DISRUPT, detail));
            }
            if *reason != "Drifted"
                && let Some(lost) = local_volumes::lost(driver, &nodes, claim)
            {
                let detail = format!("node of claim {} leaves for {reason}, with the volume of {lost}", claim.name);
                wrong.push((LOCAL_VOLUMES, detail));
            }
            if *reason == "Empty" {
                let knowable = |pod: &Pending| !pod.message.contains(UNKNOWABLE);
                let waiting = self.pending.iter().filter(|(_, pod)| pod.created < claim.created && knowable(pod));
                let waiting = waiting.map(|(uid, pod)| (uid.as_str(), pod.key.as_str())).collect();
                let unused = self.unused_nodes.left(claim, &waiting);
                wrong.extend(unused.map(|detail| (NODES_ARE_USED, detail)));
            }
            let Some(pool) = &claim.node_pool else { continue };
            let Some(object) = self.pools.get(pool) else { continue };
            if *reason == "Drifted" {
                wrong.extend(drift_violations(&mut self.authorities, driver, object, claims, claim, decided));
            }
            let most = self.sizes.get(pool).and_then(|sizes| sizes.iter().map(|(_, size)| *size).max()).unwrap_or(0);
            let allowed = disruption_budgets::allowed(object, reason, most, &[decided, now]);
            let count = leaving.iter().filter(|(other, why)| other.is_of(pool) && why == reason).count();
            if count > allowed {
                let detail = format!(
                    "{count} nodes of NodePool {pool} leave for {reason}, and its budgets allow {allowed} of {most}"
                );
                wrong.push((DISRUPTION_BUDGETS, detail));
            }
        }
        self.leaving = leaving.iter().map(|(claim, _)| claim.name.clone()).collect();
        wrong.into_iter().for_each(|(invariant, detail)| self.violated(now, invariant, detail));
    }

    /// Pending pods for which no plan gives a reason.
    pub(crate) fn unexplained(&self) -> Vec<String> {
        self.pending.values().filter(|pod| pod.marked.is_some() && !pod.refused).map(|pod| pod.key.clone()).collect()
    }

    /// The numbers of pods without a node, and of running pods.
    pub(crate) fn pods(&self, driver: &Driver) -> (usize, usize) {
        let pods = driver.world().api().list(&PODS, &ListOptions::default());
        let pods = pods.map(|list| list.items).unwrap_or_default();
        (self.pending.len(), pods.iter().filter(|pod| text(pod, "/status/phase") == "Running").count())
    }
}

/// Why a node of a NodePool that drifted should not leave.
fn drift_violations(
    authorities: &mut AuthorityChecks,
    driver: &Driver,
    pool: &Value,
    claims: &[NodeClaim],
    claim: &NodeClaim,
    decided: Timestamp,
) -> Vec<(&'static str, String)> {
    let canary = ami_canary::violation(pool, claims, claim, decided, driver.world().now());
    let again = authorities.should_stay(driver, claim);
    let canary = canary.map(|detail| (AMI_CANARY, detail));
    canary.into_iter().chain(again.map(|detail| (ONE_ROTATION, detail))).collect()
}

/// What a NodePool launches, as a text that changes with its spec, and with the spec and the AMIs of its EC2NodeClass.
fn template_of(driver: &Driver, pool: Option<&Value>) -> String {
    let Some(pool) = pool else { return String::new() };
    let class = driver.world().api().get(&NODE_CLASSES, "", text(pool, "/spec/template/spec/nodeClassRef/name"));
    let class = class.map_or(Value::Null, |class| json!([class["metadata"]["generation"], class["status"]["amis"]]));
    format!("{} {} {class}", pool["metadata"]["uid"], pool["metadata"]["generation"])
}

/// A quantity with a binary suffix, such as `160Gi`.
fn bytes(text: &str) -> Option<f64> {
    let units = [("Ki", 10), ("Mi", 20), ("Gi", 30), ("Ti", 40)];
    let (number, power) = units.iter().find_map(|(unit, power)| Some((text.strip_suffix(unit)?, *power)))?;
    Some(number.parse::<f64>().ok()? * 2_f64.powi(power))
}

/// Whether a node is disrupted involuntarily, so that its NodePool may have another node from then on.
fn leaves_involuntarily(claim: &NodeClaim) -> bool {
    let reason = claim.status.termination.as_ref().filter(|_| claim.status.node_name.is_some()).map(|end| end.reason);
    let taken = ["expired", "interrupted", "unhealthy", "deleted", "garbage_collected"];
    claim.phase >= Phase::Draining && reason.is_some_and(|reason| taken.contains(&reason.as_str()))
}

/// The reason of a voluntary disruption, as budgets name it. Karpenter no longer counts a node whose instance is being
/// terminated: it has no pods any more. Neither has a warm node, which was launched for no pod and is not initialized.
fn voluntary_reason(claim: &NodeClaim) -> Option<&'static str> {
    let is_warm = claim.spec.nominated_pods.is_empty() && !claim.has_condition(condition::INITIALIZED);
    let drains = claim.phase == Phase::Draining && !is_warm;
    let end = claim.status.termination.as_ref().filter(|_| drains)?;
    match end.reason {
        TerminationReason::Empty => Some("Empty"),
        TerminationReason::Underutilized => Some("Underutilized"),
        TerminationReason::Drifted => Some("Drifted"),
        TerminationReason::Unbalanced => Some("Unbalanced"),
        _ => None,
    }
}

/// A decision must take into account the pods that have run for longer than this.
const KNOWN_AFTER: SignedDuration = SignedDuration::from_mins(1);

/// The reason why a node was not to be disrupted at the time of the decision. Pods do not block drift of a node with a termination grace
/// period.
fn do_not_disrupt_on(driver: &Driver, nodes: &Nodes, claim: &NodeClaim, decided: Timestamp) -> Option<String> {
    let asks = |object: &Value| object["metadata"]["annotations"][labels::DO_NOT_DISRUPT] == "true";
    if nodes.of_claim(claim).any(asks) {
        return Some("the node has the annotation do-not-disrupt".to_owned());
    }
    let drifted = claim.status.termination.as_ref().is_some_and(|end| end.reason == TerminationReason::Drifted);
    if drifted && claim.spec.termination_grace_period.is_some() {
        return None;
    }
    let pods_on = |node: &Value| {
        let fields = format!("spec.nodeName={}", text(node, "/metadata/name"));
        let list = driver.world().api().list(&PODS, &ListOptions { fields, ..ListOptions::default() });
        list.map(|list| list.items).unwrap_or_default()
    };
    let pods: Vec<_> = nodes.of_claim(claim).flat_map(pods_on).collect();
    let forbids = |pod: &&std::sync::Arc<Value>| {
        let started: Option<Timestamp> = text(pod, "/status/startTime").parse().ok();
        let known = started.is_some_and(|started| decided.duration_since(started) > KNOWN_AFTER);
        let runs = text(pod, "/status/phase") == "Running" && pod.pointer("/metadata/deletionTimestamp").is_none();
        asks(pod) && known && runs
    };
    pods.iter()
        .find(forbids)
        .map(|pod| format!("pod {} has the annotation do-not-disrupt", text(pod, "/metadata/name")))
}
