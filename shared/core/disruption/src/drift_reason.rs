//! How a node can drift, with Karpenter's reasons.

use serde::Serialize;
use std::fmt;

/// How a node drifted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Drift {
    /// In one word, as the reason of the claim's condition `Drifted`.
    pub reason: DriftReason,
    /// In one sentence.
    pub message: String,
}

/// How a node drifted, by Karpenter's reasons.
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
    /// The AMI is not the EC2NodeClass's for such nodes any more.
    AMIDrift,
    /// The security groups are not the EC2NodeClass's any more.
    SecurityGroupDrift,
    /// The subnet is not one of the EC2NodeClass's any more.
    SubnetDrift,
    /// The capacity reservation is not one of the EC2NodeClass's any more.
    CapacityReservationDrift,
    /// The EC2NodeClass's placement group is another one now.
    PlacementGroupDrift,
    /// Its condition `Drifted` is true, and the comparison finds no drift: see [`crate::Options::trust_conditions`].
    ConditionTrue,
    /// It expires soon, and its NodePool asks for graceful replacement before that
    /// ([`crate::expiration::GRACEFUL_BEFORE`]). Not a drift, but handled as one.
    ExpiresSoon,
    /// EC2 recommends a rebalance, and its NodePool asks for replacement ([`crate::rebalance::RECOMMENDATIONS`]). Not a
    /// drift, but handled as one.
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
            Self::RebalanceRecommended => "RebalanceRecommended",
        }
    }
}

impl fmt::Display for Drift {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.reason {
            DriftReason::ExpiresSoon | DriftReason::RebalanceRecommended | DriftReason::ConditionTrue => {
                f.write_str(&self.message)
            }
            reason => write!(f, "it drifted ({}): {}", reason.as_str(), self.message),
        }
    }
}
