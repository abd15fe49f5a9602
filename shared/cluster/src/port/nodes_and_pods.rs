//! Nodes and pods.

use crate::kinds::{BoundPods, DeviceClasses, Nodes, Pods, ResourceSlices};
use crate::object_cluster::ObjectCluster;
use crate::objects::{Encoded, Objects, Selector, decoded, refuse_doubt, separate};
use crate::{nodes, pods};
use async_trait::async_trait;
use futures::future::join_all;
use nodeless_api::devices::DeviceObjects;
use nodeless_model::{Node, Pod, ResourceList, labels};
use nodeless_ports::cluster::{
    Eviction, FoundNodes, NodePatch, PodRef, STANDALONE_NODES, SoughtNode, UnboundPod, VolumeAttachment,
};
use nodeless_ports::{ErrorKind, NodesAndPods, PortError};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Up to this number, nodes are read by their names; more are read with one list.
const FEW_NODES: usize = 3;

/// Up to this number of nodes, their pods are listed node by node. With more, lists each second would be most requests to the API server,
/// so all bound pods are read once, and then only what changes.
const FEW_DRAINED: usize = 8;

/// The nodes that are not initialized. Nodes of managed node groups never are.
const NOT_INITIALIZED: &str = "karpenter.sh/initialized!=true,!eks.amazonaws.com/nodegroup";

#[async_trait]
impl<O: Objects> NodesAndPods for ObjectCluster<O> {
    async fn nodes_of(&self, provider_id: &str, name_hint: Option<&str>) -> Result<Vec<Node>, PortError> {
        if let Some(name) = name_hint {
            let hit = self.node_named(name, provider_id).await?;
            if !hit.is_empty() {
                return Ok(hit);
            }
        }
        let current = self.objects.current_selected::<Nodes, _, _>(&self.context, |_, node| {
            (node.provider_id.as_deref() == Some(provider_id)).then(|| node.clone())
        });
        let (found, invalid) = current.await?;
        refuse_doubt(found.is_empty(), &invalid)?;
        Ok(found)
    }

    async fn node(&self, name: &str) -> Result<Option<Node>, PortError> {
        self.get_one::<Nodes>(name).await
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
                let found = match &node.name {
                    Some(name) => self.node_named(name, &node.provider_id).await?,
                    None => Vec::new(),
                };
                if found.is_empty() {
                    left.push(node);
                }
                nodes.extend(found);
            }
        }
        if !left.is_empty() {
            let ids: BTreeSet<&str> = left.iter().map(|node| node.provider_id.as_str()).collect();
            let current = self.objects.current_selected::<Nodes, _, _>(&self.context, |version, node| {
                let is_sought = node.provider_id.as_deref().is_some_and(|id| ids.contains(id));
                is_sought.then(|| (version.to_owned(), node.clone()))
            });
            let (found, undecoded) = current.await?;
            for (version, node) in found {
                if let Some(listed) = nodes::listed(&node, &version) {
                    self.recent.keep_node(&nodes::listed_path(&node.name), Arc::new(listed), self.now());
                }
                nodes.push(node);
            }
            invalid.extend(undecoded);
        }
        Ok(FoundNodes { nodes, invalid, joining_listed })
    }

    async fn labelled_nodes(&self) -> Result<Vec<Node>, PortError> {
        let ((mut nodes, mut invalid), (standalone, faulty)) = futures::try_join!(
            self.objects.list::<Nodes>(Selector::labels(labels::NODE_POOL)),
            self.objects.list::<Nodes>(Selector::labels(STANDALONE_NODES)),
        )?;
        nodes.extend(standalone);
        invalid.extend(faulty);
        refuse_doubt(true, &invalid)?;
        Ok(nodes)
    }

    async fn pods_on(&self, node: &str) -> Result<Vec<Pod>, PortError> {
        let fields = format!("spec.nodeName={node}");
        let (pods, invalid) = self.objects.list::<Pods>(Selector::fields(&fields)).await?;
        refuse_doubt(true, &invalid)?;
        Ok(pods.into_iter().map(Arc::unwrap_or_clone).collect())
    }

    async fn pods_on_each(&self, nodes: &BTreeSet<String>) -> BTreeMap<String, Result<Vec<Pod>, PortError>> {
        if nodes.len() <= FEW_DRAINED {
            let reads = nodes.iter().map(|node| async move { (node.clone(), self.pods_on(node).await) });
            return join_all(reads).await.into_iter().collect();
        }
        match self.objects.current::<BoundPods>(&self.context).await {
            Ok((pods, invalid)) => pods::by_node(nodes, pods, &invalid),
            Err(error) => nodes.iter().map(|node| (node.clone(), Err(error.clone()))).collect(),
        }
    }

    async fn volume_attachments(&self, nodes: &BTreeSet<String>) -> Result<Vec<VolumeAttachment>, PortError> {
        self.attachments(nodes).await
    }

    async fn device_resources(&self, node: &Node, requested: &BTreeSet<&str>) -> Result<ResourceList, PortError> {
        let (classes, invalid) = match self.objects.list::<DeviceClasses>(Selector::default()).await {
            // The API server does not have the kind.
            Err(error) if error.kind == ErrorKind::NotFound => return Ok(ResourceList::new()),
            listed => listed?,
        };
        refuse_doubt(true, &invalid)?;
        if classes.is_empty() {
            return Ok(ResourceList::new());
        }
        let of_node = format!("spec.nodeName={}", node.name);
        let (slices, invalid) = self.objects.list::<ResourceSlices>(Selector::fields(&of_node)).await?;
        refuse_doubt(true, &invalid)?;
        Ok(DeviceObjects { slices, classes, ..DeviceObjects::default() }.resources_of(node, requested))
    }

    async fn volumes_of(&self, pod: &Pod) -> Result<Vec<String>, PortError> {
        self.mounted_volumes(pod).await
    }

    async fn patch_node(&self, name: &str, uid: &str, patch: &NodePatch) -> Result<(), PortError> {
        self.change_node(name, uid, patch).await
    }

    async fn delete_node(&self, name: &str, uid: &str) -> Result<(), PortError> {
        self.remove_node(name, uid).await
    }

    async fn evict(&self, pod: &PodRef) -> Result<Eviction, PortError> {
        self.request_eviction(pod).await
    }

    async fn unbound_pods(&self) -> Result<Vec<UnboundPod>, PortError> {
        self.pods_to_bind().await
    }

    async fn nominate(&self, pod: &UnboundPod, node: &str) -> Result<(), PortError> {
        self.write_nomination(pod, node).await
    }

    async fn delete_pod(&self, pod: &PodRef, grace_seconds: u32) -> Result<(), PortError> {
        self.remove_pod(pod, grace_seconds).await
    }
}

impl<O: Objects> ObjectCluster<O> {
    /// The nodes of instances whose nodes have not been initialized. Only nodes that are not initialized are listed, and they are
    /// cached for the changes that follow.
    async fn joining_nodes(&self, sought: &[&SoughtNode]) -> Result<FoundNodes, PortError> {
        if sought.is_empty() {
            return Ok(FoundNodes::default());
        }
        let mut joining_listed = 0;
        let ids: BTreeSet<&str> = sought.iter().map(|node| node.provider_id.as_str()).collect();
        let listed = self.objects.list_selected::<Nodes, _, _>(Selector::labels(NOT_INITIALIZED), |object| {
            joining_listed += 1;
            // Most of them are of other claims.
            if object.provider_id().is_some_and(|id| !ids.contains(id.as_ref())) {
                return None;
            }
            match decoded::<Nodes>(object) {
                Ok(node) if node.provider_id.as_deref().is_some_and(|id| ids.contains(id)) => {
                    self.keep_listed(&node, object);
                    Some(Ok(node))
                }
                Ok(_) => None,
                Err(object) => Some(Err(object)),
            }
        });
        let (nodes, invalid) = separate(listed.await?);
        Ok(FoundNodes { nodes, invalid, joining_listed })
    }

    fn keep_listed(&self, node: &Node, object: Encoded<'_>) {
        let value = match object {
            Encoded::Text(_) => object.decode().ok().map(Arc::new),
            Encoded::Value(value) => Some(value.clone()),
        };
        if let Some(value) = value {
            self.recent.keep_node(&nodes::at(&node.name).url(), value, self.now());
        }
    }

    /// The node of an instance by the name that it had when it joined.
    async fn node_named(&self, name: &str, provider_id: &str) -> Result<Vec<Node>, PortError> {
        let fields = format!("metadata.name={name}");
        let (mut nodes, _) = self.objects.list::<Nodes>(Selector::fields(&fields)).await?;
        nodes.retain(|node| node.provider_id.as_deref() == Some(provider_id));
        Ok(nodes)
    }
}
