//! DaemonSets: one pod on each eligible node.

use crate::controllers::Controller;
use crate::controllers::feed::Feed;
use crate::controllers::object::{
    all, controller_reference, delete, has_ended, int, is_deleting, list, name, namespace, template_hash, text, uid,
    write_status,
};
use crate::controllers::rollout::scaled;
use crate::controllers::scheduler::{NodeInfo, PodInfo};
use crate::controllers::workload::{Refusal, available_at, create_for, is_ready};
use crate::server::resource::{DAEMON_SETS, NODES, PODS, RESOURCE_QUOTAS, Resource};
use crate::server::{ApiServer, Status};
use jiff::Timestamp;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;

const WATCHED: &[Resource] = &[DAEMON_SETS, NODES, PODS, RESOURCE_QUOTAS];
const HASH_LABEL: &str = "controller-revision-hash";

/// Creates a pod of each DaemonSet on each eligible node.
#[derive(Debug)]
pub struct DaemonSetController {
    feed: Feed,
}

impl Default for DaemonSetController {
    fn default() -> Self {
        Self { feed: Feed::new(WATCHED) }
    }
}

impl Controller for DaemonSetController {
    fn step(&mut self, api: &ApiServer, now: Timestamp) -> Result<(), Status> {
        if !self.feed.look(api, now)? {
            return Ok(());
        }
        let sets = all(api, &DAEMON_SETS)?;
        if sets.is_empty() {
            return Ok(());
        }
        let nodes: Vec<NodeInfo> = all(api, &NODES)?.iter().filter_map(|node| NodeInfo::new(node)).collect();
        for set in sets {
            let next = reconcile(api, &set, &nodes, &api.controlled_pods(uid(&set)), now)?;
            next.into_iter().for_each(|at| self.feed.wake_at(at));
        }
        Ok(())
    }

    fn next_wakeup(&self) -> Option<Timestamp> {
        self.feed.due()
    }
}

/// The pod of a DaemonSet for a node, with the tolerations that every such pod has.
fn pod_for(set: &Value, node: &str, hash: &str) -> Value {
    let mut pod = crate::controllers::workload::pod_of(set, &set["spec"]["template"]);
    pod["metadata"]["generateName"] = json!(format!("{}-", name(set)));
    pod["metadata"]["labels"][HASH_LABEL] = json!(hash);
    pod["metadata"]["ownerReferences"] = json!([controller_reference(set)]);
    let mut tolerations = list(&pod, "/spec/tolerations").to_vec();
    let mut added = vec![
        ("node.kubernetes.io/not-ready", "NoExecute"),
        ("node.kubernetes.io/unreachable", "NoExecute"),
        ("node.kubernetes.io/disk-pressure", "NoSchedule"),
        ("node.kubernetes.io/memory-pressure", "NoSchedule"),
        ("node.kubernetes.io/pid-pressure", "NoSchedule"),
        ("node.kubernetes.io/unschedulable", "NoSchedule"),
    ];
    if pod["spec"]["hostNetwork"] == true {
        added.push(("node.kubernetes.io/network-unavailable", "NoSchedule"));
    }
    for (key, effect) in added {
        tolerations.push(json!({ "key": key, "operator": "Exists", "effect": effect }));
    }
    pod["spec"]["tolerations"] = Value::Array(tolerations);
    let own = json!([{ "key": "metadata.name", "operator": "In", "values": [node] }]);
    let required = "/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms";
    let mut terms = list(&pod, required).to_vec();
    if terms.is_empty() {
        terms.push(json!({}));
    }
    for term in &mut terms {
        term["matchFields"] = own.clone();
    }
    let affinity = &mut pod["spec"]["affinity"]["nodeAffinity"];
    affinity["requiredDuringSchedulingIgnoredDuringExecution"] = json!({ "nodeSelectorTerms": terms });
    pod
}

/// Whether the pod for the node may be scheduled there, regardless of the node's capacity, and whether it may stay there.
fn belongs(pod: Option<&mut PodInfo>, node: &NodeInfo) -> (bool, bool) {
    let Some(pod) = pod else { return (false, false) };
    pod.require_node(&node.name);
    let selected = pod.selects(node);
    (selected && node.first_untolerated(pod, false).is_none(), selected && node.first_untolerated(pod, true).is_none())
}

fn node_of(pod: &Value) -> &str {
    let bound = text(pod, "/spec/nodeName");
    if !bound.is_empty() {
        return bound;
    }
    let required = "/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms/0\
                    /matchFields/0/values/0";
    text(pod, required)
}

fn reconcile(
    api: &ApiServer,
    set: &Value,
    nodes: &[NodeInfo],
    pods: &[Arc<Value>],
    now: Timestamp,
) -> Result<Option<Timestamp>, Status> {
    let hash = template_hash(&set["spec"]["template"]);
    let mut by_node: BTreeMap<&str, Vec<&Arc<Value>>> = BTreeMap::new();
    for pod in pods {
        by_node.entry(node_of(pod)).or_default().push(pod);
    }
    let minimum = int(set, "/spec/minReadySeconds").unwrap_or(0);
    let (mut desired, mut current, mut misscheduled, mut ready, mut available, mut updated) = (0, 0, 0, 0, 0, 0);
    let mut next = None;
    let mut outdated = Vec::new();
    // The pods for all nodes differ only in the node.
    let mut pod_of_any = PodInfo::new(&pod_for(set, "", &hash));
    for node in nodes {
        let own = by_node.remove(node.name.as_str()).unwrap_or_default();
        let (may_come, may_stay) = belongs(pod_of_any.as_mut(), node);
        if !may_come {
            misscheduled += i64::from(!own.is_empty());
            if !may_stay {
                remove(api, &own)?;
            }
            continue;
        }
        desired += 1;
        let alive: Vec<_> = own.iter().copied().filter(|pod| !has_ended(pod)).collect();
        remove(api, &own.iter().copied().filter(|pod| has_ended(pod)).collect::<Vec<_>>())?;
        remove(api, alive.get(1..).unwrap_or_default())?;
        let Some(pod) = alive.first() else {
            if !is_deleting(set) && own.is_empty() {
                let pod = pod_for(set, &node.name, &hash);
                create_for(api, set, &PODS, pod, Refusal::new("daemonset-controller"), now)?;
            }
            continue;
        };
        current += 1;
        ready += i64::from(is_ready(pod));
        match available_at(pod, minimum) {
            Some(at) if at <= now => available += 1,
            Some(at) => next = Some(next.map_or(at, |next: Timestamp| next.min(at))),
            None => {}
        }
        if pod["metadata"]["labels"][HASH_LABEL] == hash {
            updated += 1;
        } else {
            outdated.push(*pod);
        }
    }
    // The remaining pods are on deleted nodes.
    for own in by_node.values() {
        remove(api, own)?;
    }
    if text(set, "/spec/updateStrategy/type") != "OnDelete" {
        let rolling = &set["spec"]["updateStrategy"]["rollingUpdate"];
        let may_miss = scaled(rolling.get("maxUnavailable"), desired, true, "1").max(1);
        let spare = usize::try_from(may_miss - (desired - available)).unwrap_or_default();
        replace(api, outdated, spare)?;
    }
    let status = json!({
        "observedGeneration": set["metadata"]["generation"], "desiredNumberScheduled": desired,
        "currentNumberScheduled": current, "numberMisscheduled": misscheduled, "numberReady": ready,
        "numberAvailable": available, "numberUnavailable": desired - available, "updatedNumberScheduled": updated,
    });
    write_status(api, &DAEMON_SETS, set, status)?;
    Ok(next)
}

/// Removes the outdated pods that are not ready, and this number of those that are.
fn replace(api: &ApiServer, mut outdated: Vec<&Arc<Value>>, spare: usize) -> Result<(), Status> {
    outdated.sort_by_key(|pod| (is_ready(pod), name(pod).to_owned()));
    let broken = outdated.iter().filter(|pod| !is_ready(pod)).count();
    outdated.truncate(broken + spare);
    remove(api, &outdated)
}

fn remove(api: &ApiServer, pods: &[&Arc<Value>]) -> Result<(), Status> {
    for pod in pods.iter().filter(|pod| !is_deleting(pod)) {
        tracing::debug!(pod = name(pod), namespace = namespace(pod), "the DaemonSet removes a pod");
        delete(api, &PODS, pod, None)?;
    }
    Ok(())
}
