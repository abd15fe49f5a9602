//! The Kubernetes cluster.

use crate::PortError;
use async_trait::async_trait;
use jiff::Timestamp;
use nodeless_api::EC2NodeClass;
use nodeless_api::EC2NodeClassStatus;
use nodeless_api::NodePoolStatus;
use nodeless_model::{DaemonSet, Node, NodeClaim, NodePool, Pod, PodDisruptionBudget, StringMap, Taint};
use std::collections::BTreeMap;
use std::time::Duration;

/// The cluster at one moment, as far as planning looks at it.
#[derive(Clone, Debug, Default)]
pub struct ClusterView {
    /// All nodes, ours or not.
    pub nodes: Vec<Node>,
    /// All pods that have not ended.
    pub pods: Vec<Pod>,
    /// All DaemonSets.
    pub daemon_sets: Vec<DaemonSet>,
    /// All PodDisruptionBudgets.
    pub disruption_budgets: Vec<PodDisruptionBudget>,
    /// All NodePools that could be decoded.
    pub node_pools: Vec<NodePool>,
    /// All EC2NodeClasses that could be decoded, by name.
    pub node_classes: BTreeMap<String, EC2NodeClass>,
    /// The NodeClaim objects, ours and not.
    pub node_claims: Vec<MirroredClaim>,
    /// Objects that could not be decoded, and why. They hide nothing but themselves.
    pub invalid: Vec<InvalidObject>,
}

/// A NodeClaim object in the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MirroredClaim {
    /// The name.
    pub name: String,
    /// The uid of the object.
    pub uid: String,
    /// When its deletion was asked for, if it was: somebody wants the node gone.
    pub deletion_timestamp: Option<Timestamp>,
    /// Finalizers.
    pub finalizers: Vec<String>,
    /// The provider id in its status.
    pub provider_id: Option<String>,
    /// Whether it carries the annotation by which we know our mirrors: the uid of our record.
    pub record_uid: Option<String>,
}

/// An object that could not be decoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidObject {
    /// The kind.
    pub kind: String,
    /// The name.
    pub name: String,
    /// What is wrong, naming the field.
    pub message: String,
}

/// Changes to a node, applied on top of what others own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodePatch {
    /// Labels to set.
    pub labels: StringMap,
    /// Labels to remove.
    pub remove_labels: Vec<String>,
    /// Annotations to set.
    pub annotations: StringMap,
    /// Taints to add; one of the same key and effect is replaced.
    pub add_taints: Vec<Taint>,
    /// Taints to remove, by key and effect.
    pub remove_taints: Vec<Taint>,
    /// Finalizer to add.
    pub add_finalizer: Option<String>,
    /// Finalizer to remove.
    pub remove_finalizer: Option<String>,
    /// The NodeClaim object that becomes its owner: name and uid.
    pub owner: Option<(String, String)>,
}

/// A pod to be moved, by more than its name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PodRef {
    /// The namespace.
    pub namespace: String,
    /// The name.
    pub name: String,
    /// The uid: a successor of the same name is another pod.
    pub uid: String,
}

impl From<&Pod> for PodRef {
    fn from(pod: &Pod) -> Self {
        Self { namespace: pod.namespace.clone(), name: pod.name.clone(), uid: pod.uid.clone() }
    }
}

/// What the Eviction API answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Eviction {
    /// The pod is on its way out.
    Accepted,
    /// There is no such pod any more.
    AlreadyGone,
    /// A PodDisruptionBudget forbids it for now.
    Blocked {
        /// What the API server said.
        message: String,
    },
}

/// A volume that is still attached to a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeAttachment {
    /// The object's name.
    pub name: String,
    /// The PersistentVolume, if it names one.
    pub persistent_volume: Option<String>,
}

/// An Event about an object, as `kubectl describe` shows it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ObjectEvent {
    /// About which object.
    pub object: ObjectRef,
    /// Whether it is a warning.
    pub warning: bool,
    /// One word.
    pub reason: String,
    /// One sentence.
    pub message: String,
}

/// An object that an Event is about.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ObjectRef {
    /// `v1`, `karpenter.sh/v1`, `karpenter.k8s.aws/v1`.
    pub api_version: String,
    /// The kind.
    pub kind: String,
    /// The namespace; empty for cluster-scoped objects.
    pub namespace: String,
    /// The name.
    pub name: String,
    /// The uid; empty when not known.
    pub uid: String,
}

/// The Kubernetes cluster.
#[async_trait]
pub trait Cluster: Send + Sync {
    /// Everything that planning looks at. Warm adapters resume their watches instead of listing anew.
    ///
    /// # Errors
    /// When any part of it cannot be read as a whole: a partial view would look like pods or nodes that are gone.
    async fn view(&self) -> Result<ClusterView, PortError>;

    /// Waits until pods have stopped becoming unschedulable for `idle`, or `max` has passed, and returns how long it took:
    /// the batching window before a plan. Returns at once when nothing is pending.
    ///
    /// # Errors
    /// When the cluster cannot be watched.
    async fn settle(&self, idle: Duration, max: Duration) -> Result<Duration, PortError>;

    /// The nodes with this provider id. `name_hint` is the name that the node probably has, which makes it cheaper.
    ///
    /// # Errors
    /// When the cluster cannot be read.
    async fn nodes_of(&self, provider_id: &str, name_hint: Option<&str>) -> Result<Vec<Node>, PortError>;

    /// All nodes that are ours (label `karpenter.sh/nodepool`).
    ///
    /// # Errors
    /// When the cluster cannot be read.
    async fn our_nodes(&self) -> Result<Vec<Node>, PortError>;

    /// The pods bound to a node, ended ones included.
    ///
    /// # Errors
    /// When the cluster cannot be read.
    async fn pods_on(&self, node: &str) -> Result<Vec<Pod>, PortError>;

    /// The volumes attached to a node whose claims are used by pods that a drain waits for.
    ///
    /// # Errors
    /// When the cluster cannot be read.
    async fn volume_attachments(&self, node: &str) -> Result<Vec<VolumeAttachment>, PortError>;

    /// One EC2NodeClass.
    ///
    /// # Errors
    /// When the cluster cannot be read, or the object cannot be decoded ([`Invalid`](crate::ErrorKind::Invalid)).
    async fn node_class(&self, name: &str) -> Result<Option<EC2NodeClass>, PortError>;

    /// All EC2NodeClasses that can be decoded, and those that cannot.
    ///
    /// # Errors
    /// When the cluster cannot be read.
    async fn node_classes(&self) -> Result<(Vec<EC2NodeClass>, Vec<InvalidObject>), PortError>;

    /// All NodePools that can be decoded, and those that cannot.
    ///
    /// # Errors
    /// When the cluster cannot be read.
    async fn node_pools(&self) -> Result<(Vec<NodePool>, Vec<InvalidObject>), PortError>;

    /// Changes a node, if it still is this object.
    ///
    /// # Errors
    /// [`NotFound`](crate::ErrorKind::NotFound) when there is no such node, [`Conflict`](crate::ErrorKind::Conflict) when
    /// it is another object or changed meanwhile.
    async fn patch_node(&self, name: &str, uid: &str, patch: &NodePatch) -> Result<(), PortError>;

    /// Deletes a node object, if it still is this object; one that is gone is a success. Its finalizers stay.
    ///
    /// # Errors
    /// When the API server refused.
    async fn delete_node(&self, name: &str, uid: &str) -> Result<(), PortError>;

    /// Asks for a pod to be evicted, honouring PodDisruptionBudgets.
    ///
    /// # Errors
    /// When the API server cannot be reached or refused for another reason than a budget.
    async fn evict(&self, pod: &PodRef) -> Result<Eviction, PortError>;

    /// Deletes a pod with this many seconds to stop, past all budgets; one that is gone is a success.
    ///
    /// # Errors
    /// When the API server refused.
    async fn delete_pod(&self, pod: &PodRef, grace_seconds: u32) -> Result<(), PortError>;

    /// Publishes Events. The same event again raises the count of the first.
    ///
    /// # Errors
    /// When the API server refused; nothing depends on events.
    async fn publish(&self, events: &[ObjectEvent]) -> Result<(), PortError>;

    /// The NodeClaim objects.
    ///
    /// # Errors
    /// When the cluster cannot be read.
    async fn mirrored_claims(&self) -> Result<Vec<MirroredClaim>, PortError>;

    /// Makes the NodeClaim object equal to our record: created when missing, spec once, status always. Returns the uid of
    /// the object. An object that is being deleted is not created anew.
    ///
    /// # Errors
    /// When the API server refused.
    async fn mirror_claim(&self, claim: &NodeClaim) -> Result<String, PortError>;

    /// Deletes a NodeClaim object and takes our finalizer off; one that is gone is a success.
    ///
    /// # Errors
    /// When the API server refused.
    async fn remove_claim(&self, name: &str) -> Result<(), PortError>;

    /// Writes a NodePool's status.
    ///
    /// # Errors
    /// When the API server refused.
    async fn write_node_pool_status(&self, name: &str, status: &NodePoolStatus) -> Result<(), PortError>;

    /// Writes an EC2NodeClass's status, its hash annotations, and our finalizer.
    ///
    /// # Errors
    /// When the API server refused.
    async fn write_node_class_status(&self, name: &str, status: &EC2NodeClassStatus) -> Result<(), PortError>;

    /// Takes our finalizer off an EC2NodeClass that is being deleted.
    ///
    /// # Errors
    /// When the API server refused.
    async fn release_node_class(&self, name: &str) -> Result<(), PortError>;
}
