//! Nodes that are replaced before they have to go, and switches that hold everything.

use crate::common::{Harness, drift, pod, running_cluster, watched};
use nodeless_fake_kubernetes::resource::REPLICA_SETS;
use nodeless_model::claim::condition;
use nodeless_model::{NodeClaim, labels};
use nodeless_ports::ErrorKind;
use serde_json::json;

fn annotate(harness: &Harness, key: &str, value: &str) {
    harness.cluster.annotate_node_pool(key, value);
}

fn recommendation(claim: &NodeClaim) -> String {
    let id = &claim.status.instance.as_ref().unwrap().id;
    let kind = "EC2 Instance Rebalance Recommendation";
    format!(r#"{{"source":"aws.ec2","detail-type":"{kind}","detail":{{"instance-id":"{id}"}}}}"#)
}

#[tokio::test]
async fn a_rebalance_recommendation_replaces_the_node_if_enabled() {
    let mut harness = running_cluster(2).await;
    let old = harness.records().await[0].clone();
    let event = recommendation(&old);
    // A conflict and a failure are tried again, and the same event again changes nothing.
    harness.faults.fail("claims update", ErrorKind::Throttled);
    harness.interrupter().run(&event).await.unwrap_err();
    harness.faults.end_outages();
    for _ in 0..2 {
        assert!(harness.interrupter().run(&event).await.unwrap().is_empty(), "no claim terminates at once");
    }
    let noted = harness.claims.get(&old.name).await.unwrap().unwrap();
    assert!(noted.has_condition(condition::REBALANCE_RECOMMENDED));
    watched(&mut harness, 3).await;
    assert_eq!(harness.cloud.launched(), 2, "as in Karpenter it is only reported");

    annotate(&harness, labels::REBALANCE, "Replace");
    watched(&mut harness, 2).await;
    assert_eq!(harness.cloud.launched(), 2);
    let reported = harness
        .cluster
        .events()
        .iter()
        .any(|event| event.object.kind == "NodePool" && event.message.contains("write replace or ignore"));
    assert!(reported, "the malformed value is reported");

    annotate(&harness, labels::REBALANCE, "replace");
    watched(&mut harness, 10).await;
    assert_eq!((harness.cloud.launched(), harness.cluster.bound(), harness.records().await.len()), (3, 2, 2));
    assert!(harness.claims.get(&old.name).await.unwrap().is_none());
    assert!(!harness.records().await.iter().any(|claim| claim.has_condition(condition::REBALANCE_RECOMMENDED)));
}

#[tokio::test]
async fn a_node_that_expires_soon_is_replaced_first_and_the_forceful_time_never_comes() {
    let mut harness = Harness::new().await;
    harness.cluster.patch_node_pool(json!({ "spec": { "template": { "spec": { "expireAfter": "1h" } } } }));
    annotate(&harness, labels::GRACEFUL_EXPIRATION, "20m");
    harness.cluster.add_replica_sets([pod("web", 3000)]);
    harness.queue_wake().await;
    harness.until("it runs", |harness| harness.cluster.bound() == 1).await;
    let old = harness.records().await[0].name.clone();
    watched(&mut harness, 38).await;
    assert_eq!(harness.cloud.launched(), 1);
    // `watched` sees that the old node does not begin to drain before the new one is ready.
    watched(&mut harness, 12).await;
    assert_eq!((harness.cloud.launched(), harness.cluster.bound()), (2, 1));
    let records = harness.records().await;
    assert!(records.len() == 1 && records[0].name != old && records[0].spec.replaces == [old]);
    let evicted = harness.cluster.events_of("Evicted")[0].message.clone();
    assert!(evicted.contains("it reaches its expireAfter of 1h"), "what ends is stated: {evicted}");
}

#[tokio::test]
async fn a_pause_of_the_whole_cluster_holds_every_command() {
    let mut harness = running_cluster(1).await;
    harness.cluster.annotate_cluster(labels::PAUSE, Some("true"));
    drift(&harness);
    watched(&mut harness, 4).await;
    assert_eq!(harness.cloud.launched(), 1);
    let report = harness.planner().run().await.unwrap();
    assert_eq!(report.kept[0].reasons[0].to_string(), "disruption is paused for the cluster");
    harness.cluster.annotate_cluster(labels::PAUSE, None);
    watched(&mut harness, 8).await;
    assert_eq!(harness.cloud.launched(), 2);
}

#[tokio::test]
async fn what_was_decided_is_written_down_with_why_the_others_stay() {
    let mut harness = running_cluster(3).await;
    harness.cluster.patch_node_pool(json!({ "spec": { "disruption": { "budgets": [{ "nodes": "1" }] } } }));
    for set in ["web-0", "web-1"] {
        harness.cluster.patch(&REPLICA_SETS, set, json!({ "spec": { "replicas": 0 } }));
    }
    watched(&mut harness, 6).await;
    let decisions = harness.claims.decisions(100).await.unwrap();
    let proposed = decisions.iter().find(|one| one.kind == "disruption-proposed").unwrap();
    let detail: serde_json::Value = serde_json::from_str(&proposed.detail).unwrap();
    assert_eq!(detail["commands"][0]["method"], "Emptiness");
    let kept = detail["kept"].as_array().unwrap();
    let reported = |one: &serde_json::Value| one["node"].is_string() && !one["reasons"].as_array().unwrap().is_empty();
    assert!(!kept.is_empty() && kept.iter().all(reported), "{detail:#}");
    assert_eq!(harness.records().await.len(), 1);
}
