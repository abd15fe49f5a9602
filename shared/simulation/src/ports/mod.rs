//! The ports of operations over a simulated world, without any wire between.
//!
//! - [`MemoryCluster`]: the cluster, on the API server in memory, with the semantics of the adapter over HTTP.
//! - [`MemoryCloud`]: EC2, through the calls of the simulated account that the AWS adapter makes too.
//! - [`MemoryCatalogSource`]: instance types and prices, and what an EC2NodeClass resolves to in the account.
//!
//! Time is the world's [`WorldClock`](crate::world::WorldClock).

mod catalog_source;
mod cloud;
mod cluster;
mod resolve;
#[cfg(test)]
mod tests;

pub use catalog_source::MemoryCatalogSource;
pub use cloud::MemoryCloud;
pub use cluster::MemoryCluster;
