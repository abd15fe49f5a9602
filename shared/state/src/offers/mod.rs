//! What EC2 offers, and what it refused.

pub mod capacity;
pub(super) mod catalog;
