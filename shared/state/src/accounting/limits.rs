//! The limits of launches.

use nodeless_model::{ClusterLimits, ResourceList};
use serde::{Deserialize, Serialize};

/// The limits of a NodePool. A new claim is charged against them in the same transaction.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PoolLimits {
    /// Resources, including `nodes`. A resource that is not listed is unlimited.
    pub resources: ResourceList,
    /// Dollars per hour.
    pub dollars_per_hour: Option<f64>,
}

/// The limits that a launch must not exceed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LaunchLimits {
    /// The limits of the NodePool of the claims.
    pub node_pool: PoolLimits,
    /// The limits of all NodePools together.
    pub cluster: ClusterLimits,
}
