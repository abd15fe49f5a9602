//! What we read and write of Kubernetes objects beyond nodes and pods: NodeClaim objects, patches, events.

use crate::claim::Condition;
use crate::{CapacityType, Pod, StringMap, Taint};
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
    /// Whether it carries the annotation by which we know our mirrors: the uid of our record.
    pub record_uid: Option<String>,
    /// The NodePool of its label `karpenter.sh/nodepool`. One that a person made for a single node has none.
    pub node_pool: Option<String>,
    /// The uid of the NodePool that owns it, with which it is deleted. `kubectl delete --cascade=orphan` takes the owner away.
    pub owner: Option<String>,
    /// When the object was created.
    pub created: Option<Timestamp>,
    /// The age at which its node is replaced, `spec.expireAfter`; `None` means never.
    pub expire_after: Option<Duration>,
    /// How long its drain may take, `spec.terminationGracePeriod`; `None` means for ever.
    pub termination_grace_period: Option<Duration>,
    /// The capacity type by its label `karpenter.sh/capacity-type`.
    pub capacity_type: Option<CapacityType>,
    /// Its conditions by type: status and reason.
    pub conditions: BTreeMap<String, (String, String)>,
}

impl MirroredClaim {
    /// Whether it shows these conditions and no others. Messages and times do not count.
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
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
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

/// A volume that is still attached to a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeAttachment {
    /// The object's name.
    pub name: String,
    /// The PersistentVolume, if it names one.
    pub persistent_volume: Option<String>,
}

/// An Event about an object, as `kubectl describe` shows it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
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
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
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
