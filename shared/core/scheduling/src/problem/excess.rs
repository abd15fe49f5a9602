//! The maximum number of constraints of one pod.
//!
//! A plan takes work in proportion to the square of the number of a pod's constraints, and Kubernetes limits only the size of an
//! object, to 1.5 MiB, which permits thousands of them. A pod with more than the maximum is left out, so that it does not use up
//! the work of the others.

use nodeless_model::{LabelSelector, Pod, ResourceList};
use std::fmt;

/// The maximum number of a pod's constraints of each kind. Pods of common charts and operators have fewer than ten.
pub const MAX_CONSTRAINTS: usize = 100;

/// The maximum number of conditions of a pod: entries of the node selector, expressions of node affinity, and entries and
/// expressions of all label selectors.
pub const MAX_CONDITIONS: usize = 1_000;

/// The maximum number of values in a pod's conditions. A list of all instance types of a region has fewer than 1,000.
pub const MAX_VALUES: usize = 10_000;

/// A kind of constraint of which a pod has too many.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Excess {
    /// Topology spread constraints.
    TopologySpread,
    /// Pod affinity and anti-affinity terms, required and preferred.
    PodAffinity,
    /// Node affinity terms, required and preferred.
    NodeAffinity,
    /// Tolerations.
    Tolerations,
    /// Resources that it requests.
    Resources,
    /// Conditions: see [`MAX_CONDITIONS`].
    Conditions,
    /// Values in its conditions.
    Values,
    /// Required node affinity terms, each with each of the places where its volumes can be used.
    VolumeTopologies,
}

impl Excess {
    /// The maximum for a pod.
    #[must_use]
    pub const fn limit(self) -> usize {
        match self {
            Self::TopologySpread | Self::PodAffinity | Self::NodeAffinity | Self::Tolerations | Self::Resources => {
                MAX_CONSTRAINTS
            }
            Self::Conditions | Self::VolumeTopologies => MAX_CONDITIONS,
            Self::Values => MAX_VALUES,
        }
    }
}

impl fmt::Display for Excess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::TopologySpread => "topology spread constraints",
            Self::PodAffinity => "pod affinity and anti-affinity terms",
            Self::NodeAffinity => "node affinity terms",
            Self::Tolerations => "tolerations",
            Self::Resources => "requested resources",
            Self::Conditions => "conditions in its node selector, affinity and label selectors",
            Self::Values => "values in its node affinity and label selectors",
            Self::VolumeTopologies => "combinations of node affinity terms and topologies of its volumes",
        })
    }
}

/// The first kind of constraints of which a pod has too many, and how many it has.
pub(crate) fn excess(pod: &Pod) -> Option<(Excess, usize)> {
    let size = Size::new(pod);
    let all = [
        (Excess::TopologySpread, pod.template.topology_spread.len()),
        (Excess::PodAffinity, pod_affinity_terms(pod)),
        (Excess::NodeAffinity, pod.template.required_node_affinity.len() + pod.template.preferred_node_affinity.len()),
        (Excess::Tolerations, pod.template.tolerations.len()),
        (Excess::Resources, pod.template.next_requests().iter().count()),
        (Excess::Conditions, size.conditions),
        (Excess::Values, size.values),
    ];
    all.into_iter().find(|(excess, count)| *count > excess.limit())
}

/// Whether a list of resources belongs to a pod with too many.
pub(crate) fn has_too_many(requests: &ResourceList) -> bool {
    requests.iter().count() > Excess::Resources.limit()
}

/// The number of a pod's terms of affinity and anti-affinity to other pods.
pub(crate) fn pod_affinity_terms(pod: &Pod) -> usize {
    pod.template.required_pod_affinity.len()
        + pod.template.required_pod_anti_affinity.len()
        + pod.template.preferred_pod_affinity.len()
        + pod.template.preferred_pod_anti_affinity.len()
}

/// The conditions of a pod, and their values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Size {
    conditions: usize,
    values: usize,
}

impl Size {
    fn new(pod: &Pod) -> Self {
        let mut size = Self { conditions: pod.template.node_selector.len(), values: 0 };
        let preferred = pod.template.preferred_node_affinity.iter().map(|term| &term.preference);
        for condition in pod.template.required_node_affinity.iter().chain(preferred).flatten() {
            size.conditions += 1;
            size.values += condition.values.len();
        }
        for spread in &pod.template.topology_spread {
            size.conditions += spread.match_label_keys.len();
            size.add_selector(spread.selector.as_ref());
        }
        let preferred = pod.template.preferred_pod_affinity.iter().chain(&pod.template.preferred_pod_anti_affinity);
        let required = pod.template.required_pod_affinity.iter().chain(&pod.template.required_pod_anti_affinity);
        for term in required.chain(preferred.map(|weighted| &weighted.preference)) {
            size.conditions += term.match_label_keys.len() + term.mismatch_label_keys.len();
            size.values += term.namespaces.len();
            size.add_selector(term.selector.as_ref());
            size.add_selector(term.namespace_selector.as_ref());
        }
        size
    }

    fn add_selector(&mut self, selector: Option<&LabelSelector>) {
        let Some(selector) = selector else { return };
        self.conditions += selector.match_labels.len() + selector.match_expressions.len();
        self.values += selector.match_expressions.iter().map(|expression| expression.values.len()).sum::<usize>();
    }
}
