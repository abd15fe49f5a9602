//! Claims are reconciled by shards: one message and one read for many, and none waits for another.
#![allow(clippy::unwrap_used)]

mod common;

use async_trait::async_trait;
use common::{TestCloud, Town, pod, running_town};
use jiff::Timestamp;
use nodeless_lifecycle::{Settings, begin_termination};
use nodeless_model::claim::TerminationReason;
use nodeless_model::instance::{InstanceFault, LaunchOutcome};
use nodeless_model::{Instance, InstanceState, Phase, StringMap};
use nodeless_operations::{CatalogCache, EventRate, Reconciler};
use nodeless_ports::cloud::LaunchRequest;
use nodeless_ports::queue::ClaimMessage;
use nodeless_ports::{Claims, Cloud, ErrorKind, PortError, Refusal, Shards};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;

/// EC2 that answers CreateFleet only when it is allowed to, and never terminates one of the instances.
struct Reluctant {
    inner: TestCloud,
    answers: Arc<Semaphore>,
    kept: Option<String>,
}

#[async_trait]
impl Cloud for Reluctant {
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

    async fn tag(&self, id: &str, tags: &StringMap) -> Result<(), PortError> {
        self.inner.tag(id, tags).await
    }

    async fn delete_unused_launch_templates(&self, since: Timestamp, most: usize) -> Result<Vec<String>, PortError> {
        self.inner.delete_unused_launch_templates(since, most).await
    }
}

fn reluctant(town: &Town, kept: Option<String>) -> (Reconciler, Arc<Semaphore>) {
    let answers = Arc::new(Semaphore::new(0));
    let cloud = Reluctant { inner: town.cloud.clone(), answers: answers.clone(), kept };
    let reconciler = Reconciler {
        context: town.context(),
        claims: town.ports.claims.clone(),
        queue: town.ports.queue.clone(),
        cluster: town.ports.cluster.clone(),
        cloud: Arc::new(cloud),
        catalog: CatalogCache::default(),
        events: EventRate::default(),
        settings: Settings::new(common::CLUSTER),
        zonal_shift: false,
        min_values_strict: true,
    };
    (reconciler, answers)
}

fn later(town: &Town, seconds: u64) {
    town.clock.advance_to(town.clock.time().checked_add(Duration::from_secs(seconds)).unwrap());
}

async fn due(town: &Town) -> BTreeMap<String, i64> {
    let now = town.clock.time();
    let shards = town.claims.shards().await.unwrap();
    let all = shards.into_iter().flat_map(|shard| shard.due);
    all.map(|(name, at)| (name, at.duration_since(now).as_secs())).collect()
}

/// A town in which so many nodes are launched and have not joined yet.
async fn launched_town(nodes: usize) -> Town {
    let mut town = Town::new().await;
    town.cluster.add_pods((0..nodes).map(|number| pod(&format!("web-{number}"), 3000)));
    town.planner().run().await.unwrap();
    town.process(async |town| town.reconciler().run_shard(0).await.unwrap()).await;
    assert_eq!(town.cloud.launched(), nodes);
    town
}

#[tokio::test]
async fn nodes_that_join_are_read_once_and_have_one_message() {
    let mut calls: Vec<BTreeMap<&str, u64>> = Vec::new();
    for nodes in [3, 20] {
        let town = launched_town(nodes).await;
        let waiting = due(&town).await;
        assert_eq!(waiting.len(), nodes, "the members of the launch group follow their first claim");
        assert!(waiting.values().all(|seconds| (0..=1).contains(seconds)), "{waiting:?}");
        town.cloud.boot();
        town.cluster.join(&town.cloud.running());
        later(&town, 1);
        drop(town.faults.take_calls());
        let shards = town.queue.take_shards();
        assert_eq!((shards.as_slice(), town.queue.waiting()), (&[0][..], 0), "one message");
        let done = town.reconciler().run_shard(0).await.unwrap();
        assert_eq!(done.len(), nodes);
        assert!(done.iter().all(|one| one.phase >= Some(Phase::Registered)), "{done:?}");
        calls.push(town.faults.take_calls());
        assert!(town.queue.waiting() <= 1);
    }
    let once = |calls: &BTreeMap<&'static str, u64>| -> BTreeMap<&'static str, u64> {
        let each = ["cluster patch node", "cluster mirror claim", "claims update", "cloud tag"];
        let mut shared = calls.clone();
        // Of the results that a NodePool's health is computed from, the first four are written.
        shared.retain(|operation, _| !each.contains(operation) && *operation != "claims put registrations");
        shared
    };
    assert_eq!(once(&calls[0]), once(&calls[1]), "all but the writes of each claim is done once");
    assert!(calls[1]["claims update"] <= 2 * 20, "{:?}", calls[1]);
}

#[tokio::test]
async fn a_message_that_comes_twice_reads_the_shard_and_does_nothing() {
    let town = launched_town(2).await;
    later(&town, 1);
    assert_eq!(town.reconciler().run_shard(0).await.unwrap().len(), 2);
    drop(town.faults.take_calls());
    assert_eq!(town.reconciler().run_shard(0).await.unwrap(), []);
    assert_eq!(town.reconciler().run_shard(7).await.unwrap(), [], "a shard that was never written");
    assert_eq!(town.faults.take_calls(), BTreeMap::from([("claims shard", 2)]));
}

#[tokio::test]
async fn a_launch_without_an_answer_holds_up_no_other_claim() {
    let town = launched_town(2).await;
    let launched: Vec<String> = due(&town).await.into_keys().collect();
    town.cluster.add_pods([pod("late", 1000)]);
    town.planner().run().await.unwrap();
    town.cloud.boot();
    town.cluster.join(&town.cloud.running());
    later(&town, 1);
    let (slow, answers) = reluctant(&town, None);
    let running = tokio::spawn(async move { slow.run_shard(0).await });
    // Everything that can be done is done, and then time passes.
    for _ in 0..200 {
        tokio::task::yield_now().await;
    }
    later(&town, 2);
    for _ in 0..200 {
        tokio::task::yield_now().await;
    }
    let claims = town.claims_named(&launched).await;
    assert!(claims.iter().all(|claim| claim.phase >= Phase::Registered), "{claims:?}");
    let waiting = due(&town).await;
    assert!(launched.iter().all(|name| waiting.get(name).is_none_or(|seconds| *seconds <= 2)), "{waiting:?}");
    assert_eq!(waiting.values().filter(|seconds| **seconds > 30).count(), 1, "the launch is not done: {waiting:?}");
    answers.add_permits(1);
    assert_eq!(running.await.unwrap().unwrap().len(), 3);
    assert!(due(&town).await.values().all(|seconds| *seconds <= 3));
}

#[tokio::test]
async fn a_claim_whose_steps_do_not_end_is_tried_again() {
    let town = Town::new().await;
    town.cluster.add_pods([pod("web", 1000)]);
    town.planner().run().await.unwrap();
    let (slow, _answers) = reluctant(&town, None);
    let running = tokio::spawn(async move { slow.run_shard(0).await });
    for _ in 0..30 {
        for _ in 0..50 {
            tokio::task::yield_now().await;
        }
        later(&town, 2);
    }
    let done = running.await.unwrap().unwrap();
    assert!(done[0].waits_for[0].contains("longer than 55 s"), "{done:?}");
    assert!(due(&town).await.values().all(|seconds| *seconds <= 10));
}

#[tokio::test]
async fn instances_are_terminated_together_and_one_that_is_not_holds_up_no_other() {
    let town = running_town(4).await;
    for mut claim in town.records().await {
        begin_termination(&mut claim, TerminationReason::Deleted, "by hand", town.clock.time());
        claim.phase = Phase::Terminating;
        town.claims.update(&claim, None).await.unwrap();
        town.wake_claim(&claim.name).await;
    }
    let kept = town.cloud.alive()[0].id.clone();
    let (reconciler, _) = reluctant(&town, Some(kept.clone()));
    let done = reconciler.run_shard(0).await.unwrap();
    let states = |town: &Town| town.cloud.alive().into_iter().map(|it| (it.id, it.state)).collect::<BTreeMap<_, _>>();
    let alive = states(&town);
    assert!(alive.iter().all(|(id, state)| (*id == kept) == (*state == InstanceState::Running)), "{alive:?}");
    assert_eq!(done.iter().filter(|one| !one.waits_for.is_empty()).count(), 1, "{done:?}");
    later(&town, 20);
    drop(town.faults.take_calls());
    town.reconciler().run_shard(0).await.unwrap();
    assert_eq!(town.faults.take_calls()["cloud instances"], 1, "all of them are read by one call");
}

#[tokio::test]
async fn the_sweep_finds_claims_of_a_process_that_ended_and_claims_that_no_shard_has() {
    let mut town = launched_town(3).await;
    later(&town, 1);
    // The process ends after it has taken the claims, and the message is lost.
    town.faults.take_writes();
    town.faults.kill_at(0, true);
    assert!(town.process(async |town| town.reconciler().run_shard(0).await).await.is_none());
    town.queue.clear();
    let taken = due(&town).await;
    assert!(taken.values().all(|seconds| (59..=60).contains(seconds)), "{taken:?}");
    later(&town, 71);
    town.sweeper().run().await.unwrap();
    assert_eq!(town.queue.take_shards(), [0]);
    assert_eq!(town.reconciler().run_shard(0).await.unwrap().len(), 3);

    let mut shard = town.claims.shard(0).await.unwrap().unwrap();
    shard.due.clear();
    town.claims.put_shard(&shard).await.unwrap();
    town.queue.clear();
    let report = town.sweeper().run().await.unwrap();
    assert_eq!(report.requeued.len(), 3, "{report:?}");
    assert_eq!(town.queue.take_shards(), [0]);
}

#[tokio::test]
async fn what_cannot_be_read_is_tried_again_for_all_claims() {
    let town = launched_town(2).await;
    later(&town, 1);
    town.faults.fail("claims get all", ErrorKind::Unavailable);
    let done = town.reconciler().run_shard(0).await.unwrap();
    assert!(done.iter().all(|one| one.waits_for.len() == 1), "{done:?}");
    let waiting = due(&town).await;
    assert!(waiting.len() == 2 && waiting.values().all(|seconds| (9..=10).contains(seconds)), "{waiting:?}");
    town.faults.end_outages();
    later(&town, 10);
    assert_eq!(town.reconciler().run_shard(0).await.unwrap().len(), 2);
}

#[tokio::test]
async fn a_message_about_one_claim_from_an_earlier_version_is_understood() {
    let message: ClaimMessage = serde_json::from_str(r#"{"kind":"claim","name":"default-abcde"}"#).unwrap();
    assert_eq!(message, ClaimMessage::Claim { name: "default-abcde".into() });
    let town = launched_town(1).await;
    let name = due(&town).await.into_keys().next().unwrap();
    let done = town.reconciler().run(&name).await.unwrap();
    assert_eq!((done.phase, done.requeued), (Some(Phase::Launched), Some(Duration::from_secs(2))));
    assert!(due(&town).await[&name] <= 2, "its shard continues");
}
