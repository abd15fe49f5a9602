//! The kinds of drift, with Karpenter's reasons.

use super::KeptReason;
use nodeless_model::labels::TERMINATE_FIRST;
use serde::Serialize;
use std::fmt;

/// The drift of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Drift {
    /// The reason of the claim's condition `Drifted`.
    pub reason: DriftReason,
    /// The message.
    pub message: String,
}

/// Why a drifted or unhealthy node in a full capacity reservation is not terminated before its replacement is launched in its place.
#[derive(Clone, Debug, PartialEq)]
pub enum KeepsPlace {
    /// Its NodePool does not have the annotation.
    NotAsked {
        /// The reservation.
        reservation: String,
        /// The NodePool.
        node_pool: String,
        /// The value of the annotation for this method.
        method: &'static str,
    },
    /// Others could use its place in the reservation.
    Shared {
        /// The reservation.
        reservation: String,
    },
    /// A pod may not be evicted now.
    Protected(Box<KeptReason>),
}

impl fmt::Display for KeepsPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotAsked { reservation, node_pool, method } => write!(
                f,
                "capacity reservation {reservation} is full: to terminate the node first and launch its replacement in its place, \
                 set the annotation {TERMINATE_FIRST}: {method} on NodePool {node_pool}"
            ),
            Self::Shared { reservation } => write!(
                f,
                "capacity reservation {reservation} is full, and the node is not terminated first ({TERMINATE_FIRST}), because others \
                 could take its place: another account owns or may reclaim the reservation, instances outside of the cluster use it, or \
                 its use is unknown"
            ),
            Self::Protected(why) => write!(f, "the node is not terminated first ({TERMINATE_FIRST}), because {why}"),
        }
    }
}

/// The kinds of drift, by Karpenter's reasons.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub enum DriftReason {
    /// The NodePool's template changed.
    NodePoolDrifted,
    /// The node's labels do not meet the NodePool's requirements any more.
    RequirementsDrifted,
    /// The instance type or its offering is no longer available.
    InstanceTypeNotFound,
    /// The EC2NodeClass's static fields changed.
    NodeClassDrift,
    /// The AMI is no longer one of the EC2NodeClass for such nodes.
    AMIDrift,
    /// The security groups are no longer those of the EC2NodeClass.
    SecurityGroupDrift,
    /// The subnet is no longer one of the EC2NodeClass.
    SubnetDrift,
    /// The capacity reservation is no longer one of the EC2NodeClass.
    CapacityReservationDrift,
    /// The EC2NodeClass's placement group is a different one now.
    PlacementGroupDrift,
    /// The condition `Drifted` is true, and the comparison finds no drift: see [`crate::Options::trust_conditions`].
    ConditionTrue,
    /// The node expires soon, and its NodePool is configured for graceful expiration
    /// ([`nodeless_model::labels::GRACEFUL_EXPIRATION`]). This is not a drift, but handled as one.
    ExpiresSoon,
    /// The node has been unhealthy for too long. This is not a drift, but its replacement is planned as for one.
    Unhealthy,
    /// EC2 recommends a rebalance, and its NodePool is configured to replace such nodes ([`nodeless_model::labels::REBALANCE`]).
    /// This is not a drift, but handled as one.
    RebalanceRecommended,
}

impl DriftReason {
    /// The name in conditions.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NodePoolDrifted => "NodePoolDrifted",
            Self::RequirementsDrifted => "RequirementsDrifted",
            Self::InstanceTypeNotFound => "InstanceTypeNotFound",
            Self::NodeClassDrift => "NodeClassDrift",
            Self::AMIDrift => "AMIDrift",
            Self::SecurityGroupDrift => "SecurityGroupDrift",
            Self::SubnetDrift => "SubnetDrift",
            Self::CapacityReservationDrift => "CapacityReservationDrift",
            Self::PlacementGroupDrift => "PlacementGroupDrift",
            Self::ConditionTrue => "Drifted",
            Self::ExpiresSoon => "ExpiresSoon",
            Self::Unhealthy => "Unhealthy",
            Self::RebalanceRecommended => "RebalanceRecommended",
        }
    }
}

impl fmt::Display for Drift {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.reason {
            DriftReason::ExpiresSoon
            | DriftReason::Unhealthy
            | DriftReason::RebalanceRecommended
            | DriftReason::ConditionTrue => f.write_str(&self.message),
            reason => write!(f, "it drifted ({}): {}", reason.as_str(), self.message),
        }
    }
}
