//! Reads a cluster: a task for each kind lists and watches it, and decodes its objects.

use crate::error::CliError;
use jiff::Timestamp;
use nodeless_kubernetes::follow::{Followed, Item, Seen, follow};
use nodeless_kubernetes::{Connection, export};
use nodeless_ports::{ErrorKind, PortError};
use nodeless_view::{Amount, Cluster, DecodeError, ShownKind, Store, Update};
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::task::JoinSet;
use tokio::time::sleep;

/// The path of the use of nodes.
const METRICS: &str = "/apis/metrics.k8s.io/v1beta1/nodes";
/// How often the use of nodes is read: metrics-server measures it every 15 seconds.
const METRICS_INTERVAL: Duration = Duration::from_secs(15);
/// The wait before a kind is read again that could not be read.
const RETRY: Duration = Duration::from_secs(2);
const LONGEST_RETRY: Duration = Duration::from_secs(30);
/// The number of changes that the channel holds. Tasks wait while it is full, so that memory is bounded.
const BUFFER: usize = 4096;

/// What a task reports.
#[derive(Debug)]
enum Message<O> {
    Update(Update<O>),
    /// The API server answered without a change of a kind.
    Current(ShownKind),
    /// A kind that is needed could not be read.
    Failed(ShownKind, PortError),
}

/// The tasks that read a cluster. They end when this is dropped.
#[derive(Debug)]
pub(crate) struct Source<S: Store = Cluster> {
    messages: Receiver<Message<S::Object>>,
    _tasks: JoinSet<()>,
    /// The kinds, and the use of nodes, that have not reported yet.
    unread: BTreeSet<ShownKind>,
    usage_unread: bool,
    /// The kinds that are needed and cannot be read now, and why.
    failing: BTreeMap<ShownKind, String>,
    /// When the API server last answered, by kind.
    answered: BTreeMap<ShownKind, Timestamp>,
}

impl<S: Store> Source<S> {
    /// Starts to read.
    pub(crate) fn start(connection: &Connection) -> Self {
        let (sender, messages) = channel(BUFFER);
        let mut tasks = JoinSet::new();
        for kind in ShownKind::ALL {
            tasks.spawn(read::<S>(connection.clone(), kind, sender.clone()));
        }
        tasks.spawn(read_usage(connection.clone(), sender));
        let unread = ShownKind::ALL.into_iter().collect();
        Self {
            messages,
            _tasks: tasks,
            unread,
            usage_unread: true,
            failing: BTreeMap::new(),
            answered: BTreeMap::new(),
        }
    }

    /// Waits until everything has been read once.
    ///
    /// # Errors
    /// When nodes or pods cannot be read.
    pub(crate) async fn first(&mut self, cluster: &mut S) -> Result<(), CliError> {
        while self.usage_unread || !self.unread.is_empty() {
            match self.messages.recv().await {
                Some(Message::Failed(kind, error)) if self.unread.contains(&kind) => return Err(error.into()),
                Some(message) => self.take(message, cluster),
                None => break,
            }
        }
        Ok(())
    }

    /// Waits for a change, and applies it and those that wait.
    pub(crate) async fn changed(&mut self, cluster: &mut S) {
        let Some(message) = self.messages.recv().await else { return };
        self.take(message, cluster);
        for _ in 0..BUFFER {
            let Ok(message) = self.messages.try_recv() else { return };
            self.take(message, cluster);
        }
    }

    /// Why the view is out of date, if it is.
    pub(crate) fn trouble(&self) -> Option<String> {
        self.failing.iter().next().map(|(kind, why)| format!("{}s cannot be read, trying again: {why}", kind.name()))
    }

    /// When the API server last answered with the objects of a kind, a change of them, or that nothing changed.
    pub(crate) const fn answered(&self) -> &BTreeMap<ShownKind, Timestamp> {
        &self.answered
    }

    fn take(&mut self, message: Message<S::Object>, cluster: &mut S) {
        let update = match message {
            Message::Failed(kind, error) => {
                self.failing.insert(kind, error.to_string());
                return;
            }
            Message::Current(kind) => {
                self.answered.insert(kind, Timestamp::now());
                return;
            }
            Message::Update(update) => update,
        };
        if let Some(kind) = update.kind() {
            self.answered.insert(kind, Timestamp::now());
        }
        match &update {
            Update::Listed { kind, .. } => {
                self.unread.remove(kind);
                self.failing.remove(kind);
            }
            Update::Missing { kind, .. } => drop(self.unread.remove(kind)),
            Update::Usage(_) => self.usage_unread = false,
            Update::Present { .. } | Update::Absent { .. } => {}
        }
        cluster.apply(update);
    }
}

/// Reads a kind until the receiver is gone.
async fn read<S: Store>(connection: Connection, kind: ShownKind, sender: Sender<Message<S::Object>>) {
    let mut pause = RETRY;
    loop {
        // `follow` calls back without waiting, so what it reports is passed on by a second task.
        let (updates, mut pending) = tokio::sync::mpsc::unbounded_channel();
        let forward = sender.clone();
        let passed = tokio::spawn(async move {
            let mut any = false;
            while let Some(message) = pending.recv().await {
                any = true;
                if forward.send(message).await.is_err() {
                    break;
                }
            }
            any
        });
        let followed = Followed { kind: kind.name(), path: kind.path(), fields: kind.fields() };
        let mut listed = Vec::new();
        let error = follow(&connection, followed, |seen| {
            let message = match seen {
                Seen::ListBegins => return listed.clear(),
                Seen::Listed(item) => return listed.push(decoded::<S>(kind, item)),
                Seen::ListEnds => Message::Update(Update::Listed { kind, objects: std::mem::take(&mut listed) }),
                Seen::Present(item) => {
                    let (namespace, name, object) = decoded::<S>(kind, item);
                    Message::Update(Update::Present { kind, namespace, name, object })
                }
                Seen::Absent(Item { namespace, name, .. }) => Message::Update(Update::Absent { kind, namespace, name }),
                Seen::Current => Message::Current(kind),
            };
            // If the receiver is gone, so is this task.
            let _ended = updates.send(message);
        });
        let error = error.await;
        drop(updates);
        pause = if passed.await.unwrap_or(false) { RETRY } else { (pause * 2).min(LONGEST_RETRY) };
        let failed = match error.kind {
            ErrorKind::NotFound | ErrorKind::Denied if !kind.is_essential() => {
                Message::Update(Update::Missing { kind, why: error.message })
            }
            _ => Message::Failed(kind, error),
        };
        if sender.send(failed).await.is_err() {
            return;
        }
        sleep(pause).await;
    }
}

/// The namespace and name of an object, and what is kept of it.
type Decoded<S> = (String, String, Result<<S as Store>::Object, DecodeError>);

fn decoded<S: Store>(kind: ShownKind, item: Item<'_>) -> Decoded<S> {
    (item.namespace, item.name, S::decode(kind, item.json))
}

#[derive(Deserialize)]
struct NodeMetrics {
    metadata: Named,
    usage: Used,
}

#[derive(Deserialize)]
struct Named {
    name: String,
}

#[derive(Deserialize)]
struct Used {
    cpu: nodeless_api::Quantity,
    memory: nodeless_api::Quantity,
}

/// Reads the use of nodes until the receiver is gone. It is optional: clusters without metrics-server have none.
async fn read_usage<O>(connection: Connection, sender: Sender<Message<O>>) {
    loop {
        let usage = match export::list(&connection, "NodeMetrics", METRICS).await {
            Ok(objects) => Some(objects.iter().filter_map(|object| used(object.get())).collect()),
            Err(_) => None,
        };
        if sender.send(Message::Update(Update::Usage(usage))).await.is_err() {
            return;
        }
        sleep(METRICS_INTERVAL).await;
    }
}

/// The use of a node; `None` if it cannot be decoded, as if it was not reported.
fn used(object: &str) -> Option<(String, Amount)> {
    let NodeMetrics { metadata, usage } = serde_json::from_str(object).ok()?;
    Some((metadata.name, Amount::new(usage.cpu.0.parse().ok()?, usage.memory.0.parse().ok()?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_use_of_a_node_is_decoded() {
        let metrics = r#"{"metadata":{"name":"a"},"timestamp":"2026-01-01T00:00:00Z","window":"20s","usage":{"cpu":"1500000000n","memory":"1Mi"}}"#;
        let amount = Amount { cpu_millicores: 1500, memory_bytes: 1 << 20 };
        assert_eq!(used(metrics), Some(("a".to_owned(), amount)));
        assert_eq!(used(r#"{"metadata":{"name":"a"},"usage":{"cpu":"many","memory":"1"}}"#), None);
    }
}
