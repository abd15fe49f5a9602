//! Consolidation and interruption, each once per write with the process ending right before it or right after. Scale-up,
//! scale-down and deletion by hand are in `crash.rs`, drift is in `commands.rs`.
#![allow(clippy::unwrap_used)]

mod common;

use common::{Town, pod};
use nodeless_model::node_pool::ConsolidationPolicy;
use nodeless_model::{Phase, Quantity, ResourceList, Taint};
use nodeless_ports::Claims;
use std::collections::{BTreeMap, BTreeSet};

/// Two nodes with a pod each; evicted pods come again.
async fn two_nodes() -> Town {
    let mut town = Town::new().await;
    town.cluster.lock().respawn = true;
    town.cluster.add_pods((0..2).map(|number| pod(&format!("web-{number}"), 3000)));
    town.queue_wake().await;
    town.until("pods run", |town| town.cluster.bound() == 2).await;
    town.minutes(2).await;
    town.faults.revive();
    town
}

/// What holds at rest: so many claims and instances, one of the other; both pods run; no claim ever had two instances; nothing
/// is left of commands or their taints.
async fn check(town: &Town, nodes: usize, when: &str) {
    let records = town.records().await;
    let owned: BTreeSet<String> =
        records.iter().filter_map(|claim| claim.status.instance.as_ref()).map(|instance| instance.id.clone()).collect();
    let alive: BTreeSet<String> = town.cloud.alive().into_iter().map(|instance| instance.id).collect();
    assert_eq!((records.len(), owned.len()), (nodes, nodes), "{when}: {records:#?}");
    assert_eq!(owned, alive, "{when}: claims and instances differ");
    assert_eq!(town.cluster.bound(), 2, "{when}: a pod does not run");
    assert!(records.iter().all(|claim| claim.phase == Phase::Initialized), "{when}: {records:#?}");
    assert!(town.claims.commands().await.unwrap().is_empty(), "{when}: a command never ended");
    let mut instances: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (claim, instance) in &town.history {
        instances.entry(claim).or_default().insert(instance);
    }
    assert!(instances.values().all(|ids| ids.len() == 1), "{when}: a claim had two instances: {instances:?}");
    let state = town.cluster.lock();
    assert_eq!((state.nodes.len(), state.mirrors.len()), (nodes, nodes), "{when}: nodes and NodeClaims are left over");
    assert!(state.nodes.values().all(|node| !node.has_taint(&Taint::disrupted())), "{when}: a taint is left");
}

/// The pods need less than before, so that one node is enough for both.
async fn consolidation(town: &mut Town, when: &str) {
    {
        let mut state = town.cluster.lock();
        state.pools[0].disruption.consolidation_policy = ConsolidationPolicy::WhenEmptyOrUnderutilized;
        for pod in state.pods.values_mut() {
            pod.requests = ResourceList::from([
                ("cpu", Quantity::from_milli(1500)),
                ("memory", Quantity::from_mebibytes(256)),
                ("pods", Quantity::from_units(1)),
            ]);
        }
    }
    for _ in 0..30 {
        town.minutes(1).await;
        if town.records().await.len() == 1 && town.cloud.alive().len() == 1 && town.cluster.bound() == 2 {
            break;
        }
    }
    town.minutes(4).await;
    check(town, 1, when).await;
}

/// EC2 warns of the end of one instance. A message whose handling failed comes again.
async fn interruption(town: &mut Town, when: &str) {
    let claim = town.records().await.remove(0);
    let id = claim.status.instance.unwrap().id;
    let kind = "EC2 Spot Instance Interruption Warning";
    let event = format!(r#"{{"source":"aws.ec2","detail-type":"{kind}","detail":{{"instance-id":"{id}"}}}}"#);
    for _ in 0..3 {
        let handled = town.interrupter().run(&event).await;
        if !town.bury_if_dead() && handled.is_ok() {
            break;
        }
    }
    for _ in 0..30 {
        town.minutes(1).await;
        let gone = !town.cloud.alive().iter().any(|instance| instance.id == id);
        if gone && town.records().await.len() == 2 && town.cluster.bound() == 2 {
            break;
        }
    }
    town.minutes(4).await;
    check(town, 2, when).await;
    assert!(!town.cloud.alive().iter().any(|instance| instance.id == id), "{when}: the interrupted instance runs");
}

#[tokio::test]
async fn consolidation_survives_the_end_of_its_process_at_any_write() {
    let mut town = two_nodes().await;
    consolidation(&mut town, "undisturbed").await;
    let (writes, _) = town.faults.revive();
    assert!(writes > 15, "only {writes} writes: the scenario has shrunk");
    for write in 0..writes {
        for done in [false, true] {
            let mut town = two_nodes().await;
            town.faults.die_at(write, done);
            consolidation(&mut town, &format!("write {write}, done {done}")).await;
        }
    }
}

#[tokio::test]
async fn an_interruption_survives_the_end_of_its_process_at_any_write() {
    let mut town = two_nodes().await;
    interruption(&mut town, "undisturbed").await;
    let (writes, _) = town.faults.revive();
    assert!(writes > 25, "only {writes} writes: the scenario has shrunk");
    for write in 0..writes {
        for done in [false, true] {
            let mut town = two_nodes().await;
            town.faults.die_at(write, done);
            interruption(&mut town, &format!("write {write}, done {done}")).await;
        }
    }
}
