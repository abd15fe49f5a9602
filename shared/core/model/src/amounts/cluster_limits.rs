//! Limits of the whole cluster: annotations of the Namespace `kube-system`.

use crate::ResourceList;
use crate::amounts::resources::name;
use serde::{Deserialize, Serialize};

/// The annotation of the Namespace `kube-system`: the maximum price of the nodes of all NodePools together, in dollars per hour.
pub const MAX_DOLLARS_PER_HOUR: &str = "nodeless.sh/max-dollars-per-hour";
/// The annotation of the Namespace `kube-system`: the maximum number of nodes of all NodePools together.
pub const MAX_NODES: &str = "nodeless.sh/max-nodes";
/// The annotation of the Namespace `kube-system`: the maximum number of CPUs of the nodes of all NodePools together.
pub const MAX_CPU: &str = "nodeless.sh/max-cpu";

/// The limits of all NodePools together.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterLimits {
    /// The limits of `nodes` and `cpu`. What is not listed is unlimited.
    pub resources: ResourceList,
    /// The limit in dollars per hour.
    pub dollars_per_hour: Option<f64>,
}

impl ClusterLimits {
    /// Whether there are no limits.
    #[must_use]
    pub fn are_none(&self) -> bool {
        self.resources.is_empty() && self.dollars_per_hour.is_none()
    }
}

/// The annotation that sets the limit of a resource, or of dollars per hour for any other name.
#[must_use]
pub fn annotation_of(resource: &str) -> &'static str {
    match resource {
        name::NODES => MAX_NODES,
        name::CPU => MAX_CPU,
        _ => MAX_DOLLARS_PER_HOUR,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_limit_names_its_annotation() {
        assert_eq!(annotation_of("nodes"), MAX_NODES);
        assert_eq!(annotation_of("cpu"), MAX_CPU);
        assert_eq!(annotation_of("dollars-per-hour"), MAX_DOLLARS_PER_HOUR);
    }
}
