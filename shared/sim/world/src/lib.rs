//! A simulated EKS cluster in a simulated AWS account: one clock, every port in memory, and fault injection.
//!
//! [`World`] joins the Kubernetes control plane of `nodeless-fake-kubernetes` and the account of `nodeless-fake-aws`:
//! instances that run join the cluster as nodes, and nodes whose instances end leave it.
#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod fault_injection;
pub mod memory;
pub mod ports;
pub mod quiescence;
pub mod random;
pub mod resources;
mod world;

pub use world::{JoinTiming, RealMemory, World, WorldClock, WorldError, WorldOptions};
