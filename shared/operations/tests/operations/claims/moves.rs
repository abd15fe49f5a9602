//! A cluster moves to the table of another deployment, and back, while the other deployment still runs. The steps are those of
//! docs/moving.md.

use crate::claims::crash_points::at_every_write;
use crate::claims::standalone::node_claim;
use crate::common::{
    Deployment, Harness, check_drifted_away, check_nodes, drift, fixed_cluster, has_new_hash, pod, running_cluster,
    watched,
};
use nodeless_model::labels::PAUSE;
use nodeless_model::node_pool::PoolUsage;
use nodeless_model::{NodeClaim, Phase, labels};
use nodeless_world::resources::NODE_CLAIMS;
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};

/// What a move must not change.
#[derive(Debug, PartialEq)]
struct Kept {
    /// The instances that run or are stopped.
    instances: BTreeSet<String>,
    /// The NodeClaim objects: name and uid.
    objects: BTreeMap<String, String>,
    /// The pods on nodes: uid and node.
    pods: BTreeMap<String, Option<String>>,
    launched: usize,
}

fn kept(harness: &Harness) -> Kept {
    let objects = harness.cluster.node_claims().into_values();
    let pods = harness.cluster.pods().into_values().filter(|pod| pod.node_name.is_some() && !pod.is_terminating());
    Kept {
        instances: harness.cloud.alive().into_iter().map(|instance| instance.id).collect(),
        objects: objects.map(|object| (object.name, object.uid)).collect(),
        pods: pods.map(|pod| (pod.uid, pod.node_name)).collect(),
        launched: harness.cloud.launched(),
    }
}

fn limit(harness: &Harness, limits: &serde_json::Value) {
    harness.cluster.patch_node_pool(json!({ "spec": { "limits": limits } }));
}

async fn usage(harness: &Harness) -> PoolUsage {
    harness.claims.usage().await.unwrap().remove("default").unwrap_or_default()
}

async fn claim_of(harness: &Harness, app: &str) -> NodeClaim {
    let node = harness.cluster.pod_of(app).node_name;
    harness.records().await.into_iter().find(|claim| claim.status.node_name == node).unwrap()
}

/// A cluster with a node and its pod, a node that drains and whose pod may not be evicted, one that launches, a stopped instance, a
/// NodeClaim without a NodePool, and a pod that waits because of the limit.
async fn busy_cluster() -> Harness {
    let mut harness = running_cluster(2).await;
    harness.cluster.annotate_cluster(labels::TABLE, Some("nodeless"));
    harness.cluster.create(&NODE_CLAIMS, node_claim("single", "1"));
    harness.cluster.annotate_node_pool(labels::WARM, "1");
    harness.queue_wake().await;
    for _ in 0..120 {
        harness.tick().await;
        if harness.records().await.iter().any(NodeClaim::is_stopped) {
            break;
        }
    }
    harness.cloud.spoil_joins(1);
    let mut new = pod("new", 3000);
    // The stopped instance is of another type.
    new["spec"]["nodeSelector"] = json!({ "node.kubernetes.io/instance-type": "m6i.xlarge" });
    harness.cluster.add_replica_sets([new]);
    harness.queue_wake().await;
    harness.minutes(1).await;
    limit(&harness, &json!({ "cpu": null, "nodes": "2" }));
    harness.cluster.protect("web-1");
    let draining = claim_of(&harness, "web-1").await;
    harness.cluster.delete_node_claim(&draining.name);
    harness.cluster.add_replica_sets([pod("waits", 3000)]);
    harness.queue_wake().await;
    harness.minutes(1).await;
    let records = harness.records().await;
    let count = |is: &dyn Fn(&NodeClaim) -> bool| records.iter().filter(|claim| is(claim)).count();
    let phases =
        [Phase::Launched, Phase::Initialized, Phase::Draining].map(|phase| count(&|claim| claim.phase == phase));
    assert_eq!((phases, count(&NodeClaim::is_stopped), records.len()), ([1, 2, 1], 1, 5), "{records:#?}");
    assert_eq!((harness.cluster.bound(), usage(&harness).await.resources.get("nodes").units()), (2, 2));
    harness
}

/// Steps 1 and 2 of the documentation. The deployment with the other table works from now on; returns the one that did before.
fn move_to(harness: &mut Harness, next: Deployment, paused: bool) -> Deployment {
    if paused {
        harness.cluster.annotate_cluster(PAUSE, Some("true"));
    }
    harness.cluster.annotate_cluster(labels::TABLE, Some(next.claims.table_name()));
    harness.serve_with(next)
}

fn end_the_pause(harness: &Harness) {
    harness.cluster.annotate_cluster(PAUSE, None);
}

/// Time passes, in which the schedules of the earlier deployment still invoke its functions. They change nothing.
async fn minutes_beside(harness: &mut Harness, earlier: &Deployment, minutes: u32) {
    let stored = format!("{:?}", earlier.claims.table().backup());
    for _ in 0..minutes {
        harness.minutes(1).await;
        let (before, writes) = (kept(harness), harness.faults.writes());
        let errors = earlier.run().await;
        assert!(errors.len() >= 3 && errors.iter().all(|error| error.contains("nodeless.sh/table")), "{errors:#?}");
        assert_eq!(kept(harness), before);
        assert!(harness.faults.writes() <= writes + 1, "at most the Event on the Namespace is written");
    }
    assert_eq!(format!("{:?}", earlier.claims.table().backup()), stored, "the earlier table is as it was");
}

/// Each instance has one claim, by the name of its NodeClaim object, and the NodePool is charged for what runs and stays.
async fn check_adopted(harness: &Harness, when: &str) {
    let records = harness.records().await;
    let owned: Vec<&str> =
        records.iter().filter_map(|claim| Some(claim.status.instance.as_ref()?.id.as_str())).collect();
    assert_eq!(owned.len(), records.len(), "{when}: {records:#?}");
    let alive = harness.cloud.alive();
    assert_eq!(
        owned.iter().copied().collect::<BTreeSet<_>>(),
        alive.iter().map(|instance| instance.id.as_str()).collect(),
        "{when}"
    );
    let objects = harness.cluster.node_claims();
    for claim in &records {
        let object = &objects[&claim.name];
        assert_eq!(object.provider_id, claim.provider_id(), "{when}: {}", claim.name);
        if claim.is_standalone() {
            assert_eq!(object.uid, claim.uid, "{when}: {}", claim.name);
        }
    }
    let charged = records
        .iter()
        .filter(|claim| !claim.is_standalone() && !claim.is_stopped() && !nodeless_lifecycle::leaves_by_force(claim));
    let (mut nodes, mut dollars) = (0, 0.0);
    for claim in charged {
        let launched = claim.status.instance.as_ref().unwrap();
        let resources = &claim.spec.charge.resources;
        assert!(resources.get("cpu").units() == 4 && launched.price > 0.0, "{when}: {claim:#?}");
        (nodes, dollars) = (nodes + 1, dollars + launched.price);
    }
    let usage = usage(harness).await;
    assert_eq!(
        (usage.resources.get("nodes").units(), usage.resources.get("cpu").units()),
        (nodes, 4 * nodes),
        "{when}"
    );
    assert!((usage.dollars_per_hour - dollars).abs() < 1e-6, "{when}: {usage:?}");
}

/// What waited in [`busy_cluster`] may go on: the launching node joins, the drain ends, and the limit is raised.
async fn go_on(harness: &mut Harness) {
    harness.repair_joins();
    harness.cluster.end_protection();
    limit(harness, &json!({ "cpu": "100", "nodes": null }));
    harness.queue_wake().await;
    harness.until("all pods run", |harness| harness.cluster.bound() == 4).await;
    harness.minutes(6).await;
}

#[tokio::test]
async fn a_cluster_moves_to_another_table_and_back_without_touching_a_node() {
    let mut harness = busy_cluster().await;
    let before = kept(&harness);
    let next = Deployment::beside(&harness, "other").await;
    let earlier = move_to(&mut harness, next, true);
    minutes_beside(&mut harness, &earlier, 5).await;
    assert_eq!(kept(&harness), before);
    check_adopted(&harness, "after the move").await;
    end_the_pause(&harness);
    minutes_beside(&mut harness, &earlier, 2).await;
    assert_eq!(kept(&harness), before, "after the pause");
    let stopped: Vec<String> = harness
        .records()
        .await
        .into_iter()
        .filter(NodeClaim::is_stopped)
        .map(|claim| claim.status.instance.unwrap().id)
        .collect();
    assert_eq!(stopped.len(), 1);

    go_on(&mut harness).await;
    check_adopted(&harness, "after the scale-up").await;
    let running: BTreeSet<String> = harness.cloud.running().into_iter().map(|instance| instance.id).collect();
    assert!(running.contains(&stopped[0]), "the stopped instance was started for a pod");
    assert_eq!(running.len(), 5, "four for pods, and that of the NodeClaim of a user");

    // Back: the first table has records from before the move, among them that of an instance that was stopped then.
    let before = kept(&harness);
    let other = move_to(&mut harness, earlier, true);
    minutes_beside(&mut harness, &other, 5).await;
    assert_eq!(kept(&harness), before, "after the move back");
    check_adopted(&harness, "after the move back").await;
    end_the_pause(&harness);
    minutes_beside(&mut harness, &other, 3).await;
    assert_eq!(kept(&harness), before, "after the second pause");

    harness.cluster.remove_all_pods();
    harness.minutes(10).await;
    let records = harness.records().await;
    let left: BTreeSet<(bool, bool)> =
        records.iter().map(|claim| (claim.is_standalone(), claim.is_stopped())).collect();
    assert_eq!(left, BTreeSet::from([(true, false), (false, true)]), "empty nodes are removed: {records:#?}");
    check_adopted(&harness, "after the scale-down").await;
}

#[tokio::test]
async fn a_move_survives_the_end_of_a_process_at_any_write() {
    let live = async |harness: &mut Harness, when: &str| {
        let before = kept(harness);
        let next = Deployment::beside(harness, "other").await;
        let _earlier = move_to(harness, next, true);
        harness.minutes(5).await;
        assert_eq!(kept(harness), before, "{when}");
        check_adopted(harness, when).await;
        end_the_pause(harness);
        harness.minutes(2).await;
        assert_eq!(kept(harness), before, "{when}: after the pause");
    };
    Box::pin(at_every_write(12, 0, busy_cluster, live)).await;
}

#[tokio::test]
async fn no_node_of_a_static_node_pool_is_launched_twice() {
    let mut harness = fixed_cluster(3).await;
    harness.cluster.annotate_cluster(labels::TABLE, Some("nodeless"));
    harness.queue_wake().await;
    harness.minutes(4).await;
    let before = kept(&harness);
    assert_eq!(before.instances.len(), 3);
    let next = Deployment::beside(&harness, "other").await;
    let first = next.claims.table().clone();
    let earlier = move_to(&mut harness, next, false);
    let error = harness.planner().run().await.unwrap_err().to_string();
    assert!(error.contains("the records of 3 NodeClaims with instances are missing"), "{error}");
    minutes_beside(&mut harness, &earlier, 10).await;
    assert_eq!((kept(&harness), first.writes("command")), (before, 0));
}

/// Without the pause: the replacement of a drifted node is launching, and its node is tainted.
#[tokio::test]
async fn a_disruption_that_was_going_on_begins_again() {
    let mut harness = running_cluster(2).await;
    harness.cluster.annotate_cluster(labels::TABLE, Some("nodeless"));
    harness.cloud.spoil_joins(1);
    drift(&harness);
    harness.queue_wake().await;
    let launched = harness.cloud.launched();
    harness.until("a replacement launches", |harness| harness.cloud.launched() > launched).await;
    harness.tick().await;
    let next = Deployment::beside(&harness, "other").await;
    let earlier = move_to(&mut harness, next, false);
    let stored = format!("{:?}", earlier.claims.table().backup());
    watched(&mut harness, 2).await;
    harness.repair_joins();
    for _ in 0..20 {
        watched(&mut harness, 1).await;
        earlier.run().await;
        if harness.records().await.iter().all(|claim| has_new_hash(&harness, claim)) {
            break;
        }
    }
    watched(&mut harness, 8).await;
    check_drifted_away(&harness, "after the move").await;
    check_nodes(&harness, harness.cluster.nodes().len(), "after the move").await;
    assert_eq!((harness.cluster.bound(), harness.records().await.len()), (2, 2));
    assert_eq!(format!("{:?}", earlier.claims.table().backup()), stored);
}
