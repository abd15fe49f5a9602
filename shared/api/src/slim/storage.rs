//! Volumes, claims, storage classes and what is attached where.

use super::meta;
use k8s_openapi::api::core::v1::{self as corev1, ObjectReference, TopologySelectorTerm, VolumeNodeAffinity};
use k8s_openapi::api::storage::v1 as storagev1;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Deserialize;

/// A volume.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, kube::Resource)]
#[resource(inherit = corev1::PersistentVolume)]
#[serde(default)]
pub struct PersistentVolume {
    /// Name, labels and so on.
    #[serde(deserialize_with = "meta::slim")]
    pub metadata: ObjectMeta,
    /// Where it can be reached from.
    pub spec: PersistentVolumeSpec,
}

impl PersistentVolume {
    /// Whether its data is in a directory of a node.
    #[must_use]
    pub const fn is_local(&self) -> bool {
        self.spec.local.is_some() || self.spec.host_path.is_some()
    }
}

/// Where a volume can be reached from.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PersistentVolumeSpec {
    /// The nodes that can mount it; all when absent.
    pub node_affinity: Option<VolumeNodeAffinity>,
    /// The CSI driver that serves it.
    pub csi: Option<CsiSource>,
    /// The in-tree EBS volume, which the EBS CSI driver serves by now.
    pub aws_elastic_block_store: Option<serde::de::IgnoredAny>,
    /// Set if the volume is a directory of one node. Its host name does not bind it then.
    pub local: Option<serde::de::IgnoredAny>,
    /// Set if the volume is a path on whatever node it is mounted on.
    pub host_path: Option<serde::de::IgnoredAny>,
    /// The claim that it is bound to.
    pub claim_ref: Option<ObjectReference>,
    /// The class.
    pub storage_class_name: Option<String>,
}

/// A volume of a CSI driver.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CsiSource {
    /// The driver.
    pub driver: String,
    /// The volume, as the driver names it.
    pub volume_handle: String,
}

/// A claim.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, kube::Resource)]
#[resource(inherit = corev1::PersistentVolumeClaim)]
#[serde(default)]
pub struct PersistentVolumeClaim {
    /// Name, labels and so on.
    #[serde(deserialize_with = "meta::slim")]
    pub metadata: ObjectMeta,
    /// The spec.
    pub spec: PersistentVolumeClaimSpec,
    /// The status.
    pub status: ClaimStatus,
}

/// The spec of a claim.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PersistentVolumeClaimSpec {
    /// The volume, once bound.
    pub volume_name: Option<String>,
    /// The class; absent means the default class, empty means none.
    pub storage_class_name: Option<String>,
}

/// The status of a claim.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct ClaimStatus {
    /// Pending, Bound or Lost.
    pub phase: Option<String>,
}

/// A storage class.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, kube::Resource)]
#[resource(inherit = storagev1::StorageClass)]
#[serde(rename_all = "camelCase", default)]
pub struct StorageClass {
    /// Name, labels and so on.
    #[serde(deserialize_with = "meta::slim")]
    pub metadata: ObjectMeta,
    /// Who makes its volumes.
    pub provisioner: String,
    /// `Immediate` (when absent) or `WaitForFirstConsumer`.
    pub volume_binding_mode: Option<String>,
    /// Where its volumes can be made; anywhere when empty.
    pub allowed_topologies: Vec<TopologySelectorTerm>,
}

/// The CSI drivers of a node, and their limits.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, kube::Resource)]
#[resource(inherit = storagev1::CSINode)]
#[serde(default)]
pub struct CsiNode {
    /// The node's name.
    #[serde(deserialize_with = "meta::slim")]
    pub metadata: ObjectMeta,
    /// The drivers.
    pub spec: CsiNodeSpec,
}

/// The drivers of a node.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct CsiNodeSpec {
    /// The drivers.
    #[serde(deserialize_with = "meta::null_as_empty")]
    pub drivers: Vec<CsiDriver>,
}

/// A CSI driver on a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CsiDriver {
    /// The name.
    pub name: String,
    /// The driver's limit.
    pub allocatable: Option<DriverLimit>,
}

/// The limit of a CSI driver on a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct DriverLimit {
    /// The maximum number of volumes; any number when absent.
    pub count: Option<i32>,
}

/// A volume that is, or shall be, attached to a node.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, kube::Resource)]
#[resource(inherit = storagev1::VolumeAttachment)]
#[serde(default)]
pub struct VolumeAttachment {
    /// Name, labels and so on.
    #[serde(deserialize_with = "meta::slim")]
    pub metadata: ObjectMeta,
    /// The volume, and the node that it is attached to.
    pub spec: Attachment,
    /// Whether it is attached.
    pub status: AttachmentStatus,
}

/// The attachment of a volume to a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Attachment {
    /// The CSI driver.
    pub attacher: String,
    /// The node.
    pub node_name: String,
    /// The volume.
    pub source: AttachmentSource,
}

/// The volume that is attached.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AttachmentSource {
    /// The PersistentVolume, unless it is an inline volume.
    pub persistent_volume_name: Option<String>,
}

/// Whether a volume is attached.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct AttachmentStatus {
    /// Whether the volume is attached.
    pub attached: bool,
}
