//! The machines: each registers as a node, becomes ready, and runs the pods that are bound to it.

mod pods;

use super::Controller;
use super::feed::Feed;
use super::object::{
    NewEvent, after, all, create, is_true, lenient, list, name, namespace, publish, seconds, set_condition, text, uid,
    write_status,
};
use crate::server::resource::{LEASES, NODES, PODS, Resource};
use crate::server::{ApiServer, Change, ChangeKind, PatchOptions, PatchType, Status};
use jiff::Timestamp;
use nodeless_model::{ResourceList, StringMap, Taint, TaintEffect, labels};
use pods::run;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

const WATCHED: &[Resource] = &[NODES, PODS];

/// From the binding of a pod until its containers run, in seconds.
const POD_START: i64 = 2;

/// The maximum time that a simulated container takes to stop, in seconds. Its grace period may be shorter.
const POD_STOP: i64 = 2;

/// How long the pods of a Job or of a Helm hook run if their command is not `sleep N`, in seconds.
const JOB_RUN: i64 = 10;

/// How often a kubelet renews its lease, in seconds. It renews together with other work, so that an idle world stays idle.
const LEASE_RENEWAL: i64 = 10;

/// A machine with a kubelet.
#[derive(Clone, Debug, PartialEq)]
pub struct Machine {
    /// The node's name.
    pub name: String,
    /// `aws:///ZONE/INSTANCE`.
    pub provider_id: String,
    /// The address of the node.
    pub internal_ip: String,
    /// Labels that the kubelet registers with.
    pub labels: StringMap,
    /// Taints that the kubelet registers with.
    pub taints: Vec<Taint>,
    /// The machine's resources.
    pub capacity: ResourceList,
    /// The allocatable resources.
    pub allocatable: ResourceList,
    /// The kubelet's version, such as `v1.36.0`.
    pub version: String,
    /// The operating system's name.
    pub os_image: String,
    /// When the kubelet registers the node.
    pub registers: Timestamp,
    /// When the node becomes ready.
    pub ready: Timestamp,
}

#[derive(Debug)]
struct Kubelet {
    machine: Machine,
    registered: bool,
    renewed: Option<Timestamp>,
    /// When it registers its node or reports it as ready; `None` once it has.
    due: Option<Timestamp>,
}

/// A pod, by namespace and name.
type Key = (String, String);

/// All machines of the cluster. Each looks only at the pods that have changed or are due: a cluster of thousands of nodes changes at
/// thousands of times.
#[derive(Debug)]
pub struct Kubelets {
    feed: Feed,
    machines: BTreeMap<String, Kubelet>,
    /// The pods that are bound to each node.
    bound: BTreeMap<String, Bound>,
    faults: PodFaults,
    /// Whether all pods are due: their faults have changed.
    faults_changed: bool,
}

/// The pods that are bound to a node.
#[derive(Debug, Default)]
struct Bound {
    /// Each with the time at which it starts, stops, completes or becomes ready.
    pods: BTreeMap<Key, Option<Timestamp>>,
    /// The earliest of these times.
    due: Option<Timestamp>,
}

impl Bound {
    /// Adds a pod, which is due.
    fn add(&mut self, key: Key, now: Timestamp) {
        self.pods.insert(key, Some(now));
        self.due = Some(self.due.map_or(now, |due| due.min(now)));
    }

    /// Makes all pods due.
    fn all_due(&mut self, now: Timestamp) {
        self.pods.values_mut().for_each(|due| *due = Some(now));
        self.find_due();
    }

    /// Sets the time at which the next pod is due, after those of the pods have changed.
    fn find_due(&mut self) {
        self.due = self.pods.values().flatten().min().copied();
    }
}

/// The uids of pods with a fault.
#[derive(Debug, Default)]
struct PodFaults {
    unready: BTreeSet<String>,
    hanging: BTreeSet<String>,
}

impl Default for Kubelets {
    fn default() -> Self {
        Self {
            feed: Feed::new(WATCHED),
            machines: BTreeMap::new(),
            bound: BTreeMap::new(),
            faults: PodFaults::default(),
            faults_changed: false,
        }
    }
}

impl Kubelets {
    /// Adds a machine, which joins after its delays.
    pub fn start(&mut self, machine: Machine) {
        self.feed.wake_at(machine.registers);
        let due = Some(machine.registers);
        self.machines.insert(machine.name.clone(), Kubelet { machine, registered: false, renewed: None, due });
    }

    /// Removes a machine at once: its kubelet stops reporting, and the status of its pods stays unchanged. Returns whether the
    /// machine existed.
    pub fn stop(&mut self, name: &str) -> bool {
        self.machines.remove(name).is_some()
    }

    /// The readiness probes of a pod, by its uid, fail or succeed from now on.
    pub fn set_ready(&mut self, pod: &str, ready: bool, now: Timestamp) {
        if ready {
            self.faults.unready.remove(pod);
        } else {
            self.faults.unready.insert(pod.to_owned());
        }
        self.faults_changed = true;
        self.feed.wake_at(now);
    }

    /// From now on the containers of a pod, by its uid, do not stop, or stop again. A pod that does not stop is only removed by a
    /// deletion without a grace period.
    pub fn set_stops(&mut self, pod: &str, stops: bool, now: Timestamp) {
        if stops {
            self.faults.hanging.remove(pod);
        } else {
            self.faults.hanging.insert(pod.to_owned());
        }
        self.faults_changed = true;
        self.feed.wake_at(now);
    }
}

impl Controller for Kubelets {
    fn step(&mut self, api: &ApiServer, now: Timestamp) -> Result<(), Status> {
        if self.machines.is_empty() {
            return Ok(());
        }
        let due = self.feed.is_due(now);
        let changes = self.feed.changes(api)?;
        if !due && changes.as_ref().is_some_and(Vec::is_empty) {
            return Ok(());
        }
        match changes {
            Some(changes) => changes.iter().for_each(|change| self.note(change, now)),
            None => self.note_all(api, now)?,
        }
        for kubelet in self.machines.values_mut() {
            if kubelet.due.is_some_and(|due| due <= now) {
                kubelet.due = kubelet.join(api, now)?;
                // Its pods start when the node is ready.
                self.bound.get_mut(&kubelet.machine.name).into_iter().for_each(|bound| bound.all_due(now));
            }
            kubelet.renew(api, now)?;
        }
        self.run_pods(api, now)?;
        let of_pods = self.bound.iter().filter(|(node, _)| self.machines.contains_key(*node));
        let of_pods = of_pods.filter_map(|(_, bound)| bound.due);
        self.feed.set_due(self.machines.values().filter_map(|kubelet| kubelet.due).chain(of_pods).min());
        Ok(())
    }

    fn next_wakeup(&self) -> Option<Timestamp> {
        self.feed.due().filter(|_| !self.machines.is_empty())
    }
}

impl Kubelets {
    /// Notes that a node or pod has changed.
    fn note(&mut self, change: &Change, now: Timestamp) {
        let object = &change.object;
        if change.resource == NODES {
            if let Some(kubelet) = self.machines.get_mut(name(object)) {
                kubelet.due = Some(kubelet.due.map_or(now, |due| due.min(now.max(kubelet.machine.registers))));
            }
            return;
        }
        let node = text(object, "/spec/nodeName");
        if node.is_empty() {
            return;
        }
        let key = (namespace(object).to_owned(), name(object).to_owned());
        if change.kind == ChangeKind::Deleted {
            if let Some(bound) = self.bound.get_mut(node) {
                bound.pods.remove(&key);
                bound.find_due();
            }
        } else {
            self.bound.entry(node.to_owned()).or_default().add(key, now);
        }
    }

    /// Notes all nodes and pods.
    fn note_all(&mut self, api: &ApiServer, now: Timestamp) -> Result<(), Status> {
        self.bound.clear();
        for pod in all(api, &PODS)? {
            let node = text(&pod, "/spec/nodeName");
            if !node.is_empty() {
                let key = (namespace(&pod).to_owned(), name(&pod).to_owned());
                self.bound.entry(node.to_owned()).or_default().add(key, now);
            }
        }
        for kubelet in self.machines.values_mut() {
            kubelet.due = Some(kubelet.due.map_or(now, |due| due.min(now)).max(kubelet.machine.registers));
        }
        Ok(())
    }

    /// Starts, stops and completes the pods that are due, in the order of their names.
    fn run_pods(&mut self, api: &ApiServer, now: Timestamp) -> Result<(), Status> {
        let all = std::mem::take(&mut self.faults_changed);
        let is_due = |at: Option<Timestamp>| all || at.is_some_and(|at| at <= now);
        let mut due: BTreeMap<&Key, (bool, &mut Option<Timestamp>)> = BTreeMap::new();
        let mut nodes = Vec::new();
        for (node, bound) in self.bound.iter_mut().filter(|(_, bound)| is_due(bound.due)) {
            let Some(kubelet) = self.machines.get(node) else { continue };
            nodes.push(node);
            let ready = kubelet.registered && kubelet.machine.ready <= now;
            due.extend(bound.pods.iter_mut().filter(|(_, at)| is_due(**at)).map(|(key, at)| (key, (ready, at))));
        }
        for ((namespace, name), (ready, at)) in due {
            *at = match api.get(&PODS, namespace, name) {
                Ok(pod) => run(api, &pod, ready, &self.faults, now)?,
                Err(gone) if gone.code == 404 => None,
                Err(error) => return Err(error),
            };
        }
        let nodes: Vec<String> = nodes.into_iter().cloned().collect();
        for node in nodes {
            self.bound.get_mut(&node).into_iter().for_each(Bound::find_due);
        }
        Ok(())
    }
}

impl Kubelet {
    /// Registers the node, and reports it as ready, each when it is due. Returns when the next of these is due.
    fn join(&mut self, api: &ApiServer, now: Timestamp) -> Result<Option<Timestamp>, Status> {
        let machine = &self.machine;
        if machine.registers > now {
            return Ok(Some(machine.registers));
        }
        if !self.registered {
            create(api, &NODES, node(machine, now))?;
            self.registered = true;
        }
        if machine.ready > now {
            return Ok(Some(machine.ready));
        }
        // A node that was deleted is not registered again until the kubelet restarts.
        let Ok(node) = api.get(&NODES, "", &machine.name) else { return Ok(None) };
        let boot_id = seconds(machine.registers);
        let boots = text(&node, "/status/nodeInfo/bootID") != boot_id;
        if text(&node, "/spec/providerID") == machine.provider_id && (boots || !is_true(&node, "Ready")) {
            let mut status = node["status"].clone();
            status["nodeInfo"]["bootID"] = json!(boot_id);
            status["conditions"] = conditions(&node, true, now);
            write_status(api, &NODES, &node, status)?;
            let message = format!("Node {} status is now: NodeReady", machine.name);
            let event = NewEvent { component: "kubelet", kind: "Normal", reason: "NodeReady", message: &message };
            publish(api, &node, &event, now)?;
        }
        Ok(None)
    }

    fn renew(&mut self, api: &ApiServer, now: Timestamp) -> Result<(), Status> {
        if !self.registered || self.renewed.is_some_and(|last| after(last, LEASE_RENEWAL) > now) {
            return Ok(());
        }
        let name = &self.machine.name;
        let place = "kube-node-lease";
        let renewed = now.strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string();
        if self.renewed.replace(now).is_some() {
            let patch = json!({ "spec": { "renewTime": renewed } });
            return lenient(api.patch(&LEASES, place, name, None, PatchType::Merge, &patch, &PatchOptions::default()));
        }
        let Ok(node) = api.get(&NODES, "", name) else { return Ok(()) };
        let owner = json!({ "apiVersion": "v1", "kind": "Node", "name": name, "uid": uid(&node) });
        let lease = json!({
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": { "name": name, "namespace": place, "ownerReferences": [owner] },
            "spec": { "holderIdentity": name, "leaseDurationSeconds": 40, "renewTime": renewed },
        });
        create(api, &LEASES, lease)
    }
}

/// The node object that a kubelet registers.
fn node(machine: &Machine, now: Timestamp) -> Value {
    let label = |key: &str| machine.labels.get(key).cloned().unwrap_or_default();
    let mut taints: Vec<Value> = Vec::new();
    let not_ready = Taint::new(labels::NOT_READY_TAINT, TaintEffect::NoSchedule);
    for taint in machine.taints.iter().chain([&not_ready]) {
        let mut value = json!({ "key": taint.key, "effect": taint.effect.as_str() });
        if !taint.value.is_empty() {
            value["value"] = json!(taint.value);
        }
        taints.push(value);
    }
    let bare = json!({});
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": { "name": machine.name, "labels": machine.labels },
        "spec": { "providerID": machine.provider_id, "taints": taints },
        "status": {
            "capacity": machine.capacity, "allocatable": machine.allocatable,
            "conditions": conditions(&bare, false, now),
            "addresses": [
                { "type": "InternalIP", "address": machine.internal_ip },
                { "type": "InternalDNS", "address": machine.name },
                { "type": "Hostname", "address": machine.name },
            ],
            "nodeInfo": {
                "architecture": label(labels::ARCH), "operatingSystem": label(labels::OS),
                "kubeletVersion": machine.version, "kubeProxyVersion": machine.version,
                "osImage": machine.os_image, "kernelVersion": "6.1.0-simulated",
                "containerRuntimeVersion": "containerd://simulated", "machineID": machine.provider_id,
                "systemUUID": machine.provider_id, "bootID": seconds(machine.registers),
            },
            "daemonEndpoints": { "kubeletEndpoint": { "Port": 10250 } },
        },
    })
}

fn conditions(node: &Value, ready: bool, now: Timestamp) -> Value {
    let mut conditions = list(node, "/status/conditions").to_vec();
    for (kind, reason, message) in [
        ("MemoryPressure", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
        ("DiskPressure", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
        ("PIDPressure", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
    ] {
        set_condition(&mut conditions, kind, "False", reason, message, now);
    }
    let (status, reason, message) = if ready {
        ("True", "KubeletReady", "kubelet is posting ready status")
    } else {
        ("False", "KubeletNotReady", "container runtime network not ready: NetworkReady=false")
    };
    set_condition(&mut conditions, "Ready", status, reason, message, now);
    for condition in &mut conditions {
        condition["lastHeartbeatTime"] = json!(seconds(now));
    }
    Value::Array(conditions)
}
