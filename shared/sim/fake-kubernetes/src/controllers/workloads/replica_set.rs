//! ReplicaSets: the specified number of pods.

use crate::controllers::Controller;
use crate::controllers::creations::Creations;
use crate::controllers::feed::{Feed, Work};
use crate::controllers::object::{
    after, all, controller_uid, delete, int, is_active, is_deleting, list, name, namespace, set_condition, text, time,
    uid, write_status,
};
use crate::controllers::workload::{Counts, create_pods, is_ready, ready_since};
use crate::server::path::Path as _;
use crate::server::resource::{PODS, REPLICA_SETS, RESOURCE_QUOTAS, Resource};
use crate::server::{ApiServer, ChangeKind, Status};
use jiff::Timestamp;
use nodeless_model::labels;
use serde_json::{Value, json};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

const WATCHED: &[Resource] = &[REPLICA_SETS, PODS, RESOURCE_QUOTAS];
/// The condition of a ReplicaSet, and of its Deployment, whose pods cannot be created.
pub(in crate::controllers) const REPLICA_FAILURE: &str = "ReplicaFailure";

/// The deletion costs of pods by the name of their node, for measurements. They take the place of the annotations of these pods.
pub type DeletionCosts = fn(&ApiServer, Timestamp) -> BTreeMap<String, i32>;

/// Maintains the size of ReplicaSets. Pods without a controller are not adopted.
#[derive(Debug)]
pub struct ReplicaSetController {
    feed: Feed,
    pods: ActivePods,
    pub(in crate::controllers) creations: Creations,
    /// Where the deletion costs of pods are not those of their annotations.
    pub deletion_costs: Option<DeletionCosts>,
}

impl Default for ReplicaSetController {
    fn default() -> Self {
        Self {
            feed: Feed::new(WATCHED),
            pods: ActivePods::default(),
            creations: Creations::default(),
            deletion_costs: None,
        }
    }
}

impl Controller for ReplicaSetController {
    fn step(&mut self, api: &ApiServer, now: Timestamp) -> Result<(), Status> {
        match self.feed.work(api, now)? {
            Work::Nothing => return Ok(()),
            Work::Changes(changes) => {
                for change in changes.iter().filter(|change| change.resource == PODS) {
                    self.pods.note(&change.object, change.kind != ChangeKind::Deleted);
                }
            }
            Work::Everything => {
                self.pods = ActivePods::default();
                all(api, &PODS)?.iter().for_each(|pod| self.pods.note(pod, true));
            }
        }
        let sets = all(api, &REPLICA_SETS)?;
        self.creations.retain(sets.iter().filter(|set| !is_deleting(set)).map(|set| uid(set).to_owned()));
        for set in sets {
            let next = self.reconcile(api, &set, now)?;
            next.into_iter().for_each(|at| self.feed.wake_at(at));
        }
        self.creations.next().into_iter().for_each(|at| self.feed.wake_at(at));
        Ok(())
    }

    fn next_wakeup(&self) -> Option<Timestamp> {
        self.feed.due()
    }
}

/// The active pods that have a controller, counted by it: a change of one pod is no reason to read all pods of its ReplicaSet.
#[derive(Debug, Default)]
struct ActivePods {
    /// By namespace and name: the uid of the controller, and since when the pod is ready.
    pods: BTreeMap<(String, String), (String, Option<Timestamp>)>,
    /// By the uid of the controller: the number of pods, and of those that have been ready since each time.
    counts: BTreeMap<String, (i64, BTreeMap<Timestamp, i64>)>,
}

impl ActivePods {
    /// Notes a pod as it is now, or that it exists no more.
    fn note(&mut self, pod: &Value, exists: bool) {
        let key = (namespace(pod).to_owned(), name(pod).to_owned());
        if let Some((owner, since)) = self.pods.remove(&key) {
            self.count(&owner, since, -1);
        }
        let owner = controller_uid(pod);
        if exists && is_active(pod) && !owner.is_empty() {
            let since = ready_since(pod);
            self.count(owner, since, 1);
            self.pods.insert(key, (owner.to_owned(), since));
        }
    }

    fn count(&mut self, owner: &str, ready_since: Option<Timestamp>, pods: i64) {
        let (active, ready) = self.counts.entry(owner.to_owned()).or_default();
        *active += pods;
        if let Some(since) = ready_since {
            let since_then = ready.entry(since).or_default();
            *since_then += pods;
            if *since_then == 0 {
                ready.remove(&since);
            }
        }
        if *active == 0 {
            self.counts.remove(owner);
        }
    }

    fn counts_of(&self, owner: &str, minimum_ready_seconds: i64, now: Timestamp) -> Counts {
        let mut counts = Counts::default();
        let Some((active, ready)) = self.counts.get(owner) else { return counts };
        counts.active = *active;
        for (since, pods) in ready {
            counts.add_ready(*pods, after(*since, minimum_ready_seconds), now);
        }
        counts
    }
}

impl ReplicaSetController {
    fn reconcile(&mut self, api: &ApiServer, set: &Value, now: Timestamp) -> Result<Option<Timestamp>, Status> {
        let desired = int(set, "/spec/replicas").unwrap_or(1);
        let counts = self.pods.counts_of(uid(set), int(set, "/spec/minReadySeconds").unwrap_or(0), now);
        let present = counts.active;
        let mut refused = None;
        if !is_deleting(set) {
            let missing = usize::try_from(desired - present).unwrap_or_default();
            let created = self.creations.take(uid(set), missing, now);
            if created > 0 {
                refused = create_pods(api, set, created, "replicaset-controller", now)?;
            }
            if refused.is_some() {
                self.creations.refused(uid(set));
            }
            if present > desired {
                let pods = api.controlled_pods(uid(set));
                let active: Vec<&Arc<Value>> = pods.iter().filter(|pod| is_active(pod)).collect();
                // Others may have deleted pods meanwhile.
                let surplus = active.len().saturating_sub(usize::try_from(desired).unwrap_or_default());
                let costs = self.deletion_costs.map(|of_nodes| of_nodes(api, now)).unwrap_or_default();
                for pod in victims(&active, &related(api, set)?, &costs, now).into_iter().take(surplus) {
                    delete(api, &PODS, pod, None)?;
                }
            }
        }
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
}

/// The active pods of all ReplicaSets of the Deployment of a ReplicaSet.
fn related(api: &ApiServer, set: &Value) -> Result<Vec<Arc<Value>>, Status> {
    let owner = controller_uid(set);
    let of_owner = |other: &Value| uid(other) == uid(set) || (!owner.is_empty() && controller_uid(other) == owner);
    let sets = all(api, &REPLICA_SETS)?;
    let pods = sets.iter().filter(|other| of_owner(other)).flat_map(|other| api.controlled_pods(uid(other)));
    Ok(pods.filter(|pod| is_active(pod)).collect())
}

/// Pods in the order in which a smaller ReplicaSet deletes them, as in `ActivePodsWithRanks` of Kubernetes: those without a node first, then
/// pending, then not ready, then of lower deletion cost, then those with more related pods on their node, then those that have been ready for
/// less time, or exist for less. Times of the same power of two of nanoseconds count as equal (`LogarithmicScaleDown`): of these pods, the uid
/// decides. No container restarts here.
fn victims<'a>(
    pods: &[&'a Arc<Value>],
    related: &[Arc<Value>],
    costs: &BTreeMap<String, i32>,
    now: Timestamp,
) -> Vec<&'a Arc<Value>> {
    let mut on_node: BTreeMap<&str, usize> = BTreeMap::new();
    for pod in related {
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
        let annotated = cost.and_then(Value::as_str).and_then(|cost| cost.parse().ok());
        let cost: i32 = costs.get(node).copied().or(annotated).unwrap_or(0);
        (
            !node.is_empty(),
            phase,
            is_ready(pod),
            cost,
            Reverse(on_node.get(node).copied().unwrap_or_default()),
            ready_since(pod).or_else(|| time(pod, "/metadata/creationTimestamp")).map(|since| power_of_two(since, now)),
            uid(pod).to_owned(),
        )
    });
    sorted
}

/// The power of two of the nanoseconds since a time; `None` if none have passed.
fn power_of_two(since: Timestamp, now: Timestamp) -> Option<u32> {
    u128::try_from(now.duration_since(since).as_nanos()).ok().and_then(u128::checked_ilog2)
}
