//! The names of workloads.

use serde::{Deserialize, Serialize};
use std::fmt;

/// A workload: the object that creates its pods, and creates them again after they were evicted.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Workload {
    /// The namespace.
    pub namespace: String,
    /// The kind, such as `Deployment` or `StatefulSet`.
    pub kind: String,
    /// The name.
    pub name: String,
}

impl fmt::Display for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}/{}", self.kind, self.namespace, self.name)
    }
}
