//! The metadata of the objects that are read.

use crate::workloads::{WrittenPodGroup, WrittenVerticalAutoscaler};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use nodeless_api::{CapacityBuffer, EC2NodeClass, NodeClaim, NodeOverlay, NodePool, slim};

/// An object with metadata.
pub(super) trait HasMetadata {
    fn metadata(&mut self) -> &mut ObjectMeta;
}

macro_rules! has_metadata {
    ($($kind:ty),* $(,)?) => {
        $(impl HasMetadata for $kind {
            fn metadata(&mut self) -> &mut ObjectMeta {
                &mut self.metadata
            }
        })*
    };
}

has_metadata!(
    CapacityBuffer,
    EC2NodeClass,
    NodeClaim,
    NodeOverlay,
    NodePool,
    WrittenPodGroup,
    WrittenVerticalAutoscaler,
    slim::Controller,
    slim::CsiNode,
    slim::DaemonSet,
    slim::DeviceClass,
    slim::LimitRange,
    slim::Namespace,
    slim::Node,
    slim::PersistentVolume,
    slim::PersistentVolumeClaim,
    slim::Pod,
    slim::PodDisruptionBudget,
    slim::PriorityClass,
    slim::ResourceClaim,
    slim::ResourceClaimTemplate,
    slim::ResourceQuota,
    slim::ResourceSlice,
    slim::RuntimeClass,
    slim::Scalable,
    slim::SelectingByLabels,
    slim::StorageClass,
    slim::StoredPodTemplate,
);
