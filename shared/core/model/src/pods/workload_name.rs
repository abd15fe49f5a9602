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

/// The kind of the objects that control the pods of Deployments.
pub(crate) const REPLICA_SET: &str = "ReplicaSet";
/// The label that the Deployment controller sets on ReplicaSets and their pods: the suffix of the ReplicaSet's name.
pub const POD_TEMPLATE_HASH: &str = "pod-template-hash";

impl Workload {
    /// The workload of a pod with this controlling owner: the owner, or the Deployment of a ReplicaSet. `hash` is the label
    /// [`POD_TEMPLATE_HASH`] of the pod.
    #[must_use]
    pub fn new(namespace: &str, kind: &str, name: &str, hash: Option<&str>) -> Self {
        let hash = hash.filter(|_| kind == REPLICA_SET);
        let deployment = hash.and_then(|hash| name.strip_suffix(hash)?.strip_suffix('-'));
        let (kind, name) = deployment.map_or((kind, name), |deployment| ("Deployment", deployment));
        Self { namespace: namespace.to_owned(), kind: kind.to_owned(), name: name.to_owned() }
    }
}

impl fmt::Display for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}/{}", self.kind, self.namespace, self.name)
    }
}
