//! The [`Cluster`](nodeless_ports::Cluster) port over the Kubernetes API, and the installation of what the cluster needs.
//!
//! - [`Connection`]: one API server, reached with an EKS token or by a kubeconfig. Every call has a time limit, and every
//!   failure is a [`PortError`](nodeless_ports::PortError) with how to react to it.
//! - [`KubeCluster`]: the port. It keeps what it has read, and the next view asks only for what changed since.
//! - [`export`]: objects as the API server has them, for the CLI's offline plans.
//! - [`install`]: custom resource definitions, RBAC and the wake webhook.
//!
//! Objects are decoded one by one from slim types, page by page: one that is faulty is reported and hides nothing else.
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod api;
mod buffers;
mod claims;
mod cluster;
mod connection;
mod error;
mod events;
pub mod export;
pub mod install;
mod kinds;
mod merge;
mod node_classes;
mod nodes;
mod pods;
mod recent;
mod store;
mod watch;

pub use cluster::KubeCluster;
pub use connection::{ApiServer, Connection};

/// The field manager of everything that we write.
pub const FIELD_MANAGER: &str = "nodeless";
