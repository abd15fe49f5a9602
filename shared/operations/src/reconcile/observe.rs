//! Reading what a step looks at, and nothing else.

use super::Reconciler;
use crate::node_class;
use nodeless_lifecycle::{Needs, NodeClassState, Observation, Seen};
use nodeless_model::object::{MirroredClaim, VolumeAttachment};
use nodeless_model::{Instance, Node, NodeClaim, Pod, labels};
use nodeless_ports::{ErrorKind, PortError};

impl Reconciler {
    pub(super) async fn observe(&self, claim: &NodeClaim, needs: Needs) -> Observation {
        let (node_class, node_pool_exists, instance, launch_group, nodes, mirror) = futures::join!(
            wanted(needs.node_class, self.node_class_state(claim)),
            wanted(needs.node_pool, self.node_pool_exists(claim)),
            wanted(needs.instance, self.instance(claim)),
            wanted(needs.launch_group, self.group_instances(claim)),
            wanted(needs.nodes, self.nodes(claim)),
            wanted(needs.mirror, self.mirror(claim)),
        );
        let known = nodes.known().map_or(&[][..], Vec::as_slice);
        let (pods, volume_attachments) = futures::join!(
            wanted(needs.pods && nodes.known().is_some(), self.pods(known)),
            wanted(needs.volume_attachments && nodes.known().is_some(), self.volumes(known)),
        );
        Observation { node_class, node_pool_exists, instance, launch_group, nodes, pods, volume_attachments, mirror }
    }

    async fn node_class_state(&self, claim: &NodeClaim) -> Result<NodeClassState, PortError> {
        match self.cluster.node_class(&claim.node_class).await {
            Ok(Some(class)) => Ok(node_class::state(&class)),
            Ok(None) => Ok(NodeClassState::Missing),
            Err(error) if error.kind == ErrorKind::Invalid => Ok(NodeClassState::NotReady { message: error.message }),
            Err(error) => Err(error),
        }
    }

    /// An invalid NodePool exists all the same.
    async fn node_pool_exists(&self, claim: &NodeClaim) -> Result<bool, PortError> {
        let (pools, invalid) = self.cluster.node_pools().await?;
        Ok(pools.iter().any(|pool| pool.name == claim.node_pool)
            || invalid.iter().any(|object| object.name == claim.node_pool))
    }

    async fn instance(&self, claim: &NodeClaim) -> Result<Option<Instance>, PortError> {
        let Some(launched) = &claim.status.instance else { return Ok(None) };
        let instances = self.cloud.instances(std::slice::from_ref(&launched.id)).await?;
        Ok(instances.into_iter().find(|instance| instance.id == launched.id))
    }

    async fn group_instances(&self, claim: &NodeClaim) -> Result<Vec<Instance>, PortError> {
        let Some(group) = &claim.spec.launch_group else { return Ok(Vec::new()) };
        let mut all = self.cloud.all_instances().await?;
        all.retain(|instance| instance.tags.get(labels::LAUNCH_GROUP_TAG) == Some(&group.id));
        Ok(all)
    }

    async fn nodes(&self, claim: &NodeClaim) -> Result<Vec<Node>, PortError> {
        let Some(instance) = &claim.status.instance else { return Ok(Vec::new()) };
        let hint = claim.status.node_name.as_deref().or(instance.private_dns_name.as_deref());
        self.cluster.nodes_of(&instance.provider_id(), hint).await
    }

    async fn mirror(&self, claim: &NodeClaim) -> Result<Option<MirroredClaim>, PortError> {
        Ok(self.cluster.mirrored_claims().await?.into_iter().find(|mirror| mirror.name == claim.name))
    }

    async fn pods(&self, nodes: &[Node]) -> Result<Vec<Pod>, PortError> {
        let mut pods = Vec::new();
        for node in nodes {
            pods.extend(self.cluster.pods_on(&node.name).await?);
        }
        Ok(pods)
    }

    async fn volumes(&self, nodes: &[Node]) -> Result<Vec<VolumeAttachment>, PortError> {
        let mut volumes = Vec::new();
        for node in nodes {
            volumes.extend(self.cluster.volume_attachments(&node.name).await?);
        }
        Ok(volumes)
    }
}

/// Reads something only if it is wanted.
async fn wanted<T>(needed: bool, read: impl Future<Output = Result<T, PortError>>) -> Seen<T> {
    if needed { read.await.into() } else { Seen::default() }
}
