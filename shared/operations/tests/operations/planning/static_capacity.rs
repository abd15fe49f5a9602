//! Fixed numbers of nodes, times of sleep and repair: what is done about nodes whatever their pods need.

use crate::common::{Harness, check_nodes, drift, fixed_cluster, has_new_hash, invalid_pod, pod, static_pool};
use jiff::{SignedDuration, Timestamp};
use nodeless_fake_kubernetes::resource::NODES;
use nodeless_model::claim::TerminationReason;
use nodeless_model::{NodeClaim, Phase, labels};
use nodeless_operations::gates::FeatureGates;
use nodeless_planner::PlanSettings;
use nodeless_world::resources::NODE_POOLS;
use serde_json::json;
use std::collections::BTreeSet;

fn set_replicas(harness: &Harness, replicas: i64) {
    harness.cluster.patch_node_pool(json!({ "spec": { "replicas": replicas } }));
}

/// Ticks until there is this number of initialized nodes, or twenty minutes have passed.
async fn converge(harness: &mut Harness, nodes: usize) {
    for _ in 0..20 {
        harness.minutes(1).await;
        let records = harness.records().await;
        let ready = records.iter().all(|claim| claim.phase == Phase::Initialized);
        if ready && records.len() == nodes && harness.cloud.alive().len() == nodes {
            break;
        }
    }
    harness.minutes(1).await;
}

#[tokio::test]
async fn a_static_pool_has_just_as_many_nodes_as_it_should() {
    let mut harness = fixed_cluster(3).await;
    converge(&mut harness, 3).await;
    check_nodes(&harness, 3, "without any pod").await;
    assert_eq!(harness.cloud.launched(), 3);
    assert_eq!(harness.cluster.node_pool_status("default").nodes, 3);
    let decisions = harness.claims.decisions(10).await.unwrap();
    assert!(decisions.iter().any(|one| one.kind == "static-capacity" && one.subjects.len() == 3), "{decisions:#?}");

    // Pods use the nodes, and a static NodePool launches none for those that cannot be placed.
    harness.cluster.add_replica_sets((0..4).map(|number| pod(&format!("web-{number}"), 1500)));
    harness.queue_wake().await;
    harness.minutes(3).await;
    assert_eq!((harness.cluster.bound(), harness.cloud.launched()), (3, 3));
    let report = harness.planner().run().await.unwrap();
    assert!(report.unschedulable[0].1.contains("fixed number of replicas"), "{:?}", report.unschedulable);

    // More replicas: the pending pod gets a node. Fewer: the empty node is removed first.
    set_replicas(&harness, 5);
    converge(&mut harness, 5).await;
    check_nodes(&harness, 5, "after growing").await;
    assert_eq!(harness.cluster.bound(), 4);
    let busy: BTreeSet<String> = harness.cluster.pods().values().filter_map(|pod| pod.node_name.clone()).collect();
    set_replicas(&harness, 4);
    converge(&mut harness, 4).await;
    check_nodes(&harness, 4, "after shrinking").await;
    assert_eq!(harness.cluster.nodes().keys().cloned().collect::<BTreeSet<_>>(), busy);
    let reported = harness.cluster.events_of("DisruptionTerminating");
    assert!(reported.iter().any(|event| event.message.contains("has more nodes than its replicas")), "{reported:#?}");

    // An instance that goes is replaced.
    let lost = harness.cloud.alive()[0].id.clone();
    harness.cloud.end(&lost);
    converge(&mut harness, 4).await;
    check_nodes(&harness, 4, "after losing an instance").await;
    assert_eq!((harness.cluster.bound(), harness.cloud.launched()), (4, 6));
}

#[tokio::test]
async fn a_pod_that_waits_goes_to_a_static_node_that_is_made_in_the_same_plan() {
    let harness = Harness::new().await;
    harness.cluster.create(&NODE_POOLS, static_pool("fixed", 1));
    harness.cluster.add_pods([pod("web", 1000)]);
    let report = harness.planner().run().await.unwrap();
    assert_eq!((report.created.len(), report.placed), (1, 1), "{report:#?}");
    assert!(report.created[0].starts_with("fixed-"));
}

#[tokio::test]
async fn the_limit_on_nodes_applies_to_a_static_pool_and_is_reported() {
    let mut harness = fixed_cluster(4).await;
    harness.cluster.patch_node_pool(json!({ "spec": { "limits": { "nodes": "2" } } }));
    converge(&mut harness, 2).await;
    check_nodes(&harness, 2, "at the limit").await;
    let reported = harness.cluster.events_of("ReplicasNotReached");
    assert!(
        reported.iter().any(|event| event.object.kind == "NodePool" && event.message.contains("nodes")),
        "{reported:#?}"
    );
    // Drifted nodes at the limit cannot be replaced first: one node at a time is removed before its replacement launches.
    drift(&harness);
    harness.minutes(20).await;
    check_nodes(&harness, 2, "after drift at the limit").await;
    assert_eq!(harness.cloud.launched(), 4);
}

#[tokio::test]
async fn drifted_static_nodes_are_replaced_one_for_one_and_none_beside_them() {
    let mut harness = fixed_cluster(2).await;
    converge(&mut harness, 2).await;
    drift(&harness);
    let mut most = 0;
    for _ in 0..20 * 12 {
        harness.tick().await;
        most = most.max(harness.cloud.alive().len());
    }
    check_nodes(&harness, 2, "at the end").await;
    assert_eq!((harness.cloud.launched(), most), (4, 4), "each node has one replacement");
    for claim in harness.records().await {
        assert!(has_new_hash(&harness, &claim), "{claim:#?}");
    }
}

#[tokio::test]
async fn a_paused_static_pool_grows_and_does_not_shrink() {
    let mut harness = fixed_cluster(1).await;
    harness.cluster.annotate_node_pool(labels::PAUSE, "true");
    converge(&mut harness, 1).await;
    set_replicas(&harness, 2);
    converge(&mut harness, 2).await;
    set_replicas(&harness, 0);
    harness.minutes(3).await;
    check_nodes(&harness, 2, "while it is paused").await;
    harness.cluster.annotate_node_pool(labels::PAUSE, "false");
    converge(&mut harness, 0).await;
    check_nodes(&harness, 0, "afterwards").await;
}

#[tokio::test]
async fn a_pod_that_cannot_be_decoded_keeps_only_its_node() {
    let mut harness = fixed_cluster(1).await;
    converge(&mut harness, 1).await;
    let node = harness.cluster.nodes().into_keys().next().unwrap();
    harness.cluster.add_pods([invalid_pod("odd", Some(&node))]);
    set_replicas(&harness, 2);
    converge(&mut harness, 2).await;
    check_nodes(&harness, 2, "more").await;
    set_replicas(&harness, 0);
    converge(&mut harness, 1).await;
    harness.minutes(3).await;
    check_nodes(&harness, 1, "fewer").await;
    assert!(harness.cluster.nodes().contains_key(&node), "the pod's node stays");
}

/// A static NodePool grows, drifts and shrinks, with a pod on it.
async fn static_life(harness: &mut Harness, when: &str) {
    harness.queue_wake().await;
    converge(harness, 2).await;
    check_nodes(harness, 2, &format!("{when}: after growing")).await;
    harness.cluster.add_replica_sets([pod("web", 1000)]);
    drift(harness);
    let old: BTreeSet<String> = harness.records().await.into_iter().map(|claim| claim.name).collect();
    for _ in 0..40 {
        converge(harness, 2).await;
        let replaced = harness.records().await.iter().all(|claim| !old.contains(&claim.name));
        if replaced && harness.claims.commands().await.unwrap().is_empty() {
            break;
        }
    }
    converge(harness, 2).await;
    check_nodes(harness, 2, &format!("{when}: after drifting")).await;
    set_replicas(harness, 1);
    converge(harness, 1).await;
    check_nodes(harness, 1, &format!("{when}: after shrinking")).await;
    assert_eq!(harness.cluster.bound(), 1, "{when}: the pod does not run");
}

#[tokio::test]
async fn a_static_pool_survives_the_end_of_its_process_at_any_write() {
    let mut harness = fixed_cluster(2).await;
    harness.faults.take_writes();
    static_life(&mut harness, "undisturbed").await;
    assert_eq!(harness.cloud.launched(), 4);
    let first = harness.faults.first_writes();
    let writes = harness.faults.take_writes();
    assert!(writes > 60, "only {writes} writes: the scenario covers too little");
    for write in 0..writes {
        for done in [false, true] {
            // Before any other write it would be killed with what it has done after the write before.
            if !done && !first.contains(&write) {
                continue;
            }
            let mut harness = fixed_cluster(2).await;
            harness.faults.take_writes();
            harness.faults.kill_at(write, done);
            static_life(&mut harness, &format!("write {write}, done {done}")).await;
            assert!(harness.cloud.launched() <= 6, "write {write}, done {done}: {} launches", harness.cloud.launched());
        }
    }
}

/// A cluster with a node for each pod, where unhealthy nodes are repaired.
async fn running_cluster(pods: usize, node_repair: bool) -> Harness {
    let mut harness = Harness::new().await;
    let gates = FeatureGates { node_repair, ..FeatureGates::default() };
    harness.set(PlanSettings { gates, ..PlanSettings::default() });
    harness.cluster.add_replica_sets((0..pods).map(|number| pod(&format!("web-{number}"), 3000)));
    harness.queue_wake().await;
    harness.until("pods run", |harness| harness.cluster.bound() == pods).await;
    harness.minutes(2).await;
    harness
}

/// The kernel of a number of nodes has been unhealthy for a while.
fn sicken(harness: &Harness, nodes: usize, minutes_ago: i64) {
    let since = harness.clock.time() - SignedDuration::from_mins(minutes_ago);
    let kernel = json!({ "type": "KernelReady", "status": "False", "lastTransitionTime": since.to_string() });
    for node in harness.cluster.nodes().keys().take(nodes) {
        harness.cluster.add_condition(&NODES, node, kernel.clone());
    }
}

async fn repaired(harness: &Harness) -> Vec<NodeClaim> {
    let is = |claim: &NodeClaim| {
        claim.status.termination.as_ref().is_some_and(|end| end.reason == TerminationReason::Repaired)
    };
    harness.records().await.into_iter().filter(is).collect()
}

#[tokio::test]
async fn an_unhealthy_node_is_drained_after_its_replacement_has_joined_and_for_a_limited_time() {
    let mut harness = running_cluster(2, true).await;
    // No budget lets its pod go, until the drain ends by force.
    ["web-0", "web-1"].into_iter().for_each(|app| harness.cluster.protect(app));
    sicken(&harness, 1, 0);
    harness.minutes(28).await;
    let sick = harness.cluster.nodes().keys().next().unwrap().clone();
    let launched = harness.cloud.launched();
    harness.minutes(1).await;
    assert_eq!(harness.cloud.launched(), launched, "it may recover for half an hour");
    for _ in 0..10 {
        harness.minutes(1).await;
        if !repaired(&harness).await.is_empty() {
            break;
        }
    }
    let [claim] = &repaired(&harness).await[..] else { panic!("one") };
    assert_eq!(harness.cloud.launched(), launched + 1);
    let ready = harness.records().await.iter().filter(|claim| claim.phase == Phase::Initialized).count();
    assert_eq!(ready, 2, "the replacement has joined");
    let end = claim.status.termination.as_ref().unwrap();
    assert!(end.message.contains("KernelReady has been False since"), "{}", end.message);
    assert_eq!(end.deadline, Some(end.requested + SignedDuration::from_mins(10)));
    harness.minutes(5).await;
    assert!(harness.cluster.nodes().contains_key(&sick), "the PodDisruptionBudget protects its pod");
    converge(&mut harness, 2).await;
    check_nodes(&harness, 2, "after the repair").await;
    assert!(!harness.cluster.nodes().contains_key(&sick));
    let decisions = harness.claims.decisions(50).await.unwrap();
    assert!(decisions.iter().any(|one| one.subjects == [claim.name.clone()]), "{decisions:#?}");
}

#[tokio::test]
async fn nothing_is_repaired_while_the_gate_is_off_or_too_much_is_unhealthy() {
    // No condition is older than its node.
    let mut harness = running_cluster(2, false).await;
    sicken(&harness, 1, 60);
    harness.minutes(31).await;
    assert!(repaired(&harness).await.is_empty());

    let mut harness = running_cluster(3, true).await;
    sicken(&harness, 2, 60);
    harness.minutes(31).await;
    assert!(repaired(&harness).await.is_empty());
    let reported = harness.cluster.events_of("NodeRepairBlocked");
    for kind in ["Node", "NodeClaim", "NodePool"] {
        let on = reported.iter().find(|event| event.object.kind == kind).unwrap();
        assert!(on.message.contains("2 of 3 nodes of NodePool default are unhealthy"), "{on:?}");
    }
    // A node that cannot be decoded would be missing among all.
    harness.cluster.change_node_statuses(|status| {
        status["conditions"].as_array_mut().unwrap().retain(|condition| condition["type"] != "KernelReady");
    });
    sicken(&harness, 1, 60);
    // Kubernetes reads quantities of any length.
    let capacity = json!({ "example.com/odd": "1".repeat(60) });
    harness.cluster.create(&NODES, json!({ "metadata": { "name": "odd" }, "status": { "capacity": capacity } }));
    let report = harness.planner().run().await.unwrap();
    assert!(report.problems.iter().any(|problem| problem.contains("no node is repaired: Node odd")), "{report:#?}");
    assert!(report.proposed.is_empty());
    harness.cluster.delete(&NODES, "odd");
    let report = harness.planner().run().await.unwrap();
    assert_eq!(report.proposed.len(), 1, "{report:#?}");
}

/// A schedule that starts in this number of minutes and lasts an hour.
fn nap_in(harness: &Harness, minutes: i64) -> (String, Timestamp) {
    let start = harness.clock.time() + SignedDuration::from_mins(minutes);
    let at = start.to_zoned(jiff::tz::TimeZone::UTC);
    let whole = start - SignedDuration::from_secs(i64::from(at.second()));
    (
        format!("{} {} {} {} * for 1h", at.minute(), at.hour(), at.day(), at.month()),
        whole + SignedDuration::from_hours(1),
    )
}

#[tokio::test]
async fn a_sleeping_pool_has_no_nodes_and_comes_back() {
    let mut harness = running_cluster(2, false).await;
    harness.cluster.protect("web-0");
    let (schedule, end) = nap_in(&harness, 3);
    harness.cluster.annotate_node_pool(labels::SLEEP, &schedule);
    harness.minutes(2).await;
    check_nodes(&harness, 2, "before").await;
    let launched = harness.cloud.launched();
    harness.minutes(8).await;
    // The PodDisruptionBudget blocks one drain; the other node is terminated, and its pod has to wait.
    assert_eq!((harness.cloud.alive().len(), harness.cluster.bound()), (1, 1));
    let scheduled_off = |claim: &NodeClaim| {
        claim.status.termination.as_ref().is_some_and(|end| end.reason == TerminationReason::ScheduledOff)
    };
    assert!(harness.records().await.iter().all(scheduled_off), "{:#?}", harness.records().await);
    let report = harness.planner().run().await.unwrap();
    assert!(report.created.is_empty());
    let why = &report.unschedulable[0].1;
    assert!(why.contains(&format!("it is scheduled off until {end}")) && why.contains("nodeless.sh/sleep"), "{why}");
    assert!(report.problems.is_empty(), "sleep is no fault: {:?}", report.problems);
    harness.cluster.end_protection();
    harness.minutes(10).await;
    assert_eq!((harness.cloud.alive().len(), harness.cluster.bound()), (0, 0));
    assert_eq!(harness.cloud.launched(), launched, "nothing is launched for pods while it is scheduled off");
    let status = harness.cluster.node_pool_status("default");
    let ready = status.conditions.iter().find(|condition| condition.type_ == "Ready").unwrap();
    assert_eq!(ready.status, nodeless_api::ConditionStatus::True, "a NodePool that is scheduled off is Ready");
    harness.minutes(50).await;
    assert_eq!((harness.cloud.alive().len(), harness.cluster.bound()), (2, 2), "in the morning");
}

#[tokio::test]
async fn a_static_pool_sleeps_too() {
    let mut harness = fixed_cluster(2).await;
    converge(&mut harness, 2).await;
    let (schedule, _) = nap_in(&harness, 2);
    harness.cluster.annotate_node_pool(labels::SLEEP, &schedule);
    harness.minutes(12).await;
    check_nodes(&harness, 0, "scheduled off").await;
    harness.minutes(60).await;
    check_nodes(&harness, 2, "awake").await;
}
