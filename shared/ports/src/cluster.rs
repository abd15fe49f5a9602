//! The Kubernetes cluster.

use crate::PortError;
pub use crate::pod_batch::{BURST, BURST_TIME, BatchWindow, Expecting, PodBatch};
use async_trait::async_trait;
use jiff::Timestamp;
pub use nodeless_api::view::{Binding, BufferView, ClusterView, InvalidObject, Outline, RequestView, SYSTEM_NAMESPACE};
use nodeless_api::{
    CapacityBufferStatus, EC2NodeClass, EC2NodeClassStatus, NodeOverlayStatus, NodePoolStatus,
    ProvisioningRequestStatus,
};
pub use nodeless_model::object::{
    MirroredClaim, NodePatch, ObjectEvent, ObjectRef, PodRef, UnboundPod, VolumeAttachment,
};
pub use nodeless_model::surge::{DeploymentChange, OwningDeployment, RaisedDeployment};
use nodeless_model::{
    DaemonSet, DaemonSetName, Node, NodeClaim, NodeOverlay, NodePool, Pod, PodDisruptionBudget, ResourceList,
};
pub use nodeless_model::{OtherNodeClaim, OtherNodePool};
use std::collections::{BTreeMap, BTreeSet};

/// The answer of the Eviction API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Eviction {
    /// The pod is being terminated.
    Accepted,
    /// The pod does not exist any more.
    AlreadyGone,
    /// A PodDisruptionBudget, or an admission webhook or policy of the cluster, does not allow it now.
    Blocked {
        /// The API server's message.
        message: String,
    },
}

/// The label selector of the Nodes of NodeClaims without a NodePool: they have the label of their EC2NodeClass.
pub const STANDALONE_NODES: &str = "!karpenter.sh/nodepool,karpenter.k8s.aws/ec2nodeclass";

/// A node to look up by its instance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SoughtNode {
    /// The provider id.
    pub provider_id: String,
    /// The name, if the node has joined before.
    pub name: Option<String>,
    /// Whether the node is expected to lack the label `karpenter.sh/initialized`.
    pub joining: bool,
}

/// The nodes that were found.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FoundNodes {
    /// The nodes of the instances.
    pub nodes: Vec<Node>,
    /// Nodes that cannot be decoded: one of them may be such a node.
    pub invalid: Vec<InvalidObject>,
    /// The number of uninitialized nodes that were listed to find joining nodes.
    pub joining_listed: usize,
}

/// The NodePools that were found.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FoundNodePools {
    /// Those of nodeless that can be decoded.
    pub node_pools: Vec<NodePool>,
    /// Those of nodeless that cannot be decoded.
    pub invalid: Vec<InvalidObject>,
    /// Those of other controllers.
    pub others: Vec<OtherNodePool>,
}

impl FoundNodePools {
    /// The names of all of them. A NodePool that cannot be decoded, or that has become one of another controller, was not deleted.
    pub fn names(&self) -> impl Iterator<Item = &String> {
        let invalid = self.invalid.iter().map(|object| &object.name);
        let others = self.others.iter().map(|pool| &pool.name);
        self.node_pools.iter().map(|pool| &pool.name).chain(invalid).chain(others)
    }
}

/// The NodeClaim objects that were found.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FoundNodeClaims {
    /// Those whose class is an EC2NodeClass.
    pub mirrors: Vec<MirroredClaim>,
    /// Those of other controllers.
    pub others: Vec<OtherNodeClaim>,
}

/// What the Namespace [`SYSTEM_NAMESPACE`] shows about the cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SystemNamespace {
    /// When the cluster was created. Kubernetes creates the Namespace with the cluster, and nobody can delete it.
    pub created: Option<Timestamp>,
    /// The table of the deployment that serves the cluster ([`TABLE`](nodeless_model::labels::TABLE)), if it is named.
    pub table: Option<String>,
}

/// Reads the cluster for a plan, and waits for the end of the batch window.
#[async_trait]
pub trait PlanningView: Send + Sync {
    /// Everything that planning reads. [`confirm_view`](Self::confirm_view) proves that it has every change that was made before this
    /// call. An adapter that has read before resumes its watches instead of listing again. The hash annotations of EC2NodeClasses are
    /// those of their present specs.
    ///
    /// # Errors
    /// When any part of it cannot be read: in a partial snapshot, pods or nodes would look deleted.
    async fn view(&self) -> Result<ClusterView, PortError>;

    /// Adds to a view the workloads that have fewer pods than they are to have, and the ResourceQuotas that their pods count against.
    /// [`confirm_view`](Self::confirm_view) proves these, too.
    ///
    /// # Errors
    /// When they cannot be read, such as for a missing right. The view is as before then.
    async fn read_pod_controllers(&self, view: &mut ClusterView) -> Result<(), PortError>;

    /// Waits until it is known whether the last view had every change that was made before it was requested. Nothing is decided from a
    /// view without this: from an old one, nodes would be launched again.
    ///
    /// # Errors
    /// A [`Conflict`](crate::ErrorKind::Conflict) when the view lacks a change, or when that cannot be known. The next view lacks none.
    async fn confirm_view(&self) -> Result<(), PortError>;

    /// Waits for the end of the batch window, and returns the uids of the pods that are pending then.
    ///
    /// # Errors
    /// When the cluster cannot be watched.
    async fn wait_for_batch(&self, window: BatchWindow) -> Result<BTreeSet<String>, PortError>;
}

/// Nodes, and the pods and volumes on them.
#[async_trait]
pub trait NodesAndPods: Send + Sync {
    /// The nodes with this provider id. `name_hint` is the probable name of the node, which makes the lookup cheaper.
    ///
    /// # Errors
    /// When the cluster cannot be read.
    async fn nodes_of(&self, provider_id: &str, name_hint: Option<&str>) -> Result<Vec<Node>, PortError>;

    /// The node with this name, if it exists.
    ///
    /// # Errors
    /// When the cluster cannot be read, or the node cannot be decoded.
    async fn node(&self, name: &str) -> Result<Option<Node>, PortError>;

    /// The nodes of these instances.
    ///
    /// # Errors
    /// When the cluster cannot be read.
    async fn nodes_of_all(&self, sought: &[SoughtNode]) -> Result<FoundNodes, PortError>;

    /// The nodes with the label `karpenter.sh/nodepool`, whosever they are, and [`STANDALONE_NODES`].
    ///
    /// # Errors
    /// When the cluster cannot be read.
    async fn labelled_nodes(&self) -> Result<Vec<Node>, PortError>;

    /// The pods that are bound to a node, including terminated ones.
    ///
    /// # Errors
    /// When the cluster cannot be read.
    async fn pods_on(&self, node: &str) -> Result<Vec<Pod>, PortError>;

    /// The pods that are bound to each of these nodes, including terminated ones, by the name of the node. The pods of many nodes are
    /// read together.
    ///
    /// # Errors
    /// For each node by itself: when the cluster cannot be read, or a pod that may be bound to the node cannot be decoded.
    async fn pods_on_each(&self, nodes: &BTreeSet<String>) -> BTreeMap<String, Result<Vec<Pod>, PortError>>;

    /// The VolumeAttachments of these nodes. All VolumeAttachments of the cluster are read for that.
    ///
    /// # Errors
    /// When the cluster cannot be read, or one of its VolumeAttachments cannot be decoded, which may be of one of these nodes.
    async fn volume_attachments(&self, nodes: &BTreeSet<String>) -> Result<Vec<VolumeAttachment>, PortError>;

    /// How many of these extended resources DeviceClasses give on a node, by the devices that its drivers published (KEP-5004). None if the
    /// API server does not have these kinds.
    ///
    /// # Errors
    /// When the cluster cannot be read, or a DeviceClass, or a ResourceSlice of the node, cannot be decoded.
    async fn device_resources(&self, node: &Node, requested: &BTreeSet<&str>) -> Result<ResourceList, PortError>;

    /// The names of the PersistentVolumes that a pod mounts. PersistentVolumeClaims that are not bound or do not exist are left out.
    ///
    /// # Errors
    /// When a PersistentVolumeClaim cannot be read.
    async fn volumes_of(&self, pod: &Pod) -> Result<Vec<String>, PortError>;

    /// Patches a node, if it is still this object.
    ///
    /// # Errors
    /// [`NotFound`](crate::ErrorKind::NotFound) when there is no such node, [`Conflict`](crate::ErrorKind::Conflict) when
    /// it is another object or changed meanwhile.
    async fn patch_node(&self, name: &str, uid: &str, patch: &NodePatch) -> Result<(), PortError>;

    /// Deletes a node object, if it is still this object. A missing node counts as success. Its finalizers stay.
    ///
    /// # Errors
    /// When the API server rejected it.
    async fn delete_node(&self, name: &str, uid: &str) -> Result<(), PortError>;

    /// Requests the eviction of a pod, honouring PodDisruptionBudgets.
    ///
    /// # Errors
    /// When the API server cannot be reached, or rejected it for another reason than a budget.
    async fn evict(&self, pod: &PodRef) -> Result<Eviction, PortError>;

    /// The pods of the default scheduler that are bound to no node and have not ended.
    ///
    /// # Errors
    /// When the cluster cannot be read.
    async fn unbound_pods(&self) -> Result<Vec<UnboundPod>, PortError>;

    /// Writes the node that the kube-scheduler tries first for a pod (`status.nominatedNodeName`), if the pod is as it was read. Nothing
    /// else of the pod changes.
    ///
    /// # Errors
    /// [`Conflict`](crate::ErrorKind::Conflict) when the pod has changed, is bound or does not exist any more;
    /// [`Denied`](crate::ErrorKind::Denied) without the right, which is optional.
    async fn nominate(&self, pod: &UnboundPod, node: &str) -> Result<(), PortError>;

    /// Deletes a pod with this grace period in seconds, bypassing PodDisruptionBudgets. A missing pod counts as success.
    ///
    /// # Errors
    /// When the API server rejected it.
    async fn delete_pod(&self, pod: &PodRef, grace_seconds: u32) -> Result<(), PortError>;
}

/// The Deployments of pods that get their successors before their node is drained, and the DaemonSets that new nodes wait for.
#[async_trait]
pub trait Workloads: Send + Sync {
    /// The Deployment that owns a ReplicaSet, for a pod of this ReplicaSet. `None` if one of them does not exist.
    ///
    /// # Errors
    /// When the cluster cannot be read.
    async fn owning_deployment(
        &self,
        namespace: &str,
        replica_set: &str,
    ) -> Result<Option<OwningDeployment>, PortError>;

    /// The Deployments with the label of those whose replicas are raised, and an annotation that states by how much.
    ///
    /// # Errors
    /// When the cluster cannot be read.
    async fn raised_deployments(&self) -> Result<Vec<RaisedDeployment>, PortError>;

    /// All PodDisruptionBudgets.
    ///
    /// # Errors
    /// When the cluster cannot be read, or one of them cannot be decoded.
    async fn disruption_budgets(&self) -> Result<Vec<PodDisruptionBudget>, PortError>;

    /// A DaemonSet. `None` if it does not exist.
    ///
    /// # Errors
    /// When the cluster cannot be read, or the DaemonSet cannot be decoded.
    async fn daemon_set(&self, name: &DaemonSetName) -> Result<Option<DaemonSet>, PortError>;

    /// Changes a Deployment, if it is as the change expects it, and returns whether there was anything to change. A missing Deployment
    /// counts as success.
    ///
    /// # Errors
    /// [`Conflict`](crate::ErrorKind::Conflict) when it is not, or changed meanwhile; [`Denied`](crate::ErrorKind::Denied)
    /// without the right, which is optional.
    async fn change_deployment(
        &self,
        namespace: &str,
        name: &str,
        change: &DeploymentChange,
    ) -> Result<bool, PortError>;

    /// Gives a pod the lowest deletion cost, so that its ReplicaSet deletes it first. A missing pod counts as success.
    ///
    /// # Errors
    /// [`Denied`](crate::ErrorKind::Denied) without the right, which is optional.
    async fn delete_first(&self, pod: &PodRef) -> Result<(), PortError>;
}

/// The Namespace kube-system, NodePools, EC2NodeClasses, NodeOverlays, CapacityBuffers and ProvisioningRequests.
#[async_trait]
pub trait Configuration: Send + Sync {
    /// Reads the Namespace [`SYSTEM_NAMESPACE`].
    ///
    /// # Errors
    /// When the cluster cannot be read.
    async fn system_namespace(&self) -> Result<SystemNamespace, PortError>;

    /// Reads an EC2NodeClass.
    ///
    /// # Errors
    /// When the cluster cannot be read, or the object cannot be decoded ([`Invalid`](crate::ErrorKind::Invalid)).
    async fn node_class(&self, name: &str) -> Result<Option<EC2NodeClass>, PortError>;

    /// All EC2NodeClasses that can be decoded, and those that cannot.
    ///
    /// # Errors
    /// When the cluster cannot be read.
    async fn node_classes(&self) -> Result<(Vec<EC2NodeClass>, Vec<InvalidObject>), PortError>;

    /// Reads a NodePool.
    ///
    /// # Errors
    /// When the cluster cannot be read, or the object cannot be decoded or is of another controller
    /// ([`Invalid`](crate::ErrorKind::Invalid)).
    async fn node_pool(&self, name: &str) -> Result<Option<NodePool>, PortError>;

    /// All NodePools.
    ///
    /// # Errors
    /// When the cluster cannot be read.
    async fn node_pools(&self) -> Result<FoundNodePools, PortError>;

    /// All NodeOverlays that can be decoded, each with its status. None if the CRD is not installed.
    ///
    /// # Errors
    /// When the cluster cannot be read.
    async fn node_overlays(&self) -> Result<Vec<(NodeOverlay, NodeOverlayStatus)>, PortError>;

    /// Writes a NodePool's status.
    ///
    /// # Errors
    /// When the API server refused.
    async fn write_node_pool_status(&self, name: &str, status: &NodePoolStatus) -> Result<(), PortError>;

    /// Writes a NodeOverlay's status.
    ///
    /// # Errors
    /// When the API server refused.
    async fn write_node_overlay_status(&self, name: &str, status: &NodeOverlayStatus) -> Result<(), PortError>;

    /// Writes a CapacityBuffer's status.
    ///
    /// # Errors
    /// When the API server rejected it.
    async fn write_capacity_buffer_status(
        &self,
        namespace: &str,
        name: &str,
        status: &CapacityBufferStatus,
    ) -> Result<(), PortError>;

    /// Writes a ProvisioningRequest's status.
    ///
    /// # Errors
    /// When the API server rejected it.
    async fn write_provisioning_request_status(
        &self,
        namespace: &str,
        name: &str,
        status: &ProvisioningRequestStatus,
    ) -> Result<(), PortError>;

    /// Writes an EC2NodeClass's status, its hash annotations, and the finalizer of nodeless; and, if it is given, the digests of the cluster's
    /// certificate authorities as an annotation.
    ///
    /// # Errors
    /// When the API server rejected it.
    async fn write_node_class_status(
        &self,
        name: &str,
        status: &EC2NodeClassStatus,
        certificate_authority: Option<&str>,
    ) -> Result<(), PortError>;

    /// Removes the finalizer of nodeless from an EC2NodeClass that is being deleted.
    ///
    /// # Errors
    /// When the API server rejected it.
    async fn release_node_class(&self, name: &str) -> Result<(), PortError>;
}

/// The NodeClaim objects, which mirror the claims.
#[async_trait]
pub trait ClaimMirror: Send + Sync {
    /// The NodeClaim objects.
    ///
    /// # Errors
    /// When the cluster cannot be read, or one of nodeless cannot be decoded.
    async fn mirrored_claims(&self) -> Result<FoundNodeClaims, PortError>;

    /// Reads a NodeClaim object.
    ///
    /// # Errors
    /// When the cluster cannot be read, or the object cannot be decoded or is of another controller
    /// ([`Invalid`](crate::ErrorKind::Invalid)).
    async fn mirrored_claim(&self, name: &str) -> Result<Option<MirroredClaim>, PortError>;

    /// The existing NodeClaim objects with these names, and those of them that cannot be decoded or are of another controller.
    ///
    /// # Errors
    /// When the cluster cannot be read.
    async fn mirrors_of(&self, names: &[String]) -> Result<(Vec<MirroredClaim>, Vec<InvalidObject>), PortError>;

    /// Makes the NodeClaim object equal to the record: creates it if it is missing, writes the spec once and the status always.
    /// Returns the uid of the object. An object that is being deleted is not created again.
    ///
    /// # Errors
    /// When the API server rejected it.
    async fn mirror_claim(&self, claim: &NodeClaim) -> Result<String, PortError>;

    /// Deletes the NodeClaim object with this name and uid, and removes the finalizer of nodeless. Without a uid, the object with the
    /// name, whatever its uid. A missing object counts as success, and another one of the same name stays.
    ///
    /// # Errors
    /// When the API server rejected it.
    async fn remove_claim(&self, name: &str, uid: Option<&str>) -> Result<(), PortError>;
}

/// Kubernetes Events.
#[async_trait]
pub trait Events: Send + Sync {
    /// Publishes Events. The same event again raises the count of the first.
    ///
    /// # Errors
    /// When the API server rejected it. Nothing depends on events.
    async fn publish(&self, events: &[ObjectEvent]) -> Result<(), PortError>;
}

/// The Kubernetes cluster. One adapter implements all parts of it.
pub trait Cluster: PlanningView + NodesAndPods + Workloads + Configuration + ClaimMirror + Events {}

impl<T: PlanningView + NodesAndPods + Workloads + Configuration + ClaimMirror + Events> Cluster for T {}
