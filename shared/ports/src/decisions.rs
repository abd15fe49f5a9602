//! Decisions, kept for a limited time so that users can read why something was done.

use crate::PortError;
use async_trait::async_trait;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// The explanation of a decision. It expires.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Decision {
    /// A sortable id.
    pub id: String,
    /// The time of the decision.
    pub at: Timestamp,
    /// The kind: `provisioning`, `disruption`, `interruption`, `collection`.
    pub kind: String,
    /// The names of the claims, nodes or pods concerned.
    pub subjects: Vec<String>,
    /// A summary in one sentence.
    pub summary: String,
    /// The whole explanation, as JSON.
    pub detail: String,
}

/// The decisions of one cluster.
#[async_trait]
pub trait Decisions: Send + Sync {
    /// Records decisions, which expire after `keep`.
    ///
    /// # Errors
    /// When the table cannot be written.
    async fn record_decisions(&self, decisions: &[Decision], keep: Duration) -> Result<(), PortError>;

    /// The latest decisions, newest first.
    ///
    /// # Errors
    /// When the table cannot be read.
    async fn decisions(&self, limit: u32) -> Result<Vec<Decision>, PortError>;
}
