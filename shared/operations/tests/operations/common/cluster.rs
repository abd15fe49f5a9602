//! The cluster of the simulated world, with what tests do to it and read of it.

use super::{CLUSTER, START, TestCloud, node_class, node_pool, pod};
use futures::FutureExt as _;
use jiff::SignedDuration;
use nodeless_api::{EC2NodeClass, NodePoolStatus};
use nodeless_fake_kubernetes::resource::{
    EVENTS, NAMESPACES, NODES, POD_DISRUPTION_BUDGETS, PODS, REPLICA_SETS, Resource,
};
use nodeless_fake_kubernetes::{
    ApiServer, CreateOptions, DeleteOptions, ListOptions, PatchOptions, PatchType, UpdateOptions,
};
use nodeless_model::object::{EventType, MirroredClaim, ObjectEvent, ObjectRef};
use nodeless_model::{Node, NodePool, Pod, labels};
use nodeless_ports::cluster::ClusterView;
use nodeless_ports::{CatalogSource as _, Configuration as _, PlanningView as _};
use nodeless_world::ports::{MemoryCluster, memory_cluster};
use nodeless_world::resources::{NODE_CLAIMS, NODE_CLASSES, NODE_POOLS};
use nodeless_world::{JoinTiming, World, WorldOptions};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

/// The cluster of a test: an API server with its controllers, a scheduler and kubelets.
#[derive(Clone)]
pub struct TestCluster {
    world: Arc<Mutex<World>>,
    pub api: ApiServer,
    /// The Cluster port on this API server.
    pub port: MemoryCluster,
}

impl TestCluster {
    /// An empty cluster. Machines that run join without delay.
    pub fn new() -> Self {
        let options = WorldOptions {
            start: START,
            cluster_name: CLUSTER.to_owned(),
            families: vec!["m6i".to_owned(), "c6i".to_owned()],
            join: JoinTiming {
                registers_after: SignedDuration::ZERO,
                ready_after: SignedDuration::ZERO,
                spread: SignedDuration::ZERO,
                restarted: (SignedDuration::ZERO, SignedDuration::ZERO),
            },
            ..WorldOptions::default()
        };
        let world = World::new(options).unwrap();
        let api = world.api().clone();
        let port = memory_cluster(&api, world.clock().clone());
        Self { world: Arc::new(Mutex::new(world)), api, port }
    }

    pub fn world(&self) -> MutexGuard<'_, World> {
        self.world.lock().unwrap()
    }

    /// Creates the EC2NodeClass `default` with the status that its spec resolves to in the account, and the NodePool `default`.
    pub async fn configure(&self, cloud: &TestCloud) {
        let object = node_class("default", &cloud.subnet("us-east-1a"));
        self.create(&NODE_CLASSES, object);
        let class = self.node_class();
        let mut status = cloud.source().resolve(&class).await.unwrap();
        status.conditions = serde_json::from_value(json!([{
            "type": "Ready", "status": "True", "reason": "Ready", "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z", "observedGeneration": 1,
        }]))
        .unwrap();
        self.port.write_node_class_status("default", &status, None).await.unwrap();
        self.create(&NODE_POOLS, node_pool("default"));
    }

    /// The controllers, the scheduler, the kubelets and EC2 do what is due now.
    pub fn converge(&self) {
        self.world().converge().unwrap();
    }

    /// Time passes for the cluster and for EC2.
    pub fn advance(&self, time: Duration) {
        let mut world = self.world();
        let target = world.now().checked_add(time).unwrap();
        world.advance_to(target).unwrap();
    }

    /// Creates an object, in the namespace `default` if its kind has namespaces.
    pub fn create(&self, resource: &Resource, object: Value) {
        let mut object = object;
        object["apiVersion"] = json!(resource.api_version());
        object["kind"] = json!(resource.kind);
        if resource.namespaced && object["metadata"]["namespace"].is_null() {
            object["metadata"]["namespace"] = json!("default");
        }
        self.api.create(resource, object, &CreateOptions::default()).unwrap();
    }

    pub fn get(&self, resource: &Resource, name: &str) -> Value {
        self.api.get(resource, namespace(resource), name).unwrap().as_ref().clone()
    }

    pub fn list(&self, resource: &Resource) -> Vec<Arc<Value>> {
        self.api.list(resource, &ListOptions::default()).unwrap().items
    }

    /// Changes an object by a merge patch, as `kubectl patch --type merge` does.
    pub fn patch(&self, resource: &Resource, name: &str, patch: Value) {
        self.patched(resource, name, None, &patch);
    }

    /// Changes the status of an object by a merge patch.
    pub fn patch_status(&self, resource: &Resource, name: &str, status: Value) {
        self.patched(resource, name, Some("status"), &json!({ "status": status }));
    }

    fn patched(&self, resource: &Resource, name: &str, subresource: Option<&str>, patch: &Value) {
        let options = PatchOptions::default();
        self.api.patch(resource, namespace(resource), name, subresource, PatchType::Merge, patch, &options).unwrap();
    }

    /// Changes the status of an object.
    pub fn change_status(&self, resource: &Resource, name: &str, change: impl FnOnce(&mut Value)) {
        let mut object = self.get(resource, name);
        change(&mut object["status"]);
        self.api.update_status(resource, object, &UpdateOptions::default()).unwrap();
    }

    /// Adds a condition to the status of an object.
    pub fn add_condition(&self, resource: &Resource, name: &str, condition: Value) {
        self.change_status(resource, name, |status| status["conditions"].as_array_mut().unwrap().push(condition));
    }

    /// Deletes an object as `kubectl delete` does: its finalizers hold it, and a pod has its grace period.
    pub fn delete(&self, resource: &Resource, name: &str) {
        self.api.delete(resource, namespace(resource), name, &DeleteOptions::default()).unwrap();
    }

    /// Changes the NodePool `default` by a merge patch.
    pub fn patch_node_pool(&self, patch: Value) {
        self.patch(&NODE_POOLS, "default", patch);
    }

    /// Annotates the NodePool `default`.
    pub fn annotate_node_pool(&self, key: &str, value: &str) {
        self.patch_node_pool(json!({ "metadata": { "annotations": { key: value } } }));
    }

    /// Sets an annotation of the Namespace kube-system, or removes it.
    pub fn annotate_cluster(&self, key: &str, value: Option<&str>) {
        self.patch(&NAMESPACES, "kube-system", json!({ "metadata": { "annotations": { key: value } } }));
    }

    /// Creates pods that no controller owns, and lets the scheduler look at them.
    pub fn add_pods(&self, pods: impl IntoIterator<Item = Value>) {
        pods.into_iter().for_each(|pod| self.create(&PODS, pod));
        self.converge();
    }

    /// Creates a ReplicaSet of one for each of these pods.
    pub fn add_replica_sets(&self, pods: impl IntoIterator<Item = Value>) {
        for pod in pods {
            let labels = &pod["metadata"]["labels"];
            let set = json!({
                "metadata": { "name": pod["metadata"]["name"] },
                "spec": { "replicas": 1, "selector": { "matchLabels": labels },
                    "template": { "metadata": { "labels": labels }, "spec": pod["spec"] } },
            });
            self.create(&REPLICA_SETS, set);
        }
        self.converge();
    }

    /// The pods of all ReplicaSets get other requests: one after the other is replaced by one that needs so much, in its place.
    pub fn replace_pods(&self, milli_cpu: i64) {
        for set in self.list(&REPLICA_SETS) {
            self.replace_pod(set["metadata"]["name"].as_str().unwrap(), milli_cpu);
        }
    }

    /// The pod of a ReplicaSet is replaced by one that needs so much.
    pub fn replace_pod(&self, set: &str, milli_cpu: i64) {
        let containers = &pod(set, milli_cpu)["spec"]["containers"];
        self.patch(&REPLICA_SETS, set, json!({ "spec": { "template": { "spec": { "containers": containers } } } }));
        self.remove_pod(&self.pod_of(set).name);
        self.advance(Duration::from_secs(2));
    }

    /// A pod is gone at once. Its ReplicaSet, if it has one, creates another.
    pub fn remove_pod(&self, name: &str) {
        let options = DeleteOptions { grace_period_seconds: Some(0), ..DeleteOptions::default() };
        self.api.delete(&PODS, "default", name, &options).unwrap();
        self.converge();
    }

    /// All pods are gone at once, and their ReplicaSets.
    pub fn remove_all_pods(&self) {
        self.list(&REPLICA_SETS).iter().for_each(|set| self.delete(&REPLICA_SETS, name(set)));
        let options = DeleteOptions { grace_period_seconds: Some(0), ..DeleteOptions::default() };
        for pod in self.list(&PODS) {
            self.api.delete(&PODS, "default", name(&pod), &options).unwrap();
        }
        self.converge();
    }

    /// No pod with this label `app` may be evicted: its PodDisruptionBudget allows none.
    pub fn protect(&self, app: &str) {
        let spec = json!({ "minAvailable": 1, "selector": { "matchLabels": { "app": app } } });
        self.create(&POD_DISRUPTION_BUDGETS, json!({ "metadata": { "name": app }, "spec": spec }));
        self.converge();
    }

    /// Deletes all PodDisruptionBudgets.
    pub fn end_protection(&self) {
        let budgets = self.list(&POD_DISRUPTION_BUDGETS);
        budgets.iter().for_each(|budget| self.delete(&POD_DISRUPTION_BUDGETS, name(budget)));
    }

    /// A person deletes a NodeClaim.
    pub fn delete_node_claim(&self, name: &str) {
        self.delete(&NODE_CLAIMS, name);
    }

    /// A NodeClaim object is one of Karpenter's: no record of ours is named on it.
    pub fn give_to_karpenter(&self, name: &str) {
        self.patch(&NODE_CLAIMS, name, json!({ "metadata": { "annotations": { labels::RECORD_UID: null } } }));
    }

    /// A machine that has not joined does so now.
    pub fn join_late(&self, instance_id: &str) {
        self.world().join_late(instance_id);
        self.converge();
    }

    /// What a plan reads.
    pub fn view(&self) -> ClusterView {
        self.port.view().now_or_never().unwrap().unwrap()
    }

    pub fn nodes(&self) -> BTreeMap<String, Node> {
        self.view().nodes.into_iter().map(|node| (node.name.clone(), node)).collect()
    }

    /// The pods by namespace and name.
    pub fn pods(&self) -> BTreeMap<String, Pod> {
        self.view().pods().map(|pod| (pod.key(), pod.clone())).collect()
    }

    /// The pod with this label `app`.
    pub fn pod_of(&self, app: &str) -> Pod {
        let of = |pod: &&Pod| pod.template.labels.get("app").is_some_and(|label| label == app) && !pod.is_terminating();
        self.view().pods().find(of).unwrap().clone()
    }

    /// The NodeClaim objects.
    pub fn node_claims(&self) -> BTreeMap<String, MirroredClaim> {
        self.view().node_claims.into_iter().map(|claim| (claim.name.clone(), claim)).collect()
    }

    /// The NodePool `default`.
    pub fn node_pool(&self) -> NodePool {
        self.view().node_pools.into_iter().find(|pool| pool.name == "default").unwrap()
    }

    pub fn node_pool_status(&self, name: &str) -> NodePoolStatus {
        self.view().node_pool_statuses.remove(name).unwrap()
    }

    /// The EC2NodeClass `default`.
    pub fn node_class(&self) -> EC2NodeClass {
        serde_json::from_value(self.get(&NODE_CLASSES, "default")).unwrap()
    }

    /// How many pods have a node and stay there.
    pub fn bound(&self) -> usize {
        self.view().pods.iter().filter(|pod| pod.node_name.is_some() && !pod.is_terminating()).count()
    }

    /// The Events that nodeless published, the oldest first, with each repetition.
    pub fn events(&self) -> Vec<ObjectEvent> {
        let mut events = self.list(&EVENTS);
        events.retain(|event| event["source"]["component"] == "nodeless");
        let version =
            |event: &Arc<Value>| event["metadata"]["resourceVersion"].as_str().unwrap().parse::<u64>().unwrap();
        events.sort_by_key(version);
        let times = |event: &Value| usize::try_from(event["count"].as_u64().unwrap()).unwrap();
        events.iter().flat_map(|event| std::iter::repeat_n(published(event), times(event))).collect()
    }

    pub fn events_of(&self, reason: &str) -> Vec<ObjectEvent> {
        self.events().into_iter().filter(|event| event.reason == reason).collect()
    }

    /// Deletes all Events, as the API server does after an hour.
    pub fn forget_events(&self) {
        for event in self.list(&EVENTS) {
            let place = event["metadata"]["namespace"].as_str().unwrap();
            self.api.delete(&EVENTS, place, name(&event), &DeleteOptions::default()).unwrap();
        }
    }

    /// Changes the status of each node.
    pub fn change_node_statuses(&self, change: impl Fn(&mut Value)) {
        self.nodes().keys().for_each(|node| self.change_status(&NODES, node, &change));
    }
}

fn published(event: &Value) -> ObjectEvent {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let about = &event["involvedObject"];
    ObjectEvent {
        object: ObjectRef {
            api_version: text(&about["apiVersion"]),
            kind: text(&about["kind"]),
            namespace: text(&about["namespace"]),
            name: text(&about["name"]),
            uid: text(&about["uid"]),
        },
        event_type: if event["type"] == "Warning" { EventType::Warning } else { EventType::Normal },
        reason: text(&event["reason"]),
        message: text(&event["message"]),
        dedupe_values: Vec::new(),
        dedupe_timeout: Duration::ZERO,
    }
}

fn name(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap()
}

fn namespace(resource: &Resource) -> &'static str {
    if resource.namespaced { "default" } else { "" }
}
