//! Launch groups whose answer is lost, empty or repeated, while EC2 lists their instances late and one after another: each
//! member gets one instance, and none that may be a member's is terminated.

use crate::common::{Harness, pod};
use async_trait::async_trait;
use jiff::Timestamp;
use nodeless_lifecycle::{Settings, begin_termination};
use nodeless_model::claim::TerminationReason;
use nodeless_model::{Instance, NodeClaim, Phase, StringMap, labels};
use nodeless_operations::{CatalogCache, EventRate};
use nodeless_ports::cloud::{InstanceFault, LaunchOutcome, LaunchRequest};
use nodeless_ports::{Cloud, PortError};
use nodeless_reconciler::{NominationSwitch, Reconciler};
use nodeless_state::Refusal;
use nodeless_world::resources::NODE_CLASSES;
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;

/// A cluster in which the planner has just written a launch group of four.
async fn group_of_four() -> (Harness, Vec<String>) {
    let mut harness = Harness::new().await;
    let one_type = json!([
        { "key": labels::CAPACITY_TYPE, "operator": "In", "values": ["on-demand"] },
        { "key": labels::INSTANCE_TYPE, "operator": "In", "values": ["m6i.large"] },
    ]);
    harness.cluster.patch_node_pool(json!({ "spec": { "template": { "spec": { "requirements": one_type } } } }));
    harness.cluster.add_pods((0..4).map(|number| pod(&format!("web-{number}"), 1500)));
    harness.queue_wake().await;
    assert!(harness.queue.take_plan().is_some());
    harness.planner().run().await.unwrap();
    let claims = harness.records().await;
    let group = claims[0].spec.launch_group.clone().unwrap();
    assert_eq!((claims.len(), group.size), (4, 4), "{claims:?}");
    assert!(claims.iter().all(|claim| claim.spec.launch_group.as_ref().unwrap().id == group.id));
    let mut names: Vec<(u32, String)> =
        claims.into_iter().map(|claim| (claim.spec.launch_group.unwrap().index, claim.name)).collect();
    names.sort();
    (harness, names.into_iter().map(|(_, name)| name).collect())
}

/// The instance of each claim that has one.
async fn instances(harness: &Harness) -> BTreeMap<String, String> {
    let claims = harness.records().await.into_iter();
    claims.filter_map(|claim| Some((claim.name, claim.status.instance?.id))).collect()
}

async fn one_each(harness: &Harness) {
    let instances = instances(harness).await;
    let distinct: BTreeSet<&String> = instances.values().collect();
    assert_eq!((instances.len(), distinct.len()), (4, 4), "{instances:?}");
    assert_eq!((harness.cloud.launched(), harness.cloud.alive().len()), (4, 4), "none was terminated");
}

async fn pass(harness: &mut Harness, seconds: u64) {
    harness.clock.advance_to(harness.clock.time().checked_add(Duration::from_secs(seconds)).unwrap());
}

/// A CreateFleet call that is repeated has other parameters from now on, as after a change of prices.
fn change_the_request(harness: &Harness) {
    harness.cluster.patch(&NODE_CLASSES, "default", json!({ "spec": { "tags": { "changed": "yes" } } }));
    harness.cluster.change_status(&NODE_CLASSES, "default", |status| {
        status["conditions"][0]["observedGeneration"] = json!(2);
    });
}

/// Every claim is reconciled once, then a sweep runs.
async fn all_look(harness: &mut Harness, names: &[String]) {
    for name in names {
        harness.reconciler().run(name).await.unwrap();
    }
    harness.sweeper().run().await.unwrap();
}

#[tokio::test]
async fn after_a_lost_answer_and_other_prices_each_member_finds_an_instance() {
    for order in [[1, 2, 3, 4], [4, 3, 2, 1], [3, 1, 4, 2]] {
        let (mut harness, names) = group_of_four().await;
        harness.faults.take_writes();
        // The claim's own write comes first.
        harness.faults.lose_answer_at(1);
        harness.reconciler().run(&names[2]).await.unwrap();
        assert_eq!((harness.cloud.launched(), instances(&harness).await.len()), (4, 0), "the answer was lost");
        harness.faults.take_writes();
        harness.cloud.hide_all();
        change_the_request(&harness);
        pass(&mut harness, 40).await;
        let mut known = BTreeMap::new();
        for number in order {
            all_look(&mut harness, &names).await;
            harness.cloud.show(&harness.cloud.ids()[number - 1]);
            pass(&mut harness, 20).await;
            all_look(&mut harness, &names).await;
            let found = instances(&harness).await;
            assert_eq!(found.len(), known.len() + 1, "{order:?}");
            assert!(known.iter().all(|(claim, id)| found.get(claim) == Some(id)), "no instance changed its owner");
            known = found;
        }
        one_each(&harness).await;
        for _ in 0..3 {
            pass(&mut harness, 60).await;
            all_look(&mut harness, &names).await;
        }
        one_each(&harness).await;
        assert!(harness.records().await.iter().all(|claim| claim.phase == Phase::Launched));
    }
}

#[tokio::test]
async fn an_empty_answer_is_no_lack_of_capacity() {
    let (mut harness, names) = group_of_four().await;
    harness.faults.empty_launch_responses();
    harness.reconciler().run(&names[0]).await.unwrap();
    assert_eq!(harness.cloud.launched(), 4);
    let claims = harness.records().await;
    assert!(claims.iter().all(|claim| claim.phase == Phase::Reserved && claim.status.answer_lost.is_some()));
    assert!(harness.claims.unavailable(harness.clock.time()).await.unwrap().is_empty());
    all_look(&mut harness, &names).await;
    one_each(&harness).await;
}

#[tokio::test]
async fn where_nothing_was_launched_the_claims_end_once_ec2_would_list_something() {
    let (mut harness, names) = group_of_four().await;
    harness.cloud.set_capacity(Some(0));
    harness.faults.empty_launch_responses();
    harness.reconciler().run(&names[0]).await.unwrap();
    pass(&mut harness, 100).await;
    all_look(&mut harness, &names).await;
    assert!(harness.records().await.iter().all(|claim| claim.phase == Phase::Reserved), "EC2 may list some yet");
    pass(&mut harness, 30).await;
    all_look(&mut harness, &names).await;
    let ended = |claim: &NodeClaim| {
        claim.status.termination.as_ref().is_some_and(|end| end.reason == TerminationReason::InsufficientCapacity)
    };
    assert!(harness.records().await.iter().all(ended));
}

#[tokio::test]
async fn a_member_that_leaves_takes_only_what_no_other_member_waits_for() {
    let (mut harness, names) = group_of_four().await;
    harness.faults.empty_launch_responses();
    harness.reconciler().run(&names[1]).await.unwrap();
    harness.cloud.hide_all();
    let mut leaves = harness.claims.get(&names[0]).await.unwrap().unwrap();
    begin_termination(&mut leaves, TerminationReason::Deleted, "", harness.clock.time());
    harness.claims.update(&leaves, None).await.unwrap();
    let ids = harness.cloud.ids();
    for id in &ids[..3] {
        harness.cloud.show(id);
        all_look(&mut harness, &names).await;
        pass(&mut harness, 5).await;
    }
    let found = instances(&harness).await;
    assert_eq!(found.keys().collect::<BTreeSet<_>>(), names[1..].iter().collect(), "{found:?}");
    assert_eq!(harness.cloud.alive().len(), 4);
    harness.cloud.show(&ids[3]);
    all_look(&mut harness, &names).await;
    all_look(&mut harness, &names).await;
    let alive: Vec<String> = harness.cloud.alive().into_iter().map(|instance| instance.id).collect();
    assert_eq!(alive, ids[..3], "the fourth ends with the member that left");
}

/// EC2 whose list of a group is what it was when it was asked, and comes once the gate opens.
struct Slow {
    inner: Arc<dyn Cloud>,
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

#[tokio::test]
async fn two_functions_that_were_shown_different_lists_agree() {
    let (mut harness, names) = group_of_four().await;
    harness.faults.empty_launch_responses();
    harness.reconciler().run(&names[0]).await.unwrap();
    harness.cloud.hide_all();
    let ids = harness.cloud.ids();
    harness.cloud.show(&ids[2]);
    let (asked, gate) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
    let slow = Reconciler {
        context: harness.context(),
        claims: harness.ports.claims.clone(),
        queue: harness.ports.queue.clone(),
        cluster: harness.ports.cluster.clone(),
        cloud: Arc::new(Slow { inner: harness.ports.cloud.clone(), asked: asked.clone(), gate: gate.clone() }),
        catalog: CatalogCache::default(),
        events: EventRate::default(),
        nominations: NominationSwitch::default(),
        settings: Settings::new(crate::common::CLUSTER),
        zonal_shift: false,
        min_values_strict: true,
    };
    let first = names[3].clone();
    let first = tokio::spawn(async move { slow.run(&first).await });
    asked.acquire().await.unwrap().forget();
    // Meanwhile another function is shown more, gives it out, and EC2 lists the rest.
    for id in [&ids[0], &ids[1], &ids[3]] {
        harness.cloud.show(id);
    }
    harness.reconciler().run(&names[1]).await.unwrap();
    let found = instances(&harness).await;
    gate.add_permits(100);
    first.await.unwrap().unwrap();
    assert_eq!(instances(&harness).await, found, "what was given out stays where it is");
    all_look(&mut harness, &names).await;
    one_each(&harness).await;
}

#[tokio::test]
async fn the_answer_is_shared_out_once_although_the_process_ends_at_any_write() {
    let (harness, names) = group_of_four().await;
    harness.faults.take_writes();
    harness.reconciler().run(&names[0]).await.unwrap();
    let writes = harness.faults.take_writes();
    assert!(writes > 5, "{writes}");
    for (write, done) in (0..writes).flat_map(|write| [(write, false), (write, true)]) {
        let (mut harness, names) = group_of_four().await;
        harness.faults.take_writes();
        harness.faults.kill_at(write, done);
        harness.process(async |harness| drop(harness.reconciler().run(&names[0]).await)).await;
        let before = instances(&harness).await;
        // Prices have changed, so the call cannot be repeated. Another member looks first.
        change_the_request(&harness);
        for name in names.iter().rev() {
            let _retried = harness.reconciler().run(name).await;
        }
        pass(&mut harness, 20).await;
        all_look(&mut harness, &names).await;
        let after = instances(&harness).await;
        assert!(before.iter().all(|(claim, id)| after.get(claim) == Some(id)), "at write {write}");
        one_each(&harness).await;
    }
}
