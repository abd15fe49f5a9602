//! Pods, running clusters and NodePools for tests, benches and examples.
//!
//! Workloads are generated from a seed, so the same call returns the same workload on every machine. A [`Workload`] can be
//! converted to the [`Problem`](nodeless_scheduling::Problem) and the [`Cluster`](nodeless_disruption::Cluster) of the
//! planner, to the input of its whole pipeline ([`PlannerInput`]), and to an export for `nodeless plan`.
#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod build;
pub mod catalog;
pub mod combination;
mod draw;
pub mod export;
mod input;
pub mod mixes;
mod pools;
mod running;
mod scaled_down;
mod workload;

pub use draw::Draw;
pub use input::PlannerInput;
pub use mixes::Mix;
pub use pools::node_pool;
pub use running::Running;
pub use scaled_down::ScaledDown;
pub use workload::{Place, Workload};

/// The time at which workloads are evaluated.
pub const NOW: jiff::Timestamp = jiff::Timestamp::constant(1_768_046_400, 0);
