//! Converts an EC2NodeClass and a claim to requests to EC2: a pure crate, without SDK, clock or I/O.
//!
//! - [`user_data`]: how an instance becomes a node, by the family of its image.
//! - [`template`]: launch templates as plain values, named after their content.
//! - [`kubelet_values`]: the values of expressions in the kubelet's configuration.
//! - [`fleet`]: the request of one CreateFleet call.
//! - [`shortage`]: what lacks capacity after a failed launch.
//! - [`request`]: both in the JSON form of the EC2 API, which golden files contain and the simulated EC2 accepts.
//! - [`node_class`]: what an EC2NodeClass resolves to: images of an alias, validation, conditions.
//!
//! The AWS adapter converts these values to the SDK's types; the simulation uses them directly. So both launch in the same way,
//! and tests of launches need neither.
#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod fleet;
pub mod kubelet_values;
pub mod launch_budget;
pub mod node_class;
pub mod request;
pub mod shortage;
pub mod template;
pub mod user_data;

/// The cluster settings in user data and tags.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClusterDetails {
    /// The cluster's name in EKS.
    pub name: String,
    /// The Kubernetes version, such as `1.33`, for which images are published.
    pub version: String,
    /// The URL of the API server.
    pub endpoint: String,
    /// The certificate authority in the form of EKS: PEM in base64.
    pub certificate_authority: String,
    /// The addresses of services, such as `10.100.0.0/16`; without it an AL2023 node cannot join.
    pub service_cidr: Option<String>,
}

impl ClusterDetails {
    /// Whether pods and services have IPv6 addresses, which is fixed for an EKS cluster.
    #[must_use]
    pub fn is_ipv6(&self) -> bool {
        self.service_cidr.as_deref().is_some_and(|cidr| cidr.contains(':'))
    }

    /// Minor and major version of Kubernetes, if it is written in the format of EKS.
    pub(crate) fn minor_version(version: &str) -> Option<(u32, u32)> {
        let (major, rest) = version.trim_start_matches('v').split_once('.')?;
        let minor = rest.split('.').next()?;
        Some((major.parse().ok()?, minor.parse().ok()?))
    }
}
