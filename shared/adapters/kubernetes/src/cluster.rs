//! The port: a cluster with a cache of the objects that were read.

mod claim_mirror;
mod configuration;
mod nodes_and_pods;
mod planning_view;

use crate::connection::Connection;
use crate::kinds::{
    BoundPods, CapacityBuffers, CsiNodes, DaemonSets, DeviceClasses, DisruptionBudgets, Kind, LimitRanges, Namespaces,
    NodeClaims, NodeClasses, NodeOverlays, NodePools, Nodes, PersistentVolumeClaims, PersistentVolumes, Pods,
    ProvisioningRequests, ReplicaSets, ReplicationControllers, ResourceClaimTemplates, ResourceClaims, ResourceQuotas,
    ResourceSlices, Services, StatefulSets, StorageClasses,
};
use crate::recent::Recent;
use crate::store::{Store, decoded, list_once, list_selected, refuse_doubt, separate};
use crate::{api, buffers, deployments, events, node_classes, nodes, pods, requests};
use async_trait::async_trait;
use futures::{StreamExt as _, stream};
use kube::core::params::ListParams;
use nodeless_api::admission::Admission;
use nodeless_api::convert::volumes::Storage;
use nodeless_api::daemon_sets::ReadDaemonSet;
use nodeless_api::default_spread::{ObjectSelector, SchedulerConfig, Selectors};
use nodeless_api::devices::DeviceObjects;
use nodeless_api::slim::PersistentVolume;
use nodeless_api::{CapacityBufferStatus, ProvisioningRequestStatus};
use nodeless_model::{CapacityBuffer, DaemonSet, DaemonSetName, Node, PodDisruptionBudget, ProvisioningRequest};
use nodeless_ports::cluster::{
    ClusterView, DeploymentChange, FoundNodes, InvalidObject, ObjectEvent, OwningDeployment, PodRef, RaisedDeployment,
    SoughtNode,
};
use nodeless_ports::{ErrorKind, Events, PortError, Workloads};
use nodeless_telemetry::Context;
use std::collections::BTreeSet;
use std::time::Duration;
use tokio::sync::Mutex;

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

    /// Like [`current`](Self::current), but only [`confirm_view`](nodeless_ports::PlanningView::confirm_view) proves that the objects are current.
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
