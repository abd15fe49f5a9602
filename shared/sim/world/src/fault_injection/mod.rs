//! Faults between a function and the services that it calls, at random or at specific calls.
//!
//! Each port gets a wrapper that lets [`FaultInjection`] decide about every call: it may be slow, fail before or after its
//! effect, conflict with a newer version, or be the last call of its process. A killed process is a future that is never polled
//! again: the wrapper marks the current invocation as killed and stays pending, and the caller that polls invocations (see
//! [`FaultInjection::enter`] and [`FaultInjection::process`]) drops it. The memory of the process is lost, and its writes stay.
//!
//! All random numbers come from one seed in the order of the calls, so that a run is reproducible.

mod claims;
mod clock;
mod cloud;
mod cluster;
mod queue;
mod rates;
mod slow_calls;
mod topic;

pub use claims::{FaultyCatalogSource, FaultyTable, FaultyZonalShifts};
pub use cloud::FaultyCloud;
pub use cluster::FaultyCluster;
pub use queue::{Fate, FaultyQueue};
pub use rates::Rates;
pub use topic::FaultyTopic;

use crate::random::Random;
use crate::world::WorldClock;
use jiff::{SignedDuration, Timestamp};
use nodeless_model::instance::InstanceFault;
use nodeless_ports::{ErrorKind, PortError};
use slow_calls::SlowCalls;
use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::time::Duration;
use tokio::sync::Barrier;

/// An effect of a function on the cluster, the account or the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Effect {
    /// The time.
    pub at: Timestamp,
    /// The port and what was called, such as `cluster evict`.
    pub operation: &'static str,
    /// The object: the name of a claim, a node, a pod, or an instance's id.
    pub subject: String,
    /// Whether the operation changed anything; an eviction that a budget blocked did not.
    pub accepted: bool,
}

/// Called right before and right after each effect, with nothing in between.
pub trait Observer: Send + Sync {
    /// An operation is about to be executed. It may have no effect.
    fn before(&self, _operation: &'static str, _subject: &str) {}

    /// An operation had this effect.
    fn after(&self, effect: &Effect);
}

/// Decides about faults. Clones share one state.
#[derive(Clone)]
pub struct FaultInjection {
    clock: WorldClock,
    state: Arc<Mutex<State>>,
}

struct State {
    random: Random,
    rates: Rates,
    /// The prefixes of port operations, with their subjects, that fail, each with the end of its outage.
    outages: Vec<(String, Timestamp, ErrorKind)>,
    slow: Vec<SlowCalls>,
    writes: u64,
    /// Counts writes like `writes`, since the last [`FaultInjection::take_writes`].
    recent_writes: u64,
    /// The writes, by the count of `recent_writes`, that were the first of their process.
    first_writes: BTreeSet<u64>,
    script: Script,
    /// Whether the write of `Script::fail_from` was reached.
    failing: bool,
    current: Option<Invocation>,
    observer: Option<Arc<dyn Observer>>,
    faults: u64,
    killed: u64,
    /// Whether the response to a launch contains neither instances nor errors.
    empty_launch_responses: bool,
    /// The faults of instances that EC2 reports in addition to real status checks and scheduled events.
    instance_faults: Vec<InstanceFault>,
    /// The reads that wait for each other.
    meeting: Option<(&'static str, Arc<Barrier>)>,
    /// The number of calls of each operation of the ports.
    calls: BTreeMap<&'static str, u64>,
}

/// Faults at specific writes, by the number of the write since the last [`FaultInjection::take_writes`].
#[derive(Default)]
struct Script {
    /// The process is killed before this write, or right after it.
    kill: Option<(u64, bool)>,
    /// This write takes effect, and its answer is lost.
    lose_answer: Option<u64>,
    /// From this write on every call fails.
    fail_from: Option<u64>,
}

#[derive(Clone, Copy)]
struct Invocation {
    dead: bool,
    /// Whether the process has begun a write since it was polled last.
    wrote: bool,
}

/// The fault of a call before it is made.
enum Before {
    Go,
    Wait(Duration),
    Fail(ErrorKind, &'static str),
    Die,
}

/// The fault of a call after it was made.
enum After {
    Return,
    LoseAnswer,
    Die,
}

impl std::fmt::Debug for FaultInjection {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let state = self.lock();
        formatter
            .debug_struct("FaultInjection")
            .field("rates", &state.rates)
            .field("writes", &state.writes)
            .finish_non_exhaustive()
    }
}

impl FaultInjection {
    /// Random faults at these rates, with this seed.
    #[must_use]
    pub fn new(clock: WorldClock, seed: u64, rates: Rates) -> Self {
        let state = State {
            random: Random::for_purpose(seed, "fault_injection"),
            rates,
            outages: Vec::new(),
            slow: Vec::new(),
            writes: 0,
            recent_writes: 0,
            first_writes: BTreeSet::new(),
            script: Script::default(),
            failing: false,
            current: None,
            observer: None,
            faults: 0,
            killed: 0,
            empty_launch_responses: false,
            instance_faults: Vec::new(),
            meeting: None,
            calls: BTreeMap::new(),
        };
        Self { clock, state: Arc::new(Mutex::new(state)) }
    }

    /// No faults except for those that a test requests.
    #[must_use]
    pub fn scripted(clock: WorldClock) -> Self {
        Self::new(clock, 0, Rates::default())
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The current time.
    #[must_use]
    pub fn clock(&self) -> &WorldClock {
        &self.clock
    }

    /// The current rates.
    #[must_use]
    pub fn rates(&self) -> Rates {
        self.lock().rates
    }

    /// Changes the rates.
    pub fn set_rates(&self, rates: Rates) {
        self.lock().rates = rates;
    }

    /// Calls whose operation starts with this prefix, such as `cluster` or `cloud launch`, fail until a time. A write can be
    /// named with its subject, such as `cluster delete pod default/web-0`.
    pub fn fail_until(&self, operations: &str, until: Timestamp, kind: ErrorKind) {
        self.lock().outages.push((operations.to_owned(), until, kind));
    }

    /// Calls whose operation starts with this prefix fail until [`Self::end_outages`].
    pub fn fail(&self, operations: &str, kind: ErrorKind) {
        self.fail_until(operations, Timestamp::MAX, kind);
    }

    /// Whether calls of this operation fail now because of an outage.
    #[must_use]
    pub fn fails(&self, operation: &str) -> bool {
        let now = self.clock.time();
        self.lock().outages.iter().any(|(prefix, until, _)| *until > now && operation.starts_with(prefix.as_str()))
    }

    /// Ends all outages, and slow calls.
    pub fn end_outages(&self) {
        let mut state = self.lock();
        state.outages.clear();
        state.slow.clear();
    }

    /// The process is killed at the write with this number, counted from 0 since the last [`Self::take_writes`]: before the write
    /// takes effect, or right after.
    pub fn kill_at(&self, write: u64, done: bool) {
        self.lock().script.kill = Some((write, done));
    }

    /// The write with this number, counted as above, takes effect, but its answer is lost. The process continues.
    pub fn lose_answer_at(&self, write: u64) {
        self.lock().script.lose_answer = Some(write);
    }

    /// Each of these reads, such as `cluster view`, waits until so many of them wait, so that none of them comes after what
    /// another process did with its result. Until [`Self::end_meeting`].
    pub fn meet_at(&self, operation: &'static str, readers: usize) {
        self.lock().meeting = Some((operation, Arc::new(Barrier::new(readers))));
    }

    /// Reads wait for no others any more.
    pub fn end_meeting(&self) {
        self.lock().meeting = None;
    }

    /// Every call fails from the write with this number on, counted as above.
    pub fn fail_from(&self, write: u64) {
        self.lock().script.fail_from = Some(write);
    }

    /// From now on, launches take effect, and their responses contain neither instances nor errors.
    pub fn empty_launch_responses(&self) {
        self.lock().empty_launch_responses = true;
    }

    /// From now on, EC2 reports these faults of instances in addition to those of the account.
    pub fn set_instance_faults(&self, faults: Vec<InstanceFault>) {
        self.lock().instance_faults = faults;
    }

    /// The number of writes since the last call. Resets the count, and removes the faults at specific writes.
    pub fn take_writes(&self) -> u64 {
        let mut state = self.lock();
        state.first_writes.clear();
        (state.script, state.failing) = (Script::default(), false);
        std::mem::take(&mut state.recent_writes)
    }

    /// The writes since the last [`Self::take_writes`] that were the first of their process, by the numbers of [`Self::kill_at`]. A process
    /// that is killed before any other write leaves the same as one killed after the previous write.
    #[must_use]
    pub fn first_writes(&self) -> BTreeSet<u64> {
        self.lock().first_writes.clone()
    }

    /// The number of calls of each operation of the ports, such as `cluster patch node`, since this was last called.
    #[must_use]
    pub fn take_calls(&self) -> BTreeMap<&'static str, u64> {
        std::mem::take(&mut self.lock().calls)
    }

    /// Runs a process to its end; `None` if it is killed.
    pub async fn process<T>(&self, mut run: impl Future<Output = T> + Unpin) -> Option<T> {
        std::future::poll_fn(|context| {
            self.enter();
            let polled = std::pin::Pin::new(&mut run).poll(context);
            if self.leave() { Poll::Ready(None) } else { polled.map(Some) }
        })
        .await
    }

    /// Sets the observer of effects.
    pub fn set_observer(&self, observer: Arc<dyn Observer>) {
        self.lock().observer = Some(observer);
    }

    /// The number of writes that were started.
    #[must_use]
    pub fn writes(&self) -> u64 {
        self.lock().writes
    }

    /// The number of calls and messages with a fault, and of killed processes.
    #[must_use]
    pub fn injected(&self) -> (u64, u64) {
        let state = self.lock();
        (state.faults, state.killed)
    }

    /// Called before an invocation is polled.
    pub fn enter(&self) {
        self.lock().current = Some(Invocation { dead: false, wrote: false });
    }

    /// Called after an invocation was polled. Returns whether its process ended.
    #[must_use]
    pub fn leave(&self) -> bool {
        self.lock().current.take().is_some_and(|invocation| invocation.dead)
    }

    /// A random decision outside calls, for example about an event.
    pub fn draw<T>(&self, draw: impl FnOnce(&mut Random, &Rates) -> T) -> T {
        let state = &mut *self.lock();
        draw(&mut state.random, &state.rates)
    }

    fn before(&self, operation: &'static str, subject: &str, write: bool) -> Before {
        let now = self.clock.time();
        let mut state = self.lock();
        *state.calls.entry(operation).or_default() += 1;
        state.outages.retain(|(_, until, _)| *until > now);
        let call = if subject.is_empty() { operation.to_owned() } else { format!("{operation} {subject}") };
        if let Some((_, _, kind)) = state.outages.iter().find(|(prefix, _, _)| call.starts_with(prefix.as_str())) {
            return Before::Fail(*kind, "a fault was injected");
        }
        let number = state.recent_writes;
        if state.failing || (write && state.script.fail_from == Some(number)) {
            state.failing = true;
            return Before::Fail(ErrorKind::Unavailable, "a fault was injected");
        }
        if write {
            state.writes += 1;
            state.recent_writes += 1;
            if state.current.as_mut().is_none_or(|invocation| !std::mem::replace(&mut invocation.wrote, true)) {
                state.first_writes.insert(number);
            }
            if state.script.kill == Some((number, false)) {
                return Before::Die;
            }
        }
        let Rates { killed_before, failed, throttled, slow, slowest, .. } = state.rates;
        if write && state.random.happens(killed_before) {
            return Before::Die;
        }
        let fault = if state.random.happens(failed) {
            Some((ErrorKind::Unavailable, "the service did not answer"))
        } else if state.random.happens(throttled) {
            Some((ErrorKind::Throttled, "too many calls"))
        } else {
            None
        };
        if let Some((kind, why)) = fault {
            state.faults += 1;
            return Before::Fail(kind, why);
        }
        if state.random.happens(slow) {
            let most = u64::try_from(slowest.as_millis()).unwrap_or(u64::MAX);
            return Before::Wait(Duration::from_millis(1 + state.random.below(most)));
        }
        Before::Go
    }

    fn after(&self, write: Option<u64>) -> After {
        let Some(number) = write else { return After::Return };
        let mut state = self.lock();
        let Rates { killed_after, answer_lost, .. } = state.rates;
        if state.script.kill == Some((number, true)) || state.random.happens(killed_after) {
            return After::Die;
        }
        if state.script.lose_answer == Some(number) || state.random.happens(answer_lost) {
            state.faults += 1;
            return After::LoseAnswer;
        }
        After::Return
    }

    /// Kills the current invocation: the code after this call never runs.
    async fn die<T>(&self) -> T {
        {
            let mut state = self.lock();
            state.killed += 1;
            state.script.kill = None;
            if let Some(invocation) = &mut state.current {
                invocation.dead = true;
            }
        }
        std::future::pending().await
    }

    /// A read-only call.
    pub(crate) async fn read<T>(
        &self,
        operation: &'static str,
        call: impl Future<Output = Result<T, PortError>> + Send,
    ) -> Result<T, PortError> {
        let meeting = self.lock().meeting.clone().filter(|(meeting, _)| *meeting == operation);
        if let Some((_, readers)) = meeting {
            readers.wait().await;
        }
        let slowness = self.begin(operation, "", false).await?;
        let result = call.await;
        self.end(operation, slowness, result).await
    }

    /// A call with an effect.
    pub(crate) async fn write<T>(
        &self,
        operation: &'static str,
        subject: String,
        accepted: fn(&T) -> bool,
        call: impl Future<Output = Result<T, PortError>> + Send,
    ) -> Result<T, PortError> {
        let number = self.lock().recent_writes;
        let slowness = self.begin(operation, &subject, true).await?;
        let observer = self.lock().observer.clone();
        if let Some(observer) = &observer {
            observer.before(operation, &subject);
        }
        let result = call.await;
        if let (Ok(done), Some(observer)) = (&result, observer) {
            let effect = Effect { at: self.clock.time(), operation, subject, accepted: accepted(done) };
            observer.after(&effect);
        }
        match self.after(Some(number)) {
            After::Return => self.end(operation, slowness, result).await,
            After::LoseAnswer => {
                Err(PortError::new(ErrorKind::Unavailable, operation, "the connection broke before the answer came"))
            }
            After::Die => self.die().await,
        }
    }

    /// Whether a conditional write of the claims table conflicts with another transaction.
    pub(crate) fn refuses(&self) -> bool {
        let mut state = self.lock();
        let refused = state.rates.refused;
        let refuses = state.random.happens(refused);
        state.faults += u64::from(refuses);
        refuses
    }

    /// Whether the response to a launch is emptied.
    pub(crate) fn empties_launch_responses(&self) -> bool {
        self.lock().empty_launch_responses
    }

    /// The faults of instances that EC2 reports in addition to those of the account.
    pub(crate) fn instance_faults(&self) -> Vec<InstanceFault> {
        self.lock().instance_faults.clone()
    }

    /// Whether a read from a given time is returned again instead of the current state.
    pub(crate) fn repeats(&self, read: Timestamp) -> bool {
        let recent = self.recent(read);
        let mut state = self.lock();
        let stale = state.rates.stale;
        recent && state.random.happens(stale)
    }

    /// Whether a read from a given time may still be returned.
    pub(crate) fn recent(&self, read: Timestamp) -> bool {
        let age = self.clock.time().duration_since(read);
        SignedDuration::try_from(self.lock().rates.stalest).is_ok_and(|most| age <= most)
    }
}

#[cfg(test)]
mod tests;
