//! Reading what a step looks at, and nothing else.

use super::Reconciler;
use crate::node_class;
use crate::zonal_shift;
use nodeless_lifecycle::group::owned_by;
use nodeless_lifecycle::{Needs, NodeClassState, Observation, Seen, SeenGroup};
use nodeless_model::object::{MirroredClaim, VolumeAttachment};
use nodeless_model::{Instance, Node, NodeClaim, Pod};
use nodeless_ports::{ErrorKind, PortError};

/// What EC2 returned for a claim's instance in this run. Steps that follow each other at once use the same answer.
pub(super) type Remembered = Option<Seen<Option<Instance>>>;

impl Reconciler {
    /// # Errors
    /// When it cannot be read from the claims table whether the zone of the instance is shifted away from.
    pub(super) async fn observe(
        &self,
        claim: &NodeClaim,
        mut needs: Needs,
        said: &mut Remembered,
    ) -> Result<Observation, PortError> {
        let mut shift = None;
        if needs.instance && self.zonal_shift {
            shift = self.shift_away_from(claim).await?;
            needs.instance = shift.is_none();
        }
        let (node_class, node_pool_exists, launch_group, nodes, mirror) = futures::join!(
            if_needed(needs.node_class, self.node_class_state(claim)),
            if_needed(needs.node_pool, self.node_pool_exists(claim)),
            if_needed(needs.launch_group, self.group(claim)),
            if_needed(needs.nodes, self.nodes(claim)),
            if_needed(needs.mirror, self.mirror(claim)),
        );
        let known = nodes.known().map_or(&[][..], Vec::as_slice);
        let (instance, pods, volume_attachments) = futures::join!(
            self.remembered(needs.instance, claim, said),
            if_needed(needs.pods && nodes.known().is_some(), self.pods(known)),
            if_needed(needs.volume_attachments && nodes.known().is_some(), self.volumes(known)),
        );
        Ok(Observation {
            node_class,
            node_pool_exists,
            instance,
            launch_group,
            nodes,
            pods,
            volume_attachments,
            mirror,
            zonal_shift: shift,
        })
    }

    /// The zonal shift away from the zone of the claim's instance, in words, while one is in effect.
    async fn shift_away_from(&self, claim: &NodeClaim) -> Result<Option<String>, PortError> {
        let Some(launched) = &claim.status.instance else { return Ok(None) };
        let shifted = zonal_shift::in_effect(self.claims.as_ref(), true, self.context.now()).await?;
        Ok(zonal_shift::of_zone(&shifted, &launched.zone).map(zonal_shift::words))
    }

    async fn remembered(&self, needed: bool, claim: &NodeClaim, said: &mut Remembered) -> Seen<Option<Instance>> {
        if !needed {
            return Seen::default();
        }
        match said {
            Some(seen @ Seen::Known(_)) => seen.clone(),
            _ => said.insert(self.instance(claim).await.into()).clone(),
        }
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
        match self.cluster.node_pool(&claim.node_pool).await {
            Ok(found) => Ok(found.is_some()),
            Err(error) if error.kind == ErrorKind::Invalid => Ok(true),
            Err(error) => Err(error),
        }
    }

    async fn instance(&self, claim: &NodeClaim) -> Result<Option<Instance>, PortError> {
        let Some(launched) = &claim.status.instance else { return Ok(None) };
        let instances = self.cloud.instances(std::slice::from_ref(&launched.id)).await?;
        Ok(instances.into_iter().find(|instance| instance.id == launched.id))
    }

    /// The instances first and the claims last, so that one that was just recorded does not look like an orphan.
    async fn group(&self, claim: &NodeClaim) -> Result<SeenGroup, PortError> {
        let Some(group) = &claim.spec.launch_group else { return Ok(SeenGroup::default()) };
        let mut instances = self.cloud.group_instances(&group.id).await?;
        let Some(stored) = self.stored_group(claim).await? else {
            return Ok(SeenGroup { instances, ..SeenGroup::default() });
        };
        // By its id EC2 may know what it does not list by its tag yet, or any more.
        if let Some(own) = owned_by(&stored.owners, &claim.name)
            && !instances.iter().any(|instance| instance.id == own)
        {
            instances.extend(self.cloud.instances(&[own.to_owned()]).await?);
        }
        let mut others = self.claims.get_all(&stored.members).await?;
        others.retain(|other| {
            other.name != claim.name && other.spec.launch_group.as_ref().is_some_and(|theirs| theirs.id == group.id)
        });
        Ok(SeenGroup { instances, others, owners: stored.owners })
    }

    async fn nodes(&self, claim: &NodeClaim) -> Result<Vec<Node>, PortError> {
        let Some(instance) = &claim.status.instance else { return Ok(Vec::new()) };
        let hint = claim.status.node_name.as_deref().or(instance.private_dns_name.as_deref());
        self.cluster.nodes_of(&instance.provider_id(), hint).await
    }

    async fn mirror(&self, claim: &NodeClaim) -> Result<Option<MirroredClaim>, PortError> {
        self.cluster.mirrored_claim(&claim.name).await
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

/// Reads something only if it is needed.
async fn if_needed<T>(needed: bool, read: impl Future<Output = Result<T, PortError>>) -> Seen<T> {
    if needed { read.await.into() } else { Seen::default() }
}
