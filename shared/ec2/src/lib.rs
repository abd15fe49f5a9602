//! EC2 in AWS: the [`Cloud`](nodeless_ports::Cloud) port, which launches and terminates, and the
//! [`CatalogSource`](nodeless_ports::CatalogSource) port, which reads what there is to launch.
//!
//! This is the only crate that names a type of `aws-sdk-ec2`, which takes minutes to compile. Inside, everything that can
//! be decided without a call is a function over plain values: [`user_data`], [`template`] and [`fleet`].
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod cloud;
pub mod fleet;
mod instance;
mod requests;
mod source;
pub mod template;
pub mod user_data;

pub use cloud::Ec2Cloud;
pub use source::{AwsCatalogSource, NodeProfile, read_region};

/// What user data and tags say about the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterDetails {
    /// The cluster's name in EKS.
    pub name: String,
    /// The Kubernetes version, such as `1.33`, which images are published for.
    pub version: String,
    /// The URL of the API server.
    pub endpoint: String,
    /// The certificate authority, as base64 of PEM, as EKS gives it.
    pub certificate_authority: String,
    /// The addresses of services, such as `10.100.0.0/16`; without it an AL2023 node cannot join.
    pub service_cidr: Option<String>,
}
