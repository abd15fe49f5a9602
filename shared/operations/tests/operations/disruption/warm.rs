//! Warm nodes: stopped instances that have joined once, and are started before anything is launched.

use crate::claims::crash_points::at_every_write;
use crate::common::{Harness, drift, has_new_hash, pod, running_cluster};
use jiff::SignedDuration;
use nodeless_fake_aws::OfferingPattern;
use nodeless_fake_kubernetes::resource::NODES;
use nodeless_model::claim::{TerminationReason, condition};
use nodeless_model::labels::DOLLARS_PER_HOUR;
use nodeless_model::object::EventType;
use nodeless_model::{InstanceState, NodeClaim, Phase, labels};
use nodeless_ports::ErrorKind;
use nodeless_world::resources::{NODE_CLASSES, NODE_POOLS};
use serde_json::json;
use std::collections::BTreeSet;

pub(crate) fn keep(harness: &Harness, number: &str) {
    harness.cluster.annotate_node_pool(labels::WARM, number);
}

pub(crate) async fn stopped(harness: &Harness) -> Vec<NodeClaim> {
    harness.records().await.into_iter().filter(NodeClaim::is_stopped).collect()
}

pub(crate) fn ids(claims: &[NodeClaim]) -> BTreeSet<String> {
    claims.iter().filter_map(|claim| claim.status.instance.as_ref()).map(|instance| instance.id.clone()).collect()
}

/// The numbers of instances that run, and that are stopped.
pub(crate) fn instances(harness: &Harness) -> (usize, usize) {
    let alive = harness.cloud.alive();
    let stopped = alive.iter().filter(|instance| instance.state == InstanceState::Stopped).count();
    (harness.cloud.running().len(), stopped)
}

/// What holds at any time: no instance without a claim, and no pod on a node that is kept.
async fn check(harness: &Harness, when: &str) {
    let records = harness.records().await;
    assert!(harness.cloud.alive().len() <= records.len(), "{when}: {records:#?}");
    let kept: BTreeSet<&str> =
        records.iter().filter(|claim| claim.is_warm()).filter_map(|claim| claim.status.node_name.as_deref()).collect();
    for (name, pod) in harness.cluster.pods() {
        assert!(!pod.node_name.as_deref().is_some_and(|node| kept.contains(node)), "{when}: {name} is on a warm node");
    }
}

/// Whether there are so many nodes with so many pods, so many stopped instances, and nothing else.
async fn is_quiescent(harness: &Harness, nodes: usize, kept: usize, pods: usize) -> bool {
    let records = harness.records().await;
    let is_done = |claim: &NodeClaim| claim.is_stopped() || claim.phase == Phase::Initialized;
    records.len() == nodes + kept
        && records.iter().all(is_done)
        && instances(harness) == (nodes, kept)
        && harness.cluster.nodes().len() == nodes
        && harness.cluster.bound() == pods
}

/// Ticks until the cluster is quiescent with these counts of nodes, kept instances and pods, at most twenty minutes, and a minute more.
pub(crate) async fn converge(harness: &mut Harness, counts: (usize, usize, usize), when: &str) {
    let (nodes, kept, pods) = counts;
    for _ in 0..240 {
        harness.tick().await;
        check(harness, when).await;
        if is_quiescent(harness, nodes, kept, pods).await {
            break;
        }
    }
    harness.minutes(1).await;
    check(harness, when).await;
    let records = harness.records().await;
    assert!(is_quiescent(harness, nodes, kept, pods).await, "{when}: {:?} {records:#?}", instances(harness));
    let usage = harness.claims.usage().await.unwrap().remove("default").unwrap_or_default();
    let counted = usize::try_from(usage.resources.get("nodes").units()).unwrap();
    assert_eq!(counted, nodes, "{when}: stopped instances count against no limit");
    for claim in records.iter().filter(|claim| claim.is_stopped()) {
        assert!(!claim.has_condition(condition::REGISTERED) && claim.status.node_name.is_none(), "{when}: {claim:#?}");
    }
}

pub(crate) fn add(harness: &Harness, name: &str) {
    harness.cluster.add_replica_sets([pod(name, 3000)]);
}

pub(crate) fn calls(harness: &Harness, api: &str) -> u64 {
    harness.cloud.ec2.call_counts().get(&format!("ec2:{api}")).copied().unwrap_or(0)
}

#[tokio::test]
async fn a_scale_up_starts_the_stopped_instances_first_and_the_next_plan_replaces_them() {
    let mut harness = running_cluster(1).await;
    converge(&mut harness, (1, 0, 1), "without the annotation").await;
    let costs = |harness: &Harness| {
        let resources = harness.cluster.node_pool_status("default").resources;
        resources.get(DOLLARS_PER_HOUR).cloned()
    };
    let before = costs(&harness);
    keep(&harness, "2");
    converge(&mut harness, (1, 2, 1), "two are kept").await;
    assert!(before.is_some() && costs(&harness) == before, "a stopped instance costs its volumes only");
    let names: BTreeSet<String> = stopped(&harness).await.into_iter().map(|claim| claim.name).collect();
    let warnings = harness.cluster.events().into_iter().filter(|event| event.event_type == EventType::Warning);
    let about: Vec<_> = warnings.filter(|event| names.contains(&event.object.name)).collect();
    assert!(about.is_empty(), "{about:#?}");
    assert_eq!((harness.cloud.launched(), calls(&harness, "StopInstances")), (3, 1), "one call for both");
    let kept = ids(&stopped(&harness).await);
    let running = harness.records().await.into_iter().find(|claim| !claim.is_stopped()).unwrap();
    let kind = |claim: &NodeClaim| claim.status.instance.as_ref().unwrap().instance_type.clone();
    assert!(stopped(&harness).await.iter().all(|claim| kind(claim) == kind(&running)), "the type of its nodes");

    add(&harness, "more-0");
    add(&harness, "more-1");
    harness.queue_wake().await;
    let report = harness.planner().run().await.unwrap();
    let taken = harness.records().await.into_iter().filter(|claim| claim.phase == Phase::Starting);
    assert_eq!(ids(&taken.collect::<Vec<_>>()), kept);
    assert!(report.created.len() >= 2 && report.unschedulable.is_empty(), "{report:#?}");
    converge(&mut harness, (3, 2, 3), "both were started").await;
    let on: BTreeSet<String> = harness.cloud.running().into_iter().map(|instance| instance.id).collect();
    assert!(kept.is_subset(&on), "they run");
    assert!(kept.is_disjoint(&ids(&stopped(&harness).await)), "others are kept in their place");
    assert_eq!((harness.cloud.launched(), calls(&harness, "StartInstances")), (5, 1));
    let events = harness.cluster.events_of("Nominated");
    assert!(events.len() >= 3, "{events:#?}");
}

/// The pods of a scale-up would also fit on one larger node, which costs as much as both stopped instances.
#[tokio::test]
async fn pods_that_come_together_start_as_many_stopped_instances_as_cost_no_more_than_a_launch() {
    let mut harness = Harness::new().await;
    let requirements = json!([
        { "key": labels::CAPACITY_TYPE, "operator": "In", "values": ["on-demand"] },
        { "key": labels::INSTANCE_TYPE, "operator": "In", "values": ["m6i.large", "m6i.xlarge"] },
    ]);
    harness.cluster.patch_node_pool(json!({ "spec": { "template": { "spec": { "requirements": requirements } } } }));
    harness.cluster.add_replica_sets([pod("web", 1200)]);
    harness.queue_wake().await;
    harness.until("the pod runs", |harness| harness.cluster.bound() == 1).await;
    keep(&harness, "2");
    converge(&mut harness, (1, 2, 1), "two are kept").await;
    let kept = ids(&stopped(&harness).await);

    harness.cluster.add_replica_sets([pod("more-0", 1200), pod("more-1", 1200)]);
    harness.queue_wake().await;
    harness.planner().run().await.unwrap();
    let taken = harness.records().await.into_iter().filter(|claim| claim.phase == Phase::Starting);
    assert_eq!(ids(&taken.collect::<Vec<_>>()), kept);
    converge(&mut harness, (3, 2, 3), "both were started").await;

    // A pod that needs a larger node, and no stopped instance for it.
    harness.cluster.add_replica_sets([pod("large", 3000)]);
    harness.queue_wake().await;
    converge(&mut harness, (4, 2, 4), "one was launched").await;
    assert_eq!(calls(&harness, "StartInstances"), 1);
}

#[tokio::test]
async fn no_stopped_instance_is_started_from_a_view_that_is_not_current() {
    let mut harness = running_cluster(1).await;
    keep(&harness, "1");
    converge(&mut harness, (1, 1, 1), "one is kept").await;
    add(&harness, "more-0");
    harness.faults.fail("cluster confirm view", ErrorKind::Conflict);
    harness.planner().run().await.unwrap();
    assert_eq!(stopped(&harness).await.len(), 1, "nothing was decided");
    harness.faults.end_outages();
    converge(&mut harness, (2, 1, 2), "the next plans decide").await;
    assert_eq!(calls(&harness, "StartInstances"), 1);
}

#[tokio::test]
async fn surplus_and_drifted_ones_are_terminated_except_during_a_pause() {
    let mut harness = running_cluster(1).await;
    keep(&harness, "2");
    converge(&mut harness, (1, 2, 1), "two").await;
    keep(&harness, "many");
    harness.minutes(3).await;
    assert!(is_quiescent(&harness, 1, 2, 1).await, "an invalid number changes nothing");
    let reported = harness.cluster.events();
    assert!(reported.iter().any(|event| event.message.contains("a number from 0 to 100")), "{reported:#?}");
    harness.cluster.annotate_node_pool(labels::PAUSE, "true");
    keep(&harness, "1");
    harness.minutes(3).await;
    assert!(is_quiescent(&harness, 1, 2, 1).await, "nothing is terminated during a pause");
    harness.cluster.annotate_node_pool(labels::PAUSE, "false");
    converge(&mut harness, (1, 1, 1), "one").await;

    let old = ids(&stopped(&harness).await);
    drift(&harness);
    harness.queue_wake().await;
    harness.minutes(12).await;
    converge(&mut harness, (1, 1, 1), "drifted").await;
    let new = stopped(&harness).await;
    assert!(ids(&new).is_disjoint(&old) && new.iter().all(|claim| has_new_hash(&harness, claim)));

    keep(&harness, "0");
    converge(&mut harness, (1, 0, 1), "none").await;
}

#[tokio::test]
async fn a_node_that_is_made_ready_to_be_stopped_counts_against_the_limits() {
    let mut harness = running_cluster(1).await;
    harness.cluster.patch_node_pool(json!({ "spec": { "limits": { "cpu": "8" } } }));
    keep(&harness, "2");
    harness.minutes(2).await;
    let records = harness.records().await;
    let running = records.iter().filter(|claim| !claim.is_stopped()).count();
    assert!(running <= 2, "8 vCPUs are two nodes of four: {records:#?}");
    converge(&mut harness, (1, 2, 1), "one after the other").await;
    // Both are stopped, and only one of them may run.
    for name in ["more-0", "more-1"] {
        add(&harness, name);
    }
    harness.queue_wake().await;
    harness.minutes(4).await;
    assert_eq!((harness.cloud.running().len(), harness.cluster.bound()), (2, 2));
    check(&harness, "at the limit").await;
}

#[tokio::test]
async fn without_capacity_for_the_start_the_instance_is_kept_and_started_later() {
    let mut harness = running_cluster(1).await;
    keep(&harness, "1");
    converge(&mut harness, (1, 1, 1), "one").await;
    let kept = ids(&stopped(&harness).await);
    harness.cloud.set_capacity(Some(0));
    add(&harness, "more");
    harness.queue_wake().await;
    harness.minutes(2).await;
    assert_eq!((ids(&stopped(&harness).await), harness.cluster.bound()), (kept.clone(), 1));
    assert!(calls(&harness, "StartInstances") >= 1);
    let usage = harness.claims.usage().await.unwrap().remove("default").unwrap();
    assert_eq!(usage.resources.get("nodes").units(), 1, "its charge is released");
    harness.cloud.set_capacity(None);
    converge(&mut harness, (2, 1, 2), "EC2 has capacity again").await;
    let running: BTreeSet<String> = harness.cloud.running().into_iter().map(|instance| instance.id).collect();
    assert!(kept.is_subset(&running), "{running:?}");
}

#[tokio::test]
async fn without_capacity_for_the_start_another_node_is_launched_at_once() {
    let mut harness = warm_cluster().await;
    let kept = ids(&stopped(&harness).await);
    let instance = stopped(&harness).await.remove(0).status.instance.unwrap();
    let launched = harness.cloud.launched();
    let offering =
        OfferingPattern { instance_type: Some(instance.instance_type), zone: Some(instance.zone), capacity_type: None };
    harness.cloud.ec2.exhaust(offering);
    add(&harness, "more");
    harness.queue_wake().await;
    converge(&mut harness, (2, 1, 2), "another one").await;
    assert_eq!((ids(&stopped(&harness).await), calls(&harness, "StartInstances")), (kept, 1));
    assert_eq!(harness.cloud.launched(), launched + 1);
}

#[tokio::test]
async fn a_start_that_ec2_does_not_authorize_ends_the_claim_and_another_node_is_launched() {
    let mut harness = warm_cluster().await;
    let kept = ids(&stopped(&harness).await);
    harness.cloud.ec2.deny("StartInstances");
    add(&harness, "more");
    harness.queue_wake().await;
    converge(&mut harness, (2, 0, 2), "another one").await;
    let running: BTreeSet<String> = harness.cloud.running().into_iter().map(|instance| instance.id).collect();
    assert!(kept.is_disjoint(&running));
    assert_eq!(calls(&harness, "StartInstances"), 1);
}

#[tokio::test]
async fn stopped_instances_are_terminated_with_their_node_pool() {
    let mut harness = warm_cluster().await;
    harness.cluster.delete(&NODE_POOLS, "default");
    harness.queue_wake().await;
    harness.minutes(4).await;
    let records = harness.records().await;
    assert!(records.is_empty() && harness.cloud.alive().is_empty(), "{records:#?}");
}

/// A controller deletes the Node while its instance stops: AWS's cloud controller manager does so only for a terminated one.
#[tokio::test]
async fn a_node_that_is_deleted_while_its_instance_stops_changes_nothing() {
    let mut harness = running_cluster(1).await;
    keep(&harness, "1");
    harness.until("one stops", |harness| calls(harness, "StopInstances") == 1).await;
    let stops = |claim: &NodeClaim| claim.phase == Phase::Stopping;
    let one = harness.records().await.into_iter().find(stops).unwrap();
    let (id, name) = (one.status.instance.unwrap().id, one.status.node_name.unwrap());
    harness.cluster.delete(&NODES, &name);
    harness.queue_wake().await;
    converge(&mut harness, (1, 1, 1), "stopped").await;
    assert_eq!(ids(&stopped(&harness).await), BTreeSet::from([id]));
}

#[tokio::test]
async fn spot_nodes_instance_stores_and_windows_are_refused_with_an_event() {
    let event = |harness: &Harness| {
        let mut found = harness.cluster.events().into_iter();
        let found = found.find(|event| event.object.kind == "NodePool" && event.message.contains(labels::WARM));
        found.map(|event| event.message).unwrap_or_default()
    };
    let mut harness = running_cluster(1).await;
    let spot = json!([{ "key": labels::CAPACITY_TYPE, "operator": "In", "values": ["spot"] }]);
    harness.cluster.patch_node_pool(json!({ "spec": { "template": { "spec": { "requirements": spot } } } }));
    keep(&harness, "2");
    harness.minutes(2).await;
    let why = event(&harness);
    assert!(why.contains("a spot instance of a fleet cannot be stopped"), "{why}");
    assert_eq!(calls(&harness, "StopInstances"), 0);

    let mut harness = running_cluster(1).await;
    harness.cluster.patch(&NODE_CLASSES, "default", json!({ "spec": { "instanceStorePolicy": "RAID0" } }));
    keep(&harness, "2");
    harness.minutes(2).await;
    let why = event(&harness);
    assert!(why.contains("an instance store loses its data when the instance stops"), "{why}");
    assert_eq!(calls(&harness, "StopInstances"), 0);

    let mut harness = running_cluster(1).await;
    harness.cluster.patch(
        &NODE_CLASSES,
        "default",
        json!({ "spec": { "amiFamily": null, "amiSelectorTerms": [{ "alias": "windows2022@latest" }] } }),
    );
    keep(&harness, "2");
    harness.minutes(2).await;
    let why = event(&harness);
    assert!(why.contains("it is not known whether their nodes join again after a stop"), "{why}");
    assert_eq!(calls(&harness, "StopInstances"), 0);
}

#[tokio::test]
async fn a_script_that_does_not_run_again_is_reported() {
    let mut harness = running_cluster(1).await;
    let script = "#!/bin/bash\nmount /dev/sdf /data";
    harness.cluster.patch(&NODE_CLASSES, "default", json!({ "spec": { "userData": script } }));
    keep(&harness, "1");
    converge(&mut harness, (1, 1, 1), "one").await;
    let events = harness.cluster.events_of("ScriptNotRepeated");
    assert!(events.iter().any(|event| event.message.contains("EC2NodeClass default")), "{events:?}");
}

#[tokio::test]
async fn what_another_program_does_to_a_stopped_instance_is_undone_or_replaced() {
    let mut harness = running_cluster(1).await;
    keep(&harness, "1");
    converge(&mut harness, (1, 1, 1), "one").await;
    let one = stopped(&harness).await.remove(0);
    let id = one.status.instance.as_ref().unwrap().id.clone();
    let event = |state: &str| {
        let detail = json!({ "instance-id": id, "state": state });
        json!({ "source": "aws.ec2", "detail-type": "EC2 Instance State-change Notification", "detail": detail })
            .to_string()
    };
    for state in ["stopping", "stopped"] {
        assert_eq!(harness.interrupter().run(&event(state)).await.unwrap(), Vec::<String>::new(), "we stopped it");
    }
    harness.cloud.start(&id);
    harness.minutes(3).await;
    converge(&mut harness, (1, 1, 1), "started by hand").await;
    assert_eq!(ids(&stopped(&harness).await), BTreeSet::from([id.clone()]), "it is stopped again");
    harness.cloud.end(&id);
    harness.minutes(3).await;
    converge(&mut harness, (1, 1, 1), "terminated by hand").await;
    assert!(!ids(&stopped(&harness).await).contains(&id));
}

#[tokio::test]
async fn a_stopped_instance_expires_and_goes_with_its_node_claim() {
    let mut harness = running_cluster(1).await;
    let expire_after = |time: &str| json!({ "spec": { "template": { "spec": { "expireAfter": time } } } });
    harness.cluster.patch_node_pool(expire_after("12m"));
    keep(&harness, "1");
    converge(&mut harness, (1, 1, 1), "one").await;
    harness.cluster.patch_node_pool(expire_after("Never"));
    let (old, deadline) = (ids(&stopped(&harness).await), harness.clock.time() + SignedDuration::from_mins(20));
    while harness.clock.time() < deadline {
        harness.tick().await;
        check(&harness, "it expires").await;
    }
    converge(&mut harness, (1, 1, 1), "expired").await;
    let next = stopped(&harness).await.remove(0);
    assert!(ids(std::slice::from_ref(&next)).is_disjoint(&old));
    harness.cluster.delete_node_claim(&next.name);
    harness.minutes(3).await;
    converge(&mut harness, (1, 1, 1), "deleted").await;
    assert!(stopped(&harness).await.iter().all(|claim| claim.name != next.name));
    assert!(harness.records().await.iter().all(|claim| {
        claim.status.termination.as_ref().is_none_or(|end| end.reason != TerminationReason::Interrupted)
    }));
}

/// A cluster with a node, which keeps two warm ones from now on.
async fn make(harness: &mut Harness, when: &str) {
    keep(harness, "2");
    converge(harness, (1, 2, 1), when).await;
}

/// A cluster with a node and a warm one.
async fn warm_cluster() -> Harness {
    let mut harness = running_cluster(1).await;
    keep(&harness, "1");
    converge(&mut harness, (1, 1, 1), "before").await;
    keep(&harness, "0x");
    harness
}

/// A pod takes the warm node. No other is made, because the number is invalid.
async fn take(harness: &mut Harness, when: &str) {
    let kept = ids(&stopped(harness).await);
    add(harness, "more");
    harness.queue_wake().await;
    converge(harness, (2, 0, 2), when).await;
    let running: BTreeSet<String> = harness.cloud.running().into_iter().map(|instance| instance.id).collect();
    assert!(kept.is_subset(&running), "{when}: it was not started");
}

/// The warm node is terminated.
async fn give_up(harness: &mut Harness, when: &str) {
    keep(harness, "0");
    converge(harness, (1, 0, 1), when).await;
}

#[tokio::test]
async fn making_warm_nodes_survives_the_end_of_its_process_at_any_write() {
    at_every_write(20, 0, async || running_cluster(1).await, make).await;
}

#[tokio::test]
async fn taking_a_warm_node_survives_the_end_of_its_process_at_any_write() {
    at_every_write(10, 0, warm_cluster, take).await;
}

#[tokio::test]
async fn terminating_a_warm_node_survives_the_end_of_its_process_at_any_write() {
    at_every_write(6, 0, warm_cluster, give_up).await;
}
