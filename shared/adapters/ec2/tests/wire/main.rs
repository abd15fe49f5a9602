//! EC2, SSM, IAM and the Price List over the wire: the real SDK against the simulated account, and against moto for what
//! moto answers as AWS does.
#![allow(clippy::unwrap_used)]

mod catalog;
mod certificate_authority;
mod commitments;
mod dry_runs;
mod isolated;
mod launch;
mod local_zones;
mod moto;
#[cfg(feature = "quotas")]
mod quotas;
mod resolve;
mod support;
mod templates;
