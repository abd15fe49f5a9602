use super::{Effect, Fate, FaultInjection, FaultyCluster, FaultyQueue, FaultyTable, Observer, Rates};
use crate::memory::{MemoryQueue, MemoryState};
use crate::ports::memory_cluster;
use crate::world::{World, WorldClock, WorldOptions};
use futures::FutureExt as _;
use jiff::Timestamp;
use nodeless_fake_kubernetes::resource::{NODES, PODS};
use nodeless_fake_kubernetes::{ApiServer, CreateOptions};
use nodeless_model::NodeClaim;
use nodeless_model::test_support::node_claim;
use nodeless_ports::queue::{ShardMessage, WakeSource};
use nodeless_ports::{ErrorKind, PlanningView as _, Queue as _};
use nodeless_state::State;
use serde_json::json;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

fn clock() -> WorldClock {
    WorldClock::new(Timestamp::UNIX_EPOCH)
}

/// The state in a table with faults.
fn faulty(claims: &MemoryState, faults: &FaultInjection) -> State {
    let inner = Arc::new(claims.table().clone());
    State::new(Arc::new(FaultyTable { inner, fault_injection: faults.clone() }))
}

fn claim(name: &str) -> NodeClaim {
    NodeClaim { version: 0, ..node_claim(name) }
}

#[derive(Default)]
struct Notes(Mutex<Vec<String>>);

impl Observer for Notes {
    fn after(&self, effect: &Effect) {
        self.0.lock().unwrap().push(format!("{} {} {}", effect.operation, effect.subject, effect.accepted));
    }
}

#[test]
fn a_process_ends_before_or_after_a_write_and_never_goes_on() {
    for (done, left) in [(false, 0), (true, 1)] {
        let fault_injection = FaultInjection::new(clock(), 0, Rates::default());
        let table = MemoryState::default();
        let claims = faulty(&table, &fault_injection);
        fault_injection.kill_at(0, done);
        fault_injection.enter();
        let one = claim("a");
        assert!(claims.create(&one, None).now_or_never().is_none());
        assert!(fault_injection.leave(), "the process has ended");
        assert_eq!(table.list().now_or_never().unwrap().unwrap().len(), left);
        fault_injection.enter();
        assert!(claims.create(&claim("b"), None).now_or_never().unwrap().is_ok(), "the next process lives");
        assert!(!fault_injection.leave());
        assert_eq!(fault_injection.writes(), 2);
    }
}

#[test]
fn a_process_is_killed_at_the_chosen_write_and_outages_last_until_they_are_ended() {
    let faults = FaultInjection::scripted(clock());
    let table = MemoryState::default();
    let claims = faulty(&table, &faults);
    let stored = || table.list().now_or_never().unwrap().unwrap().len();
    let create = async |name: &str| claims.create(&claim(name), None).await;
    faults.kill_at(1, true);
    let process = async {
        create("a").await.unwrap();
        create("b").await
    };
    assert_eq!(faults.process(Box::pin(process)).now_or_never().unwrap(), None);
    assert_eq!(faults.first_writes(), BTreeSet::from([0]));
    assert_eq!((stored(), faults.take_writes(), faults.injected()), (2, 2, (0, 1)), "the last write was done");
    assert!(faults.first_writes().is_empty(), "counted from 0 again");
    faults.kill_at(0, false);
    assert_eq!(faults.process(Box::pin(create("c"))).now_or_never().unwrap(), None);
    assert_eq!((stored(), faults.take_writes()), (2, 1));
    faults.lose_answer_at(0);
    let lost = faults.process(Box::pin(create("c"))).now_or_never().unwrap().unwrap().unwrap_err();
    assert_eq!((lost.kind, stored(), faults.take_writes()), (ErrorKind::Unavailable, 3, 1));
    faults.fail("claims list", ErrorKind::Throttled);
    assert_eq!(claims.list().now_or_never().unwrap().unwrap_err().kind, ErrorKind::Throttled);
    faults.end_outages();
    assert!(claims.list().now_or_never().unwrap().is_ok());
    faults.fail_from(1);
    create("d").now_or_never().unwrap().unwrap();
    create("e").now_or_never().unwrap().unwrap_err();
    claims.list().now_or_never().unwrap().unwrap_err();
    assert_eq!((stored(), faults.take_writes()), (4, 1));
    assert!(claims.list().now_or_never().unwrap().is_ok());
}

#[test]
fn a_write_of_one_subject_fails_and_those_of_others_do_not() {
    let faults = FaultInjection::scripted(clock());
    let claims = faulty(&MemoryState::default(), &faults);
    faults.fail("claims create a", ErrorKind::Denied);
    let refused = claims.create(&claim("a"), None).now_or_never().unwrap().unwrap_err();
    assert_eq!(refused.kind, ErrorKind::Denied);
    claims.create(&claim("b"), None).now_or_never().unwrap().unwrap();
}

#[tokio::test]
async fn reads_that_meet_wait_for_each_other() {
    let faults = FaultInjection::scripted(clock());
    let claims = faulty(&MemoryState::default(), &faults);
    faults.meet_at("claims list", 2);
    assert!(claims.usage().now_or_never().is_some(), "another read");
    assert!(claims.list().now_or_never().is_none(), "one waits");
    faults.meet_at("claims list", 2);
    let read_first = async {
        let read = claims.list().await;
        claims.create(&claim("a"), None).await.unwrap();
        read
    };
    let (first, second) = futures::join!(read_first, claims.list());
    assert_eq!((first.unwrap(), second.unwrap()), (Vec::new(), Vec::new()), "each read before the other wrote");
    faults.end_meeting();
    assert_eq!(claims.list().now_or_never().unwrap().unwrap().len(), 1);
}

#[test]
fn faults_come_at_their_rates_and_effects_are_observed_even_if_the_answer_is_lost() {
    let fault_injection = FaultInjection::new(clock(), 3, Rates { answer_lost: 1.0, ..Rates::default() });
    let notes = Arc::new(Notes::default());
    fault_injection.set_observer(notes.clone());
    let table = MemoryState::default();
    let claims = faulty(&table, &fault_injection);
    let lost = claims.create(&claim("a"), None).now_or_never().unwrap().unwrap_err();
    assert_eq!(lost.kind, ErrorKind::Unavailable);
    assert_eq!(*notes.0.lock().unwrap(), ["claims create a true"]);
    fault_injection.set_rates(Rates { refused: 1.0, ..Rates::default() });
    let refused = claims.create(&claim("b"), None).now_or_never().unwrap().unwrap_err();
    assert_eq!((refused.kind, refused.code.as_str()), (ErrorKind::Throttled, "TransactionConflict"));
    fault_injection.set_rates(Rates::default());
    fault_injection.fail_until("claims", Timestamp::from_second(60).unwrap(), ErrorKind::Throttled);
    assert_eq!(claims.list().now_or_never().unwrap().unwrap_err().kind, ErrorKind::Throttled);
    fault_injection.clock().advance_to(Timestamp::from_second(60).unwrap());
    assert_eq!(claims.list().now_or_never().unwrap().unwrap().len(), 1);
}

#[test]
fn messages_are_lost_late_and_doubled() {
    let clock = clock();
    let fault_injection = FaultInjection::new(clock.clone(), 1, Rates { lost: 1.0, ..Rates::default() });
    let inner = MemoryQueue::new(Arc::new(clock));
    let queue = FaultyQueue { inner: Arc::new(inner.clone()), fault_injection: fault_injection.clone() };
    queue.wake_planner(WakeSource::Webhook).now_or_never().unwrap().unwrap();
    assert_eq!(inner.take_plan(), None);
    fault_injection.set_rates(Rates { late: 1.0, doubled: 1.0, latest: Duration::from_mins(1), ..Rates::default() });
    let Fate(copies) = fault_injection.fate();
    assert_eq!(copies.len(), 2);
    queue.wake_shard(ShardMessage { shard: 0, number: 1 }, Duration::from_secs(5)).now_or_never().unwrap().unwrap();
    assert!(inner.next_due().unwrap() > Timestamp::from_second(5).unwrap());
}

/// Each call of [`FaultyCluster::view`] returns one more node and one more pod.
#[test]
fn each_kind_of_a_view_may_lag_by_itself_and_none_for_longer_than_allowed() {
    let world = World::new(WorldOptions::default()).unwrap();
    let clock = world.clock().clone();
    let fault_injection = FaultInjection::new(
        clock.clone(),
        5,
        Rates { stale: 0.4, stalest: Duration::from_secs(10), ..Rates::default() },
    );
    let inner = Arc::new(memory_cluster(world.api(), clock.clone()));
    let cluster = FaultyCluster::new(inner, fault_injection.clone());
    let create = |api: &ApiServer, number: usize| {
        let node = json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "name": format!("n{number}") } });
        api.create(&NODES, node, &CreateOptions::default()).unwrap();
        let containers = json!([{ "name": "main", "image": "registry.k8s.io/pause:3.9" }]);
        let metadata = json!({ "name": format!("p{number}"), "namespace": "default" });
        let pod =
            json!({ "apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": { "containers": containers } });
        api.create(&PODS, pod, &CreateOptions::default()).unwrap();
    };
    let mut seen = BTreeSet::new();
    for number in 1..=60 {
        create(world.api(), number);
        let view = cluster.view().now_or_never().unwrap().unwrap();
        let (nodes, pods) = (number - view.nodes.len(), number - view.pods.len());
        assert!(nodes.max(pods) <= 5, "a view of 2 s ago is at most five behind after 10 s");
        seen.insert((nodes > 0, pods > 0));
        clock.advance_to(clock.time() + Duration::from_secs(2));
    }
    assert_eq!(seen.len(), 4, "either, both and none: {seen:?}");
    fault_injection.set_rates(Rates::default());
    let view = cluster.view().now_or_never().unwrap().unwrap();
    assert_eq!((view.nodes.len(), view.pods.len()), (60, 60));
}

#[test]
fn the_clocks_of_processes_differ_from_the_time_by_at_most_the_skew() {
    let start: Timestamp = "2026-03-02T00:00:00Z".parse().unwrap();
    let of = |skew| {
        let fault_injection = FaultInjection::new(WorldClock::new(start), 7, Rates { skew, ..Rates::default() });
        let clocks = (0..200).map(|_| fault_injection.clock_of_process());
        clocks.map(|clock| clock.now().duration_since(start).as_millis()).collect::<BTreeSet<_>>()
    };
    assert_eq!(of(Duration::ZERO), BTreeSet::from([0]));
    let drawn = of(Duration::from_millis(500));
    assert!(*drawn.first().unwrap() >= -500 && *drawn.last().unwrap() <= 500, "{drawn:?}");
    assert!(*drawn.first().unwrap() < -400 && *drawn.last().unwrap() > 400, "{drawn:?}");
}
