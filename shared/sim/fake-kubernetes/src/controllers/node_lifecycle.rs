//! Nodes whose machine is gone, and pods whose node is deleted.

use super::Controller;
use super::feed::Feed;
use super::object::{
    NewEvent, after, all, condition, delete, is_deleting, is_true, list, name, publish, seconds, set_condition, text,
    uid, update, write_status,
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
}

impl Default for NodeLifecycleController {
    fn default() -> Self {
        Self {
            feed: Feed::new(WATCHED),
            silent: BTreeMap::new(),
            terminated: BTreeSet::new(),
            missing: BTreeMap::new(),
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
        if !self.feed.look(api, now)? {
            return Ok(());
        }
        let nodes = all(api, &NODES)?;
        let names: BTreeSet<&str> = nodes.iter().map(|node| name(node)).collect();
        self.silent.retain(|silent, _| names.contains(silent.as_str()));
        for node in &nodes {
            self.look_at(api, node, now)?;
        }
        let known: BTreeSet<&str> = nodes.iter().map(|node| text(node, "/spec/providerID")).collect();
        self.terminated.retain(|id| known.contains(id.as_str()));
        self.collect_pods(api, &names, now)
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

    /// Removes pods that are bound to nodes that do not exist.
    fn collect_pods(&mut self, api: &ApiServer, nodes: &BTreeSet<&str>, now: Timestamp) -> Result<(), Status> {
        let mut missing = BTreeMap::new();
        for pod in all(api, &PODS)? {
            let node = text(&pod, "/spec/nodeName");
            if node.is_empty() || nodes.contains(node) {
                continue;
            }
            let since = self.missing.get(node).copied().unwrap_or(now);
            missing.insert(node.to_owned(), since);
            let due = after(since, QUARANTINE);
            if due > now {
                self.feed.wake_at(due);
            } else {
                tracing::debug!(pod = name(&pod), uid = uid(&pod), node, "the node of this pod is gone");
                delete(api, &PODS, &pod, Some(0))?;
            }
        }
        self.missing = missing;
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
    for pod in all(api, &PODS)? {
        if text(&pod, "/spec/nodeName") != node || !is_true(&pod, "Ready") {
            continue;
        }
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
