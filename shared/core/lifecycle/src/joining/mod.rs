//! How the node of a claim joins the cluster.

pub mod consistency;
pub mod daemon_sets;
pub(super) mod registration;
pub mod registration_health;
