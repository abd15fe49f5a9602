//! A clock that advances by calls, and wakes the futures that sleep on it.

use async_trait::async_trait;
use jiff::Timestamp;
use nodeless_ports::Clock;
use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

#[derive(Debug)]
struct State {
    now: Timestamp,
    /// The sleeping futures by wake-up time; the number distinguishes those with the same time.
    sleepers: BTreeMap<(Timestamp, u64), Waker>,
    next_number: u64,
}

/// The time of a world. Clones share it.
#[derive(Clone, Debug)]
pub struct WorldClock {
    state: Arc<Mutex<State>>,
}

impl WorldClock {
    /// A clock with this time.
    pub fn new(now: Timestamp) -> Self {
        let state = State { now, sleepers: BTreeMap::new(), next_number: 0 };
        Self { state: Arc::new(Mutex::new(state)) }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The current time.
    pub fn time(&self) -> Timestamp {
        self.lock().now
    }

    /// Advances the time and wakes the futures that are due, the earliest first. An earlier time changes nothing.
    pub fn advance_to(&self, now: Timestamp) {
        let mut state = self.lock();
        state.now = state.now.max(now);
        let now = state.now;
        let mut due = Vec::new();
        while let Some(first) = state.sleepers.first_entry().filter(|first| first.key().0 <= now) {
            due.push(first.remove());
        }
        drop(state);
        due.into_iter().for_each(Waker::wake);
    }

    /// When the next sleeping future is due.
    pub fn next_sleeper(&self) -> Option<Timestamp> {
        self.lock().sleepers.keys().next().map(|(at, _)| *at)
    }
}

struct Sleep {
    clock: WorldClock,
    until: Timestamp,
    number: Option<u64>,
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let this = &mut *self;
        let mut state = this.clock.lock();
        if state.now >= this.until {
            return Poll::Ready(());
        }
        let number = this.number.unwrap_or(state.next_number);
        if this.number.is_none() {
            state.next_number += 1;
        }
        state.sleepers.insert((this.until, number), context.waker().clone());
        drop(state);
        this.number = Some(number);
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        if let Some(number) = self.number {
            self.clock.lock().sleepers.remove(&(self.until, number));
        }
    }
}

#[async_trait]
impl Clock for WorldClock {
    fn now(&self) -> Timestamp {
        self.time()
    }

    async fn sleep(&self, duration: Duration) {
        let until = self.time().saturating_add(duration).unwrap_or(Timestamp::MAX);
        Sleep { clock: self.clone(), until, number: None }.await;
    }
}
