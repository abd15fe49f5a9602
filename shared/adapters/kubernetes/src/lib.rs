//! The [`Cluster`](nodeless_ports::Cluster) port over the Kubernetes API, and the installation of CRDs, RBAC and the webhook.
//!
//! - [`Connection`]: one API server, reached with an EKS token or by a kubeconfig. Every call has a time limit, and every
//!   failure is a [`PortError`](nodeless_ports::PortError) whose kind determines the reaction.
//! - [`KubeCluster`]: the port. It caches the objects that it has read, and the next view reads only the changes since then.
//! - [`export`]: objects as the API server returns them, for the CLI's offline plans.
//! - [`facts`]: the facts that the checks of a cluster need.
//! - [`follow`]: objects and then their changes, for the CLI's live view.
//! - [`install`]: custom resource definitions, RBAC and the wake webhook.
//!
//! Objects are decoded one by one into slim types, page by page: an object that cannot be decoded is reported, and the others
//! are read.
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod api;
mod buffers;
mod claims;
mod cluster;
mod connection;
mod deployments;
mod error;
mod events;
pub mod export;
pub mod facts;
pub mod follow;
pub mod install;
mod kinds;
mod kubeconfig;
mod log_lines;
mod merge;
mod node_classes;
mod nodes;
mod pods;
mod recent;
mod requests;
mod store;
mod watch;

pub use cluster::KubeCluster;
pub use connection::{ApiServer, Connection};
pub use kubeconfig::KubeconfigError;
pub use nodeless_api::default_spread::SchedulerConfig;

/// The field manager of all writes.
pub const FIELD_MANAGER: &str = "nodeless";
