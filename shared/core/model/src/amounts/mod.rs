//! Amounts: resources, dollars, times.

pub mod cluster_limits;
pub mod cron;
pub mod duration;
pub mod listed_commitments;
pub mod money;
pub mod quantity;
pub mod resource_index;
pub mod resources;
pub mod root_volume;
