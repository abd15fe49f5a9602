//! Interruptions of spot instances that are remembered for later launches.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// An interruption of a spot instance by EC2.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SpotInterruption {
    /// The instance type.
    pub instance_type: String,
    /// The availability zone, by name.
    pub zone: String,
    /// The id of the instance, so that an event that is received twice counts once.
    pub instance_id: String,
    /// When EC2 announced it.
    pub at: Timestamp,
    /// When it is forgotten.
    pub until: Timestamp,
}
