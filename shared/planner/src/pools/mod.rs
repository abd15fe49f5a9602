//! NodePools: their readiness and their status.

pub(crate) mod conditions;
pub(crate) mod hashes;
pub(crate) mod no_compatible_types;
pub(crate) mod overlays;
pub(crate) mod registration_health;

use crate::action::Action;
use crate::pools::conditions::{condition, with_status};
use crate::pools::registration_health::{HEALTHY, Registrations};
use crate::snapshot::Snapshot;
use jiff::Timestamp;
use nodeless_api::{Condition, ConditionStatus, NodePoolStatus, Quantity};
use nodeless_catalog::overlay::{Overlaid, OverlaidTypes, Plain};
use nodeless_disruption::schedules;
use nodeless_launch::volume_prices;
use nodeless_lifecycle::NodeClassState;
use nodeless_lifecycle::registration_health::HealthStatus;
use nodeless_model::claim::Charge;
use nodeless_model::labels::{DOLLARS_PER_HOUR, ROOT_VOLUME, SLEEP};
use nodeless_model::money::quantity_of;
use nodeless_model::node_pool::PoolUsage;
use nodeless_model::object::{ObjectEvent, ObjectRef};
use nodeless_model::resources::format_quantity;
use nodeless_model::{InstanceTypes, NodeClaim, NodePool, ResourceList, Unusable};
use nodeless_operations::{
    events::transitions,
    node_class,
    offers::{Availability, OfferCache},
    reported_memory,
};
use nodeless_ports::cluster::ClusterView;
use nodeless_scheduling::{ClusterUsage, PoolOffer};
use std::collections::BTreeMap;

/// Karpenter shows these of every NodePool, even if they are zero.
const BASE_RESOURCES: [&str; 6] = ["cpu", "ephemeral-storage", "hugepages-1Gi", "hugepages-2Mi", "memory", "pods"];

/// A NodePool, the instance types that it can launch, and whether it is ready.
#[derive(Clone)]
pub(super) struct EvaluatedPool {
    /// The NodePool, with the readiness that is computed here.
    pub(super) pool: NodePool,
    /// The instance types that it can launch, with all overlays.
    pub(super) types: OverlaidTypes,
    /// The end of the period in which the NodePool is scheduled off, if it is. The NodePool is ready, but launches nothing.
    pub(super) scheduled_off: Option<Timestamp>,
    usage: PoolUsage,
    /// The limits of the cluster and the usage of all NodePools, if there are such limits.
    cluster: Option<ClusterUsage>,
    /// Condition, reason and message of those that are not true.
    valid: Result<(), Unusable>,
    class_ready: Result<(), (String, String)>,
}

impl EvaluatedPool {
    pub(super) fn offer(&self) -> PoolOffer<'_> {
        PoolOffer {
            pool: &self.pool,
            instance_types: self.types.instance_types.clone(),
            usage: self.usage.clone(),
            cluster: self.cluster.clone(),
        }
    }
}

/// Counts launches of NodePools against their limits and those of the cluster, as the claims table does when claims are written.
pub(super) fn charge<'c>(evaluated: &mut [EvaluatedPool], charges: impl Iterator<Item = (&'c str, &'c Charge)>) {
    for (pool, charge) in charges {
        for one in evaluated.iter_mut() {
            if one.pool.name == pool {
                one.usage.add(charge);
            }
            one.cluster.iter_mut().for_each(|cluster| cluster.usage.add(charge));
        }
    }
}

/// The charges of claims that have a NodePool; others have none.
pub(super) fn charges<'c>(claims: impl Iterator<Item = &'c NodeClaim>) -> impl Iterator<Item = (&'c str, &'c Charge)> {
    claims.filter_map(|claim| Some((claim.node_pool.as_deref()?, &claim.spec.charge)))
}

/// Counts the claims that were created since the snapshot.
pub(super) fn charge_created(evaluated: &mut [EvaluatedPool], snapshot: &Snapshot, claims: &[NodeClaim]) {
    let is_known = |claim: &NodeClaim| snapshot.claims.iter().any(|known| known.name == claim.name);
    let created = claims.iter().filter(|claim| claim.created >= snapshot.now && !is_known(claim));
    charge(evaluated, charges(created));
}

/// The NodePools with the instance types of their EC2NodeClasses, or with their own ones.
pub(super) fn plain<'a>(
    view: &'a ClusterView,
    types: &BTreeMap<String, Result<InstanceTypes, String>>,
    own: &BTreeMap<String, InstanceTypes>,
) -> Vec<Plain<'a>> {
    let none = || InstanceTypes::from([]);
    let of_class = |pool: &NodePool| types.get(&pool.template.node_class).and_then(|types| types.clone().ok());
    let of = |pool: &NodePool| own.get(&pool.name).cloned().or_else(|| of_class(pool));
    view.node_pools.iter().map(|pool| Plain { pool, instance_types: of(pool).unwrap_or_else(none) }).collect()
}

/// Computes which NodePools can be used. An unusable one does not affect the others.
pub(super) fn evaluate(
    view: &ClusterView,
    types: &BTreeMap<String, Result<InstanceTypes, String>>,
    overlaid: &Overlaid,
    usage: &BTreeMap<String, PoolUsage>,
    now: Timestamp,
) -> Vec<EvaluatedPool> {
    let limits = view.options.limits();
    let invalid = view.options.invalid_limit().map(|why| Unusable(format!("Namespace kube-system: {why}")));
    let cluster = (!limits.are_none()).then(|| ClusterUsage { limits, usage: PoolUsage::sum(usage.values()) });
    let extended = view.extended_resources();
    let one = |pool: &NodePool| {
        let name = &pool.template.node_class;
        let mut types_of_pool = overlaid.pools.get(&pool.name).cloned().unwrap_or_default();
        if !extended.is_empty() {
            types_of_pool.instance_types = extended.added_to(&types_of_pool.instance_types);
        }
        let valid = pool.ready.clone().and_then(|()| root_volume_is_known(view, pool));
        let mut class_ready = class_readiness(view, name);
        if let (Ok(()), Some(Err(problem))) = (&class_ready, types.get(name)) {
            class_ready = Err(("NodeClassNotReady".to_owned(), format!("EC2NodeClass {name}: {problem}")));
        }
        let ready = match (&valid, &class_ready) {
            (Err(problem), _) => Err(problem.clone()),
            (_, Err((_, problem))) => Err(Unusable(problem.clone())),
            _ => Ok(()),
        };
        let scheduled_off = schedules::scheduled_off(pool, now).filter(|_| ready.is_ok());
        let ready = scheduled_off.map_or(ready, |until| {
            Err(Unusable(format!("it is scheduled off until {until} by its annotation {SLEEP}")))
        });
        let ready = ready.and_then(|()| invalid.clone().map_or(Ok(()), Err));
        EvaluatedPool {
            pool: NodePool { ready, ..pool.clone() },
            types: types_of_pool,
            scheduled_off,
            usage: usage.get(&pool.name).cloned().unwrap_or_default(),
            cluster: cluster.clone(),
            valid,
            class_ready,
        }
    };
    view.node_pools.iter().map(one).collect()
}

/// Whether the volume is known whose size a NodePool determines.
fn root_volume_is_known(view: &ClusterView, pool: &NodePool) -> Result<(), Unusable> {
    let name = &pool.template.node_class;
    let Some(class) = view.node_classes.get(name).filter(|_| pool.options.root_volume.valid().is_some()) else {
        return Ok(());
    };
    let price = volume_prices::of_root_volume_gib(&class.spec);
    price.map(drop).map_err(|why| Unusable(format!("annotation {ROOT_VOLUME}: EC2NodeClass {name}: {why}")))
}

/// Whether an EC2NodeClass is ready. Otherwise Karpenter's reason, or that of the class's `Ready` condition, and a message.
pub(super) fn class_readiness(view: &ClusterView, name: &str) -> Result<(), (String, String)> {
    let not = |reason: &str, why: String| Err((reason.to_owned(), why));
    let Some(class) = view.node_classes.get(name) else {
        let faulty = view.invalid.iter().find(|object| object.kind == "EC2NodeClass" && object.name == name);
        let why = faulty.map_or(format!("EC2NodeClass {name} does not exist; create it"), |object| {
            format!("EC2NodeClass {name} cannot be decoded: {}", object.message)
        });
        return not("NodeClassNotFound", why);
    };
    match node_class::state(class) {
        NodeClassState::Ready => Ok(()),
        NodeClassState::Missing => not("NodeClassNotFound", format!("EC2NodeClass {name} does not exist")),
        NodeClassState::Terminating => not("NodeClassTerminating", format!("EC2NodeClass {name} is being deleted")),
        NodeClassState::NotYetKnown => {
            not("NodeClassReadinessUnknown", format!("EC2NodeClass {name} has not been resolved yet"))
        }
        NodeClassState::NotReady { message } => {
            let conditions = class.status.iter().flat_map(|status| &status.conditions);
            let ready = conditions.into_iter().find(|condition| {
                // After a change that makes the spec invalid, the condition is still true.
                condition.type_ == "Ready" && condition.status == ConditionStatus::False
            });
            let reason = ready.map_or("NodeClassNotReady", |ready| &ready.reason);
            not(reason, format!("EC2NodeClass {name} is not ready: {message}"))
        }
    }
}

/// The instance types to launch.
pub(super) struct Offered {
    /// The NodePools, in the order of the snapshot.
    pub(super) evaluated: Vec<EvaluatedPool>,
    /// The instance types of the NodePools, with NodeOverlays.
    pub(super) overlaid: Overlaid,
    /// The instance types of each EC2NodeClass without NodeOverlays, or why there are none.
    pub(super) class_types: BTreeMap<String, Result<InstanceTypes, String>>,
    /// The memory that nodes reported.
    pub(super) memory: reported_memory::Known,
}

impl Offered {
    /// Computes the offerings of a snapshot. The cache of earlier plans only makes it faster.
    pub(super) fn new(snapshot: &Snapshot, kept: &OfferCache) -> Self {
        let Snapshot { view, unavailable, shifted, now, .. } = snapshot;
        let memory = reported_memory::known(&snapshot.reported_memory, &view.nodes, &snapshot.claims, *now);
        let (classes, availability) = (&view.node_classes, Availability { unavailable, shifted });
        let types = kept.instance_types(&snapshot.catalog, classes, availability, &memory.memory, *now);
        let overlays: Vec<_> = view.node_overlays.iter().map(|(overlay, _)| overlay.clone()).collect();
        let own = kept.with_root_volumes(&snapshot.catalog, view, shifted, *now);
        let overlaid = kept.overlaid(&overlays, &plain(view, &types, &own));
        let evaluated = evaluate(view, &types, &overlaid, &snapshot.usage, *now);
        Self { evaluated, overlaid, class_types: types, memory }
    }
}

/// The status of a NodePool if it changes, and the events to publish once it is written.
pub(super) fn changed_status(
    snapshot: &Snapshot,
    one: &EvaluatedPool,
    registrations: Option<&Registrations>,
) -> Option<(Action, Vec<ObjectEvent>)> {
    let name = &one.pool.name;
    let before = snapshot.view.node_pool_statuses.get(name).cloned().unwrap_or_default();
    let status = status(snapshot, one, registrations, &before);
    if before == status {
        return None;
    }
    let events = transitions(&ObjectRef::from(&one.pool), &before.conditions, &status.conditions);
    Some((Action::WriteNodePoolStatus(name.clone(), Box::new(status)), events))
}

fn status(
    snapshot: &Snapshot,
    evaluated: &EvaluatedPool,
    registrations: Option<&Registrations>,
    before: &NodePoolStatus,
) -> NodePoolStatus {
    let (view, pool, now) = (&snapshot.view, &evaluated.pool, snapshot.now);
    let mut total = ResourceList::new();
    let mut nodes = 0_i64;
    for node in view.nodes.iter().filter(|node| node.node_pool() == Some(&pool.name)) {
        total.add(&node.capacity);
        nodes += 1;
    }
    let mut resources: nodeless_api::ResourceList =
        BASE_RESOURCES.iter().map(|name| ((*name).to_owned(), Quantity("0".to_owned()))).collect();
    resources.extend(total.iter().map(|(name, quantity)| (name.to_owned(), Quantity(format_quantity(name, quantity)))));
    resources.insert("nodes".to_owned(), Quantity(nodes.to_string()));
    resources.insert(DOLLARS_PER_HOUR.to_owned(), Quantity(quantity_of(price(evaluated, &snapshot.claims))));
    let valid = evaluated.valid.as_ref().map_err(|why| ("NodePoolValidationFailed", why.to_string()));
    let class_ready = evaluated.class_ready.as_ref().map_err(|(reason, why)| (reason.as_str(), why.clone()));
    let parts = [("ValidationSucceeded", valid.map(drop)), ("NodeClassReady", class_ready.map(drop))];
    let unmet: Vec<String> =
        parts.iter().filter(|(_, holds)| holds.is_err()).map(|(kind, _)| format!("{kind}=False")).collect();
    let ready = if unmet.is_empty() { Ok(()) } else { Err(("UnhealthyDependents", unmet.join(", "))) };
    let ours = parts.into_iter().chain([("Ready", ready)]);
    let ours = ours.map(|(kind, holds)| condition(kind, holds.map(|()| kind), &before.conditions, now));
    let joining = registrations.map(|registrations| joining(registrations, &before.conditions, now));
    let mut conditions: Vec<Condition> = ours.chain(joining).collect();
    // Conditions of other controllers stay, and so do those that cannot be evaluated now.
    let stated: Vec<String> = conditions.iter().map(|condition| condition.type_.clone()).collect();
    conditions.extend(before.conditions.iter().filter(|old| !stated.contains(&old.type_)).cloned());
    let of_class = registrations.map(|registrations| registrations.described.node_class);
    NodePoolStatus {
        resources,
        nodes,
        conditions,
        node_class_observed_generation: of_class.or(before.node_class_observed_generation),
    }
}

/// Dollars an hour: what counts against limits, and the nodes under forceful disruption, which no longer do and cost money until they end.
fn price(evaluated: &EvaluatedPool, claims: &[NodeClaim]) -> f64 {
    let of_pool = claims.iter().filter(|claim| claim.is_of(&evaluated.pool.name) && !claim.is_stopped());
    let released = of_pool.filter(|claim| claim.spec.charge == Charge::default());
    let prices = released.filter_map(|claim| Some(claim.status.instance.as_ref()?.price + claim.root_volume_price()));
    prices.fold(evaluated.usage.dollars_per_hour, |sum, price| sum + price)
}

/// The condition `NodeRegistrationHealthy`, worded as in Karpenter, with the observed generation of the NodePool.
fn joining(registrations: &Registrations, before: &[Condition], now: Timestamp) -> Condition {
    let (status, reason, message) = match &registrations.health {
        HealthStatus::Healthy => (ConditionStatus::True, HEALTHY, ""),
        HealthStatus::Unhealthy { reason, message } => (ConditionStatus::False, reason.as_str(), message.as_str()),
        HealthStatus::Unknown => {
            (ConditionStatus::Unknown, "AwaitingReconciliation", "object is awaiting reconciliation")
        }
    };
    let condition = with_status(HEALTHY, status, reason, message.to_owned(), before, now);
    Condition { observed_generation: Some(registrations.described.node_pool), ..condition }
}
