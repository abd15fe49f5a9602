//! The objects about devices (Dynamic Resource Allocation), and what the devices of one node are for the pods that request extended resources.

use crate::slim;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use nodeless_devices::{ClaimState, ClusterDevices, DeviceClass, ExtendedResources, Slice};
use nodeless_model::{Node, ResourceList};
use std::collections::{BTreeMap, BTreeSet};

/// The annotation of ResourceClaims that the kube-scheduler makes for extended resources.
const EXTENDED_RESOURCE_CLAIM: &str = "resource.kubernetes.io/extended-resource-claim";

/// The objects about devices.
#[derive(Clone, Debug, Default)]
pub struct DeviceObjects {
    /// The slices.
    pub slices: Vec<slim::ResourceSlice>,
    /// The classes.
    pub classes: Vec<slim::DeviceClass>,
    /// The claims.
    pub claims: Vec<slim::ResourceClaim>,
    /// The templates.
    pub templates: Vec<slim::ResourceClaimTemplate>,
}

impl DeviceObjects {
    /// How many of these extended resources the devices of a node are, by their classes (KEP-5004). Resources without a device are missing.
    #[must_use]
    pub fn resources_of(self, node: &Node, requested: &BTreeSet<&str>) -> ResourceList {
        let devices = ClusterDevices::from(self);
        let mut resources = ResourceList::new();
        for (name, count) in ExtendedResources::new(&devices, requested).of_node(&node.name, &node.labels) {
            resources.set(name, count);
        }
        resources
    }
}

impl From<DeviceObjects> for ClusterDevices {
    /// Without what is published by instance type.
    fn from(objects: DeviceObjects) -> Self {
        let slice = |slice: slim::ResourceSlice| Slice { name: name(&slice.metadata), spec: slice.spec };
        Self {
            slices: objects.slices.into_iter().map(slice).collect(),
            classes: objects.classes.into_iter().map(class).collect(),
            claims: objects.claims.into_iter().map(claim).collect(),
            templates: objects.templates.into_iter().map(|it| (key(&it.metadata), it.spec.spec.devices)).collect(),
            published_by_type: BTreeMap::new(),
        }
    }
}

fn name(meta: &ObjectMeta) -> String {
    meta.name.clone().unwrap_or_default()
}

/// `namespace/name`.
fn key(meta: &ObjectMeta) -> String {
    format!("{}/{}", meta.namespace.as_deref().unwrap_or_default(), name(meta))
}

fn class(class: slim::DeviceClass) -> (String, DeviceClass) {
    let name = name(&class.metadata);
    let slim::DeviceClassSpec { selectors, extended_resource_name } = class.spec;
    (name.clone(), DeviceClass { name, selectors, extended_resource_name })
}

fn claim(claim: slim::ResourceClaim) -> (String, ClaimState) {
    let is_of_pod = claim.metadata.owner_references.iter().flatten().any(|owner| owner.kind == "Pod");
    let annotations = claim.metadata.annotations.iter().flatten();
    let is_of_extended_resource =
        annotations.into_iter().any(|(key, value)| key == EXTENDED_RESOURCE_CLAIM && value == "true");
    let key = key(&claim.metadata);
    let (devices, allocation) = (claim.spec.devices, claim.status.allocation);
    (key, ClaimState { devices, is_of_pod, is_of_extended_resource, allocation })
}
