//! Drift: what differs between a node and its NodePool and EC2NodeClass, and how such nodes are replaced.

pub(crate) mod ami_canary;
pub(crate) mod detection;
pub(crate) mod method;
pub(crate) mod own_place;
pub(crate) mod replacement;
pub(crate) mod simulation;
pub(crate) mod static_nodes;
