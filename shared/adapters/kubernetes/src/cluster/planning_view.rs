//! The view of a plan.

use super::{KubeCluster, Part, REOPEN};
use crate::kinds::Namespaces;
use crate::node_classes;
use crate::store::next;
use crate::watch::WatchError;
use async_trait::async_trait;
use futures::future::join_all;
use nodeless_api::managed::Owned;
use nodeless_api::{EC2NodeClass, NodePoolStatus, hash};
use nodeless_model::{ClusterOptions, NodePool, Pod};
use nodeless_ports::cluster::{BatchWindow, ClusterView, PodBatch, SYSTEM_NAMESPACE};
use nodeless_ports::{ErrorKind, PlanningView, PortError};
use std::collections::BTreeSet;
use std::sync::Arc;
use tokio::time::{Instant, timeout_at};

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
