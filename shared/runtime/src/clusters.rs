//! The clusters that an execution environment serves: that of its own deployment, and those that share its functions.
//!
//! Each cluster has its own queues, so the queue of an event identifies the cluster. Connections are made and kept for each cluster
//! separately: a cluster that cannot be reached affects only its own messages. After a call has failed, the next event finds out whether
//! the cluster was created again under its name, and has another endpoint.

use crate::log_lines::{ClusterUnreadable, ClustersNotRead};
use crate::{ConnectError, Deadline, Environment, EnvironmentError, Link};
use aws_lambda_events::event::sqs::SqsEvent;
use nodeless_state::{CLUSTERS, ServedCluster, served_clusters};
use nodeless_storage::DynamoTable;
use nodeless_telemetry::log;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::OnceCell;

/// How long the registered clusters are used before they are read again: a change by Terraform takes effect within this time.
const READ_AGAIN_AFTER: Duration = Duration::from_secs(60);

/// What identifies the cluster of an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// The cluster of this deployment.
    Own,
    /// The cluster of the queue with this ARN.
    Queue(String),
    /// The cluster with this name.
    Cluster(String),
}

/// An event that no configured cluster sent. Every event like it fails until the configuration is corrected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigurationError {
    /// A variable is missing or invalid.
    #[error(transparent)]
    Environment(#[from] EnvironmentError),
    /// No cluster is registered with the queue or the name.
    #[error(
        "{0} belongs to no cluster that this function serves: its module needs shared_functions, the output of the module of this \
         function"
    )]
    NotServed(String),
    /// Lambda invokes a function for one queue at a time.
    #[error("the event has messages of several queues: {0}")]
    SeveralQueues(String),
}

/// Why a cluster is not served at present.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Unserved {
    /// The configuration is wrong.
    #[error(transparent)]
    Configuration(#[from] ConfigurationError),
    /// A service did not answer.
    #[error("{why}")]
    Unreachable {
        /// The cluster, if it is known.
        cluster: Option<String>,
        /// The error.
        why: String,
    },
}

impl From<EnvironmentError> for Unserved {
    fn from(error: EnvironmentError) -> Self {
        Self::Configuration(error.into())
    }
}

/// A cluster whose connections exist.
#[derive(Debug)]
pub struct Connected<T> {
    /// The name of the cluster.
    pub name: String,
    /// The connections.
    pub state: Arc<T>,
}

impl Source {
    /// The cluster of an event of a queue. Events without the ARN of a queue are those that a user sends.
    ///
    /// # Errors
    /// When the messages are of several queues.
    pub fn of_event(event: &SqsEvent) -> Result<Self, ConfigurationError> {
        let queues: BTreeSet<&str> =
            event.records.iter().filter_map(|message| message.event_source_arn.as_deref()).collect();
        let mut queues = queues.into_iter();
        match (queues.next(), queues.next()) {
            (None, _) => Ok(Self::Own),
            (Some(queue), None) => Ok(Self::Queue(queue.to_owned())),
            (Some(one), Some(other)) => Err(ConfigurationError::SeveralQueues(format!("{one}, {other}"))),
        }
    }

    /// [`Self::Own`] if this is the queue or cluster of the deployment, otherwise unchanged. A deployment whose own queue is not known
    /// has one cluster only.
    fn relative_to(self, own: &Environment<'_>, queue_variable: &str) -> Self {
        let is_own = match &self {
            Self::Own => true,
            Self::Queue(arn) => own.optional(queue_variable).is_none_or(|url| {
                let name = |address: &str, separator| address.rsplit(separator).next().map(str::to_owned);
                name(&url, '/') == name(arn, ':')
            }),
            Self::Cluster(name) => own.cluster_name().as_ref() == Ok(name),
        };
        if is_own { Self::Own } else { self }
    }
}

/// The clusters of an execution environment, with what is kept for each.
#[derive(Debug)]
pub struct Clusters<T> {
    function: &'static str,
    queue_variable: &'static str,
    registry: OnceCell<DynamoTable>,
    known: Mutex<Known<Made<T>>>,
}

/// The name of a registered cluster; `None` for the deployment's own.
type Key = Option<String>;

#[derive(Debug)]
struct Known<T> {
    read: Option<Instant>,
    registered: Vec<ServedCluster>,
    kept: BTreeMap<Key, Kept<T>>,
}

#[derive(Debug)]
struct Kept<T> {
    variables: BTreeMap<String, String>,
    state: State<T>,
}

/// What is kept for a cluster, once it is made.
type State<T> = Arc<OnceCell<T>>;

/// The connections of a cluster, and what shows whether they still lead to it.
type Made<T> = (Arc<T>, Link);

impl<T> Known<T> {
    fn find(&self, predicate: impl Fn(&ServedCluster) -> bool) -> Option<ServedCluster> {
        self.registered.iter().find(|cluster| predicate(cluster)).cloned()
    }

    /// The connections of a cluster. Those that were made with other settings are dropped.
    fn state(&mut self, key: Key, variables: &BTreeMap<String, String>) -> State<T> {
        let new = || Kept { variables: variables.clone(), state: Arc::default() };
        let kept = self.kept.entry(key).or_insert_with(new);
        if kept.variables != *variables {
            *kept = new();
        }
        Arc::clone(&kept.state)
    }

    /// Drops the connections of a cluster, which are then made again.
    fn renew(&mut self, key: &Key) -> State<T> {
        let state = State::default();
        if let Some(kept) = self.kept.get_mut(key) {
            kept.state = Arc::clone(&state);
        }
        state
    }
}

impl<T> Clusters<T> {
    /// Clusters of which nothing is known yet, for the named function, whose own queue is in this variable.
    #[must_use]
    pub fn new(function: &'static str, queue_variable: &'static str) -> Self {
        let known = Known { read: None, registered: Vec::new(), kept: BTreeMap::new() };
        Self { function, queue_variable, registry: OnceCell::new(), known: Mutex::new(known) }
    }

    /// The connections of the cluster of an event, made if there are none yet.
    ///
    /// # Errors
    /// When no such cluster is configured, or a service does not answer in time.
    pub async fn connected(
        &self,
        source: Source,
        deadline: Deadline,
        connect: impl AsyncFnOnce(&Environment<'_>) -> Result<(T, Link), ConnectError>,
    ) -> Result<Connected<T>, Unserved> {
        let late = |cluster: Option<&str>, why: crate::OutOfTime| Unserved::Unreachable {
            cluster: cluster.map(str::to_owned),
            why: why.to_string(),
        };
        let (key, environment, mut state) =
            deadline.bound(Box::pin(self.find(source))).await.map_err(|why| late(None, why))??;
        let name = environment.cluster_name()?;
        if crowded(resident_kilobytes(), memory_megabytes()) {
            self.known().kept.retain(|other, _| *other == key);
        }
        let replaced = match state.get() {
            Some((_, link)) => {
                deadline.bound(Box::pin(link.is_replaced())).await.map_err(|why| late(Some(&name), why))?
            }
            None => false,
        };
        if replaced {
            state = self.known().renew(&key);
        }
        let connected =
            state.get_or_try_init(async || connect(&environment).await.map(|(made, link)| (Arc::new(made), link)));
        match deadline.bound(Box::pin(connected)).await {
            Ok(Ok((state, _))) => Ok(Connected { name, state: Arc::clone(state) }),
            Ok(Err(ConnectError::Environment(error))) => Err(error.into()),
            Ok(Err(ConnectError::Port(error))) => {
                Err(Unserved::Unreachable { cluster: Some(name), why: error.to_string() })
            }
            Err(why) => Err(late(Some(&name), why)),
        }
    }

    /// The environment of a cluster, without any connection.
    ///
    /// # Errors
    /// When no such cluster is configured, or the registry cannot be read.
    pub async fn environment(&self, source: Source) -> Result<Environment<'static>, Unserved> {
        Ok(self.find(source).await?.1)
    }

    fn known(&self) -> MutexGuard<'_, Known<Made<T>>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn find(&self, source: Source) -> Result<(Key, Environment<'static>, State<Made<T>>), Unserved> {
        let own = Environment::of_process();
        let source = source.relative_to(&own, self.queue_variable);
        let (found, what) = match &source {
            Source::Own => return Ok((None, own, self.known().state(None, &BTreeMap::new()))),
            Source::Queue(arn) => {
                let function = self.function;
                (self.registered(move |cluster| cluster.queues.get(function) == Some(arn)).await?, arn)
            }
            Source::Cluster(name) => (self.registered(|cluster| cluster.name == *name).await?, name),
        };
        let ServedCluster { name, environment: mut variables, .. } =
            found.ok_or_else(|| ConfigurationError::NotServed(what.clone()))?;
        variables.insert("CLUSTER_NAME".to_owned(), name.clone());
        let state = self.known().state(Some(name.clone()), &variables);
        Ok((Some(name), Environment::of_cluster(variables), state))
    }

    /// A registered cluster, as it was read within the last minute.
    async fn registered(&self, predicate: impl Fn(&ServedCluster) -> bool) -> Result<Option<ServedCluster>, Unserved> {
        let (read, before) = {
            let known = self.known();
            (known.read, known.find(&predicate))
        };
        if before.is_some() && read.is_some_and(|read| read.elapsed() < READ_AGAIN_AFTER) {
            return Ok(before);
        }
        let own = Environment::of_process();
        let table = own.table()?;
        let connect = async || DynamoTable::new(&nodeless_aws::load_config().await, table, CLUSTERS);
        match served_clusters(self.registry.get_or_init(connect).await).await {
            Ok((registered, unreadable)) => {
                for error in unreadable {
                    log(None, &ClusterUnreadable { error: &error.to_string() });
                }
                let mut known = self.known();
                known.read = Some(Instant::now());
                known.registered = registered;
                Ok(known.find(&predicate))
            }
            Err(error) => match before {
                Some(before) => {
                    log(Some(&before.name), &ClustersNotRead { error: &error.to_string() });
                    Ok(Some(before))
                }
                None => Err(Unserved::Unreachable { cluster: None, why: error.to_string() }),
            },
        }
    }
}

/// Whether the process uses more than half of its memory. Then the connections and caches of other clusters are dropped, so that
/// a large cluster does not take the memory that another one needs.
fn crowded(resident_kilobytes: Option<u64>, memory_megabytes: Option<u32>) -> bool {
    resident_kilobytes.zip(memory_megabytes).is_some_and(|(used, memory)| used > u64::from(memory) * 1024 / 2)
}

/// The memory that the process uses, if the system reports it.
fn resident_kilobytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.trim().trim_end_matches("kB").trim().parse().ok()
}

/// The memory of the function in MB, if Lambda reports it.
#[must_use]
pub fn memory_megabytes() -> Option<u32> {
    std::env::var("AWS_LAMBDA_FUNCTION_MEMORY_SIZE").ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const PLAN: &str = "arn:aws:sqs:eu-west-1:111122223333:nodeless-blue-plan.fifo";

    fn event(queues: &[Option<&str>]) -> SqsEvent {
        let record =
            |queue: &Option<&str>| json!({ "eventSourceARN": queue, "attributes": {}, "messageAttributes": {} });
        let records: Vec<_> = queues.iter().map(record).collect();
        serde_json::from_value(json!({ "Records": records })).unwrap()
    }

    fn blue() -> Environment<'static> {
        Environment::from_fn(|name| match name {
            "CLUSTER_NAME" => Some("blue".to_owned()),
            "PLAN" => Some("https://sqs.eu-west-1.amazonaws.com/111122223333/nodeless-blue-plan.fifo".to_owned()),
            _ => None,
        })
    }

    #[test]
    fn the_queue_identifies_the_cluster() {
        let relative = |source: Source| source.relative_to(&blue(), "PLAN");
        let of = |queues: &[Option<&str>]| Source::of_event(&event(queues)).map(relative);
        assert_eq!(of(&[]), Ok(Source::Own));
        assert_eq!(of(&[None]), Ok(Source::Own), "a user's own event");
        assert_eq!(of(&[Some(PLAN), Some(PLAN)]), Ok(Source::Own));
        let green = "arn:aws:sqs:eu-west-1:111122223333:nodeless-green-plan.fifo";
        assert_eq!(of(&[Some(green)]), Ok(Source::Queue(green.to_owned())));
        let error = of(&[Some(PLAN), Some(green)]).unwrap_err().to_string();
        assert!(error.contains("several queues") && error.contains(green), "{error}");
    }

    #[test]
    fn a_deployment_that_does_not_know_its_queue_has_one_cluster() {
        let source = || Source::Queue(PLAN.to_owned());
        assert_eq!(source().relative_to(&blue(), "OTHER"), Source::Own);
        assert_eq!(Source::Cluster("blue".into()).relative_to(&blue(), "PLAN"), Source::Own);
        let green = || Source::Cluster("green".into());
        assert_eq!(green().relative_to(&blue(), "PLAN"), green());
    }

    #[test]
    fn connections_are_kept_until_the_settings_change() {
        let mut known: Known<u8> = Known { read: None, registered: Vec::new(), kept: BTreeMap::new() };
        let settings = |value: &str| BTreeMap::from([("NODELESS_TABLE".to_owned(), value.to_owned())]);
        let green = || Some("green".to_owned());
        known.state(None, &BTreeMap::new()).set(1).unwrap();
        known.state(green(), &settings("a")).set(2).unwrap();
        assert_eq!(known.state(green(), &settings("a")).get(), Some(&2));
        assert_eq!(known.state(green(), &settings("b")).get(), None);
        assert_eq!(known.state(None, &BTreeMap::new()).get(), Some(&1));
        known.renew(&green()).set(3).unwrap();
        assert_eq!(known.state(green(), &settings("b")).get(), Some(&3), "made again for the same settings");
        assert_eq!(known.state(None, &BTreeMap::new()).get(), Some(&1), "the other cluster keeps its own");
    }

    #[test]
    fn other_clusters_leave_the_memory_when_half_of_it_is_used() {
        assert!(!crowded(Some(512 * 1024), Some(1024)));
        assert!(crowded(Some(512 * 1024 + 1), Some(1024)));
        assert!(!crowded(None, Some(1024)) && !crowded(Some(1), None));
        assert!(resident_kilobytes().is_none_or(|used| used > 0));
    }
}
