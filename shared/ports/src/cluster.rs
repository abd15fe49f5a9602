//! The Kubernetes cluster.

use crate::PortError;
use async_trait::async_trait;
use nodeless_api::convert::volumes::{self, Storage};
use nodeless_api::slim::CsiNode;
use nodeless_api::{CapacityBufferStatus, EC2NodeClass, EC2NodeClassStatus, NodeOverlayStatus, NodePoolStatus};
pub use nodeless_model::object::{MirroredClaim, NodePatch, ObjectEvent, ObjectRef, PodRef, VolumeAttachment};
use nodeless_model::{
    BufferError, BufferShape, CapacityBuffer, DaemonSet, Node, NodeClaim, NodeOverlay, NodePool, Pod,
    PodDisruptionBudget, Requirements, StringMap,
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::Duration;

/// The cluster at one moment, as far as planning looks at it.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
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
    /// What the status of each NodePool says, by name, so that it is written only when it changes.
    pub node_pool_statuses: BTreeMap<String, NodePoolStatus>,
    /// All NodeOverlays that could be decoded, and what their status says. None where the cluster does not know the kind.
    pub node_overlays: Vec<(NodeOverlay, NodeOverlayStatus)>,
    /// All active CapacityBuffers that could be decoded. None where the cluster does not know the kind.
    pub capacity_buffers: Vec<BufferView>,
    /// Where the volumes of pods can be used, by `namespace/claim`: any of these alternatives; none at all means anywhere.
    /// A claim that is not listed is one of which nobody knows where it can be used.
    pub volumes: BTreeMap<String, Vec<Requirements>>,
    /// The CSI driver of each volume whose driver is known, by `namespace/claim`.
    pub volume_drivers: BTreeMap<String, String>,
    /// Why a pod that mounts this claim cannot be planned for, by `namespace/claim`.
    pub volume_faults: BTreeMap<String, String>,
    /// How many volumes of each driver a node attaches at the most, by the node's name. Read only if some pod mounts any.
    pub volume_limits: BTreeMap<String, BTreeMap<String, u32>>,
    /// The labels of namespaces, by name. Read only if some pod selects namespaces by label.
    pub namespaces: BTreeMap<String, StringMap>,
    /// The annotations of the Namespace `kube-system` that are ours (`nodeless.sh/`): they hold for the whole cluster.
    pub annotations: StringMap,
    /// The NodeClaim objects, ours and not.
    pub node_claims: Vec<MirroredClaim>,
    /// Objects that could not be decoded, and why. They hide nothing but themselves.
    pub invalid: Vec<InvalidObject>,
}

/// The Namespace whose annotations hold for the whole cluster.
pub const SYSTEM_NAMESPACE: &str = "kube-system";

/// A CapacityBuffer with what it is about.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BufferView {
    /// The buffer.
    pub buffer: CapacityBuffer,
    /// What its status says.
    pub status: CapacityBufferStatus,
    /// What one chunk looks like; or why nobody knows.
    pub shape: Result<BufferShape, BufferError>,
}

impl ClusterView {
    /// Takes over those annotations of the Namespace [`SYSTEM_NAMESPACE`] that are ours.
    pub fn set_annotations(&mut self, of_namespace: Option<StringMap>) {
        self.annotations = of_namespace.unwrap_or_default();
        self.annotations.retain(|key, _| key.starts_with("nodeless.sh/"));
    }

    /// Whether some pod mounts a volume claim, so that it matters where volumes can be used.
    #[must_use]
    pub fn mounts_volumes(&self) -> bool {
        self.pods.iter().any(|pod| !pod.volume_claims.is_empty() && !pod.is_terminal())
    }

    /// Whether some pod selects namespaces by label, so that their labels matter.
    #[must_use]
    pub fn selects_namespaces(&self) -> bool {
        let selects = |pod: &Pod| {
            let preferred = pod.preferred_pod_affinity.iter().chain(&pod.preferred_pod_anti_affinity);
            let required = pod.required_pod_affinity.iter().chain(&pod.required_pod_anti_affinity);
            let mut terms = required.chain(preferred.map(|weighted| &weighted.preference));
            terms.any(|term| {
                term.namespace_selector.as_ref().is_some_and(|by| {
                    // The empty selector means all of them, whatever their labels.
                    !by.match_labels.is_empty() || !by.match_expressions.is_empty()
                })
            })
        };
        self.pods.iter().any(selects)
    }

    /// Takes over where the volumes of its pods can be used. Call it once nodes and pods are there.
    pub fn set_volumes(&mut self, storage: Storage<'_>, nodes: &[CsiNode]) {
        let zones: BTreeMap<&str, &String> = self
            .nodes
            .iter()
            .filter_map(|node| Some((node.name.as_str(), node.labels.get(nodeless_model::labels::ZONE)?)))
            .collect();
        let facts = volumes::resolve(storage, &self.pods, |node| zones.get(node).map(|zone| (*zone).clone()));
        self.volumes = facts.topologies;
        self.volume_drivers = facts.drivers;
        self.volume_faults = facts.faults;
        let limits = nodes.iter().map(|node| (node.metadata.name.clone().unwrap_or_default(), volumes::limits(node)));
        self.volume_limits = limits.filter(|(_, limits)| !limits.is_empty()).collect();
    }
}

/// An object that could not be decoded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct InvalidObject {
    /// The kind.
    pub kind: String,
    /// The name.
    pub name: String,
    /// What is wrong, naming the field.
    pub message: String,
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

    /// One NodePool.
    ///
    /// # Errors
    /// When the cluster cannot be read, or the object cannot be decoded ([`Invalid`](crate::ErrorKind::Invalid)).
    async fn node_pool(&self, name: &str) -> Result<Option<NodePool>, PortError>;

    /// One NodeClaim object.
    ///
    /// # Errors
    /// When the cluster cannot be read, or the object cannot be decoded ([`Invalid`](crate::ErrorKind::Invalid)).
    async fn mirrored_claim(&self, name: &str) -> Result<Option<MirroredClaim>, PortError>;

    /// All NodeOverlays that can be decoded, each with what its status says. None where the cluster does not know the kind.
    ///
    /// # Errors
    /// When the cluster cannot be read.
    async fn node_overlays(&self) -> Result<Vec<(NodeOverlay, NodeOverlayStatus)>, PortError>;

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

    /// Writes a NodeOverlay's status.
    ///
    /// # Errors
    /// When the API server refused.
    async fn write_node_overlay_status(&self, name: &str, status: &NodeOverlayStatus) -> Result<(), PortError>;

    /// Writes a CapacityBuffer's status.
    ///
    /// # Errors
    /// When the API server refused.
    async fn write_capacity_buffer_status(
        &self,
        namespace: &str,
        name: &str,
        status: &CapacityBufferStatus,
    ) -> Result<(), PortError>;

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
