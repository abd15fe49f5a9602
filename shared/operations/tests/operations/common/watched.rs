//! What must hold while nodes are replaced, and once the cluster is quiescent.

use super::{Town, pod};
use nodeless_model::claim::{Charge, TerminationReason};
use nodeless_model::{NodeClaim, Phase, Taint, labels};
use nodeless_ports::{Claims, Plans};
use std::collections::{BTreeMap, BTreeSet};

/// A town with one node for each pod; a pod that is evicted comes again.
pub async fn running_town(pods: usize) -> Town {
    let mut town = Town::new().await;
    town.cluster.lock().respawn = true;
    town.cluster.add_pods((0..pods).map(|number| pod(&format!("web-{number}"), 3000)));
    town.queue_wake().await;
    town.until("pods run", |town| town.cluster.bound() == pods).await;
    town.minutes(2).await;
    town
}

/// The NodePool changes, so that every node that was made before drifts.
pub fn drift(town: &Town) {
    town.cluster.lock().pools[0].hash = "changed".into();
}

/// The phase of each claim.
pub async fn phases(town: &Town) -> BTreeMap<String, Phase> {
    town.records().await.into_iter().map(|claim| (claim.name, claim.phase)).collect()
}

/// Ticks for so many minutes, and looks each time.
pub async fn watched(town: &mut Town, minutes: u32) {
    for _ in 0..minutes * 12 {
        let before = phases(town).await;
        town.tick().await;
        check_order(town, &before).await;
    }
}

/// No node that leaves by choice began to drain before its replacement was ready.
pub async fn check_order(town: &Town, before: &BTreeMap<String, Phase>) {
    let records = town.records().await;
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

/// What holds in a quiescent cluster: so many claims, instances, nodes and NodeClaims, one of each for the other, and so many pods that
/// run; no claim ever had two instances; no instance was ever without a claim; NodePools are charged what their claims
/// amount to; nothing is left of commands, or of their taints.
pub async fn check_quiescent(town: &Town, nodes: usize, pods: usize, when: &str) {
    let records = town.records().await;
    let owned: BTreeSet<String> =
        records.iter().filter_map(|claim| claim.status.instance.as_ref()).map(|instance| instance.id.clone()).collect();
    let alive: BTreeSet<String> = town.cloud.alive().into_iter().map(|instance| instance.id).collect();
    assert_eq!((records.len(), owned.len()), (nodes, nodes), "{when}: {records:#?}");
    assert_eq!(owned, alive, "{when}: claims and instances differ");
    assert_eq!(town.cluster.bound(), pods, "{when}: pods that run");
    for claim in &records {
        assert_eq!(claim.phase, Phase::Initialized, "{when}: {claim:#?}");
        assert!(claim.status.command.is_none(), "{when}: {} is still taken", claim.name);
    }
    assert!(town.claims.commands().await.unwrap().is_empty(), "{when}: a command never ended");

    let mut instances: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (claim, instance) in &town.history {
        instances.entry(claim).or_default().insert(instance);
    }
    assert!(instances.values().all(|ids| ids.len() == 1), "{when}: a claim had two instances: {instances:?}");
    let claimed: BTreeSet<&String> = town.history.iter().map(|(_, instance)| instance).collect();
    assert_eq!(town.cloud.launched(), claimed.len(), "{when}: an instance never had a claim");

    for (pool, usage) in town.claims.usage().await.unwrap() {
        let mut charged = Charge::default();
        for claim in records.iter().filter(|claim| claim.node_pool == pool) {
            charged.resources.add(&claim.spec.charge.resources);
            charged.dollars_per_hour += claim.spec.charge.dollars_per_hour;
        }
        let used: Vec<_> = usage.resources.iter().filter(|(_, quantity)| !quantity.is_zero()).collect();
        let counted: Vec<_> = charged.resources.iter().filter(|(_, quantity)| !quantity.is_zero()).collect();
        assert_eq!(used, counted, "{when}: NodePool {pool} is charged something else than its claims");
        let difference = usage.dollars_per_hour - charged.dollars_per_hour;
        assert!(difference.abs() < 1e-5, "{when}: NodePool {pool} is charged {difference} dollars too much");
    }
    let state = town.cluster.lock();
    assert_eq!((state.nodes.len(), state.mirrors.len()), (nodes, nodes), "{when}: nodes and NodeClaims are left over");
    assert!(state.nodes.values().all(|node| !node.has_taint(&Taint::disrupted())), "{when}: a taint is left");
}

/// All nodes are of the new kind.
pub async fn check_drifted_away(town: &Town, when: &str) {
    for claim in town.records().await {
        let hash = claim.spec.annotations.get(labels::NODE_POOL_HASH);
        assert_eq!(hash.map(String::as_str), Some("changed"), "{when}: {} is of the old kind", claim.name);
    }
}
