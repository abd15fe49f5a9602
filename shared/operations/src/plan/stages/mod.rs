//! The stages of a plan. Each is a pure function, or a few with writes between them, of the snapshot, of the claims after the
//! preceding stages, and of the results of its own writes.

pub(super) mod bookkeeping;
pub(super) mod command_steps;
pub(super) mod costs;
pub(super) mod disruption;
pub(super) mod provisioning;
pub(super) mod static_capacity;
