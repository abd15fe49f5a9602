//! The authentication mode of a cluster and its access entries.

use aws_config::SdkConfig;
use aws_sdk_eks::Client;
use aws_sdk_eks::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_eks::types::Cluster;
use nodeless_ports::{ErrorKind, PortError, with_causes};

pub(crate) const DESCRIBE_CLUSTER: &str = "EKS DescribeCluster";
/// The mode of clusters that have no access entries, and of those that are older than the setting.
pub(crate) const CONFIG_MAP: &str = "CONFIG_MAP";

/// The authentication mode of a cluster.
pub(crate) fn mode(cluster: &Cluster) -> &str {
    let mode = cluster.access_config().and_then(|access| access.authentication_mode());
    mode.map_or(CONFIG_MAP, |mode| mode.as_str())
}

/// How principals of AWS are authenticated in a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Authentication {
    /// `API`, `API_AND_CONFIG_MAP` or `CONFIG_MAP`.
    pub mode: String,
    /// The access entries.
    pub entries: Vec<Entry>,
}

/// An access entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The ARN of the principal.
    pub principal: String,
    /// The type, such as `EC2_LINUX`.
    pub kind: String,
}

/// Reads the authentication mode, and the access entries if the mode has them.
///
/// # Errors
/// When EKS does not answer, or refuses the request.
pub async fn authentication(config: &SdkConfig, cluster: &str) -> Result<Authentication, PortError> {
    let client = Client::new(config);
    let described =
        client.describe_cluster().name(cluster).send().await.map_err(|error| failed(DESCRIBE_CLUSTER, &error))?;
    let mode = described.cluster().map_or(CONFIG_MAP, mode).to_owned();
    if mode == CONFIG_MAP {
        return Ok(Authentication { mode, entries: Vec::new() });
    }
    let mut entries = Vec::new();
    let mut pages = client.list_access_entries().cluster_name(cluster).into_paginator().items().send();
    while let Some(principal) = pages.next().await {
        let principal = principal.map_err(|error| failed("EKS ListAccessEntries", &error))?;
        let request = client.describe_access_entry().cluster_name(cluster).principal_arn(&principal);
        let entry = request.send().await.map_err(|error| failed("EKS DescribeAccessEntry", &error))?;
        let kind = entry.access_entry().and_then(|entry| entry.r#type()).unwrap_or_default().to_owned();
        entries.push(Entry { principal, kind });
    }
    Ok(Authentication { mode, entries })
}

/// An error of a call of EKS.
pub(crate) fn failed<E, R>(operation: &'static str, error: &SdkError<E, R>) -> PortError
where
    E: std::error::Error + ProvideErrorMetadata + 'static,
    R: std::fmt::Debug,
{
    let code = error.code().unwrap_or_default();
    let kind = match code {
        "ResourceNotFoundException" => ErrorKind::NotFound,
        "AccessDeniedException" | "UnrecognizedClientException" | "ExpiredTokenException" => ErrorKind::Denied,
        "ThrottlingException" | "TooManyRequestsException" | "RequestLimitExceeded" => ErrorKind::Throttled,
        "InvalidParameterException" | "InvalidRequestException" => ErrorKind::Invalid,
        _ => ErrorKind::Unavailable,
    };
    let message = error.message().map_or_else(|| with_causes(error), str::to_owned);
    PortError::new(kind, operation, message).with_code(code)
}
