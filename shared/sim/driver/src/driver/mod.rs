//! Runs the operations of the Lambda functions in a world, in one thread.
//!
//! [`Driver`] does what EventBridge, SQS and the webhook do in AWS: it wakes the planner every minute, on FailedScheduling events,
//! when EC2NodeClasses change and when nodes are deleted, delivers messages when they are due, and starts sweeps and refreshes on
//! schedule.
//!
//! The time is that of the world. [`Driver::advance_to`] runs everything that is due until then, at its own time and in a fixed
//! order: when every operation waits, the clock advances to the next due time. So hours pass in milliseconds, and the same calls
//! have the same result each time. To follow the wall clock, call it often.

mod concurrency;
mod deliveries;
mod functions;
mod invocation;
mod schedule;
#[cfg(test)]
mod terraform;
mod timeouts;
mod webhook;

pub use concurrency::AccountConcurrency;
pub use functions::{FunctionSettings, Functions, Outcome};
pub use schedule::Schedule;

use crate::log_lines::{InjectedFailure, OperationFailed};
use concurrency::Mappings;
use deliveries::{Deliveries, Delivery};
use futures::stream::{FuturesUnordered, Stream as _};
use invocation::{Environment, Invocation};
use jiff::{SignedDuration, Timestamp};
use nodeless_ports::queue::{ShardMessage, WakeSource};
use nodeless_telemetry::{Sink, emit};
use nodeless_world::fault_injection::{Fate, FaultInjection};
use nodeless_world::memory::{Chain, MemoryQueue, MemoryState};
use nodeless_world::{World, WorldError};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use webhook::Webhook;

/// The minimum step of the clock. Kubernetes' times have whole seconds, so nothing is due more often.
const STEP: SignedDuration = SignedDuration::from_millis(1);
/// The maximum number of rounds of the cluster and the operations at one time.
const ROUNDS: usize = 10_000;
/// The maximum number of outcomes that are kept.
const OUTCOMES: usize = 1_000;

/// A unit of work.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Work {
    Plan,
    Shard(ShardMessage),
    Sweep,
    Refresh,
    Validate(String),
    Interrupt(String),
}

/// Why a simulation cannot continue.
#[derive(Debug, thiserror::Error)]
pub enum DriverError {
    /// The simulated cluster or account failed.
    #[error(transparent)]
    World(#[from] WorldError),
    /// The simulated cluster and the operations caused changes in each other without end.
    #[error("the simulated cluster and the operations did not become quiescent in {ROUNDS} rounds at {at}")]
    NotQuiescent {
        /// The time.
        at: Timestamp,
    },
}

/// A simulated cluster and account with nodeless.
pub struct Driver {
    world: World,
    functions: Arc<Functions>,
    set: FunctionSettings,
    claims: MemoryState,
    queue: MemoryQueue,
    schedule: Schedule,
    sink: Arc<dyn Sink>,
    fault_injection: Option<FaultInjection>,
    /// Whether Lambda stops recursive loops.
    stops_loops: bool,
    /// The limits of concurrent invocations, if there are any.
    mappings: Option<Mappings>,
    /// Whether the limits refused an invocation that is due.
    refused: bool,
    /// The chains of the work that is running, or is delivered again.
    chains: BTreeMap<Work, Chain>,
    running: FuturesUnordered<Invocation>,
    busy: BTreeSet<Work>,
    /// Due work that starts when the same work is not running already.
    due: BTreeSet<Work>,
    /// The messages that were received and are not done.
    deliveries: Deliveries,
    dead_letters: usize,
    /// Work that is due at a later time.
    later: BTreeMap<Work, Timestamp>,
    seen: u64,
    webhook: Webhook,
    /// The sources of the plan that is due.
    woken: Vec<WakeSource>,
    /// The time until which the message of a killed planner is in flight, and no plan starts.
    plans_held_until: Option<Timestamp>,
    outcomes: VecDeque<(Timestamp, Outcome)>,
    events: VecDeque<Value>,
}

impl std::fmt::Debug for Driver {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Driver").field("world", &self.world).field("busy", &self.busy).finish_non_exhaustive()
    }
}

impl Driver {
    /// Runs nodeless in a world. Logs and metrics are written to `sink`.
    pub fn new(world: World, schedule: Schedule, sink: Arc<dyn Sink>) -> Self {
        Self::set_up(world, schedule, sink, None, FunctionSettings::default())
    }

    /// Runs nodeless in a world, with settings of its functions.
    pub fn with_settings(world: World, schedule: Schedule, sink: Arc<dyn Sink>, set: FunctionSettings) -> Self {
        Self::set_up(world, schedule, sink, None, set)
    }

    /// Runs nodeless in a world with faults: calls fail, processes are killed, messages are lost.
    pub fn with_fault_injection(
        world: World,
        schedule: Schedule,
        sink: Arc<dyn Sink>,
        fault_injection: FaultInjection,
        set: FunctionSettings,
    ) -> Self {
        Self::set_up(world, schedule, sink, Some(fault_injection), set)
    }

    /// Has Lambda stop recursive loops, as it does where they are not allowed.
    #[must_use]
    pub fn stopping_loops(mut self, stops_loops: bool) -> Self {
        self.stops_loops = stops_loops;
        self
    }

    /// Limits how many invocations run at the same time, as Lambda does in an account that other clusters use too.
    #[must_use]
    pub fn in_account(mut self, account: AccountConcurrency) -> Self {
        self.mappings = Some(Mappings::new(account));
        self
    }

    fn set_up(
        world: World,
        schedule: Schedule,
        sink: Arc<dyn Sink>,
        fault_injection: Option<FaultInjection>,
        set: FunctionSettings,
    ) -> Self {
        let claims = MemoryState::default();
        let queue = MemoryQueue::new(Arc::new(world.clock().clone()));
        let functions = Functions::new(&world, &claims, queue.clone(), &sink, fault_injection.as_ref(), set);
        let now = world.now();
        Self {
            seen: world.api().revision(),
            world,
            functions: Arc::new(functions),
            set,
            claims,
            queue,
            schedule: schedule.starting(now),
            sink,
            fault_injection,
            stops_loops: false,
            mappings: None,
            refused: false,
            chains: BTreeMap::new(),
            running: FuturesUnordered::new(),
            busy: BTreeSet::new(),
            due: BTreeSet::new(),
            deliveries: Deliveries::default(),
            dead_letters: 0,
            later: BTreeMap::new(),
            webhook: Webhook::default(),
            woken: Vec::new(),
            plans_held_until: None,
            outcomes: VecDeque::new(),
            events: VecDeque::new(),
        }
    }

    /// The world.
    pub fn world(&self) -> &World {
        &self.world
    }

    /// The claims table.
    pub fn claims(&self) -> &MemoryState {
        &self.claims
    }

    /// The world, for changes between steps.
    pub fn world_mut(&mut self) -> &mut World {
        &mut self.world
    }

    /// The fault injection, if any.
    pub fn fault_injection(&self) -> Option<&FaultInjection> {
        self.fault_injection.as_ref()
    }

    /// The queues.
    pub fn queue(&self) -> &MemoryQueue {
        &self.queue
    }

    /// The number of messages that were moved to a dead-letter queue.
    pub fn dead_letters(&self) -> usize {
        self.dead_letters
    }

    /// Takes the results of the operations since the last call, with their times, oldest first.
    pub fn take_outcomes(&mut self) -> Vec<(Timestamp, Outcome)> {
        self.outcomes.drain(..).collect()
    }

    /// Takes the EventBridge events since the last call, oldest first. The interruption operation has already handled them.
    pub fn take_events(&mut self) -> Vec<Value> {
        self.events.drain(..).collect()
    }

    /// An event of EventBridge arrives in the queue of interruptions, although nothing happened in the account.
    pub fn receive_event(&mut self, event: &Value) {
        self.due.insert(Work::Interrupt(event.to_string()));
    }

    /// Whether an invocation was refused, which begins when another one has ended.
    pub fn is_refused(&self) -> bool {
        self.refused
    }

    /// Performs everything that is due now, until every operation waits.
    ///
    /// # Errors
    /// When the world fails or does not converge. A failed operation is retried and is not an error.
    pub fn converge(&mut self) -> Result<(), DriverError> {
        for _ in 0..ROUNDS {
            let moved = self.world.converge()?;
            self.notice();
            let started = self.start();
            let ended = self.poll();
            if !(moved || started || ended) {
                return Ok(());
            }
        }
        Err(DriverError::NotQuiescent { at: self.world.now() })
    }

    /// When something is due next, if anything is.
    pub fn next_wakeup(&mut self) -> Option<Timestamp> {
        let clock = self.world.clock().next_sleeper();
        let now = self.world.now();
        let held = self.plans_held_until.filter(|until| *until > now);
        let due = [self.world.next_wakeup(), clock, self.queue.next_due(), Some(self.schedule.next()), held];
        due.into_iter().flatten().chain(self.later.values().copied()).min()
    }

    /// Advances time: everything that is due until then happens at its own time. Time never decreases.
    ///
    /// # Errors
    /// As for [`Driver::converge`].
    pub fn advance_to(&mut self, target: Timestamp) -> Result<(), DriverError> {
        self.converge()?;
        while self.step(target)? {}
        self.world.clock().advance_to(target);
        self.converge()
    }

    /// Advances time until a condition holds, but not beyond `limit`. The condition is checked after each step. Returns whether
    /// it holds.
    ///
    /// # Errors
    /// As for [`Driver::converge`].
    pub fn advance_until(
        &mut self,
        limit: Timestamp,
        mut holds: impl FnMut(&Self) -> bool,
    ) -> Result<bool, DriverError> {
        self.converge()?;
        loop {
            if holds(self) {
                return Ok(true);
            }
            if !self.step(limit)? {
                self.world.clock().advance_to(limit);
                self.converge()?;
                return Ok(holds(self));
            }
        }
    }

    /// Advances to the next due time; `false` if that is after `limit`.
    fn step(&mut self, limit: Timestamp) -> Result<bool, DriverError> {
        let least = self.world.now().saturating_add(STEP).unwrap_or(Timestamp::MAX);
        let Some(next) = self.next_wakeup().map(|next| next.max(least)).filter(|next| *next <= limit) else {
            return Ok(false);
        };
        self.world.clock().advance_to(next);
        self.converge()?;
        Ok(true)
    }

    /// Collects the work that is due.
    fn notice(&mut self) {
        let now = self.world.now();
        let scheduled = self.schedule.take(now);
        let requested = self.queue.take_plan();
        for source in scheduled.heartbeat.then_some(WakeSource::Heartbeat).into_iter().chain(requested) {
            self.woken.push(source);
            self.due.insert(Work::Plan);
        }
        if scheduled.sweep {
            self.due.insert(Work::Sweep);
        }
        if scheduled.refresh {
            // DynamoDB deletes expired items at any time.
            self.claims.table().delete_expired(now);
        }
        if scheduled.refresh || self.queue.take_resolve() {
            self.due.insert(Work::Refresh);
        }
        self.due.extend(self.queue.take_shards().into_iter().map(Work::Shard));
        self.due.extend(self.queue.take_node_classes().into_iter().map(Work::Validate));
        for event in self.world.take_events() {
            // Events of ARC start a sweep, as its schedule does.
            let of_arc = event["source"] == "aws.arc-zonal-shift";
            let work = if of_arc { Work::Sweep } else { Work::Interrupt(event.to_string()) };
            self.deliver(&work, now);
            self.events.push_back(event);
            if self.events.len() > OUTCOMES {
                self.events.pop_front();
            }
        }
        self.watch(now);
        let due: Vec<Work> = self.later.iter().filter(|(_, at)| **at <= now).map(|(work, _)| work.clone()).collect();
        for work in due {
            self.later.remove(&work);
            self.receive(work);
        }
    }

    /// Delivers a message from outside, once unless fault injection changes that.
    fn deliver(&mut self, work: &Work, now: Timestamp) {
        let Fate(copies) = self.fault_injection.as_ref().map_or_else(Fate::default, FaultInjection::fate);
        for delay in copies {
            match now.checked_add(delay) {
                Ok(at) if at > now => drop(self.later.insert(work.clone(), at)),
                _ => self.receive(work.clone()),
            }
        }
    }

    /// A message from outside is due. Messages for the planner are from the webhook.
    fn receive(&mut self, work: Work) {
        if work == Work::Plan {
            self.woken.push(self.webhook.take_source());
        }
        self.due.insert(work);
    }

    /// Reads the changes of the cluster that match the webhook's match conditions, and wakes the planner as the wake function does:
    /// calls that follow a message within an interval send none.
    fn watch(&mut self, now: Timestamp) {
        let current = self.world.api().revision();
        if current == self.seen {
            return;
        }
        let changes = self.world.api().watch_since(None, self.seen).unwrap_or_default();
        self.seen = current;
        // The API server ignores that a call of the webhook fails.
        let fails = self.fault_injection.as_ref().is_some_and(|faults| faults.fails("wake"));
        if !fails && self.webhook.requests_plan(&changes, now) {
            self.deliver(&Work::Plan, now);
        }
    }

    /// Starts due work that is not running already. Returns whether there was any.
    fn start(&mut self) -> bool {
        let plans_held = self.plans_held_until.is_some_and(|until| until > self.world.now());
        let mut started = false;
        self.refused = false;
        for work in &self.due.clone() {
            let runs = self.busy.iter().any(|busy| busy.has_subject_of(work));
            if runs || (plans_held && *work == Work::Plan) {
                continue;
            }
            if self.mappings.as_ref().is_some_and(|mappings| !mappings.admits(work.function())) {
                self.refused = true;
                continue;
            }
            started = true;
            self.due.remove(work);
            self.invoke(work.clone());
        }
        started
    }

    /// Invokes the function of this work, unless Lambda stops the chain that led to it.
    fn invoke(&mut self, work: Work) {
        let sent = work.message().map(|message| self.queue.take_chain(&message));
        // The message of a stopped or killed invocation is received again with its chain.
        let chain = self.chains.remove(&work).or(sent).unwrap_or_default();
        let Some(invoked) = chain.invoking(work.function()).or_else(|| (!self.stops_loops).then(Chain::default)) else {
            self.chains.insert(work.clone(), chain);
            self.end(work, Outcome::Stopped);
            return;
        };
        if !self.may_overlap(&work) {
            self.busy.insert(work.clone());
        }
        if let Some(mappings) = &mut self.mappings {
            mappings.begin(work.function());
        }
        let woken = if work == Work::Plan { std::mem::take(&mut self.woken) } else { Vec::new() };
        self.chains.insert(work.clone(), chain);
        let (queue, clock) = (self.queue.clone(), self.world.clock().clone());
        let environment = Environment { queue, clock, fault_injection: self.fault_injection.clone() };
        self.running.push(Invocation::new(self.functions.clone(), work, woken, invoked, environment));
    }

    /// Whether the same work may run twice at once. With fault injection it may, as in AWS: the claims queue may deliver two
    /// messages about the same shard to two processes, and a sweep may take longer than the minute until the next one. Plans run
    /// one after the other because of their FIFO queue, and so do refreshes, which have one process.
    fn may_overlap(&self, work: &Work) -> bool {
        self.fault_injection.is_some() && !matches!(work, Work::Plan | Work::Refresh)
    }

    /// Later processes start with empty memory. Running processes keep theirs.
    fn forget(&mut self) {
        let (claims, queue) = (self.claims.clone(), self.queue.clone());
        self.functions =
            Arc::new(Functions::new(&self.world, &claims, queue, &self.sink, self.fault_injection.as_ref(), self.set));
    }

    /// Polls the operations until all of them wait. Returns whether any ended.
    fn poll(&mut self) -> bool {
        let mut context = Context::from_waker(Waker::noop());
        let mut ended = false;
        while let Poll::Ready(Some((work, outcome))) = Pin::new(&mut self.running).poll_next(&mut context) {
            ended = true;
            if let Some(mappings) = &mut self.mappings {
                mappings.end(work.function());
            }
            self.end(work, outcome);
        }
        ended
    }

    /// Work has ended: its message is deleted, received again, or moved to the dead-letter queue.
    fn end(&mut self, work: Work, outcome: Outcome) {
        let now = self.world.now();
        self.busy.remove(&work);
        if matches!(outcome, Outcome::Ended(_)) {
            self.forget();
        }
        let delivery = self.deliveries.ended(&work, &outcome, now);
        self.dead_letters += usize::from(matches!(delivery, Delivery::Dead(_)));
        if !matches!(delivery, Delivery::Again(_)) {
            self.chains.remove(&work);
        }
        match (delivery, &work) {
            (Delivery::Done, _) => {}
            (Delivery::Again(at), Work::Plan) => {
                self.plans_held_until = Some(at);
                self.due.insert(work);
            }
            // The queue is held until the message leaves it.
            (Delivery::Dead(at), Work::Plan) => self.plans_held_until = Some(at),
            (Delivery::Again(at), _) => drop(self.later.insert(work, at)),
            (Delivery::Dead(_), _) => {}
        }
        if let Some(why) = outcome.failure() {
            if self.fault_injection.is_some() {
                emit(self.sink.as_ref(), now, &InjectedFailure { why: &why });
            } else {
                emit(self.sink.as_ref(), now, &OperationFailed { why: &why });
            }
        }
        self.outcomes.push_back((now, outcome));
        if self.outcomes.len() > OUTCOMES {
            self.outcomes.pop_front();
        }
    }
}
