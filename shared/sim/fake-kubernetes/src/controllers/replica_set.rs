//! ReplicaSets: the specified number of pods.

use super::Controller;
use super::feed::Feed;
use super::object::{all, delete, int, is_active, is_deleting, list, set_condition, text, time, uid, write_status};
use super::workload::{Counts, OwnedPods, create_pods, is_ready, ready_since};
use crate::server::path::Path as _;
use crate::server::resource::{PODS, REPLICA_SETS, RESOURCE_QUOTAS, Resource};
use crate::server::{ApiServer, Status};
use jiff::Timestamp;
use nodeless_model::labels;
use serde_json::{Value, json};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

const WATCHED: &[Resource] = &[REPLICA_SETS, PODS, RESOURCE_QUOTAS];
/// The condition of a ReplicaSet, and of its Deployment, whose pods cannot be created.
pub(super) const REPLICA_FAILURE: &str = "ReplicaFailure";

/// Maintains the size of ReplicaSets. Pods without a controller are not adopted.
#[derive(Debug)]
pub struct ReplicaSetController {
    feed: Feed,
}

impl Default for ReplicaSetController {
    fn default() -> Self {
        Self { feed: Feed::new(WATCHED) }
    }
}

impl Controller for ReplicaSetController {
    fn step(&mut self, api: &ApiServer, now: Timestamp) -> Result<(), Status> {
        if !self.feed.look(api, now)? {
            return Ok(());
        }
        let pods = OwnedPods::read(api)?;
        for set in all(api, &REPLICA_SETS)? {
            let next = reconcile(api, &set, pods.of(uid(&set)), now)?;
            next.into_iter().for_each(|at| self.feed.wake_at(at));
        }
        Ok(())
    }

    fn next_wakeup(&self) -> Option<Timestamp> {
        self.feed.due()
    }
}

fn reconcile(api: &ApiServer, set: &Value, pods: &[Arc<Value>], now: Timestamp) -> Result<Option<Timestamp>, Status> {
    let desired = int(set, "/spec/replicas").unwrap_or(1);
    let active: Vec<&Arc<Value>> = pods.iter().filter(|pod| is_active(pod)).collect();
    let present = i64::try_from(active.len()).unwrap_or(i64::MAX);
    let mut refused = None;
    if !is_deleting(set) {
        if present < desired {
            let missing = usize::try_from(desired - present).unwrap_or_default();
            refused = create_pods(api, set, missing, "replicaset-controller", now)?;
        } else if present > desired {
            let surplus = usize::try_from(present - desired).unwrap_or_default();
            for pod in victims(&active).into_iter().take(surplus) {
                delete(api, &PODS, pod, None)?;
            }
        }
    }
    let counts = Counts::of(pods, int(set, "/spec/minReadySeconds").unwrap_or(0), now);
    let mut status = json!({
        "replicas": counts.active, "fullyLabeledReplicas": counts.active,
        "observedGeneration": set["metadata"]["generation"],
    });
    // Kubernetes omits zero values.
    for (field, count) in [("readyReplicas", counts.ready), ("availableReplicas", counts.available)] {
        if count > 0 {
            status[field] = json!(count);
        }
    }
    let mut conditions = list(set, "/status/conditions").to_vec();
    match refused {
        // The first error stays: the next one differs in the generated name of the pod.
        Some(error) if !conditions.iter().any(|it| it["type"] == REPLICA_FAILURE) => {
            set_condition(&mut conditions, REPLICA_FAILURE, "True", "FailedCreate", &error, now);
        }
        Some(_) => {}
        None => conditions.retain(|it| it["type"] != REPLICA_FAILURE),
    }
    if !conditions.is_empty() {
        status["conditions"] = Value::Array(conditions);
    }
    write_status(api, &REPLICA_SETS, set, status)?;
    Ok(counts.next_available)
}

/// Pods in the order in which a smaller ReplicaSet deletes them: those without a node first, then pending, then not ready, then
/// of lower deletion cost, then those with more siblings on their node, then those that were ready for less time, then the
/// younger.
pub(super) fn victims<'a>(pods: &[&'a Arc<Value>]) -> Vec<&'a Arc<Value>> {
    let mut on_node: BTreeMap<&str, usize> = BTreeMap::new();
    for pod in pods {
        *on_node.entry(text(pod, "/spec/nodeName")).or_default() += 1;
    }
    let mut sorted = pods.to_vec();
    sorted.sort_by_key(|pod| {
        let node = text(pod, "/spec/nodeName");
        let phase = match text(pod, "/status/phase") {
            "Pending" | "" => 0,
            "Unknown" => 1,
            _ => 2,
        };
        let cost = pod.at("/metadata/annotations").and_then(|all| all.get(labels::POD_DELETION_COST));
        let cost: i32 = cost.and_then(Value::as_str).and_then(|cost| cost.parse().ok()).unwrap_or(0);
        (
            !node.is_empty(),
            phase,
            is_ready(pod),
            cost,
            Reverse(on_node.get(node).copied().unwrap_or_default()),
            Reverse(ready_since(pod)),
            Reverse(time(pod, "/metadata/creationTimestamp")),
            text(pod, "/metadata/name").to_owned(),
        )
    });
    sorted
}
