//! The event on a NodePool that exceeds its limits for a while, because nodes terminate forcefully.

use super::facts::Facts;
use super::pools::EvaluatedPool;
use nodeless_lifecycle::leaves_by_force;
use nodeless_model::claim::Charge;
use nodeless_model::events::limit_passed_while_nodes_leave;
use nodeless_model::object::ObjectEvent;
use nodeless_model::resources::format_quantity;
use nodeless_model::{DollarsPerHour, NodeClaim, Phase, Quantity};
use std::collections::BTreeSet;

/// The maximum number of terminating nodes that the message names.
const NAMED: usize = 3;

/// Lists on each NodePool of new claims which terminating nodes no longer count against its limits, if the new claims would
/// otherwise exceed them.
pub(super) fn events(created: &[NodeClaim], facts: Facts<'_>) -> Vec<ObjectEvent> {
    let pools: BTreeSet<&str> = created.iter().map(|claim| claim.node_pool.as_str()).collect();
    pools.into_iter().filter_map(|name| event_of(facts.pool(name)?, created, facts)).collect()
}

fn event_of(evaluated: &EvaluatedPool, created: &[NodeClaim], facts: Facts<'_>) -> Option<ObjectEvent> {
    let name = &evaluated.pool.name;
    let of_pool = |claim: &&NodeClaim| claim.node_pool == *name && claim.phase != Phase::Gone;
    let leaving: Vec<&NodeClaim> =
        facts.claims.iter().filter(of_pool).filter(|claim| leaves_by_force(claim) && has_instance(claim)).collect();
    if leaving.is_empty() {
        return None;
    }
    let mut all = Charge::default();
    let known: BTreeSet<&str> = facts.claims.iter().map(|claim| claim.name.as_str()).collect();
    let new = created.iter().filter(|claim| !known.contains(claim.name.as_str()));
    for claim in facts.claims.iter().chain(new).filter(of_pool) {
        all.resources.add(&claim.spec.charge.resources);
        all.dollars_per_hour += claim.spec.charge.dollars_per_hour;
    }
    for claim in leaving.iter().filter(|claim| claim.spec.charge == Charge::default()) {
        all.resources.add(&claim.status.capacity.clone().with("nodes", Quantity::from_units(1)));
        all.dollars_per_hour += claim.status.instance.as_ref().map_or(0.0, |instance| instance.price);
    }
    let limits = evaluated.pool.limits.iter();
    let passed = limits.filter(|(resource, limit)| all.resources.get(resource) > *limit).map(|(resource, limit)| {
        let [has, limit] = [all.resources.get(resource), limit].map(|amount| format_quantity(resource, amount));
        format!("{resource} {has} of {limit}")
    });
    let dollars = evaluated.pool.limit_dollars_per_hour.filter(|limit| all.dollars_per_hour > limit + 1e-6);
    let dollars = dollars.map(|limit| format!("{} of {}", DollarsPerHour(all.dollars_per_hour), DollarsPerHour(limit)));
    let passed: Vec<String> = passed.chain(dollars).collect();
    if passed.is_empty() {
        return None;
    }
    let named = leaving.iter().take(NAMED).map(|claim| {
        let why = claim.status.termination.as_ref().map_or("leaving", |end| end.reason.as_str());
        format!("{} ({why})", claim.name)
    });
    let mut named: Vec<String> = named.collect();
    if leaving.len() > NAMED {
        named.push(format!("{} more", leaving.len() - NAMED));
    }
    let message = format!(
        "the limits are exceeded ({}) until forcefully terminated NodeClaims are deleted; these no longer count \
         against them: {}",
        passed.join(", "),
        named.join(", ")
    );
    Some(limit_passed_while_nodes_leave(&evaluated.pool, &message))
}

fn has_instance(claim: &NodeClaim) -> bool {
    claim.status.instance.is_some()
}
