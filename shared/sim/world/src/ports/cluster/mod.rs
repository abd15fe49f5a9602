//! The Cluster port over the API server in memory.

mod buffers;
mod claims;
mod decoded;
mod deployments;
mod kinds;
mod node_classes;
mod nodes;
mod objects;
mod pods;
mod requests;

use crate::resources::{CAPACITY_BUFFERS, NODE_OVERLAYS, NODE_POOLS, PROVISIONING_REQUESTS};
use crate::world::WorldClock;
use async_trait::async_trait;
use decoded::Decoded;
use kinds::Kind;
use nodeless_api::admission::Admission;
use nodeless_api::convert::volumes::Storage;
use nodeless_api::devices::DeviceObjects;
use nodeless_api::managed::Owned;
use nodeless_api::{
    CapacityBufferStatus, EC2NodeClass, EC2NodeClassStatus, NodeOverlayStatus, NodePoolStatus,
    ProvisioningRequestStatus, hash,
};
use nodeless_fake_kubernetes::ApiServer;
use nodeless_fake_kubernetes::controllers::object::{NewEvent, publish};
use nodeless_fake_kubernetes::resource::NODES;
use nodeless_model::{
    ClusterOptions, DaemonSet, DaemonSetName, Node, NodeClaim, NodeOverlay, NodePool, Pod, PodDisruptionBudget,
    ResourceList, labels,
};
use nodeless_ports::cluster::{
    BatchWindow, ClusterView, DeploymentChange, Eviction, FoundNodeClaims, FoundNodePools, FoundNodes, InvalidObject,
    MirroredClaim, NodePatch, ObjectEvent, OwningDeployment, PodBatch, PodRef, RaisedDeployment, STANDALONE_NODES,
    SYSTEM_NAMESPACE, SoughtNode, SystemNamespace, UnboundPod, VolumeAttachment,
};
use nodeless_ports::{
    ClaimMirror, Clock, Configuration, ErrorKind, Events, NodesAndPods, PlanningView, PortError, Workloads,
};
use objects::{failed, get_in, get_one, refuse_doubt, select};
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

/// The field manager, the source of events, and the user.
pub const FIELD_MANAGER: &str = "nodeless";
/// The interval at which `wait_for_batch` looks for newly pending pods.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// The simulated cluster.
#[derive(Clone, Debug)]
pub struct MemoryCluster {
    api: ApiServer,
    clock: WorldClock,
    decoded: Decoded,
}

impl MemoryCluster {
    /// The cluster of this API server, with this clock.
    pub fn new(api: &ApiServer, clock: WorldClock) -> Self {
        Self { api: api.as_user(FIELD_MANAGER), clock, decoded: Decoded::default() }
    }

    /// All objects of a kind, and those that cannot be decoded.
    fn read<T: Clone + Send + 'static>(&self, kind: &Kind<T>) -> Result<(Vec<T>, Vec<InvalidObject>), PortError> {
        self.select(kind, "", "")
    }

    /// Reads the objects of a kind with these labels and fields, as [`Self::read`].
    fn select<T: Clone + Send + 'static>(
        &self,
        kind: &Kind<T>,
        labels: &str,
        fields: &str,
    ) -> Result<(Vec<T>, Vec<InvalidObject>), PortError> {
        select(&self.api, &self.decoded, kind, labels, fields)
    }

    /// Reads all objects of an optional kind; none if its CRD is not installed.
    fn read_if_known<T: Clone + Send + 'static>(
        &self,
        kind: &Kind<T>,
    ) -> Result<(Vec<T>, Vec<InvalidObject>), PortError> {
        match self.read(kind) {
            Err(error) if error.kind == ErrorKind::NotFound => Ok((Vec::new(), Vec::new())),
            read => read,
        }
    }

    /// Reads where volumes can be mounted, if that is needed.
    fn read_volumes(&self, view: &mut ClusterView) -> Result<(), PortError> {
        let volumes = self.read(&kinds::ALL_VOLUMES)?;
        if !view.needs_volumes(&volumes.0) {
            return Ok(());
        }
        let claims = self.read(&kinds::ALL_VOLUME_CLAIMS)?;
        let (classes, nodes) = (self.read(&kinds::ALL_STORAGE_CLASSES)?, self.read(&kinds::ALL_CSI_NODES)?);
        view.set_volumes(Storage { claims: &claims.0, volumes: &volumes.0, classes: &classes.0 }, &nodes.0);
        view.invalid.extend([claims.1, volumes.1, classes.1, nodes.1].concat());
        Ok(())
    }

    /// Reads devices and the claims for them, if any pod has claims.
    fn read_devices(&self, view: &mut ClusterView) -> Result<(), PortError> {
        if !view.claims_devices() {
            return Ok(());
        }
        let (slices, classes) = (self.read(&kinds::ALL_RESOURCE_SLICES)?, self.read(&kinds::ALL_DEVICE_CLASSES)?);
        let claims = self.read(&kinds::ALL_RESOURCE_CLAIMS)?;
        let templates = self.read(&kinds::ALL_RESOURCE_CLAIM_TEMPLATES)?;
        view.invalid.extend([slices.1, classes.1, claims.1, templates.1].concat());
        let (slices, classes, claims, templates) = (slices.0, classes.0, claims.0, templates.0);
        view.set_devices(DeviceObjects { slices, classes, claims, templates });
        Ok(())
    }

    /// The uids of the pending pods.
    fn pending(&self) -> Result<BTreeSet<String>, PortError> {
        let (pods, _) = self.read(&kinds::UNBOUND_PODS)?;
        Ok(pods.into_iter().filter(Pod::is_provisionable).map(|pod| pod.uid).collect())
    }
}

#[async_trait]
impl PlanningView for MemoryCluster {
    async fn view(&self) -> Result<ClusterView, PortError> {
        let (nodes, pods) = (self.read(&kinds::ALL_NODES)?, self.read(&kinds::NOT_ENDED_PODS)?);
        let daemon_sets = self.read(&kinds::ALL_DAEMON_SETS)?;
        let budgets = self.read(&kinds::ALL_BUDGETS)?;
        let (pools, classes) = (self.read(&kinds::ALL_NODE_POOLS)?, self.read(&kinds::ALL_NODE_CLASSES)?);
        let claims = self.read(&kinds::ALL_NODE_CLAIMS)?;
        let name = |class: &EC2NodeClass| class.metadata.name.clone().unwrap_or_default();
        let overlays = self.read_if_known(&kinds::ALL_NODE_OVERLAYS)?;
        let mut buffers = self.read_if_known(&kinds::ALL_CAPACITY_BUFFERS)?;
        let mut asked = self.read_if_known(&kinds::ALL_PROVISIONING_REQUESTS)?;
        buffers.0.retain(|(buffer, _)| buffer.is_active());
        asked.0.retain(|(request, _)| request.is_active());
        let (node_pools, other_node_pools) = Owned::separate(pools.0);
        let (node_claims, other_node_claims) = Owned::separate(claims.0);
        let statuses = self.read(&kinds::NODE_POOL_STATUSES)?.0.into_iter().filter_map(Owned::managed);
        let mut view = ClusterView {
            nodes: nodes.0,
            pods: pods.0.into_iter().map(Arc::new).collect(),
            daemon_sets: daemon_sets.0.iter().map(|read| read.set.clone()).collect(),
            disruption_budgets: budgets.0,
            node_pools,
            node_pool_statuses: statuses.collect(),
            node_classes: classes.0.into_iter().map(|class| (name(&class), class)).collect(),
            node_overlays: overlays.0,
            node_claims,
            other_node_pools,
            other_node_claims,
            invalid: [nodes.1, pods.1, daemon_sets.1, budgets.1, pools.1, classes.1, claims.1].concat(),
            ..ClusterView::default()
        };
        view.node_classes.values_mut().for_each(hash::renew_ec2_node_class);
        view.invalid.extend(overlays.1.into_iter().chain(buffers.1).chain(asked.1));
        let without_pod = view.set_daemon_pods();
        let has_virtual_pods = !buffers.0.is_empty() || !asked.0.is_empty();
        if has_virtual_pods || !without_pod.is_empty() {
            let (ranges, quotas) = (self.read(&kinds::ALL_LIMIT_RANGES)?, self.read(&kinds::ALL_QUOTAS)?);
            view.invalid.extend(ranges.1.into_iter().chain(quotas.1));
            view.resource_quotas = quotas.0;
            let admission = Admission::from(ranges.0);
            view.set_first_pods(&without_pod, &daemon_sets.0, &admission);
            view.capacity_buffers = buffers::shapes(&self.api, buffers.0, &admission)?;
            view.provisioning_requests = requests::templates(&self.api, asked.0, &admission)?;
        }
        self.read_volumes(&mut view)?;
        self.read_devices(&mut view)?;
        let (namespaces, invalid) = self.read(&kinds::ALL_NAMESPACES)?;
        let system = namespaces.iter().find(|namespace| namespace.metadata.name.as_deref() == Some(SYSTEM_NAMESPACE));
        let annotations = system.and_then(|namespace| namespace.metadata.annotations.as_ref());
        view.options = annotations.map(ClusterOptions::new).unwrap_or_default();
        if view.selects_namespaces() {
            let labels = namespaces.into_iter().map(|namespace| namespace.metadata);
            view.namespaces = labels.map(|it| (it.name.unwrap_or_default(), it.labels.unwrap_or_default())).collect();
            view.invalid.extend(invalid);
        }
        Ok(view)
    }

    /// A view is read from the objects themselves, so it always is current.
    async fn confirm_view(&self) -> Result<(), PortError> {
        Ok(())
    }

    async fn wait_for_batch(&self, window: BatchWindow) -> Result<BTreeSet<String>, PortError> {
        let start = self.clock.now();
        let waited = || Duration::try_from(self.clock.now().duration_since(start)).unwrap_or_default();
        let mut known = self.pending()?;
        let mut pending = known.clone();
        let mut batch = PodBatch::new(window, !known.is_empty());
        while waited() < batch.end() {
            self.clock.sleep(POLL_INTERVAL.min(batch.end().saturating_sub(waited()))).await;
            pending = self.pending()?;
            pending.difference(&known).for_each(|_| batch.note(waited()));
            known.extend(pending.iter().cloned());
        }
        Ok(pending)
    }
}

#[async_trait]
impl NodesAndPods for MemoryCluster {
    async fn nodes_of(&self, provider_id: &str, _name_hint: Option<&str>) -> Result<Vec<Node>, PortError> {
        let (nodes, invalid) = self.read(&kinds::ALL_NODES)?;
        let found: Vec<Node> =
            nodes.into_iter().filter(|node| node.provider_id.as_deref() == Some(provider_id)).collect();
        refuse_doubt(found.is_empty(), &invalid)?;
        Ok(found)
    }

    async fn node(&self, name: &str) -> Result<Option<Node>, PortError> {
        let (nodes, invalid) = self.select(&kinds::ALL_NODES, "", &format!("metadata.name={name}"))?;
        refuse_doubt(true, &invalid)?;
        Ok(nodes.into_iter().next())
    }

    async fn nodes_of_all(&self, sought: &[SoughtNode]) -> Result<FoundNodes, PortError> {
        let ids: BTreeSet<&str> = sought.iter().map(|node| node.provider_id.as_str()).collect();
        let (mut nodes, invalid) = self.read(&kinds::ALL_NODES)?;
        let joining_listed = nodes.iter().filter(|node| !node.is_initialized()).count();
        nodes.retain(|node| node.provider_id.as_deref().is_some_and(|id| ids.contains(id)));
        Ok(FoundNodes { nodes, invalid, joining_listed })
    }

    async fn labelled_nodes(&self) -> Result<Vec<Node>, PortError> {
        let (mut nodes, mut invalid) = self.select(&kinds::ALL_NODES, labels::NODE_POOL, "")?;
        let (standalone, faulty) = self.select(&kinds::ALL_NODES, STANDALONE_NODES, "")?;
        nodes.extend(standalone);
        invalid.extend(faulty);
        refuse_doubt(true, &invalid)?;
        Ok(nodes)
    }

    async fn pods_on_each(&self, nodes: &BTreeSet<String>) -> BTreeMap<String, Result<Vec<Pod>, PortError>> {
        let mut found = BTreeMap::new();
        for node in nodes {
            found.insert(node.clone(), self.pods_on(node).await);
        }
        found
    }

    async fn pods_on(&self, node: &str) -> Result<Vec<Pod>, PortError> {
        let (pods, invalid) = self.select(&kinds::ALL_PODS, "", &format!("spec.nodeName={node}"))?;
        refuse_doubt(true, &invalid)?;
        Ok(pods)
    }

    async fn volume_attachments(&self, nodes: &BTreeSet<String>) -> Result<Vec<VolumeAttachment>, PortError> {
        let (all, invalid) = self.read(&kinds::ALL_VOLUME_ATTACHMENTS)?;
        refuse_doubt(true, &invalid)?;
        Ok(pods::attached_to(all, nodes))
    }

    async fn device_resources(&self, node: &Node, requested: &BTreeSet<&str>) -> Result<ResourceList, PortError> {
        let (classes, invalid) = self.read(&kinds::ALL_DEVICE_CLASSES)?;
        refuse_doubt(true, &invalid)?;
        if classes.is_empty() {
            return Ok(ResourceList::new());
        }
        let of_node = format!("spec.nodeName={}", node.name);
        let (slices, invalid) = self.select(&kinds::ALL_RESOURCE_SLICES, "", &of_node)?;
        refuse_doubt(true, &invalid)?;
        Ok(DeviceObjects { slices, classes, ..DeviceObjects::default() }.resources_of(node, requested))
    }

    async fn volumes_of(&self, pod: &Pod) -> Result<Vec<String>, PortError> {
        pods::volumes_of(&self.api, pod)
    }

    async fn patch_node(&self, name: &str, uid: &str, patch: &NodePatch) -> Result<(), PortError> {
        nodes::patch(&self.api, name, uid, patch)
    }

    async fn delete_node(&self, name: &str, uid: &str) -> Result<(), PortError> {
        objects::delete(&self.api, "Kubernetes delete Node", &NODES, "", name, &objects::only(uid))
    }

    async fn evict(&self, pod: &PodRef) -> Result<Eviction, PortError> {
        pods::evict(&self.api, pod)
    }

    async fn unbound_pods(&self) -> Result<Vec<UnboundPod>, PortError> {
        Ok(self.read(&kinds::NOMINABLE_PODS)?.0)
    }

    async fn nominate(&self, pod: &UnboundPod, node: &str) -> Result<(), PortError> {
        pods::nominate(&self.api, pod, node)
    }

    async fn delete_pod(&self, pod: &PodRef, grace_seconds: u32) -> Result<(), PortError> {
        pods::delete(&self.api, pod, grace_seconds)
    }
}

#[async_trait]
impl Workloads for MemoryCluster {
    async fn owning_deployment(
        &self,
        namespace: &str,
        replica_set: &str,
    ) -> Result<Option<OwningDeployment>, PortError> {
        deployments::owning(&self.api, namespace, replica_set)
    }

    async fn raised_deployments(&self) -> Result<Vec<RaisedDeployment>, PortError> {
        deployments::raised(&self.api)
    }

    async fn disruption_budgets(&self) -> Result<Vec<PodDisruptionBudget>, PortError> {
        let (budgets, invalid) = self.read(&kinds::ALL_BUDGETS)?;
        refuse_doubt(true, &invalid)?;
        Ok(budgets)
    }

    async fn daemon_set(&self, name: &DaemonSetName) -> Result<Option<DaemonSet>, PortError> {
        let read = get_in(&self.api, &kinds::ALL_DAEMON_SETS, &name.namespace, &name.name)?;
        Ok(read.map(|read| read.set))
    }

    async fn change_deployment(
        &self,
        namespace: &str,
        name: &str,
        change: &DeploymentChange,
    ) -> Result<bool, PortError> {
        deployments::change(&self.api, namespace, name, change)
    }

    async fn delete_first(&self, pod: &PodRef) -> Result<(), PortError> {
        pods::delete_first(&self.api, pod)
    }
}

#[async_trait]
impl Configuration for MemoryCluster {
    async fn node_class(&self, name: &str) -> Result<Option<EC2NodeClass>, PortError> {
        node_classes::get(&self.api, name)
    }

    async fn node_classes(&self) -> Result<(Vec<EC2NodeClass>, Vec<InvalidObject>), PortError> {
        self.read(&kinds::ALL_NODE_CLASSES)
    }

    async fn node_pool(&self, name: &str) -> Result<Option<NodePool>, PortError> {
        match get_one(&self.api, &kinds::ALL_NODE_POOLS, name)? {
            Some(Owned::Managed(pool)) => Ok(Some(pool)),
            Some(Owned::Other(other)) => {
                Err(PortError::new(ErrorKind::Invalid, "Kubernetes get NodePool", other.to_string()))
            }
            None => Ok(None),
        }
    }

    async fn system_namespace(&self) -> Result<SystemNamespace, PortError> {
        let (namespaces, _) = self.read(&kinds::ALL_NAMESPACES)?;
        let system = namespaces.into_iter().find(|it| it.metadata.name.as_deref() == Some(SYSTEM_NAMESPACE));
        let metadata = system.unwrap_or_default().metadata;
        let table = metadata.annotations.and_then(|mut all| all.remove(labels::TABLE));
        Ok(SystemNamespace { created: metadata.creation_timestamp.map(|time| time.0), table })
    }

    async fn node_pools(&self) -> Result<FoundNodePools, PortError> {
        let (pools, invalid) = self.read(&kinds::ALL_NODE_POOLS)?;
        let (node_pools, others) = Owned::separate(pools);
        Ok(FoundNodePools { node_pools, invalid, others })
    }

    async fn node_overlays(&self) -> Result<Vec<(NodeOverlay, NodeOverlayStatus)>, PortError> {
        Ok(self.read_if_known(&kinds::ALL_NODE_OVERLAYS)?.0)
    }

    async fn write_node_pool_status(&self, name: &str, status: &NodePoolStatus) -> Result<(), PortError> {
        node_classes::write_status_of(&self.api, &NODE_POOLS, "", name, status)
    }

    async fn write_node_overlay_status(&self, name: &str, status: &NodeOverlayStatus) -> Result<(), PortError> {
        node_classes::write_status_of(&self.api, &NODE_OVERLAYS, "", name, status)
    }

    async fn write_capacity_buffer_status(
        &self,
        namespace: &str,
        name: &str,
        status: &CapacityBufferStatus,
    ) -> Result<(), PortError> {
        node_classes::write_status_of(&self.api, &CAPACITY_BUFFERS, namespace, name, status)
    }

    async fn write_provisioning_request_status(
        &self,
        namespace: &str,
        name: &str,
        status: &ProvisioningRequestStatus,
    ) -> Result<(), PortError> {
        node_classes::write_status_of(&self.api, &PROVISIONING_REQUESTS, namespace, name, status)
    }

    async fn write_node_class_status(
        &self,
        name: &str,
        status: &EC2NodeClassStatus,
        certificate_authority: Option<&str>,
    ) -> Result<(), PortError> {
        node_classes::write(&self.api, name, status, certificate_authority)
    }

    async fn release_node_class(&self, name: &str) -> Result<(), PortError> {
        node_classes::release(&self.api, name)
    }
}

#[async_trait]
impl ClaimMirror for MemoryCluster {
    async fn mirrored_claims(&self) -> Result<FoundNodeClaims, PortError> {
        let (claims, invalid) = self.read(&kinds::ALL_NODE_CLAIMS)?;
        refuse_doubt(true, &invalid)?;
        let (mirrors, others) = Owned::separate(claims);
        Ok(FoundNodeClaims { mirrors, others })
    }

    async fn mirrored_claim(&self, name: &str) -> Result<Option<MirroredClaim>, PortError> {
        match get_one(&self.api, &kinds::ALL_NODE_CLAIMS, name)? {
            Some(Owned::Managed(claim)) => Ok(Some(claim)),
            Some(Owned::Other(other)) => {
                Err(PortError::new(ErrorKind::Invalid, "Kubernetes get NodeClaim", other.to_string()))
            }
            None => Ok(None),
        }
    }

    async fn mirrors_of(&self, names: &[String]) -> Result<(Vec<MirroredClaim>, Vec<InvalidObject>), PortError> {
        let (claims, mut invalid) = self.read(&kinds::ALL_NODE_CLAIMS)?;
        let (mut claims, others) = Owned::separate(claims);
        invalid.extend(others.iter().map(InvalidObject::from));
        claims.retain(|claim| names.contains(&claim.name));
        invalid.retain(|object| names.contains(&object.name));
        Ok((claims, invalid))
    }

    async fn mirror_claim(&self, claim: &NodeClaim) -> Result<String, PortError> {
        claims::mirror(&self.api, claim)
    }

    async fn remove_claim(&self, name: &str, uid: Option<&str>) -> Result<(), PortError> {
        claims::remove(&self.api, name, uid)
    }
}

#[async_trait]
impl Events for MemoryCluster {
    async fn publish(&self, published: &[ObjectEvent]) -> Result<(), PortError> {
        for event in published {
            let about = json!({
                "apiVersion": event.object.api_version, "kind": event.object.kind,
                "metadata": { "name": event.object.name, "namespace": event.object.namespace, "uid": event.object.uid },
            });
            let kind = event.event_type.as_str();
            let new = NewEvent { component: FIELD_MANAGER, kind, reason: &event.reason, message: &event.message };
            publish(&self.api, &about, &new, self.clock.now())
                .map_err(|error| failed("Kubernetes publish Event", &error))?;
        }
        Ok(())
    }
}
