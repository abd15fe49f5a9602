//! The ports of operations over a simulated world, without any wire between.
//!
//! - [`MemoryCluster`]: the cluster, on the API server in memory, with the semantics of the adapter over HTTP.
//! - [`MemoryCloud`]: EC2, through the calls of the simulated account that the AWS adapter makes too.
//! - [`MemoryCatalogSource`]: instance types and prices, and what an EC2NodeClass resolves to in the account.
//!
//! Time is the world's [`WorldClock`](crate::world::WorldClock).

use nodeless_launch::ClusterDetails;

mod catalog_source;
mod cloud;
mod cluster;
mod resolve;
#[cfg(test)]
mod tests;

pub use catalog_source::MemoryCatalogSource;
pub use cloud::MemoryCloud;
pub use cluster::MemoryCluster;

/// The details of a simulated cluster. Its nodes connect to no API server, so the address does not resolve.
fn details(name: impl Into<String>, version: impl Into<String>) -> ClusterDetails {
    ClusterDetails {
        name: name.into(),
        version: version.into(),
        endpoint: "https://kubernetes.invalid".to_owned(),
        certificate_authority: "c2ltdWxhdGVk".to_owned(),
        service_cidr: Some("10.100.0.0/16".to_owned()),
    }
}
