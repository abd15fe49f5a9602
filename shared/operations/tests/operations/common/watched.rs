//! Checks for the time while nodes are replaced, and for a quiescent cluster.

use super::{Harness, pod, static_pool};
use nodeless_fake_kubernetes::resource::DEPLOYMENTS;
use nodeless_model::claim::TerminationReason;
use nodeless_model::{NodeClaim, Phase, Taint, labels};
use nodeless_world::quiescence::Observed;
use nodeless_world::resources::NODE_POOLS;
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};

/// A cluster with one node for each pod. Evicted pods are replaced.
pub async fn running_cluster(pods: usize) -> Harness {
    let mut harness = Harness::new().await;
    harness.cluster.add_replica_sets((0..pods).map(|number| pod(&format!("web-{number}"), 3000)));
    harness.queue_wake().await;
    harness.until("pods run", |harness| harness.cluster.bound() == pods).await;
    harness.minutes(2).await;
    harness
}

/// A cluster whose only NodePool keeps so many nodes.
pub async fn fixed_cluster(replicas: i64) -> Harness {
    let harness = Harness::new().await;
    // No update makes a NodePool static.
    harness.cluster.delete(&NODE_POOLS, "default");
    harness.cluster.create(&NODE_POOLS, static_pool("default", replicas));
    harness
}

/// The NodePool changes, so that every node that was made before drifts.
pub fn drift(harness: &Harness) {
    harness
        .cluster
        .patch_node_pool(json!({ "spec": { "template": { "metadata": { "annotations": { "changed": "yes" } } } } }));
}

/// The phase of each claim.
pub async fn phases(harness: &Harness) -> BTreeMap<String, Phase> {
    harness.records().await.into_iter().map(|claim| (claim.name, claim.phase)).collect()
}

/// Ticks for so many minutes, and checks the order of replacements after each tick.
pub async fn watched(harness: &mut Harness, minutes: u32) {
    for _ in 0..minutes * 12 {
        let before = phases(harness).await;
        harness.tick().await;
        check_order(harness, &before).await;
    }
}

/// No node that is disrupted voluntarily began to drain before its replacement was ready.
pub async fn check_order(harness: &Harness, before: &BTreeMap<String, Phase>) {
    let records = harness.records().await;
    for claim in &records {
        let by_choice = [TerminationReason::Drifted, TerminationReason::Underutilized];
        let chosen = claim.status.termination.as_ref().is_some_and(|end| by_choice.contains(&end.reason));
        if !chosen || before.get(&claim.name).is_some_and(|phase| phase.is_leaving()) {
            continue;
        }
        let replaced_by: Vec<&NodeClaim> =
            records.iter().filter(|other| other.spec.replaces.contains(&claim.name)).collect();
        // Nothing replaces a node whose pods have gone, or fit on nodes that are there already.
        let ready = replaced_by.is_empty() || replaced_by.iter().any(|other| other.phase == Phase::Initialized);
        assert!(ready, "{} is drained before its replacement is ready: {records:#?}", claim.name);
    }
}

/// The current state of the claims table and the cluster.
async fn observed(harness: &Harness) -> Observed {
    let (claims, commands) = (harness.records().await, harness.claims.commands().await.unwrap());
    let usage = harness.claims.usage().await.unwrap();
    let view = harness.cluster.view();
    let tainted = view.nodes.iter().filter(|node| node.has_taint(&Taint::disrupted()));
    let deployments = harness.cluster.list(&DEPLOYMENTS);
    let raised = deployments.iter().filter(|one| !one["metadata"]["annotations"][labels::SURGE].is_null());
    Observed {
        claims,
        commands,
        usage,
        node_claims: view.node_claims.iter().map(|claim| claim.name.clone()).collect(),
        tainted_nodes: tainted.map(|node| node.name.clone()).collect(),
        raised_deployments: raised.map(|one| one["metadata"]["name"].as_str().unwrap().to_owned()).collect(),
    }
}

/// Whether there are this number of initialized nodes with instances, this number of running pods, and no unfinished work.
pub async fn is_quiescent(harness: &Harness, nodes: usize, pods: usize) -> bool {
    let observed = observed(harness).await;
    observed.claims.len() == nodes
        && observed.claims.iter().all(|claim| claim.phase == Phase::Initialized)
        && harness.cloud.alive().len() == nodes
        && harness.cluster.bound() == pods
        && observed.leftovers().is_empty()
}

/// Checks what must hold in a quiescent cluster: so many claims, instances, nodes and NodeClaims, one of each for the other, and so
/// many pods that run; no trace of unfinished work; no claim ever had two instances; no instance was ever without a claim.
pub async fn check_quiescent(harness: &Harness, nodes: usize, pods: usize, when: &str) {
    check_nodes(harness, nodes, when).await;
    let records = harness.records().await;
    let owned: BTreeSet<String> =
        records.iter().filter_map(|claim| claim.status.instance.as_ref()).map(|instance| instance.id.clone()).collect();
    let alive: BTreeSet<String> = harness.cloud.alive().into_iter().map(|instance| instance.id).collect();
    assert_eq!(owned.len(), nodes, "{when}: {records:#?}");
    assert_eq!(owned, alive, "{when}: claims and instances differ");
    assert_eq!(harness.cluster.bound(), pods, "{when}: pods that run");
    let claimed: BTreeSet<&String> = harness.history.iter().map(|(_, instance)| instance).collect();
    assert_eq!(harness.cloud.launched(), claimed.len(), "{when}: an instance never had a claim");
}

/// The part of [`check_quiescent`] that holds for any pods, and for instances that ended before a claim had them.
pub async fn check_nodes(harness: &Harness, nodes: usize, when: &str) {
    let observed = observed(harness).await;
    assert_eq!((observed.claims.len(), harness.cloud.alive().len()), (nodes, nodes), "{when}: {:#?}", observed.claims);
    for claim in &observed.claims {
        assert_eq!(claim.phase, Phase::Initialized, "{when}: {claim:#?}");
    }
    assert_eq!(observed.leftovers(), Vec::<String>::new(), "{when}");
    let mut instances: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (claim, instance) in &harness.history {
        instances.entry(claim).or_default().insert(instance);
    }
    assert!(instances.values().all(|ids| ids.len() == 1), "{when}: a claim had two instances: {instances:?}");
    assert_eq!(harness.cluster.nodes().len(), nodes, "{when}: nodes are left over");
}

/// Whether a claim has the current hash of the NodePool.
pub fn has_new_hash(harness: &Harness, claim: &NodeClaim) -> bool {
    claim.spec.annotations.get(labels::NODE_POOL_HASH) == Some(&harness.cluster.node_pool().hash)
}

/// Checks that all nodes have the hash of the changed NodePool.
pub async fn check_drifted_away(harness: &Harness, when: &str) {
    for claim in harness.records().await {
        assert!(has_new_hash(harness, &claim), "{when}: {} is of the old kind", claim.name);
    }
}
