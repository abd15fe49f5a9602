//! Where pods are from.

use crate::Workload;
use std::sync::Arc;

/// Where a pod is from. It is not part of any stored or decoded form: a decoded pod is of the cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PodOrigin {
    /// An object of the cluster.
    #[default]
    Cluster,
    /// A CapacityBuffer of this name in the pod's namespace.
    CapacityBuffer(Arc<str>),
    /// A ProvisioningRequest of this name in the pod's namespace.
    ProvisioningRequest(Arc<str>),
    /// A workload of this name, which is about to create the pod.
    Workload(Arc<Workload>),
}
