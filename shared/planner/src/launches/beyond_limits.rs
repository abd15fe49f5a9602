//! The events on a NodePool, or for the cluster, that exceeds its limits for a while, because nodes terminate forcefully.

use crate::facts::Facts;
use nodeless_lifecycle::leaves_by_force;
use nodeless_model::claim::Charge;
use nodeless_model::events::{cluster_limit_passed_while_nodes_leave, limit_passed_while_nodes_leave};
use nodeless_model::object::{ObjectEvent, ObjectRef};
use nodeless_model::resources::compared;
use nodeless_model::{DollarsPerHour, NodeClaim, Phase, Quantity, ResourceList};
use std::collections::BTreeSet;

/// The maximum number of terminating nodes that the message names.
const NAMED: usize = 3;

/// Lists on each NodePool of new claims, and for the cluster, which terminating nodes no longer count against the limits, if the new
/// claims would otherwise exceed them.
pub(crate) fn events(created: &[NodeClaim], facts: Facts<'_>) -> Vec<ObjectEvent> {
    let pools: BTreeSet<&str> = created.iter().filter_map(|claim| claim.node_pool.as_deref()).collect();
    let of_pool = |name: &str| {
        let pool = &facts.pool(name)?.pool;
        let message = message(created, facts, &pool.limits, pool.limit_dollars_per_hour, |claim| claim.is_of(name))?;
        Some(limit_passed_while_nodes_leave(pool, &message))
    };
    let mut events: Vec<ObjectEvent> = pools.into_iter().filter_map(of_pool).collect();
    let limits = facts.snapshot.cluster_limits();
    if !limits.are_none() && !created.is_empty() {
        let message = message(created, facts, &limits.resources, limits.dollars_per_hour, |_| true);
        let system = || ObjectRef::namespace("kube-system");
        events.extend(message.map(|message| cluster_limit_passed_while_nodes_leave(system(), &message)));
    }
    events
}

/// The message about the limits that the claims that `counts` selects exceed, and about the claims that no longer count.
fn message(
    created: &[NodeClaim],
    facts: Facts<'_>,
    resources: &ResourceList,
    dollars: Option<f64>,
    counts: impl Fn(&NodeClaim) -> bool,
) -> Option<String> {
    let counted = |claim: &&NodeClaim| counts(claim) && claim.phase != Phase::Gone;
    let leaving: Vec<&NodeClaim> =
        facts.claims.iter().filter(counted).filter(|claim| leaves_by_force(claim) && has_instance(claim)).collect();
    if leaving.is_empty() {
        return None;
    }
    let known: BTreeSet<&str> = facts.claims.iter().map(|claim| claim.name.as_str()).collect();
    let new = created.iter().filter(|claim| !known.contains(claim.name.as_str()));
    let all = charge_of(facts.claims.iter().chain(new).filter(counted), &leaving);
    let passed = passed(&all, resources, dollars);
    if passed.is_empty() {
        return None;
    }
    Some(format!(
        "the limits are exceeded ({}) until forcefully terminated NodeClaims are deleted; these no longer count \
         against them: {}",
        passed.join(", "),
        named(&leaving).join(", ")
    ))
}

/// The charge of claims, and what terminating ones use that are no longer charged.
fn charge_of<'c>(claims: impl Iterator<Item = &'c NodeClaim>, leaving: &[&NodeClaim]) -> Charge {
    let mut all = Charge::default();
    for claim in claims {
        all.resources.add(&claim.spec.charge.resources);
        all.dollars_per_hour += claim.spec.charge.dollars_per_hour;
    }
    for claim in leaving.iter().filter(|claim| claim.spec.charge == Charge::default()) {
        all.resources.add(&claim.status.capacity.clone().with("nodes", Quantity::from_units(1)));
        let price = claim.status.instance.as_ref().map_or(0.0, |instance| instance.price);
        all.dollars_per_hour += price + claim.root_volume_price();
    }
    all
}

/// The limits that a charge exceeds, each with both amounts.
fn passed(all: &Charge, resources: &ResourceList, dollars: Option<f64>) -> Vec<String> {
    let passed = resources.iter().filter(|(resource, limit)| all.resources.get(resource) > *limit);
    let passed = passed.map(|(resource, limit)| {
        let [has, limit] = compared(resource, [all.resources.get(resource), limit]);
        format!("{resource} {has} of {limit}")
    });
    let dollars = dollars.filter(|limit| all.dollars_per_hour > limit + 1e-6);
    let dollars = dollars.map(|limit| format!("{} of {}", DollarsPerHour(all.dollars_per_hour), DollarsPerHour(limit)));
    passed.chain(dollars).collect()
}

/// The names of terminating claims, each with the reason.
fn named(leaving: &[&NodeClaim]) -> Vec<String> {
    let named = leaving.iter().take(NAMED).map(|claim| {
        let why = claim.status.termination.as_ref().map_or("leaving", |end| end.reason.as_str());
        format!("{} ({why})", claim.name)
    });
    let mut named: Vec<String> = named.collect();
    if leaving.len() > NAMED {
        named.push(format!("{} more", leaving.len() - NAMED));
    }
    named
}

fn has_instance(claim: &NodeClaim) -> bool {
    claim.status.instance.is_some()
}
