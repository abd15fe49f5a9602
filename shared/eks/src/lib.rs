//! Access to the API server of an EKS cluster: where it is, whom it trusts, and the token that it takes.
//!
//! - [`describe`]: endpoint, certificate authority, version and service range by DescribeCluster.
//! - [`Tokens`]: bearer tokens, which are presigned calls of STS GetCallerIdentity, renewed before they lapse.
//!
//! This room names no Kubernetes client type: `nodeless-kubernetes` takes a [`ClusterAccess`] apart into strings, and a
//! closure over [`Tokens::token`].
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod access;
mod token;

pub use access::{ClusterAccess, describe};
pub use token::{SignError, Token, Tokens, presigned_identity_url, sign};
