//! The stages of a plan, each a pure function, or a few with writes between them: of the snapshot, of what stages before it
//! made of the claims, and of the results of its own writes.

pub(super) mod bookkeeping;
pub(super) mod command_steps;
pub(super) mod disruption;
pub(super) mod provisioning;
pub(super) mod static_capacity;
