//! The kube-scheduler: pods by priority, each on the best feasible node, or a reason for each node that is not feasible.
//!
//! Attempts are made in the order and at the times of its queue ([`queue`]): a new pod at once, and a pod that was rejected when a change
//! may help it ([`hints`]) or after five minutes. Changes to the pod's own labels, tolerations and requests may help it, if the plugins
//! that rejected it use them.
//!
//! A pod with a `status.nominatedNodeName` is placed on that node if it is feasible, and its requests count there when pods of no higher
//! priority are placed. A failed attempt clears the field, as that of kube-scheduler does without pods to preempt. Setting the field
//! causes no attempt. Changing or clearing it counts as the deletion of a pod from the node, for the pod itself too.
//!
//! Each attempt ends in one write, of which there may be a limit for each second ([`writes`]): pods beyond it are attempted later.
//!
//! Preemption and the limits of CSI drivers are not simulated, and neither is that kube-scheduler compares only a part of the nodes of a
//! cluster of more than 100 nodes.

mod cluster;
mod default_spread;
mod devices;
mod filter;
mod groups;
mod hints;
mod info;
mod queue;
mod score;
mod spec;
mod topology;
mod volumes;
mod writes;

pub(super) use devices::FINALIZER;
pub(super) use info::{NodeInfo, PodInfo};
pub(super) use spec::executing_taints;

use super::Controller;
use super::feed::Feed;
use super::object::{NewEvent, after, all, lenient, list, publish, set_condition, text, uid, write_status};
use crate::server::path::Path as _;
use crate::server::resource::{
    DEVICE_CLASSES, NAMESPACES, NODES, PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, POD_GROUPS, PODS, RESOURCE_CLAIMS,
    RESOURCE_SLICES, Resource, STORAGE_CLASSES,
};
use crate::server::{ApiServer, Change, ChangeKind, Status};
use cluster::Cluster;
use default_spread::Defaults;
use devices::Devices;
use filter::Refused;
use groups::Groups;
use hints::Event;
use jiff::Timestamp;
use queue::{MAX_UNSCHEDULABLE, Plugin, Queue, QueuedPod};
use serde_json::Value;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use volumes::Storage;
pub(super) use writes::PER_SECOND as WRITES;
use writes::Writes;

const WATCHED: &[Resource] = &[
    PODS,
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    STORAGE_CLASSES,
    POD_GROUPS,
    RESOURCE_SLICES,
    DEVICE_CLASSES,
    RESOURCE_CLAIMS,
];
const NAME: &str = "default-scheduler";

/// A pod that waits, as it is compared and as it is stored.
type Waiting<'a> = (Arc<PodInfo>, &'a Arc<Value>);
/// A pod that is attempted, by uid.
type Attempt = (String, QueuedPod);
/// The pods that wait, by uid.
type Pending<'a> = BTreeMap<&'a str, Waiting<'a>>;

/// Binds pods to nodes.
#[derive(Debug)]
pub struct Scheduler {
    feed: Feed,
    queue: Queue,
    /// The message that was last reported for a pod, by uid, and when.
    reported: BTreeMap<String, (String, Timestamp)>,
    /// Namespace and name of the pods that wait.
    waiting: BTreeSet<(String, String)>,
    /// The pods that get no node, by a label and its value.
    refused: BTreeSet<(String, String)>,
    writes: Writes,
}

impl Default for Scheduler {
    fn default() -> Self {
        Self {
            feed: Feed::new(WATCHED),
            queue: Queue::default(),
            reported: BTreeMap::new(),
            waiting: BTreeSet::new(),
            refused: BTreeSet::new(),
            writes: Writes::default(),
        }
    }
}

impl Controller for Scheduler {
    fn step(&mut self, api: &ApiServer, now: Timestamp) -> Result<(), Status> {
        let changes = self.feed.changes(api)?;
        let due = self.next_wakeup().is_some_and(|due| due <= now);
        if !due && changes.as_ref().is_some_and(Vec::is_empty) {
            return Ok(());
        }
        match &changes {
            Some(changes) => {
                for change in changes.iter().filter(|change| change.resource == PODS) {
                    self.note(&change.object, change.kind != ChangeKind::Deleted);
                }
            }
            None => {
                self.waiting.clear();
                all(api, &PODS)?.iter().for_each(|pod| self.note(pod, true));
            }
        }
        let waiting = self.waiting.iter().filter_map(|(namespace, name)| api.get(&PODS, namespace, name).ok());
        let waiting: Vec<Arc<Value>> = waiting.collect();
        let pending = pending(api, &waiting)?;
        self.enqueue(&pending, changes.as_deref(), now);
        let attempts = self.queue.take(now, self.writes.left(now));
        if attempts.is_empty() {
            return Ok(());
        }
        self.writes.note(attempts.len(), now);
        let mut cluster = cluster(api, &all(api, &PODS)?)?;
        cluster.refused.clone_from(&self.refused);
        for node in &mut cluster.nodes {
            let here = pending.values().filter(|(info, _)| info.nominated_node.as_ref() == Some(&node.name));
            node.nominated = here.map(|(info, _)| info.clone()).collect();
        }
        let mut attempts = VecDeque::from(attempts);
        while let Some(next) = attempts.pop_front() {
            let together = self.together(next, &mut attempts, &pending, now);
            self.attempt(api, &mut cluster, &pending, together, now)?;
        }
        Ok(())
    }

    fn next_wakeup(&self) -> Option<Timestamp> {
        self.queue.next_due().map(|due| due.max(self.writes.next()))
    }
}

/// The score of each node that is feasible for a pod that waits, by the node's name. Empty if there is none, or if the pod does not wait.
///
/// # Errors
/// An object that the API server cannot read.
pub fn node_scores(api: &ApiServer, namespace: &str, name: &str) -> Result<BTreeMap<String, i64>, Status> {
    let pods = all(api, &PODS)?;
    let pending = pending(api, &pods)?;
    let pod = pending.values().find(|(info, _)| info.namespace == namespace && info.name == name);
    let Some((pod, _)) = pod else { return Ok(BTreeMap::new()) };
    Ok(cluster(api, &pods)?.scores(pod))
}

/// Takes a pod from its node again, because too few pods of its PodGroup have one. Pods are taken in the reverse order of their placement.
fn withdraw(cluster: &mut Cluster, pod: &Arc<PodInfo>, result: &mut Result<usize, Refused>) {
    if let Ok(index) = *result {
        cluster.withdraw(index, pod);
    }
    let rejected_by = BTreeSet::from([Plugin::GangScheduling]);
    *result = Err(Refused { message: groups::WAITING.to_owned(), rejected_by, clears_nomination: true });
}

/// Whether this scheduler is responsible for a pod.
fn awaits_scheduling(pod: &Value) -> bool {
    text(pod, "/spec/nodeName").is_empty()
        && text(pod, "/status/phase") == "Pending"
        && pod.at("/metadata/deletionTimestamp").is_none()
        && list(pod, "/spec/schedulingGates").is_empty()
        && matches!(text(pod, "/spec/schedulerName"), "" | NAME)
}

/// The pods that wait and may be attempted.
fn pending<'a>(api: &ApiServer, pods: &'a [Arc<Value>]) -> Result<Pending<'a>, Status> {
    let mut pending = Pending::new();
    if !pods.iter().any(|pod| awaits_scheduling(pod)) {
        return Ok(pending);
    }
    let (defaults, groups) = (Defaults::read(api)?, Groups::read(api, pods)?);
    for pod in pods.iter().filter(|pod| awaits_scheduling(pod)) {
        let Some(mut info) = PodInfo::new(pod).filter(|pod| groups.admit(pod) && devices::exist(api, pod)) else {
            continue;
        };
        if info.topology_spread.is_empty() {
            info.default_spread = defaults.spreads_for(pod)?;
        }
        pending.insert(uid(pod), (Arc::new(info), pod));
    }
    Ok(pending)
}

fn cluster(api: &ApiServer, pods: &[Arc<Value>]) -> Result<Cluster, Status> {
    // As in kube-scheduler, a node that is being deleted counts until it is gone.
    let mut nodes: Vec<NodeInfo> = all(api, &NODES)?.iter().filter_map(|node| NodeInfo::new(node)).collect();
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
    let claims = pods.iter().any(|pod| awaits_scheduling(pod) && !list(pod, "/spec/resourceClaims").is_empty());
    let devices = if claims { Devices::read(api)? } else { Devices::default() };
    Ok(Cluster { nodes, namespaces, storage, devices, refused: BTreeSet::new() })
}

impl Scheduler {
    /// Pods with this label and value get no node from now on, or do again: as with a plugin that is not part of Kubernetes, for a reason
    /// that no object states.
    pub fn set_refused(&mut self, key: &str, value: &str, refused: bool) {
        let label = (key.to_owned(), value.to_owned());
        if refused {
            self.refused.insert(label);
        } else {
            self.refused.remove(&label);
        }
    }

    /// From now on it writes so often a second at most; without a limit if that is `None`.
    pub fn set_writes(&mut self, per_second: Option<usize>) {
        self.writes = Writes::new(per_second);
    }

    /// Notes whether a pod waits.
    fn note(&mut self, pod: &Value, exists: bool) {
        let key = (super::object::namespace(pod).to_owned(), super::object::name(pod).to_owned());
        if exists && awaits_scheduling(pod) {
            self.waiting.insert(key);
        } else {
            self.waiting.remove(&key);
        }
    }

    /// Brings the queue to the pods that wait now, and requeues those for which the changes since the last step may matter; all of them
    /// if the changes are not known.
    fn enqueue(&mut self, pending: &Pending<'_>, changes: Option<&[Change]>, now: Timestamp) {
        self.queue.retain(|uid| pending.contains_key(uid));
        if !self.queue.is_empty() {
            let events: Option<Vec<Event>> = changes.map(|changes| changes.iter().flat_map(hints::events).collect());
            self.queue.requeue(now, |uid, rejected_by| {
                let Some((pod, _)) = pending.get(uid) else { return false };
                let may_help = |event: &Event| rejected_by.iter().any(|plugin| event.may_help(*plugin, pod));
                events.as_ref().is_none_or(|events| events.iter().any(may_help))
            });
        }
        for (uid, (pod, _)) in pending {
            if !self.queue.contains(uid) {
                let added = pod.created.unwrap_or(now);
                self.queue.add(uid, QueuedPod::new(&pod.namespace, &pod.name, pod.priority, added));
            }
        }
        self.reported.retain(|uid, _| pending.contains_key(uid.as_str()));
    }

    /// A pod with the others of its PodGroup, in the order of their attempts.
    fn together(
        &mut self,
        first: Attempt,
        attempts: &mut VecDeque<Attempt>,
        pending: &Pending<'_>,
        now: Timestamp,
    ) -> Vec<Attempt> {
        let info = |uid: &str| pending.get(uid).map(|(info, _)| info.clone());
        let Some(pod) = info(&first.0).filter(|pod| pod.group.is_some()) else { return vec![first] };
        let belongs = |uid: &str| info(uid).is_some_and(|other| other.is_of_group(&pod));
        let (others, later): (Vec<Attempt>, Vec<Attempt>) = attempts.drain(..).partition(|(uid, _)| belongs(uid));
        attempts.extend(later);
        let waiting = self.queue.take_with(belongs);
        self.writes.note(waiting.len(), now);
        let mut all: Vec<Attempt> = std::iter::once(first).chain(others).chain(waiting).collect();
        all.sort_by_key(|(uid, _)| info(uid).map(|pod| (Reverse(pod.priority), pod.created, pod.name.clone())));
        all
    }

    /// Attempts a pod, or the pods of a PodGroup together.
    fn attempt(
        &mut self,
        api: &ApiServer,
        cluster: &mut Cluster,
        pending: &Pending<'_>,
        attempts: Vec<Attempt>,
        now: Timestamp,
    ) -> Result<(), Status> {
        let mut results: Vec<(Attempt, &Waiting<'_>, Result<usize, Refused>)> = Vec::new();
        for attempt in attempts {
            let Some(waiting) = pending.get(attempt.0.as_str()) else { continue };
            let result = cluster.place(&waiting.0);
            if let Ok(index) = result {
                cluster.add(index, waiting.0.clone());
            }
            results.push((attempt, waiting, result));
        }
        let group = results.first().and_then(|(_, (info, _), _)| Some((groups::group_of(api, info)?, info.clone())));
        if let Some((group, pod)) = group {
            let complete = groups::is_complete(&group, &pod, cluster) && results.iter().any(|(.., it)| it.is_ok());
            if !complete {
                let placed = results.iter_mut().rev().filter(|(.., result)| result.is_ok());
                placed.for_each(|(_, (info, _), result)| withdraw(cluster, info, result));
            }
            groups::report(api, &group, complete, now)?;
        }
        for ((uid, queued), (info, pod), result) in results {
            match result {
                Ok(index) => {
                    if !info.volume_claims.is_empty() {
                        cluster.provision(api, info, index)?;
                    }
                    cluster.devices.write(api, pod, info)?;
                    self.bind(api, pod, &cluster.nodes[index].name, now)?;
                }
                Err(refused) => {
                    self.refuse(api, pod, &refused, now)?;
                    if refused.clears_nomination {
                        cluster.forget_nomination(info);
                    }
                    self.queue.failed(uid, queued, refused.rejected_by, now);
                }
            }
        }
        Ok(())
    }

    fn bind(&self, api: &ApiServer, pod: &Value, node: &str, now: Timestamp) -> Result<(), Status> {
        let (namespace, name) = (super::object::namespace(pod), super::object::name(pod));
        lenient(api.bind(namespace, name, node))?;
        let message = format!("Successfully assigned {namespace}/{name} to {node}");
        let event = NewEvent { component: NAME, kind: "Normal", reason: "Scheduled", message: &message };
        publish(api, pod, &event, now)
    }

    /// Writes why a pod is unschedulable to its condition, and as an event if that is new or was not reported for five minutes.
    fn refuse(&mut self, api: &ApiServer, pod: &Value, refused: &Refused, now: Timestamp) -> Result<(), Status> {
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
        let reported = self.reported.get(uid(pod));
        if reported.is_some_and(|(last, at)| last == message && after(*at, MAX_UNSCHEDULABLE) > now) {
            return Ok(());
        }
        let event = NewEvent { component: NAME, kind: "Warning", reason: "FailedScheduling", message };
        publish(api, pod, &event, now)?;
        self.reported.insert(uid(pod).to_owned(), (refused.message.clone(), now));
        Ok(())
    }
}
