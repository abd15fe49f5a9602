//! The terms of a pod's affinity that score nodes.

use crate::constraints::groups::Group;
use crate::problem::excess::{self, MAX_CONSTRAINTS};
use nodeless_model::Pod;
use nodeless_model::pod::PodAffinityTerm;

/// `hardPodAffinityWeight`: required affinity of a running pod is a preference of this weight for pods that it selects.
const REQUIRED: i64 = 1;

/// A term of a pod and the score of a node for each pod there that it selects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Preference<'a> {
    pub(super) term: &'a PodAffinityTerm,
    pub(super) weight: i64,
    /// Whether the term is the pod's own preference. Otherwise it is required of the pod's own node and counts only for other
    /// pods.
    pub(super) own: bool,
}

impl<'a> Preference<'a> {
    /// All terms of a pod that score nodes. Pods with too many constraints have none here, so that they take no work.
    pub(super) fn of_pod(pod: &'a Pod) -> impl Iterator<Item = Self> {
        let near = pod.template.preferred_pod_affinity.iter().map(|one| (&one.preference, i64::from(one.weight), true));
        let away =
            pod.template.preferred_pod_anti_affinity.iter().map(|one| (&one.preference, -i64::from(one.weight), true));
        let required = pod.template.required_pod_affinity.iter().map(|term| (term, REQUIRED, false));
        let most = if excess::pod_affinity_terms(pod) > MAX_CONSTRAINTS { 0 } else { MAX_CONSTRAINTS };
        near.chain(away).chain(required).take(most).map(|(term, weight, own)| Self { term, weight, own })
    }
}

/// A [`Preference`] with the group of pods that its term selects.
#[derive(Clone, Debug)]
pub(super) struct Scoring {
    pub(super) group: Group,
    pub(super) weight: i64,
    pub(super) own: bool,
}

impl Scoring {
    /// All terms of a pod that score nodes.
    pub(super) fn of_pod(pod: &Pod) -> Vec<Self> {
        let scoring =
            |one: Preference<'_>| Self { group: Group::of_term(pod, one.term), weight: one.weight, own: one.own };
        Preference::of_pod(pod).map(scoring).collect()
    }
}
