//! A process may end after any single write. What it leaves behind is repaired by those that follow.
#![allow(clippy::unwrap_used)]

mod common;

use common::{Town, pod};
use nodeless_model::Phase;
use nodeless_ports::Claims;
use std::collections::{BTreeMap, BTreeSet};

/// Three pods come, each to a node of its own. Somebody deletes one NodeClaim, so that its pod is evicted. Then the other
/// pods go, and their nodes follow.
async fn life(town: &mut Town) {
    town.cluster.add_pods((0..3).map(|number| pod(&format!("web-{number}"), 3000)));
    town.queue_wake().await;
    town.until("three pods run", |town| town.cluster.bound() == 3).await;
    town.until("all is settled", |town| town.cloud.alive().len() == 3).await;
    town.minutes(2).await;
    check(town, "after scaling up").await;

    let deleted = town.records().await[0].name.clone();
    town.cluster.lock().mirrors.get_mut(&deleted).unwrap().deletion_timestamp = Some(town.clock.time());
    town.until("it is gone", |town| !town.cluster.lock().mirrors.contains_key(&deleted)).await;
    town.until("two are left", |town| town.cloud.alive().len() == 2).await;
    town.minutes(3).await;
    check(town, "after deleting a claim").await;
    assert_eq!((town.cluster.bound(), town.records().await.len()), (2, 2));

    town.cluster.remove_all_pods();
    town.until("nothing runs", |town| town.cloud.alive().is_empty()).await;
    town.minutes(3).await;
    check(town, "after scaling down").await;
    assert!(town.records().await.is_empty(), "{:#?}", town.records().await);
    {
        let state = town.cluster.lock();
        assert!(state.nodes.is_empty() && state.mirrors.is_empty(), "{:?} {:?}", state.nodes, state.mirrors);
    }
    for (pool, usage) in town.claims.usage().await.unwrap() {
        assert!(usage.resources.is_empty() && usage.dollars_per_hour.abs() < 1e-9, "{pool}: {usage:?}");
    }
}

/// What holds at any time of rest: each claim has one instance, each instance one claim, none ever had two.
async fn check(town: &Town, when: &str) {
    let records = town.records().await;
    let of_claims: BTreeSet<String> =
        records.iter().filter_map(|claim| claim.status.instance.as_ref()).map(|instance| instance.id.clone()).collect();
    let alive: BTreeSet<String> = town.cloud.alive().into_iter().map(|instance| instance.id).collect();
    assert_eq!(of_claims, alive, "{when}: claims and instances differ");
    assert_eq!(records.len(), of_claims.len(), "{when}: two claims share an instance, or one has none");
    assert!(records.iter().all(|claim| claim.phase == Phase::Initialized), "{when}: {records:#?}");
    let mut instances: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (claim, instance) in &town.history {
        instances.entry(claim).or_default().push(instance);
    }
    assert!(instances.values().all(|ids| ids.len() == 1), "{when}: a claim had two instances: {instances:?}");
}

#[tokio::test]
async fn nothing_is_lost_doubled_or_leaked_wherever_a_process_ends() {
    let mut town = Town::new().await;
    life(&mut town).await;
    let (writes, _) = town.faults.revive();
    assert!(writes > 60, "only {writes} writes: the scenario has shrunk");
    for write in 0..writes {
        for done in [false, true] {
            let mut town = Town::new().await;
            town.faults.die_at(write, done);
            life(&mut town).await;
            let claimed: BTreeSet<&String> = town.history.iter().map(|(_, instance)| instance).collect();
            assert_eq!(town.cloud.launched(), claimed.len(), "write {write}, done {done}: an instance had no claim");
        }
    }
}
