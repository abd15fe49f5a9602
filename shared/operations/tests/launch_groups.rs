//! Launch groups whose answer is lost, empty or repeated, while EC2 lists their instances late and one after another: each
//! member gets one instance, and none that may be a member's is terminated.
#![allow(clippy::unwrap_used)]

mod common;

use async_trait::async_trait;
use common::{Answering, TestCloud, Town, pod};
use jiff::Timestamp;
use nodeless_lifecycle::{Settings, begin_termination};
use nodeless_model::claim::TerminationReason;
use nodeless_model::{Instance, NodeClaim, Phase, Requirement, StringMap, labels};
use nodeless_operations::{CatalogCache, EventRate, Reconciler};
use nodeless_ports::cloud::{InstanceFault, LaunchOutcome, LaunchRequest};
use nodeless_ports::{Capacity, Claims, Cloud, PortError, Refusal};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;

/// A town in which the planner has just written a launch group of four.
async fn group_of_four() -> (Town, Vec<String>) {
    let mut town = Town::new().await;
    let one_type = Requirement::one_of(["m6i.large"]);
    town.cluster.lock().pools[0].template.requirements.add(labels::INSTANCE_TYPE, one_type);
    town.cluster.add_pods((0..4).map(|number| pod(&format!("web-{number}"), 1500)));
    town.queue_wake().await;
    assert!(town.queue.take_plan().is_some());
    town.planner().run().await.unwrap();
    let claims = town.records().await;
    let group = claims[0].spec.launch_group.clone().unwrap();
    assert_eq!((claims.len(), group.size), (4, 4), "{claims:?}");
    assert!(claims.iter().all(|claim| claim.spec.launch_group.as_ref().unwrap().id == group.id));
    let mut names: Vec<(u32, String)> =
        claims.into_iter().map(|claim| (claim.spec.launch_group.unwrap().index, claim.name)).collect();
    names.sort();
    (town, names.into_iter().map(|(_, name)| name).collect())
}

/// The instance of each claim that has one.
async fn instances(town: &Town) -> BTreeMap<String, String> {
    let claims = town.records().await.into_iter();
    claims.filter_map(|claim| Some((claim.name, claim.status.instance?.id))).collect()
}

async fn one_each(town: &Town) {
    let instances = instances(town).await;
    let distinct: BTreeSet<&String> = instances.values().collect();
    assert_eq!((instances.len(), distinct.len()), (4, 4), "{instances:?}");
    assert_eq!((town.cloud.launched(), town.cloud.alive().len()), (4, 4), "none was terminated");
}

async fn pass(town: &mut Town, seconds: u64) {
    town.clock.advance_to(town.clock.time().checked_add(Duration::from_secs(seconds)).unwrap());
}

/// Everybody looks once.
async fn all_look(town: &mut Town, names: &[String]) {
    for name in names {
        town.reconciler().run(name).await.unwrap();
    }
    town.sweeper().run().await.unwrap();
}

#[tokio::test]
async fn after_a_lost_answer_and_other_prices_each_member_finds_an_instance() {
    for order in [[1, 2, 3, 4], [4, 3, 2, 1], [3, 1, 4, 2]] {
        let (mut town, names) = group_of_four().await;
        town.faults.take_writes();
        // The claim's own write comes first.
        town.faults.lose_answer_at(1);
        town.reconciler().run(&names[2]).await.unwrap();
        assert_eq!((town.cloud.launched(), instances(&town).await.len()), (4, 0), "the answer was lost");
        town.faults.take_writes();
        town.cloud.hide_all();
        town.cloud.answer(Answering::TokenUsed);
        pass(&mut town, 40).await;
        let mut known = BTreeMap::new();
        for number in order {
            all_look(&mut town, &names).await;
            town.cloud.show(&format!("i-{number:04}"));
            pass(&mut town, 20).await;
            all_look(&mut town, &names).await;
            let found = instances(&town).await;
            assert_eq!(found.len(), known.len() + 1, "{order:?}");
            assert!(known.iter().all(|(claim, id)| found.get(claim) == Some(id)), "no instance changed its owner");
            known = found;
        }
        one_each(&town).await;
        for _ in 0..3 {
            pass(&mut town, 60).await;
            all_look(&mut town, &names).await;
        }
        one_each(&town).await;
        assert!(town.records().await.iter().all(|claim| claim.phase == Phase::Launched));
    }
}

#[tokio::test]
async fn an_empty_answer_is_no_lack_of_capacity() {
    let (mut town, names) = group_of_four().await;
    town.cloud.answer(Answering::Empty);
    town.reconciler().run(&names[0]).await.unwrap();
    assert_eq!(town.cloud.launched(), 4);
    let claims = town.records().await;
    assert!(claims.iter().all(|claim| claim.phase == Phase::Reserved && claim.status.answer_lost.is_some()));
    assert!(town.claims.unavailable(town.clock.time()).await.unwrap().is_empty());
    all_look(&mut town, &names).await;
    one_each(&town).await;
}

#[tokio::test]
async fn where_nothing_was_launched_the_claims_end_once_ec2_would_list_something() {
    let (mut town, names) = group_of_four().await;
    town.cloud.set_capacity(Some(0));
    town.cloud.answer(Answering::Empty);
    town.reconciler().run(&names[0]).await.unwrap();
    pass(&mut town, 100).await;
    all_look(&mut town, &names).await;
    assert!(town.records().await.iter().all(|claim| claim.phase == Phase::Reserved), "EC2 may list some yet");
    pass(&mut town, 30).await;
    all_look(&mut town, &names).await;
    let ended = |claim: &NodeClaim| {
        claim.status.termination.as_ref().is_some_and(|end| end.reason == TerminationReason::InsufficientCapacity)
    };
    assert!(town.records().await.iter().all(ended));
}

#[tokio::test]
async fn a_member_that_leaves_takes_only_what_no_other_member_waits_for() {
    let (mut town, names) = group_of_four().await;
    town.cloud.answer(Answering::Empty);
    town.reconciler().run(&names[1]).await.unwrap();
    town.cloud.hide_all();
    let mut leaves = town.claims.get(&names[0]).await.unwrap().unwrap();
    begin_termination(&mut leaves, TerminationReason::Deleted, "", town.clock.time());
    town.claims.update(&leaves, None).await.unwrap();
    for number in 1..=3 {
        town.cloud.show(&format!("i-{number:04}"));
        all_look(&mut town, &names).await;
        pass(&mut town, 5).await;
    }
    let found = instances(&town).await;
    assert_eq!(found.keys().collect::<BTreeSet<_>>(), names[1..].iter().collect(), "{found:?}");
    assert_eq!(town.cloud.alive().len(), 4);
    town.cloud.show("i-0004");
    all_look(&mut town, &names).await;
    all_look(&mut town, &names).await;
    let alive: Vec<String> = town.cloud.alive().into_iter().map(|instance| instance.id).collect();
    assert_eq!(alive, ["i-0001", "i-0002", "i-0003"], "the fourth ends with the member that left");
}

/// EC2 whose list of a group is what it was when it was asked, and comes once the gate opens.
struct Slow {
    inner: TestCloud,
    asked: Arc<Semaphore>,
    gate: Arc<Semaphore>,
}

#[async_trait]
impl Cloud for Slow {
    async fn group_instances(&self, group: &str) -> Result<Vec<Instance>, PortError> {
        let listed = self.inner.group_instances(group).await;
        self.asked.add_permits(1);
        self.gate.acquire().await.unwrap().forget();
        listed
    }

    async fn launch(&self, request: LaunchRequest<'_>) -> Result<LaunchOutcome, PortError> {
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

    async fn instance_faults(&self) -> Result<Vec<InstanceFault>, PortError> {
        self.inner.instance_faults().await
    }

    async fn terminate(&self, ids: &[String]) -> Result<(), PortError> {
        self.inner.terminate(ids).await
    }

    async fn tag(&self, id: &str, tags: &StringMap) -> Result<(), PortError> {
        self.inner.tag(id, tags).await
    }

    async fn delete_unused_launch_templates(&self, since: Timestamp, most: usize) -> Result<Vec<String>, PortError> {
        self.inner.delete_unused_launch_templates(since, most).await
    }
}

#[tokio::test]
async fn two_functions_that_were_shown_different_lists_agree() {
    let (mut town, names) = group_of_four().await;
    town.cloud.answer(Answering::Empty);
    town.reconciler().run(&names[0]).await.unwrap();
    town.cloud.hide_all();
    town.cloud.show("i-0003");
    let (asked, gate) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
    let slow = Reconciler {
        context: town.context(),
        claims: town.ports.claims.clone(),
        queue: town.ports.queue.clone(),
        cluster: town.ports.cluster.clone(),
        cloud: Arc::new(Slow { inner: town.cloud.clone(), asked: asked.clone(), gate: gate.clone() }),
        catalog: CatalogCache::default(),
        events: EventRate::default(),
        settings: Settings::new(common::CLUSTER),
        zonal_shift: false,
        min_values_strict: true,
    };
    let first = names[3].clone();
    let first = tokio::spawn(async move { slow.run(&first).await });
    asked.acquire().await.unwrap().forget();
    // Meanwhile another function is shown more, gives it out, and EC2 lists the rest.
    for id in ["i-0001", "i-0002", "i-0004"] {
        town.cloud.show(id);
    }
    town.reconciler().run(&names[1]).await.unwrap();
    let found = instances(&town).await;
    gate.add_permits(100);
    first.await.unwrap().unwrap();
    assert_eq!(instances(&town).await, found, "what was given out stays where it is");
    all_look(&mut town, &names).await;
    one_each(&town).await;
}

#[tokio::test]
async fn the_answer_is_shared_out_once_although_the_process_ends_at_any_write() {
    let (town, names) = group_of_four().await;
    town.faults.take_writes();
    town.reconciler().run(&names[0]).await.unwrap();
    let writes = town.faults.take_writes();
    assert!(writes > 5, "{writes}");
    for (write, done) in (0..writes).flat_map(|write| [(write, false), (write, true)]) {
        let (mut town, names) = group_of_four().await;
        town.faults.take_writes();
        town.faults.kill_at(write, done);
        town.process(async |town| drop(town.reconciler().run(&names[0]).await)).await;
        let before = instances(&town).await;
        // Prices have changed, so the call cannot be repeated. Another member looks first.
        town.cloud.answer(Answering::TokenUsed);
        for name in names.iter().rev() {
            let _retried = town.reconciler().run(name).await;
        }
        pass(&mut town, 20).await;
        all_look(&mut town, &names).await;
        let after = instances(&town).await;
        assert!(before.iter().all(|(claim, id)| after.get(claim) == Some(id)), "at write {write}");
        one_each(&town).await;
    }
}
