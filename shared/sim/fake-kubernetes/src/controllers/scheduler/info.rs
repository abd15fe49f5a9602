//! Nodes and pods as the scheduler compares them.

use super::spec::{self, Affinity, PodTerm, Port, TopologySpread};
use crate::controllers::object::{list, name, text};
use crate::server::path::Path as _;
use jiff::Timestamp;
use nodeless_model::{ResourceList, StringMap, Taint, TaintEffect, Toleration};
use serde::Deserialize as _;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A node and its pods.
#[derive(Debug)]
pub(in crate::controllers) struct NodeInfo {
    pub(in crate::controllers) name: String,
    pub(super) labels: StringMap,
    pub(super) taints: Vec<Taint>,
    pub(super) unschedulable: bool,
    pub(super) allocatable: ResourceList,
    /// The sizes of its images in bytes, by name.
    pub(super) images: BTreeMap<String, i64>,
    pub(super) requested: ResourceList,
    /// The requests of the pods by [`spec::Pod::scored_requests`].
    pub(super) scored: ResourceList,
    pub(super) ports: Vec<Port>,
    pub(super) pods: Vec<Arc<PodInfo>>,
    /// The pods that are not bound and have this node as their `status.nominatedNodeName`.
    pub(super) nominated: Vec<Arc<PodInfo>>,
}

/// A pod, with the terms of its node affinity as they are.
#[derive(Debug)]
pub(in crate::controllers) struct PodInfo {
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) labels: StringMap,
    pub(super) created: Option<Timestamp>,
    pub(super) is_terminating: bool,
    pub(super) priority: i64,
    /// Whether the pod's `preemptionPolicy` is `Never`.
    pub(super) never_preempts: bool,
    pub(super) nominated_node: Option<String>,
    pub(super) requests: ResourceList,
    /// The requests by [`spec::Pod::scored_requests`].
    pub(super) scored_requests: ResourceList,
    pub(super) host_ports: Vec<Port>,
    pub(super) volume_claims: Vec<String>,
    /// The names of its ResourceClaims; `None` for one that is not made yet.
    pub(super) resource_claims: Vec<Option<String>>,
    /// Its PodGroup, in its namespace.
    pub(super) group: Option<String>,
    pub(super) tolerations: Vec<Toleration>,
    node_selector: StringMap,
    pub(super) topology_spread: Vec<TopologySpread>,
    /// The constraints by which nodes are scored if the pod has none; only for pods that wait.
    pub(super) default_spread: Vec<TopologySpread>,
    /// Required terms of pod affinity.
    pub(super) attracted: Vec<PodTerm>,
    /// Required terms of pod anti-affinity.
    pub(super) repelled: Vec<PodTerm>,
    /// The required terms of node affinity, one of which has to match; `None` if the pod has none.
    terms: Option<Vec<Term>>,
    pub(super) preferred: Vec<(i64, Term)>,
    /// Preferred terms of pod affinity with their weights, and of pod anti-affinity with negative weights.
    pub(super) preferred_pods: Vec<(i64, PodTerm)>,
    /// The images of its containers and volumes, with a tag or digest.
    pub(super) images: Vec<String>,
    /// The number of its containers and init containers.
    pub(super) containers: usize,
}

/// All of its parts have to match.
#[derive(Debug)]
pub(super) struct Term {
    expressions: Vec<Expression>,
    fields: Vec<Expression>,
}

#[derive(Debug)]
struct Expression {
    key: String,
    operator: String,
    values: Vec<String>,
}

impl NodeInfo {
    /// A node without pods. A node that cannot be decoded accepts no pods.
    pub(in crate::controllers) fn new(node: &Value) -> Option<Self> {
        let node = match spec::Node::deserialize(node) {
            Ok(node) => node,
            Err(error) => {
                tracing::warn!(node = name(node), %error, "the simulated scheduler cannot read this node");
                return None;
            }
        };
        Some(Self {
            name: node.metadata.name,
            labels: node.metadata.labels,
            taints: node.spec.taints,
            unschedulable: node.spec.unschedulable,
            images: node.status.images.iter().flat_map(|image| image.sizes()).collect(),
            allocatable: node.status.allocatable,
            requested: ResourceList::new(),
            scored: ResourceList::new(),
            ports: Vec::new(),
            pods: Vec::new(),
            nominated: Vec::new(),
        })
    }

    /// Adds a pod.
    pub(super) fn add(&mut self, pod: Arc<PodInfo>) {
        self.requested.add(&pod.requests);
        self.scored.add(&pod.scored_requests);
        self.ports.extend(pod.host_ports.iter().cloned());
        self.pods.push(pod);
    }

    /// Removes the pods that were added last.
    pub(super) fn remove_last(&mut self, pods: &[Arc<PodInfo>]) {
        for pod in pods.iter().rev() {
            self.pods.pop();
            self.requested.subtract(&pod.requests);
            self.scored.subtract(&pod.scored_requests);
            self.ports.truncate(self.ports.len() - pod.host_ports.len());
        }
    }

    /// The pods nominated for this node whose requests count when a pod is filtered: those of no lower priority, other than the pod
    /// itself.
    pub(super) fn nominated_before(&self, pod: &PodInfo) -> Vec<Arc<PodInfo>> {
        let others = self.nominated.iter().filter(|other| other.priority >= pod.priority && !other.is(pod));
        others.cloned().collect()
    }

    /// The first taint that the pod does not tolerate for scheduling or execution.
    pub(in crate::controllers) fn first_untolerated(&self, pod: &PodInfo, executing_only: bool) -> Option<&Taint> {
        self.taints.iter().find(|taint| {
            let counts = match taint.effect {
                TaintEffect::NoExecute => true,
                TaintEffect::NoSchedule => !executing_only,
                TaintEffect::PreferNoSchedule => false,
            };
            counts && !pod.tolerates(taint)
        })
    }
}

impl PodInfo {
    /// A pod. A pod that cannot be decoded is ignored.
    pub(in crate::controllers) fn new(pod: &Value) -> Option<Self> {
        let read = match spec::Pod::deserialize(pod) {
            Ok(read) => read,
            Err(error) => {
                tracing::warn!(pod = name(pod), %error, "the simulated scheduler cannot read this pod");
                return None;
            }
        };
        let affinity = "/spec/affinity/nodeAffinity";
        let required = format!("{affinity}/requiredDuringSchedulingIgnoredDuringExecution");
        let terms = pod
            .at(&required)
            .filter(|it| it.is_object())
            .map(|_| list(pod, &format!("{required}/nodeSelectorTerms")).iter().map(Term::new).collect());
        let preferred = list(pod, &format!("{affinity}/preferredDuringSchedulingIgnoredDuringExecution"));
        let preferred = preferred.iter().map(|it| (it["weight"].as_i64().unwrap_or(1), Term::new(&it["preference"])));
        let preferred = preferred.collect();
        let (requests, host_ports, volume_claims) = (read.requests(), read.host_ports(), read.volume_claims());
        let scored_requests = read.scored_requests();
        let resource_claims = read.resource_claims();
        let (images, containers) = (read.images(), read.containers());
        let Affinity { pod_affinity, pod_anti_affinity } = read.spec.affinity.unwrap_or_default();
        let (near, apart) = (pod_affinity.unwrap_or_default(), pod_anti_affinity.unwrap_or_default());
        let preferred_near = near.preferred.into_iter().map(|it| (it.weight, it.pod_affinity_term));
        let preferred_apart = apart.preferred.into_iter().map(|it| (-it.weight, it.pod_affinity_term));
        Some(Self {
            namespace: read.metadata.namespace,
            name: read.metadata.name,
            labels: read.metadata.labels,
            created: read.metadata.creation_timestamp,
            is_terminating: read.metadata.deletion_timestamp.is_some(),
            priority: read.spec.priority.unwrap_or(0),
            never_preempts: read.spec.preemption_policy.as_deref() == Some("Never"),
            nominated_node: Some(read.status.nominated_node_name).filter(|node| !node.is_empty()),
            requests,
            scored_requests,
            host_ports,
            volume_claims,
            resource_claims,
            group: read.spec.scheduling_group.and_then(|group| group.pod_group_name),
            tolerations: read.spec.tolerations,
            node_selector: read.spec.node_selector,
            topology_spread: read.spec.topology_spread_constraints,
            default_spread: Vec::new(),
            attracted: near.required,
            repelled: apart.required,
            preferred_pods: preferred_near.chain(preferred_apart).collect(),
            images,
            containers,
            terms,
            preferred,
        })
    }

    pub(super) fn is(&self, other: &Self) -> bool {
        self.namespace == other.namespace && self.name == other.name
    }

    /// Whether both are of one PodGroup.
    pub(super) fn is_of_group(&self, other: &Self) -> bool {
        self.group.is_some() && self.group == other.group && self.namespace == other.namespace
    }

    pub(in crate::controllers) fn tolerations(&self) -> &[Toleration] {
        &self.tolerations
    }

    pub(super) fn tolerates(&self, taint: &Taint) -> bool {
        self.tolerations.iter().any(|toleration| toleration.tolerates(taint))
    }

    /// Requires this node in each term of the required node affinity, instead of the fields that the terms require.
    pub(in crate::controllers) fn require_node(&mut self, node: &str) {
        for term in self.terms.iter_mut().flatten() {
            let (key, operator) = ("metadata.name".to_owned(), "In".to_owned());
            term.fields = vec![Expression { key, operator, values: vec![node.to_owned()] }];
        }
    }

    /// Whether node selector and required node affinity match.
    pub(in crate::controllers) fn selects(&self, node: &NodeInfo) -> bool {
        self.node_selector.iter().all(|(key, value)| node.labels.get(key) == Some(value))
            && self.terms.as_ref().is_none_or(|terms| terms.iter().any(|term| term.matches(node)))
    }
}

impl Term {
    pub(super) fn new(term: &Value) -> Self {
        let read = |field: &str| list(term, field).iter().map(Expression::new).collect();
        Self { expressions: read("/matchExpressions"), fields: read("/matchFields") }
    }

    /// A term without any requirement matches nothing.
    pub(super) fn matches(&self, node: &NodeInfo) -> bool {
        !(self.expressions.is_empty() && self.fields.is_empty())
            && self.expressions.iter().all(|it| it.matches(node.labels.get(&it.key).map(String::as_str)))
            && self.fields.iter().all(|it| it.key == "metadata.name" && it.matches(Some(&node.name)))
    }
}

impl Expression {
    fn new(expression: &Value) -> Self {
        let values = list(expression, "/values").iter().filter_map(Value::as_str).map(str::to_owned).collect();
        let part = |field: &str| text(expression, field).to_owned();
        Self { key: part("/key"), operator: part("/operator"), values }
    }

    fn matches(&self, label: Option<&str>) -> bool {
        let among = || label.is_some_and(|label| self.values.iter().any(|value| value == label));
        let numbers = || {
            let number = label?.parse::<i64>().ok()?;
            Some((number, self.values.first()?.parse::<i64>().ok()?))
        };
        match self.operator.as_str() {
            "In" => among(),
            "NotIn" => !among(),
            "Exists" => label.is_some(),
            "DoesNotExist" => label.is_none(),
            "Gt" => numbers().is_some_and(|(own, bound)| own > bound),
            "Lt" => numbers().is_some_and(|(own, bound)| own < bound),
            _ => false,
        }
    }
}
