//! A process may be killed after any single write, or right before it. Later processes repair what it leaves.
//!
//! Each scenario runs once to count its writes, and then for each write with the process killed right after it, so that the
//! answer is lost, and for the first write of each process with the process killed right before it.

use crate::claims::standalone::node_claim;
use crate::common::{
    Harness, check_drifted_away, check_quiescent, drift, has_new_hash, is_quiescent, pod, running_cluster, watched,
};
use jiff::SignedDuration;
use nodeless_fake_kubernetes::resource::NODES;
use nodeless_model::claim::TerminationReason;
use nodeless_model::instance::{FaultKind, InstanceFault};
use nodeless_model::{NodeClaim, Quantity, labels};
use nodeless_operations::gates::FeatureGates;
use nodeless_planner::PlanSettings;
use nodeless_world::resources::NODE_CLAIMS;
use serde_json::json;
use std::collections::BTreeSet;

/// Runs a scenario once without a crash, which must write at least so often, and then once for each crash point. A crash may
/// cost `spare` launches more than are needed.
pub(crate) async fn at_every_write(
    least: u64,
    spare: usize,
    begin: impl AsyncFn() -> Harness,
    live: impl AsyncFn(&mut Harness, &str),
) {
    let mut harness = Box::pin(begin()).await;
    harness.faults.take_writes();
    Box::pin(live(&mut harness, "undisturbed")).await;
    let launches = harness.cloud.launched();
    let first = harness.faults.first_writes();
    let writes = harness.faults.take_writes();
    assert!(writes >= least, "only {writes} writes: the scenario covers too little");
    for write in 0..writes {
        for done in [false, true] {
            if !done && !first.contains(&write) {
                continue;
            }
            let when = format!("the process ends {} write {write}", if done { "after" } else { "before" });
            let mut harness = Box::pin(begin()).await;
            harness.faults.take_writes();
            harness.faults.kill_at(write, done);
            Box::pin(live(&mut harness, &when)).await;
            assert_eq!(harness.killed, 1, "{when}: it did not");
            let launched = harness.cloud.launched();
            assert!(launched <= launches + spare, "{when}: {launched} launches, and {launches} do");
        }
    }
}

/// A test for each row.
macro_rules! at_every_write {
    ($($name:ident: $least:literal writes, $spare:literal spare, $begin:expr, $live:expr;)*) => {$(
        #[tokio::test]
        async fn $name() {
            Box::pin(at_every_write($least, $spare, $begin, $live)).await;
        }
    )*};
}

at_every_write! {
    a_node_claim_of_a_user: 15 writes, 0 spare, Harness::new, create_and_delete_a_node_claim;
    an_interruption_at_a_full_limit: 25 writes, 0 spare, full_cluster, interrupt_at_the_limit;
    a_change_at_a_full_limit: 40 writes, 0 spare, full_cluster, be_drifted_at_the_limit;
    a_claim_that_leaves_takes_along_what_was_launched_for_it: 30 writes, 0 spare, Harness::new, think_again;
    a_repair: 60 writes, 1 spare, sick_cluster, be_repaired;
    a_failed_status_check: 20 writes, 0 spare, async || running_cluster(2).await, fail_a_check;
    expiry: 30 writes, 0 spare, ageing_cluster, expire;
    a_schedule: 15 writes, 0 spare, async || running_cluster(2).await, turn_off_by_schedule;
    scaling_up: 30 writes, 0 spare, Harness::new, scale_up;
    scaling_down: 15 writes, 0 spare, async || running_cluster(2).await, scale_down;
    a_deletion_by_hand: 30 writes, 0 spare, async || running_cluster(3).await, delete_by_hand;
    a_change_of_the_node_pool: 60 writes, 1 spare, async || running_cluster(2).await, be_drifted;
    consolidation_without_a_replacement: 15 writes, 0 spare, async || running_cluster(2).await, consolidate_by_removal;
    consolidation_with_a_replacement: 30 writes, 1 spare, async || running_cluster(1).await, consolidate_by_replacement;
    an_interruption: 25 writes, 0 spare, async || running_cluster(2).await, interrupt;
}

/// Ticks until a condition holds, at most forty minutes, and a few minutes more. The caller checks the result.
async fn until_quiescent(harness: &mut Harness, done: impl AsyncFn(&Harness) -> bool) {
    for _ in 0..40 {
        watched(harness, 1).await;
        if done(harness).await {
            break;
        }
    }
    watched(harness, 4).await;
}

/// An empty cluster, into which pods come.
async fn scale_up(harness: &mut Harness, when: &str) {
    harness.cluster.add_pods((0..3).map(|number| pod(&format!("web-{number}"), 3000)));
    harness.queue_wake().await;
    until_quiescent(harness, async |harness| is_quiescent(harness, 3, 3).await).await;
    check_quiescent(harness, 3, 3, when).await;
}

/// A user creates a NodeClaim without a NodePool, and deletes it once its node is ready.
async fn create_and_delete_a_node_claim(harness: &mut Harness, when: &str) {
    harness.cluster.create(&NODE_CLAIMS, node_claim("single", "1"));
    harness.queue_wake().await;
    until_quiescent(harness, async |harness| is_quiescent(harness, 1, 0).await).await;
    check_quiescent(harness, 1, 0, when).await;
    harness.cluster.delete_node_claim("single");
    harness.queue_wake().await;
    until_quiescent(harness, async |harness| is_quiescent(harness, 0, 0).await).await;
    check_quiescent(harness, 0, 0, when).await;
    assert!(harness.cluster.node_claims().is_empty(), "{when}: the object is left");
}

/// All pods are deleted, then the nodes are removed.
async fn scale_down(harness: &mut Harness, when: &str) {
    harness.cluster.remove_all_pods();
    until_quiescent(harness, async |harness| is_quiescent(harness, 0, 0).await).await;
    check_quiescent(harness, 0, 0, when).await;
}

/// A user deletes a NodeClaim, and the Node of another NodeClaim. The pods are created again, on new nodes.
async fn delete_by_hand(harness: &mut Harness, when: &str) {
    let records = harness.records().await;
    harness.cluster.delete_node_claim(&records[0].name);
    harness.cluster.delete(&NODES, records[1].status.node_name.as_ref().unwrap());
    let deleted = [&records[0].name, &records[1].name];
    until_quiescent(harness, async |harness| {
        let left = harness.records().await;
        left.iter().all(|claim| !deleted.contains(&&claim.name)) && is_quiescent(harness, 3, 3).await
    })
    .await;
    check_quiescent(harness, 3, 3, when).await;
    let left = harness.records().await;
    assert!(left.iter().all(|claim| !deleted.contains(&&claim.name)), "{when}: what was deleted is still there");
}

/// The NodePool changes, and its nodes are replaced one after the other.
async fn be_drifted(harness: &mut Harness, when: &str) {
    drift(harness);
    harness.queue_wake().await;
    until_quiescent(harness, async |harness| {
        harness.records().await.iter().all(|claim| has_new_hash(harness, claim)) && is_quiescent(harness, 2, 2).await
    })
    .await;
    check_quiescent(harness, 2, 2, when).await;
    check_drifted_away(harness, when).await;
}

/// Nodes may be consolidated, and the pods need less than before.
fn shrink(harness: &Harness, milli_cpu: i64) {
    let policy = "WhenEmptyOrUnderutilized";
    harness.cluster.patch_node_pool(json!({ "spec": { "disruption": { "consolidationPolicy": policy } } }));
    harness.cluster.replace_pods(milli_cpu);
}

/// Both pods fit on one node.
async fn consolidate_by_removal(harness: &mut Harness, when: &str) {
    shrink(harness, 1500);
    until_quiescent(harness, async |harness| is_quiescent(harness, 1, 2).await).await;
    check_quiescent(harness, 1, 2, when).await;
}

/// A cheaper node is enough for the pod.
async fn consolidate_by_replacement(harness: &mut Harness, when: &str) {
    let price =
        async |harness: &Harness| harness.records().await[0].status.instance.as_ref().map_or(0.0, |it| it.price);
    let (before, id) = (price(harness).await, harness.cloud.alive()[0].id.clone());
    shrink(harness, 500);
    until_quiescent(harness, async |harness| is_quiescent(harness, 1, 1).await && harness.cloud.alive()[0].id != id)
        .await;
    check_quiescent(harness, 1, 1, when).await;
    assert!(price(harness).await < before, "{when}: it is no cheaper");
}

/// EC2 warns of the end of one instance. A message whose handling failed comes again.
async fn warn(harness: &mut Harness) -> String {
    let id = harness.records().await.remove(0).status.instance.unwrap().id;
    let kind = "EC2 Spot Instance Interruption Warning";
    let event = format!(r#"{{"source":"aws.ec2","detail-type":"{kind}","detail":{{"instance-id":"{id}"}}}}"#);
    for _ in 0..3 {
        let handled = harness.process(async |harness| harness.interrupter().run(&event).await).await;
        if handled.is_some_and(|handled| handled.is_ok()) {
            break;
        }
    }
    id
}

/// An interrupted instance goes.
async fn interrupt(harness: &mut Harness, when: &str) {
    let id = warn(harness).await;
    let gone = |harness: &Harness| harness.cloud.alive().iter().all(|instance| instance.id != id);
    until_quiescent(harness, async |harness| gone(harness) && is_quiescent(harness, 2, 2).await).await;
    check_quiescent(harness, 2, 2, when).await;
    assert!(gone(harness), "{when}: the interrupted instance runs");
}

/// Checks that the NodePool is charged for all running instances, so that its limits hold at every moment.
async fn check_charged(harness: &Harness, when: &str) {
    let alive = i64::try_from(harness.cloud.alive().len()).unwrap();
    let usage = harness.claims.usage().await.unwrap();
    let charged = usage.get("default").map_or(Quantity::default(), |usage| usage.resources.get("nodes"));
    assert!(charged >= Quantity::from_units(alive), "{when}: {alive} instances, and {charged:?} are charged");
}

/// A NodePool that has as many nodes as its limit allows.
fn fill_the_limit(harness: &Harness, nodes: i64) {
    harness.cluster.patch_node_pool(json!({ "spec": { "limits": { "cpu": null, "nodes": nodes.to_string() } } }));
}

/// Ticks until there is rest again, and looks each time at what holds at a full limit: instances of claims that stay, or leave by
/// choice, are charged, and are never more than the limit; and what is charged is what the claims are charged, once.
async fn until_quiescent_within_the_limit(
    harness: &mut Harness,
    nodes: usize,
    when: &str,
    done: impl AsyncFn(&Harness) -> bool,
) {
    for _ in 0..480 {
        harness.tick().await;
        let records = harness.records().await;
        let counted =
            |claim: &&NodeClaim| claim.status.instance.is_some() && !nodeless_lifecycle::leaves_by_force(claim);
        let staying: BTreeSet<String> = records
            .iter()
            .filter(counted)
            .filter_map(|claim| Some(claim.status.instance.as_ref()?.id.clone()))
            .collect();
        let alive = harness.cloud.alive().into_iter().filter(|instance| staying.contains(&instance.id)).count();
        assert!(alive <= nodes, "{when}: {alive} instances that stay, and the limit is {nodes}");
        let charged: i64 = records.iter().map(|claim| claim.spec.charge.resources.get("nodes").units()).sum();
        let usage = harness.claims.usage().await.unwrap()["default"].resources.get("nodes").units();
        assert_eq!(usage, charged, "{when}: what the claims are charged");
        assert!(usage >= i64::try_from(alive).unwrap(), "{when}: {alive} instances, and {usage} are charged");
        if done(harness).await && is_quiescent(harness, nodes, nodes).await {
            break;
        }
    }
    watched(harness, 4).await;
    check_quiescent(harness, nodes, nodes, when).await;
}

/// EC2 warns of the end of one instance of a NodePool at its limit, and the pod on it takes long to go.
async fn interrupt_at_the_limit(harness: &mut Harness, when: &str) {
    let id = warn(harness).await;
    until_quiescent_within_the_limit(harness, 2, when, async |harness| {
        harness.cloud.alive().iter().all(|instance| instance.id != id)
    })
    .await;
}

/// The NodePool changes, and its limit allows no further node.
async fn be_drifted_at_the_limit(harness: &mut Harness, when: &str) {
    drift(harness);
    harness.queue_wake().await;
    until_quiescent_within_the_limit(harness, 2, when, async |harness| {
        harness.records().await.iter().all(|claim| has_new_hash(harness, claim))
    })
    .await;
    check_drifted_away(harness, when).await;
}

async fn full_cluster() -> Harness {
    let harness = running_cluster(2).await;
    fill_the_limit(&harness, 2);
    harness
}

/// Pods are added to an empty cluster. When a process is killed, or at the end, the pods are deleted, and at the same moment all
/// claims that have no instance yet are marked for termination.
async fn think_again(harness: &mut Harness, when: &str) {
    harness.cluster.add_pods((0..3).map(|number| pod(&format!("web-{number}"), 3000)));
    harness.queue_wake().await;
    let mut reported = false;
    for tick in 0..240 {
        let died = harness.tick().await;
        check_charged(harness, when).await;
        if !reported && (died || tick == 60) {
            reported = true;
            harness.cluster.remove_all_pods();
            for mut claim in harness.records().await.into_iter().filter(|claim| claim.status.instance.is_none()) {
                let now = harness.clock.time();
                nodeless_lifecycle::begin_termination(&mut claim, TerminationReason::Deleted, "by a user", now);
                harness.claims.update(&claim, None).await.unwrap();
                harness.wake_claim(&claim.name).await;
            }
        }
        if reported && is_quiescent(harness, 0, 0).await {
            break;
        }
    }
    check_quiescent(harness, 0, 0, when).await;
}

#[tokio::test]
async fn a_lost_answer_costs_no_instance_and_no_charge() {
    let scenario = async |harness: &mut Harness, when: &str| {
        harness.cluster.add_pods((0..3).map(|number| pod(&format!("web-{number}"), 3000)));
        harness.queue_wake().await;
        for _ in 0..120 {
            harness.tick().await;
            check_charged(harness, when).await;
        }
        check_quiescent(harness, 3, 3, when).await;
        assert_eq!(harness.cloud.launched(), 3, "{when}");
    };
    let mut harness = Harness::new().await;
    harness.faults.take_writes();
    scenario(&mut harness, "undisturbed").await;
    let writes = harness.faults.take_writes();
    for write in 0..writes {
        let mut harness = Harness::new().await;
        harness.faults.take_writes();
        harness.faults.lose_answer_at(write);
        scenario(&mut harness, &format!("the answer to write {write} is lost")).await;
    }
}

/// A cluster with two nodes in which unhealthy nodes are repaired, and one of which is.
async fn sick_cluster() -> Harness {
    let mut harness = running_cluster(2).await;
    let gates = FeatureGates { node_repair: true, ..FeatureGates::default() };
    harness.set(PlanSettings { gates, ..PlanSettings::default() });
    let since = harness.clock.time() - SignedDuration::from_mins(31);
    let kernel = json!({ "type": "KernelReady", "status": "False", "lastTransitionTime": since.to_string() });
    harness.cluster.add_condition(&NODES, harness.cluster.nodes().keys().next().unwrap(), kernel);
    harness
}

/// The node whose kernel is bad is replaced.
async fn be_repaired(harness: &mut Harness, when: &str) {
    let is_sick = |harness: &Harness| {
        harness.cluster.nodes().values().any(|node| node.conditions.iter().any(|one| one.kind == "KernelReady"))
    };
    until_quiescent(harness, async |harness| !is_sick(harness) && is_quiescent(harness, 2, 2).await).await;
    check_quiescent(harness, 2, 2, when).await;
    assert!(!is_sick(harness), "{when}: the sick node stayed");
}

/// The status check of one machine fails.
async fn fail_a_check(harness: &mut Harness, when: &str) {
    let id = harness.cloud.alive()[0].id.clone();
    let since = harness.clock.time() - SignedDuration::from_mins(3);
    let kind = FaultKind::CheckFailed { check: "instance", since: Some(since) };
    harness.faults.set_instance_faults(vec![InstanceFault { id: id.clone(), kind }]);
    let gone = |harness: &Harness| harness.cloud.alive().iter().all(|instance| instance.id != id);
    until_quiescent(harness, async |harness| gone(harness) && is_quiescent(harness, 2, 2).await).await;
    check_quiescent(harness, 2, 2, when).await;
    assert!(gone(harness), "{when}: the machine that fails runs");
}

/// A cluster whose nodes have seven more minutes to live; those that come live for ever.
async fn ageing_cluster() -> Harness {
    let mut harness = Harness::new().await;
    let expire_after = |time: &str| json!({ "spec": { "template": { "spec": { "expireAfter": time } } } });
    harness.cluster.patch_node_pool(expire_after("10m"));
    harness.cluster.add_replica_sets((0..2).map(|number| pod(&format!("web-{number}"), 3000)));
    harness.queue_wake().await;
    harness.until("pods run", |harness| harness.cluster.bound() == 2).await;
    harness.minutes(2).await;
    harness.cluster.patch_node_pool(expire_after("Never"));
    harness
}

/// The nodes reach their age and are replaced.
async fn expire(harness: &mut Harness, when: &str) {
    let expires = |claim: &nodeless_model::NodeClaim| claim.spec.expire_after.is_some();
    until_quiescent(harness, async |harness| {
        !harness.records().await.iter().any(expires) && is_quiescent(harness, 2, 2).await
    })
    .await;
    check_quiescent(harness, 2, 2, when).await;
    assert!(!harness.records().await.iter().any(expires), "{when}: an old node is still there");
}

/// The schedule of the NodePool turns it off in three minutes, and its nodes are removed.
async fn turn_off_by_schedule(harness: &mut Harness, when: &str) {
    let start = harness.clock.time() + SignedDuration::from_mins(3);
    let at = start.to_zoned(jiff::tz::TimeZone::UTC);
    let nap = format!("{} {} {} {} * for 3h", at.minute(), at.hour(), at.day(), at.month());
    harness.cluster.annotate_node_pool(labels::SLEEP, &nap);
    until_quiescent(harness, async |harness| is_quiescent(harness, 0, 0).await).await;
    check_quiescent(harness, 0, 0, when).await;
}
