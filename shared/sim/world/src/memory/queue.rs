//! The queues in memory.

use async_trait::async_trait;
use jiff::Timestamp;
use nodeless_ports::queue::{NodeClassGeneration, ShardMessage, WAKE_INTERVAL, WakeSource};
use nodeless_ports::{Clock, PortError, Queue};
use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The maximum delay of a message, as in SQS.
const LONGEST_DELAY: Duration = Duration::from_mins(15);

/// The plan queue, the claims queue and the catalog queue of one cluster. Clones share them.
///
/// One plan handles all waiting wake-ups of the planner, and SQS drops a second wake-up with the same source and interval, even
/// after the first was handled. The claims queue contains each shard of claims, and each later plan, once for each due time.
#[derive(Clone)]
pub struct MemoryQueue {
    state: Arc<Mutex<State>>,
    clock: Arc<dyn Clock>,
}

#[derive(Debug, Default)]
struct State {
    planner: Option<WakeSource>,
    /// The interval of each source's last wake-up, which SQS uses for deduplication.
    planner_intervals: HashMap<WakeSource, i128>,
    /// When to wake the planner later.
    planner_later: BTreeSet<Timestamp>,
    shards: BTreeSet<(Timestamp, ShardMessage)>,
    node_classes: BTreeSet<(Timestamp, String)>,
    /// Whether to resolve EC2NodeClasses.
    resolve: bool,
    /// The last message that requested it, and its minute, which SQS uses for deduplication.
    resolve_minute: Option<(Vec<NodeClassGeneration>, i64)>,
}

impl MemoryQueue {
    /// Empty queues on this clock.
    #[must_use]
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self { state: Arc::default(), clock }
    }

    /// Takes the wake-up of the planner, if any.
    #[must_use]
    pub fn take_plan(&self) -> Option<WakeSource> {
        let now = self.clock.now();
        let mut state = self.lock();
        let waiting = state.planner_later.len();
        state.planner_later.retain(|at| *at > now);
        let later = (state.planner_later.len() < waiting).then_some(WakeSource::Planner);
        state.planner.take().or(later)
    }

    /// Takes the messages about shards that are due, the longest due first, each once.
    #[must_use]
    pub fn take_shards(&self) -> Vec<ShardMessage> {
        take_due(&mut self.lock().shards, self.clock.now())
    }

    /// The number of messages about claims in the queue, both due and later ones.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.lock().shards.len()
    }

    /// Takes the EC2NodeClasses to validate now, each once.
    #[must_use]
    pub fn take_node_classes(&self) -> Vec<String> {
        take_due(&mut self.lock().node_classes, self.clock.now())
    }

    /// Takes the request to resolve EC2NodeClasses, if any.
    #[must_use]
    pub fn take_resolve(&self) -> bool {
        std::mem::take(&mut self.lock().resolve)
    }

    /// When the next message is due: now, if the planner is to be woken or EC2NodeClasses are to be resolved.
    #[must_use]
    pub fn next_due(&self) -> Option<Timestamp> {
        let state = self.lock();
        let later = [state.node_classes.first().map(|(at, _)| *at), state.shards.first().map(|(at, _)| *at)];
        let later = later.into_iter().flatten();
        if state.planner.is_some() || state.resolve {
            Some(self.clock.now())
        } else {
            later.chain(state.planner_later.first().copied()).min()
        }
    }

    /// Drops all messages.
    pub fn clear(&self) {
        *self.lock() = State::default();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Takes what is due now, the longest due first, each name once.
fn take_due<T: Clone + Ord>(waiting: &mut BTreeSet<(Timestamp, T)>, now: Timestamp) -> Vec<T> {
    let mut due = Vec::new();
    while let Some(first) = waiting.first().filter(|(at, _)| *at <= now).cloned() {
        waiting.remove(&first);
        if !due.contains(&first.1) {
            due.push(first.1);
        }
    }
    due
}

#[async_trait]
impl Queue for MemoryQueue {
    async fn wake_planner(&self, source: WakeSource) -> Result<(), PortError> {
        let interval = self.clock.now().as_duration().as_millis() / WAKE_INTERVAL.as_millis().cast_signed();
        let mut state = self.lock();
        if state.planner_intervals.insert(source, interval) != Some(interval) {
            state.planner = Some(source);
        }
        Ok(())
    }

    async fn wake_planner_after(&self, delay: Duration) -> Result<(), PortError> {
        let at = self.clock.now().checked_add(delay.min(LONGEST_DELAY)).unwrap_or(Timestamp::MAX);
        self.lock().planner_later.insert(at);
        Ok(())
    }

    async fn check_node_class(&self, name: &str, delay: Duration) -> Result<(), PortError> {
        let at = self.clock.now().checked_add(delay.min(LONGEST_DELAY)).unwrap_or(Timestamp::MAX);
        self.lock().node_classes.insert((at, name.to_owned()));
        Ok(())
    }

    async fn wake_shard(&self, message: ShardMessage, delay: Duration) -> Result<(), PortError> {
        let at = self.clock.now().checked_add(delay.min(LONGEST_DELAY)).unwrap_or(Timestamp::MAX);
        self.lock().shards.insert((at, message));
        Ok(())
    }

    async fn resolve_node_classes(&self, changed: &[NodeClassGeneration]) -> Result<(), PortError> {
        let sent = (changed.to_vec(), self.clock.now().as_second() / 60);
        let mut state = self.lock();
        if state.resolve_minute.as_ref() != Some(&sent) {
            state.resolve = true;
            state.resolve_minute = Some(sent);
        }
        Ok(())
    }
}
