//! EC2, SSM, IAM and the Price List, as the catalog function reads them.

use crate::PortError;
use async_trait::async_trait;
use nodeless_api::EC2NodeClass;
use nodeless_api::EC2NodeClassStatus;
use nodeless_catalog::Catalog;

/// The instance types to launch, and what each EC2NodeClass resolves to.
#[async_trait]
pub trait CatalogSource: Send + Sync {
    /// Reads instance types, offerings, prices and reservations into a catalog. `previous` supplies data that is read less often
    /// (prices), and data that could not be read this time.
    ///
    /// # Errors
    /// When instance types or offerings cannot be read. The stored catalog is kept.
    async fn catalog(&self, previous: Option<&Catalog>) -> Result<Catalog, PortError>;

    /// Resolves an EC2NodeClass: AMIs, subnets, security groups, instance profile, conditions. What cannot be resolved
    /// is a condition of the status, not an error.
    ///
    /// # Errors
    /// When AWS is unreachable. The present status is kept.
    async fn resolve(&self, node_class: &EC2NodeClass) -> Result<EC2NodeClassStatus, PortError>;

    /// Removes what was created for an EC2NodeClass that is being deleted: instance profile, launch templates.
    ///
    /// # Errors
    /// When something could not be removed. The finalizer is kept.
    async fn release(&self, node_class: &EC2NodeClass) -> Result<(), PortError>;

    /// The digests of the cluster's certificate authorities, as they were read last, which is at most five minutes ago unless EKS fails.
    async fn certificate_authority(&self) -> Option<String>;
}

/// What of a cluster in EKS changes while processes live.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ControlPlane {
    /// The Kubernetes version, such as `1.33`, for AMI aliases.
    pub version: String,
    /// The certificates that sign the API server's, as PEM in base64, for user data.
    pub certificate_authority: Option<String>,
}

/// Reads the control plane of the cluster.
#[async_trait]
pub trait DescribeControlPlane: Send + Sync {
    /// The control plane now.
    ///
    /// # Errors
    /// When it cannot be read.
    async fn control_plane(&self) -> Result<ControlPlane, PortError>;
}
