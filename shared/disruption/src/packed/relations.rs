//! Which pods have to do with where other pods are.

use nodeless_model::Pod;
use nodeless_model::pod::PodAffinityTerm;
use std::collections::HashMap;

/// The required anti-affinity of all pods that run: it keeps others away, whether those know of it or not.
#[derive(Debug, Default)]
pub(crate) struct Repelling<'a> {
    by_namespace: HashMap<&'a str, Vec<&'a PodAffinityTerm>>,
    /// Terms that select namespaces by their labels.
    anywhere: Vec<&'a PodAffinityTerm>,
}

impl<'a> Repelling<'a> {
    pub(crate) fn of(pods: impl Iterator<Item = &'a Pod>) -> Self {
        let mut all = Self::default();
        for pod in pods.filter(|pod| pod.is_active()) {
            for term in &pod.required_pod_anti_affinity {
                if term.namespace_selector.is_some() {
                    push(&mut all.anywhere, term);
                    continue;
                }
                let named = term.namespaces.iter().map(String::as_str);
                let own = term.namespaces.is_empty().then_some(pod.namespace.as_str());
                for namespace in named.chain(own) {
                    push(all.by_namespace.entry(namespace).or_default(), term);
                }
            }
        }
        all
    }

    /// Whether a pod's own required topology constraints, or the anti-affinity of any other, may matter to where it goes.
    /// Rather once too often: what match keys narrow is not looked at.
    pub(crate) fn concern(&self, pod: &Pod) -> bool {
        let own = !pod.required_pod_affinity.is_empty()
            || !pod.required_pod_anti_affinity.is_empty()
            || pod.topology_spread.iter().any(|spread| spread.hard);
        let selects =
            |term: &&&PodAffinityTerm| term.selector.as_ref().is_some_and(|selector| selector.matches(&pod.labels));
        own || self.anywhere.iter().any(|term| selects(&term))
            || self
                .by_namespace
                .get(pod.namespace.as_str())
                .is_some_and(|terms| terms.iter().any(|term| selects(&term)))
    }
}

/// Pods of one workload say the same; most often the last said it too.
fn push<'a>(terms: &mut Vec<&'a PodAffinityTerm>, term: &'a PodAffinityTerm) {
    let recent = terms.iter().rev().take(8);
    if !recent.into_iter().any(|known| *known == term) {
        terms.push(term);
    }
}
