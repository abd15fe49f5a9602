//! Decisions, kept for a while so that people can ask why something was done.

use crate::PortError;
use async_trait::async_trait;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Why something was decided, for people; it expires after a while.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Decision {
    /// A sortable id.
    pub id: String,
    /// When.
    pub at: Timestamp,
    /// What kind: `provisioning`, `disruption`, `interruption`, `collection`.
    pub kind: String,
    /// About what: the names of claims, nodes or pods.
    pub subjects: Vec<String>,
    /// In one sentence.
    pub summary: String,
    /// The whole explanation, as JSON text.
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
