//! Checks effects when they happen: evictions, deletions of pods and terminations of instances, against PodDisruptionBudgets,
//! whose healthy pods are counted here, and the order of drains.

use super::{
    DO_NOT_DISRUPT, DRAIN_ORDER, MINIMUM_DRAIN, MISSING, POD_DISRUPTION_BUDGETS as PDB_INVARIANT, STOPS, VOLUMES,
    Violation, condition, drains, text,
};
use jiff::{SignedDuration, Timestamp};
use nodeless_fake_aws::Ec2;
use nodeless_fake_kubernetes::resource::{
    DEPLOYMENTS, NODES, PERSISTENT_VOLUME_CLAIMS, POD_DISRUPTION_BUDGETS, PODS, STATEFUL_SETS, VOLUME_ATTACHMENTS,
};
use nodeless_fake_kubernetes::{ApiServer, ListOptions, Resource};
use nodeless_model::claim::condition::REGISTERED;
use nodeless_model::claim::{Termination, TerminationReason};
use nodeless_model::{NodeClaim, labels};
use nodeless_world::fault_injection::{Effect, Observer};
use nodeless_world::memory::MemoryState;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The observations so far.
#[derive(Debug, Default)]
pub(crate) struct Observed {
    pub(crate) violations: Vec<Violation>,
    /// Accepted evictions, by the reason of the claim's termination.
    pub(crate) evictions: BTreeMap<String, u64>,
    /// Pods that were deleted forcefully at the end of the termination grace period of their node.
    pub(crate) forced: u64,
    /// The latest effects on the cluster and the account, without those that changed nothing.
    pub(crate) effects: Vec<Effect>,
    /// The pod that is about to be evicted or deleted, before that: a StatefulSet's next pod has the same name.
    about: Option<Arc<Value>>,
}

/// Checks each effect right after it happened.
pub(crate) struct EffectChecks {
    api: ApiServer,
    claims: MemoryState,
    ec2: Ec2,
    /// By how much the clocks of processes may differ from the time.
    skew: SignedDuration,
    observed: Mutex<Observed>,
}

/// Operations without an effect on nodes and pods: messages, events, explanations, the record of the plan that runs. A status that differs changes its object,
/// which is checked too.
const WITHOUT_EFFECT: [&str; 13] = [
    "queue ",
    "cluster publish",
    "cluster node class status",
    "cluster node pool status",
    "claims record decisions",
    "claims begin plan",
    "claims end plan",
    "claims put costs",
    "claims put published events",
    "claims put catalog",
    "claims put launch check",
    "claims put shard",
    "claims acquire lease",
];

/// The maximum number of effects that are kept. They are read while the cluster should be quiescent, when there should be none.
const KEPT: usize = 10_000;

impl EffectChecks {
    pub(crate) fn new(api: ApiServer, claims: MemoryState, ec2: Ec2, skew: SignedDuration) -> Self {
        Self { api, claims, ec2, skew, observed: Mutex::default() }
    }

    pub(crate) fn observed(&self) -> MutexGuard<'_, Observed> {
        self.observed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn violated(&self, at: Timestamp, detail: String) {
        self.report(at, PDB_INVARIANT, detail);
    }

    fn report(&self, at: Timestamp, invariant: &'static str, detail: String) {
        self.observed().violations.push(Violation { at, invariant, detail });
    }

    fn list(&self, resource: &Resource, options: &ListOptions) -> Vec<Arc<Value>> {
        self.api.list(resource, options).map(|list| list.items).unwrap_or_default()
    }

    /// The claim of the node of a pod.
    fn claim_of(&self, pod: &Value) -> Option<NodeClaim> {
        let node = text(pod, "/spec/nodeName");
        self.claims.snapshot().into_iter().find(|claim| claim.status.node_name.as_deref() == Some(node))
    }

    fn evicted(&self, effect: &Effect) {
        let pod = self.pod(&effect.subject);
        let reason = pod.as_deref().and_then(|pod| self.claim_of(pod)).and_then(|claim| claim.status.termination);
        let reason = reason.map_or("unknown", |end| end.reason.as_str());
        *self.observed().evictions.entry(reason.to_owned()).or_default() += 1;
        if pod.as_deref().is_some_and(|pod| pod["metadata"]["annotations"][labels::DO_NOT_DISRUPT] == "true") {
            self.report(effect.at, DO_NOT_DISRUPT, format!("pod {} was evicted", effect.subject));
        }
        // A pod that was being deleted already does not count: the API evicts it regardless of its budget. If the kubelet does
        // not respond, the pod may seem to exist for a long time.
        let before = self.observed().about.take();
        if let Some(pod) = &before
            && let on_node = self.pods_on(text(pod, "/spec/nodeName"))
            && let Some(detail) = drains::before_its_turn(pod, &on_node, effect.at, self.skew)
        {
            self.report(effect.at, DRAIN_ORDER, detail);
        }
        let Some(pod) = before.filter(|pod| is_ready(pod) && !is_leaving(pod)) else { return };
        for budget in self.budgets_of(&pod) {
            let (healthy, desired) = self.healthy_and_desired(&budget);
            if healthy < desired {
                self.violated(effect.at, format!(
                    "pod {} was evicted, and PodDisruptionBudget {} then had {healthy} healthy pods of {desired} that it requires",
                    effect.subject,
                    text(&budget, "/metadata/name"),
                ));
            }
        }
    }

    fn deleted(&self, effect: &Effect) {
        self.observed().forced += 1;
        let before = self.observed().about.take();
        let Some(pod) = before.filter(|_| effect.accepted) else { return };
        // A deletion of a pod that had been replaced already has no effect.
        let same = |now: &Arc<Value>| text(now, "/metadata/uid") == text(&pod, "/metadata/uid") && !is_leaving(now);
        if self.pod(&effect.subject).as_ref().is_some_and(same) {
            return;
        }
        let allowed =
            self.claim_of(&pod).is_some_and(|claim| claim.status.termination.is_some_and(|end| end.deadline.is_some()));
        if !allowed && !self.budgets_of(&pod).is_empty() {
            self.violated(
                effect.at,
                format!(
                    "pod {} was deleted past its budget, though its node has no terminationGracePeriod",
                    effect.subject
                ),
            );
        }
    }

    /// The Node of an instance.
    fn node_of(&self, id: &str) -> Option<Arc<Value>> {
        let nodes = self.list(&NODES, &ListOptions::default());
        nodes.into_iter().find(|node| nodeless_model::node::instance_id(text(node, "/spec/providerID")) == Some(id))
    }

    /// Instances are stopped only while nothing but DaemonSets has pods there.
    fn stopped(&self, effect: &Effect) {
        effect.subject.split(' ').for_each(|id| self.stopped_one(id, effect.at));
    }

    fn stopped_one(&self, id: &str, at: Timestamp) {
        let Some(node) = self.node_of(id) else { return };
        let serves = |pod: &Arc<Value>| {
            let owners = pod.pointer("/metadata/ownerReferences").and_then(Value::as_array);
            let of_node =
                owners.into_iter().flatten().any(|owner| matches!(text(owner, "/kind"), "DaemonSet" | "Node"));
            !of_node && !is_leaving(pod) && !matches!(text(pod, "/status/phase"), "Succeeded" | "Failed")
        };
        if let Some(pod) = self.pods_on(text(&node, "/metadata/name")).iter().find(|pod| serves(pod)) {
            let (namespace, name) = (text(pod, "/metadata/namespace"), text(pod, "/metadata/name"));
            self.report(at, STOPS, format!("instance {id} was stopped while pod {namespace}/{name} ran there"));
        }
    }

    /// An instance is terminated together with the pods that still run there.
    fn terminated(&self, effect: &Effect) {
        for id in effect.subject.split(' ') {
            let Some(node) = self.node_of(id).filter(|node| is_ready(node)) else { continue };
            let claim = self.claims.of_instance(id);
            // A step that ends a claim may have read its Node before another one, whose record did not come, registered it.
            let recorded = claim.as_ref().is_some_and(|claim| claim.has_condition(REGISTERED));
            let end = claim.and_then(|claim| claim.status.termination);
            let timed_out = end.as_ref().is_some_and(|end| end.deadline.is_some_and(|deadline| deadline <= effect.at));
            // An instance that EC2 or a user terminated before does not count.
            if let Some(end) = end.as_ref().filter(|end| end.reason == TerminationReason::InstanceMissing) {
                self.missing(id, &node, end, effect.at);
                continue;
            }
            if let Some(end) = end.filter(|_| recorded && drains::is_registered(&node, effect.at)) {
                self.drained(id, &node, &end, effect.at);
            }
            if timed_out {
                continue;
            }
            for pod in self.pods_on(text(&node, "/metadata/name")) {
                if is_ready(&pod) && !is_leaving(&pod) && !tolerates_all(&pod) && !self.budgets_of(&pod).is_empty() {
                    self.violated(
                        effect.at,
                        format!(
                            "instance {id} was terminated while pod {}/{} with a PodDisruptionBudget ran there",
                            text(&pod, "/metadata/namespace"),
                            text(&pod, "/metadata/name"),
                        ),
                    );
                }
            }
        }
    }

    /// An instance with a ready node is terminated because EC2 did not list it: it must have ended before, or its node was not ready
    /// when that was decided.
    fn missing(&self, id: &str, node: &Value, end: &Termination, at: Timestamp) {
        let ran = self.ec2.instances().iter().any(|instance| instance.id == id && instance.stopped == Some(at));
        let ready = condition(node, "Ready").and_then(|it| it["lastTransitionTime"].as_str()?.parse().ok());
        let known = ready.is_some_and(|since: Timestamp| end.requested.duration_since(since) > drains::KNOWN_AFTER);
        if ran && known {
            self.report(at, MISSING, format!("instance {id} ran, and was terminated because it was not listed"));
        }
    }

    /// The instance of a registered node whose claim is terminated.
    fn drained(&self, id: &str, node: &Value, end: &Termination, at: Timestamp) {
        if let Some(lasted) = drains::too_short(end, at, self.skew) {
            self.report(at, MINIMUM_DRAIN, format!("instance {id} was terminated after a drain of {lasted:#}"));
        }
        let name = text(node, "/metadata/name");
        let attachments = self.list(&VOLUME_ATTACHMENTS, &ListOptions::default());
        let left = drains::left_attached(name, &attachments, &self.mounted_on(name));
        if !left.is_empty() && end.deadline.is_none_or(|deadline| deadline > at) {
            self.report(at, VOLUMES, format!("instance {id} was terminated while {left:?} were attached"));
        }
    }

    /// The PersistentVolumes of the pods on a node.
    fn mounted_on(&self, node: &str) -> BTreeSet<String> {
        let mut volumes = BTreeSet::new();
        for pod in self.pods_on(node) {
            let mounts = pod.pointer("/spec/volumes").and_then(Value::as_array).into_iter().flatten();
            for claim in mounts.map(|mount| text(mount, "/persistentVolumeClaim/claimName")).filter(|it| !it.is_empty())
            {
                let claim = self.api.get(&PERSISTENT_VOLUME_CLAIMS, text(&pod, "/metadata/namespace"), claim);
                volumes.extend(claim.ok().map(|claim| text(&claim, "/spec/volumeName").to_owned()));
            }
        }
        volumes
    }

    fn pods_on(&self, node: &str) -> Vec<Arc<Value>> {
        let fields = format!("spec.nodeName={node}");
        self.list(&PODS, &ListOptions { fields, ..ListOptions::default() })
    }

    fn pod(&self, key: &str) -> Option<Arc<Value>> {
        let (namespace, name) = key.split_once('/')?;
        self.api.get(&PODS, namespace, name).ok()
    }

    fn budgets_of(&self, pod: &Value) -> Vec<Arc<Value>> {
        let budgets = self.list(&POD_DISRUPTION_BUDGETS, &ListOptions::namespace(text(pod, "/metadata/namespace")));
        budgets.into_iter().filter(|budget| selects(budget, pod)).collect()
    }

    /// The number of healthy pods of a budget, and the number that it requires.
    fn healthy_and_desired(&self, budget: &Value) -> (i64, i64) {
        let here = ListOptions::namespace(text(budget, "/metadata/namespace"));
        let pods = self.list(&PODS, &here).into_iter();
        let pods: Vec<Arc<Value>> = pods.filter(|pod| selects(budget, pod)).collect();
        let healthy = pods.iter().filter(|pod| is_ready(pod) && !is_leaving(pod)).count();
        let mut expected = 0;
        for resource in [DEPLOYMENTS, STATEFUL_SETS] {
            for owner in self.list(&resource, &here) {
                let template = &owner["spec"]["template"];
                if selects(budget, template) {
                    expected += owner["spec"]["replicas"].as_i64().unwrap_or(1);
                }
            }
        }
        let share = |value: &Value| match value.as_str().and_then(|text| text.strip_suffix('%')) {
            Some(percent) => (percent.parse::<i64>().unwrap_or(0) * expected + 99) / 100,
            None => value.as_i64().unwrap_or(0),
        };
        let spec = &budget["spec"];
        let desired = match (spec.get("minAvailable"), spec.get("maxUnavailable")) {
            (Some(least), _) => share(least),
            (_, Some(most)) => expected - share(most),
            _ => 0,
        };
        (i64::try_from(healthy).unwrap_or(i64::MAX), desired)
    }
}

impl Observer for EffectChecks {
    fn before(&self, operation: &'static str, subject: &str) {
        if matches!(operation, "cluster evict" | "cluster delete pod") {
            let pod = self.pod(subject);
            self.observed().about = pod;
        }
    }

    fn after(&self, effect: &Effect) {
        match effect.operation {
            "cluster evict" if effect.accepted => self.evicted(effect),
            "cluster delete pod" => self.deleted(effect),
            "cloud terminate" => self.terminated(effect),
            "cloud stop" if effect.accepted => self.stopped(effect),
            _ => {}
        }
        if effect.accepted && !WITHOUT_EFFECT.iter().any(|prefix| effect.operation.starts_with(prefix)) {
            let mut seen = self.observed();
            if seen.effects.len() < KEPT {
                seen.effects.push(effect.clone());
            }
        }
    }
}

/// Whether a budget's selector matches a pod. An empty selector matches all pods, a missing one none.
fn selects(budget: &Value, pod: &Value) -> bool {
    let Some(selector) = budget["spec"]["selector"].as_object() else { return false };
    let labels = &pod["metadata"]["labels"];
    let same = selector.get("matchLabels").and_then(Value::as_object);
    let same = same.into_iter().flatten().all(|(key, value)| labels.get(key) == Some(value));
    let terms = selector.get("matchExpressions").and_then(Value::as_array);
    same && terms.into_iter().flatten().all(|term| {
        let value = labels.get(text(term, "/key"));
        let listed = || term["values"].as_array().is_some_and(|list| value.is_some_and(|value| list.contains(value)));
        match text(term, "/operator") {
            "In" => listed(),
            "NotIn" => !listed(),
            "Exists" => value.is_some(),
            _ => value.is_none(),
        }
    })
}

fn is_ready(object: &Value) -> bool {
    condition(object, "Ready").is_some_and(|ready| ready["status"] == "True")
}

fn is_leaving(pod: &Value) -> bool {
    pod.pointer("/metadata/deletionTimestamp").is_some()
}

/// Whether a pod tolerates every taint and therefore stays on its node to the end, as pods of most DaemonSets do.
fn tolerates_all(pod: &Value) -> bool {
    let tolerations = pod.pointer("/spec/tolerations").and_then(Value::as_array);
    tolerations.into_iter().flatten().any(|it| it["operator"] == "Exists" && it.get("key").is_none())
}
