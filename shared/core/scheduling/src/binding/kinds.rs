//! Pods by their labels, so that each selector is compared with each set of labels once.

use super::preference::{Preference, Scoring};
use nodeless_model::hashed::HashMap;
use nodeless_model::{ByTemplate, LabelSelector, Pod, StringMap};

/// Pods with the same namespace, labels and preferences for other pods.
#[derive(Debug)]
pub(super) struct PodKind<'a> {
    pub(super) example: &'a Pod,
    /// The number of these pods by place, ascending.
    pub(super) at: Vec<(usize, i64)>,
}

/// All kinds.
#[derive(Debug, Default)]
pub(super) struct Kinds<'a> {
    pub(super) list: Vec<PodKind<'a>>,
    by_namespace: HashMap<&'a str, Vec<usize>>,
    by_workload: HashMap<Workload<'a>, Vec<usize>>,
    /// By a label and its value.
    by_label: HashMap<(&'a str, &'a str), Vec<usize>>,
    /// The terms of kinds that prefer to be near other pods, or away from them.
    terms: Vec<(usize, Scoring)>,
    /// Terms by a label and value that they require, so that a pod is compared with few of them.
    terms_by_label: HashMap<(String, String), Vec<usize>>,
    /// Terms that require no label by its value.
    other_terms: Vec<usize>,
}

fn listed(ids: Option<&Vec<usize>>) -> &[usize] {
    ids.map_or(&[], |ids| &ids[..])
}

/// The namespace and labels of a workload's pods, without those that differ between the pods of a StatefulSet.
pub(super) type Workload<'a> = (&'a str, Vec<(&'a str, &'a str)>);

const PER_POD: [&str; 2] = ["statefulset.kubernetes.io/pod-name", "apps.kubernetes.io/pod-index"];

/// The workload of a pod to which the default constraints of `PodTopologySpread` apply: upstream by the selectors of its Services
/// and its controller, here by all labels of the pods that these controllers make.
pub(super) fn workload(pod: &Pod) -> Option<Workload<'_>> {
    let controlled = matches!(pod.owner_kind.as_deref(), Some("ReplicaSet" | "StatefulSet" | "ReplicationController"));
    let labels = pod.template.labels.iter().filter(|(key, _)| !PER_POD.contains(&key.as_str()));
    let labels: Vec<(&str, &str)> = labels.map(|(key, value)| (key.as_str(), value.as_str())).collect();
    // Upstream, an empty selector counts no pods.
    (controlled && !labels.is_empty()).then_some((pod.namespace.as_str(), labels))
}

impl<'a> Kinds<'a> {
    /// Pods with their places, such as the index of their node, ascending.
    pub(super) fn new(pods: impl Iterator<Item = (usize, &'a Pod)>) -> Self {
        let mut kinds = Self::default();
        let mut ids: HashMap<(&'a str, &'a StringMap, Vec<Preference<'a>>), usize> = HashMap::default();
        let mut known: ByTemplate<'a, usize> = ByTemplate::default();
        for (place, pod) in pods {
            let id = known.get_or_insert_with(pod, || {
                let key = (pod.namespace.as_str(), &pod.template.labels, Preference::of_pod(pod).collect::<Vec<_>>());
                *ids.entry(key).or_insert_with(|| kinds.add(pod))
            });
            let at = &mut kinds.list[id].at;
            match at.last_mut() {
                Some((last, count)) if *last == place => *count += 1,
                _ => at.push((place, 1)),
            }
        }
        kinds
    }

    fn add(&mut self, pod: &'a Pod) -> usize {
        let id = self.list.len();
        self.list.push(PodKind { example: pod, at: Vec::new() });
        self.by_namespace.entry(&pod.namespace).or_default().push(id);
        if let Some(workload) = workload(pod) {
            self.by_workload.entry(workload).or_default().push(id);
        }
        for (key, value) in &pod.template.labels {
            self.by_label.entry((key, value)).or_default().push(id);
        }
        for term in Scoring::of_pod(pod) {
            // A term without a selector selects no pods.
            let Some(selector) = &term.group.selector else { continue };
            let place = self.terms.len();
            match selector.match_labels.first_key_value() {
                Some((key, value)) => {
                    self.terms_by_label.entry((key.clone(), value.clone())).or_default().push(place);
                }
                None => self.other_terms.push(place),
            }
            self.terms.push((id, term));
        }
        id
    }

    /// The kinds that a selector may select, in one namespace or in all: at least these, by the rarest of the labels that it requires.
    pub(super) fn selectable<'k>(
        &'k self,
        namespace: Option<&'k str>,
        selector: Option<&'k LabelSelector>,
    ) -> impl Iterator<Item = usize> + use<'k, 'a> {
        let none: Option<&[usize]> = Some(&[]);
        let ids = selector.map_or(none, |selector| {
            let labels = selector.match_labels.iter();
            let by_label = labels.map(|(key, value)| listed(self.by_label.get(&(key.as_str(), value.as_str()))));
            let by_namespace = namespace.map(|namespace| listed(self.by_namespace.get(namespace)));
            by_label.chain(by_namespace).min_by_key(|ids| ids.len())
        });
        let all = if ids.is_none() { 0..self.list.len() } else { 0..0 };
        all.chain(ids.into_iter().flatten().copied())
    }

    /// The terms that may select a pod, each with its kind.
    pub(super) fn scoring(&self, pod: &Pod) -> impl Iterator<Item = (usize, &Scoring)> {
        let by_label = pod.template.labels.iter().filter_map(|(key, value)| {
            if self.terms_by_label.is_empty() {
                return None;
            }
            self.terms_by_label.get(&(key.clone(), value.clone()))
        });
        let places: Vec<usize> = by_label.flatten().chain(&self.other_terms).copied().collect();
        places.into_iter().map(|place| {
            let (kind, term) = &self.terms[place];
            (*kind, term)
        })
    }

    pub(super) fn of_workload<'k>(&'k self, workload: &Workload<'k>) -> &'k [usize] {
        listed(self.by_workload.get(workload))
    }
}
