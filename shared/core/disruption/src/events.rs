//! Events about objects that keep nodes from disruption, on the object concerned.

use crate::cluster::{Cluster, ClusterNode, UndecodedPod};
use crate::pods::{self, DisruptionBudgetIndex};
use crate::policy::budgets::Budgets;
use crate::policy::on_demand_minimum::OnDemandMinimums;
use jiff::Timestamp;
use nodeless_model::PodDisruptionBudget;
use nodeless_model::events::{disruption_blocked, misconfigured};
use nodeless_model::object::{ObjectEvent, ObjectRef};
use std::collections::BTreeSet;

/// All events, in an order that depends only on their content.
pub(crate) fn events(cluster: &Cluster<'_>, budgets: &Budgets, now: Timestamp) -> Vec<ObjectEvent> {
    let mut events = budgets.events.clone();
    let ours = || cluster.nodes.iter().filter(|node| node.is_managed());
    for node in ours() {
        events.extend(pods::annotation_events(&node.pods, now));
        events.extend(node.undecoded.iter().map(|pod| undecoded(pod, node.name())));
    }
    events.extend(ours().flat_map(|node| homeless(cluster, node)));
    events.extend(OnDemandMinimums::of_cluster(cluster).events(&cluster.node_pools));
    if !cluster.disruption_budgets.is_empty() {
        events.extend(never_met(cluster, ours()));
    }
    events.sort_by(|a, b| {
        let order = |event: &ObjectEvent| {
            let object = &event.object;
            (object.kind.clone(), object.namespace.clone(), object.name.clone(), event.message.clone())
        };
        order(a).cmp(&order(b))
    });
    events
}

/// The event on a pod that cannot be decoded.
fn undecoded(pod: &UndecodedPod<'_>, node: &str) -> ObjectEvent {
    let (namespace, name) = pod.name.split_once('/').unwrap_or(("", pod.name));
    let message = format!(
        "nodeless cannot decode this pod ({}), so what it needs is unknown: its node {node} is not disrupted voluntarily, and no other \
         pod is planned for it; correct the field, or delete the pod",
        pod.why
    );
    misconfigured(ObjectRef::pod(namespace, name, pod.uid), "undecoded", &message)
}

/// A node whose NodePool does not exist stays until it is deleted or expires.
fn homeless(cluster: &Cluster<'_>, of: &ClusterNode<'_>) -> Vec<ObjectEvent> {
    let (Some(node), Some(name)) = (of.node, of.node_pool()) else { return Vec::new() };
    if of.is_leaving() || cluster.node_pools.iter().any(|offer| offer.pool.name == name) {
        return Vec::new();
    }
    let message = format!(
        "NodePool {name} does not exist, so the node is not disrupted voluntarily; create it or delete the node"
    );
    let on_claim = of.claim.map(|claim| ObjectRef::node_claim(&claim.name, ""));
    [node.into()].into_iter().chain(on_claim).map(|object| disruption_blocked(object, &message)).collect()
}

/// The event on a PodDisruptionBudget that never allows an eviction.
const NEVER: &str = "It never allows an eviction, so the nodes of its pods are not disrupted voluntarily; allow at least one disruption";
/// The event on a PodDisruptionBudget that requires as many pods as there are.
const WANTS_ALL: &str = "It requires as many pods as there are, so it allows no eviction, and the nodes of its pods are not \
                         disrupted voluntarily; run more replicas, or allow at least one disruption";

/// PodDisruptionBudgets that never allow an eviction, and pods with several.
fn never_met<'n, 'a: 'n>(cluster: &Cluster<'a>, nodes: impl Iterator<Item = &'n ClusterNode<'a>>) -> Vec<ObjectEvent> {
    let budget_index = DisruptionBudgetIndex::new(cluster.disruption_budgets);
    let mut never: BTreeSet<(&str, &str, &str)> = BTreeSet::new();
    let mut events = Vec::new();
    for pod in nodes.flat_map(|node| node.pods.iter().copied()).filter(|pod| pod.is_active()) {
        let covering: Vec<&PodDisruptionBudget> = budget_index.covering(pod).collect();
        if covering.len() > 1 {
            let names: Vec<&str> = covering.iter().map(|budget| budget.name.as_str()).collect();
            let message = format!(
                "PodDisruptionBudgets {} cover this pod, and the Eviction API refuses pods that more than one covers; narrow \
                 their selectors",
                names.join(" and ")
            );
            events.push(misconfigured(pod, "PodDisruptionBudgets", &message));
        }
        // A pod with `moves_by_scale` is replaced by one more replica, without an eviction.
        let strict =
            covering.into_iter().filter(|one| (one.blocks_always || one.wants_all) && !pods::moves_by_scale(pod));
        never.extend(strict.map(|one| {
            let what = if one.blocks_always { NEVER } else { WANTS_ALL };
            (one.namespace.as_str(), one.name.as_str(), what)
        }));
    }
    events.extend(
        never.into_iter().map(|(namespace, name, what)| {
            misconfigured(ObjectRef::pod_disruption_budget(namespace, name), "spec", what)
        }),
    );
    events
}
