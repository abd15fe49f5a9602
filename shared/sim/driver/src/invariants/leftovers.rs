//! Traces of unfinished work, of which a quiescent cluster must have none.

use super::text;
use crate::Driver;
use futures::FutureExt as _;
use nodeless_fake_kubernetes::ListOptions;
use nodeless_fake_kubernetes::resource::NODES;
use nodeless_model::{NodeClaim, Phase, ResourceList, labels};
use nodeless_ports::Claims;
use nodeless_world::resources::NODE_CLAIMS;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// How far dollars per hour may be from their sum, which is added up in another order.
const CENT_FRACTION: f64 = 1e-4;

/// All leftovers, one line each.
pub(crate) fn leftovers(driver: &Driver) -> Vec<String> {
    let claims = driver.claims().snapshot();
    let mut found = commands(driver, &claims);
    found.extend(taints(driver, &claims));
    found.extend(mirrors(driver, &claims));
    found.extend(usage(driver, &claims));
    found
}

/// Commands that do not end, and claims that one of them holds.
fn commands(driver: &Driver, claims: &[NodeClaim]) -> Vec<String> {
    let stored = driver.claims().commands_now();
    let held = claims.iter().filter(|claim| !claim.phase.is_leaving() && claim.status.command.is_some());
    let held = held.map(|claim| format!("claim {} is held by command {:?}", claim.name, claim.status.command));
    stored.iter().map(|command| format!("command {} is there: {}", command.id, command.summary)).chain(held).collect()
}

/// Nodes that stay although they have the taint of nodes that are disrupted.
fn taints(driver: &Driver, claims: &[NodeClaim]) -> Vec<String> {
    let nodes = driver.world().api().list(&NODES, &ListOptions::default()).map(|list| list.items);
    let tainted = |node: &&std::sync::Arc<Value>| {
        let taints = node.pointer("/spec/taints").and_then(Value::as_array);
        taints.into_iter().flatten().any(|taint| taint["key"] == labels::DISRUPTED_TAINT)
    };
    let stays = |name: &str| {
        let of_node = |claim: &&NodeClaim| claim.status.node_name.as_deref() == Some(name);
        claims.iter().find(of_node).is_some_and(|claim| !claim.phase.is_leaving())
    };
    let nodes = nodes.unwrap_or_default();
    let names = nodes.iter().filter(tainted).map(|node| text(node, "/metadata/name")).filter(|name| stays(name));
    names.map(|name| format!("node {name} has the taint {} and stays", labels::DISRUPTED_TAINT)).collect()
}

/// NodeClaim objects without a claim in the table, and the other way round.
fn mirrors(driver: &Driver, claims: &[NodeClaim]) -> Vec<String> {
    let objects = driver.world().api().list(&NODE_CLAIMS, &ListOptions::default()).map(|list| list.items);
    let objects = objects.unwrap_or_default();
    let shown: BTreeSet<&str> = objects.iter().map(|object| text(object, "/metadata/name")).collect();
    let kept: BTreeSet<&str> =
        claims.iter().filter(|claim| claim.phase != Phase::Gone).map(|claim| claim.name.as_str()).collect();
    let only = |one: &BTreeSet<&str>, other: &BTreeSet<&str>, what: &str| -> Vec<String> {
        one.difference(other).map(|name| format!("{what} {name}")).collect()
    };
    [
        only(&shown, &kept, "no claim in the table is that of NodeClaim"),
        only(&kept, &shown, "no NodeClaim mirrors claim"),
    ]
    .concat()
}

/// NodePools whose counters are not the sum of their claims: the limits would hold too early, or too late.
fn usage(driver: &Driver, claims: &[NodeClaim]) -> Vec<String> {
    let counted = driver.claims().usage().now_or_never().and_then(Result::ok).unwrap_or_default();
    let mut sums: BTreeMap<&str, (ResourceList, f64)> = BTreeMap::new();
    for claim in claims {
        let sum = sums.entry(&claim.node_pool).or_default();
        sum.0.add(&claim.spec.charge.resources);
        sum.1 += claim.spec.charge.dollars_per_hour;
    }
    let pools: BTreeSet<&str> = sums.keys().copied().chain(counted.keys().map(String::as_str)).collect();
    let mut wrong = Vec::new();
    for pool in pools {
        let (resources, dollars) = sums.remove(pool).unwrap_or_default();
        let used = counted.get(pool).cloned().unwrap_or_default();
        let names = resources.iter().chain(used.resources.iter()).map(|(name, _)| name.to_owned());
        for name in names.collect::<BTreeSet<String>>() {
            let (is, counts) = (resources.get(&name), used.resources.get(&name));
            if is != counts {
                wrong.push(format!("NodePool {pool} counts {counts} {name}, and its claims have {is}"));
            }
        }
        if (dollars - used.dollars_per_hour).abs() > CENT_FRACTION {
            let counts = used.dollars_per_hour;
            wrong.push(format!("NodePool {pool} counts {counts} dollars per hour, and its claims cost {dollars}"));
        }
    }
    wrong
}
