//! The stages of a plan. Each is an async function that computes actions, has [`Execute`](super::execute::Execute) execute them, and
//! continues with the results. It uses nothing but its arguments and these results, no port and no clock, so a plan is the same
//! for the same snapshot and the same results. Decisions are pure functions that the stages call.
//!
//! A stage adds what it reports to the `Outcome` of the plan, and returns what later stages need.

pub(super) mod bookkeeping;
pub(super) mod command_steps;
pub(super) mod costs;
pub(super) mod disruption;
pub(super) mod policy;
pub(super) mod provisioning;
mod reboots;
mod request_capacity;
pub(super) mod standalone;
pub(super) mod static_capacity;
mod unready;
pub(super) mod warm;
