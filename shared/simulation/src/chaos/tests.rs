use super::{Chaos, ChaoticClaims, ChaoticQueue, Effect, Fate, Rates, Witness};
use crate::memory::{Faults, MemoryClaims, MemoryQueue};
use crate::world::WorldClock;
use futures::FutureExt as _;
use jiff::Timestamp;
use nodeless_model::{NodeClaim, NodeClaimSpec, NodeClaimStatus, Phase};
use nodeless_ports::queue::WakeSource;
use nodeless_ports::{Claims as _, ErrorKind, Queue as _};
use std::sync::{Arc, Mutex};
use std::time::Duration;

fn clock() -> WorldClock {
    WorldClock::new(Timestamp::UNIX_EPOCH)
}

fn claim(name: &str) -> NodeClaim {
    NodeClaim {
        name: name.into(),
        uid: format!("uid-{name}"),
        node_pool: "default".into(),
        node_class: "default".into(),
        created: Timestamp::UNIX_EPOCH,
        version: 0,
        spec: NodeClaimSpec::default(),
        phase: Phase::Reserved,
        status: NodeClaimStatus::default(),
    }
}

#[derive(Default)]
struct Notes(Mutex<Vec<String>>);

impl Witness for Notes {
    fn witness(&self, effect: &Effect) {
        self.0.lock().unwrap().push(format!("{} {} {}", effect.operation, effect.subject, effect.accepted));
    }
}

#[test]
fn a_process_ends_before_or_after_a_write_and_never_goes_on() {
    for (done, left) in [(false, 0), (true, 1)] {
        let chaos = Chaos::new(clock(), 0, Rates::default());
        let table = MemoryClaims::new(Faults::default());
        let claims = ChaoticClaims { inner: Arc::new(table.clone()), chaos: chaos.clone() };
        chaos.die_at(0, done);
        chaos.enter();
        let one = claim("a");
        assert!(claims.create(&one, None).now_or_never().is_none());
        assert!(chaos.leave(), "the process has ended");
        assert_eq!(table.list().now_or_never().unwrap().unwrap().len(), left);
        chaos.enter();
        assert!(claims.create(&claim("b"), None).now_or_never().unwrap().is_ok(), "the next process lives");
        assert!(!chaos.leave());
        assert_eq!(chaos.writes(), 2);
    }
}

#[test]
fn faults_come_at_their_rates_and_effects_are_witnessed_even_if_the_answer_is_lost() {
    let chaos = Chaos::new(clock(), 3, Rates { answer_lost: 1.0, ..Rates::default() });
    let notes = Arc::new(Notes::default());
    chaos.set_witness(notes.clone());
    let table = MemoryClaims::new(Faults::default());
    let claims = ChaoticClaims { inner: Arc::new(table), chaos: chaos.clone() };
    let lost = claims.create(&claim("a"), None).now_or_never().unwrap().unwrap_err();
    assert_eq!(lost.kind, ErrorKind::Unavailable);
    assert_eq!(*notes.0.lock().unwrap(), ["claims create a true"]);
    chaos.set_rates(Rates { refused: 1.0, ..Rates::default() });
    let refused = claims.create(&claim("b"), None).now_or_never().unwrap().unwrap_err();
    assert_eq!(refused.kind, ErrorKind::Conflict);
    chaos.set_rates(Rates::default());
    chaos.break_down("claims", Timestamp::from_second(60).unwrap(), ErrorKind::Throttled);
    assert_eq!(claims.list().now_or_never().unwrap().unwrap_err().kind, ErrorKind::Throttled);
    chaos.clock().advance_to(Timestamp::from_second(60).unwrap());
    assert_eq!(claims.list().now_or_never().unwrap().unwrap().len(), 1);
}

#[test]
fn messages_are_lost_late_and_doubled() {
    let clock = clock();
    let chaos = Chaos::new(clock.clone(), 1, Rates { lost: 1.0, ..Rates::default() });
    let inner = MemoryQueue::new(Arc::new(clock), Faults::default());
    let queue = ChaoticQueue { inner: Arc::new(inner.clone()), chaos: chaos.clone() };
    queue.wake_planner(WakeSource::Webhook).now_or_never().unwrap().unwrap();
    assert_eq!(inner.take_plan(), None);
    chaos.set_rates(Rates { late: 1.0, doubled: 1.0, latest: Duration::from_mins(1), ..Rates::default() });
    let Fate(copies) = chaos.fate();
    assert_eq!(copies.len(), 2);
    queue.wake_claims(&[("a".into(), Duration::from_secs(5))]).now_or_never().unwrap().unwrap();
    assert!(inner.next_due().unwrap() > Timestamp::from_second(5).unwrap());
}
