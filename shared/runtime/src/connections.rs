//! Connections that an execution environment opens once and keeps.

use crate::{Environment, EnvironmentError, SystemClock};
use aws_config::SdkConfig;
pub use nodeless_eks::is_denied;
use nodeless_eks::{ArcZonalShifts, ClusterAccess, EksVersion, Tokens};
use nodeless_kubernetes::{ApiServer, Connection, KubeCluster};
use nodeless_launch::ClusterDetails;
use nodeless_operations::Context;
use nodeless_ports::{ClusterVersion, ErrorKind, PortError, ZonalShifts};
use nodeless_state::State;
use nodeless_storage::{DynamoTable, SqsQueue};
use nodeless_telemetry::Stdout;
use std::sync::Arc;

/// The connections that most functions use.
#[derive(Clone)]
pub struct Connections {
    /// The AWS configuration, for further clients.
    pub config: SdkConfig,
    /// The endpoint of the cluster.
    pub access: ClusterAccess,
    /// The cluster's name, the wall clock, and logs to standard output.
    pub context: Context,
    /// The cluster.
    pub cluster: Arc<KubeCluster>,
    /// The claims table.
    pub claims: State,
    /// The queues.
    pub queue: Arc<SqsQueue>,
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
        let cluster = KubeCluster::new(connection, context.clone());
        Ok(Self {
            cluster: Arc::new(cluster.with_ca_bundle(access.certificate_authority.clone())),
            claims: State::new(Arc::new(DynamoTable::new(&config, table, &name))),
            queue: Arc::new(queue),
            access,
            context,
            config,
        })
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

    /// Reads the cluster's present Kubernetes version.
    #[must_use]
    pub fn cluster_version(&self) -> Arc<dyn ClusterVersion> {
        Arc::new(EksVersion::new(&self.config, &self.access.name))
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
