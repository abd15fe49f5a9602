//! Records and tags that people lose or change: no node that works is terminated for it, and no cost goes on unreported.

use crate::common::{Harness, running_cluster};
use jiff::SignedDuration;
use nodeless_fake_aws::requests::ChangeTags;
use nodeless_fake_kubernetes::resource::{EVENTS, NODES};
use nodeless_model::{NodeClaim, NodeClaimStatus, Phase, labels};
use nodeless_ports::ErrorKind;
use nodeless_world::resources::NODE_CLAIMS;
use serde_json::json;

/// The only claim, and the id of its instance.
async fn only(harness: &Harness) -> (NodeClaim, String) {
    let claim = harness.records().await.remove(0);
    let id = claim.status.instance.as_ref().unwrap().id.clone();
    (claim, id)
}

/// The node is not ready at the moment of a sweep, and EC2 does not list the instance by the tags that nodeless sets.
#[tokio::test]
async fn an_instance_whose_tags_were_removed_is_found_by_its_id() {
    let mut harness = running_cluster(1).await;
    harness.minutes(5).await;
    let (claim, id) = only(&harness).await;
    harness.cloud.ec2.delete_tags(&ChangeTags { resources: vec![id.clone()], ..ChangeTags::default() }).unwrap();
    harness.cluster.change_status(&NODES, claim.status.node_name.as_ref().unwrap(), |status| {
        status["conditions"].as_array_mut().unwrap().retain(|condition| condition["type"] != "Ready");
    });
    let report = harness.sweeper().run().await.unwrap();
    assert_eq!(report.requeued, [claim.name.as_str()], "a step looks at the instance");
    harness.minutes(10).await;
    let (after, same) = only(&harness).await;
    assert_eq!((after.phase, same), (Phase::Initialized, id));
}

/// A claim that had not been launched yet at the time to which the table was restored has a node today.
#[tokio::test]
async fn a_node_of_a_claim_that_was_restored_to_before_its_launch_stays() {
    let mut harness = running_cluster(1).await;
    harness.minutes(10).await;
    let (claim, id) = only(&harness).await;
    let restored = NodeClaim { phase: Phase::Reserved, status: NodeClaimStatus::default(), ..claim.clone() };
    harness.claims.update(&restored, None).await.unwrap();
    harness.minutes(15).await;
    let (after, same) = only(&harness).await;
    assert_eq!((after.name, after.phase, same), (claim.name, Phase::Initialized, id));
    assert_eq!((harness.cloud.launched(), harness.cluster.events_of("Evicted").len()), (1, 0));
}

/// The NodeClaim object does not show that it was launched.
#[tokio::test]
async fn a_node_of_a_restored_claim_is_drained_before_it_is_terminated() {
    let mut harness = running_cluster(1).await;
    harness.minutes(10).await;
    let (claim, id) = only(&harness).await;
    let status = NodeClaimStatus { launch_asked: true, ..NodeClaimStatus::default() };
    let restored = NodeClaim { phase: Phase::Reserved, status, ..claim.clone() };
    harness.claims.update(&restored, None).await.unwrap();
    harness.cluster.change_status(&NODE_CLAIMS, &claim.name, |status| *status = json!({}));
    harness.cluster.protect("web-0");
    harness.minutes(30).await;
    let running = harness.cloud.running();
    assert!(running.iter().any(|instance| instance.id == id), "its pod may not be evicted, so the instance stays");
    harness.cluster.end_protection();
    harness.until("it is drained", |harness| !harness.cluster.node_claims().contains_key(&claim.name)).await;
    assert!(harness.cloud.running().iter().all(|instance| instance.id != id));
}

/// The sweep adopts a node whose launch is repeated later, or would: another claim would have the same instance.
#[tokio::test]
async fn a_registered_node_of_a_claim_without_a_recorded_instance_is_not_adopted() {
    let mut harness = running_cluster(1).await;
    let (claim, id) = only(&harness).await;
    let restored = NodeClaim { phase: Phase::Reserved, status: NodeClaimStatus::default(), ..claim.clone() };
    harness.claims.update(&restored, None).await.unwrap();
    let report = harness.sweeper().run().await.unwrap();
    assert_eq!((report.collected, harness.records().await.len()), (Vec::new(), 1));
    harness.minutes(3).await;
    let (after, same) = only(&harness).await;
    assert_eq!((after.name, same, harness.cloud.launched()), (claim.name, id, 1));
}

/// The table and the NodeClaim were lost. The kubelet has set a label that the definition of NodeClaims accepts in no requirement.
#[tokio::test]
async fn an_adopted_node_gets_a_node_claim() {
    let mut harness = running_cluster(1).await;
    let (claim, id) = only(&harness).await;
    let labels = json!({ labels::DO_NOT_SYNC_TAINTS: "true", "example.com/team": "a" });
    let node = claim.status.node_name.clone().unwrap();
    // Without its owner, the Node outlives the NodeClaim.
    harness.cluster.patch(&NODES, &node, json!({ "metadata": { "labels": labels, "ownerReferences": null } }));
    harness.claims.delete(&claim).await.unwrap();
    harness.cluster.patch(&NODE_CLAIMS, &claim.name, json!({ "metadata": { "finalizers": null } }));
    harness.cluster.delete(&NODE_CLAIMS, &claim.name);
    harness.minutes(2).await;
    let (adopted, same) = only(&harness).await;
    assert_eq!((same, adopted.spec.labels.get("example.com/team").map(String::as_str)), (id, Some("a")));
    assert!(harness.cluster.node_claims().contains_key(&adopted.name), "{:?}", harness.sweeper().run().await);
    let problems = harness.sweeper().run().await.unwrap().problems;
    assert!(problems.is_empty(), "{problems:?}");
}

/// The table has a claim of a cluster that was deleted. Its instance still runs, and cannot join the cluster that has the name now.
#[tokio::test]
async fn claims_of_an_earlier_cluster_of_the_same_name_end_with_their_instances() {
    let mut harness = running_cluster(1).await;
    let (claim, kept) = only(&harness).await;
    let stray = harness.cloud.launch_orphan();
    let before = harness.context().now() - SignedDuration::from_hours(48);
    let mut old =
        NodeClaim { name: "default-old00".to_owned(), uid: "old".to_owned(), created: before, ..claim.clone() };
    old.spec.launch_group = None;
    old.status.node_name = Some("ip-10-0-0-9.ec2.internal".to_owned());
    let launched = old.status.instance.as_mut().unwrap();
    (launched.id, launched.launched) = (stray.clone(), before);
    harness.claims.create(&old, None).await.unwrap();
    harness.minutes(10).await;
    let running: Vec<String> = harness.cloud.running().into_iter().map(|instance| instance.id).collect();
    assert_eq!(running, [kept.as_str()], "{stray} is of the earlier cluster");
    assert_eq!(only(&harness).await.0.name, claim.name, "the earlier claim is gone, and the other stays");
}

/// EC2 refuses without the permission, and with termination protection (`OperationNotPermitted`).
#[tokio::test]
async fn a_termination_that_ec2_refuses_is_reported_on_the_node_claim() {
    for kind in [ErrorKind::Denied, ErrorKind::Invalid] {
        let mut harness = running_cluster(1).await;
        let (claim, id) = only(&harness).await;
        harness.faults.fail("cloud terminate", kind);
        harness.cluster.delete_node_claim(&claim.name);
        harness.minutes(5).await;
        let events = harness.cluster.list(&EVENTS);
        let failed: Vec<_> = events.iter().filter(|event| event["reason"] == "FailedTermination").collect();
        let [event] = failed[..] else { panic!("one Event with the number of attempts: {kind:?} {failed:?}") };
        let message = event["message"].as_str().unwrap();
        assert!(message.starts_with(&format!("Failed to terminate instance {id}, ")), "{message}");
        assert!(event["count"].as_u64().unwrap() > 1, "{event}");
        assert_eq!(event["involvedObject"]["name"], claim.name.as_str());
        harness.faults.end_outages();
        harness.until("it is terminated", |harness| !harness.cluster.node_claims().contains_key(&claim.name)).await;
    }
}

#[tokio::test]
async fn a_termination_that_ec2_does_not_answer_is_only_retried() {
    let mut harness = running_cluster(1).await;
    let (claim, _) = only(&harness).await;
    harness.faults.fail("cloud terminate", ErrorKind::Throttled);
    harness.cluster.delete_node_claim(&claim.name);
    harness.minutes(5).await;
    assert_eq!(harness.cluster.events_of("FailedTermination"), []);
    harness.faults.end_outages();
    harness.until("it is terminated", |harness| !harness.cluster.node_claims().contains_key(&claim.name)).await;
}

/// The table was restored to a time at which a claim was about to be launched. It has ended since, and the limits are used up by now.
#[tokio::test]
async fn a_launch_that_was_planned_long_ago_stays_within_the_limits() {
    let mut harness = running_cluster(1).await;
    harness.minutes(5).await;
    let (claim, _) = only(&harness).await;
    harness.cluster.patch_node_pool(json!({ "spec": { "limits": { "nodes": "1" } } }));
    let mut restored = NodeClaim {
        name: "default-old00".to_owned(),
        uid: "old".to_owned(),
        phase: Phase::Reserved,
        status: NodeClaimStatus::default(),
        created: harness.context().now() - SignedDuration::from_mins(2),
        ..claim
    };
    restored.spec.launch_group.as_mut().unwrap().id = "old".to_owned();
    harness.claims.create(&restored, None).await.unwrap();
    harness.wake_claim(&restored.name).await;
    harness.minutes(3).await;
    assert_eq!((harness.cloud.launched(), harness.records().await.len()), (1, 1));
    let events = harness.cluster.events_of("InsufficientCapacityError");
    let why = "the limits of NodePool default are used up";
    assert!(events.iter().any(|event| event.message.contains(why)), "{events:?}");
    // Within the limits it is launched, however late.
    harness.cluster.patch_node_pool(json!({ "spec": { "limits": { "nodes": "2" } } }));
    restored.name = "default-old01".to_owned();
    restored.uid = "older".to_owned();
    restored.spec.launch_group.as_mut().unwrap().id = "older".to_owned();
    restored.created = harness.context().now() - SignedDuration::from_mins(2);
    harness.claims.create(&restored, None).await.unwrap();
    harness.wake_claim(&restored.name).await;
    harness.minutes(1).await;
    assert_eq!(harness.cloud.launched(), 2);
}

/// A node without a record counts, too, before the sweep adopts it.
#[tokio::test]
async fn a_launch_that_was_planned_long_ago_waits_until_all_nodes_are_adopted() {
    let mut harness = running_cluster(1).await;
    harness.minutes(5).await;
    let (claim, _) = only(&harness).await;
    harness.claims.delete(&claim).await.unwrap();
    let mut restored = NodeClaim {
        name: "default-old00".to_owned(),
        uid: "old".to_owned(),
        phase: Phase::Reserved,
        status: NodeClaimStatus::default(),
        created: harness.context().now() - SignedDuration::from_mins(2),
        version: 0,
        ..claim
    };
    restored.spec.launch_group.as_mut().unwrap().id = "old".to_owned();
    harness.claims.create(&restored, None).await.unwrap();
    let waits = harness.reconciler().run(&restored.name).await.unwrap();
    assert_eq!((waits.phase, harness.cloud.launched()), (Some(Phase::Reserved), 1), "{waits:?}");
    harness.sweeper().run().await.unwrap();
    harness.minutes(1).await;
    assert_eq!(harness.cloud.launched(), 2);
}
