//! A Kubernetes cluster, small: finalizers, evictions, a scheduler that binds pods.

use async_trait::async_trait;
use nodeless_api::{CapacityBufferStatus, EC2NodeClass, EC2NodeClassStatus, NodeOverlayStatus, NodePoolStatus};
use nodeless_model::claim::Condition;
use nodeless_model::node::{NodeCondition, provider_id};
use nodeless_model::object::{MirroredClaim, NodePatch, ObjectEvent, PodRef, VolumeAttachment};
use nodeless_model::pod::PodPhase;
use nodeless_model::{
    CapacityType, Instance, Node, NodeClaim, NodeOverlay, NodePool, Pod, PodDisruptionBudget, Quantity, ResourceList,
    Taint, labels,
};
use nodeless_ports::cluster::{BufferView, ClusterView, Eviction, InvalidObject, SoughtNode};
use nodeless_ports::{ClaimMirror, Configuration, ErrorKind, Events, NodesAndPods, PlanningView, PortError};
use nodeless_world::WorldClock;
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use tokio::sync::Barrier;

#[derive(Clone)]
pub struct TestCluster {
    state: Arc<Mutex<ClusterState>>,
    clock: WorldClock,
}

#[derive(Default)]
pub struct ClusterState {
    pub nodes: BTreeMap<String, Node>,
    pub pods: BTreeMap<String, Pod>,
    pub pools: Vec<NodePool>,
    pub classes: BTreeMap<String, EC2NodeClass>,
    pub mirrors: BTreeMap<String, MirroredClaim>,
    pub invalid: Vec<InvalidObject>,
    /// Annotations of the Namespace kube-system.
    pub annotations: BTreeMap<String, String>,
    pub events: Vec<ObjectEvent>,
    pub pool_statuses: BTreeMap<String, NodePoolStatus>,
    pub overlays: Vec<(NodeOverlay, NodeOverlayStatus)>,
    pub buffers: Vec<BufferView>,
    pub volume_faults: BTreeMap<String, String>,
    pub volumes: BTreeMap<String, Vec<nodeless_model::Requirements>>,
    /// How often the status of a NodePool was written.
    pub status_writes: usize,
    /// Pods that a budget protects.
    pub protected: BTreeSet<String>,
    /// The PodDisruptionBudgets as a plan reads them.
    pub budgets: Vec<PodDisruptionBudget>,
    /// Pods whose deletion a webhook refuses.
    pub held: BTreeSet<String>,
    /// Whether a controller makes a new pod for each one that is evicted.
    pub respawn: bool,
    /// Instances that never join.
    pub mute: BTreeSet<String>,
    /// Each read of the cluster waits here, until as many reads wait as the barrier needs.
    pub readers: Option<Arc<Barrier>>,
}

impl TestCluster {
    pub fn new(clock: WorldClock) -> Self {
        let state = ClusterState {
            pools: vec![node_pool("default")],
            classes: BTreeMap::from([("default".to_owned(), node_class("default"))]),
            ..ClusterState::default()
        };
        Self { state: Arc::new(Mutex::new(state)), clock }
    }

    pub fn lock(&self) -> MutexGuard<'_, ClusterState> {
        self.state.lock().unwrap()
    }

    pub fn add_pods(&self, pods: impl IntoIterator<Item = Pod>) {
        let now = self.clock.time();
        let named = pods.into_iter().map(|pod| (pod.key(), Pod { created: Some(now), ..pod }));
        self.lock().pods.extend(named);
    }

    pub fn remove_all_pods(&self) {
        self.lock().pods.clear();
    }

    pub fn bound(&self) -> usize {
        self.lock().pods.values().filter(|pod| pod.node_name.is_some()).count()
    }

    /// Instances that run join as nodes; nodes whose instance is gone stop being ready.
    pub fn join(&self, running: &[Instance]) {
        let now = self.clock.time();
        let mut state = self.lock();
        for instance in running {
            let name = format!("ip-{}.ec2.internal", instance.id);
            let known = state.nodes.values().any(|node| node.instance_id() == Some(instance.id.as_str()));
            if known || state.mute.contains(&instance.id) {
                continue;
            }
            let node = Node {
                name: name.clone(),
                uid: format!("uid-{}", instance.id),
                provider_id: Some(provider_id(&instance.zone, &instance.id)),
                taints: vec![Taint::unregistered()],
                labels: BTreeMap::from([
                    (labels::NODE_POOL.to_owned(), instance.tags[labels::NODE_POOL].clone()),
                    (labels::HOSTNAME.to_owned(), name.clone()),
                ]),
                capacity: resources(4000),
                allocatable: resources(3900),
                conditions: vec![NodeCondition { kind: "Ready".into(), status: Some(true), since: Some(now) }],
                created: Some(now),
                ..Node::default()
            };
            state.nodes.insert(name, node);
        }
        for node in state.nodes.values_mut() {
            let runs = running.iter().any(|instance| node.instance_id() == Some(instance.id.as_str()));
            for condition in node.conditions.iter_mut().filter(|condition| condition.kind == "Ready") {
                condition.status = Some(runs);
            }
        }
    }

    /// Binds pods to nodes that are ready, untainted and have room.
    pub fn bind(&self) {
        let now = self.clock.time();
        let mut state = self.lock();
        let nodes: Vec<Node> = state.nodes.values().cloned().collect();
        let waiting: Vec<String> = state.pods.values().filter(|pod| pod.node_name.is_none()).map(Pod::key).collect();
        for key in waiting {
            let place = nodes.iter().find(|node| {
                let mut left = node.allocatable.clone();
                for pod in state.pods.values().filter(|pod| pod.node_name.as_ref() == Some(&node.name)) {
                    left.subtract(&pod.requests);
                }
                node.is_ready() && node.taints.is_empty() && state.pods[&key].requests.fits(&left)
            });
            if let (Some(node), Some(pod)) = (place.map(|node| node.name.clone()), state.pods.get_mut(&key)) {
                pod.node_name = Some(node);
                pod.phase = PodPhase::Running;
                pod.marked_unschedulable = false;
                pod.start_time = Some(now);
            }
        }
    }
}

impl ClusterState {
    /// Takes a pod away, and returns whether it was there. Its controller may make another.
    fn remove(&mut self, key: &str) -> bool {
        let Some(removed) = self.pods.remove(key) else { return false };
        if self.respawn {
            let name = format!("{}-again", removed.name);
            let successor = Pod {
                uid: format!("uid-{name}"),
                name,
                node_name: None,
                phase: PodPhase::Pending,
                start_time: None,
                marked_unschedulable: true,
                ..removed
            };
            self.pods.insert(successor.key(), successor);
        }
        true
    }
}

fn resources(milli_cpu: i64) -> ResourceList {
    ResourceList::from([
        ("cpu", Quantity::from_milli(milli_cpu)),
        ("memory", Quantity::from_mebibytes(7000)),
        ("ephemeral-storage", Quantity::from_mebibytes(17_000)),
        ("pods", Quantity::from_units(29)),
    ])
}

pub fn node_pool(name: &str) -> NodePool {
    let object: nodeless_api::NodePool = serde_json::from_value(json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodePool",
        "metadata": { "name": name, "uid": format!("uid-{name}") },
        "spec": {
            "template": { "spec": {
                "nodeClassRef": { "group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default" },
                "expireAfter": "720h",
                "requirements": [{ "key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"] }],
            } },
            "disruption": { "consolidateAfter": "30s", "consolidationPolicy": "WhenEmpty", "budgets": [{ "nodes": "100%" }] },
            "limits": { "cpu": "100" },
        },
    }))
    .unwrap();
    NodePool::from(&object)
}

pub fn node_class(name: &str) -> EC2NodeClass {
    serde_json::from_value(json!({
        "apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass",
        "metadata": { "name": name, "generation": 1 },
        "spec": {
            "role": "node", "amiSelectorTerms": [{ "alias": "al2023@latest" }],
            "subnetSelectorTerms": [{ "tags": { "a": "b" } }], "securityGroupSelectorTerms": [{ "tags": { "a": "b" } }],
        },
        "status": {
            "subnets": [{ "id": "subnet-1", "zone": "us-east-1a", "zoneID": "use1-az1" }],
            "conditions": [{ "type": "Ready", "status": "True", "reason": "Ready", "message": "",
                "lastTransitionTime": "2026-01-01T00:00:00Z", "observedGeneration": 1 }],
        },
    }))
    .unwrap()
}

#[async_trait]
impl PlanningView for TestCluster {
    async fn view(&self) -> Result<ClusterView, PortError> {
        let readers = self.lock().readers.clone();
        if let Some(readers) = readers {
            readers.wait().await;
        }
        let state = self.lock();
        Ok(ClusterView {
            nodes: state.nodes.values().cloned().collect(),
            pods: state.pods.values().cloned().collect(),
            node_pools: state.pools.clone(),
            node_classes: state.classes.clone(),
            node_claims: state.mirrors.values().cloned().collect(),
            node_pool_statuses: state.pool_statuses.clone(),
            node_overlays: state.overlays.clone(),
            capacity_buffers: state.buffers.clone(),
            disruption_budgets: state.budgets.clone(),
            volumes: state.volumes.clone(),
            volume_faults: state.volume_faults.clone(),
            invalid: state.invalid.clone(),
            annotations: state.annotations.clone(),
            ..ClusterView::default()
        })
    }

    async fn wait_for_batch(&self, _idle: Duration, _max: Duration) -> Result<Duration, PortError> {
        Ok(Duration::ZERO)
    }
}

#[async_trait]
impl NodesAndPods for TestCluster {
    async fn nodes_of(&self, provider_id: &str, _name_hint: Option<&str>) -> Result<Vec<Node>, PortError> {
        let state = self.lock();
        let of = |node: &&Node| node.provider_id.as_deref() == Some(provider_id);
        Ok(state.nodes.values().filter(of).cloned().collect())
    }

    async fn nodes_of_all(&self, sought: &[SoughtNode]) -> Result<(Vec<Node>, Vec<InvalidObject>), PortError> {
        let state = self.lock();
        let of = |node: &&Node| sought.iter().any(|one| node.provider_id.as_ref() == Some(&one.provider_id));
        Ok((state.nodes.values().filter(of).cloned().collect(), Vec::new()))
    }

    async fn our_nodes(&self) -> Result<Vec<Node>, PortError> {
        let state = self.lock();
        let ours = |node: &&Node| node.node_pool().is_some();
        Ok(state.nodes.values().filter(ours).cloned().collect())
    }

    async fn pods_on(&self, node: &str) -> Result<Vec<Pod>, PortError> {
        let state = self.lock();
        let on = |pod: &&Pod| pod.node_name.as_deref() == Some(node);
        Ok(state.pods.values().filter(on).cloned().collect())
    }

    async fn volume_attachments(&self, _node: &str) -> Result<Vec<VolumeAttachment>, PortError> {
        Ok(Vec::new())
    }

    async fn patch_node(&self, name: &str, uid: &str, patch: &NodePatch) -> Result<(), PortError> {
        let mut state = self.lock();
        let Some(node) = state.nodes.get_mut(name).filter(|node| node.uid == uid) else {
            return Err(PortError::new(ErrorKind::NotFound, "Kubernetes patch Node", name));
        };
        patch.apply(node);
        if node.deletion_timestamp.is_some() && node.finalizers.is_empty() {
            state.nodes.remove(name);
        }
        Ok(())
    }

    async fn delete_node(&self, name: &str, uid: &str) -> Result<(), PortError> {
        let now = self.clock.time();
        let mut state = self.lock();
        let Some(node) = state.nodes.get_mut(name).filter(|node| node.uid == uid) else { return Ok(()) };
        if node.finalizers.is_empty() {
            state.nodes.remove(name);
        } else {
            node.deletion_timestamp.get_or_insert(now);
        }
        Ok(())
    }

    async fn evict(&self, pod: &PodRef) -> Result<Eviction, PortError> {
        let mut state = self.lock();
        let key = format!("{}/{}", pod.namespace, pod.name);
        if state.protected.contains(&key) {
            return Ok(Eviction::Blocked { message: "the budget allows none".into() });
        }
        Ok(if state.remove(&key) { Eviction::Accepted } else { Eviction::AlreadyGone })
    }

    async fn delete_pod(&self, pod: &PodRef, _grace_seconds: u32) -> Result<(), PortError> {
        let mut state = self.lock();
        let key = format!("{}/{}", pod.namespace, pod.name);
        if state.held.contains(&key) {
            return Err(PortError::new(ErrorKind::Denied, "Kubernetes delete Pod", "a webhook forbids it"));
        }
        state.remove(&key);
        Ok(())
    }
}

#[async_trait]
impl Configuration for TestCluster {
    async fn node_class(&self, name: &str) -> Result<Option<EC2NodeClass>, PortError> {
        let state = self.lock();
        Ok(state.classes.get(name).cloned())
    }

    async fn node_classes(&self) -> Result<(Vec<EC2NodeClass>, Vec<InvalidObject>), PortError> {
        let state = self.lock();
        Ok((state.classes.values().cloned().collect(), Vec::new()))
    }

    async fn node_pool(&self, name: &str) -> Result<Option<NodePool>, PortError> {
        let state = self.lock();
        if let Some(faulty) = state.invalid.iter().find(|object| object.kind == "NodePool" && object.name == name) {
            return Err(PortError::new(ErrorKind::Invalid, "Kubernetes get NodePool", faulty.message.clone()));
        }
        let found = state.pools.iter().find(|pool| pool.name == name).cloned();
        Ok(found)
    }

    async fn node_pools(&self) -> Result<(Vec<NodePool>, Vec<InvalidObject>), PortError> {
        let state = self.lock();
        let invalid = || state.invalid.iter().filter(|object| object.kind == "NodePool").cloned().collect();
        Ok((state.pools.clone(), invalid()))
    }

    async fn node_overlays(&self) -> Result<Vec<(NodeOverlay, NodeOverlayStatus)>, PortError> {
        let state = self.lock();
        Ok(state.overlays.clone())
    }

    async fn write_node_pool_status(&self, name: &str, status: &NodePoolStatus) -> Result<(), PortError> {
        let mut state = self.lock();
        state.pool_statuses.insert(name.to_owned(), status.clone());
        state.status_writes += 1;
        Ok(())
    }

    async fn write_node_overlay_status(&self, name: &str, status: &NodeOverlayStatus) -> Result<(), PortError> {
        let mut state = self.lock();
        let overlays = state.overlays.iter_mut().filter(|(overlay, _)| overlay.name == name);
        overlays.for_each(|(_, present)| present.clone_from(status));
        Ok(())
    }

    async fn write_capacity_buffer_status(
        &self,
        namespace: &str,
        name: &str,
        status: &CapacityBufferStatus,
    ) -> Result<(), PortError> {
        let mut state = self.lock();
        let is_meant = |view: &&mut BufferView| view.buffer.namespace == namespace && view.buffer.name == name;
        state.buffers.iter_mut().filter(is_meant).for_each(|view| view.status = status.clone());
        Ok(())
    }

    async fn write_node_class_status(&self, name: &str, status: &EC2NodeClassStatus) -> Result<(), PortError> {
        if let Some(class) = self.lock().classes.get_mut(name) {
            class.status = Some(status.clone());
        }
        Ok(())
    }

    async fn release_node_class(&self, name: &str) -> Result<(), PortError> {
        self.lock().classes.remove(name);
        Ok(())
    }
}

#[async_trait]
impl ClaimMirror for TestCluster {
    async fn mirrored_claims(&self) -> Result<Vec<MirroredClaim>, PortError> {
        let state = self.lock();
        Ok(state.mirrors.values().cloned().collect())
    }

    async fn mirrored_claim(&self, name: &str) -> Result<Option<MirroredClaim>, PortError> {
        let state = self.lock();
        Ok(state.mirrors.get(name).cloned())
    }

    async fn mirrors_of(&self, names: &[String]) -> Result<(Vec<MirroredClaim>, Vec<InvalidObject>), PortError> {
        let state = self.lock();
        Ok((names.iter().filter_map(|name| state.mirrors.get(name).cloned()).collect(), Vec::new()))
    }

    async fn mirror_claim(&self, claim: &NodeClaim) -> Result<String, PortError> {
        let now = self.clock.time();
        let mut state = self.lock();
        let uid = format!("uid-{}", claim.name);
        let mirror = state.mirrors.entry(claim.name.clone()).or_insert_with(|| MirroredClaim {
            name: claim.name.clone(),
            uid: uid.clone(),
            finalizers: vec![labels::TERMINATION_FINALIZER.to_owned()],
            record_uid: Some(claim.uid.clone()),
            node_pool: Some(claim.node_pool.clone()),
            owner: Some(format!("uid-{}", claim.node_pool)),
            created: Some(now),
            ..MirroredClaim::default()
        });
        mirror.provider_id = claim.provider_id();
        mirror.capacity_type =
            claim.node_labels().get(labels::CAPACITY_TYPE).and_then(|value| CapacityType::from_label(value));
        let shown = |one: &Condition| (one.kind.clone(), (one.status.as_str().to_owned(), one.reason.clone()));
        mirror.conditions = claim.status.conditions.iter().map(shown).collect();
        Ok(uid)
    }

    async fn remove_claim(&self, name: &str) -> Result<(), PortError> {
        self.lock().mirrors.remove(name);
        Ok(())
    }
}

#[async_trait]
impl Events for TestCluster {
    async fn publish(&self, events: &[ObjectEvent]) -> Result<(), PortError> {
        self.lock().events.extend(events.iter().cloned());
        Ok(())
    }
}
