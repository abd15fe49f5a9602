//! Connections that an execution environment opens once and keeps.

use crate::log_lines::{ClusterNotDescribed, ClusterReplaced};
use crate::{Environment, EnvironmentError, SystemClock};
use aws_config::SdkConfig;
pub use nodeless_eks::is_denied;
use nodeless_eks::{ArcZonalShifts, ClusterAccess, EksControlPlane, Tokens};
use nodeless_kubernetes::{ApiServer, Connection, KubeCluster, SchedulerConfig};
use nodeless_launch::ClusterDetails;
use nodeless_operations::Context;
use nodeless_ports::{DescribeControlPlane, ErrorKind, PortError, ZonalShifts};
use nodeless_state::State;
use nodeless_storage::{DynamoTable, SqsQueue};
use nodeless_telemetry::{Stdout, log};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The connections that most functions use.
#[derive(Clone)]
pub struct Connections {
    /// The AWS configuration, for further clients.
    pub config: SdkConfig,
    /// The endpoint of the cluster.
    pub access: ClusterAccess,
    connection: Connection,
    /// The cluster's name, the wall clock, and logs to standard output.
    pub context: Context,
    /// The cluster.
    pub cluster: Arc<KubeCluster>,
    /// The claims table.
    pub claims: State,
    /// The queues.
    pub queue: Arc<SqsQueue>,
}

/// What is needed to find out whether a cached connection still leads to the cluster.
pub struct Link {
    config: SdkConfig,
    access: ClusterAccess,
    connection: Connection,
    described: Mutex<Option<Instant>>,
}

/// The minimum time between two calls of DescribeCluster for a cached connection. An API server that cannot be reached is more often
/// overloaded than replaced.
const DESCRIBED_AGAIN_AFTER: Duration = Duration::from_secs(60);

impl std::fmt::Debug for Link {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Link").field("endpoint", &self.access.endpoint).finish_non_exhaustive()
    }
}

impl Link {
    /// Whether the cluster now has another endpoint or certificate authority, because it was created again under the same name, or its
    /// certificate authority was replaced. EKS is asked only after a call has failed, and at most once a minute.
    pub(crate) async fn is_replaced(&self) -> bool {
        let described = *self.described.lock().unwrap_or_else(PoisonError::into_inner);
        if described.is_some_and(|last| last.elapsed() < DESCRIBED_AGAIN_AFTER) || !self.connection.take_doubt() {
            return false;
        }
        *self.described.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
        let cluster = Some(self.access.name.as_str());
        match cluster_access(&self.config, &self.access.name).await {
            Ok(present) if is_same_server(&present, &self.access) => false,
            Ok(present) => {
                log(cluster, &ClusterReplaced { from: &self.access.endpoint, to: &present.endpoint });
                true
            }
            Err(error) => {
                log(cluster, &ClusterNotDescribed { error: &error.to_string() });
                false
            }
        }
    }
}

fn is_same_server(one: &ClusterAccess, other: &ClusterAccess) -> bool {
    one.endpoint == other.endpoint && one.certificate_authority == other.certificate_authority
}

/// Why a connection failed.
#[derive(Clone, Debug, thiserror::Error)]
pub enum ConnectError {
    /// A variable is missing or invalid.
    #[error(transparent)]
    Environment(#[from] EnvironmentError),
    /// A service did not answer.
    #[error(transparent)]
    Port(#[from] PortError),
}

impl Connections {
    /// Connects according to the environment.
    ///
    /// # Errors
    /// When a variable is missing, or the cluster cannot be described.
    pub async fn connect(environment: &Environment<'_>) -> Result<Self, ConnectError> {
        let name = environment.cluster_name()?;
        let table = environment.table()?;
        let plan_queue_url = environment.plan_queue_url()?;
        let claims_queue_url = environment.claims_queue_url();
        let by_node_pool = environment.metrics_by_node_pool()?;
        let context = Context {
            cluster_name: name.clone(),
            clock: Arc::new(SystemClock),
            sink: Arc::new(Stdout { cluster: Some(name.clone()), by_node_pool }),
        };
        let config = aws_config(environment).await;
        let queue = SqsQueue::new(&config, context.clone(), plan_queue_url, claims_queue_url)
            .with_catalog_queue(environment.catalog_queue_url());
        let access = cluster_access(&config, &name).await?;
        let tokens = Arc::new(Tokens::new(&config, &name)?);
        let server =
            ApiServer { url: access.endpoint.clone(), certificate_authority: access.certificate_authority.clone() };
        let connection = Connection::with_tokens(&server, move |refused| {
            let tokens = tokens.clone();
            async move { tokens.token(refused.as_deref()).await }
        })
        .await?;
        let cluster =
            KubeCluster::new(connection.clone(), context.clone()).with_scheduler_config(scheduler_config(environment)?);
        Ok(Self {
            cluster: Arc::new(cluster),
            claims: State::new(Arc::new(DynamoTable::new(&config, table, &name))),
            queue: Arc::new(queue),
            access,
            connection,
            context,
            config,
        })
    }

    /// What shows whether these connections still lead to the cluster.
    #[must_use]
    pub fn link(&self) -> Link {
        Link {
            config: self.config.clone(),
            access: self.access.clone(),
            connection: self.connection.clone(),
            described: Mutex::default(),
        }
    }

    /// The zonal shifts of the cluster.
    ///
    /// # Errors
    /// When EKS did not return the cluster's ARN.
    pub fn zonal_shifts(&self) -> Result<Arc<dyn ZonalShifts>, ConnectError> {
        let arn = self.access.arn.clone().ok_or_else(|| {
            let name = &self.access.name;
            let message = format!("EKS did not return the ARN of cluster {name}, which ARC needs for its zonal shifts");
            PortError::new(ErrorKind::Unavailable, "EKS DescribeCluster", message)
        })?;
        Ok(Arc::new(ArcZonalShifts::new(&self.config, arn)))
    }

    /// Reads the cluster's present control plane.
    #[must_use]
    pub fn control_plane(&self) -> Arc<dyn DescribeControlPlane> {
        Arc::new(EksControlPlane::new(&self.config, &self.access.name))
    }

    /// The account of the cluster, if EKS returned its ARN.
    #[must_use]
    pub fn account(&self) -> Option<String> {
        account(self.access.arn.as_deref()?)
    }

    /// What nodes need to join the cluster.
    #[must_use]
    pub fn cluster_details(&self) -> ClusterDetails {
        let access = &self.access;
        ClusterDetails {
            name: access.name.clone(),
            endpoint: access.endpoint.clone(),
            certificate_authority: access.certificate_authority.clone().unwrap_or_default(),
            service_cidr: access.service_cidr.clone(),
            version: access.version.clone(),
        }
    }
}

/// The account in an ARN, such as `arn:aws:eks:us-east-1:111122223333:cluster/one`.
fn account(arn: &str) -> Option<String> {
    arn.split(':').nth(4).filter(|account| !account.is_empty()).map(str::to_owned)
}

/// The settings of kube-scheduler that plans depend on.
fn scheduler_config(environment: &Environment<'_>) -> Result<SchedulerConfig, EnvironmentError> {
    environment.parsed_or(
        "NODELESS_SCHEDULER_CONFIG",
        "the default topology spread constraints of the cluster's scheduler, as JSON",
        SchedulerConfig::default(),
    )
}

/// The AWS configuration for a cluster.
pub async fn aws_config(environment: &Environment<'_>) -> SdkConfig {
    nodeless_aws::with_endpoints(&nodeless_aws::load_config().await, environment.endpoints().clone())
}

/// The endpoint of the cluster with this name.
///
/// # Errors
/// When EKS does not answer, or the cluster does not exist.
pub async fn cluster_access(config: &SdkConfig, name: &str) -> Result<ClusterAccess, PortError> {
    nodeless_eks::describe(config, name).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scheduler_configuration_is_that_of_karpenter() {
        let of = |value: &'static str| scheduler_config(&Environment::from_fn(move |_| Some(value.to_owned())));
        assert_eq!(of(""), Ok(SchedulerConfig::default()));
        let zone = r#"{"podTopologySpread": {"defaultConstraints": [
            {"maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "ScheduleAnyway"}]}}"#;
        assert!(!of(zone).unwrap().is_empty());
        let error = of(r#"{"podTopologySpread": {"defaultConstraints": [{"maxSkew": 0}]}}"#).unwrap_err().to_string();
        assert!(error.contains("NODELESS_SCHEDULER_CONFIG") && error.contains("[0].maxSkew must be"), "{error}");
    }

    #[test]
    fn the_account_is_that_of_the_clusters_arn() {
        assert_eq!(account("arn:aws-cn:eks:cn-north-1:111122223333:cluster/one").as_deref(), Some("111122223333"));
        assert_eq!((account("arn:aws:eks"), account("arn:aws:eks:us-east-1::cluster/one")), (None, None));
    }

    #[test]
    fn a_cluster_that_is_created_again_has_another_server() {
        let before = ClusterAccess {
            name: "one".to_owned(),
            arn: Some("arn:aws:eks:us-east-1:111122223333:cluster/one".to_owned()),
            endpoint: "https://A.eks.amazonaws.com".to_owned(),
            certificate_authority: Some("QQ==".to_owned()),
            version: "1.33".to_owned(),
            service_cidr: None,
            egress_by_aws: true,
            has_access_entries: true,
        };
        let upgraded = ClusterAccess { version: "1.34".to_owned(), ..before.clone() };
        assert!(is_same_server(&before, &upgraded), "its connection and caches are kept");
        let moved = ClusterAccess { endpoint: "https://B.eks.amazonaws.com".to_owned(), ..before.clone() };
        let signed = ClusterAccess { certificate_authority: Some("Qg==".to_owned()), ..before.clone() };
        assert!(!is_same_server(&before, &moved) && !is_same_server(&before, &signed));
    }
}
