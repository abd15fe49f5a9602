//! Nodes whose machine is gone, and pods whose node is deleted.

use super::Controller;
use super::feed::{Feed, Work};
use super::object::{
    NewEvent, after, all, condition, delete, is_deleting, is_true, list, name, namespace, publish, seconds,
    set_condition, text, uid, update, write_status,
};
use crate::server::resource::{NODES, PODS, Resource};
use crate::server::{ApiServer, Status};
use jiff::Timestamp;
use nodeless_model::labels::{NOT_READY_TAINT, UNREACHABLE_TAINT};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

const WATCHED: &[Resource] = &[NODES, PODS];
/// The seconds without a heartbeat of its kubelet after which a node counts as lost: `--node-monitor-grace-period`.
const GRACE: i64 = 40;
/// How long the pods of a deleted node are kept, in seconds, as by Kubernetes' pod garbage collector.
const QUARANTINE: i64 = 40;
const CORDONED: &str = "node.kubernetes.io/unschedulable";

/// The node lifecycle controllers of Kubernetes and of its AWS cloud provider, and the pod garbage collector.
#[derive(Debug)]
pub struct NodeLifecycleController {
    feed: Feed,
    /// Nodes whose kubelet stopped reporting, and since when.
    silent: BTreeMap<String, Timestamp>,
    /// Provider ids of instances that are terminated.
    terminated: BTreeSet<String>,
    /// Names of missing nodes that pods are bound to, and since when they are missing.
    missing: BTreeMap<String, Timestamp>,
    /// The provider ids of the nodes that exist, by name.
    nodes: BTreeMap<String, String>,
}

impl Default for NodeLifecycleController {
    fn default() -> Self {
        Self {
            feed: Feed::new(WATCHED),
            silent: BTreeMap::new(),
            terminated: BTreeSet::new(),
            missing: BTreeMap::new(),
            nodes: BTreeMap::new(),
        }
    }
}

impl NodeLifecycleController {
    /// A machine's kubelet stops reporting.
    pub fn machine_stopped(&mut self, name: &str, now: Timestamp) {
        self.silent.insert(name.to_owned(), now);
        self.feed.wake_at(after(now, GRACE));
    }

    /// The kubelet of a machine reports again.
    pub fn machine_started(&mut self, name: &str) {
        self.silent.remove(name);
    }

    /// An instance is terminated: its node is deleted once it is not ready, as the AWS cloud provider does.
    pub fn instance_terminated(&mut self, provider_id: &str, now: Timestamp) {
        self.terminated.insert(provider_id.to_owned());
        self.feed.wake_at(now);
    }
}

impl Controller for NodeLifecycleController {
    fn step(&mut self, api: &ApiServer, now: Timestamp) -> Result<(), Status> {
        // The nodes that have changed or may be missing.
        let mut named = BTreeSet::new();
        match self.feed.work(api, now)? {
            Work::Nothing => return Ok(()),
            Work::Changes(changes) => {
                for change in &changes {
                    if change.resource == NODES {
                        named.insert(change.name().to_owned());
                    } else {
                        named.insert(text(&change.object, "/spec/nodeName").to_owned());
                    }
                }
            }
            Work::Everything => {
                named.extend(all(api, &NODES)?.iter().map(|node| name(node).to_owned()));
                named.extend(std::mem::take(&mut self.nodes).into_keys());
                named.extend(all(api, &PODS)?.iter().map(|pod| text(pod, "/spec/nodeName").to_owned()));
            }
        }
        for name in &named {
            match api.get(&NODES, "", name) {
                Ok(node) => drop(self.nodes.insert(name.clone(), text(&node, "/spec/providerID").to_owned())),
                Err(_) => drop(self.nodes.remove(name)),
            }
        }
        self.silent.retain(|silent, _| self.nodes.contains_key(silent));
        self.missing.retain(|name, _| !self.nodes.contains_key(name));
        let mut looked_at: BTreeSet<&String> = named.iter().chain(self.silent.keys()).collect();
        if !self.terminated.is_empty() {
            let gone = self.nodes.iter().filter(|(_, provider_id)| self.terminated.contains(*provider_id));
            looked_at.extend(gone.map(|(name, _)| name));
        }
        let nodes: Vec<_> = looked_at.into_iter().filter_map(|name| api.get(&NODES, "", name).ok()).collect();
        for node in &nodes {
            self.look_at(api, node, now)?;
        }
        if !self.terminated.is_empty() {
            let known: BTreeSet<&String> = self.nodes.values().collect();
            self.terminated.retain(|id| known.contains(id));
        }
        self.collect_pods(api, named, now)
    }

    fn next_wakeup(&self) -> Option<Timestamp> {
        self.feed.due()
    }
}

impl NodeLifecycleController {
    fn look_at(&mut self, api: &ApiServer, node: &Arc<Value>, now: Timestamp) -> Result<(), Status> {
        if let Some(since) = self.silent.get(name(node)) {
            let lost = after(*since, GRACE);
            if lost > now {
                self.feed.wake_at(lost);
            } else if condition(node, "Ready").is_none_or(|ready| ready["status"] != "Unknown") {
                return mark_lost(api, node, now);
            }
        }
        if set_taints(api, node, now)? {
            return Ok(());
        }
        let gone = self.terminated.contains(text(node, "/spec/providerID"));
        if gone && !is_true(node, "Ready") && !is_deleting(node) {
            let message = format!("Deleting node {} because it does not exist in the cloud provider", name(node));
            let event = NewEvent {
                component: "cloud-node-lifecycle-controller",
                kind: "Normal",
                reason: "DeletingNode",
                message: &message,
            };
            publish(api, node, &event, now)?;
            delete(api, &NODES, node, None)?;
        }
        Ok(())
    }

    /// Removes pods that are bound to nodes that do not exist: to those that were missing before, or to others of these names.
    fn collect_pods(&mut self, api: &ApiServer, named: BTreeSet<String>, now: Timestamp) -> Result<(), Status> {
        for name in named.into_iter().filter(|name| !name.is_empty() && !self.nodes.contains_key(name)) {
            self.missing.entry(name).or_insert(now);
        }
        let mut lost = Vec::new();
        self.missing.retain(|node, since| {
            let pods = api.pods_on(node);
            let is_missed = !pods.is_empty();
            let due = after(*since, QUARANTINE);
            if is_missed && due > now {
                self.feed.wake_at(due);
            } else {
                lost.extend(pods);
            }
            is_missed
        });
        lost.sort_by(|a, b| (namespace(a), name(a)).cmp(&(namespace(b), name(b))));
        for pod in lost {
            let node = text(&pod, "/spec/nodeName");
            tracing::debug!(pod = name(&pod), uid = uid(&pod), node, "the node of this pod is gone");
            delete(api, &PODS, &pod, Some(0))?;
        }
        Ok(())
    }
}

fn mark_lost(api: &ApiServer, node: &Value, now: Timestamp) -> Result<(), Status> {
    let mut conditions = list(node, "/status/conditions").to_vec();
    let kinds: Vec<String> = conditions.iter().map(|it| text(it, "/type").to_owned()).collect();
    for kind in kinds {
        let message = "Kubelet stopped posting node status.";
        set_condition(&mut conditions, &kind, "Unknown", "NodeStatusUnknown", message, now);
    }
    let mut status = node["status"].clone();
    status["conditions"] = Value::Array(conditions);
    write_status(api, &NODES, node, status)?;
    mark_pods_not_ready(api, name(node), now)?;
    let message = format!("Node {} status is now: NodeNotReady", name(node));
    let event = NewEvent { component: "node-controller", kind: "Normal", reason: "NodeNotReady", message: &message };
    publish(api, node, &event, now)
}

/// Pods of a lost node are not ready any more, so budgets and owners do not count them.
fn mark_pods_not_ready(api: &ApiServer, node: &str, now: Timestamp) -> Result<(), Status> {
    for pod in api.pods_on(node).into_iter().filter(|pod| is_true(pod, "Ready")) {
        let mut conditions = list(&pod, "/status/conditions").to_vec();
        set_condition(&mut conditions, "Ready", "False", "", "", now);
        let mut status = pod["status"].clone();
        status["conditions"] = Value::Array(conditions);
        write_status(api, &PODS, &pod, status)?;
    }
    Ok(())
}

/// Sets the taints for the conditions of a node, and for being cordoned. Returns whether something was written.
fn set_taints(api: &ApiServer, node: &Value, now: Timestamp) -> Result<bool, Status> {
    let ready = condition(node, "Ready").map_or("Unknown", |ready| text(ready, "/status"));
    let was_ready = condition(node, "Ready").is_some_and(|ready| ready["reason"] != "KubeletNotReady");
    let mut desired = Vec::new();
    match ready {
        "True" => {}
        "False" => {
            desired.push((NOT_READY_TAINT, "NoSchedule"));
            if was_ready {
                desired.push((NOT_READY_TAINT, "NoExecute"));
            }
        }
        _ => desired.extend([(UNREACHABLE_TAINT, "NoSchedule"), (UNREACHABLE_TAINT, "NoExecute")]),
    }
    if node["spec"]["unschedulable"] == true {
        desired.push((CORDONED, "NoSchedule"));
    }
    let ours = [NOT_READY_TAINT, UNREACHABLE_TAINT, CORDONED];
    let present = list(node, "/spec/taints");
    let is = |taint: &Value, (key, effect): (&str, &str)| taint["key"] == key && taint["effect"] == effect;
    let mut taints: Vec<Value> = present
        .iter()
        .filter(|taint| !ours.contains(&text(taint, "/key")) || desired.iter().any(|it| is(taint, *it)))
        .cloned()
        .collect();
    for (key, effect) in desired {
        if !taints.iter().any(|taint| is(taint, (key, effect))) {
            taints.push(json!({ "key": key, "effect": effect, "timeAdded": seconds(now) }));
        }
    }
    if taints == present {
        return Ok(false);
    }
    let mut changed = node.clone();
    match (taints.is_empty(), changed["spec"].as_object_mut()) {
        (true, Some(spec)) => drop(spec.remove("taints")),
        _ => changed["spec"]["taints"] = Value::Array(taints),
    }
    update(api, &NODES, changed)?;
    Ok(true)
}
