//! Why and since when a claim is terminated.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// The termination of a claim.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Termination {
    /// The reason.
    pub reason: TerminationReason,
    /// The message.
    pub message: String,
    /// Since when.
    pub requested: Timestamp,
    /// When the drain ends forcefully; `None` means never.
    pub deadline: Option<Timestamp>,
}

/// The reason of a termination.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum TerminationReason {
    /// EC2 had no capacity for the offerings.
    InsufficientCapacity,
    /// The EC2NodeClass was not ready, missing or being deleted.
    NodeClassNotReady,
    /// The launch did not succeed within five minutes.
    LaunchTimeout,
    /// The node did not join within fifteen minutes.
    RegistrationTimeout,
    /// The node had no pods.
    Empty,
    /// The node's pods fit elsewhere for less.
    Underutilized,
    /// The node no longer matches its NodePool or EC2NodeClass.
    Drifted,
    /// The node's pods were uneven over zones.
    Unbalanced,
    /// The node reached its NodePool's `expireAfter`.
    Expired,
    /// EC2 interrupts the instance, or is about to.
    Interrupted,
    /// The node was unhealthy for too long, or its machine fails; its pods are not waited for.
    Unhealthy,
    /// The node was unhealthy for too long, and what its pods need was launched first.
    Repaired,
    /// A user or program deleted the NodeClaim or Node.
    Deleted,
    /// The instance is gone although nodeless did not terminate it.
    InstanceMissing,
    /// The NodePool was deleted.
    NodePoolDeleted,
    /// The static NodePool has more nodes than its replicas.
    ScaledDown,
    /// The schedule of its NodePool has no nodes at this time.
    ScheduledOff,
}

impl TerminationReason {
    /// Whether the claim's node never ran pods, because it was not launched or did not join.
    #[must_use]
    pub const fn is_failed_launch(self) -> bool {
        matches!(
            self,
            Self::InsufficientCapacity | Self::NodeClassNotReady | Self::LaunchTimeout | Self::RegistrationTimeout
        )
    }

    /// The name in labels, metrics and messages: lower case with underscores, as Karpenter's metric labels.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::InsufficientCapacity => "insufficient_capacity",
            Self::NodeClassNotReady => "nodeclass_not_ready",
            Self::LaunchTimeout => "launch_timeout",
            Self::RegistrationTimeout => "registration_timeout",
            Self::Empty => "empty",
            Self::Underutilized => "underutilized",
            Self::Drifted => "drifted",
            Self::Unbalanced => "unbalanced",
            Self::Expired => "expired",
            Self::Interrupted => "interrupted",
            Self::Unhealthy | Self::Repaired => "unhealthy",
            Self::Deleted => "deleted",
            Self::InstanceMissing => "garbage_collected",
            Self::NodePoolDeleted => "nodepool_deleted",
            Self::ScaledDown => "scaled_down",
            Self::ScheduledOff => "nodepool_scheduled_off",
        }
    }
}
