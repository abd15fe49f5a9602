//! Takes the stopped instances of warm nodes for planned nodes, instead of launching.

use crate::plan::action::{Action, Written};
use crate::plan::facts::Facts;
use crate::plan::launches::{Created, PlannedNode, limits};
use crate::plan::nodes::voluntary_disruption::class_facts;
use crate::plan::pools::EvaluatedPool;
use nodeless_disruption::drift;
use nodeless_lifecycle::warm;
use nodeless_model::claim::{Charge, OfferingKey};
use nodeless_model::{CapacityType, NodeClaim, Quantity};
use nodeless_scheduling::Launch;
use std::collections::BTreeSet;

/// How much more than the cheapest offering of a planned node an hour of the taken instance may cost. It is there in a third of the time,
/// and consolidation replaces it by a cheaper node if it stays.
const PRICE_FACTOR: f64 = 1.5;

/// A stopped instance that is taken: the claim for the pods of a planned node, and its charge.
pub(in crate::plan) struct Taken {
    claim: NodeClaim,
    charge: Charge,
}

/// Assigns stopped instances to planned nodes, and returns the planned nodes that have to be launched.
///
/// A planned node takes the cheapest stopped instance of its NodePool that it could have been launched as: an available on-demand
/// offering among its own, whose node has the labels that it requires. A node that would be launched as spot, in a reservation or with all
/// nodes of a ProvisioningRequest or none takes none.
pub(in crate::plan) fn taken<'a>(
    planned: Vec<PlannedNode<'a>>,
    facts: Facts<'_>,
) -> (Vec<Taken>, Vec<PlannedNode<'a>>) {
    let stopped = || facts.claims.iter().filter(|claim| claim.is_stopped() && !claim.phase.is_leaving());
    if stopped().next().is_none() {
        return (Vec::new(), planned);
    }
    let free: Vec<&NodeClaim> = stopped().filter(|claim| !has_drifted(claim, facts)).collect();
    let (mut used, mut taken, mut rest) = (BTreeSet::new(), Vec::new(), Vec::new());
    for one in planned {
        let pool = facts.pool(&one.launch.node_pool);
        let fitting = free.iter().filter(|claim| !used.contains(claim.name.as_str()));
        let fitting = fitting.filter_map(|claim| Some((price(&one, claim, pool?)?, *claim)));
        let cheapest = fitting.min_by(|(a, one), (b, other)| a.total_cmp(b).then_with(|| one.name.cmp(&other.name)));
        let Some((price, claim)) = cheapest else {
            rest.push(one);
            continue;
        };
        used.insert(claim.name.as_str());
        let resources = claim.status.capacity.clone().with("nodes", Quantity::from_units(1));
        let claim = warm::take(claim, one.pods, one.launch.requests.clone(), facts.snapshot.now);
        taken.push(Taken { claim, charge: Charge { resources, dollars_per_hour: price } });
    }
    (taken, rest)
}

/// Whether a claim no longer matches its NodePool or EC2NodeClass, so that it is not started.
pub(in crate::plan) fn has_drifted(claim: &NodeClaim, facts: Facts<'_>) -> bool {
    let Some(pool) = claim.node_pool.as_deref().and_then(|name| facts.pool(name)) else { return true };
    let classes = class_facts(&facts.snapshot.view);
    let class = classes.get(&claim.node_class);
    drift(claim, &pool.offer(), class, nodeless_api::hash::VERSION, facts.snapshot.now).is_some()
}

/// What an hour of a stopped instance costs, if it can be the planned node.
fn price(planned: &PlannedNode<'_>, claim: &NodeClaim, pool: &EvaluatedPool) -> Option<f64> {
    let launch = planned.launch;
    let instance = claim.status.instance.as_ref()?;
    let cheapest = &launch.offering;
    if !claim.is_of(&launch.node_pool)
        || cheapest.capacity_type != CapacityType::OnDemand
        || launch.reservation().is_some()
        || planned.whole_for.is_some()
        || !has_labels(launch, claim)
        || !launch.requests.iter().all(|(name, requested)| requested <= claim.status.allocatable.get(name))
    {
        return None;
    }
    let key = OfferingKey {
        instance_type: instance.instance_type.clone(),
        zone: instance.zone.clone(),
        capacity_type: CapacityType::OnDemand,
    };
    let allowed = launch.instance_types.iter().any(|kind| kind.name == key.instance_type);
    let kind = pool.types.instance_types.iter().find(|kind| kind.name == key.instance_type)?;
    let offering = kind
        .offerings
        .iter()
        .find(|one| one.available && one.zone == key.zone && one.capacity_type == CapacityType::OnDemand)?;
    let near = offering.price <= cheapest.price * PRICE_FACTOR;
    (allowed && near && !planned.avoided.contains(&key)).then_some(offering.price)
}

/// Whether the node of a claim has the labels that a launch requires.
fn has_labels(launch: &Launch, claim: &NodeClaim) -> bool {
    let labels = claim.node_labels();
    launch.requirements.iter().all(|(key, requirement)| match labels.get(key) {
        Some(value) => requirement.has(value),
        None => requirement.allows_absence(),
    })
}

/// The writes of taken claims.
pub(in crate::plan) fn writes(taken: &[Taken], facts: Facts<'_>) -> Vec<Action> {
    let write = |one: &Taken| {
        let pool = one.claim.node_pool.as_deref().and_then(|name| facts.pool(name)).map(|pool| &pool.pool);
        let limits = limits(pool, &facts.snapshot.cluster_limits());
        Action::StartClaim(Box::new(one.claim.clone()), one.charge.clone(), limits)
    };
    taken.iter().map(write).collect()
}

/// Evaluates the answers to [`writes`]. A claim that was not written is left for the next plan, and so are its pods.
pub(in crate::plan) fn started(taken: Vec<Taken>, written: &[Written], created: &mut Created) {
    for (one, answer) in taken.into_iter().zip(written) {
        if let Written::There(claim) = answer {
            created.leaders.push(claim.name.clone());
            created.outcome.report.created.push(claim.name.clone());
            created.claims.push(claim.as_ref().clone());
            continue;
        }
        if let (Some(why), false) = (answer.problem(), matches!(answer, Written::Conflict(_))) {
            created.outcome.report.problems.push(format!("NodeClaim {} was not started: {why}", one.claim.name));
        }
        created.incomplete = true;
    }
}
