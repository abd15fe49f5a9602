//! Faults between a function and the services that it calls, at random or at chosen calls.
//!
//! Each port gets a wrapper that lets [`FaultInjection`] decide about every call: it may be slow, fail before or after it took
//! effect, conflict with a newer version, or be the last call of its process. A process that is killed is a future that is never
//! polled again: the wrapper marks the present invocation as killed and stays pending, and the caller that polls invocations (see
//! [`FaultInjection::enter`] and [`FaultInjection::process`]) drops it. What the process had in memory is gone, what it wrote stays.
//!
//! Everything is drawn from one seed in the order of the calls, so a run repeats itself exactly.

mod claims;
mod cloud;
mod cluster;
mod queue;

pub use claims::{FaultyCatalogSource, FaultyClaims, FaultyZonalShifts};
pub use cloud::FaultyCloud;
pub use cluster::FaultyCluster;
pub use queue::{Fate, FaultyQueue};

use crate::random::Random;
use crate::world::WorldClock;
use jiff::{SignedDuration, Timestamp};
use nodeless_model::instance::InstanceFault;
use nodeless_ports::{Clock, ErrorKind, PortError};
use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::time::Duration;
use tokio::sync::Barrier;

/// How likely each fault is for one call, or for one message. All are 0 by default.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Rates {
    /// The process is killed right before a write.
    pub killed_before: f64,
    /// The process is killed right after a write.
    pub killed_after: f64,
    /// A call fails and had no effect.
    pub failed: f64,
    /// A call is throttled and had no effect.
    pub throttled: f64,
    /// A write has its effect, but its answer is lost.
    pub answer_lost: f64,
    /// A conditional write of the claims table is refused, as when a transaction met another one.
    pub refused: f64,
    /// A call takes up to [`Self::slowest`], so that other operations come in between.
    pub slow: f64,
    /// The longest that a slow call takes.
    pub slowest: Duration,
    /// A view of the cluster, what it has of one kind, a list of instances, or what EC2 says of one of them, is what was read
    /// before.
    pub stale: f64,
    /// The greatest age of what is read stale.
    pub stalest: Duration,
    /// A message is lost.
    pub lost: f64,
    /// A message is late, by up to [`Self::latest`].
    pub late: f64,
    /// The most by which a message is late.
    pub latest: Duration,
    /// A message comes twice.
    pub doubled: f64,
}

/// An effect of a function on the cluster, the account or the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Effect {
    /// When.
    pub at: Timestamp,
    /// The port and what was called, such as `cluster evict`.
    pub operation: &'static str,
    /// About what: the name of a claim, a node, a pod, or an instance's id.
    pub subject: String,
    /// Whether it did anything; an eviction that a budget blocked did not.
    pub accepted: bool,
}

/// Called right before and right after each effect, with nothing in between.
pub trait Observer: Send + Sync {
    /// An operation is about to be carried out. It may have no effect.
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
    /// Calls to ports whose operation and subject begin so fail until this time.
    outages: Vec<(String, Timestamp, ErrorKind)>,
    writes: u64,
    /// Counts writes like `writes`, from the last [`FaultInjection::take_writes`] on.
    recent_writes: u64,
    /// Which of the writes that `recent_writes` counts were the first of their process.
    first_writes: BTreeSet<u64>,
    script: Script,
    /// Whether the write of `Script::fail_from` was reached.
    failing: bool,
    current: Option<Invocation>,
    observer: Option<Arc<dyn Observer>>,
    faults: u64,
    killed: u64,
    /// Whether the response to a launch has neither instances nor errors.
    empty_launch_responses: bool,
    /// What EC2 reports about instances, besides their real status checks and scheduled events.
    instance_faults: Vec<InstanceFault>,
    /// The reads that wait for each other.
    meeting: Option<(&'static str, Arc<Barrier>)>,
    /// How often each operation of the ports was called.
    calls: BTreeMap<&'static str, u64>,
}

/// Faults at chosen writes, by the number of the write since the last [`FaultInjection::take_writes`].
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
    /// Whether it has begun a write since it was polled last.
    wrote: bool,
}

/// What is to happen to a call before it is made.
enum Before {
    Go,
    Wait(Duration),
    Fail(ErrorKind, &'static str),
    Die,
}

/// What is to happen to a call after it was made.
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
    /// Faults at these rates, drawn from a seed.
    #[must_use]
    pub fn new(clock: WorldClock, seed: u64, rates: Rates) -> Self {
        let state = State {
            random: Random::of(seed, "fault_injection"),
            rates,
            outages: Vec::new(),
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

    /// No faults but those that a test asks for.
    #[must_use]
    pub fn scripted(clock: WorldClock) -> Self {
        Self::new(clock, 0, Rates::default())
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The time.
    #[must_use]
    pub fn clock(&self) -> &WorldClock {
        &self.clock
    }

    /// The rates now.
    #[must_use]
    pub fn rates(&self) -> Rates {
        self.lock().rates
    }

    /// Other rates from now on.
    pub fn set_rates(&self, rates: Rates) {
        self.lock().rates = rates;
    }

    /// Calls whose operation begins so, such as `cluster` or `cloud launch`, fail until a time. A write can be named with its
    /// subject, such as `cluster delete pod default/web-0`.
    pub fn fail_until(&self, operations: &str, until: Timestamp, kind: ErrorKind) {
        self.lock().outages.push((operations.to_owned(), until, kind));
    }

    /// Calls whose operation begins so fail until [`Self::end_outages`].
    pub fn fail(&self, operations: &str, kind: ErrorKind) {
        self.fail_until(operations, Timestamp::MAX, kind);
    }

    /// Ends all outages.
    pub fn end_outages(&self) {
        self.lock().outages.clear();
    }

    /// The process is killed at the write with this number, counted from 0 since the last [`Self::take_writes`]: before it takes
    /// effect, or right after.
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

    /// From now on, launches take effect, and their responses have neither instances nor errors.
    pub fn empty_launch_responses(&self) {
        self.lock().empty_launch_responses = true;
    }

    /// From now on, EC2 reports these faults of instances, besides those that the account has.
    pub fn set_instance_faults(&self, faults: Vec<InstanceFault>) {
        self.lock().instance_faults = faults;
    }

    /// The number of writes since the last call. Counts from 0 again, and drops the faults at chosen writes.
    pub fn take_writes(&self) -> u64 {
        let mut state = self.lock();
        state.first_writes.clear();
        (state.script, state.failing) = (Script::default(), false);
        std::mem::take(&mut state.recent_writes)
    }

    /// Which writes since the last [`Self::take_writes`] were the first of their process, by the numbers of [`Self::kill_at`]. A
    /// process that is killed before any other of its writes leaves what it leaves when it is killed after the write before.
    #[must_use]
    pub fn first_writes(&self) -> BTreeSet<u64> {
        self.lock().first_writes.clone()
    }

    /// How often each operation of the ports was called since the last call, such as `cluster patch node`.
    #[must_use]
    pub fn take_calls(&self) -> BTreeMap<&'static str, u64> {
        std::mem::take(&mut self.lock().calls)
    }

    /// Runs a process to its end; `None` when it is killed.
    pub async fn process<T>(&self, mut run: impl Future<Output = T> + Unpin) -> Option<T> {
        std::future::poll_fn(|context| {
            self.enter();
            let polled = std::pin::Pin::new(&mut run).poll(context);
            if self.leave() { Poll::Ready(None) } else { polled.map(Some) }
        })
        .await
    }

    /// Sets who is called about effects.
    pub fn set_observer(&self, observer: Arc<dyn Observer>) {
        self.lock().observer = Some(observer);
    }

    /// How many writes were begun.
    #[must_use]
    pub fn writes(&self) -> u64 {
        self.lock().writes
    }

    /// How many calls and messages got a fault, and how many processes were killed.
    #[must_use]
    pub fn injected(&self) -> (u64, u64) {
        let state = self.lock();
        (state.faults, state.killed)
    }

    /// To be called before an invocation is polled.
    pub fn enter(&self) {
        self.lock().current = Some(Invocation { dead: false, wrote: false });
    }

    /// To be called after an invocation was polled: whether its process ended.
    #[must_use]
    pub fn leave(&self) -> bool {
        self.lock().current.take().is_some_and(|invocation| invocation.dead)
    }

    /// One draw for a purpose outside calls, such as the fate of an event.
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
        let Rates { killed_before, failed, throttled, refused, slow, slowest, .. } = state.rates;
        if write && state.random.happens(killed_before) {
            return Before::Die;
        }
        let conditional = operation.starts_with("claims ")
            && [
                "create",
                "update",
                "update together",
                "delete",
                "put command",
                "delete command",
                "put launch group",
                "put shard",
            ]
            .iter()
            .any(|it| operation.ends_with(it));
        let fault = if state.random.happens(failed) {
            Some((ErrorKind::Unavailable, "the service did not answer"))
        } else if state.random.happens(throttled) {
            Some((ErrorKind::Throttled, "too many calls"))
        } else if conditional && state.random.happens(refused) {
            Some((ErrorKind::Conflict, "another transaction was first"))
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

    /// Kills the present invocation: nothing after this is ever reached.
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

    /// A call that only reads.
    pub(crate) async fn read<T>(
        &self,
        operation: &'static str,
        call: impl Future<Output = Result<T, PortError>> + Send,
    ) -> Result<T, PortError> {
        let meeting = self.lock().meeting.clone().filter(|(meeting, _)| *meeting == operation);
        if let Some((_, readers)) = meeting {
            readers.wait().await;
        }
        match self.before(operation, "", false) {
            Before::Go => {}
            Before::Wait(time) => self.clock.sleep(time).await,
            Before::Fail(kind, why) => return Err(PortError::new(kind, operation, why)),
            Before::Die => return self.die().await,
        }
        call.await
    }

    /// A call that has an effect.
    pub(crate) async fn write<T>(
        &self,
        operation: &'static str,
        subject: String,
        accepted: fn(&T) -> bool,
        call: impl Future<Output = Result<T, PortError>> + Send,
    ) -> Result<T, PortError> {
        let number = self.lock().recent_writes;
        match self.before(operation, &subject, true) {
            Before::Go => {}
            Before::Wait(time) => self.clock.sleep(time).await,
            Before::Fail(kind, why) => return Err(PortError::new(kind, operation, why)),
            Before::Die => return self.die().await,
        }
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
            After::Return => result,
            After::LoseAnswer => {
                Err(PortError::new(ErrorKind::Unavailable, operation, "the connection broke before the answer came"))
            }
            After::Die => self.die().await,
        }
    }

    /// Whether the response to a launch is emptied.
    pub(crate) fn empties_launch_responses(&self) -> bool {
        self.lock().empty_launch_responses
    }

    /// What EC2 reports about instances, besides what the account has.
    pub(crate) fn instance_faults(&self) -> Vec<InstanceFault> {
        self.lock().instance_faults.clone()
    }

    /// Whether what was read at a time is returned again instead of the present state.
    pub(crate) fn repeats(&self, read: Timestamp) -> bool {
        let recent = self.recent(read);
        let mut state = self.lock();
        let stale = state.rates.stale;
        recent && state.random.happens(stale)
    }

    /// Whether what was read at a time may still be returned.
    pub(crate) fn recent(&self, read: Timestamp) -> bool {
        let age = self.clock.time().duration_since(read);
        SignedDuration::try_from(self.lock().rates.stalest).is_ok_and(|most| age <= most)
    }
}

#[cfg(test)]
mod tests;
