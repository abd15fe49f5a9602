//! What configures nodeless in a cluster.

use crate::kinds::{
    CapacityBuffers, Kind as _, Namespaces, NodeClasses, NodeOverlays, NodePools, ProvisioningRequests,
};
use crate::object_cluster::ObjectCluster;
use crate::objects::{ObjectAt, Objects};
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
impl<O: Objects> Configuration for ObjectCluster<O> {
    async fn system_namespace(&self) -> Result<SystemNamespace, PortError> {
        let namespace = self.get_one::<Namespaces>(SYSTEM_NAMESPACE).await?;
        let metadata = namespace.unwrap_or_default().metadata;
        let table = metadata.annotations.and_then(|mut all| all.remove(labels::TABLE));
        Ok(SystemNamespace { created: metadata.creation_timestamp.map(|time| time.0), table })
    }

    async fn node_class(&self, name: &str) -> Result<Option<EC2NodeClass>, PortError> {
        self.get_one::<NodeClasses>(name).await
    }

    async fn node_classes(&self) -> Result<(Vec<EC2NodeClass>, Vec<InvalidObject>), PortError> {
        self.objects.current::<NodeClasses>(&self.context).await
    }

    async fn node_pool(&self, name: &str) -> Result<Option<NodePool>, PortError> {
        match self.get_one::<NodePools>(name).await? {
            Some(Owned::Managed((pool, _))) => Ok(Some(pool)),
            Some(Owned::Other(other)) => {
                Err(PortError::new(ErrorKind::Invalid, "Kubernetes get NodePool", other.to_string()))
            }
            None => Ok(None),
        }
    }

    async fn node_pools(&self) -> Result<FoundNodePools, PortError> {
        let (pools, invalid) = self.objects.current::<NodePools>(&self.context).await?;
        let (managed, others) = Owned::separate(pools);
        Ok(FoundNodePools { node_pools: managed.into_iter().map(|(pool, _)| pool).collect(), invalid, others })
    }

    async fn node_overlays(&self) -> Result<Vec<(NodeOverlay, NodeOverlayStatus)>, PortError> {
        match self.objects.current::<NodeOverlays>(&self.context).await {
            Err(error) if error.kind == ErrorKind::NotFound => Ok(Vec::new()),
            read => read.map(|(overlays, _)| overlays),
        }
    }

    async fn write_node_pool_status(&self, name: &str, status: &NodePoolStatus) -> Result<(), PortError> {
        self.write_status_of::<NodePools>("", name, status).await
    }

    async fn write_node_overlay_status(&self, name: &str, status: &NodeOverlayStatus) -> Result<(), PortError> {
        self.write_status_of::<NodeOverlays>("", name, status).await
    }

    async fn write_capacity_buffer_status(
        &self,
        namespace: &str,
        name: &str,
        status: &CapacityBufferStatus,
    ) -> Result<(), PortError> {
        self.write_status_of::<CapacityBuffers>(namespace, name, status).await
    }

    async fn write_provisioning_request_status(
        &self,
        namespace: &str,
        name: &str,
        status: &ProvisioningRequestStatus,
    ) -> Result<(), PortError> {
        self.write_status_of::<ProvisioningRequests>(namespace, name, status).await
    }

    async fn write_node_class_status(
        &self,
        name: &str,
        status: &EC2NodeClassStatus,
        certificate_authority: Option<&str>,
    ) -> Result<(), PortError> {
        self.write_node_class(name, status, certificate_authority).await
    }

    async fn release_node_class(&self, name: &str) -> Result<(), PortError> {
        let at = ObjectAt::cluster_scoped(NodeClasses::PATH, name);
        self.remove_finalizer("Kubernetes release EC2NodeClass", at, labels::EC2_NODE_CLASS_FINALIZER, None).await
    }
}
