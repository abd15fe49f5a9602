//! Kubernetes objects other than nodes and pods, as far as they are read or written: NodeClaim objects, patches, Events.

use crate::node_pool::NodeTemplate;
use crate::nodes::claim::Condition;
pub use crate::pods::pod_ref::PodRef;
use crate::{
    CapacityType, ConditionStatus, DaemonSet, Node, NodePool, Pod, ResourceList, StringMap, Taint, Unusable, Workload,
};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::Duration;

/// A NodeClaim object in the cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MirroredClaim {
    /// The name.
    pub name: String,
    /// The uid of the object.
    pub uid: String,
    /// When its deletion was requested, if it was.
    pub deletion_timestamp: Option<Timestamp>,
    /// Finalizers.
    pub finalizers: Vec<String>,
    /// The provider id in its status.
    pub provider_id: Option<String>,
    /// The uid of the record, if the NodeClaim has the annotation that identifies mirrors.
    pub record_uid: Option<String>,
    /// The NodePool in its label `karpenter.sh/nodepool`. A NodeClaim that a user created for a single node has none.
    pub node_pool: Option<String>,
    /// The uid of the NodePool that owns it. `kubectl delete --cascade=orphan` removes the owner.
    pub owner: Option<String>,
    /// When the object was created.
    pub created: Option<Timestamp>,
    /// The age at which its node is replaced, `spec.expireAfter`; `None` means never.
    pub expire_after: Option<Duration>,
    /// How long the drain may take, `spec.terminationGracePeriod`; `None` means without limit.
    pub termination_grace_period: Option<Duration>,
    /// The capacity type by its label `karpenter.sh/capacity-type`.
    pub capacity_type: Option<CapacityType>,
    /// The conditions by type: status and reason.
    pub conditions: BTreeMap<String, (String, String)>,
    /// The annotations with the hashes for drift, and their versions.
    #[serde(default, skip_serializing_if = "StringMap::is_empty")]
    pub hashes: StringMap,
    /// The node that it describes, or why it is invalid; only if it has no NodePool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub standalone: Option<Box<Result<StandaloneNode, Unusable>>>,
}

/// The node that a NodeClaim without a NodePool describes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StandaloneNode {
    /// The requirements, labels, taints and times. The requirements include the labels.
    pub template: NodeTemplate,
    /// The minimum resources for pods, `spec.resources.requests`.
    pub requests: ResourceList,
}

impl MirroredClaim {
    /// The id of the instance in its provider id.
    #[must_use]
    pub fn instance_id(&self) -> Option<&str> {
        self.provider_id.as_deref().and_then(crate::nodes::node::instance_id)
    }

    /// The reason of a condition that is not true.
    #[must_use]
    pub fn waits_because(&self, kind: &str) -> Option<&str> {
        let (status, reason) = self.conditions.get(kind)?;
        (status != ConditionStatus::True.as_str()).then_some(reason)
    }

    /// Whether the NodeClaim has exactly these conditions. Messages and times do not count.
    #[must_use]
    pub fn shows(&self, conditions: &[Condition]) -> bool {
        let same = |one: &Condition| {
            self.conditions
                .get(&one.kind)
                .is_some_and(|(status, reason)| status == one.status.as_str() && *reason == one.reason)
        };
        self.conditions.len() == conditions.len() && conditions.iter().all(same)
    }
}

/// A patch of a node, applied to its current state.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodePatch {
    /// Labels to set.
    pub labels: StringMap,
    /// Labels to remove.
    pub remove_labels: Vec<String>,
    /// Annotations to set.
    pub annotations: StringMap,
    /// Taints to add; a taint with the same key and effect is replaced.
    pub add_taints: Vec<Taint>,
    /// Taints to remove, by key and effect.
    pub remove_taints: Vec<Taint>,
    /// Finalizer to add.
    pub add_finalizer: Option<String>,
    /// Finalizer to remove.
    pub remove_finalizer: Option<String>,
    /// The NodeClaim object that becomes its owner: name and uid.
    pub owner: Option<(String, String)>,
    /// Whether the node is cordoned; `None` to leave that as it is.
    pub unschedulable: Option<bool>,
    /// The label that a node must not have for this patch. If it has, another process has added it since this one read the node, and the
    /// patch must not undo what was done to the node after that.
    pub unless_labelled: Option<String>,
}

impl NodePatch {
    /// Patches a node as the API server does, so that it need not be read again.
    pub fn apply(&self, node: &mut Node) {
        node.labels.retain(|key, _| !self.remove_labels.contains(key));
        node.labels.extend(self.labels.clone());
        node.annotations.extend(self.annotations.clone());
        node.taints
            .retain(|taint| !self.remove_taints.iter().chain(&self.add_taints).any(|other| other.matches(taint)));
        node.taints.extend(self.add_taints.iter().cloned());
        node.finalizers.retain(|finalizer| Some(finalizer) != self.remove_finalizer.as_ref());
        node.unschedulable = self.unschedulable.unwrap_or(node.unschedulable);
        // Kubernetes does not allow new finalizers on an object that is being deleted.
        let missing = self.add_finalizer.iter().filter(|_| node.deletion_timestamp.is_none());
        let missing: Vec<String> = missing.filter(|name| !node.finalizers.contains(name)).cloned().collect();
        node.finalizers.extend(missing);
    }
}

/// A pod that is bound to no node, as it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnboundPod {
    /// The pod.
    pub pod: PodRef,
    /// The resourceVersion: a write with it fails if the pod has changed since.
    pub resource_version: String,
    /// The `status.nominatedNodeName`.
    pub nominated_node: Option<String>,
    /// Whether the pod is being deleted.
    pub is_terminating: bool,
    /// Whether the pod has scheduling gates.
    pub is_gated: bool,
    /// The workload that it is part of.
    pub workload: Option<Workload>,
}

impl From<&Pod> for PodRef {
    fn from(pod: &Pod) -> Self {
        Self { namespace: pod.namespace.clone(), name: pod.name.clone(), uid: pod.uid.clone() }
    }
}

/// A volume that is still attached to a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeAttachment {
    /// The object's name.
    pub name: String,
    /// The name of the node.
    pub node: String,
    /// The PersistentVolume, if it names one.
    pub persistent_volume: Option<String>,
}

/// A Kubernetes Event about an object, as `kubectl describe` shows it. [`crate::events`] has a constructor for each kind.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ObjectEvent {
    /// The object that it is about.
    pub object: ObjectRef,
    /// The type.
    #[serde(rename = "type")]
    pub event_type: EventType,
    /// The reason, in CamelCase.
    pub reason: String,
    /// The message: one sentence.
    pub message: String,
    /// The values that distinguish it from other Events of the same object and reason. Of Events with the same object, reason and
    /// values, one is published within [`Self::dedupe_timeout`], even if their messages differ.
    #[serde(skip)]
    pub dedupe_values: Vec<String>,
    /// How long no other Event with the same key is published.
    #[serde(skip)]
    pub dedupe_timeout: Duration,
}

impl ObjectEvent {
    /// The key by which Events are deduplicated.
    #[must_use]
    pub fn dedupe_key(&self) -> DedupeKey {
        DedupeKey { object: self.object.clone(), reason: self.reason.clone(), values: self.dedupe_values.clone() }
    }

    /// Whether the type is `Warning`.
    #[must_use]
    pub fn is_warning(&self) -> bool {
        self.event_type == EventType::Warning
    }
}

/// The key by which Events are deduplicated.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DedupeKey {
    object: ObjectRef,
    reason: String,
    values: Vec<String>,
}

/// The type of an Event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub enum EventType {
    /// Information.
    Normal,
    /// A problem that may need attention.
    Warning,
}

impl EventType {
    /// The value of the field `type`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Normal => "Normal",
            Self::Warning => "Warning",
        }
    }
}

/// An object that an Event is about.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
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

impl ObjectRef {
    /// A Node.
    #[must_use]
    pub fn node(name: &str, uid: &str) -> Self {
        Self::cluster_scoped("v1", "Node", name, uid)
    }

    /// A NodeClaim object.
    #[must_use]
    pub fn node_claim(name: &str, uid: &str) -> Self {
        Self::cluster_scoped("karpenter.sh/v1", "NodeClaim", name, uid)
    }

    /// An EC2NodeClass.
    #[must_use]
    pub fn node_class(name: &str, uid: &str) -> Self {
        Self::cluster_scoped("karpenter.k8s.aws/v1", "EC2NodeClass", name, uid)
    }

    /// A Namespace whose uid is not known.
    #[must_use]
    pub fn namespace(name: &str) -> Self {
        Self::cluster_scoped("v1", "Namespace", name, "")
    }

    /// A PodDisruptionBudget whose uid is not known.
    #[must_use]
    pub fn pod_disruption_budget(namespace: &str, name: &str) -> Self {
        Self { namespace: namespace.to_owned(), ..Self::cluster_scoped("policy/v1", "PodDisruptionBudget", name, "") }
    }

    /// A DaemonSet.
    #[must_use]
    pub fn daemon_set(namespace: &str, name: &str, uid: &str) -> Self {
        Self { namespace: namespace.to_owned(), ..Self::cluster_scoped("apps/v1", "DaemonSet", name, uid) }
    }

    /// A Pod.
    #[must_use]
    pub fn pod(namespace: &str, name: &str, uid: &str) -> Self {
        Self { namespace: namespace.to_owned(), ..Self::cluster_scoped("v1", "Pod", name, uid) }
    }

    /// A Deployment, or another workload, whose uid is not known.
    #[must_use]
    pub fn workload(kind: &str, namespace: &str, name: &str) -> Self {
        Self { namespace: namespace.to_owned(), ..Self::cluster_scoped("apps/v1", kind, name, "") }
    }

    fn cluster_scoped(api_version: &str, kind: &str, name: &str, uid: &str) -> Self {
        Self {
            api_version: api_version.to_owned(),
            kind: kind.to_owned(),
            namespace: String::new(),
            name: name.to_owned(),
            uid: uid.to_owned(),
        }
    }
}

impl From<&Node> for ObjectRef {
    fn from(node: &Node) -> Self {
        Self::node(&node.name, &node.uid)
    }
}

impl From<&NodePool> for ObjectRef {
    fn from(pool: &NodePool) -> Self {
        Self::cluster_scoped("karpenter.sh/v1", "NodePool", &pool.name, &pool.uid)
    }
}

impl From<&DaemonSet> for ObjectRef {
    fn from(set: &DaemonSet) -> Self {
        Self::daemon_set(&set.namespace, &set.name, &set.uid)
    }
}

impl From<&PodRef> for ObjectRef {
    fn from(pod: &PodRef) -> Self {
        Self::pod(&pod.namespace, &pod.name, &pod.uid)
    }
}

impl From<&Pod> for ObjectRef {
    fn from(pod: &Pod) -> Self {
        Self::pod(&pod.namespace, &pod.name, &pod.uid)
    }
}
