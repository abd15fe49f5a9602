//! Conditions of claims.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// A condition of a claim, as in the Kubernetes API.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Condition {
    /// The type, such as `Launched`.
    #[serde(rename = "type")]
    pub kind: String,
    /// The status.
    pub status: ConditionStatus,
    /// The reason.
    pub reason: String,
    /// The message.
    pub message: String,
    /// The time of the last transition.
    pub last_transition_time: Timestamp,
}

/// The status of a condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum ConditionStatus {
    /// True.
    True,
    /// False.
    False,
    /// Unknown.
    Unknown,
}

impl ConditionStatus {
    /// The name in the Kubernetes API.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::True => "True",
            Self::False => "False",
            Self::Unknown => "Unknown",
        }
    }
}

/// The types of a claim's conditions, as Karpenter names them, and the reasons that show that it is warm.
pub mod condition {
    /// The instance was launched.
    pub const LAUNCHED: &str = "Launched";
    /// The node registered.
    pub const REGISTERED: &str = "Registered";
    /// The node was initialized.
    pub const INITIALIZED: &str = "Initialized";
    /// All of the above.
    pub const READY: &str = "Ready";
    /// The node had no pod events for its NodePool's `consolidateAfter`.
    pub const CONSOLIDATABLE: &str = "Consolidatable";
    /// The node no longer matches its NodePool or EC2NodeClass.
    pub const DRIFTED: &str = "Drifted";
    /// The node has the capacity of its instance type.
    pub const CONSISTENT_STATE_FOUND: &str = "ConsistentStateFound";
    /// The node was selected for disruption.
    pub const DISRUPTION_REASON: &str = "DisruptionReason";
    /// The node is drained.
    pub const DRAINED: &str = "Drained";
    /// The node's volumes are detached.
    pub const VOLUMES_DETACHED: &str = "VolumesDetached";
    /// EC2 reports an elevated risk of interruption for the spot instance. A condition of nodeless; Karpenter has none.
    pub const REBALANCE_RECOMMENDED: &str = "RebalanceRecommended";
    /// Node repair reboots the instance.
    pub const REBOOTING: &str = "Rebooting";
    /// The instance is being terminated.
    pub const INSTANCE_TERMINATING: &str = "InstanceTerminating";
}

/// The reasons of conditions of warm nodes.
pub mod reason {
    /// The reason of Registered and Initialized while the instance is stopped as a warm node.
    pub const STOPPED: &str = "Stopped";
    /// The reason of Initialized while a warm node is prepared to be stopped, and while its instance stops.
    pub const WARMING: &str = "Warming";
    /// The reason of Launched once a stopped instance was started.
    pub const STARTED: &str = "Started";
}
