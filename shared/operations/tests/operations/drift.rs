//! What makes nodes drift, and what does not: clusters that are taken over from Karpenter, and classes that select other things.

use crate::common::Harness;
use crate::common::watched::{drift, running_cluster};
use nodeless_api::hash::VERSION;
use nodeless_api::nodeclass::SecurityGroup;
use nodeless_model::claim::condition;
use nodeless_model::object::MirroredClaim;
use nodeless_model::{NodeClaim, labels};
use nodeless_ports::Claims;

/// Instances, nodes and NodeClaims as Karpenter left them, with its hashes.
async fn karpenters_cluster(nodes: usize) -> Harness {
    let mut harness = running_cluster(nodes).await;
    for claim in &harness.records().await {
        harness.claims.delete(claim).await.unwrap();
        let mut state = harness.cluster.lock();
        let mirror = state.mirrors.get_mut(&claim.name).unwrap();
        *mirror = MirroredClaim { record_uid: None, ..mirror.clone() };
    }
    for node in harness.cluster.lock().nodes.values_mut() {
        node.annotations.insert(labels::NODE_POOL_HASH.into(), "17".into());
        node.annotations.insert(labels::NODE_POOL_HASH_VERSION.into(), "v3".into());
    }
    harness.queue.clear();
    harness.history.clear();
    harness
}

fn hash(claim: &NodeClaim) -> (&str, &str) {
    let value = |key: &str| claim.spec.annotations.get(key).map_or("", String::as_str);
    (value(labels::NODE_POOL_HASH), value(labels::NODE_POOL_HASH_VERSION))
}

#[tokio::test]
async fn an_adopted_node_drifts_by_what_changes_after_it_was_adopted() {
    let mut harness = karpenters_cluster(1).await;
    harness.minutes(3).await;
    let present = harness.cluster.lock().pools[0].hash.clone();
    let claim = harness.records().await[0].clone();
    assert_eq!(hash(&claim), (present.as_str(), VERSION));
    let node = harness.cluster.lock().nodes.values().next().unwrap().clone();
    let shown = |key: &str| node.annotations[key].clone();
    assert_eq!(
        (shown(labels::NODE_POOL_HASH), shown(labels::NODE_POOL_HASH_VERSION)),
        (present.clone(), VERSION.to_owned())
    );
    harness.minutes(10).await;
    assert_eq!(harness.cloud.launched(), 1, "it has not drifted by being adopted");
    assert_eq!(harness.records().await[0].version, claim.version, "nothing is written again and again");
    drift(&harness);
    harness.until("it is replaced", |harness| harness.cloud.launched() == 2).await;
}

#[tokio::test]
async fn an_adopted_node_that_had_drifted_is_replaced() {
    let mut harness = karpenters_cluster(2).await;
    let name = harness.cluster.lock().mirrors.keys().next().unwrap().clone();
    let stated = ("True".to_owned(), "NodePoolDrifted".to_owned());
    harness.cluster.lock().mirrors.get_mut(&name).unwrap().conditions.insert("Drifted".into(), stated);
    harness.sweeper().run().await.unwrap();
    harness.planner().run().await.unwrap();
    for claim in harness.records().await {
        let drifted = claim.has_condition(condition::DRIFTED);
        assert_eq!((drifted, hash(&claim).1), (claim.name == name, VERSION), "{}", claim.name);
        assert_eq!(hash(&claim).0 == "17", drifted, "the one that had drifted keeps the old hash");
    }
    harness.until("it is replaced", |harness| harness.cloud.launched() == 3).await;
    harness.minutes(10).await;
    assert_eq!((harness.cloud.launched(), harness.cloud.alive().len()), (3, 2));
    assert!(harness.records().await.iter().all(|claim| claim.name != name));
}

#[tokio::test]
async fn a_node_drifts_when_its_class_selects_other_subnets_or_security_groups() {
    let mut harness = running_cluster(1).await;
    let instance = harness.cloud.running()[0].clone();
    assert_eq!(instance.security_group_ids.len(), 1);
    {
        let mut state = harness.cluster.lock();
        let class = state.classes.get_mut("default").unwrap();
        let annotations = class.metadata.annotations.get_or_insert_default();
        annotations.insert(labels::EC2_NODE_CLASS_HASH.into(), "1".into());
        annotations.insert(labels::EC2_NODE_CLASS_HASH_VERSION.into(), VERSION.into());
    }
    harness.minutes(3).await;
    let launched = harness.records().await[0].status.instance.clone().unwrap();
    assert_eq!(
        (&launched.subnet_id, &launched.security_group_ids),
        (&Some(harness.cloud.subnet("us-east-1a")), &instance.security_group_ids)
    );
    assert_eq!(harness.cloud.launched(), 1, "it is where its class states");
    let group = SecurityGroup { id: harness.cloud.add_security_group("more"), name: None };
    harness.cluster.lock().classes.get_mut("default").unwrap().status.as_mut().unwrap().security_groups.push(group);
    harness.planner().run().await.unwrap();
    let drifted = harness.records().await[0].condition(condition::DRIFTED).unwrap().clone();
    assert_eq!(drifted.reason, "SecurityGroupDrift", "{drifted:?}");
    harness.until("it is replaced", |harness| harness.cloud.launched() == 2).await;
}
