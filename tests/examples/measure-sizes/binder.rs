//! A scheduler that binds a fixed number of pods to each node. It replaces the simulated kube-scheduler, which compares each pod with
//! each node again when anything changes, so that large sizes measure the functions and not the simulation. For the same reason it reads
//! what has changed, and counts the pods for the measurement.

use nodeless_fake_kubernetes::{ApiServer, Change, ChangeKind, ListOptions, Resource, UpdateOptions, resource};
use nodeless_tests::stage::Stage;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The `schedulerName` of the pods.
pub(crate) const NAME: &str = "measure-sizes";
const LOOK: Duration = Duration::from_millis(200);

/// The pods of the measurement, which are in the namespace `default`, and the nodes. Clones share one state.
#[derive(Clone)]
pub(crate) struct Binder {
    api: ApiServer,
    cluster: Arc<Mutex<Cluster>>,
}

/// The numbers of pods.
#[derive(Clone, Copy)]
pub(crate) struct Counts {
    pub(crate) unschedulable: usize,
    pub(crate) running: usize,
}

/// The cluster at a revision.
#[derive(Default)]
struct Cluster {
    /// `None` before anything was read.
    revision: Option<u64>,
    pods: BTreeMap<String, Pod>,
    unschedulable: usize,
    running: usize,
    /// The number of pods of each node.
    bound: BTreeMap<String, usize>,
    /// The pods that wait for a node, and those of them whose status does not state it.
    pending: BTreeSet<String>,
    unreported: BTreeSet<String>,
    /// The nodes that accept pods.
    accepting: BTreeSet<String>,
}

/// What is counted of a pod.
struct Pod {
    node: Option<String>,
    is_unschedulable: bool,
    runs: bool,
}

impl Binder {
    /// Schedules for as long as anybody else holds the stage.
    pub(crate) fn start(stage: &Arc<Stage>, pods_a_node: u32) -> Self {
        let binder = Self { api: stage.api(), cluster: Arc::default() };
        let (scheduler, stage) = (binder.clone(), Arc::downgrade(stage));
        tokio::spawn(async move {
            while stage.strong_count() > 0 {
                let started = Instant::now();
                scheduler.look(pods_a_node as usize);
                // Half of a processor at most.
                tokio::time::sleep(LOOK.max(started.elapsed())).await;
            }
        });
        binder
    }

    /// The numbers of pods now.
    pub(crate) fn counts(&self) -> Counts {
        let cluster = self.read();
        Counts { unschedulable: cluster.unschedulable, running: cluster.running }
    }

    /// The cluster as it is now.
    fn read(&self) -> std::sync::MutexGuard<'_, Cluster> {
        let mut cluster = self.cluster.lock().unwrap_or_else(PoisonError::into_inner);
        let revision = self.api.revision();
        match cluster.revision.map(|seen| self.api.watch_since(None, seen)) {
            // A change after that revision is read twice, and the later state counts.
            Some(Ok(changes)) => changes.iter().for_each(|change| cluster.note_change(change)),
            // There were too many changes.
            Some(Err(_)) | None => {
                *cluster = Cluster::default();
                self.list(&resource::NODES).iter().for_each(|node| cluster.note_node(name(node), Some(node)));
                self.list(&resource::PODS).iter().for_each(|pod| cluster.note_pod(name(pod), Some(pod)));
            }
        }
        cluster.revision = Some(revision);
        cluster
    }

    fn list(&self, resource: &Resource) -> Vec<Arc<Value>> {
        self.api.list(resource, &ListOptions::default()).unwrap().items
    }

    fn look(&self, pods_a_node: usize) {
        let (bindings, refused) = self.read().decide(pods_a_node);
        for (pod, node) in bindings {
            // If the pod was deleted meanwhile, the next look does not find it.
            let _bound = self.api.bind("default", &pod, &node);
        }
        for pod in refused {
            let Ok(pod) = self.api.get(&resource::PODS, "default", &pod) else { continue };
            let mut refused = Value::clone(&pod);
            refused["status"]["conditions"] =
                json!([{ "type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no node" }]);
            // If the pod has changed meanwhile, the next look repeats it.
            let _changed = self.api.update_status(&resource::PODS, refused, &UpdateOptions::default());
        }
    }
}

impl Cluster {
    /// The pods to bind, with their nodes, and those to report as unschedulable.
    fn decide(&self, pods_a_node: usize) -> (Vec<(String, String)>, Vec<String>) {
        let mut pending = self.pending.iter();
        let mut bindings = Vec::new();
        for node in &self.accepting {
            let free = pods_a_node.saturating_sub(self.bound.get(node).copied().unwrap_or_default());
            bindings.extend(pending.by_ref().take(free).map(|pod| (pod.clone(), node.clone())));
        }
        (bindings, pending.filter(|pod| self.unreported.contains(*pod)).cloned().collect())
    }

    fn note_change(&mut self, change: &Change) {
        let object = Some(change.object.as_ref()).filter(|_| change.kind != ChangeKind::Deleted);
        if change.resource == resource::NODES {
            self.note_node(change.name(), object);
        } else if change.resource == resource::PODS {
            self.note_pod(change.name(), object);
        }
    }

    fn note_node(&mut self, name: &str, node: Option<&Value>) {
        if node.is_some_and(accepts_pods) {
            self.accepting.insert(name.to_owned());
        } else {
            self.accepting.remove(name);
        }
    }

    fn note_pod(&mut self, name: &str, pod: Option<&Value>) {
        if let Some(before) = self.pods.remove(name) {
            self.unschedulable -= usize::from(before.is_unschedulable);
            self.running -= usize::from(before.runs);
            if let Some(bound) = before.node.and_then(|node| self.bound.get_mut(&node)) {
                *bound -= 1;
            }
        }
        self.pending.remove(name);
        self.unreported.remove(name);
        let Some(pod) = pod else { return };
        let now = Pod {
            node: pod["spec"]["nodeName"].as_str().map(str::to_owned),
            is_unschedulable: pod["status"]["conditions"][0]["reason"] == "Unschedulable",
            runs: pod["status"]["phase"] == "Running",
        };
        self.unschedulable += usize::from(now.is_unschedulable);
        self.running += usize::from(now.runs);
        match &now.node {
            Some(node) => *self.bound.entry(node.clone()).or_default() += 1,
            None if pod["spec"]["schedulerName"] == NAME && pod["metadata"]["deletionTimestamp"].is_null() => {
                self.pending.insert(name.to_owned());
                if pod["status"]["conditions"].is_null() {
                    self.unreported.insert(name.to_owned());
                }
            }
            None => {}
        }
        self.pods.insert(name.to_owned(), now);
    }
}

fn name(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap_or_default()
}

fn accepts_pods(node: &Value) -> bool {
    let is_ready = |conditions: &Vec<Value>| {
        conditions.iter().any(|condition| condition["type"] == "Ready" && condition["status"] == "True")
    };
    let repels = |taints: &Vec<Value>| taints.iter().any(|taint| taint["effect"] != "PreferNoSchedule");
    node["status"]["conditions"].as_array().is_some_and(is_ready)
        && !node["spec"]["taints"].as_array().is_some_and(repels)
        && node["spec"]["unschedulable"] != true
}
