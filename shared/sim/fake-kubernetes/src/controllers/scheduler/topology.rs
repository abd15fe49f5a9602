//! Topology spread constraints, and required affinity and anti-affinity between pods.

use super::cluster::Cluster;
use super::info::{NodeInfo, PodInfo};
use super::spec::{NodeInclusionPolicy, PodTerm, TopologySpread, WhenUnsatisfiable};
use nodeless_model::{LabelSelector, StringMap};
use std::collections::BTreeMap;

/// A spread constraint of a pod, counted over the cluster.
pub(super) struct Spread<'a> {
    constraint: &'a TopologySpread,
    /// The number of matching pods by domain, over the eligible nodes.
    domains: BTreeMap<String, i64>,
    /// 1 if the constraint selects the pod itself, 0 otherwise.
    own: i64,
}

/// Whether a selector matches another pod whose label values equal those of the pod for the keys in `same` and differ for those in
/// `different`.
fn selects(
    selector: Option<&LabelSelector>,
    pod: &PodInfo,
    same: &[String],
    different: &[String],
    other: &PodInfo,
) -> bool {
    let equal = |key: &String, value: &String| other.labels.get(key) == Some(value);
    selector.is_some_and(|selector| selector.matches(&other.labels))
        && same.iter().all(|key| pod.labels.get(key).is_none_or(|value| equal(key, value)))
        && different.iter().all(|key| pod.labels.get(key).is_none_or(|value| !equal(key, value)))
}

/// Counts all spread constraints of a pod.
pub(super) fn spreads<'a>(cluster: &Cluster, pod: &'a PodInfo) -> Vec<Spread<'a>> {
    pod.topology_spread.iter().map(|constraint| count(cluster, pod, constraint)).collect()
}

fn count<'a>(cluster: &Cluster, pod: &PodInfo, constraint: &'a TopologySpread) -> Spread<'a> {
    let keys: Vec<&String> = pod.topology_spread.iter().filter(|it| it.is_hard()).map(|it| &it.topology_key).collect();
    let mut domains: BTreeMap<String, i64> = BTreeMap::new();
    for node in &cluster.nodes {
        let counts = keys.iter().all(|key| node.labels.contains_key(*key)) && constraint.includes(pod, node);
        let Some(domain) = node.labels.get(&constraint.topology_key).filter(|_| counts) else { continue };
        *domains.entry(domain.clone()).or_default() += constraint.matching_pods(pod, node);
    }
    Spread { constraint, domains, own: i64::from(constraint.matches(pod, pod)) }
}

impl TopologySpread {
    pub(super) fn is_hard(&self) -> bool {
        self.when_unsatisfiable == WhenUnsatisfiable::DoNotSchedule
    }

    /// Whether nodes with taints that the pod does not tolerate are left out.
    pub(super) fn honors_taints(&self) -> bool {
        self.node_taints_policy == Some(NodeInclusionPolicy::Honor)
    }

    /// Whether the pods of a node count, by the policies for node affinity and taints.
    pub(super) fn includes(&self, pod: &PodInfo, node: &NodeInfo) -> bool {
        let honors_affinity = self.node_affinity_policy != Some(NodeInclusionPolicy::Ignore);
        (!honors_affinity || pod.selects(node))
            && (!self.honors_taints() || node.first_untolerated(pod, false).is_none())
    }

    /// Whether the constraint counts another pod.
    pub(super) fn matches(&self, pod: &PodInfo, other: &PodInfo) -> bool {
        other.namespace == pod.namespace
            && selects(self.label_selector.as_ref(), pod, &self.match_label_keys, &[], other)
    }

    /// The number of matching pods of a node. An empty selector counts none, although it matches all (`countPodsMatchSelector`).
    pub(super) fn matching_pods(&self, pod: &PodInfo, node: &NodeInfo) -> i64 {
        let no_keys = !self.match_label_keys.iter().any(|key| pod.labels.contains_key(key));
        let is_empty = |it: &LabelSelector| it.match_labels.is_empty() && it.match_expressions.is_empty();
        if no_keys && self.label_selector.as_ref().is_none_or(is_empty) {
            return 0;
        }
        let matching = node.pods.iter().filter(|other| !other.is_terminating && self.matches(pod, other));
        i64::try_from(matching.count()).unwrap_or(i64::MAX)
    }
}

impl Spread<'_> {
    /// The number of matching pods in a node's domain.
    fn neighbours(&self, node: &NodeInfo) -> i64 {
        let domain = node.labels.get(&self.constraint.topology_key);
        domain.and_then(|domain| self.domains.get(domain)).copied().unwrap_or(0)
    }
}

/// Why the pod's hard spread constraints exclude a node, if they do.
pub(super) fn against_spread(node: &NodeInfo, spreads: &[Spread<'_>]) -> Option<&'static str> {
    for spread in spreads.iter().filter(|spread| spread.constraint.is_hard()) {
        if !node.labels.contains_key(&spread.constraint.topology_key) {
            return Some("node(s) didn't match pod topology spread constraints (missing required label)");
        }
        let min_domains = spread.constraint.min_domains.unwrap_or(1);
        let least =
            if spread.domains.len() < min_domains { 0 } else { spread.domains.values().copied().min().unwrap_or(0) };
        if spread.neighbours(node) + spread.own - least > spread.constraint.max_skew {
            return Some("node(s) didn't match pod topology spread constraints");
        }
    }
    None
}

/// Why required affinity and anti-affinity, of the pod itself and of existing pods, exclude a node, if they do.
pub(super) fn against_affinity(cluster: &Cluster, pod: &PodInfo, node: &NodeInfo) -> Option<&'static str> {
    if pod.attracted.iter().any(|term| !attracted(cluster, pod, term, node)) {
        return Some("node(s) didn't match pod affinity rules");
    }
    if pod
        .repelled
        .iter()
        .any(|term| neighbours(cluster, node, &term.topology_key).any(|other| meant(cluster, pod, term, other)))
    {
        return Some("node(s) didn't match pod anti-affinity rules");
    }
    let repelled =
        cluster.nodes.iter().flat_map(|other| other.pods.iter().map(move |it| (other, it))).any(|(place, other)| {
            other.repelled.iter().any(|term| {
                let shared = node.labels.get(&term.topology_key);
                shared.is_some() && shared == place.labels.get(&term.topology_key) && meant(cluster, other, term, pod)
            })
        });
    repelled.then_some("node(s) didn't satisfy existing pods anti-affinity rules")
}

/// Whether an affinity term is met on a node: a matching pod is in its domain, or there is no matching pod anywhere and the pod
/// matches its own term, so that the first of a group can start.
fn attracted(cluster: &Cluster, pod: &PodInfo, term: &PodTerm, node: &NodeInfo) -> bool {
    if !node.labels.contains_key(&term.topology_key) {
        return false;
    }
    let mut near = neighbours(cluster, node, &term.topology_key);
    if near.any(|other| meant(cluster, pod, term, other)) {
        return true;
    }
    let mut everyone = cluster.nodes.iter().flat_map(|node| &node.pods);
    !everyone.any(|other| meant(cluster, pod, term, other)) && meant(cluster, pod, term, pod)
}

/// The pods in a node's domain.
fn neighbours<'a>(cluster: &'a Cluster, node: &'a NodeInfo, key: &'a str) -> impl Iterator<Item = &'a PodInfo> {
    let domain = node.labels.get(key);
    let near = cluster.nodes.iter().filter(move |other| domain.is_some() && other.labels.get(key) == domain);
    near.flat_map(|other| &other.pods).map(AsRef::as_ref)
}

/// Whether a term of one pod matches another.
pub(super) fn meant(cluster: &Cluster, pod: &PodInfo, term: &PodTerm, other: &PodInfo) -> bool {
    meant_in(cluster.namespaces.get(&other.namespace), pod, term, other)
}

/// [`meant`], with the labels of the other pod's namespace, if it exists.
pub(super) fn meant_in(namespace: Option<&StringMap>, pod: &PodInfo, term: &PodTerm, other: &PodInfo) -> bool {
    let everywhere = term.namespaces.is_empty() && term.namespace_selector.is_none();
    let in_namespace = if everywhere {
        other.namespace == pod.namespace
    } else {
        let selects = |selector: &LabelSelector| namespace.is_some_and(|labels| selector.matches(labels));
        term.namespace_selector.as_ref().is_some_and(selects) || term.namespaces.contains(&other.namespace)
    };
    in_namespace && selects(term.label_selector.as_ref(), pod, &term.match_label_keys, &term.mismatch_label_keys, other)
}
