//! Recent answers and notices of EC2: unavailable offerings, interruptions, launch budgets, and dry runs.

use crate::PortError;
use async_trait::async_trait;
use jiff::Timestamp;
use nodeless_model::CapacityType;
pub use nodeless_model::claim::LaunchBudget;
pub use nodeless_model::launch_check::{LaunchAnswer, LaunchCheck, Refusal};
pub use nodeless_model::spot_interruption::SpotInterruption;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// An offering for which EC2 lacked capacity.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct UnavailableOffering {
    /// The instance type.
    pub instance_type: String,
    /// The availability zone, by name.
    pub zone: String,
    /// The capacity type.
    pub capacity_type: CapacityType,
    /// Until when no launch uses it.
    pub until: Timestamp,
    /// EC2's code, such as `InsufficientInstanceCapacity`.
    pub reason: String,
}

/// EC2's answers to launches and dry runs of one cluster.
#[async_trait]
pub trait Capacity: Send + Sync {
    /// Records offerings for which EC2 lacked capacity.
    ///
    /// # Errors
    /// When the table cannot be written.
    async fn mark_unavailable(&self, offerings: &[UnavailableOffering]) -> Result<(), PortError>;

    /// The offerings that no launch uses at this time.
    ///
    /// # Errors
    /// When the table cannot be read.
    async fn unavailable(&self, now: Timestamp) -> Result<Vec<UnavailableOffering>, PortError>;

    /// Records interruptions of spot instances, each until its time. Earlier records of them are replaced.
    ///
    /// # Errors
    /// When the table cannot be written.
    async fn record_interruptions(&self, interruptions: &[SpotInterruption]) -> Result<(), PortError>;

    /// The interruptions of spot instances that are remembered at this time, in the order of types, zones and instances.
    ///
    /// # Errors
    /// When the table cannot be read.
    async fn interruptions(&self, now: Timestamp) -> Result<Vec<SpotInterruption>, PortError>;

    /// The launch budgets in effect at this time. An offering that is missing has the initial budget.
    ///
    /// # Errors
    /// When the table cannot be read.
    async fn launch_budgets(&self, now: Timestamp) -> Result<Vec<LaunchBudget>, PortError>;

    /// Writes the budgets that are greater than the stored ones. A missing one counts as `initial`.
    ///
    /// # Errors
    /// When the table cannot be written.
    async fn raise_launch_budgets(
        &self,
        budgets: &[LaunchBudget],
        initial: u32,
        now: Timestamp,
    ) -> Result<(), PortError>;

    /// Replaces the stored budgets with these.
    ///
    /// # Errors
    /// When the table cannot be written.
    async fn reset_launch_budgets(&self, budgets: &[LaunchBudget]) -> Result<(), PortError>;

    /// The last dry runs for an EC2NodeClass; `None` if there are none, or they have expired.
    ///
    /// # Errors
    /// When the table cannot be read.
    async fn launch_check(&self, node_class: &str) -> Result<Option<LaunchCheck>, PortError>;

    /// Replaces the recorded dry runs for an EC2NodeClass. The record expires after `keep`.
    ///
    /// # Errors
    /// When the table cannot be written.
    async fn put_launch_check(&self, check: &LaunchCheck, keep: Duration) -> Result<(), PortError>;
}
