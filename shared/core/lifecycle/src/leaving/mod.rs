//! How a claim ends: its node is drained, its instance terminated.

pub(super) mod begin_termination;
pub(super) mod charge;
pub mod drain;
pub(super) mod earlier_cluster;
pub(super) mod surge;
pub(super) mod termination;
pub(super) mod without_instance;
