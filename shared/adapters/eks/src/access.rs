//! The endpoint of the cluster's API server.

use crate::authentication::{CONFIG_MAP, DESCRIBE_CLUSTER, mode};
use async_trait::async_trait;
use aws_config::SdkConfig;
use aws_sdk_eks::error::{ProvideErrorMetadata as _, SdkError};
use aws_sdk_eks::operation::describe_cluster::DescribeClusterError;
use aws_sdk_eks::types::{Cluster, ControlPlaneEgressModeType};
use nodeless_ports::{ControlPlane, DescribeControlPlane, ErrorKind, PortError, with_causes};

/// The data that a client needs to reach the API server of a cluster. It changes so rarely that an execution environment reads it
/// once, except for what [`EksControlPlane`] reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterAccess {
    /// The cluster's name.
    pub name: String,
    /// The cluster's ARN.
    pub arn: Option<String>,
    /// The URL of the API server.
    pub endpoint: String,
    /// The certificates that sign the API server's, as PEM in base64: what a kubeconfig calls
    /// `certificate-authority-data`. `None` for a plain `http://` endpoint, which only an emulator has.
    pub certificate_authority: Option<String>,
    /// The Kubernetes version, such as `1.33`.
    pub version: String,
    /// The range of the services' addresses, IPv4 or IPv6; user data of nodes needs it.
    pub service_cidr: Option<String>,
    /// Whether calls of the control plane to addresses outside the VPC, such as a webhook's, use a route of AWS. If they do not
    /// (`controlPlaneEgressMode` is CUSTOMER_ROUTED or CUSTOMER_ISOLATED), requests may not reach AWS.
    pub egress_by_aws: bool,
    /// Whether the cluster has access entries: its authentication mode is not CONFIG_MAP.
    pub has_access_entries: bool,
}

/// Describes a cluster.
///
/// # Errors
/// When EKS does not answer, the cluster does not exist, or it has no endpoint yet.
pub async fn describe(config: &SdkConfig, name: &str) -> Result<ClusterAccess, PortError> {
    let client = aws_sdk_eks::Client::new(config);
    let answer = client.describe_cluster().name(name).send().await.map_err(|error| refuse(name, &error))?;
    let cluster = answer.cluster().ok_or_else(|| {
        PortError::new(
            ErrorKind::Unavailable,
            DESCRIBE_CLUSTER,
            format!("the answer about cluster {name} is empty; try again"),
        )
    })?;
    access(name, cluster)
}

/// Whether IAM denied [`describe`]. A policy that was just written may not apply yet.
#[must_use]
pub fn is_denied(error: &PortError) -> bool {
    error.operation == DESCRIBE_CLUSTER && error.code == "AccessDeniedException"
}

/// The control plane of a cluster in EKS.
#[derive(Clone, Debug)]
pub struct EksControlPlane {
    config: SdkConfig,
    name: String,
}

impl EksControlPlane {
    /// That of the cluster of this name.
    #[must_use]
    pub fn new(config: &SdkConfig, name: impl Into<String>) -> Self {
        Self { config: config.clone(), name: name.into() }
    }
}

#[async_trait]
impl DescribeControlPlane for EksControlPlane {
    async fn control_plane(&self) -> Result<ControlPlane, PortError> {
        let access = describe(&self.config, &self.name).await?;
        if access.version.is_empty() {
            let message = format!("EKS did not report the Kubernetes version of cluster {}", self.name);
            return Err(PortError::new(ErrorKind::Unavailable, DESCRIBE_CLUSTER, message));
        }
        Ok(ControlPlane { version: access.version, certificate_authority: access.certificate_authority })
    }
}

fn access(name: &str, cluster: &Cluster) -> Result<ClusterAccess, PortError> {
    let state = cluster.status().map_or("unknown", |status| status.as_str());
    let endpoint = cluster.endpoint().filter(|endpoint| !endpoint.is_empty()).ok_or_else(|| {
        let message =
            format!("cluster {name} has no API endpoint yet (its status is {state}); wait until it is ACTIVE");
        PortError::new(ErrorKind::Unavailable, DESCRIBE_CLUSTER, message)
    })?;
    let certificate_authority =
        cluster.certificate_authority().and_then(|authority| authority.data()).filter(|data| !data.is_empty());
    if certificate_authority.is_none() && !endpoint.starts_with("http://") {
        let message =
            format!("cluster {name} has no certificate authority yet (its status is {state}); wait until it is ACTIVE");
        return Err(PortError::new(ErrorKind::Unavailable, DESCRIBE_CLUSTER, message));
    }
    let network = cluster.kubernetes_network_config();
    Ok(ClusterAccess {
        name: name.to_owned(),
        arn: cluster.arn().map(str::to_owned),
        endpoint: endpoint.to_owned(),
        certificate_authority: certificate_authority.map(str::to_owned),
        version: cluster.version().unwrap_or_default().to_owned(),
        service_cidr: network
            .and_then(|network| network.service_ipv4_cidr().or_else(|| network.service_ipv6_cidr()))
            .map(str::to_owned),
        egress_by_aws: egress_by_aws(cluster),
        has_access_entries: mode(cluster) != CONFIG_MAP,
    })
}

/// Clusters that are older than the setting do not have it.
fn egress_by_aws(cluster: &Cluster) -> bool {
    let mode = cluster.resources_vpc_config().and_then(|network| network.control_plane_egress_mode());
    mode.is_none_or(|mode| *mode == ControlPlaneEgressModeType::AwsManaged)
}

fn refuse(name: &str, error: &SdkError<DescribeClusterError>) -> PortError {
    let code = error.code().unwrap_or_default();
    let message = error.message().map_or_else(|| with_causes(error), str::to_owned);
    let (kind, next) = reaction(code, matches!(error, SdkError::ConstructionFailure(_)), name);
    PortError::new(kind, DESCRIBE_CLUSTER, format!("{message}{next}")).with_code(code)
}

/// The kind of an error code of EKS, and how to fix it.
fn reaction(code: &str, unbuilt: bool, name: &str) -> (ErrorKind, String) {
    match code {
        "ResourceNotFoundException" => (
            ErrorKind::NotFound,
            format!("; check that CLUSTER_NAME ({name}) is the name of a cluster in this account and region"),
        ),
        "AccessDeniedException"
        | "UnrecognizedClientException"
        | "InvalidClientTokenId"
        | "ExpiredTokenException"
        | "InvalidSignatureException" => {
            (ErrorKind::Denied, "; the function's role needs eks:DescribeCluster on this cluster".to_owned())
        }
        "ThrottlingException" | "TooManyRequestsException" | "RequestLimitExceeded" => {
            (ErrorKind::Throttled, String::new())
        }
        "InvalidParameterException" | "ValidationException" => {
            (ErrorKind::Invalid, format!("; check CLUSTER_NAME ({name})"))
        }
        _ if unbuilt => (ErrorKind::Invalid, "; check AWS_REGION and CLUSTER_NAME".to_owned()),
        _ => (ErrorKind::Unavailable, String::new()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use aws_sdk_eks::types::{
        AccessConfigResponse, AuthenticationMode, Certificate, ClusterStatus, KubernetesNetworkConfigResponse,
        VpcConfigResponse,
    };

    fn cluster() -> aws_sdk_eks::types::builders::ClusterBuilder {
        Cluster::builder()
            .endpoint("https://example.eks.amazonaws.com")
            .certificate_authority(Certificate::builder().data("UEVN").build())
            .arn("arn:aws:eks:us-east-1:123456789012:cluster/one")
            .version("1.33")
            .status(ClusterStatus::Active)
    }

    #[test]
    fn only_aws_is_sure_to_route_calls_out_of_the_control_plane() {
        let of = |mode: ControlPlaneEgressModeType| {
            let network = VpcConfigResponse::builder().control_plane_egress_mode(mode).build();
            access("one", &cluster().resources_vpc_config(network).build()).unwrap().egress_by_aws
        };
        assert!(access("one", &cluster().build()).unwrap().egress_by_aws, "an older cluster has no such setting");
        assert!(of(ControlPlaneEgressModeType::AwsManaged));
        assert!(!of(ControlPlaneEgressModeType::CustomerRouted) && !of(ControlPlaneEgressModeType::CustomerIsolated));
    }

    #[test]
    fn only_the_mode_config_map_has_no_access_entries() {
        let of = |mode: AuthenticationMode| {
            let config = AccessConfigResponse::builder().authentication_mode(mode).build();
            access("one", &cluster().access_config(config).build()).unwrap().has_access_entries
        };
        assert!(of(AuthenticationMode::Api) && of(AuthenticationMode::ApiAndConfigMap));
        assert!(!of(AuthenticationMode::ConfigMap));
        assert!(!access("one", &cluster().build()).unwrap().has_access_entries, "an older cluster has no such setting");
    }

    #[test]
    fn takes_what_a_client_needs() {
        let network = KubernetesNetworkConfigResponse::builder().service_ipv4_cidr("10.100.0.0/16").build();
        let access = access("one", &cluster().kubernetes_network_config(network).build()).unwrap();
        assert_eq!(access.endpoint, "https://example.eks.amazonaws.com");
        assert_eq!(access.arn.as_deref(), Some("arn:aws:eks:us-east-1:123456789012:cluster/one"));
        assert_eq!(access.certificate_authority.as_deref(), Some("UEVN"));
        assert_eq!((access.version.as_str(), access.service_cidr.as_deref()), ("1.33", Some("10.100.0.0/16")));
    }

    #[test]
    fn an_ipv6_cluster_has_an_ipv6_range() {
        let network = KubernetesNetworkConfigResponse::builder().service_ipv6_cidr("fd00::/108").build();
        let access = access("one", &cluster().kubernetes_network_config(network).build()).unwrap();
        assert_eq!(access.service_cidr.as_deref(), Some("fd00::/108"));
    }

    #[test]
    fn a_cluster_that_is_being_created_is_to_be_waited_for() {
        let young = Cluster::builder().status(ClusterStatus::Creating).build();
        let error = access("one", &young).unwrap_err();
        assert!(error.is_retryable() && error.message.contains("CREATING"), "{error}");
        let blind = cluster().set_certificate_authority(None).build();
        assert!(access("one", &blind).unwrap_err().message.contains("certificate authority"));
        assert!(
            access("one", &cluster().set_certificate_authority(None).endpoint("http://localhost:1").build()).is_ok()
        );
    }

    #[test]
    fn only_a_missing_permission_to_describe_the_cluster_is_waited_for() {
        let error = |operation, code| PortError::new(ErrorKind::Denied, operation, "no").with_code(code);
        assert!(is_denied(&error(DESCRIBE_CLUSTER, "AccessDeniedException")));
        assert!(!is_denied(&error(DESCRIBE_CLUSTER, "ExpiredTokenException")));
        assert!(!is_denied(&error("EC2 DescribeSubnets", "AccessDeniedException")));
    }

    #[test]
    fn errors_have_a_reaction() {
        assert_eq!(reaction("ResourceNotFoundException", false, "one").0, ErrorKind::NotFound);
        assert_eq!(reaction("AccessDeniedException", false, "one").0, ErrorKind::Denied);
        assert_eq!(reaction("ThrottlingException", false, "one").0, ErrorKind::Throttled);
        assert_eq!(reaction("ServerException", false, "one").0, ErrorKind::Unavailable);
        assert_eq!(reaction("", true, "one").0, ErrorKind::Invalid);
    }
}
