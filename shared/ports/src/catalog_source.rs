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
}

/// The Kubernetes version of the cluster, for AMI aliases.
#[async_trait]
pub trait ClusterVersion: Send + Sync {
    /// The current version of the control plane, such as `1.33`.
    ///
    /// # Errors
    /// When it cannot be read.
    async fn kubernetes_version(&self) -> Result<String, PortError>;
}
