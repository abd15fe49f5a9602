//! The devices and claims of a cluster.

use crate::allocation::{DeviceId, Taken};
use crate::claim::{DeviceClass, DeviceRequests};
use crate::slices::node_selector::NodeSelector;
use crate::slices::slice::Slice;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What the API server has about devices. Read only if some pod has claims.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterDevices {
    /// The ResourceSlices.
    pub slices: Vec<Slice>,
    /// The DeviceClasses, by name.
    pub classes: BTreeMap<String, DeviceClass>,
    /// The ResourceClaims, by `namespace/name`.
    pub claims: BTreeMap<String, ClaimState>,
    /// What the ResourceClaimTemplates request, by `namespace/name`.
    pub templates: BTreeMap<String, DeviceRequests>,
    /// The slices that a node of an instance type published, by the name of the type: what another node of it will publish.
    pub published_by_type: BTreeMap<String, Vec<Slice>>,
}

/// A ResourceClaim.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClaimState {
    /// What it requests.
    pub devices: DeviceRequests,
    /// Whether it was made for one pod from a template.
    pub is_of_pod: bool,
    /// Whether the kube-scheduler made it for extended resources that a pod requests.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_of_extended_resource: bool,
    /// What it was allocated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allocation: Option<ClaimAllocation>,
}

/// The `status.allocation` of a ResourceClaim.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClaimAllocation {
    /// The devices.
    #[serde(default)]
    pub devices: AllocatedDevices,
    /// The nodes that can use them; absent means every node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_selector: Option<NodeSelector>,
}

/// The devices of an allocation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AllocatedDevices {
    /// One for each device.
    #[serde(default)]
    pub results: Vec<AllocatedDevice>,
}

/// A device of an allocation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AllocatedDevice {
    /// The device.
    #[serde(flatten)]
    pub id: DeviceId,
    /// Whether others may have it too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub admin_access: Option<bool>,
}

impl ClusterDevices {
    /// Nothing.
    pub const NONE: Self = Self {
        slices: Vec::new(),
        classes: BTreeMap::new(),
        claims: BTreeMap::new(),
        templates: BTreeMap::new(),
        published_by_type: BTreeMap::new(),
    };

    /// Whether nothing was read.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::NONE
    }

    /// The devices that claims have.
    #[must_use]
    pub fn taken(&self) -> Taken {
        let allocations = self.claims.values().filter_map(|claim| claim.allocation.as_ref());
        let devices = allocations.flat_map(|allocation| &allocation.devices.results);
        devices.filter(|device| device.admin_access != Some(true)).map(|device| &device.id).collect()
    }

    /// Learns what nodes of each instance type publish from the nodes that exist: the names of Nodes and of their instance types. One
    /// node suffices for each driver: the first by name.
    pub fn learn<'n>(&mut self, nodes: impl IntoIterator<Item = (&'n str, &'n str)>) {
        let type_of: BTreeMap<&str, &str> = nodes.into_iter().collect();
        let of_slice = |slice: &Slice| {
            let (node, kind) = type_of.get_key_value(slice.spec.node_name.as_deref()?)?;
            Some((*node, (*kind, slice.spec.driver.clone())))
        };
        let mut first: BTreeMap<(&str, String), &str> = BTreeMap::new();
        for (node, key) in self.slices.iter().filter_map(of_slice) {
            let known = first.entry(key).or_insert(node);
            *known = node.min(*known);
        }
        self.published_by_type.clear();
        for slice in &self.slices {
            if let Some((node, key)) = of_slice(slice)
                && first.get(&key) == Some(&node)
            {
                self.published_by_type.entry(key.0.to_owned()).or_default().push(slice.clone());
            }
        }
    }
}
