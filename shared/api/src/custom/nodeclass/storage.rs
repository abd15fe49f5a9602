//! The disks of an EC2NodeClass.

use crate::custom::rules::rules;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The use of an instance's local disks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
pub enum InstanceStorePolicy {
    /// The disks are striped to one volume for pods' ephemeral storage.
    #[serde(rename = "RAID0")]
    Raid0,
}

/// A disk of the instances.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BlockDeviceMapping {
    /// The device, such as `/dev/xvda`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device_name: Option<String>,
    /// The EBS volume.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ebs: Option<BlockDevice>,
    /// Whether the kubelet's directory is on this disk. At most one disk may set this.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub root_volume: Option<bool>,
}

/// An EBS volume.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = rules(&[
    ("snapshotID or volumeSize must be defined", "has(self.snapshotID) || has(self.volumeSize)"),
    (
        "snapshotID must be set when volumeInitializationRate is set",
        "!has(self.volumeInitializationRate) || (has(self.snapshotID) && self.snapshotID != '')",
    ),
])))]
pub struct BlockDevice {
    /// Whether the volume is deleted with the instance.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delete_on_termination: Option<bool>,
    /// Whether the volume is encrypted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub encrypted: Option<bool>,
    /// I/O operations per second, for gp3, io1 and io2.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub iops: Option<i64>,
    /// The KMS key to encrypt with: its id, alias or ARN.
    #[serde(rename = "kmsKeyID", skip_serializing_if = "Option::is_none")]
    pub kms_key_id: Option<String>,
    /// The snapshot that the volume is made from.
    #[serde(rename = "snapshotID", skip_serializing_if = "Option::is_none")]
    pub snapshot_id: Option<String>,
    /// Throughput of a gp3 volume in MiB/s.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub throughput: Option<i64>,
    /// The rate at which a snapshot's blocks are fetched, in MiB/s. Needs `snapshotID`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 100, max = 300))]
    pub volume_initialization_rate: Option<i32>,
    /// The size in `Gi`, `G`, `Ti` or `T`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = VOLUME_SIZE))]
    pub volume_size: Option<String>,
    /// The kind of volume.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub volume_type: Option<VolumeType>,
}

/// Up to 59000Gi, 64000G, 58Ti or 64T. Karpenter's own pattern also refuses some sizes in Ti, such as 18Ti; ours takes
/// every size that its documentation allows.
const VOLUME_SIZE: &str = "^((?:[1-9][0-9]{0,3}|[1-4][0-9]{4}|5[0-8][0-9]{3}|59000)Gi|\
     (?:[1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-3][0-9]{3}|64000)G|\
     (?:[1-9]|[1-4][0-9]|5[0-8])Ti|\
     (?:[1-9]|[1-5][0-9]|6[0-4])T)$";

/// The kind of an EBS volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub enum VolumeType {
    #[allow(missing_docs)]
    Standard,
    #[allow(missing_docs)]
    Io1,
    #[allow(missing_docs)]
    Io2,
    #[allow(missing_docs)]
    Gp2,
    #[allow(missing_docs)]
    Sc1,
    #[allow(missing_docs)]
    St1,
    #[allow(missing_docs)]
    Gp3,
}
