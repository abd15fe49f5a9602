//! The port: a cluster with a cache of the objects that were read.

use crate::api;
use crate::connection::Connection;
use crate::kinds::{
    BoundPods, CapacityBuffers, CsiNodes, DaemonSets, DeviceClasses, DisruptionBudgets, Kind, LimitRanges, Namespaces,
    NodeClaims, NodeClasses, NodeOverlays, NodePools, Nodes, PersistentVolumeClaims, PersistentVolumes, Pods,
    ProvisioningRequests, ReplicaSets, ReplicationControllers, ResourceClaimTemplates, ResourceClaims, ResourceQuotas,
    ResourceSlices, Services, StatefulSets, StorageClasses,
};
use crate::recent::Recent;
use crate::store::{Store, decoded, list_once, list_selected, next, refuse_doubt, separate};
use crate::watch::WatchError;
use crate::{buffers, claims, deployments, events, node_classes, nodes, pods, requests};
use async_trait::async_trait;
use futures::future::join_all;
use futures::{StreamExt as _, stream};
use kube::core::params::ListParams;
use nodeless_api::admission::Admission;
use nodeless_api::convert::volumes::Storage;
use nodeless_api::daemon_sets::ReadDaemonSet;
use nodeless_api::default_spread::{ObjectSelector, SchedulerConfig, Selectors};
use nodeless_api::devices::DeviceObjects;
use nodeless_api::managed::Owned;
use nodeless_api::slim::PersistentVolume;
use nodeless_api::{
    CapacityBufferStatus, EC2NodeClass, EC2NodeClassStatus, NodeOverlayStatus, NodePoolStatus,
    ProvisioningRequestStatus, hash,
};
use nodeless_model::{
    CapacityBuffer, ClusterOptions, DaemonSet, DaemonSetName, Node, NodeClaim, NodeOverlay, NodePool, Pod,
    PodDisruptionBudget, ProvisioningRequest, ResourceList, labels,
};
use nodeless_ports::cluster::{
    BatchWindow, ClusterView, DeploymentChange, Eviction, FoundNodeClaims, FoundNodePools, FoundNodes, InvalidObject,
    MirroredClaim, NodePatch, ObjectEvent, OtherNodeClaim, Outline, OwningDeployment, PodBatch, PodRef,
    RaisedDeployment, STANDALONE_NODES, SYSTEM_NAMESPACE, SoughtNode, SystemNamespace, UnboundPod, VolumeAttachment,
};
use nodeless_ports::{ClaimMirror, Configuration, ErrorKind, Events, NodesAndPods, PlanningView, PortError, Workloads};
use nodeless_telemetry::Context;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout_at};

/// How many Events are written concurrently.
const EVENTS_AT_ONCE: usize = 8;

/// Up to this number, nodes are read by their names; more are read with one list.
const FEW_NODES: usize = 3;

/// Up to this number of nodes, their pods are listed node by node. With more, lists each second would be most requests to the API server,
/// so all bound pods are read once, and then only what changes.
const FEW_DRAINED: usize = 8;

/// The nodes that are not initialized. Nodes of managed node groups never are.
const NOT_INITIALIZED: &str = "karpenter.sh/initialized!=true,!eks.amazonaws.com/nodegroup";

/// The wait before a watch is reopened that the API server closed at once.
const REOPEN: Duration = Duration::from_millis(100);

/// A Kubernetes cluster. Keep it for the life of the execution environment: objects that were read once are only updated.
pub struct KubeCluster {
    connection: Connection,
    context: Context,
    scheduler_config: SchedulerConfig,
    nodes: Mutex<Store<Nodes>>,
    pods: Mutex<Store<Pods>>,
    /// The pods of nodes, while many nodes are drained. They are not part of a view.
    bound_pods: Mutex<Store<BoundPods>>,
    daemon_sets: Mutex<Store<DaemonSets>>,
    limit_ranges: Mutex<Store<LimitRanges>>,
    resource_quotas: Mutex<Store<ResourceQuotas>>,
    disruption_budgets: Mutex<Store<DisruptionBudgets>>,
    node_pools: Mutex<Store<NodePools>>,
    node_classes: Mutex<Store<NodeClasses>>,
    node_claims: Mutex<Store<NodeClaims>>,
    node_overlays: Mutex<Store<NodeOverlays>>,
    capacity_buffers: Mutex<Store<CapacityBuffers>>,
    provisioning_requests: Mutex<Store<ProvisioningRequests>>,
    namespaces: Mutex<Store<Namespaces>>,
    volume_claims: Mutex<Store<PersistentVolumeClaims>>,
    volumes: Mutex<Store<PersistentVolumes>>,
    storage_classes: Mutex<Store<StorageClasses>>,
    csi_nodes: Mutex<Store<CsiNodes>>,
    resource_slices: Mutex<Store<ResourceSlices>>,
    device_classes: Mutex<Store<DeviceClasses>>,
    resource_claims: Mutex<Store<ResourceClaims>>,
    resource_claim_templates: Mutex<Store<ResourceClaimTemplates>>,
    services: Mutex<Store<Services>>,
    replication_controllers: Mutex<Store<ReplicationControllers>>,
    replica_sets: Mutex<Store<ReplicaSets>>,
    stateful_sets: Mutex<Store<StatefulSets>>,
    recent: Recent,
}

impl KubeCluster {
    /// A cluster with an empty cache.
    #[must_use]
    pub fn new(connection: Connection, context: Context) -> Self {
        Self {
            connection,
            context,
            scheduler_config: SchedulerConfig::default(),
            nodes: Mutex::new(Store::new()),
            pods: Mutex::new(Store::new()),
            bound_pods: Mutex::new(Store::new()),
            daemon_sets: Mutex::new(Store::new()),
            limit_ranges: Mutex::new(Store::new()),
            resource_quotas: Mutex::new(Store::new()),
            disruption_budgets: Mutex::new(Store::new()),
            node_pools: Mutex::new(Store::new()),
            node_classes: Mutex::new(Store::new()),
            node_claims: Mutex::new(Store::new()),
            node_overlays: Mutex::new(Store::new()),
            capacity_buffers: Mutex::new(Store::new()),
            provisioning_requests: Mutex::new(Store::new()),
            namespaces: Mutex::new(Store::new()),
            volume_claims: Mutex::new(Store::new()),
            volumes: Mutex::new(Store::new()),
            storage_classes: Mutex::new(Store::new()),
            csi_nodes: Mutex::new(Store::new()),
            resource_slices: Mutex::new(Store::new()),
            device_classes: Mutex::new(Store::new()),
            resource_claims: Mutex::new(Store::new()),
            resource_claim_templates: Mutex::new(Store::new()),
            services: Mutex::new(Store::new()),
            replication_controllers: Mutex::new(Store::new()),
            replica_sets: Mutex::new(Store::new()),
            stateful_sets: Mutex::new(Store::new()),
            recent: Recent::default(),
        }
    }

    /// With the default topology spread constraints of the cluster's scheduler. If there are any, Services and the controllers of pods are
    /// read too, because their selectors are those of the constraints.
    #[must_use]
    pub fn with_scheduler_config(mut self, config: SchedulerConfig) -> Self {
        self.scheduler_config = config;
        self
    }

    /// Resumes watches above this number of objects of a kind; up to it, the kind is listed each time. At the default of 250 the
    /// costs are about equal.
    #[must_use]
    pub fn watching_above(mut self, few: usize) -> Self {
        self.nodes = Mutex::new(Store::watching_above(few));
        self.pods = Mutex::new(Store::watching_above(few));
        self.bound_pods = Mutex::new(Store::watching_above(few));
        self
    }

    /// Updates a kind and returns its objects; those that cannot be decoded are added to `invalid`.
    async fn current<K: Kind>(
        &self,
        store: &Mutex<Store<K>>,
    ) -> Result<(Vec<K::Model>, Vec<InvalidObject>), PortError> {
        let mut store = store.lock().await;
        store.refresh(&self.connection, &self.context).await?;
        Ok((store.objects().cloned().collect(), store.invalid().collect()))
    }

    /// Like [`current`](Self::current), but only [`confirm_view`](PlanningView::confirm_view) proves that the objects are current.
    async fn latest<K: Kind>(&self, store: &Mutex<Store<K>>) -> Result<(Vec<K::Model>, Vec<InvalidObject>), PortError> {
        let mut store = store.lock().await;
        store.latest(&self.connection, &self.context).await?;
        Ok((store.objects().cloned().collect(), store.invalid().collect()))
    }

    /// Like [`latest`](Self::latest), for an optional kind: empty if its CRD is not installed.
    async fn latest_if_known<K: Kind>(
        &self,
        store: &Mutex<Store<K>>,
    ) -> Result<(Vec<K::Model>, Vec<InvalidObject>), PortError> {
        match self.latest(store).await {
            Err(error) if error.kind == ErrorKind::NotFound => Ok((Vec::new(), Vec::new())),
            read => read,
        }
    }

    /// The stores that a view is read from.
    fn parts(&self) -> [&dyn Part; 25] {
        [
            &self.nodes,
            &self.pods,
            &self.daemon_sets,
            &self.limit_ranges,
            &self.resource_quotas,
            &self.disruption_budgets,
            &self.node_pools,
            &self.node_classes,
            &self.node_claims,
            &self.node_overlays,
            &self.capacity_buffers,
            &self.provisioning_requests,
            &self.namespaces,
            &self.volume_claims,
            &self.volumes,
            &self.storage_classes,
            &self.csi_nodes,
            &self.resource_slices,
            &self.device_classes,
            &self.resource_claims,
            &self.resource_claim_templates,
            &self.services,
            &self.replication_controllers,
            &self.replica_sets,
            &self.stateful_sets,
        ]
    }

    /// The nodes of instances whose nodes have not been initialized. Only nodes that are not initialized are listed, and they are
    /// cached for the changes that follow.
    async fn joining_nodes(&self, sought: &[&SoughtNode]) -> Result<FoundNodes, PortError> {
        if sought.is_empty() {
            return Ok(FoundNodes::default());
        }
        let mut joining_listed = 0;
        let ids: BTreeSet<&str> = sought.iter().map(|node| node.provider_id.as_str()).collect();
        let params = ListParams::default().labels(NOT_INITIALIZED);
        let listed = list_selected::<Nodes, _>(&self.connection, &params, |object| {
            joining_listed += 1;
            // Most of them are of other claims.
            if nodes::provider_id(object).is_some_and(|id| !ids.contains(id.as_ref())) {
                return None;
            }
            match decoded::<Nodes>(object) {
                Ok(node) if node.provider_id.as_deref().is_some_and(|id| ids.contains(id)) => {
                    if let Ok(object) = serde_json::from_str(object.get()) {
                        self.recent.keep(&api::object(api::NODES, &node.name), object);
                    }
                    Some(Ok(node))
                }
                Ok(_) => None,
                Err(object) => Some(Err(object)),
            }
        });
        let (nodes, invalid) = separate(listed.await?);
        Ok(FoundNodes { nodes, invalid, joining_listed })
    }

    /// The node of an instance by the name that it had when it joined.
    async fn node_named(&self, sought: &SoughtNode) -> Result<Vec<Node>, PortError> {
        let Some(name) = &sought.name else { return Ok(Vec::new()) };
        let params = ListParams::default().fields(&format!("metadata.name={name}"));
        let (mut nodes, _) = list_once::<Nodes>(&self.connection, &params).await?;
        nodes.retain(|node| node.provider_id.as_ref() == Some(&sought.provider_id));
        Ok(nodes)
    }

    /// CapacityBuffers and ProvisioningRequests, and what ResourceQuotas and LimitRanges mean for their pods and for DaemonSets without a
    /// pod.
    async fn read_pods_to_come(
        &self,
        view: &mut ClusterView,
        daemon_sets: &[ReadDaemonSet],
        mut buffers: Vec<(CapacityBuffer, CapacityBufferStatus)>,
        mut requests: Vec<(ProvisioningRequest, ProvisioningRequestStatus)>,
    ) -> Result<(), PortError> {
        buffers.retain(|(buffer, _)| buffer.is_active());
        requests.retain(|(request, _)| request.is_active());
        let without_pod = view.set_daemon_pods();
        let has_virtual_pods = !buffers.is_empty() || !requests.is_empty();
        if without_pod.is_empty() && !has_virtual_pods {
            return Ok(());
        }
        let (ranges, quotas) = futures::try_join!(self.latest(&self.limit_ranges), self.latest(&self.resource_quotas))?;
        view.invalid.extend(ranges.1.into_iter().chain(quotas.1));
        view.resource_quotas = quotas.0;
        let admission = Admission::from(ranges.0);
        view.set_first_pods(&without_pod, daemon_sets, &admission);
        if has_virtual_pods {
            view.capacity_buffers = buffers::shapes(&self.connection, buffers, &admission).await?;
            view.provisioning_requests = requests::templates(&self.connection, requests, &admission).await?;
        }
        Ok(())
    }

    /// The topology of volumes, if it is needed.
    async fn read_volumes(&self, view: &mut ClusterView, volumes: &[PersistentVolume]) -> Result<(), PortError> {
        if !view.needs_volumes(volumes) {
            return Ok(());
        }
        let (claims, classes, nodes) = futures::try_join!(
            self.latest(&self.volume_claims),
            self.latest(&self.storage_classes),
            self.latest(&self.csi_nodes),
        )?;
        view.set_volumes(Storage { claims: &claims.0, volumes, classes: &classes.0 }, &nodes.0);
        view.invalid.extend([claims.1, classes.1, nodes.1].concat());
        Ok(())
    }

    /// Devices and the claims for them, if any pod has claims and the API server has these kinds.
    async fn read_devices(&self, view: &mut ClusterView) -> Result<(), PortError> {
        if !view.claims_devices() {
            return Ok(());
        }
        let (slices, classes, claims, templates) = futures::try_join!(
            self.latest_if_known(&self.resource_slices),
            self.latest_if_known(&self.device_classes),
            self.latest_if_known(&self.resource_claims),
            self.latest_if_known(&self.resource_claim_templates),
        )?;
        view.invalid.extend([slices.1, classes.1, claims.1, templates.1].concat());
        view.set_devices(DeviceObjects {
            slices: slices.0,
            classes: classes.0,
            claims: claims.0,
            templates: templates.0,
        });
        Ok(())
    }

    /// The default topology spread constraints of pods, if the scheduler has any.
    async fn read_default_spread(&self, view: &mut ClusterView) -> Result<(), PortError> {
        if self.scheduler_config.is_empty() {
            return Ok(());
        }
        let mut selectors = Selectors::default();
        let (services, replication, replicas, stateful) = futures::try_join!(
            self.selectors(&self.services),
            self.selectors(&self.replication_controllers),
            self.selectors(&self.replica_sets),
            self.selectors(&self.stateful_sets),
        )?;
        for (kind, objects, invalid) in [services, replication, replicas, stateful] {
            objects.into_iter().for_each(|object| selectors.add(kind, object));
            view.invalid.extend(invalid);
        }
        view.set_default_spread(&self.scheduler_config, &selectors);
        Ok(())
    }

    /// The name of a kind, its objects, and those that cannot be decoded.
    async fn selectors<K: Kind<Model = ObjectSelector>>(
        &self,
        store: &Mutex<Store<K>>,
    ) -> Result<(&'static str, Vec<ObjectSelector>, Vec<InvalidObject>), PortError> {
        let (objects, invalid) = self.latest(store).await?;
        Ok((K::NAME, objects, invalid))
    }

    /// The labels of namespaces, if any pod selects by them.
    async fn read_namespaces(&self, view: &mut ClusterView) -> Result<(), PortError> {
        if view.selects_namespaces() {
            let (namespaces, invalid) = self.latest(&self.namespaces).await?;
            let labels = namespaces.into_iter().map(|namespace| namespace.metadata);
            view.namespaces = labels.map(|it| (it.name.unwrap_or_default(), it.labels.unwrap_or_default())).collect();
            view.invalid.extend(invalid);
        }
        Ok(())
    }
}

/// A store that a view is read from.
#[async_trait]
trait Part: Send + Sync {
    /// Waits until it is known whether the view has every change of this kind that was made before it was requested.
    async fn confirm(&self) -> Result<(), String>;
}

#[async_trait]
impl<K: Kind> Part for Mutex<Store<K>> {
    async fn confirm(&self) -> Result<(), String> {
        self.lock().await.confirm().await.map_err(|why| format!("{}: {why}", K::NAME))
    }
}

#[async_trait]
impl PlanningView for KubeCluster {
    async fn view(&self) -> Result<ClusterView, PortError> {
        let (nodes, pods, volumes, daemon_sets, budgets, pools, classes, claims, overlays, buffers, asked, system) = futures::try_join!(
            self.latest(&self.nodes),
            self.latest(&self.pods),
            self.latest(&self.volumes),
            self.latest(&self.daemon_sets),
            self.latest(&self.disruption_budgets),
            self.latest(&self.node_pools),
            self.latest(&self.node_classes),
            self.latest(&self.node_claims),
            self.latest_if_known(&self.node_overlays),
            self.latest_if_known(&self.capacity_buffers),
            self.latest_if_known(&self.provisioning_requests),
            node_classes::get_one::<Namespaces>(&self.connection, SYSTEM_NAMESPACE),
        )?;
        let name = |class: &EC2NodeClass| class.metadata.name.clone().unwrap_or_default();
        let (managed, other_node_pools) = Owned::separate(pools.0);
        let (node_pools, statuses): (Vec<NodePool>, Vec<NodePoolStatus>) = managed.into_iter().unzip();
        let (node_claims, other_node_claims) = Owned::separate(claims.0);
        let mut view = ClusterView {
            nodes: nodes.0,
            pods: pods.0,
            daemon_sets: daemon_sets.0.iter().map(|read| read.set.clone()).collect(),
            disruption_budgets: budgets.0,
            node_pool_statuses: node_pools.iter().map(|pool| pool.name.clone()).zip(statuses).collect(),
            node_pools,
            node_classes: classes.0.into_iter().map(|class| (name(&class), class)).collect(),
            node_overlays: overlays.0,
            node_claims,
            other_node_pools,
            other_node_claims,
            invalid: [nodes.1, pods.1, volumes.1, daemon_sets.1, budgets.1, pools.1, classes.1, claims.1].concat(),
            ..ClusterView::default()
        };
        view.node_classes.values_mut().for_each(hash::renew_ec2_node_class);
        view.invalid.extend(overlays.1.into_iter().chain(buffers.1).chain(asked.1));
        let annotations = system.and_then(|namespace| namespace.metadata.annotations);
        view.options = annotations.as_ref().map(ClusterOptions::new).unwrap_or_default();
        self.read_pods_to_come(&mut view, &daemon_sets.0, buffers.0, asked.0).await?;
        self.read_volumes(&mut view, &volumes.0).await?;
        self.read_devices(&mut view).await?;
        self.read_namespaces(&mut view).await?;
        self.read_default_spread(&mut view).await?;
        Ok(view)
    }

    async fn confirm_view(&self) -> Result<(), PortError> {
        let proofs = join_all(self.parts().map(Part::confirm)).await;
        let lacking: Vec<String> = proofs.into_iter().filter_map(Result::err).collect();
        if lacking.is_empty() {
            return Ok(());
        }
        let message = format!("the API server sent changes too late for this view: {}", lacking.join("; "));
        Err(PortError::new(ErrorKind::Conflict, "Kubernetes view", message))
    }

    async fn wait_for_batch(&self, window: BatchWindow) -> Result<BTreeSet<String>, PortError> {
        let start = Instant::now();
        let mut store = self.pods.lock().await;
        store.latest(&self.connection, &self.context).await?;
        let mut batch = PodBatch::new(window, store.objects().any(|pod| pod.is_provisionable()));
        while start.elapsed() < batch.end() {
            let seconds = window.max.max(window.burst).max(window.min).as_secs();
            let seconds = u32::try_from(seconds).unwrap_or(u32::MAX).saturating_add(1);
            let mut changes = match store.follow(&self.connection, seconds).await {
                Ok(changes) => changes,
                Err(WatchError::Expired) => {
                    store.relist(&self.connection).await?;
                    continue;
                }
                Err(WatchError::Call(failed)) => return Err(failed.into()),
            };
            loop {
                let change = match timeout_at(start + batch.end(), next(&mut changes)).await {
                    Err(_) => break,
                    Ok(None | Some(Err(_))) => {
                        // The watch was closed or interrupted: the next one resumes where this one ended, or fails.
                        tokio::time::sleep(REOPEN).await;
                        break;
                    }
                    Ok(Some(Ok(change))) => change,
                };
                let update = store.apply(&change);
                let is_new = |before: Option<Arc<Pod>>| before.is_none_or(|pod| !pod.is_provisionable());
                if update.after.is_some_and(|pod| pod.is_provisionable()) && is_new(update.before) {
                    batch.note(start.elapsed());
                }
            }
        }
        Ok(store.objects().filter(|pod| pod.is_provisionable()).map(|pod| pod.uid.clone()).collect())
    }
}

#[async_trait]
impl NodesAndPods for KubeCluster {
    async fn nodes_of(&self, provider_id: &str, name_hint: Option<&str>) -> Result<Vec<Node>, PortError> {
        let is_meant = |node: &Node| node.provider_id.as_deref() == Some(provider_id);
        if let Some(name) = name_hint {
            let params = ListParams::default().fields(&format!("metadata.name={name}"));
            let (nodes, _) = list_once::<Nodes>(&self.connection, &params).await?;
            let hit: Vec<Node> = nodes.into_iter().filter(is_meant).collect();
            if !hit.is_empty() {
                return Ok(hit);
            }
        }
        let (nodes, invalid) = self.current(&self.nodes).await?;
        let found: Vec<Node> = nodes.into_iter().filter(is_meant).collect();
        refuse_doubt(found.is_empty(), &invalid)?;
        Ok(found)
    }

    async fn node(&self, name: &str) -> Result<Option<Node>, PortError> {
        node_classes::get_one::<Nodes>(&self.connection, name).await
    }

    async fn nodes_of_all(&self, sought: &[SoughtNode]) -> Result<FoundNodes, PortError> {
        let (joining, others): (Vec<&SoughtNode>, Vec<&SoughtNode>) = sought.iter().partition(|node| node.joining);
        let FoundNodes { mut nodes, mut invalid, joining_listed } = self.joining_nodes(&joining).await?;
        let is_found = |node: &SoughtNode| nodes.iter().any(|it| it.provider_id.as_ref() == Some(&node.provider_id));
        // A node that joined before and is not in the list has been initialized or deleted.
        let missed = joining.into_iter().filter(|node| node.name.is_some() && !is_found(node));
        let mut left: Vec<&SoughtNode> = missed.chain(others).collect();
        if left.len() <= FEW_NODES {
            for node in std::mem::take(&mut left) {
                let found = self.node_named(node).await?;
                if found.is_empty() {
                    left.push(node);
                }
                nodes.extend(found);
            }
        }
        if !left.is_empty() {
            let ids: BTreeSet<&str> = left.iter().map(|node| node.provider_id.as_str()).collect();
            let mut store = self.nodes.lock().await;
            store.refresh(&self.connection, &self.context).await?;
            let is_sought = |node: &Node| node.provider_id.as_deref().is_some_and(|id| ids.contains(id));
            for (version, node) in store.versioned().filter(|(_, node)| is_sought(node)) {
                if let Some(listed) = nodes::listed(node, version) {
                    self.recent.keep(&nodes::listed_path(&node.name), listed);
                }
                nodes.push(node.clone());
            }
            invalid.extend(store.invalid());
        }
        Ok(FoundNodes { nodes, invalid, joining_listed })
    }

    async fn labelled_nodes(&self) -> Result<Vec<Node>, PortError> {
        let [of_pools, others] =
            [labels::NODE_POOL, STANDALONE_NODES].map(|selector| ListParams::default().labels(selector));
        let ((mut nodes, mut invalid), (standalone, faulty)) = futures::try_join!(
            list_once::<Nodes>(&self.connection, &of_pools),
            list_once::<Nodes>(&self.connection, &others),
        )?;
        nodes.extend(standalone);
        invalid.extend(faulty);
        refuse_doubt(true, &invalid)?;
        Ok(nodes)
    }

    async fn pods_on(&self, node: &str) -> Result<Vec<Pod>, PortError> {
        let params = ListParams::default().fields(&format!("spec.nodeName={node}"));
        let (pods, invalid) = list_once::<Pods>(&self.connection, &params).await?;
        refuse_doubt(true, &invalid)?;
        Ok(pods.into_iter().map(Arc::unwrap_or_clone).collect())
    }

    async fn pods_on_each(&self, nodes: &BTreeSet<String>) -> BTreeMap<String, Result<Vec<Pod>, PortError>> {
        if nodes.len() <= FEW_DRAINED {
            let reads = nodes.iter().map(|node| async move { (node.clone(), self.pods_on(node).await) });
            return join_all(reads).await.into_iter().collect();
        }
        match self.current(&self.bound_pods).await {
            Ok((pods, invalid)) => pods::by_node(nodes, pods, &invalid),
            Err(error) => nodes.iter().map(|node| (node.clone(), Err(error.clone()))).collect(),
        }
    }

    async fn volume_attachments(&self, nodes: &BTreeSet<String>) -> Result<Vec<VolumeAttachment>, PortError> {
        pods::volume_attachments(&self.connection, nodes).await
    }

    async fn device_resources(&self, node: &Node, requested: &BTreeSet<&str>) -> Result<ResourceList, PortError> {
        nodes::device_resources(&self.connection, node, requested).await
    }

    async fn volumes_of(&self, pod: &Pod) -> Result<Vec<String>, PortError> {
        pods::volumes_of(&self.connection, pod).await
    }

    async fn patch_node(&self, name: &str, uid: &str, patch: &NodePatch) -> Result<(), PortError> {
        nodes::patch(&self.connection, &self.recent, name, uid, patch).await
    }

    async fn delete_node(&self, name: &str, uid: &str) -> Result<(), PortError> {
        nodes::delete(&self.connection, name, uid).await
    }

    async fn evict(&self, pod: &PodRef) -> Result<Eviction, PortError> {
        pods::evict(&self.connection, pod).await
    }

    async fn unbound_pods(&self) -> Result<Vec<UnboundPod>, PortError> {
        pods::unbound(&self.connection).await
    }

    async fn nominate(&self, pod: &UnboundPod, node: &str) -> Result<(), PortError> {
        pods::nominate(&self.connection, pod, node).await
    }

    async fn delete_pod(&self, pod: &PodRef, grace_seconds: u32) -> Result<(), PortError> {
        pods::delete(&self.connection, pod, grace_seconds).await
    }
}

#[async_trait]
impl Workloads for KubeCluster {
    async fn owning_deployment(
        &self,
        namespace: &str,
        replica_set: &str,
    ) -> Result<Option<OwningDeployment>, PortError> {
        deployments::owning(&self.connection, namespace, replica_set).await
    }

    async fn raised_deployments(&self) -> Result<Vec<RaisedDeployment>, PortError> {
        deployments::raised(&self.connection).await
    }

    async fn disruption_budgets(&self) -> Result<Vec<PodDisruptionBudget>, PortError> {
        let (budgets, invalid) = list_once::<DisruptionBudgets>(&self.connection, &ListParams::default()).await?;
        refuse_doubt(true, &invalid)?;
        Ok(budgets)
    }

    async fn daemon_set(&self, name: &DaemonSetName) -> Result<Option<DaemonSet>, PortError> {
        let read = node_classes::get_in::<DaemonSets>(&self.connection, &name.namespace, &name.name).await?;
        Ok(read.map(|read| read.set))
    }

    async fn change_deployment(
        &self,
        namespace: &str,
        name: &str,
        change: &DeploymentChange,
    ) -> Result<bool, PortError> {
        deployments::change(&self.connection, namespace, name, change).await
    }

    async fn delete_first(&self, pod: &PodRef) -> Result<(), PortError> {
        pods::delete_first(&self.connection, pod).await
    }
}

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

#[async_trait]
impl ClaimMirror for KubeCluster {
    async fn mirrored_claims(&self) -> Result<FoundNodeClaims, PortError> {
        let (claims, invalid) = self.current(&self.node_claims).await?;
        refuse_doubt(true, &invalid)?;
        let (mirrors, others) = Owned::separate(claims);
        Ok(FoundNodeClaims { mirrors, others })
    }

    async fn mirrored_claim(&self, name: &str) -> Result<Option<MirroredClaim>, PortError> {
        match node_classes::get_one::<NodeClaims>(&self.connection, name).await? {
            Some(Owned::Managed(claim)) => Ok(Some(claim)),
            Some(Owned::Other(other)) => {
                Err(PortError::new(ErrorKind::Invalid, "Kubernetes get NodeClaim", other.to_string()))
            }
            None => Ok(None),
        }
    }

    async fn mirrors_of(&self, names: &[String]) -> Result<(Vec<MirroredClaim>, Vec<InvalidObject>), PortError> {
        if let [name] = names {
            return match self.mirrored_claim(name).await {
                Ok(found) => Ok((found.into_iter().collect(), Vec::new())),
                Err(error) if error.kind == ErrorKind::Invalid => {
                    let (kind, name, outline) = ("NodeClaim".to_owned(), name.clone(), Outline::default());
                    Ok((Vec::new(), vec![InvalidObject { kind, name, message: error.message, outline }]))
                }
                Err(error) => Err(error),
            };
        }
        let names: BTreeSet<&str> = names.iter().map(String::as_str).collect();
        let mut store = self.node_claims.lock().await;
        store.refresh(&self.connection, &self.context).await?;
        let is_sought = |one: &&Owned<MirroredClaim, OtherNodeClaim>| match one {
            Owned::Managed(claim) => names.contains(claim.name.as_str()),
            Owned::Other(other) => names.contains(other.name.as_str()),
        };
        let (claims, others) = Owned::separate(store.objects().filter(is_sought).cloned());
        let invalid = store.invalid().filter(|object| names.contains(object.name.as_str()));
        Ok((claims, invalid.chain(others.iter().map(InvalidObject::from)).collect()))
    }

    async fn mirror_claim(&self, claim: &NodeClaim) -> Result<String, PortError> {
        claims::mirror(&self.connection, &self.context, &self.recent, claim).await
    }

    async fn remove_claim(&self, name: &str, uid: Option<&str>) -> Result<(), PortError> {
        claims::remove(&self.connection, &self.recent, name, uid).await
    }
}

#[async_trait]
impl Events for KubeCluster {
    async fn publish(&self, published: &[ObjectEvent]) -> Result<(), PortError> {
        let now = self.context.now();
        let mut times: Vec<(&ObjectEvent, u32)> = Vec::new();
        for event in published {
            match times.iter_mut().find(|(known, _)| *known == event) {
                Some((_, count)) => *count += 1,
                None => times.push((event, 1)),
            }
        }
        // A repeated event is read and written to increase its count, so equal events are published one after the other.
        let posts = times.into_iter().map(async |(event, count)| {
            for _ in 0..count {
                events::publish(&self.connection, event, now).await?;
            }
            Ok(())
        });
        let posts: Vec<_> = posts.collect();
        // Several concurrently, because an interruption of many nodes publishes many Events at once.
        let results: Vec<Result<(), PortError>> = stream::iter(posts).buffered(EVENTS_AT_ONCE).collect().await;
        results.into_iter().collect()
    }
}
