//! Services that answer slowly for a time.

use super::{Before, FaultInjection};
use jiff::Timestamp;
use nodeless_ports::{Clock as _, ErrorKind, PortError};
use std::time::Duration;

/// How long the clients of the functions wait for the answer to one attempt of a call, and how often they attempt a call. They repeat what
/// `nodeless-aws`, `nodeless-ec2` and `nodeless-kubernetes` set.
const ATTEMPT: Duration = Duration::from_secs(15);
const ATTEMPTS: u32 = 3;
/// The same for CreateFleet, which is attempted once.
const FLEET_ATTEMPT: Duration = Duration::from_secs(45);

/// Operations that take long until a time.
#[derive(Debug)]
pub(super) struct SlowCalls {
    /// The prefix of their names.
    operations: String,
    take: Duration,
    until: Timestamp,
}

/// The time that a call takes before and after its effect, and whether the client waits for its answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Slowness {
    before: Duration,
    after: Duration,
    is_given_up: bool,
}

/// The time of one attempt, and of all attempts until the client gives up.
fn patience(operation: &str, is_write: bool) -> (Duration, Duration) {
    match operation {
        "cloud launch" => (FLEET_ATTEMPT, FLEET_ATTEMPT),
        // A write to the API server is not repeated.
        _ if is_write && operation.starts_with("cluster") => (ATTEMPT, ATTEMPT),
        _ => (ATTEMPT, ATTEMPT * ATTEMPTS),
    }
}

impl FaultInjection {
    /// Calls whose operation starts with this prefix, such as `cluster` or `cloud launch`, take this long until a time. Some have their
    /// effect at once and some at the end. If the client gives up before, the call fails, and a write has its effect nevertheless.
    pub fn slow_until(&self, operations: &str, take: Duration, until: Timestamp) {
        self.lock().slow.push(SlowCalls { operations: operations.to_owned(), take, until });
    }

    /// How a call of this operation that begins now goes on.
    fn slowness(&self, operation: &str, is_write: bool) -> Slowness {
        let now = self.clock().time();
        let mut state = self.lock();
        state.slow.retain(|slow| slow.until > now);
        let concerned = state.slow.iter().filter(|slow| operation.starts_with(slow.operations.as_str()));
        let Some(take) = concerned.map(|slow| slow.take).max() else { return Slowness::default() };
        let (attempt, all) = patience(operation, is_write);
        if take > attempt {
            return Slowness { before: Duration::ZERO, after: all, is_given_up: true };
        }
        let is_early = state.random.happens(0.5);
        let (before, after) = if is_early { (Duration::ZERO, take) } else { (take, Duration::ZERO) };
        Slowness { before, after, is_given_up: false }
    }

    async fn pause(&self, time: Duration) {
        if !time.is_zero() {
            self.clock().sleep(time).await;
        }
    }

    /// Decides about a call before it is made, and waits if it is slow.
    pub(super) async fn begin(
        &self,
        operation: &'static str,
        subject: &str,
        is_write: bool,
    ) -> Result<Slowness, PortError> {
        match self.before(operation, subject, is_write) {
            Before::Go => {}
            Before::Wait(time) => self.clock().sleep(time).await,
            Before::Fail(kind, why) => return Err(PortError::new(kind, operation, why)),
            Before::Die => return self.die().await,
        }
        let slowness = self.slowness(operation, is_write);
        self.pause(slowness.before).await;
        Ok(slowness)
    }

    /// Waits for the answer of a slow call, unless the client gives up.
    pub(super) async fn end<T>(
        &self,
        operation: &'static str,
        slowness: Slowness,
        result: Result<T, PortError>,
    ) -> Result<T, PortError> {
        self.pause(slowness.after).await;
        if slowness.is_given_up {
            return Err(PortError::new(ErrorKind::Unavailable, operation, "the service did not answer in time"));
        }
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fault_injection::{FaultyTable, Rates};
    use crate::memory::MemoryState;
    use crate::world::WorldClock;
    use futures::FutureExt as _;
    use nodeless_state::State;
    use std::sync::Arc;

    /// How long a write to the claims table takes while each takes this long, what it results in, and how many seconds after its begin it
    /// has its effect.
    async fn write(seed: u64, take: u64) -> (u64, bool, u64) {
        let clock = WorldClock::new(Timestamp::UNIX_EPOCH);
        let faults = FaultInjection::new(clock.clone(), seed, Rates::default());
        let table = MemoryState::default();
        let inner = Arc::new(table.table().clone());
        let state = State::new(Arc::new(FaultyTable { inner, fault_injection: faults.clone() }));
        faults.slow_until("claims put", Duration::from_secs(take), Timestamp::from_second(60).unwrap());
        assert!(state.plan_revision().await.is_ok(), "another operation is not slow");
        let names = ["node-1".to_owned()].into();
        let mut call = Box::pin(state.put_not_yet_evaluated(&names, Timestamp::MAX));
        let mut effect = None;
        for second in 0..100 {
            clock.advance_to(Timestamp::from_second(second).unwrap());
            let done = call.as_mut().now_or_never();
            if effect.is_none() && !table.not_yet_evaluated().await.unwrap().is_empty() {
                effect = Some(u64::try_from(second).unwrap());
            }
            if let Some(result) = done {
                return (u64::try_from(second).unwrap(), result.is_ok(), effect.unwrap());
            }
        }
        panic!("it does not end");
    }

    #[tokio::test]
    async fn a_slow_write_has_its_effect_at_its_beginning_or_at_its_end() {
        let mut seen = std::collections::BTreeSet::new();
        for seed in 0..20 {
            seen.insert(write(seed, 14).await);
        }
        assert_eq!(seen, [(14, true, 0), (14, true, 14)].into());
    }

    #[tokio::test]
    async fn a_write_has_its_effect_although_the_client_gives_up() {
        assert_eq!(write(0, 16).await, (45, false, 0), "three attempts");
    }

    #[test]
    fn slow_calls_end() {
        let clock = WorldClock::new(Timestamp::UNIX_EPOCH);
        let faults = FaultInjection::scripted(clock.clone());
        let second = |at| Timestamp::from_second(at).unwrap();
        faults.slow_until("cluster", Duration::from_secs(20), second(60));
        faults.slow_until("cl", Duration::from_secs(50), second(30));
        let waits = |operation, is_write| faults.slowness(operation, is_write).after.as_secs();
        assert_eq!(
            (waits("cluster view", false), waits("cluster evict", true), waits("queue wake", true)),
            (45, 15, 0)
        );
        assert!(faults.slowness("cloud launch", true).is_given_up, "it takes more than 45 seconds");
        clock.advance_to(second(30));
        assert_eq!(faults.slowness("cloud launch", true), Slowness::default());
        assert!(faults.slowness("cluster view", false).is_given_up);
        clock.advance_to(second(60));
        assert_eq!(faults.slowness("cluster view", false), Slowness::default());
    }
}
