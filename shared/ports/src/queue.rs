//! The queues that wake the functions.

use crate::PortError;
use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// A message of the plan queue: "look now". One planner at a time works for a cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "camelCase")]
pub enum PlanMessage {
    /// Something may have changed.
    #[serde(rename = "wake")]
    Wake {
        /// What woke the planner.
        source: WakeSource,
        /// When, for measuring how long it took.
        at: jiff::Timestamp,
    },
}

/// What woke the planner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WakeSource {
    /// The API server, through the admission webhook.
    Webhook,
    /// The minute heartbeat.
    Heartbeat,
    /// A claim failed or is gone, so its pods have to be planned again.
    Lifecycle,
    /// EC2 is about to interrupt an instance.
    Interruption,
    /// Types, prices or an EC2NodeClass changed.
    Catalog,
    /// A plan that could not finish everything asks for the next.
    Planner,
}

/// A message of the claims queue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "camelCase")]
pub enum ClaimMessage {
    /// Reconcile this claim now. Only earlier versions sent this: now a shard of claims is reconciled at a time.
    #[serde(rename = "claim")]
    Claim {
        /// The claim's name.
        name: String,
    },
    /// Reconcile the claims of this shard that are due now.
    #[serde(rename = "shard")]
    Shard {
        /// The shard's number.
        shard: u32,
    },
    /// A plan is due now: wake the planner. Messages of a FIFO queue cannot be delayed one by one, so a plan that is due later
    /// waits here.
    #[serde(rename = "plan")]
    Plan {
        /// When it was asked for.
        at: jiff::Timestamp,
    },
    /// Ask EC2 now, by dry runs, whether instances can be launched from this EC2NodeClass.
    #[serde(rename = "nodeClass")]
    NodeClass {
        /// The EC2NodeClass's name.
        name: String,
    },
    /// Look at all claims now, and compare them with EC2 and the cluster.
    #[serde(rename = "sweep")]
    Sweep {
        /// When it was asked for.
        at: jiff::Timestamp,
    },
}

/// A message of the catalog queue: "look now". One refresh at a time works for a cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "camelCase")]
pub enum CatalogMessage {
    /// Time has passed: the catalog and all EC2NodeClasses may have changed.
    #[serde(rename = "refresh")]
    Refresh {
        /// When it was asked for.
        at: jiff::Timestamp,
    },
    /// EC2NodeClasses are new or changed.
    #[serde(rename = "nodeClasses")]
    NodeClasses {
        /// Which.
        changed: Vec<NodeClassGeneration>,
        /// When it was asked for.
        at: jiff::Timestamp,
    },
}

/// A spec that an EC2NodeClass has had.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeClassGeneration {
    /// The EC2NodeClass's name.
    pub name: String,
    /// Its `metadata.uid`.
    pub uid: String,
    /// Its `metadata.generation`.
    pub generation: i64,
}

/// Sends messages. They may be lost, late or doubled: a receiver goes by the state, not by the message.
#[async_trait]
pub trait Queue: Send + Sync {
    /// Asks for a plan. Several calls within a second may become one message.
    ///
    /// # Errors
    /// When the queue cannot be reached; the heartbeat then wakes the planner within a minute.
    async fn wake_planner(&self, source: WakeSource) -> Result<(), PortError>;

    /// Asks for a plan after a delay (at most 15 minutes; longer ones are cut).
    ///
    /// # Errors
    /// When the queue cannot be reached; the heartbeat then wakes the planner within a minute.
    async fn wake_planner_after(&self, delay: Duration) -> Result<(), PortError>;

    /// Asks to reconcile the claims of a shard that are due after a delay (at most 15 minutes; longer ones are cut).
    ///
    /// # Errors
    /// When the queue cannot be reached; the sweep then finds the shard within a minute.
    async fn wake_shard(&self, shard: u32, delay: Duration) -> Result<(), PortError>;

    /// Asks to find out, after a delay (at most 15 minutes; longer ones are cut), whether instances can be launched from an
    /// EC2NodeClass.
    ///
    /// # Errors
    /// When the queue cannot be reached; the next refresh then asks again.
    async fn check_node_class(&self, name: &str, delay: Duration) -> Result<(), PortError>;

    /// Asks to resolve EC2NodeClasses whose status is not of these generations yet. Calls for the same generations within a minute
    /// may become one message.
    ///
    /// # Errors
    /// When the queue cannot be reached; the next plan then asks again, and the catalog's schedule does.
    async fn resolve_node_classes(&self, changed: &[NodeClassGeneration]) -> Result<(), PortError>;
}
