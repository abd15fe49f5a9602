//! The [`Cluster`](nodeless_ports::Cluster) port over the Kubernetes API, and the installation of CRDs, RBAC and the webhook.
//!
//! - [`Connection`]: one API server, reached with an EKS token or by a kubeconfig. Every call has a time limit, and every
//!   failure is a [`PortError`](nodeless_ports::PortError) whose kind determines the reaction.
//! - [`KubeCluster`]: the port, which [`nodeless_cluster`] implements over [`KubeObjects`]. These cache the objects that were read, and the
//!   next view reads only the changes since then.
//! - [`export`]: objects as the API server returns them, for the CLI's offline plans.
//! - [`facts`]: the facts that the checks of a cluster need.
//! - [`follow`]: objects and then their changes, for the CLI's live view.
//! - [`install`]: custom resource definitions, RBAC and the wake webhook.
//!
//! Objects are decoded one by one into slim types, page by page: an object that cannot be decoded is reported, and the others
//! are read.
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod api;
mod connection;
mod error;
pub mod export;
pub mod facts;
pub mod follow;
pub mod install;
mod kubeconfig;
mod log_lines;
mod objects;
mod store;
mod watch;

pub use connection::{ApiServer, Connection};
pub use kubeconfig::KubeconfigError;
pub use nodeless_api::default_spread::SchedulerConfig;
pub use objects::KubeObjects;

/// The port.
pub type KubeCluster = nodeless_cluster::ObjectCluster<KubeObjects>;
