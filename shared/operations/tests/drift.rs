//! What makes nodes drift, and what does not: clusters that are taken over from Karpenter, and classes that select other things.
#![allow(clippy::unwrap_used)]

mod common;

use common::Town;
use common::watched::{drift, running_town};
use nodeless_api::hash::VERSION;
use nodeless_api::nodeclass::SecurityGroup;
use nodeless_model::claim::condition;
use nodeless_model::object::MirroredClaim;
use nodeless_model::{NodeClaim, labels};
use nodeless_ports::Claims;

/// Instances, nodes and NodeClaims as Karpenter left them, with its hashes.
async fn karpenters_town(nodes: usize) -> Town {
    let mut town = running_town(nodes).await;
    for claim in &town.records().await {
        town.claims.delete(claim).await.unwrap();
        let mut state = town.cluster.lock();
        let mirror = state.mirrors.get_mut(&claim.name).unwrap();
        *mirror = MirroredClaim { record_uid: None, ..mirror.clone() };
    }
    for node in town.cluster.lock().nodes.values_mut() {
        node.annotations.insert(labels::NODE_POOL_HASH.into(), "17".into());
        node.annotations.insert(labels::NODE_POOL_HASH_VERSION.into(), "v3".into());
    }
    town.queue.clear();
    town.history.clear();
    town
}

fn hash(claim: &NodeClaim) -> (&str, &str) {
    let value = |key: &str| claim.spec.annotations.get(key).map_or("", String::as_str);
    (value(labels::NODE_POOL_HASH), value(labels::NODE_POOL_HASH_VERSION))
}

#[tokio::test]
async fn an_adopted_node_drifts_by_what_changes_after_it_was_adopted() {
    let mut town = karpenters_town(1).await;
    town.minutes(3).await;
    let present = town.cluster.lock().pools[0].hash.clone();
    let claim = town.records().await[0].clone();
    assert_eq!(hash(&claim), (present.as_str(), VERSION));
    let node = town.cluster.lock().nodes.values().next().unwrap().clone();
    let shown = |key: &str| node.annotations[key].clone();
    assert_eq!(
        (shown(labels::NODE_POOL_HASH), shown(labels::NODE_POOL_HASH_VERSION)),
        (present.clone(), VERSION.to_owned())
    );
    town.minutes(10).await;
    assert_eq!(town.cloud.launched(), 1, "it has not drifted by being adopted");
    assert_eq!(town.records().await[0].version, claim.version, "nothing is written again and again");
    drift(&town);
    town.until("it is replaced", |town| town.cloud.launched() == 2).await;
}

#[tokio::test]
async fn an_adopted_node_that_had_drifted_is_replaced() {
    let mut town = karpenters_town(2).await;
    let name = town.cluster.lock().mirrors.keys().next().unwrap().clone();
    let stated = ("True".to_owned(), "NodePoolDrifted".to_owned());
    town.cluster.lock().mirrors.get_mut(&name).unwrap().conditions.insert("Drifted".into(), stated);
    town.sweeper().run().await.unwrap();
    town.planner().run().await.unwrap();
    for claim in town.records().await {
        let drifted = claim.has_condition(condition::DRIFTED);
        assert_eq!((drifted, hash(&claim).1), (claim.name == name, VERSION), "{}", claim.name);
        assert_eq!(hash(&claim).0 == "17", drifted, "the one that had drifted keeps the old hash");
    }
    town.until("it is replaced", |town| town.cloud.launched() == 3).await;
    town.minutes(10).await;
    assert_eq!((town.cloud.launched(), town.cloud.alive().len()), (3, 2));
    assert!(town.records().await.iter().all(|claim| claim.name != name));
}

#[tokio::test]
async fn a_node_drifts_when_its_class_selects_other_subnets_or_security_groups() {
    let mut town = running_town(1).await;
    let mut instance = town.cloud.running()[0].clone();
    (instance.subnet_id, instance.security_group_ids) = (Some("subnet-1".into()), vec!["sg-1".into()]);
    town.cloud.put(instance);
    {
        let mut state = town.cluster.lock();
        let class = state.classes.get_mut("default").unwrap();
        let annotations = class.metadata.annotations.get_or_insert_default();
        annotations.insert(labels::EC2_NODE_CLASS_HASH.into(), "1".into());
        annotations.insert(labels::EC2_NODE_CLASS_HASH_VERSION.into(), VERSION.into());
        let groups = ["sg-1"].map(|id| SecurityGroup { id: id.into(), name: None });
        class.status.get_or_insert_default().security_groups = groups.into();
    }
    town.minutes(3).await;
    let launched = town.records().await[0].status.instance.clone().unwrap();
    assert_eq!(
        (launched.subnet_id.as_deref(), &launched.security_group_ids[..]),
        (Some("subnet-1"), &["sg-1".into()][..])
    );
    assert_eq!(town.cloud.launched(), 1, "it is where its class states");
    let group = SecurityGroup { id: "sg-2".into(), name: None };
    town.cluster.lock().classes.get_mut("default").unwrap().status.as_mut().unwrap().security_groups.push(group);
    town.planner().run().await.unwrap();
    let drifted = town.records().await[0].condition(condition::DRIFTED).unwrap().clone();
    assert_eq!(drifted.reason, "SecurityGroupDrift", "{drifted:?}");
    town.until("it is replaced", |town| town.cloud.launched() == 2).await;
}
