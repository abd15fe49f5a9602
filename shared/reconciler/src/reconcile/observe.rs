//! The input of a step of one claim: its part of the shared view, and what only this claim needs.

use super::Reconciler;
use super::daemon_sets;
use super::view::{ObservedClaim, View};
use nodeless_lifecycle::group::owned_by;
use nodeless_lifecycle::{
    Needs, Observation, Prospect, Seen, SeenGroup, SeenOwners, asking, prospect, unreported_resources,
};
use nodeless_model::surge::OwningDeployment;
use nodeless_model::{DaemonSetName, Instance, Node, NodeClaim, Pod, ResourceList};
use nodeless_ports::PortError;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

/// The number of nodes to read to find a pod of a Deployment on a node that stays: this number for the pods that are ready for the
/// longest time, and again for the shortest, which include a successor. If none of these nodes stays, the pod is not evicted without a
/// successor, so no more nodes need be read.
const NODES_READ: usize = 8;

impl Reconciler {
    pub(super) async fn observe(&self, claim: &NodeClaim, view: &View, observed: &mut ObservedClaim) -> Observation {
        let mut needs = Needs::new(claim);
        let zonal_shift = view.shift_away_from(claim).filter(|_| needs.instance);
        needs.instance &= zonal_shift.is_none();
        let (node_class, node_pool_exists, launch_group, nodes, mirror) = futures::join!(
            known(needs.node_class, &mut observed.node_class, self.node_class_state(&claim.node_class)),
            known(needs.node_pool, &mut observed.node_pool_exists, self.node_pool_of(claim)),
            if_needed(needs.launch_group, self.group(claim)),
            known(needs.nodes, &mut observed.nodes, self.nodes(claim)),
            known(needs.mirror, &mut observed.mirror, self.cluster.mirrored_claim(&claim.name)),
        );
        let present = nodes.known().map_or(&[][..], Vec::as_slice);
        let node = daemon_sets::only(&nodes);
        let waiting = node.filter(|_| needs.daemon_sets);
        let unreported = node.map(|node| unreported_resources(claim, node)).unwrap_or_default();
        let (instance, pods, daemon_sets_not_ready, device_resources) = futures::join!(
            // If the node of a launched claim has joined, the instance was read for the steps that follow at once.
            known(needs.instance || observed.instance.is_some(), &mut observed.instance, self.instance(claim)),
            known(needs.pods && nodes.known().is_some(), &mut observed.pods, self.pods(present)),
            self.not_ready(claim, waiting, &mut observed.daemon_sets_not_ready),
            self.device_resources(node, &unreported, &mut observed.device_resources),
        );
        let owners = self.owners(claim, pods.known().map_or(&[], Vec::as_slice)).await;
        Observation {
            node_class,
            node_pool_exists,
            instance,
            launch_group,
            nodes,
            joining_listed: view.joining_listed(),
            nominations: view.opened.state(&claim.name),
            daemon_sets_not_ready,
            device_resources,
            pods,
            // The need for volume attachments follows from the other fields.
            volume_attachments: Seen::default(),
            owners,
            mirror,
            zonal_shift,
        }
    }

    /// The DaemonSets that are not ready on a node that waits for them, read once in a run.
    async fn not_ready(
        &self,
        claim: &NodeClaim,
        waiting: Option<&Node>,
        kept: &mut Option<Seen<BTreeSet<DaemonSetName>>>,
    ) -> Seen<BTreeSet<DaemonSetName>> {
        let Some(node) = waiting else { return Seen::default() };
        if kept.is_none() {
            *kept = self.daemon_sets_not_ready(&[(claim, node.clone())]).await.remove(&claim.name);
        }
        kept.clone().unwrap_or_default()
    }

    /// The extended resources that the devices of a node are, read once in a run, and only if its kubelet does not report all that are
    /// requested.
    async fn device_resources(
        &self,
        node: Option<&Node>,
        unreported: &BTreeSet<&str>,
        kept: &mut Option<Seen<ResourceList>>,
    ) -> Seen<ResourceList> {
        match node {
            Some(node) => known(!unreported.is_empty(), kept, self.cluster.device_resources(node, unreported)).await,
            None => Seen::default(),
        }
    }

    async fn instance(&self, claim: &NodeClaim) -> Result<Option<Instance>, PortError> {
        let Some(launched) = &claim.status.instance else { return Ok(None) };
        let instances = self.cloud.instances(std::slice::from_ref(&launched.id)).await?;
        Ok(instances.into_iter().find(|instance| instance.id == launched.id))
    }

    /// Instances are read first and claims last, so that an instance that was just recorded does not look like an orphan.
    async fn group(&self, claim: &NodeClaim) -> Result<SeenGroup, PortError> {
        let Some(group) = &claim.spec.launch_group else { return Ok(SeenGroup::default()) };
        let mut instances = self.cloud.group_instances(&group.id).await?;
        let Some(stored) = self.stored_group(claim).await? else {
            return Ok(SeenGroup { instances, ..SeenGroup::default() });
        };
        // EC2 may return an instance by its id before its tag is listed, or after.
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

    pub(super) async fn pods(&self, nodes: &[Node]) -> Result<Vec<Pod>, PortError> {
        let mut pods = Vec::new();
        for node in nodes {
            pods.extend(self.cluster.pods_on(&node.name).await?);
        }
        Ok(pods)
    }

    /// The Deployments of pods that get their successors first. Nothing is read if there is no such pod.
    async fn owners(&self, claim: &NodeClaim, pods: &[Pod]) -> SeenOwners {
        let mut read: BTreeMap<(&str, &str), Seen<_>> = BTreeMap::new();
        let mut seen = SeenOwners::default();
        for pod in asking(claim, pods) {
            let Some(set) = pod.replica_set() else { continue };
            let key = (pod.namespace.as_str(), set);
            let deployment = match read.entry(key) {
                Entry::Occupied(known) => known.into_mut(),
                Entry::Vacant(new) => new.insert(self.cluster.owning_deployment(key.0, key.1).await.into()),
            };
            seen.deployments.insert(pod.uid.clone(), deployment.clone());
        }
        if !read.is_empty() {
            seen.budgets = self.cluster.disruption_budgets().await.into();
        }
        let own: Vec<&str> = pods.iter().filter_map(|pod| pod.node_name.as_deref()).collect();
        for deployment in read.values().filter_map(|deployment| deployment.known()?.as_ref()) {
            self.read_prospects(deployment, &own, &mut seen.nodes).await;
        }
        seen
    }

    /// Reads what is expected of the nodes of a Deployment's ready pods, up to the first that stays. The nodes of this claim leave.
    async fn read_prospects(
        &self,
        deployment: &OwningDeployment,
        own: &[&str],
        seen: &mut BTreeMap<String, Seen<Prospect>>,
    ) {
        let nodes = deployment.ready.iter().map(|pod| pod.node.as_str()).filter(|node| !own.contains(node));
        let nodes: Vec<&str> = nodes.collect();
        let (oldest, others) = nodes.split_at(nodes.len().min(NODES_READ));
        for node in oldest.iter().chain(others.iter().rev().take(NODES_READ)) {
            if !seen.contains_key(*node) {
                let read = self.prospect(node).await.unwrap_or_else(|error| Seen::Unknown(error.to_string()));
                seen.insert((*node).to_owned(), read);
            }
            if seen.get(*node) == Some(&Seen::Known(Prospect::Stays)) {
                return;
            }
        }
    }

    async fn prospect(&self, node: &str) -> Result<Seen<Prospect>, PortError> {
        let node = self.cluster.node(node).await?;
        let claim = match node.as_ref().and_then(Node::instance_id) {
            Some(instance) => self.claims.find_by_instance(instance).await?,
            None => None,
        };
        Ok(prospect(node.as_ref(), claim.as_ref()).into())
    }
}

/// Reads a value only if it is needed.
async fn if_needed<T>(needed: bool, read: impl Future<Output = Result<T, PortError>>) -> Seen<T> {
    if needed { read.await.into() } else { Seen::default() }
}

/// Reads a value only if it is needed and not read yet, and keeps it for the next step.
async fn known<T: Clone>(
    needed: bool,
    kept: &mut Option<Seen<T>>,
    read: impl Future<Output = Result<T, PortError>>,
) -> Seen<T> {
    if !needed {
        return Seen::default();
    }
    match kept {
        Some(seen) => seen.clone(),
        None => kept.insert(read.await.into()).clone(),
    }
}
