//! The queues that wake the functions.

use crate::PortError;
use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Requests for a plan with the same source within this time become one message. A plan therefore reads the cluster and the claims
/// at least this long after it was requested, because it also answers the requests that became no message.
pub const WAKE_INTERVAL: Duration = Duration::from_millis(500);

/// A message of the plan queue: "look now". One planner runs for a cluster at a time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "camelCase")]
pub enum PlanMessage {
    /// Something may have changed.
    #[serde(rename = "wake")]
    Wake {
        /// The source of the wake-up.
        source: WakeSource,
        /// When it was requested, to measure the delay.
        at: jiff::Timestamp,
    },
}

impl PlanMessage {
    /// The time of the heartbeat; `None` for a message of another sender.
    #[must_use]
    pub fn scheduled(&self) -> Option<jiff::Timestamp> {
        let Self::Wake { source, at } = self;
        (*source == WakeSource::Heartbeat).then_some(*at)
    }
}

/// The source of a wake-up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WakeSource {
    /// The API server, through the admission webhook: a pod cannot be scheduled.
    Webhook,
    /// The API server, through the admission webhook: another object was created, changed or deleted.
    Object,
    /// The minute heartbeat.
    Heartbeat,
    /// A claim failed or was deleted, so its pods have to be planned again.
    Lifecycle,
    /// EC2 is about to interrupt an instance.
    Interruption,
    /// Instance types, prices or an EC2NodeClass changed.
    Catalog,
    /// A plan that could not finish everything requests the next.
    Planner,
}

/// A message of the claims queue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "camelCase")]
pub enum ClaimMessage {
    /// Reconcile the claims of this shard that are due now.
    #[serde(rename = "shard")]
    Shard(ShardMessage),
    /// A plan is due now: wake the planner. A FIFO queue cannot delay single messages, so the request for a later plan waits in
    /// this queue.
    #[serde(rename = "plan")]
    Plan {
        /// When it was requested.
        at: jiff::Timestamp,
    },
    /// Validate this EC2NodeClass now by EC2 dry runs.
    #[serde(rename = "nodeClass")]
    NodeClass {
        /// The EC2NodeClass's name.
        name: String,
    },
    /// Compare all claims with EC2 and the cluster now.
    #[serde(rename = "sweep")]
    Sweep {
        /// When it was requested.
        at: jiff::Timestamp,
    },
}

impl ClaimMessage {
    /// The time of the schedule's event that requests a sweep; `None` for other messages.
    #[must_use]
    pub const fn scheduled(&self) -> Option<jiff::Timestamp> {
        match self {
            Self::Sweep { at } => Some(*at),
            Self::Shard(_) | Self::Plan { .. } | Self::NodeClass { .. } => None,
        }
    }
}

/// A message about a shard of claims.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ShardMessage {
    /// The shard's number.
    pub shard: u32,
    /// The number of the message, counted from 1 for each shard.
    pub number: u64,
}

/// A message of the catalog queue: "look now", except for reports. One refresh runs for a cluster at a time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "camelCase")]
pub enum CatalogMessage {
    /// The scheduled refresh: the catalog and all EC2NodeClasses may have changed.
    #[serde(rename = "refresh")]
    Refresh {
        /// When it was requested.
        at: jiff::Timestamp,
    },
    /// EC2NodeClasses are new or changed.
    #[serde(rename = "nodeClasses")]
    NodeClasses {
        /// The generations.
        changed: Vec<NodeClassGeneration>,
        /// When it was requested.
        at: jiff::Timestamp,
    },
    /// The weekly report of costs is due. It is a message of a group of its own, so that it holds up no refresh.
    #[serde(rename = "report")]
    Report {
        /// The time of the schedule's event.
        at: jiff::Timestamp,
    },
}

/// A generation of the spec of an EC2NodeClass.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeClassGeneration {
    /// The EC2NodeClass's name.
    pub name: String,
    /// The `metadata.uid`.
    pub uid: String,
    /// The `metadata.generation`.
    pub generation: i64,
}

/// Sends messages. They may be lost, late or duplicated: a receiver acts on the state, not on the message.
#[async_trait]
pub trait Queue: Send + Sync {
    /// Requests a plan. Several calls within [`WAKE_INTERVAL`] may become one message.
    ///
    /// # Errors
    /// When the queue cannot be reached. The heartbeat then wakes the planner within a minute.
    async fn wake_planner(&self, source: WakeSource) -> Result<(), PortError>;

    /// Requests a plan after a delay of at most 15 minutes. A longer delay is shortened.
    ///
    /// # Errors
    /// When the queue cannot be reached. The heartbeat then wakes the planner within a minute.
    async fn wake_planner_after(&self, delay: Duration) -> Result<(), PortError>;

    /// Requests the reconciliation of the due claims of a shard after a delay of at most 15 minutes. A longer delay is shortened.
    ///
    /// # Errors
    /// When the queue cannot be reached. The sweep then finds the shard within a minute.
    async fn wake_shard(&self, message: ShardMessage, delay: Duration) -> Result<(), PortError>;

    /// Requests the validation of an EC2NodeClass after a delay of at most 15 minutes. A longer delay is shortened.
    ///
    /// # Errors
    /// When the queue cannot be reached. The next refresh requests it again.
    async fn check_node_class(&self, name: &str, delay: Duration) -> Result<(), PortError>;

    /// Requests the resolution of EC2NodeClasses with these generations. Calls for the same generations within a minute may
    /// become one message.
    ///
    /// # Errors
    /// When the queue cannot be reached. The next plan and the catalog's schedule request it again.
    async fn resolve_node_classes(&self, changed: &[NodeClassGeneration]) -> Result<(), PortError>;
}
