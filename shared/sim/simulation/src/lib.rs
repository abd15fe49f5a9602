//! Every port in memory, with a virtual clock and scripted faults, and the same world over HTTP.
#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod ec2;
pub mod fault_injection;
pub mod kubernetes;
pub mod memory;
pub mod ports;
pub mod random;
pub mod world;
