//! What is counted over claims: usage, limits and costs.

pub mod costs;
pub mod limits;
pub(super) mod usage;
