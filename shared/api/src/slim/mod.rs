//! Kubernetes' own objects, with only the fields that a decision needs.
//!
//! A full Pod takes about 70 KB in memory, one of these a tenth of it. Each type is a [`kube::Resource`], so that
//! `kube::Api<slim::Pod>` lists and watches it. The trait asks for Kubernetes' full `ObjectMeta`; what is large in it and
//! what we never read (managed fields, the last applied configuration) is dropped while decoding.

mod device;
mod meta;
mod node;
mod node_claim;
mod pod;
mod pod_controller;
mod storage;
mod workload;

pub use device::{
    DeviceClass, DeviceClassSpec, ResourceClaim, ResourceClaimSpec, ResourceClaimStatus, ResourceClaimTemplate,
    ResourceClaimTemplateSpec, ResourceSlice,
};
pub use node::{Node, NodeCondition, NodeSpec, NodeStatus, NodeTaint};
pub use node_claim::{NodeClaim, NodeClaimCondition, NodeClaimSpec, NodeClaimStatus};
pub use pod::{
    ClaimTemplate, Container, ContainerPort, ContainerStatus, EphemeralVolume, MadeClaim, Named, Pod, PodClaim,
    PodCondition, PodResources, PodSpec, PodStatus, SchedulingGroup, Volume, VolumeClaimSource,
};
pub use pod_controller::{
    Ordinals, PodController, PodControllerCondition, PodControllerSpec, PodControllerStatus, UncountedPods,
    UpdateStrategy,
};
pub use storage::{
    Attachment, AttachmentSource, AttachmentStatus, ClaimStatus, CsiDriver, CsiNode, CsiNodeSpec, CsiSource,
    DriverLimit, PersistentVolume, PersistentVolumeClaim, PersistentVolumeClaimSpec, PersistentVolumeSpec,
    StorageClass, VolumeAttachment,
};
pub use workload::{
    Controller, ControllerSpec, DaemonSet, DaemonSetSpec, Event, LimitRange, LimitRangeItem, LimitRangeSpec, Namespace,
    Overhead, PodDisruptionBudget, PodDisruptionBudgetSpec, PodDisruptionBudgetStatus, PodTemplate, PriorityClass,
    ResourceQuota, ResourceQuotaSpec, ResourceQuotaStatus, RuntimeClass, RuntimeScheduling, Scalable, ScalableSpec,
    ScopeSelector, SelectingByLabels, SelectingByLabelsSpec, StoredPodTemplate,
};
