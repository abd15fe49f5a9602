//! The invariants of what is launched for pods.

pub(super) mod affinity_groups;
pub(super) mod node_pools;
pub(super) mod unused_launches;
pub(super) mod unused_nodes;
pub(super) mod virtual_pods;
