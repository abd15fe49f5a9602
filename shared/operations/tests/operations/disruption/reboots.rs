//! Node repair by a reboot.

use crate::common::{Harness, check_nodes, pod};
use nodeless_fake_kubernetes::resource::NODES;
use nodeless_model::claim::TerminationReason;
use nodeless_model::{Node, Taint};
use nodeless_operations::gates::FeatureGates;
use nodeless_planner::PlanSettings;
use serde_json::{Value, json};

/// A cluster with two nodes. A GPU of the second has just failed, as EKS's node monitoring agent reports it.
async fn with_failed_gpu() -> (Harness, Node) {
    let mut harness = Harness::new().await;
    let gates = FeatureGates { node_repair: true, reboot_for_repair: true, ..FeatureGates::default() };
    harness.set(PlanSettings { gates, ..PlanSettings::default() });
    harness.cluster.add_replica_sets((0..2).map(|number| pod(&format!("web-{number}"), 3000)));
    harness.queue_wake().await;
    harness.until("pods run", |harness| harness.cluster.bound() == 2).await;
    harness.minutes(2).await;
    let failed = harness.cluster.nodes().values().last().unwrap().clone();
    let gpu = json!({
        "type": "AcceleratedHardwareReady", "status": "False", "reason": "NvidiaXID48Error",
        "lastTransitionTime": harness.clock.time().to_string(),
    });
    harness.cluster.add_condition(&NODES, &failed.name, gpu);
    (harness, failed)
}

fn reboots(harness: &Harness) -> usize {
    harness.cloud.ec2.calls().iter().filter(|call| call.api == "RebootInstances" && call.error.is_none()).count()
}

fn recover(status: &mut Value) {
    status["conditions"].as_array_mut().unwrap().retain(|condition| condition["type"] != "AcceleratedHardwareReady");
}

fn is_like_new(node: &Node) -> bool {
    node.is_ready() && node.is_initialized() && node.taints.is_empty()
}

#[tokio::test]
async fn a_node_whose_gpu_works_again_after_a_reboot_stays() {
    let (mut harness, failed) = with_failed_gpu().await;
    let launched = harness.cloud.launched();
    harness.minutes(9).await;
    assert_eq!(reboots(&harness), 0, "it may recover for ten minutes");
    harness.until("the reboot", |harness| reboots(harness) == 1).await;
    assert!(harness.cluster.events_of("RebootRequested").iter().any(|event| event.object.kind == "Node"));
    harness.cluster.change_node_statuses(recover);
    harness.minutes(3).await;
    let node = harness.cluster.nodes()[&failed.name].clone();
    assert!(is_like_new(&node) && node.boot_id != failed.boot_id, "{node:#?}");
    assert_eq!((node.uid, harness.cloud.launched()), (failed.uid, launched), "its pods need no other node meanwhile");
    harness.minutes(60).await;
    check_nodes(&harness, 2, "after an hour").await;
    assert_eq!((reboots(&harness), harness.cluster.bound(), harness.cloud.launched()), (1, 2, launched));
    assert!(harness.records().await.iter().all(|claim| claim.rebooting().is_none()));
}

#[tokio::test]
async fn a_node_that_two_reboots_do_not_repair_is_replaced() {
    let (mut harness, failed) = with_failed_gpu().await;
    let launched = harness.cloud.launched();
    harness.minutes(15).await;
    assert_eq!(reboots(&harness), 1);
    harness.until("the second reboot", |harness| reboots(harness) == 2).await;
    assert_eq!(harness.cloud.launched(), launched);
    harness.minutes(25).await;
    assert!(!harness.cluster.nodes().contains_key(&failed.name));
    check_nodes(&harness, 2, "after the replacement").await;
    assert_eq!((reboots(&harness), harness.cluster.bound(), harness.cloud.launched()), (2, 2, launched + 1));
}

#[tokio::test]
async fn a_node_that_ec2_refuses_to_reboot_is_replaced() {
    let (mut harness, failed) = with_failed_gpu().await;
    harness.cloud.ec2.deny("RebootInstances");
    harness.minutes(20).await;
    assert!(harness.cluster.nodes().contains_key(&failed.name), "EC2 may allow it within twenty minutes");
    harness.minutes(25).await;
    assert!(!harness.cluster.nodes().contains_key(&failed.name) && reboots(&harness) == 0);
    assert!(harness.cluster.events_of("RebootFailed").iter().any(|event| event.object.kind == "NodeClaim"));
    check_nodes(&harness, 2, "after the replacement").await;
}

#[tokio::test]
async fn the_sweep_finds_a_reboot_that_no_shard_has() {
    let (mut harness, failed) = with_failed_gpu().await;
    harness.until("the drain", |harness| harness.cluster.nodes()[&failed.name].has_taint(&Taint::rebooting())).await;
    assert_eq!(reboots(&harness), 0);
    for mut shard in harness.claims.shards().await.unwrap() {
        shard.due.clear();
        shard.message = None;
        harness.claims.put_shard(&shard).await.unwrap();
    }
    harness.queue.clear();
    harness.minutes(10).await;
    assert_eq!(reboots(&harness), 1);
}

#[tokio::test]
async fn the_end_of_a_process_at_any_write_reboots_at_most_once_more() {
    let (mut harness, _) = with_failed_gpu().await;
    harness.minutes(9).await;
    harness.faults.take_writes();
    harness.until("the reboot", |harness| reboots(harness) == 1).await;
    let writes = harness.faults.take_writes();
    for (write, done) in (0..writes).flat_map(|write| [(write, false), (write, true)]) {
        let (mut harness, failed) = with_failed_gpu().await;
        harness.minutes(9).await;
        harness.faults.take_writes();
        harness.faults.kill_at(write, done);
        harness.until("the reboot", |harness| reboots(harness) > 0).await;
        harness.cluster.change_node_statuses(recover);
        harness.minutes(10).await;
        let when = format!("write {write}, done {done}");
        assert!(reboots(&harness) <= 2, "{when}: {} reboots", reboots(&harness));
        assert!(is_like_new(&harness.cluster.nodes()[&failed.name]), "{when}");
        let records = harness.records().await;
        let repaired = records.iter().filter_map(|claim| claim.status.termination.as_ref());
        assert!(!repaired.into_iter().any(|end| end.reason == TerminationReason::Repaired), "{when}");
    }
}
