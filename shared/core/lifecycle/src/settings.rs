//! The settings of the lifecycle of claims.

use nodeless_model::claim::REGISTRATION_TIMEOUT;
use std::time::Duration;

/// Timeouts and names of the steps. The defaults are Karpenter's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The cluster's name, for tags.
    pub cluster_name: String,
    /// How long a launch is retried.
    pub launch_timeout: Duration,
    /// How long a launched instance may take to join as a node.
    pub registration_timeout: Duration,
    /// How long an offering without capacity is unavailable.
    pub unavailable_for: Duration,
    /// The minimum duration of a drain, so that endpoints are removed before the instance is terminated.
    pub minimum_drain: Duration,
    /// How long EC2 may not list an instance that it has just launched.
    pub visible_after: Duration,
    /// How long after the last possible launch call an instance may start, or begin to be listed by EC2: calls in progress and
    /// EC2's own delays together.
    pub launch_listing_delay: Duration,
    /// How old an instance without a claim must be to count as an orphan.
    pub orphan_age: Duration,
}

impl Settings {
    /// Karpenter's timeouts for this cluster.
    #[must_use]
    pub fn new(cluster_name: impl Into<String>) -> Self {
        Self {
            cluster_name: cluster_name.into(),
            launch_timeout: Duration::from_mins(5),
            registration_timeout: REGISTRATION_TIMEOUT,
            unavailable_for: Duration::from_mins(3),
            minimum_drain: Duration::from_secs(5),
            visible_after: Duration::from_mins(2),
            launch_listing_delay: Duration::from_mins(1),
            orphan_age: Duration::from_secs(30),
        }
    }
}
