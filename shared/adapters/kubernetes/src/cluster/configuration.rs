//! What configures nodeless in a cluster.

use super::KubeCluster;
use crate::kinds::{CapacityBuffers, Namespaces, NodeOverlays, NodePools, ProvisioningRequests};
use crate::node_classes;
use async_trait::async_trait;
use nodeless_api::managed::Owned;
use nodeless_api::{
    CapacityBufferStatus, EC2NodeClass, EC2NodeClassStatus, NodeOverlayStatus, NodePoolStatus,
    ProvisioningRequestStatus,
};
use nodeless_model::{NodeOverlay, NodePool, labels};
use nodeless_ports::cluster::{FoundNodePools, InvalidObject, SYSTEM_NAMESPACE, SystemNamespace};
use nodeless_ports::{Configuration, ErrorKind, PortError};

#[async_trait]
impl Configuration for KubeCluster {
    async fn system_namespace(&self) -> Result<SystemNamespace, PortError> {
        let namespace = node_classes::get_one::<Namespaces>(&self.connection, SYSTEM_NAMESPACE).await?;
        let metadata = namespace.unwrap_or_default().metadata;
        let table = metadata.annotations.and_then(|mut all| all.remove(labels::TABLE));
        Ok(SystemNamespace { created: metadata.creation_timestamp.map(|time| time.0), table })
    }

    async fn node_class(&self, name: &str) -> Result<Option<EC2NodeClass>, PortError> {
        node_classes::get(&self.connection, name).await
    }

    async fn node_classes(&self) -> Result<(Vec<EC2NodeClass>, Vec<InvalidObject>), PortError> {
        self.current(&self.node_classes).await
    }

    async fn node_pool(&self, name: &str) -> Result<Option<NodePool>, PortError> {
        match node_classes::get_one::<NodePools>(&self.connection, name).await? {
            Some(Owned::Managed((pool, _))) => Ok(Some(pool)),
            Some(Owned::Other(other)) => {
                Err(PortError::new(ErrorKind::Invalid, "Kubernetes get NodePool", other.to_string()))
            }
            None => Ok(None),
        }
    }

    async fn node_pools(&self) -> Result<FoundNodePools, PortError> {
        let (pools, invalid) = self.current(&self.node_pools).await?;
        let (managed, others) = Owned::separate(pools);
        Ok(FoundNodePools { node_pools: managed.into_iter().map(|(pool, _)| pool).collect(), invalid, others })
    }

    async fn node_overlays(&self) -> Result<Vec<(NodeOverlay, NodeOverlayStatus)>, PortError> {
        match self.current(&self.node_overlays).await {
            Err(error) if error.kind == ErrorKind::NotFound => Ok(Vec::new()),
            read => read.map(|(overlays, _)| overlays),
        }
    }

    async fn write_node_pool_status(&self, name: &str, status: &NodePoolStatus) -> Result<(), PortError> {
        node_classes::write_status_of::<NodePools>(&self.connection, "", name, status).await
    }

    async fn write_node_overlay_status(&self, name: &str, status: &NodeOverlayStatus) -> Result<(), PortError> {
        node_classes::write_status_of::<NodeOverlays>(&self.connection, "", name, status).await
    }

    async fn write_capacity_buffer_status(
        &self,
        namespace: &str,
        name: &str,
        status: &CapacityBufferStatus,
    ) -> Result<(), PortError> {
        node_classes::write_status_of::<CapacityBuffers>(&self.connection, namespace, name, status).await
    }

    async fn write_provisioning_request_status(
        &self,
        namespace: &str,
        name: &str,
        status: &ProvisioningRequestStatus,
    ) -> Result<(), PortError> {
        node_classes::write_status_of::<ProvisioningRequests>(&self.connection, namespace, name, status).await
    }

    async fn write_node_class_status(
        &self,
        name: &str,
        status: &EC2NodeClassStatus,
        certificate_authority: Option<&str>,
    ) -> Result<(), PortError> {
        node_classes::write(&self.connection, name, status, certificate_authority).await
    }

    async fn release_node_class(&self, name: &str) -> Result<(), PortError> {
        node_classes::release(&self.connection, name).await
    }
}
