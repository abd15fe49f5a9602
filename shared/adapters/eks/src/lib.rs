//! What AWS reports about an EKS cluster: the address and certificate of its API server, tokens for it, and the zones that the
//! cluster is shifted away from. And the access policy that makes the installer cluster-admin while it works.
//!
//! - [`EksControlPlane`]: the version alone, read again while a process lives.
//! - [`describe`]: endpoint, certificate authority, version and service range by DescribeCluster.
//! - [`Tokens`]: bearer tokens, which are presigned calls of STS GetCallerIdentity, renewed before they lapse.
//! - [`ClusterAdmin`]: the access policy of a cluster-admin, associated with the access entry of a role, and ended.
//! - [`ArcZonalShifts`]: the zonal shifts that are applied to the cluster, by GetManagedResource of ARC.
//!
//! This crate uses no Kubernetes client type: `nodeless-kubernetes` takes the strings of a [`ClusterAccess`], and a closure over
//! [`Tokens::token`].
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod access;
mod authentication;
mod cluster_admin;
mod token;
mod zonal_shift;

pub use access::{ClusterAccess, EksControlPlane, describe, is_denied};
pub use authentication::{Authentication, Entry, authentication};
pub use cluster_admin::ClusterAdmin;
pub use token::{SignError, Token, Tokens, presigned_identity_url, sign};
pub use zonal_shift::ArcZonalShifts;
