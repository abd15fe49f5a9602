//! The cluster with faults.

use super::FaultInjection;
use async_trait::async_trait;
use jiff::Timestamp;
use nodeless_api::{
    CapacityBufferStatus, EC2NodeClass, EC2NodeClassStatus, NodeOverlayStatus, NodePoolStatus,
    ProvisioningRequestStatus,
};
use nodeless_model::{
    DaemonSet, DaemonSetName, Node, NodeClaim, NodeOverlay, NodePool, Pod, PodDisruptionBudget, ResourceList,
};
use nodeless_ports::cluster::{
    BatchWindow, ClusterView, DeploymentChange, Eviction, FoundNodeClaims, FoundNodePools, FoundNodes, InvalidObject,
    MirroredClaim, NodePatch, ObjectEvent, OwningDeployment, PodRef, RaisedDeployment, SoughtNode, SystemNamespace,
    UnboundPod, VolumeAttachment,
};
use nodeless_ports::{ClaimMirror, Cluster, Configuration, Events, NodesAndPods, PlanningView, PortError, Workloads};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

/// The Cluster port with faults injected.
pub struct FaultyCluster {
    inner: Arc<dyn Cluster>,
    fault_injection: FaultInjection,
    /// The last snapshot of the cluster, and the time at which each part was current.
    last: Mutex<Option<(Read, ClusterView)>>,
}

/// The parts with a watch of their own, which may lag independently. Objects that are read because of pods belong to the part of
/// the pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Nodes,
    Pods,
    DaemonSets,
    DisruptionBudgets,
    NodePools,
    NodeClasses,
    NodeOverlays,
    CapacityBuffers,
    ProvisioningRequests,
    NodeClaims,
}

const PARTS: [Part; 10] = [
    Part::Nodes,
    Part::Pods,
    Part::DaemonSets,
    Part::DisruptionBudgets,
    Part::NodePools,
    Part::NodeClasses,
    Part::NodeOverlays,
    Part::CapacityBuffers,
    Part::ProvisioningRequests,
    Part::NodeClaims,
];

/// The times at which the parts were current, in the order of [`PARTS`].
type Read = [Timestamp; PARTS.len()];

impl Part {
    /// Replaces this part of a snapshot with that of another snapshot.
    fn put(self, from: ClusterView, into: &mut ClusterView) {
        match self {
            Self::Nodes => into.nodes = from.nodes,
            Self::Pods => {
                into.pods = from.pods;
                into.volumes = from.volumes;
                into.volume_hosts = from.volume_hosts;
                into.volume_drivers = from.volume_drivers;
                into.volume_faults = from.volume_faults;
                into.volume_limits = from.volume_limits;
                into.namespaces = from.namespaces;
                into.devices = from.devices;
            }
            Self::DaemonSets => into.daemon_sets = from.daemon_sets,
            Self::DisruptionBudgets => into.disruption_budgets = from.disruption_budgets,
            Self::NodePools => {
                into.node_pools = from.node_pools;
                into.node_pool_statuses = from.node_pool_statuses;
                into.other_node_pools = from.other_node_pools;
            }
            Self::NodeClasses => into.node_classes = from.node_classes,
            Self::NodeOverlays => into.node_overlays = from.node_overlays,
            Self::CapacityBuffers => into.capacity_buffers = from.capacity_buffers,
            Self::ProvisioningRequests => into.provisioning_requests = from.provisioning_requests,
            Self::NodeClaims => {
                into.node_claims = from.node_claims;
                into.other_node_claims = from.other_node_claims;
            }
        }
    }
}

impl FaultyCluster {
    /// This port, with these faults.
    #[must_use]
    pub fn new(inner: Arc<dyn Cluster>, fault_injection: FaultInjection) -> Self {
        Self { inner, fault_injection, last: Mutex::default() }
    }
}

#[async_trait]
impl PlanningView for FaultyCluster {
    /// Watches may lag, all together or each on its own, so parts of the snapshot may be stale.
    async fn view(&self) -> Result<ClusterView, PortError> {
        let last = self.last.lock().unwrap_or_else(PoisonError::into_inner).take();
        let (read, view) = match last {
            Some((read, view))
                if read.iter().all(|at| self.fault_injection.recent(*at)) && self.fault_injection.repeats(read[0]) =>
            {
                (read, view)
            }
            last => {
                let mut view = self.fault_injection.read("cluster view", self.inner.view()).await?;
                let mut read = [self.fault_injection.clock().time(); PARTS.len()];
                if let Some((before, old)) = last {
                    for (index, part) in PARTS.iter().enumerate() {
                        if self.fault_injection.repeats(before[index]) {
                            part.put(old.clone(), &mut view);
                            read[index] = before[index];
                        }
                    }
                }
                (read, view)
            }
        };
        if self.fault_injection.rates().stale > 0.0 {
            *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Some((read, view.clone()));
        }
        Ok(view)
    }

    async fn read_pod_controllers(&self, view: &mut ClusterView) -> Result<(), PortError> {
        self.fault_injection.read("cluster pod controllers", self.inner.read_pod_controllers(view)).await
    }

    async fn confirm_view(&self) -> Result<(), PortError> {
        self.fault_injection.read("cluster confirm view", self.inner.confirm_view()).await
    }

    async fn wait_for_batch(&self, window: BatchWindow) -> Result<BTreeSet<String>, PortError> {
        self.fault_injection.read("cluster wait for batch", self.inner.wait_for_batch(window)).await
    }
}

#[async_trait]
impl NodesAndPods for FaultyCluster {
    async fn nodes_of(&self, provider_id: &str, name_hint: Option<&str>) -> Result<Vec<Node>, PortError> {
        self.fault_injection.read("cluster nodes of", self.inner.nodes_of(provider_id, name_hint)).await
    }

    async fn node(&self, name: &str) -> Result<Option<Node>, PortError> {
        self.fault_injection.read("cluster node", self.inner.node(name)).await
    }

    async fn nodes_of_all(&self, sought: &[SoughtNode]) -> Result<FoundNodes, PortError> {
        self.fault_injection.read("cluster nodes of all", self.inner.nodes_of_all(sought)).await
    }

    async fn labelled_nodes(&self) -> Result<Vec<Node>, PortError> {
        self.fault_injection.read("cluster labelled nodes", self.inner.labelled_nodes()).await
    }

    async fn pods_on_each(&self, nodes: &BTreeSet<String>) -> BTreeMap<String, Result<Vec<Pod>, PortError>> {
        let read = async { Ok(self.inner.pods_on_each(nodes).await) };
        match self.fault_injection.read("cluster pods on each", read).await {
            Ok(found) => found,
            Err(error) => nodes.iter().map(|node| (node.clone(), Err(error.clone()))).collect(),
        }
    }

    async fn pods_on(&self, node: &str) -> Result<Vec<Pod>, PortError> {
        self.fault_injection.read("cluster pods on", self.inner.pods_on(node)).await
    }

    async fn volume_attachments(&self, nodes: &BTreeSet<String>) -> Result<Vec<VolumeAttachment>, PortError> {
        self.fault_injection.read("cluster volume attachments", self.inner.volume_attachments(nodes)).await
    }

    async fn device_resources(&self, node: &Node, requested: &BTreeSet<&str>) -> Result<ResourceList, PortError> {
        self.fault_injection.read("cluster device resources", self.inner.device_resources(node, requested)).await
    }

    async fn volumes_of(&self, pod: &Pod) -> Result<Vec<String>, PortError> {
        self.fault_injection.read("cluster volumes of", self.inner.volumes_of(pod)).await
    }

    async fn patch_node(&self, name: &str, uid: &str, patch: &NodePatch) -> Result<(), PortError> {
        let call = self.inner.patch_node(name, uid, patch);
        self.fault_injection.write("cluster patch node", name.to_owned(), |()| true, call).await
    }

    async fn delete_node(&self, name: &str, uid: &str) -> Result<(), PortError> {
        let call = self.inner.delete_node(name, uid);
        self.fault_injection.write("cluster delete node", name.to_owned(), |()| true, call).await
    }

    async fn evict(&self, pod: &PodRef) -> Result<Eviction, PortError> {
        let accepted = |answer: &Eviction| *answer == Eviction::Accepted;
        self.fault_injection.write("cluster evict", key(pod), accepted, self.inner.evict(pod)).await
    }

    async fn unbound_pods(&self) -> Result<Vec<UnboundPod>, PortError> {
        self.fault_injection.read("cluster unbound pods", self.inner.unbound_pods()).await
    }

    async fn nominate(&self, pod: &UnboundPod, node: &str) -> Result<(), PortError> {
        let call = self.inner.nominate(pod, node);
        self.fault_injection.write("cluster nominate", key(&pod.pod), |()| true, call).await
    }

    async fn delete_pod(&self, pod: &PodRef, grace_seconds: u32) -> Result<(), PortError> {
        let call = self.inner.delete_pod(pod, grace_seconds);
        self.fault_injection.write("cluster delete pod", key(pod), |()| true, call).await
    }
}

#[async_trait]
impl Workloads for FaultyCluster {
    async fn owning_deployment(
        &self,
        namespace: &str,
        replica_set: &str,
    ) -> Result<Option<OwningDeployment>, PortError> {
        let call = self.inner.owning_deployment(namespace, replica_set);
        self.fault_injection.read("cluster owning deployment", call).await
    }

    async fn raised_deployments(&self) -> Result<Vec<RaisedDeployment>, PortError> {
        self.fault_injection.read("cluster raised deployments", self.inner.raised_deployments()).await
    }

    async fn disruption_budgets(&self) -> Result<Vec<PodDisruptionBudget>, PortError> {
        self.fault_injection.read("cluster disruption budgets", self.inner.disruption_budgets()).await
    }

    async fn daemon_set(&self, name: &DaemonSetName) -> Result<Option<DaemonSet>, PortError> {
        self.fault_injection.read("cluster daemon set", self.inner.daemon_set(name)).await
    }

    async fn change_deployment(
        &self,
        namespace: &str,
        name: &str,
        change: &DeploymentChange,
    ) -> Result<bool, PortError> {
        let call = self.inner.change_deployment(namespace, name, change);
        let subject = format!("{namespace}/{name}");
        self.fault_injection.write("cluster change deployment", subject, |changed| *changed, call).await
    }

    async fn delete_first(&self, pod: &PodRef) -> Result<(), PortError> {
        let call = self.inner.delete_first(pod);
        self.fault_injection.write("cluster delete first", key(pod), |()| true, call).await
    }
}

#[async_trait]
impl Configuration for FaultyCluster {
    async fn node_class(&self, name: &str) -> Result<Option<EC2NodeClass>, PortError> {
        self.fault_injection.read("cluster node class", self.inner.node_class(name)).await
    }

    async fn node_classes(&self) -> Result<(Vec<EC2NodeClass>, Vec<InvalidObject>), PortError> {
        self.fault_injection.read("cluster node classes", self.inner.node_classes()).await
    }

    async fn node_pool(&self, name: &str) -> Result<Option<NodePool>, PortError> {
        self.fault_injection.read("cluster node pool", self.inner.node_pool(name)).await
    }

    async fn system_namespace(&self) -> Result<SystemNamespace, PortError> {
        self.fault_injection.read("cluster system namespace", self.inner.system_namespace()).await
    }

    async fn node_pools(&self) -> Result<FoundNodePools, PortError> {
        self.fault_injection.read("cluster node pools", self.inner.node_pools()).await
    }

    async fn node_overlays(&self) -> Result<Vec<(NodeOverlay, NodeOverlayStatus)>, PortError> {
        self.fault_injection.read("cluster node overlays", self.inner.node_overlays()).await
    }

    async fn write_node_pool_status(&self, name: &str, status: &NodePoolStatus) -> Result<(), PortError> {
        let call = self.inner.write_node_pool_status(name, status);
        self.fault_injection.write("cluster node pool status", name.to_owned(), |()| true, call).await
    }

    async fn write_node_overlay_status(&self, name: &str, status: &NodeOverlayStatus) -> Result<(), PortError> {
        let call = self.inner.write_node_overlay_status(name, status);
        self.fault_injection.write("cluster node overlay status", name.to_owned(), |()| true, call).await
    }

    async fn write_capacity_buffer_status(
        &self,
        namespace: &str,
        name: &str,
        status: &CapacityBufferStatus,
    ) -> Result<(), PortError> {
        let call = self.inner.write_capacity_buffer_status(namespace, name, status);
        self.fault_injection
            .write("cluster capacity buffer status", format!("{namespace}/{name}"), |()| true, call)
            .await
    }

    async fn write_provisioning_request_status(
        &self,
        namespace: &str,
        name: &str,
        status: &ProvisioningRequestStatus,
    ) -> Result<(), PortError> {
        let call = self.inner.write_provisioning_request_status(namespace, name, status);
        self.fault_injection
            .write("cluster provisioning request status", format!("{namespace}/{name}"), |()| true, call)
            .await
    }

    async fn write_node_class_status(
        &self,
        name: &str,
        status: &EC2NodeClassStatus,
        certificate_authority: Option<&str>,
    ) -> Result<(), PortError> {
        let call = self.inner.write_node_class_status(name, status, certificate_authority);
        self.fault_injection.write("cluster node class status", name.to_owned(), |()| true, call).await
    }

    async fn release_node_class(&self, name: &str) -> Result<(), PortError> {
        let call = self.inner.release_node_class(name);
        self.fault_injection.write("cluster release node class", name.to_owned(), |()| true, call).await
    }
}

#[async_trait]
impl ClaimMirror for FaultyCluster {
    async fn mirrored_claims(&self) -> Result<FoundNodeClaims, PortError> {
        self.fault_injection.read("cluster mirrored claims", self.inner.mirrored_claims()).await
    }

    async fn mirrored_claim(&self, name: &str) -> Result<Option<MirroredClaim>, PortError> {
        self.fault_injection.read("cluster mirrored claim", self.inner.mirrored_claim(name)).await
    }

    async fn mirrors_of(&self, names: &[String]) -> Result<(Vec<MirroredClaim>, Vec<InvalidObject>), PortError> {
        self.fault_injection.read("cluster mirrors of", self.inner.mirrors_of(names)).await
    }

    async fn mirror_claim(&self, claim: &NodeClaim) -> Result<String, PortError> {
        let call = self.inner.mirror_claim(claim);
        self.fault_injection.write("cluster mirror claim", claim.name.clone(), |_| true, call).await
    }

    async fn remove_claim(&self, name: &str, uid: Option<&str>) -> Result<(), PortError> {
        let call = self.inner.remove_claim(name, uid);
        self.fault_injection.write("cluster remove claim", name.to_owned(), |()| true, call).await
    }
}

#[async_trait]
impl Events for FaultyCluster {
    async fn publish(&self, events: &[ObjectEvent]) -> Result<(), PortError> {
        let subject = format!("{} events", events.len());
        self.fault_injection.write("cluster publish", subject, |()| true, self.inner.publish(events)).await
    }
}

fn key(pod: &PodRef) -> String {
    format!("{}/{}", pod.namespace, pod.name)
}
