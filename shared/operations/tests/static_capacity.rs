//! Fixed numbers of nodes, times of sleep and repair: what is done about nodes whatever their pods need.
#![allow(clippy::unwrap_used)]

mod common;

use common::{Town, node_pool, pod};
use jiff::{SignedDuration, Timestamp};
use nodeless_disruption::{pause, schedules};
use nodeless_model::claim::TerminationReason;
use nodeless_model::node::NodeCondition;
use nodeless_model::object::ObjectEvent;
use nodeless_model::{NodeClaim, NodePool, Phase, Quantity, ResourceList, Taint, labels};
use nodeless_operations::gates::FeatureGates;
use nodeless_operations::plan::PlanSettings;
use nodeless_ports::{Decisions, Plans};
use std::collections::{BTreeMap, BTreeSet};

/// A town whose only NodePool keeps so many nodes.
async fn fixed_town(replicas: i64) -> Town {
    let town = Town::new().await;
    town.cluster.lock().respawn = true;
    change(&town, |pool| {
        pool.replicas = Some(replicas);
        pool.limits = ResourceList::new();
    });
    town
}

fn change(town: &Town, change: impl FnOnce(&mut NodePool)) {
    change(&mut town.cluster.lock().pools[0]);
}

fn annotate(town: &Town, key: &str, value: &str) {
    change(town, |pool| drop(pool.disruption.annotations.insert(key.into(), value.into())));
}

fn events(town: &Town, reason: &str) -> Vec<ObjectEvent> {
    town.cluster.lock().events.iter().filter(|event| event.reason == reason).cloned().collect()
}

/// Goes on until there are so many nodes at rest, or twenty minutes have passed.
async fn settle(town: &mut Town, nodes: usize) {
    for _ in 0..20 {
        town.minutes(1).await;
        let records = town.records().await;
        let ready = records.iter().all(|claim| claim.phase == Phase::Initialized);
        if ready && records.len() == nodes && town.cloud.alive().len() == nodes {
            break;
        }
    }
    town.minutes(1).await;
}

/// What holds in a quiescent cluster: so many claims and instances, one of the other, and no claim ever had two.
async fn check(town: &Town, nodes: usize, when: &str) {
    let records = town.records().await;
    assert_eq!((records.len(), town.cloud.alive().len()), (nodes, nodes), "{when}: {records:#?}");
    assert!(records.iter().all(|claim| claim.phase == Phase::Initialized), "{when}: {records:#?}");
    assert!(town.claims.commands().await.unwrap().is_empty(), "{when}: a command never ended");
    let mut instances: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (claim, instance) in &town.history {
        instances.entry(claim).or_default().insert(instance);
    }
    assert!(instances.values().all(|ids| ids.len() == 1), "{when}: a claim had two instances: {instances:?}");
    let state = town.cluster.lock();
    assert_eq!((state.nodes.len(), state.mirrors.len()), (nodes, nodes), "{when}");
    assert!(state.nodes.values().all(|node| !node.has_taint(&Taint::disrupted())), "{when}: a taint is left");
}

#[tokio::test]
async fn a_static_pool_has_just_as_many_nodes_as_it_should() {
    let mut town = fixed_town(3).await;
    settle(&mut town, 3).await;
    check(&town, 3, "without any pod").await;
    assert_eq!(town.cloud.launched(), 3);
    assert_eq!(town.cluster.lock().pool_statuses["default"].nodes, 3);
    let decisions = town.claims.decisions(10).await.unwrap();
    assert!(decisions.iter().any(|one| one.kind == "static-capacity" && one.subjects.len() == 3), "{decisions:#?}");

    // Pods use the nodes, and a static NodePool launches none for those that cannot be placed.
    town.cluster.add_pods((0..4).map(|number| pod(&format!("web-{number}"), 3000)));
    town.queue_wake().await;
    town.minutes(3).await;
    assert_eq!((town.cluster.bound(), town.cloud.launched()), (3, 3));
    let report = town.planner().run().await.unwrap();
    assert!(report.unschedulable[0].1.contains("fixed number of replicas"), "{:?}", report.unschedulable);

    // More replicas: the pod that waits gets the room. Fewer: the empty node goes first.
    change(&town, |pool| pool.replicas = Some(5));
    settle(&mut town, 5).await;
    check(&town, 5, "after growing").await;
    assert_eq!(town.cluster.bound(), 4);
    let busy: BTreeSet<String> = town.cluster.lock().pods.values().filter_map(|pod| pod.node_name.clone()).collect();
    change(&town, |pool| pool.replicas = Some(4));
    settle(&mut town, 4).await;
    check(&town, 4, "after shrinking").await;
    assert_eq!(town.cluster.lock().nodes.keys().cloned().collect::<BTreeSet<_>>(), busy);
    let reported = events(&town, "DisruptionTerminating");
    assert!(reported.iter().any(|event| event.message.contains("has more nodes than its replicas")), "{reported:#?}");

    // An instance that goes is replaced.
    let lost = town.cloud.alive()[0].id.clone();
    town.cloud.set_state(&lost, nodeless_model::InstanceState::Terminated);
    settle(&mut town, 4).await;
    check(&town, 4, "after losing an instance").await;
    assert_eq!((town.cluster.bound(), town.cloud.launched()), (4, 6));
}

#[tokio::test]
async fn a_pod_that_waits_goes_to_a_static_node_that_is_made_in_the_same_plan() {
    let town = Town::new().await;
    town.cluster.lock().pools.push(NodePool { replicas: Some(1), ..node_pool("fixed") });
    town.cluster.add_pods([pod("web", 1000)]);
    let report = town.planner().run().await.unwrap();
    assert_eq!((report.created.len(), report.placed), (1, 1), "{report:#?}");
    assert!(report.created[0].starts_with("fixed-"));
}

#[tokio::test]
async fn the_limit_on_nodes_holds_for_a_static_pool_and_is_told() {
    let mut town = fixed_town(4).await;
    change(&town, |pool| pool.limits = ResourceList::from([("nodes", Quantity::from_units(2))]));
    settle(&mut town, 2).await;
    check(&town, 2, "at the limit").await;
    let reported = events(&town, "ReplicasNotReached");
    assert!(
        reported.iter().any(|event| event.object.kind == "NodePool" && event.message.contains("nodes")),
        "{reported:#?}"
    );
    // What drifts at the limit cannot be replaced first: it leaves, one node at a time, before its replacement comes.
    change(&town, |pool| pool.hash = "changed".into());
    town.minutes(20).await;
    check(&town, 2, "after drift at the limit").await;
    assert_eq!(town.cloud.launched(), 4);
}

#[tokio::test]
async fn drifted_static_nodes_are_replaced_one_for_one_and_none_beside_them() {
    let mut town = fixed_town(2).await;
    settle(&mut town, 2).await;
    change(&town, |pool| pool.hash = "changed".into());
    let mut most = 0;
    for _ in 0..20 * 12 {
        town.tick().await;
        most = most.max(town.cloud.alive().len());
    }
    check(&town, 2, "at the end").await;
    assert_eq!((town.cloud.launched(), most), (4, 4), "each node has one replacement");
    for claim in town.records().await {
        assert_eq!(claim.spec.annotations[labels::NODE_POOL_HASH], "changed");
    }
}

#[tokio::test]
async fn a_paused_static_pool_grows_and_does_not_shrink() {
    let mut town = fixed_town(1).await;
    annotate(&town, pause::PAUSE, "true");
    settle(&mut town, 1).await;
    change(&town, |pool| pool.replicas = Some(2));
    settle(&mut town, 2).await;
    change(&town, |pool| pool.replicas = Some(0));
    town.minutes(3).await;
    check(&town, 2, "while it is paused").await;
    annotate(&town, pause::PAUSE, "false");
    settle(&mut town, 0).await;
    check(&town, 0, "afterwards").await;
}

#[tokio::test]
async fn a_pod_that_cannot_be_understood_holds_back_fewer_nodes_and_not_more() {
    let mut town = fixed_town(1).await;
    settle(&mut town, 1).await;
    let odd = |kind: &str| nodeless_ports::cluster::InvalidObject {
        kind: kind.into(),
        name: "odd".into(),
        message: "spec is missing".into(),
    };
    town.cluster.lock().invalid = vec![odd("Pod")];
    change(&town, |pool| pool.replicas = Some(2));
    settle(&mut town, 2).await;
    check(&town, 2, "more").await;
    change(&town, |pool| pool.replicas = Some(0));
    town.minutes(3).await;
    check(&town, 2, "fewer").await;
}

/// A static NodePool grows, drifts and shrinks, with a pod on it.
async fn static_life(town: &mut Town, when: &str) {
    town.queue_wake().await;
    settle(town, 2).await;
    check(town, 2, &format!("{when}: after growing")).await;
    town.cluster.add_pods([pod("web", 1000)]);
    change(town, |pool| pool.hash = "changed".into());
    let old: BTreeSet<String> = town.records().await.into_iter().map(|claim| claim.name).collect();
    for _ in 0..40 {
        settle(town, 2).await;
        let replaced = town.records().await.iter().all(|claim| !old.contains(&claim.name));
        if replaced && town.claims.commands().await.unwrap().is_empty() {
            break;
        }
    }
    settle(town, 2).await;
    check(town, 2, &format!("{when}: after drifting")).await;
    change(town, |pool| pool.replicas = Some(1));
    settle(town, 1).await;
    check(town, 1, &format!("{when}: after shrinking")).await;
    assert_eq!(town.cluster.bound(), 1, "{when}: the pod does not run");
}

#[tokio::test]
async fn a_static_pool_survives_the_end_of_its_process_at_any_write() {
    let mut town = fixed_town(2).await;
    town.faults.take_writes();
    static_life(&mut town, "undisturbed").await;
    assert_eq!(town.cloud.launched(), 4);
    let writes = town.faults.take_writes();
    assert!(writes > 60, "only {writes} writes: the scenario has shrunk");
    for write in 0..writes {
        for done in [false, true] {
            let mut town = fixed_town(2).await;
            town.faults.take_writes();
            town.faults.kill_at(write, done);
            static_life(&mut town, &format!("write {write}, done {done}")).await;
            assert!(town.cloud.launched() <= 6, "write {write}, done {done}: {} launches", town.cloud.launched());
        }
    }
}

/// A town with a node for each pod, where unhealthy nodes are repaired.
async fn running_town(pods: usize, node_repair: bool) -> Town {
    let mut town = Town::new().await;
    let gates = FeatureGates { node_repair, ..FeatureGates::default() };
    town.set(PlanSettings { gates, ..PlanSettings::default() });
    town.cluster.lock().respawn = true;
    town.cluster.add_pods((0..pods).map(|number| pod(&format!("web-{number}"), 3000)));
    town.queue_wake().await;
    town.until("pods run", |town| town.cluster.bound() == pods).await;
    town.minutes(2).await;
    town
}

/// The kernel of so many nodes has been bad since a while ago.
fn sicken(town: &Town, nodes: usize, minutes_ago: i64) {
    let since = town.clock.time() - SignedDuration::from_mins(minutes_ago);
    for node in town.cluster.lock().nodes.values_mut().take(nodes) {
        node.conditions.push(NodeCondition { kind: "KernelReady".into(), status: Some(false), since: Some(since) });
    }
}

async fn unhealthy(town: &Town) -> Vec<NodeClaim> {
    let is = |claim: &NodeClaim| {
        claim.status.termination.as_ref().is_some_and(|end| end.reason == TerminationReason::Unhealthy)
    };
    town.records().await.into_iter().filter(is).collect()
}

#[tokio::test]
async fn a_node_that_is_unhealthy_for_too_long_is_replaced_by_force() {
    let mut town = running_town(2, true).await;
    // No budget lets its pod go, and that does not hold the repair up.
    let protected: BTreeSet<String> = town.cluster.lock().pods.keys().cloned().collect();
    town.cluster.lock().protected = protected;
    sicken(&town, 1, 28);
    let sick = town.cluster.lock().nodes.keys().next().unwrap().clone();
    town.minutes(1).await;
    assert!(unhealthy(&town).await.is_empty(), "it may recover for half an hour");
    let report = loop {
        let report = town.planner().run().await.unwrap();
        if !report.leaving.is_empty() {
            break report;
        }
        town.minutes(1).await;
    };
    assert_eq!((report.leaving.len(), report.created.len()), (1, 1), "a node for its pod comes in the same plan");
    let [claim] = &unhealthy(&town).await[..] else { panic!("one") };
    let end = claim.status.termination.as_ref().unwrap();
    assert!(end.message.contains("KernelReady has been False since"), "{}", end.message);
    assert_eq!(end.deadline, Some(end.requested), "its pods are not waited for");
    settle(&mut town, 2).await;
    check(&town, 2, "after the repair").await;
    assert!(!town.cluster.lock().nodes.contains_key(&sick));
    let decisions = town.claims.decisions(50).await.unwrap();
    assert!(decisions.iter().any(|one| one.subjects == [claim.name.clone()]), "{decisions:#?}");
}

#[tokio::test]
async fn nothing_is_repaired_while_the_gate_is_off_or_too_much_is_unhealthy() {
    let mut town = running_town(2, false).await;
    sicken(&town, 1, 60);
    town.minutes(2).await;
    assert!(unhealthy(&town).await.is_empty());

    let mut town = running_town(3, true).await;
    sicken(&town, 2, 60);
    town.minutes(2).await;
    assert!(unhealthy(&town).await.is_empty());
    let reported = events(&town, "NodeRepairBlocked");
    for kind in ["Node", "NodeClaim", "NodePool"] {
        let on = reported.iter().find(|event| event.object.kind == kind).unwrap();
        assert!(on.message.contains("2 of 3 nodes of NodePool default are unhealthy"), "{on:?}");
    }
    // A node that cannot be decoded would be missing among all.
    town.cluster.lock().nodes.values_mut().for_each(|node| node.conditions.retain(|one| one.kind == "Ready"));
    sicken(&town, 1, 60);
    town.cluster.lock().invalid = vec![nodeless_ports::cluster::InvalidObject {
        kind: "Node".into(),
        name: "odd".into(),
        message: "status is missing".into(),
    }];
    let report = town.planner().run().await.unwrap();
    assert!(report.problems.iter().any(|problem| problem.contains("no node is repaired: Node odd")), "{report:#?}");
    assert!(unhealthy(&town).await.is_empty());
    town.cluster.lock().invalid.clear();
    town.planner().run().await.unwrap();
    assert_eq!(unhealthy(&town).await.len(), 1);
}

/// A schedule that begins in so many minutes and lasts an hour.
fn nap_in(town: &Town, minutes: i64) -> (String, Timestamp) {
    let start = town.clock.time() + SignedDuration::from_mins(minutes);
    let at = start.to_zoned(jiff::tz::TimeZone::UTC);
    let whole = start - SignedDuration::from_secs(i64::from(at.second()));
    (
        format!("{} {} {} {} * for 1h", at.minute(), at.hour(), at.day(), at.month()),
        whole + SignedDuration::from_hours(1),
    )
}

#[tokio::test]
async fn a_sleeping_pool_has_no_nodes_and_comes_back() {
    let mut town = running_town(2, false).await;
    town.cluster.lock().protected = BTreeSet::from(["default/web-0".to_owned()]);
    let (schedule, end) = nap_in(&town, 3);
    annotate(&town, schedules::SLEEP, &schedule);
    town.minutes(2).await;
    check(&town, 2, "before").await;
    let launched = town.cloud.launched();
    town.minutes(8).await;
    // The PodDisruptionBudget holds one drain up; the other node goes, and its pod has to wait.
    assert_eq!((town.cloud.alive().len(), town.cluster.bound()), (1, 1));
    let scheduled_off = |claim: &NodeClaim| {
        claim.status.termination.as_ref().is_some_and(|end| end.reason == TerminationReason::ScheduledOff)
    };
    assert!(town.records().await.iter().all(scheduled_off), "{:#?}", town.records().await);
    let report = town.planner().run().await.unwrap();
    assert!(report.created.is_empty());
    let why = &report.unschedulable[0].1;
    assert!(why.contains(&format!("it sleeps until {end}")) && why.contains("nodeless.sh/sleep"), "{why}");
    assert!(report.problems.is_empty(), "sleep is no fault: {:?}", report.problems);
    town.cluster.lock().protected.clear();
    town.minutes(10).await;
    assert_eq!((town.cloud.alive().len(), town.cluster.bound()), (0, 0));
    assert_eq!(town.cloud.launched(), launched, "nothing is launched for pods while it sleeps");
    let status = town.cluster.lock().pool_statuses["default"].clone();
    let ready = status.conditions.iter().find(|condition| condition.type_ == "Ready").unwrap();
    assert_eq!(ready.status, nodeless_api::ConditionStatus::True, "a NodePool that sleeps is Ready");
    town.minutes(50).await;
    assert_eq!((town.cloud.alive().len(), town.cluster.bound()), (2, 2), "in the morning");
}

#[tokio::test]
async fn a_static_pool_sleeps_too() {
    let mut town = fixed_town(2).await;
    settle(&mut town, 2).await;
    let (schedule, _) = nap_in(&town, 2);
    annotate(&town, schedules::SLEEP, &schedule);
    town.minutes(12).await;
    check(&town, 0, "scheduled off").await;
    town.minutes(60).await;
    check(&town, 2, "awake").await;
}
