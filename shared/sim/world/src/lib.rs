//! A simulated EKS cluster in a simulated AWS account: one clock, every port in memory, and fault injection.
//!
//! [`World`] combines the Kubernetes control plane of `nodeless-fake-kubernetes` and the account of `nodeless-fake-aws`: running
//! instances join the cluster as nodes, and nodes leave the cluster when their instances end.
#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod fault_injection;
pub mod memory;
pub mod ports;
pub mod quiescence;
pub mod random;
pub mod resources;
mod world;

pub use world::{CertificateAuthorities, JoinTiming, RealMemory, World, WorldClock, WorldError, WorldOptions};
