//! The scheduler through its public interface.
#![allow(clippy::unwrap_used)]

mod claims;
mod constraints;
mod daemon_sets;
mod differences;
mod equal_weights;
mod exchange;
mod existing_nodes;
mod explained;
mod gathering;
mod limits;
mod many_constraints;
mod price;
mod properties;
mod reservations;
mod support;
mod topology;
mod volumes;
mod work;
