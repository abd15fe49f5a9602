//! EC2 in AWS: the [`Cloud`](nodeless_ports::Cloud) port, which launches and terminates instances, and the
//! [`CatalogSource`](nodeless_ports::CatalogSource) port, which reads the catalog.
//!
//! This is the only crate that uses types of `aws-sdk-ec2`, which takes minutes to compile. Everything that can be decided
//! without a call is in `nodeless-launch`, as functions over plain values.
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod addresses;
mod cloud;
mod control_plane;
mod instance;
mod log_lines;
#[cfg(feature = "quotas")]
mod quotas;
mod requests;
mod source;
mod templates;

pub use cloud::Ec2Cloud;
pub use nodeless_launch::ClusterDetails;
#[cfg(feature = "quotas")]
pub use quotas::{ListedQuota, quotas};
pub use source::{AwsCatalogSource, NodeProfile, read_region};
pub use templates::delete_launch_templates;
