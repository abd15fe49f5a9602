//! The scheduler through its public interface.
#![allow(clippy::unwrap_used)]

mod claims;
mod constraints;
mod costly_claims;
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
mod real_devices;
mod reservations;
mod support;
mod topology;
mod volumes;
mod work;
