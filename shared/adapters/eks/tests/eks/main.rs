//! The calls to EKS and ARC over HTTP.
#![allow(clippy::unwrap_used)]

mod authentication;
mod cluster_admin;
mod zonal_shift;

use aws_config::retry::RetryConfig;
use aws_config::{BehaviorVersion, Region, SdkConfig};
use aws_credential_types::Credentials;

/// The configuration of calls to a server at this address, in a region.
async fn config(url: &str, region: &'static str) -> SdkConfig {
    aws_config::defaults(BehaviorVersion::latest())
        .region(Region::new(region))
        .credentials_provider(Credentials::new("test", "test", None, None, "test"))
        .retry_config(RetryConfig::disabled())
        .endpoint_url(url)
        .load()
        .await
}
