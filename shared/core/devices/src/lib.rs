//! Allocates devices to ResourceClaims (Dynamic Resource Allocation, `resource.k8s.io/v1`).
//!
//! [`allocate`] answers for one node which devices the claims of a pod get, or why they get none. It makes the same decisions as the
//! allocator of the kube-scheduler (`k8s.io/dynamic-resource-allocation/structured`), because a plan only holds if the kube-scheduler
//! then finds devices on the same node:
//!
//! 1. [`Inventory`] groups the published [`Slice`]s by pool. The pools that a node can use are sorted by driver and name, their slices by
//!    name, and devices have the order of their slice (`pools`).
//! 2. The requests of all claims are allocated one after another, with the first device that is free, selected by the class and by the
//!    request ([`selector`]), not tainted, and permitted by the constraints of the claim (`constraints`) and the counters of the pool
//!    (`counters`). If a later request finds no device, the next device is tried (`search`).
//!
//! [`ExtendedResources`] counts the devices that pods get by requests for an extended resource. [`Site::fit`] states how many pods with claims fit on a node, as numbers that a plan can add. [`ClusterDevices`] is what the API server
//! has about devices, and predicts what the nodes of an instance type publish.
//!
//! Devices of nodes that do not exist yet are slices with devices for which [`Device::is_predicted`] is set: what such a device does not
//! list is unknown, and a selector that needs it refuses the node rather than guess.
//!
//! What is not supported is refused with a [`Refusal`] that names it: consumable capacity (KEP-5075), attributes that are lists, and
//! functions of CEL that selectors rarely use.
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod allocation;
mod attempts;
mod checked_claims;
mod claim;
mod cluster;
mod constraints;
mod extended;
mod fit;
mod pod_claims;
mod predicted;
mod refusal;
mod requests;
mod search;
pub mod selector;
mod site;
mod slices;

pub use allocation::{Allocation, DeviceId, Given, Taken};
pub use attempts::Attempts;
pub use claim::{
    AllocationMode, CelSelector, ClaimConstraint, DeviceClass, DeviceRequest, DeviceRequests, DeviceSelector,
    ExactRequest, IsGiven, ResourceClaim, SubRequest,
};
pub use cluster::{AllocatedDevice, AllocatedDevices, ClaimAllocation, ClaimState, ClusterDevices};
pub use extended::ExtendedResources;
pub use fit::{Fit, Site};
pub use pod_claims::{PodClaims, allocate};
pub use refusal::Refusal;
pub use selector::Selectors;
pub use slices::attribute::Attribute;
pub use slices::node_selector::{NodeSelector, NodeSelectorTerm, Place};
pub use slices::pools::{Inventory, Pool, PoolId};
pub use slices::slice::{Capacity, Counter, CounterConsumption, CounterSet, Device, ResourcePool, Slice, SliceSpec};
pub use slices::taint::{DeviceTaint, DeviceToleration};
