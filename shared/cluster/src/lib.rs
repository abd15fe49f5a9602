//! The [`Cluster`](nodeless_ports::Cluster) port over one with few operations, [`Objects`], which lists, reads and writes objects by kind.
//!
//! What an object means, and what a write requires of it, is decided here, for the Kubernetes API and for the simulated cluster: decoding,
//! selectors, preconditions, patches, and what a rejection results in.
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod claims;
mod deployments;
mod events;
mod failure;
pub mod kinds;
mod log_lines;
pub mod merge;
mod node_classes;
mod nodes;
mod object_cluster;
mod objects;
mod pods;
mod pods_to_come;
mod port;
mod recent;

pub use failure::{ApiAnswer, CallError, Cause};
pub use object_cluster::ObjectCluster;
pub use objects::{
    Deletion, Encoded, Listed, ObjectAt, Objects, Part, PatchKind, Selector, decoded, found, invalid, separate,
    unless_gone, within,
};

/// The field manager of all writes, and the source of Events.
pub const FIELD_MANAGER: &str = "nodeless";
