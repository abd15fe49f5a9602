//! When SQS delivers the message of unfinished work again, and when it moves it to the dead-letter queue instead.

use super::Work;
use super::functions::Outcome;
use jiff::{SignedDuration, Timestamp};
use std::collections::BTreeMap;

/// The visibility timeouts of the queues: a message that is returned, or whose process was killed, is delivered again after this
/// time. Messages in flight block the plan queue, which is FIFO. These and the numbers of receives repeat the defaults of
/// `terraform/queues.tf`, which the tests in `terraform.rs` compare.
pub(super) const PLAN_VISIBILITY: SignedDuration = SignedDuration::from_secs(45);
pub(super) const CLAIMS_VISIBILITY: SignedDuration = SignedDuration::from_secs(120);
pub(super) const INTERRUPTION_VISIBILITY: SignedDuration = SignedDuration::from_secs(40);
/// The `maxReceiveCount` of each queue, after which a message is moved to the dead-letter queue.
pub(super) const PLAN_RECEIVES: u32 = 3;
pub(super) const CLAIMS_RECEIVES: u32 = 5;
pub(super) const INTERRUPTION_RECEIVES: u32 = 4;

/// The state of a message whose work has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Delivery {
    /// The message is deleted, or there was none.
    Done,
    /// The message is delivered again at this time.
    Again(Timestamp),
    /// The message is in the dead-letter queue from this time on.
    Dead(Timestamp),
}

/// The number of receives of each message that is not deleted.
#[derive(Debug, Default)]
pub(super) struct Deliveries {
    received: BTreeMap<Work, u32>,
}

impl Deliveries {
    /// Counts the receive of the message of this work, which has ended.
    pub(super) fn ended(&mut self, work: &Work, outcome: &Outcome, now: Timestamp) -> Delivery {
        let Some((delay, receives)) = returned(work, outcome) else {
            self.received.remove(work);
            return Delivery::Done;
        };
        let at = now.saturating_add(delay).unwrap_or(Timestamp::MAX);
        let received = self.received.entry(work.clone()).or_default();
        *received += 1;
        if *received < receives {
            return Delivery::Again(at);
        }
        self.received.remove(work);
        // A function that can still answer deletes a message that was received for the last time.
        if is_unanswered(outcome) { Delivery::Dead(at) } else { Delivery::Done }
    }
}

/// The delay until the message of this work is visible again, and its maximum number of receives; `None` if it is deleted. The functions
/// return only messages of interruptions: the sweep, the heartbeat and the catalog request all other work again.
fn returned(work: &Work, outcome: &Outcome) -> Option<(SignedDuration, u32)> {
    let killed = is_unanswered(outcome);
    match work {
        Work::Plan => killed.then_some((PLAN_VISIBILITY, PLAN_RECEIVES)),
        Work::Shard(_) | Work::Validate(_) => killed.then_some((CLAIMS_VISIBILITY, CLAIMS_RECEIVES)),
        Work::Interrupt(_) => {
            (killed || outcome.is_handed_back()).then_some((INTERRUPTION_VISIBILITY, INTERRUPTION_RECEIVES))
        }
        // The schedules start this work earlier.
        Work::Sweep | Work::Refresh => None,
    }
}

/// Whether no function answered for the message.
fn is_unanswered(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Ended(_) | Outcome::Stopped)
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodeless_ports::{ErrorKind, PortError};
    use nodeless_reconciler::interrupt::InterruptError;

    #[test]
    fn a_message_that_the_function_returns_is_deleted_after_its_last_receive() {
        let (mut deliveries, now) = (Deliveries::default(), Timestamp::UNIX_EPOCH);
        let work = Work::Interrupt("i-1".to_owned());
        let error = || InterruptError::Port(PortError::new(ErrorKind::Unavailable, "read claims", "no route"));
        let mut ended = || deliveries.ended(&work, &Outcome::Interrupted(Err(error())), now);
        for _ in 1..INTERRUPTION_RECEIVES {
            assert!(matches!(ended(), Delivery::Again(_)));
        }
        assert_eq!(ended(), Delivery::Done);
    }

    #[test]
    fn a_message_is_dead_after_its_last_receive() {
        let (mut deliveries, now) = (Deliveries::default(), Timestamp::UNIX_EPOCH);
        let work = Work::Interrupt("i-1".to_owned());
        let killed = || Outcome::Ended("killed");
        let at = now.saturating_add(INTERRUPTION_VISIBILITY).unwrap();
        for _ in 1..INTERRUPTION_RECEIVES {
            assert_eq!(deliveries.ended(&work, &killed(), now), Delivery::Again(at));
        }
        assert_eq!(deliveries.ended(&work, &killed(), now), Delivery::Dead(at));
        // Another message of the same content is counted anew.
        assert_eq!(deliveries.ended(&work, &killed(), now), Delivery::Again(at));
        assert_eq!(deliveries.ended(&Work::Sweep, &killed(), now), Delivery::Done);
    }
}
