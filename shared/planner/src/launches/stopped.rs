//! The stopped instances that a plan starts in place of launches.

use crate::action::{Action, Written};
use crate::facts::Facts;
use crate::launches::{Created, PlannedNode, limits};
use crate::nodes::voluntary_disruption::class_facts;
use nodeless_disruption::drift;
use nodeless_lifecycle::warm;
use nodeless_model::claim::Charge;
use nodeless_model::{NodeClaim, Phase, Quantity};

/// The claims of the stopped instances that may be started: those that have not drifted.
pub(crate) fn startable<'a>(facts: Facts<'a>) -> impl Iterator<Item = &'a NodeClaim> {
    let stopped = facts.claims.iter().filter(|claim| claim.phase == Phase::Stopped);
    stopped.filter(move |claim| !has_drifted(claim, facts))
}

/// A stopped instance that is taken: the claim for the pods of a planned node, and its charge.
pub(crate) struct Taken {
    claim: NodeClaim,
    charge: Charge,
}

/// The stopped instances of planned nodes that start one, and the planned nodes that have to be launched: also those with all nodes of a
/// ProvisioningRequest or none, which one call launches.
pub(crate) fn taken<'a>(planned: Vec<PlannedNode<'a>>, facts: Facts<'_>) -> (Vec<Taken>, Vec<PlannedNode<'a>>) {
    let (mut taken, mut rest) = (Vec::new(), Vec::new());
    for one in planned {
        let named = one.launch.starts.as_ref().filter(|_| one.whole_for.is_none());
        let Some(claim) = named.and_then(|name| facts.claims.iter().find(|claim| claim.name == *name)) else {
            rest.push(one);
            continue;
        };
        let resources = claim.status.capacity.clone().with("nodes", Quantity::from_units(1));
        let dollars_per_hour = one.launch.offering.price + claim.root_volume_price();
        let charge = Charge { resources, dollars_per_hour };
        let claim = warm::take(claim, one.pods, one.launch.requests.clone(), facts.snapshot.now);
        taken.push(Taken { claim, charge });
    }
    (taken, rest)
}

/// Whether a claim no longer matches its NodePool or EC2NodeClass, so that it is not started.
pub(crate) fn has_drifted(claim: &NodeClaim, facts: Facts<'_>) -> bool {
    let Some(pool) = claim.node_pool.as_deref().and_then(|name| facts.pool(name)) else { return true };
    let classes = class_facts(&facts.snapshot.view);
    let class = classes.get(&claim.node_class);
    drift(claim, &pool.offer(), class, nodeless_api::hash::VERSION, facts.snapshot.now).is_some()
}

/// The writes of taken claims.
pub(crate) fn writes(taken: &[Taken], facts: Facts<'_>) -> Vec<Action> {
    let write = |one: &Taken| {
        let pool = one.claim.node_pool.as_deref().and_then(|name| facts.pool(name)).map(|pool| &pool.pool);
        let limits = limits(pool, &facts.snapshot.cluster_limits());
        Action::StartClaim(Box::new(one.claim.clone()), one.charge.clone(), limits)
    };
    taken.iter().map(write).collect()
}

/// Evaluates the answers to [`writes`]. A claim that was not written is left for the next plan, and so are its pods.
pub(crate) fn started(taken: Vec<Taken>, written: &[Written], created: &mut Created) {
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
