//! Unfinished work in a driver's world, which a quiescent cluster must not have.

use super::text;
use crate::Driver;
use crate::scenarios::other_objects::is_of_other;
use futures::FutureExt as _;
use nodeless_fake_kubernetes::resource::{DEPLOYMENTS, NODES};
use nodeless_fake_kubernetes::{ListOptions, Resource};
use nodeless_model::labels;
use nodeless_world::quiescence::Observed;
use nodeless_world::resources::NODE_CLAIMS;
use serde_json::Value;
use std::collections::BTreeSet;

/// All leftovers, one line each.
pub(crate) fn leftovers(driver: &Driver) -> Vec<String> {
    let tainted = |node: &Value| {
        let taints = node.pointer("/spec/taints").and_then(Value::as_array);
        taints.into_iter().flatten().any(|taint| taint["key"] == labels::DISRUPTED_TAINT)
    };
    let observed = Observed {
        claims: driver.claims().snapshot(),
        commands: driver.claims().commands_now(),
        usage: driver.claims().usage().now_or_never().and_then(Result::ok).unwrap_or_default(),
        node_claims: names(driver, &NODE_CLAIMS, |claim| !is_of_other(&NODE_CLAIMS, claim)),
        tainted_nodes: names(driver, &NODES, tainted),
        raised_deployments: names(driver, &DEPLOYMENTS, |one| !one["metadata"]["annotations"][labels::SURGE].is_null()),
    };
    observed.leftovers()
}

/// The names of the objects that match a condition.
fn names(driver: &Driver, resource: &Resource, condition: impl Fn(&Value) -> bool) -> BTreeSet<String> {
    let objects = driver.world().api().list(resource, &ListOptions::default()).map(|list| list.items);
    let objects = objects.unwrap_or_default();
    let found = objects.iter().filter(|object| condition(object));
    found.map(|object| text(object, "/metadata/name").to_owned()).collect()
}
