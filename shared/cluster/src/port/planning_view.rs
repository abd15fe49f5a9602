//! The view of a plan.

use crate::kinds::{
    CapacityBuffers, CreatingDeployments, CreatingJobs, CreatingStatefulSets, CsiNodes, DaemonSets, DeviceClasses,
    DisruptionBudgets, Kind, LimitRanges, Namespaces, NodeClaims, NodeClasses, NodeOverlays, NodePools, Nodes,
    PersistentVolumeClaims, PersistentVolumes, Pods, ProvisioningRequests, ReplicaSets, ReplicationControllers,
    ResourceClaimTemplates, ResourceClaims, ResourceQuotas, ResourceSlices, Services, StatefulSets, StorageClasses,
};
use crate::object_cluster::ObjectCluster;
use crate::objects::{Listed, Objects};
use crate::pods_to_come::{buffers, requests};
use async_trait::async_trait;
use nodeless_api::admission::Admission;
use nodeless_api::convert::volumes::Storage;
use nodeless_api::daemon_sets::ReadDaemonSet;
use nodeless_api::default_spread::{ObjectSelector, Selectors};
use nodeless_api::devices::DeviceObjects;
use nodeless_api::managed::Owned;
use nodeless_api::slim::PersistentVolume;
use nodeless_api::{CapacityBufferStatus, EC2NodeClass, NodePoolStatus, ProvisioningRequestStatus, hash};
use nodeless_model::{CapacityBuffer, ClusterOptions, NodePool, ProvisioningRequest};
use nodeless_ports::cluster::{BatchWindow, ClusterView, InvalidObject, SYSTEM_NAMESPACE};
use nodeless_ports::{ErrorKind, PlanningView, PortError};
use std::collections::BTreeSet;

#[async_trait]
impl<O: Objects> PlanningView for ObjectCluster<O> {
    async fn view(&self) -> Result<ClusterView, PortError> {
        self.objects.begin_view();
        let (nodes, pods, volumes, daemon_sets, budgets, pools, classes, claims, overlays, buffers, asked, system) = futures::try_join!(
            self.latest::<Nodes>(),
            self.latest::<Pods>(),
            self.latest::<PersistentVolumes>(),
            self.latest::<DaemonSets>(),
            self.latest::<DisruptionBudgets>(),
            self.latest::<NodePools>(),
            self.latest::<NodeClasses>(),
            self.latest::<NodeClaims>(),
            self.latest_if_known::<NodeOverlays>(),
            self.latest_if_known::<CapacityBuffers>(),
            self.latest_if_known::<ProvisioningRequests>(),
            self.get_one::<Namespaces>(SYSTEM_NAMESPACE),
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

    async fn read_pod_controllers(&self, view: &mut ClusterView) -> Result<(), PortError> {
        let listed = futures::try_join!(
            self.latest::<CreatingDeployments>(),
            self.latest::<CreatingStatefulSets>(),
            self.latest::<CreatingJobs>(),
            self.latest::<LimitRanges>(),
            self.latest::<ResourceQuotas>(),
        );
        if listed.is_err() {
            // LimitRanges and ResourceQuotas may be in the view for other pods.
            self.objects.leave_out::<CreatingDeployments>();
            self.objects.leave_out::<CreatingStatefulSets>();
            self.objects.leave_out::<CreatingJobs>();
        }
        let (deployments, stateful_sets, jobs, ranges, quotas) = listed?;
        let read = deployments.0.iter().chain(&stateful_sets.0).chain(&jobs.0);
        view.set_pod_controllers(read, &Admission::from(ranges.0));
        if view.resource_quotas.is_empty() {
            view.resource_quotas = quotas.0;
            view.invalid.extend(quotas.1);
        }
        Ok(())
    }

    async fn confirm_view(&self) -> Result<(), PortError> {
        self.objects.confirm().await
    }

    async fn wait_for_batch(&self, window: BatchWindow) -> Result<BTreeSet<String>, PortError> {
        self.objects.wait_for_batch(&self.context, window).await
    }
}

impl<O: Objects> ObjectCluster<O> {
    /// The objects of a kind, of which only [`confirm_view`](PlanningView::confirm_view) proves that they are current.
    async fn latest<K: Kind>(&self) -> Result<Listed<K>, PortError> {
        self.objects.latest::<K>(&self.context).await
    }

    /// Like [`latest`](Self::latest), for an optional kind: empty if its CRD is not installed.
    async fn latest_if_known<K: Kind>(&self) -> Result<Listed<K>, PortError> {
        match self.latest::<K>().await {
            Err(error) if error.kind == ErrorKind::NotFound => Ok((Vec::new(), Vec::new())),
            read => read,
        }
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
        let (ranges, quotas) = futures::try_join!(self.latest::<LimitRanges>(), self.latest::<ResourceQuotas>())?;
        view.invalid.extend(ranges.1.into_iter().chain(quotas.1));
        view.resource_quotas = quotas.0;
        let admission = Admission::from(ranges.0);
        view.set_first_pods(&without_pod, daemon_sets, &admission);
        if has_virtual_pods {
            view.capacity_buffers = buffers::shapes(&self.objects, buffers, &admission).await?;
            view.provisioning_requests = requests::templates(&self.objects, requests, &admission).await?;
        }
        Ok(())
    }

    /// The topology of volumes, if it is needed.
    async fn read_volumes(&self, view: &mut ClusterView, volumes: &[PersistentVolume]) -> Result<(), PortError> {
        if !view.needs_volumes(volumes) {
            return Ok(());
        }
        let (claims, classes, nodes) = futures::try_join!(
            self.latest::<PersistentVolumeClaims>(),
            self.latest::<StorageClasses>(),
            self.latest::<CsiNodes>(),
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
            self.latest_if_known::<ResourceSlices>(),
            self.latest_if_known::<DeviceClasses>(),
            self.latest_if_known::<ResourceClaims>(),
            self.latest_if_known::<ResourceClaimTemplates>(),
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
            self.selectors::<Services>(),
            self.selectors::<ReplicationControllers>(),
            self.selectors::<ReplicaSets>(),
            self.selectors::<StatefulSets>(),
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
    ) -> Result<(&'static str, Vec<ObjectSelector>, Vec<InvalidObject>), PortError> {
        let (objects, invalid) = self.latest::<K>().await?;
        Ok((K::NAME, objects, invalid))
    }

    /// The labels of namespaces, if any pod selects by them.
    async fn read_namespaces(&self, view: &mut ClusterView) -> Result<(), PortError> {
        if view.selects_namespaces() {
            let (namespaces, invalid) = self.latest::<Namespaces>().await?;
            let labels = namespaces.into_iter().map(|namespace| namespace.metadata);
            view.namespaces = labels.map(|it| (it.name.unwrap_or_default(), it.labels.unwrap_or_default())).collect();
            view.invalid.extend(invalid);
        }
        Ok(())
    }
}
