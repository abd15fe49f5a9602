//! The ports of the operations over the simulation, without a network in between.
//!
//! - [`MemoryCluster`]: the cluster, which `nodeless-cluster` implements over the objects of the API server in memory, [`MemoryObjects`].
//! - [`MemoryCloud`]: EC2, through the calls of the simulated account that the AWS adapter makes too.
//! - [`MemoryCatalogSource`]: instance types and prices, and the resolution of EC2NodeClasses in the account.
//!
//! The time is that of the world's [`WorldClock`](crate::world::WorldClock).

use crate::world::FIRST_BUNDLE;
use nodeless_fake_aws::{Account, Ec2};
use nodeless_launch::ClusterDetails;

mod catalog_source;
mod cloud;
mod cluster;
mod resolve;
#[cfg(test)]
mod tests;

pub use catalog_source::MemoryCatalogSource;
pub use cloud::MemoryCloud;
pub use cluster::{MemoryCluster, MemoryObjects, memory_cluster};
pub use nodeless_cluster::FIELD_MANAGER;

/// The certificate authority that EKS returns for a cluster now.
fn certificate_authority(ec2: &Ec2, cluster: &str) -> String {
    let listed = |account: &Account| {
        account.clusters.iter().find(|listed| listed.name == cluster).map(|listed| listed.certificate_authority.clone())
    };
    ec2.with_account(listed).unwrap_or_else(|| FIRST_BUNDLE.to_owned())
}

/// The endpoint of the simulated cluster. Its nodes connect to no API server, so the address does not resolve.
fn details(name: impl Into<String>, version: impl Into<String>) -> ClusterDetails {
    ClusterDetails {
        name: name.into(),
        version: version.into(),
        endpoint: "https://kubernetes.invalid".to_owned(),
        certificate_authority: FIRST_BUNDLE.to_owned(),
        service_cidr: Some("10.100.0.0/16".to_owned()),
    }
}
