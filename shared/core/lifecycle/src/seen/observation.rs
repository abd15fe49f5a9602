//! The state that was read for one step.

use crate::group::Owners;
use crate::opening::Nominations;
use crate::prospect::Prospect;
use nodeless_model::object::{MirroredClaim, VolumeAttachment};
use nodeless_model::surge::OwningDeployment;
use nodeless_model::{DaemonSetName, Instance, Node, NodeClaim, Pod, PodDisruptionBudget, ResourceList};
use std::collections::{BTreeMap, BTreeSet};

/// A value that was read, or the reason why it was not.
#[derive(Clone, Debug, PartialEq)]
pub enum Seen<T> {
    /// The value was read.
    Known(T),
    /// The value was not read, for this reason.
    Unknown(String),
}

impl<T> Default for Seen<T> {
    fn default() -> Self {
        Self::Unknown("it was not read".to_owned())
    }
}

impl<T> Seen<T> {
    /// The value, if it was read.
    #[must_use]
    pub const fn known(&self) -> Option<&T> {
        match self {
            Self::Known(value) => Some(value),
            Self::Unknown(_) => None,
        }
    }
}

impl<T, E: std::fmt::Display> From<Result<T, E>> for Seen<T> {
    fn from(result: Result<T, E>) -> Self {
        match result {
            Ok(value) => Self::Known(value),
            Err(error) => Self::Unknown(error.to_string()),
        }
    }
}

/// Whether instances may be launched from an EC2NodeClass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodeClassState {
    /// Instances may be launched.
    Ready,
    /// The EC2NodeClass is not ready.
    NotReady {
        /// The reason.
        message: String,
    },
    /// The readiness is unknown yet.
    NotYetKnown,
    /// There is no such EC2NodeClass.
    Missing,
    /// The EC2NodeClass is being deleted.
    Terminating,
}

/// The state of a launch group besides the claim itself.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SeenGroup {
    /// The instances that carry its tag, other than terminated ones.
    pub instances: Vec<Instance>,
    /// The claims of its other members.
    pub others: Vec<NodeClaim>,
    /// The owner of each instance, as far as it is recorded. [`Self::instances`] contains the claim's own instance even if the
    /// list does not, as long as it exists in EC2.
    pub owners: Owners,
}

/// The Deployments of the pods that ask for their successors first, and what they depend on.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SeenOwners {
    /// The Deployment of each pod, by the pod's uid; `None` if it has none.
    pub deployments: BTreeMap<String, Seen<Option<OwningDeployment>>>,
    /// The nodes of the other ready pods of these Deployments, by name. Nothing is expected of nodes that are not included.
    pub nodes: BTreeMap<String, Seen<Prospect>>,
    /// The PodDisruptionBudgets of the cluster.
    pub budgets: Seen<Vec<PodDisruptionBudget>>,
}

/// The state of one claim. Parts that a phase does not [need](crate::Needs) may be unknown.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Observation {
    /// The EC2NodeClass.
    pub node_class: Seen<NodeClassState>,
    /// Whether the NodePool exists, valid or not.
    pub node_pool_exists: Seen<bool>,
    /// The instance; `None` if it does not exist in EC2.
    pub instance: Seen<Option<Instance>>,
    /// The launch group.
    pub launch_group: Seen<SeenGroup>,
    /// The nodes with the provider id of the instance.
    pub nodes: Seen<Vec<Node>>,
    /// The number of uninitialized nodes that were listed to find these nodes. Zero if they were found otherwise.
    pub joining_listed: usize,
    /// The nominations for its node.
    pub nominations: Nominations,
    /// The awaited DaemonSets that are [not ready](crate::daemon_sets::not_ready) on the node.
    pub daemon_sets_not_ready: Seen<BTreeSet<DaemonSetName>>,
    /// The extended resources that the devices of the node are, of those that its kubelet [does not report](crate::unreported_resources).
    pub device_resources: Seen<ResourceList>,
    /// The pods on these nodes.
    pub pods: Seen<Vec<Pod>>,
    /// The volumes attached to these nodes that a drain waits for.
    pub volume_attachments: Seen<Vec<VolumeAttachment>>,
    /// The Deployments of those pods that [ask](crate::asking) for their successors first.
    pub owners: SeenOwners,
    /// The NodeClaim object.
    pub mirror: Seen<Option<MirroredClaim>>,
    /// The message of the zonal shift away from the zone of its instance, while one is in effect: the instance is then neither
    /// read from EC2 nor changed, and counts as running.
    pub zonal_shift: Option<String>,
}
