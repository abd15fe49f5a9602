//! The kube-scheduler: pods by priority, each on the best feasible node, or a reason for each node that is not feasible.
//!
//! A pod with a `status.nominatedNodeName` is placed on that node if it is feasible, and its requests count there when pods of no higher
//! priority are placed. A failed attempt clears the field, as that of kube-scheduler does without pods to preempt. Setting the field
//! does not cause an attempt; clearing it does.
//!
//! Preemption and the limits of CSI drivers are not simulated, and neither is that kube-scheduler compares only a part of the nodes of a
//! cluster of more than 100 nodes.

mod default_spread;
mod filter;
mod info;
mod score;
mod spec;
mod topology;
mod volumes;

pub(super) use info::{NodeInfo, PodInfo};
pub(super) use spec::executing_taints;

use super::Controller;
use super::feed::Feed;
use super::object::{NewEvent, after, all, lenient, list, publish, set_condition, text, uid, write_status};
use crate::server::path::Path as _;
use crate::server::resource::{
    NAMESPACES, NODES, PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, PODS, Resource, STORAGE_CLASSES,
};
use crate::server::{ApiServer, Change, ChangeKind, Status};
use default_spread::Defaults;
use filter::{Cluster, Refused};
use jiff::Timestamp;
use serde_json::Value;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;
use volumes::Storage;

const WATCHED: &[Resource] = &[PODS, NODES, PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, STORAGE_CLASSES];
const NAME: &str = "default-scheduler";
/// After how many seconds an unschedulable pod is tried and reported again, as kube-scheduler does.
const REPORTED_AGAIN: i64 = 300;

/// A pod that waits, as it is compared and as it is stored.
type Waiting<'a> = (Arc<PodInfo>, &'a Arc<Value>);

/// Binds pods to nodes.
#[derive(Debug)]
pub struct Scheduler {
    feed: Feed,
    /// The message that was last reported for a pod, by uid, and when.
    reported: BTreeMap<String, (String, Timestamp)>,
}

impl Default for Scheduler {
    fn default() -> Self {
        Self { feed: Feed::new(WATCHED), reported: BTreeMap::new() }
    }
}

impl Controller for Scheduler {
    fn step(&mut self, api: &ApiServer, now: Timestamp) -> Result<(), Status> {
        if !self.feed.look_for(api, now, causes_attempts)? {
            return Ok(());
        }
        let pods = all(api, &PODS)?;
        let mut pending = pending(api, &pods)?;
        if pending.is_empty() {
            self.reported.clear();
            return Ok(());
        }
        pending.sort_by_cached_key(|(info, _)| {
            (Reverse(info.priority), info.created, info.namespace.clone(), info.name.clone())
        });
        let mut cluster = cluster(api, &pods)?;
        for node in &mut cluster.nodes {
            let here = pending.iter().filter(|(info, _)| info.nominated_node.as_ref() == Some(&node.name));
            node.nominated = here.map(|(info, _)| info.clone()).collect();
        }
        let mut waiting = BTreeMap::new();
        for (info, pod) in pending {
            match cluster.place(&info) {
                Ok(index) => {
                    if !info.volume_claims.is_empty() {
                        cluster.provision(api, &info, index)?;
                    }
                    self.bind(api, pod, &cluster.nodes[index].name, now)?;
                    cluster.add(index, info);
                }
                Err(refused) => {
                    let last = self.refuse(api, pod, &refused, now)?;
                    if refused.clears_nomination {
                        cluster.forget_nomination(&info);
                    }
                    self.feed.wake_at(after(last, REPORTED_AGAIN));
                    waiting.insert(uid(pod).to_owned(), (refused.message, last));
                }
            }
        }
        self.reported = waiting;
        Ok(())
    }

    fn next_wakeup(&self) -> Option<Timestamp> {
        self.feed.due()
    }
}

/// The score of each node that is feasible for a pod that waits, by the node's name. Empty if there is none, or if the pod does not wait.
///
/// # Errors
/// An object that the API server cannot read.
pub fn node_scores(api: &ApiServer, namespace: &str, name: &str) -> Result<BTreeMap<String, i64>, Status> {
    let pods = all(api, &PODS)?;
    let pending = pending(api, &pods)?;
    let pod = pending.iter().find(|(info, _)| info.namespace == namespace && info.name == name);
    let Some((pod, _)) = pod else { return Ok(BTreeMap::new()) };
    Ok(cluster(api, &pods)?.scores(pod))
}

/// Whether a change may let a pending pod be placed: not what only the status of a pending pod or of a node reports.
fn causes_attempts(change: &Change) -> bool {
    let Some(previous) = &change.previous else { return true };
    let differs = |field: &str| change.object.at(field) != previous.at(field);
    if change.resource == NODES {
        let fields = ["/metadata/labels", "/metadata/deletionTimestamp", "/spec", "/status/allocatable"];
        return change.kind == ChangeKind::Deleted || fields.into_iter().any(differs);
    }
    let pending = |pod: &Value| text(pod, "/spec/nodeName").is_empty();
    if change.resource != PODS || !pending(&change.object) {
        return true;
    }
    let nominated = text(previous, "/status/nominatedNodeName");
    let loses_nomination = !nominated.is_empty() && nominated != text(&change.object, "/status/nominatedNodeName");
    ["/metadata/labels", "/spec", "/status/phase"].into_iter().any(differs)
        || loses_nomination
        || (change.kind == ChangeKind::Deleted && !nominated.is_empty())
}

/// Whether this scheduler is responsible for a pod.
fn awaits_scheduling(pod: &Value) -> bool {
    text(pod, "/spec/nodeName").is_empty()
        && text(pod, "/status/phase") == "Pending"
        && pod.at("/metadata/deletionTimestamp").is_none()
        && list(pod, "/spec/schedulingGates").is_empty()
        && matches!(text(pod, "/spec/schedulerName"), "" | NAME)
}

/// The pods that wait.
fn pending<'a>(api: &ApiServer, pods: &'a [Arc<Value>]) -> Result<Vec<Waiting<'a>>, Status> {
    let defaults = Defaults::read(api)?;
    let mut pending = Vec::new();
    for pod in pods.iter().filter(|pod| awaits_scheduling(pod)) {
        let Some(mut info) = PodInfo::new(pod) else { continue };
        if info.topology_spread.is_empty() {
            info.default_spread = defaults.of(pod)?;
        }
        pending.push((Arc::new(info), pod));
    }
    Ok(pending)
}

fn cluster(api: &ApiServer, pods: &[Arc<Value>]) -> Result<Cluster, Status> {
    let mut nodes: Vec<NodeInfo> = all(api, &NODES)?
        .iter()
        .filter(|node| node.at("/metadata/deletionTimestamp").is_none())
        .filter_map(|node| NodeInfo::new(node))
        .collect();
    let mut namespaces = BTreeMap::new();
    for namespace in all(api, &NAMESPACES)? {
        let labels = namespace.at("/metadata/labels").cloned().unwrap_or_default();
        let labels = serde_json::from_value(labels).unwrap_or_default();
        namespaces.insert(super::object::name(&namespace).to_owned(), labels);
    }
    let positions: BTreeMap<String, usize> =
        nodes.iter().enumerate().map(|(index, node)| (node.name.clone(), index)).collect();
    for pod in pods.iter().filter(|pod| !super::object::has_ended(pod)) {
        let Some(position) = positions.get(text(pod, "/spec/nodeName")) else { continue };
        if let Some(info) = PodInfo::new(pod) {
            nodes[*position].add(Arc::new(info));
        }
    }
    let mounts = pods.iter().any(|pod| awaits_scheduling(pod) && !list(pod, "/spec/volumes").is_empty());
    let storage = if mounts { Storage::read(api)? } else { Storage::default() };
    Ok(Cluster { nodes, namespaces, storage })
}

impl Scheduler {
    fn bind(&self, api: &ApiServer, pod: &Value, node: &str, now: Timestamp) -> Result<(), Status> {
        let (namespace, name) = (super::object::namespace(pod), super::object::name(pod));
        lenient(api.bind(namespace, name, node))?;
        let message = format!("Successfully assigned {namespace}/{name} to {node}");
        let event = NewEvent { component: NAME, kind: "Normal", reason: "Scheduled", message: &message };
        publish(api, pod, &event, now)
    }

    /// Writes why a pod is unschedulable to its condition, and as an event if that is new. Returns when it was last reported.
    fn refuse(&self, api: &ApiServer, pod: &Value, refused: &Refused, now: Timestamp) -> Result<Timestamp, Status> {
        let message = refused.message.as_str();
        let mut status = pod["status"].clone();
        let mut conditions = list(pod, "/status/conditions").to_vec();
        set_condition(&mut conditions, "PodScheduled", "False", "Unschedulable", message, now);
        status["conditions"] = Value::Array(conditions);
        if refused.clears_nomination
            && let Some(fields) = status.as_object_mut()
        {
            fields.remove("nominatedNodeName");
        }
        // The condition is written first, because readers that the event wakes read it.
        write_status(api, &PODS, pod, status)?;
        let before =
            self.reported.get(uid(pod)).filter(|(last, at)| last == message && after(*at, REPORTED_AGAIN) > now);
        if let Some((_, at)) = before {
            return Ok(*at);
        }
        let event = NewEvent { component: NAME, kind: "Warning", reason: "FailedScheduling", message };
        publish(api, pod, &event, now)?;
        Ok(now)
    }
}
