//! Nodes and pods.

use super::{FEW_DRAINED, FEW_NODES, KubeCluster};
use crate::kinds::{Nodes, Pods};
use crate::store::{list_once, refuse_doubt};
use crate::{node_classes, nodes, pods};
use async_trait::async_trait;
use futures::future::join_all;
use kube::core::params::ListParams;
use nodeless_model::{Node, Pod, ResourceList, labels};
use nodeless_ports::cluster::{
    Eviction, FoundNodes, NodePatch, PodRef, STANDALONE_NODES, SoughtNode, UnboundPod, VolumeAttachment,
};
use nodeless_ports::{NodesAndPods, PortError};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

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
