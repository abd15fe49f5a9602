//! Converts planned nodes to claims.

pub(crate) mod beyond_limits;
pub(crate) mod budgets;
pub(crate) mod cluster_limits;
pub(crate) mod stopped;

use crate::action::{Action, PlanLine, Written};
use crate::facts::Facts;
use crate::pools::EvaluatedPool;
use crate::records::report::Outcome;
use jiff::Timestamp;
use nodeless_api::EC2NodeClass;
use nodeless_disruption::Replacement;
use nodeless_launch::volume_prices;
use nodeless_lifecycle::Awaited;
use nodeless_model::claim::{LaunchGroup, OfferingKey};
use nodeless_model::{
    ClusterLimits, InstanceType, NodeClaim, NodeClaimSpec, NodeClaimStatus, NodePool, Phase, Pod, Quantity,
    ResourceList, StringMap, labels, resources,
};
use nodeless_operations::{names::Names, node_class};
use nodeless_scheduling::Launch;
use nodeless_state::claims::MAX_TOGETHER;
use nodeless_state::limits::{LaunchLimits, PoolLimits};
use std::collections::{BTreeMap, HashMap};

/// A planned node, before it has a name.
pub(super) struct PlannedNode<'a> {
    pub(super) launch: &'a Launch,
    /// The pods of the node, `namespace/name`.
    pub(super) pods: Vec<String>,
    /// The ProvisioningRequest, by namespace and name, whose nodes EC2 launches all or not at all.
    pub(super) whole_for: Option<(String, String)>,
    /// The claims that it replaces.
    pub(super) replaces: Vec<String>,
    /// The offerings that it does not use, because other nodes use up their launch budgets.
    pub(super) avoided: Vec<OfferingKey>,
}

/// The launch groups of planned nodes: those with the same parameters of CreateFleet share one call.
pub(super) fn groups(planned: Vec<PlannedNode<'_>>, facts: Facts<'_>, names: &mut Names) -> Vec<Vec<NodeClaim>> {
    let claiming = Claiming::new(facts);
    let mut alike: BTreeMap<(String, String, Option<Quantity>), Vec<PlannedNode<'_>>> = BTreeMap::new();
    for one in planned {
        let key = (one.key(), claiming.drivers(&one), storage_of_pods(&one, facts));
        alike.entry(key).or_default().push(one);
    }
    let size = usize::try_from(facts.snapshot.settings.group_size).unwrap_or(MAX_TOGETHER).clamp(1, MAX_TOGETHER);
    let mut groups = Vec::new();
    for ((_, drivers, _), members) in &alike {
        for group in members.chunks(size) {
            let pool = group.first().and_then(|one| facts.pool(&one.launch.node_pool));
            groups.extend(pool.map(|pool| claims_of(group, drivers, pool, facts, names)));
        }
    }
    groups
}

/// The requests of a planned node for ephemeral storage, if they determine the size of its root volume.
fn storage_of_pods(planned: &PlannedNode<'_>, facts: Facts<'_>) -> Option<Quantity> {
    let pool = facts.pool(&planned.launch.node_pool)?;
    pool.pool.options.root_volume.valid().filter(|size| size.pods)?;
    Some(planned.launch.requests.get(resources::name::EPHEMERAL_STORAGE))
}

/// The writes of launch groups.
pub(super) fn writes(groups: &[Vec<NodeClaim>], facts: Facts<'_>) -> Vec<Action> {
    let limits = |group: &Vec<NodeClaim>| {
        let pool = group.first().and_then(|claim| facts.pool(claim.node_pool.as_deref()?));
        limits(pool.map(|pool| &pool.pool), &facts.snapshot.cluster_limits())
    };
    groups.iter().map(|group| Action::CreateGroup(group.clone(), limits(group))).collect()
}

/// The result of writing launch groups.
#[derive(Default)]
pub(super) struct Created {
    /// The written claims.
    pub(super) claims: Vec<NodeClaim>,
    /// The leaders of the launch groups, which have to be woken.
    pub(super) leaders: Vec<String>,
    /// The lines to log.
    pub(super) lines: Vec<Action>,
    /// Whether something was not written, so that another plan is requested.
    pub(super) incomplete: bool,
    pub(super) outcome: Outcome,
}

/// Evaluates the answers to [`writes`].
pub(super) fn created<'w>(groups: Vec<Vec<NodeClaim>>, written: impl IntoIterator<Item = &'w Written>) -> Created {
    let mut created = Created::default();
    for (group, answer) in groups.into_iter().zip(written) {
        match answer.problem() {
            None => {
                created.leaders.extend(group.first().map(|leader| leader.name.clone()));
                created.claims.extend(group.into_iter().map(|claim| NodeClaim { version: 1, ..claim }));
            }
            Some(why) => {
                let names: Vec<&str> = group.iter().map(|claim| claim.name.as_str()).collect();
                let problem = format!("NodeClaims were not created: {why}: {}", names.join(", "));
                created.outcome.report.problems.push(problem);
                created.lines.extend(group.first().map(|claim| {
                    let (claim, node_pool) = (claim.name.clone(), claim.node_pool.clone());
                    Action::Log(PlanLine::ClaimRefused { claim, node_pool, why: why.to_owned() })
                }));
                created.incomplete = true;
            }
        }
    }
    created.outcome.report.created.extend(created.claims.iter().map(|claim| claim.name.clone()));
    created
}

/// The claims of a launch group, whose pods claim devices of these drivers.
fn claims_of(
    group: &[PlannedNode<'_>],
    drivers: &str,
    evaluated: &EvaluatedPool,
    facts: Facts<'_>,
    names: &mut Names,
) -> Vec<NodeClaim> {
    let pool = &evaluated.pool;
    let class = facts.snapshot.view.node_classes.get(&pool.template.node_class);
    let named: Vec<(String, String)> = group.iter().map(|_| names.next(&pool.name)).collect();
    let id = named.first().map(|(_, uid)| uid.clone()).unwrap_or_default();
    let size = u32::try_from(group.len()).unwrap_or(u32::MAX);
    // All members have the same launch.
    let left_out: Vec<OfferingKey> = group.first().map_or_else(Vec::new, |one| {
        let recent = facts.snapshot.recent_interruptions(facts.claims);
        let left = recent.left_out(one.launch, pool, &evaluated.types.instance_types);
        left.into_iter().map(|left| left.offering).collect()
    });
    let all_or_none = group.first().is_some_and(|one| one.whole_for.is_some());
    let awaited = Awaited::new(pool, &facts.snapshot.view.daemon_sets);
    let members = (0_u32..).zip(group.iter().zip(named));
    members
        .map(|(index, (planned, named))| {
            let launch_group = LaunchGroup { id: id.clone(), index, size, all_or_none };
            let mut claim = claim(planned, evaluated, class, named, launch_group, facts.snapshot.now);
            if !drivers.is_empty() {
                claim.spec.annotations.insert(labels::DRA_DRIVERS.to_owned(), drivers.to_owned());
            }
            awaited.close(&mut claim);
            claim.spec.avoided_offerings.extend(left_out.iter().cloned());
            claim.spec.avoided_offerings.sort();
            claim.spec.avoided_offerings.dedup();
            claim
        })
        .collect()
}

/// The pods that claim devices.
struct Claiming<'a> {
    facts: Facts<'a>,
    /// By `namespace/name`.
    pods: HashMap<String, &'a Pod>,
}

impl<'a> Claiming<'a> {
    fn new(facts: Facts<'a>) -> Self {
        let view = &facts.snapshot.view;
        let claiming = view.pods.iter().filter(|pod| !pod.template.resource_claims.is_empty());
        Self { facts, pods: claiming.map(|pod| (pod.key(), &**pod)).collect() }
    }

    /// The drivers of the devices that the pods of a planned node claim, separated by commas.
    fn drivers(&self, planned: &PlannedNode<'_>) -> String {
        let pods: Vec<&Pod> = planned.pods.iter().filter_map(|pod| self.pods.get(pod).copied()).collect();
        if pods.is_empty() {
            return String::new();
        }
        let launch = planned.launch;
        let types = self.facts.pool(&launch.node_pool).into_iter().flat_map(|pool| pool.types.instance_types.iter());
        let listed = |kind: &&InstanceType| launch.instance_types.iter().any(|listed| listed.name == kind.name);
        let drivers =
            nodeless_scheduling::claimed_drivers(&pods, &self.facts.snapshot.view.devices, types.filter(listed));
        drivers.into_iter().collect::<Vec<_>>().join(",")
    }
}

/// The claims of a command's replacements, all decided before the first is written. Each is written and launched on its own.
pub(super) fn planned(
    replacements: &[Replacement],
    replaces: &[String],
    facts: Facts<'_>,
    names: &mut Names,
) -> Result<Vec<NodeClaim>, String> {
    let claiming = Claiming::new(facts);
    let mut claims = Vec::with_capacity(replacements.len());
    for replacement in replacements {
        let launch = &replacement.launch;
        let pool = facts
            .pool(&launch.node_pool)
            .ok_or_else(|| format!("the NodePool {} of a replacement does not exist", launch.node_pool))?;
        let (pods, replaces) = (replacement.pods.clone(), replaces.to_vec());
        let planned = PlannedNode { launch, pods, whole_for: None, replaces, avoided: Vec::new() };
        let drivers = claiming.drivers(&planned);
        claims.extend(claims_of(&[planned], &drivers, pool, facts, names));
    }
    Ok(claims)
}

pub(super) fn limits(pool: Option<&NodePool>, cluster: &ClusterLimits) -> LaunchLimits {
    let of =
        |pool: &NodePool| PoolLimits { resources: pool.limits.clone(), dollars_per_hour: pool.limit_dollars_per_hour };
    LaunchLimits { node_pool: pool.map(of).unwrap_or_default(), cluster: cluster.clone() }
}

/// The minimum of each resource over a launch's instance types.
pub(super) fn least(launch: &Launch, types: &[InstanceType]) -> ResourceList {
    let of = |name: &String| types.iter().find(|kind| kind.name == *name).map(InstanceType::allocatable);
    let mut kinds = launch.instance_types.iter().filter_map(|kind| of(&kind.name));
    let Some(mut least) = kinds.next() else { return ResourceList::new() };
    for other in kinds {
        least = least.iter().map(|(name, quantity)| (name.to_owned(), quantity.min(other.get(name)))).collect();
    }
    least
}

/// The annotations of a claim about its EC2NodeClass.
pub(super) fn class_annotations(class: Option<&EC2NodeClass>) -> StringMap {
    let mut annotations = class.map(node_class::hash_annotations).unwrap_or_default();
    let profile = class.and_then(|class| class.status.as_ref()?.instance_profile.clone());
    annotations.extend(profile.map(|profile| (labels::INSTANCE_PROFILE_NAME.to_owned(), profile)));
    annotations
}

/// The annotations of the nodes of a launch.
fn annotations(launch: &Launch, evaluated: &EvaluatedPool, class: Option<&EC2NodeClass>) -> StringMap {
    let pool = &evaluated.pool;
    let mut annotations = pool.template.annotations.clone();
    annotations.insert(labels::NODE_POOL_HASH.to_owned(), pool.hash.clone());
    annotations.insert(labels::NODE_POOL_HASH_VERSION.to_owned(), nodeless_api::hash::VERSION.to_owned());
    annotations.extend(class_annotations(class));
    // In the template of the NodePool it has no effect.
    annotations.remove(labels::ROOT_VOLUME);
    let root_volume = pool.options.root_volume.valid();
    annotations.extend(root_volume.map(|size| (labels::ROOT_VOLUME.to_owned(), size.to_string())));
    if launch.min_values_relaxed {
        annotations.insert(labels::MIN_VALUES_RELAXED.to_owned(), "true".to_owned());
    }
    for (key, overlaid) in [
        (labels::PRICE_OVERLAY_APPLIED, &evaluated.types.priced),
        (labels::CAPACITY_OVERLAY_APPLIED, &evaluated.types.resourced),
    ] {
        if launch.instance_types.iter().any(|kind| overlaid.contains(&kind.name)) {
            annotations.insert(key.to_owned(), "true".to_owned());
        }
    }
    annotations
}

fn claim(
    planned: &PlannedNode<'_>,
    evaluated: &EvaluatedPool,
    class: Option<&EC2NodeClass>,
    named: (String, String),
    launch_group: LaunchGroup,
    now: Timestamp,
) -> NodeClaim {
    let (name, uid) = named;
    let (launch, pool) = (planned.launch, &evaluated.pool);
    let mut node_labels = pool.template.labels.clone();
    node_labels.insert(labels::NODE_POOL.to_owned(), pool.name.clone());
    node_labels.insert(labels::EC2_NODE_CLASS.to_owned(), pool.template.node_class.clone());
    let mut claim = NodeClaim {
        name,
        uid,
        node_pool: Some(pool.name.clone()),
        node_class: launch.node_class.clone(),
        created: now,
        version: 0,
        spec: NodeClaimSpec {
            requirements: launch.requirements.clone(),
            instance_types: launch.instance_types.iter().map(|kind| kind.name.clone()).collect(),
            labels: node_labels,
            annotations: annotations(launch, evaluated, class),
            taints: pool.template.taints.clone(),
            startup_taints: pool.template.startup_taints.clone(),
            requests: launch.requests.clone(),
            expire_after: pool.template.expire_after.and_then(nodeless_model::NillableDuration::duration),
            termination_grace_period: pool.template.termination_grace_period,
            launch_group: Some(launch_group),
            avoided_offerings: planned.avoided.clone(),
            charge: launch.charge.clone(),
            volumes_per_month: class.and_then(|class| volume_prices::dollars_per_month(&class.spec)),
            replaces: planned.replaces.clone(),
            nominated_pods: planned.pods.clone(),
        },
        phase: Phase::Reserved,
        status: NodeClaimStatus::default(),
    };
    if planned.pods.is_empty() {
        // The NodePool is static. Until the capacity of the node is known, pending pods may only use the minimum of its instance
        // types.
        claim.status.allocatable = least(launch, &evaluated.types.instance_types);
        if pool.options.root_volume.valid().is_some_and(|size| size.pods) {
            // Its root volume is as large as its own pods need.
            let requested = launch.requests.get(resources::name::EPHEMERAL_STORAGE);
            claim.status.allocatable.set(resources::name::EPHEMERAL_STORAGE, requested);
        }
    }
    nodeless_lifecycle::prepare(&mut claim);
    claim
}
