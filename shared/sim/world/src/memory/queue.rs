//! The queues in memory.

use super::{Chain, Message};
use async_trait::async_trait;
use jiff::Timestamp;
use nodeless_ports::queue::{NodeClassGeneration, ShardMessage, WAKE_INTERVAL, WakeSource};
use nodeless_ports::{Clock, PortError, Queue};
use std::collections::{BTreeMap, HashMap};
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
    planner: Option<(WakeSource, Chain)>,
    /// The interval of each source's last wake-up, which SQS uses for deduplication.
    planner_intervals: HashMap<WakeSource, i128>,
    /// When to wake the planner later.
    planner_later: BTreeMap<Timestamp, Chain>,
    shards: BTreeMap<(Timestamp, ShardMessage), Chain>,
    node_classes: BTreeMap<(Timestamp, String), Chain>,
    /// The chain of a message to resolve EC2NodeClasses, if there is one.
    resolve: Option<Chain>,
    /// The chain of the invocation that is sending.
    sender: Chain,
    /// The chains of the messages that were taken.
    taken: BTreeMap<Message, Chain>,
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
        let state = &mut *self.lock();
        let chain = state.taken.entry(Message::Plan).or_default();
        let mut taken = None;
        while let Some(first) = state.planner_later.first_entry().filter(|first| *first.key() <= now) {
            chain.add(&first.remove());
            taken = Some(WakeSource::Planner);
        }
        if let Some((source, own)) = state.planner.take() {
            chain.add(&own);
            taken = Some(source);
        }
        taken
    }

    /// The chain of the messages with this content that were taken since the last call.
    #[must_use]
    pub fn take_chain(&self, message: &Message) -> Chain {
        self.lock().taken.remove(message).unwrap_or_default()
    }

    /// Messages that are sent from now on belong to this chain.
    pub fn send_in(&self, chain: &Chain) {
        self.lock().sender.clone_from(chain);
    }

    /// Takes the messages about shards that are due, the longest due first, each once.
    #[must_use]
    pub fn take_shards(&self) -> Vec<ShardMessage> {
        let state = &mut *self.lock();
        let due = take_due(&mut state.shards, self.clock.now());
        due.into_iter().map(|(message, chain)| state.keep(message, Message::Shard(message), &chain)).collect()
    }

    /// The number of messages about claims in the queue, both due and later ones.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.lock().shards.len()
    }

    /// Takes the EC2NodeClasses to validate now, each once.
    #[must_use]
    pub fn take_node_classes(&self) -> Vec<String> {
        let state = &mut *self.lock();
        let due = take_due(&mut state.node_classes, self.clock.now());
        due.into_iter().map(|(name, chain)| state.keep(name.clone(), Message::NodeClass(name), &chain)).collect()
    }

    /// Takes the request to resolve EC2NodeClasses, if any.
    #[must_use]
    pub fn take_resolve(&self) -> bool {
        let state = &mut *self.lock();
        state.resolve.take().map(|chain| state.keep((), Message::Resolve, &chain)).is_some()
    }

    /// When the next message is due: now, if the planner is to be woken or EC2NodeClasses are to be resolved.
    #[must_use]
    pub fn next_due(&self) -> Option<Timestamp> {
        let state = self.lock();
        if state.planner.is_some() || state.resolve.is_some() {
            return Some(self.clock.now());
        }
        let classes = state.node_classes.first_key_value().map(|((at, _), _)| *at);
        let shards = state.shards.first_key_value().map(|((at, _), _)| *at);
        let plans = state.planner_later.first_key_value().map(|(at, _)| *at);
        [classes, shards, plans].into_iter().flatten().min()
    }

    /// Drops all messages.
    pub fn clear(&self) {
        *self.lock() = State::default();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Keeps the chain of a message that is taken.
    fn keep<T>(&mut self, taken: T, message: Message, chain: &Chain) -> T {
        self.taken.entry(message).or_default().add(chain);
        taken
    }
}

/// Takes what is due now, the longest due first, each name once, with the chain of all its messages.
fn take_due<T: Clone + Ord>(waiting: &mut BTreeMap<(Timestamp, T), Chain>, now: Timestamp) -> Vec<(T, Chain)> {
    let mut due: Vec<(T, Chain)> = Vec::new();
    while let Some(first) = waiting.first_entry().filter(|first| first.key().0 <= now) {
        let ((_, name), chain) = first.remove_entry();
        match due.iter_mut().find(|(known, _)| *known == name) {
            Some((_, all)) => all.add(&chain),
            None => due.push((name, chain)),
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
            let mut chain = state.sender.clone();
            if let Some((_, waiting)) = &state.planner {
                chain.add(waiting);
            }
            state.planner = Some((source, chain));
        }
        Ok(())
    }

    async fn wake_planner_after(&self, delay: Duration) -> Result<(), PortError> {
        let at = self.clock.now().checked_add(delay.min(LONGEST_DELAY)).unwrap_or(Timestamp::MAX);
        let state = &mut *self.lock();
        state.planner_later.entry(at).or_default().add(&state.sender);
        Ok(())
    }

    async fn check_node_class(&self, name: &str, delay: Duration) -> Result<(), PortError> {
        let at = self.clock.now().checked_add(delay.min(LONGEST_DELAY)).unwrap_or(Timestamp::MAX);
        let state = &mut *self.lock();
        state.node_classes.entry((at, name.to_owned())).or_default().add(&state.sender);
        Ok(())
    }

    async fn wake_shard(&self, message: ShardMessage, delay: Duration) -> Result<(), PortError> {
        let at = self.clock.now().checked_add(delay.min(LONGEST_DELAY)).unwrap_or(Timestamp::MAX);
        let state = &mut *self.lock();
        state.shards.entry((at, message)).or_default().add(&state.sender);
        Ok(())
    }

    async fn resolve_node_classes(&self, changed: &[NodeClassGeneration]) -> Result<(), PortError> {
        let sent = (changed.to_vec(), self.clock.now().as_second() / 60);
        let mut state = self.lock();
        if state.resolve_minute.as_ref() != Some(&sent) {
            let State { resolve, sender, .. } = &mut *state;
            resolve.get_or_insert_default().add(sender);
            state.resolve_minute = Some(sent);
        }
        Ok(())
    }
}
