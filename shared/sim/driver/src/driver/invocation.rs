//! One invocation of a function, which fault injection may kill.

use super::{Functions, Outcome, Work, timeouts};
use futures::future::BoxFuture;
use nodeless_ports::queue::WakeSource;
use nodeless_world::WorldClock;
use nodeless_world::fault_injection::FaultInjection;
use nodeless_world::memory::{Chain, Function, MemoryQueue, Message};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

/// The parts of the world in which functions run.
pub(crate) struct Environment {
    pub(crate) queue: MemoryQueue,
    pub(crate) clock: WorldClock,
    pub(crate) fault_injection: Option<FaultInjection>,
}

pub(crate) struct Invocation {
    work: Work,
    /// The chain of messages that led to it, itself included.
    chain: Chain,
    queue: MemoryQueue,
    fault_injection: Option<FaultInjection>,
    future: BoxFuture<'static, Outcome>,
}

impl Invocation {
    /// `woken` are the sources of a plan.
    pub(crate) fn new(
        functions: Arc<Functions>,
        work: Work,
        woken: Vec<WakeSource>,
        chain: Chain,
        environment: Environment,
    ) -> Self {
        let Environment { queue, clock, fault_injection } = environment;
        let own = work.clone();
        let has_timeout = fault_injection.as_ref().is_none_or(|faults| timeouts::apply(faults.rates()));
        let deadline = has_timeout.then(|| timeouts::deadline(own.function(), &clock));
        let (function, name) = (own.function(), own.name());
        let future = async move {
            match &own {
                Work::Plan => functions.plan(deadline, &woken).await,
                Work::Shard(message) => functions.reconcile(*message).await,
                Work::Sweep => functions.sweep().await,
                Work::Refresh => functions.refresh().await,
                Work::Validate(name) => functions.validate(name).await,
                Work::Interrupt(event) => functions.interrupt(event).await,
            }
        };
        let future: BoxFuture<'static, Outcome> = match has_timeout {
            true => Box::pin(timeouts::within(function, name, clock, future)),
            false => Box::pin(future),
        };
        Self { work, chain, queue, fault_injection, future }
    }
}

impl Future for Invocation {
    type Output = (Work, Outcome);

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        if let Some(fault_injection) = &self.fault_injection {
            fault_injection.enter();
        }
        self.queue.send_in(&self.chain);
        let polled = self.future.as_mut().poll(context);
        self.queue.send_in(&Chain::default());
        if self.fault_injection.as_ref().is_some_and(FaultInjection::leave) {
            return Poll::Ready((self.work.clone(), Outcome::Ended(self.work.name())));
        }
        polled.map(|outcome| (self.work.clone(), outcome))
    }
}

impl Work {
    /// Whether this is the same work as another, for the same object.
    pub(crate) fn has_subject_of(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Shard(one), Self::Shard(other)) => one.shard == other.shard,
            _ => self == other,
        }
    }

    /// The function that does it.
    pub(crate) fn function(&self) -> Function {
        match self {
            Self::Plan => Function::Planner,
            Self::Shard(_) | Self::Sweep | Self::Validate(_) => Function::Lifecycle,
            Self::Refresh => Function::Catalog,
            Self::Interrupt(_) => Function::Interruption,
        }
    }

    /// The message of a function that requests it, if it can be requested by one.
    pub(crate) fn message(&self) -> Option<Message> {
        match self {
            Self::Plan => Some(Message::Plan),
            Self::Shard(message) => Some(Message::Shard(*message)),
            Self::Validate(name) => Some(Message::NodeClass(name.clone())),
            Self::Refresh => Some(Message::Resolve),
            Self::Sweep | Self::Interrupt(_) => None,
        }
    }

    fn name(&self) -> &'static str {
        match self {
            Self::Plan => "a plan",
            Self::Shard(_) => "reconciling a shard of claims",
            Self::Sweep => "a sweep",
            Self::Refresh => "a refresh",
            Self::Validate(_) => "a dry run",
            Self::Interrupt(_) => "an interruption",
        }
    }
}
