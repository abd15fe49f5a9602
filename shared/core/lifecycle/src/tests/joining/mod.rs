//! Nodes that join the cluster.

mod daemon_sets;
mod registration;
mod registration_health;
