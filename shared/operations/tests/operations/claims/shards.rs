//! Claims are reconciled by shards: one message and one read for many, and none waits for another.

use crate::common::{Harness, message, pod, running_cluster};
use async_trait::async_trait;
use jiff::Timestamp;
use nodeless_fake_kubernetes::resource::VOLUME_ATTACHMENTS;
use nodeless_lifecycle::{Settings, begin_termination};
use nodeless_model::claim::TerminationReason;
use nodeless_model::instance::{InstanceFault, LaunchOutcome};
use nodeless_model::{Instance, InstanceState, Phase, StringMap};
use nodeless_operations::{CatalogCache, EventRate};
use nodeless_ports::cloud::LaunchRequest;
use nodeless_ports::{Cloud, ErrorKind, PortError};
use nodeless_reconciler::{NominationSwitch, Reconciler};
use nodeless_state::Refusal;
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;

/// EC2 that answers CreateFleet only when it is allowed to, and never terminates one of the instances.
struct SlowCloud {
    inner: Arc<dyn Cloud>,
    answers: Arc<Semaphore>,
    kept: Option<String>,
}

#[async_trait]
impl Cloud for SlowCloud {
    async fn launch(&self, request: LaunchRequest<'_>) -> Result<LaunchOutcome, PortError> {
        self.answers.acquire().await.unwrap().forget();
        self.inner.launch(request).await
    }

    async fn dry_run(&self, request: LaunchRequest<'_>) -> Result<Option<Refusal>, PortError> {
        self.inner.dry_run(request).await
    }

    async fn instances(&self, ids: &[String]) -> Result<Vec<Instance>, PortError> {
        self.inner.instances(ids).await
    }

    async fn all_instances(&self) -> Result<Vec<Instance>, PortError> {
        self.inner.all_instances().await
    }

    async fn group_instances(&self, group: &str) -> Result<Vec<Instance>, PortError> {
        self.inner.group_instances(group).await
    }

    async fn instance_faults(&self) -> Result<Vec<InstanceFault>, PortError> {
        self.inner.instance_faults().await
    }

    async fn terminate(&self, ids: &[String]) -> Result<(), PortError> {
        if ids.iter().any(|id| Some(id) == self.kept.as_ref()) {
            return Err(PortError::new(ErrorKind::Invalid, "EC2 TerminateInstances", "it is protected"));
        }
        self.inner.terminate(ids).await
    }

    async fn stop(&self, ids: &[String]) -> Result<(), PortError> {
        self.inner.stop(ids).await
    }

    async fn start(&self, ids: &[String]) -> Result<(), PortError> {
        self.inner.start(ids).await
    }

    async fn reboot(&self, id: &str) -> Result<(), PortError> {
        self.inner.reboot(id).await
    }

    async fn tag(&self, id: &str, tags: &StringMap) -> Result<(), PortError> {
        self.inner.tag(id, tags).await
    }

    async fn delete_unused_launch_templates(
        &self,
        since: Timestamp,
        max_count: usize,
    ) -> Result<Vec<String>, PortError> {
        self.inner.delete_unused_launch_templates(since, max_count).await
    }
}

fn slow_cloud(harness: &Harness, kept: Option<String>) -> (Reconciler, Arc<Semaphore>) {
    let answers = Arc::new(Semaphore::new(0));
    let cloud = SlowCloud { inner: Arc::new(harness.cloud.port.clone()), answers: answers.clone(), kept };
    let reconciler = Reconciler {
        context: harness.context(),
        claims: harness.ports.claims.clone(),
        queue: harness.ports.queue.clone(),
        cluster: harness.ports.cluster.clone(),
        cloud: Arc::new(cloud),
        catalog: CatalogCache::default(),
        events: EventRate::default(),
        nominations: NominationSwitch::default(),
        settings: Settings::new(crate::common::CLUSTER),
        zonal_shift: false,
        min_values_strict: true,
    };
    (reconciler, answers)
}

fn later(harness: &Harness, seconds: u64) {
    harness.clock.advance_to(harness.clock.time().checked_add(Duration::from_secs(seconds)).unwrap());
}

async fn due(harness: &Harness) -> BTreeMap<String, i64> {
    let now = harness.clock.time();
    let shards = harness.claims.shards().await.unwrap();
    let all = shards.into_iter().flat_map(|shard| shard.due);
    all.map(|(name, at)| (name, at.duration_since(now).as_secs())).collect()
}

/// A cluster in which a number of nodes are launched and have not joined yet.
async fn launched_cluster(nodes: usize) -> Harness {
    let mut harness = Harness::new().await;
    harness.cluster.add_pods((0..nodes).map(|number| pod(&format!("web-{number}"), 3000)));
    harness.planner().run().await.unwrap();
    for message in harness.queue.take_shards() {
        harness.process(async |harness| harness.reconciler().run_shard(message).await.unwrap()).await;
    }
    assert_eq!(harness.cloud.launched(), nodes);
    harness
}

#[tokio::test]
async fn nodes_that_join_are_read_once_and_have_one_message() {
    let mut calls: Vec<BTreeMap<&str, u64>> = Vec::new();
    for nodes in [3, 20] {
        let harness = launched_cluster(nodes).await;
        let waiting = due(&harness).await;
        assert_eq!(waiting.len(), nodes, "the members of the launch group follow their first claim");
        assert!(waiting.values().all(|seconds| (0..=1).contains(seconds)), "{waiting:?}");
        harness.cloud.boot();
        harness.cluster.converge();
        later(&harness, 1);
        drop(harness.faults.take_calls());
        let sent: Vec<u32> = harness.queue.take_shards().into_iter().map(|message| message.shard).collect();
        assert_eq!((sent.as_slice(), harness.queue.waiting()), (&[0][..], 0), "one message");
        let done = harness.reconciler().run_shard(message(0)).await.unwrap();
        assert_eq!(done.len(), nodes);
        assert!(done.iter().all(|one| one.phase == Some(Phase::Initialized)), "{done:?}");
        calls.push(harness.faults.take_calls());
        assert!(harness.queue.waiting() <= 1);
    }
    let once = |calls: &BTreeMap<&'static str, u64>| -> BTreeMap<&'static str, u64> {
        let each = ["cluster patch node", "cluster mirror claim", "cluster nominate", "claims update", "cloud tag"];
        let mut shared = calls.clone();
        // Only the first four launch results, from which a NodePool's health is computed, are written.
        shared.retain(|operation, _| !each.contains(operation) && *operation != "claims put registrations");
        shared
    };
    assert_eq!(once(&calls[0]), once(&calls[1]), "all but the writes of each claim is done once");
    // The nodes are ready when they join: one write of each kind for each, and one of the node's name before. A NodeClaim object takes two, one
    // of them of its status. Each has one pod, which is nominated before the node opens.
    assert_eq!(calls[1]["claims update"], 40, "{:?}", calls[1]);
    for operation in ["cluster patch node", "cluster mirror claim", "cluster nominate", "cloud tag"] {
        assert_eq!(calls[1][operation], 20, "{operation}: {:?}", calls[1]);
    }
}

/// All claims of a cluster of empty nodes are deleted.
async fn draining_cluster(nodes: usize) -> Harness {
    let harness = running_cluster(nodes).await;
    harness.cluster.remove_all_pods();
    harness.cluster.converge();
    for mut claim in harness.records().await {
        begin_termination(&mut claim, TerminationReason::Deleted, "by hand", harness.clock.time());
        harness.claims.update(&claim, None).await.unwrap();
        harness.wake_claim(&claim.name).await;
    }
    drop(harness.faults.take_calls());
    harness
}

/// Reconciles the first shard, and returns how many claims were due and the calls.
async fn reconciled(harness: &Harness) -> (usize, BTreeMap<&'static str, u64>) {
    drop(harness.faults.take_calls());
    harness.queue.clear();
    let done = harness.reconciler().run_shard(message(0)).await.unwrap();
    assert!(done.iter().all(|one| one.waits_for.is_empty()), "{done:?}");
    (done.len(), harness.faults.take_calls())
}

/// A clock does not stand at a whole millisecond, whereas claims are due at one.
#[tokio::test]
async fn a_drain_that_begins_within_a_millisecond_is_looked_at_twice() {
    let harness = draining_cluster(1).await;
    harness.clock.advance_to(harness.clock.time().checked_add(Duration::from_nanos(456_789)).unwrap());
    let mut looks = 0;
    for _ in 0..10 {
        let _woken = harness.queue.take_plan();
        harness.clock.advance_to(harness.queue.next_due().unwrap());
        for message in harness.queue.take_shards() {
            looks += harness.reconciler().run_shard(message).await.unwrap().len();
        }
        if harness.records().await[0].phase == Phase::Terminating {
            break;
        }
    }
    assert_eq!(looks, 2);
}

#[tokio::test]
async fn empty_nodes_drain_in_two_looks_that_read_everything_once() {
    let mut calls: Vec<[BTreeMap<&str, u64>; 2]> = Vec::new();
    for nodes in [3, 20] {
        let harness = draining_cluster(nodes).await;
        let (begun, first) = reconciled(&harness).await;
        assert_eq!(begun, nodes);
        let waiting = due(&harness).await;
        assert!(waiting.len() == nodes && waiting.values().all(|seconds| *seconds == 5), "not earlier: {waiting:?}");
        later(&harness, 5);
        let (ended, second) = reconciled(&harness).await;
        assert_eq!(ended, nodes);
        let phases: Vec<Phase> = harness.records().await.into_iter().map(|claim| claim.phase).collect();
        assert!(phases.iter().all(|phase| *phase == Phase::Terminating), "{phases:?}");
        for look in [&first, &second] {
            assert_eq!(look["cluster pods on each"], 1, "the pods of all nodes together: {look:?}");
        }
        assert!(!first.contains_key("cluster volume attachments"), "no drain may end yet: {first:?}");
        assert_eq!(second["cluster volume attachments"], 1, "{second:?}");
        calls.push([first, second]);
    }
    let shared = |calls: &BTreeMap<&'static str, u64>| {
        let each = ["cluster patch node", "cluster delete node", "cluster mirror claim", "claims update"];
        let mut shared = calls.clone();
        shared.retain(|operation, _| !each.contains(operation));
        shared
    };
    for look in [0, 1] {
        assert_eq!(shared(&calls[0][look]), shared(&calls[1][look]), "look {look}");
    }
}

#[tokio::test]
async fn a_node_waits_for_its_volumes_and_no_other_does() {
    let harness = draining_cluster(3).await;
    let nodes: Vec<String> = harness.cluster.nodes().into_keys().collect();
    let attachment = |name: &str, node: &str| {
        json!({
            "apiVersion": "storage.k8s.io/v1", "kind": "VolumeAttachment", "metadata": { "name": name },
            "spec": { "attacher": "ebs.csi.aws.com", "nodeName": node, "source": { "persistentVolumeName": name } },
        })
    };
    harness.cluster.create(&VOLUME_ATTACHMENTS, attachment("pv-1", &nodes[0]));
    harness.cluster.create(&VOLUME_ATTACHMENTS, attachment("pv-2", "another"));
    reconciled(&harness).await;
    later(&harness, 5);
    reconciled(&harness).await;
    let draining = async |harness: &Harness| -> Vec<String> {
        let records = harness.records().await.into_iter().filter(|claim| claim.phase == Phase::Draining);
        records.filter_map(|claim| claim.status.node_name).collect()
    };
    assert_eq!(draining(&harness).await, [nodes[0].as_str()]);
    harness.cluster.delete(&VOLUME_ATTACHMENTS, "pv-1");
    later(&harness, 1);
    let (looked, calls) = reconciled(&harness).await;
    assert_eq!((looked, calls["cluster volume attachments"]), (1, 1));
    assert_eq!(draining(&harness).await, Vec::<String>::new());
}

#[tokio::test]
async fn a_message_that_comes_twice_reads_the_shard_and_does_nothing() {
    let harness = launched_cluster(2).await;
    later(&harness, 1);
    assert_eq!(harness.reconciler().run_shard(message(0)).await.unwrap().len(), 2);
    drop(harness.faults.take_calls());
    assert_eq!(harness.reconciler().run_shard(message(0)).await.unwrap(), []);
    assert_eq!(harness.reconciler().run_shard(message(7)).await.unwrap(), [], "a shard that was never written");
    // The Namespace names the table that serves the cluster.
    let read = BTreeMap::from([("claims shard", 2), ("cluster system namespace", 2)]);
    assert_eq!(harness.faults.take_calls(), read);
}

#[tokio::test]
async fn a_launch_without_an_answer_holds_up_no_other_claim() {
    let harness = launched_cluster(2).await;
    let launched: Vec<String> = due(&harness).await.into_keys().collect();
    harness.cluster.add_pods([pod("late", 1000)]);
    harness.planner().run().await.unwrap();
    harness.cloud.boot();
    harness.cluster.converge();
    later(&harness, 1);
    let (slow, answers) = slow_cloud(&harness, None);
    let running = tokio::spawn(async move { slow.run_shard(message(0)).await });
    // Everything that can be done is done, and then time passes.
    for _ in 0..200 {
        tokio::task::yield_now().await;
    }
    later(&harness, 2);
    for _ in 0..200 {
        tokio::task::yield_now().await;
    }
    let claims = harness.claims_named(&launched).await;
    assert!(claims.iter().all(|claim| claim.phase >= Phase::Registered), "{claims:?}");
    let waiting = due(&harness).await;
    assert!(launched.iter().all(|name| waiting.get(name).is_none_or(|seconds| *seconds <= 2)), "{waiting:?}");
    assert_eq!(waiting.values().filter(|seconds| **seconds > 30).count(), 1, "the launch is not done: {waiting:?}");
    answers.add_permits(1);
    assert_eq!(running.await.unwrap().unwrap().len(), 3);
    assert!(due(&harness).await.values().all(|seconds| *seconds <= 3));
}

#[tokio::test]
async fn a_claim_whose_steps_do_not_end_is_tried_again() {
    let harness = Harness::new().await;
    harness.cluster.add_pods([pod("web", 1000)]);
    harness.planner().run().await.unwrap();
    let (slow, _answers) = slow_cloud(&harness, None);
    let running = tokio::spawn(async move { slow.run_shard(message(0)).await });
    for _ in 0..30 {
        for _ in 0..50 {
            tokio::task::yield_now().await;
        }
        later(&harness, 2);
    }
    let done = running.await.unwrap().unwrap();
    assert!(done[0].waits_for[0].contains("more than 55 s"), "{done:?}");
    assert!(due(&harness).await.values().all(|seconds| *seconds <= 10));
}

/// A cluster of nodes that are drained, and whose instances have to be terminated.
async fn terminating_cluster(nodes: usize) -> Harness {
    let harness = running_cluster(nodes).await;
    for mut claim in harness.records().await {
        begin_termination(&mut claim, TerminationReason::Deleted, "by a user", harness.clock.time());
        claim.phase = Phase::Terminating;
        harness.claims.update(&claim, None).await.unwrap();
        harness.wake_claim(&claim.name).await;
    }
    harness
}

#[tokio::test]
async fn instances_whose_termination_is_throttled_are_terminated_later_by_one_call() {
    let harness = terminating_cluster(4).await;
    let calls = |harness: &Harness| harness.cloud.ec2.call_counts().get("ec2:TerminateInstances").copied().unwrap_or(0);
    harness.cloud.ec2.throttle("TerminateInstances", 1);
    let done = harness.reconciler().run_shard(message(0)).await.unwrap();
    assert!(done.iter().all(|one| one.waits_for[0].contains("throttled")), "{done:?}");
    assert_eq!((calls(&harness), harness.cloud.running().len()), (1, 4), "no call for each of them");
    later(&harness, 10);
    harness.reconciler().run_shard(message(0)).await.unwrap();
    assert_eq!((calls(&harness), harness.cloud.running().len()), (2, 0));
}

#[tokio::test]
async fn instances_are_terminated_together_and_one_that_is_not_holds_up_no_other() {
    let harness = terminating_cluster(4).await;
    let kept = harness.cloud.alive()[0].id.clone();
    let (reconciler, _) = slow_cloud(&harness, Some(kept.clone()));
    let done = reconciler.run_shard(message(0)).await.unwrap();
    let states =
        |harness: &Harness| harness.cloud.alive().into_iter().map(|it| (it.id, it.state)).collect::<BTreeMap<_, _>>();
    let alive = states(&harness);
    assert!(alive.iter().all(|(id, state)| (*id == kept) == (*state == InstanceState::Running)), "{alive:?}");
    assert_eq!(done.iter().filter(|one| !one.waits_for.is_empty()).count(), 1, "{done:?}");
    later(&harness, 20);
    drop(harness.faults.take_calls());
    harness.reconciler().run_shard(message(0)).await.unwrap();
    assert_eq!(harness.faults.take_calls()["cloud instances"], 1, "all of them are read by one call");
}

#[tokio::test]
async fn the_sweep_finds_claims_of_a_process_that_ended_and_claims_that_no_shard_has() {
    let mut harness = launched_cluster(3).await;
    later(&harness, 1);
    // The process ends after it has taken the claims, and the message is lost.
    harness.faults.take_writes();
    harness.faults.kill_at(0, true);
    assert!(harness.process(async |harness| harness.reconciler().run_shard(message(0)).await).await.is_none());
    harness.queue.clear();
    let taken = due(&harness).await;
    assert!(taken.values().all(|seconds| (59..=60).contains(seconds)), "{taken:?}");
    later(&harness, 71);
    harness.sweeper().run().await.unwrap();
    let sent = harness.queue.take_shards();
    assert_eq!(sent.iter().map(|message| message.shard).collect::<Vec<_>>(), [0]);
    assert_eq!(harness.reconciler().run_shard(message(0)).await.unwrap().len(), 3);

    let mut shard = harness.claims.shard(0).await.unwrap().unwrap();
    shard.due.clear();
    harness.claims.put_shard(&shard).await.unwrap();
    harness.queue.clear();
    let report = harness.sweeper().run().await.unwrap();
    assert_eq!(report.requeued.len(), 3, "{report:?}");
    assert_eq!(harness.queue.waiting(), 1);
}

#[tokio::test]
async fn a_message_that_arrives_before_its_claims_are_due_is_sent_again_once() {
    let mut harness = Harness::new().await;
    harness.cluster.add_pods((0..3).map(|number| pod(&format!("web-{number}"), 3000)));
    harness.planner_ahead(Duration::from_secs(15)).run().await.unwrap();
    let sent = harness.queue.take_shards();
    assert_eq!(sent.len(), 1);
    for copy in [1, 2] {
        assert_eq!(harness.reconciler().run_shard(sent[0]).await.unwrap(), [], "by this clock they are not due");
        assert_eq!(harness.queue.waiting(), 1, "after copy {copy}");
    }
    later(&harness, 15);
    let again = harness.queue.take_shards();
    assert_eq!(again.len(), 1);
    harness.process(async |harness| harness.reconciler().run_shard(again[0]).await.unwrap()).await;
    assert_eq!(harness.cloud.launched(), 3);
    assert_eq!(harness.queue.waiting(), 1, "the one for the next steps");
}

#[tokio::test]
async fn what_cannot_be_read_is_tried_again_for_all_claims() {
    let harness = launched_cluster(2).await;
    later(&harness, 1);
    harness.faults.fail("claims get all", ErrorKind::Unavailable);
    let done = harness.reconciler().run_shard(message(0)).await.unwrap();
    assert!(done.iter().all(|one| one.waits_for.len() == 1), "{done:?}");
    let waiting = due(&harness).await;
    assert!(waiting.len() == 2 && waiting.values().all(|seconds| (9..=10).contains(seconds)), "{waiting:?}");
    harness.faults.end_outages();
    later(&harness, 10);
    assert_eq!(harness.reconciler().run_shard(message(0)).await.unwrap().len(), 2);
}
