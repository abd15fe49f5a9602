//! Changes that make nodes drift, or do not: clusters that are taken over from Karpenter, and classes that select other things.

use crate::common::Harness;
use crate::common::watched::{drift, running_cluster};
use nodeless_api::hash::VERSION;
use nodeless_fake_kubernetes::resource::NODES;
use nodeless_model::claim::condition;
use nodeless_model::{NodeClaim, labels};
use nodeless_world::resources::{NODE_CLAIMS, NODE_CLASSES};
use serde_json::json;

/// Instances, nodes and NodeClaims as Karpenter left them, with its hashes.
async fn karpenters_cluster(nodes: usize) -> Harness {
    let mut harness = running_cluster(nodes).await;
    for claim in &harness.records().await {
        harness.claims.delete(claim).await.unwrap();
        harness.cluster.give_to_karpenter(&claim.name);
    }
    let hash = json!({ labels::NODE_POOL_HASH: "17", labels::NODE_POOL_HASH_VERSION: "v3" });
    for node in harness.cluster.nodes().keys() {
        harness.cluster.patch(&NODES, node, json!({ "metadata": { "annotations": hash } }));
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
    let present = harness.cluster.node_pool().hash;
    let claim = harness.records().await[0].clone();
    assert_eq!(hash(&claim), (present.as_str(), VERSION));
    let node = harness.cluster.nodes().values().next().unwrap().clone();
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
    let name = harness.cluster.node_claims().keys().next().unwrap().clone();
    let drifted = json!({ "type": "Drifted", "status": "True", "reason": "NodePoolDrifted", "message": "",
        "lastTransitionTime": harness.clock.time().to_string() });
    harness.cluster.add_condition(&NODE_CLAIMS, &name, drifted);
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
    harness.minutes(3).await;
    let launched = harness.records().await[0].status.instance.clone().unwrap();
    assert_eq!(
        (&launched.subnet_id, &launched.security_group_ids),
        (&Some(harness.cloud.subnet("us-east-1a")), &instance.security_group_ids)
    );
    assert_eq!(harness.cloud.launched(), 1, "it is where its class states");
    let group = json!({ "id": harness.cloud.add_security_group("more") });
    harness.cluster.change_status(&NODE_CLASSES, "default", |status| {
        status["securityGroups"].as_array_mut().unwrap().push(group);
    });
    harness.planner().run().await.unwrap();
    let drifted = harness.records().await[0].condition(condition::DRIFTED).unwrap().clone();
    assert_eq!(drifted.reason, "SecurityGroupDrift", "{drifted:?}");
    harness.until("it is replaced", |harness| harness.cloud.launched() == 2).await;
}
