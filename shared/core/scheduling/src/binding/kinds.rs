//! The running pods by their labels, so that each selector is compared with each set of labels once.

use super::preference::{Preference, Scoring};
use nodeless_model::{LabelSelector, Pod, StringMap};
use std::collections::HashMap;

/// Running pods with the same namespace, labels and preferences for other pods.
#[derive(Debug)]
pub(super) struct Kind<'a> {
    pub(super) example: &'a Pod,
    /// The number of these pods by node, ascending.
    pub(super) at: Vec<(usize, i64)>,
}

/// All kinds.
#[derive(Debug, Default)]
pub(super) struct Kinds<'a> {
    pub(super) list: Vec<Kind<'a>>,
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

/// The kinds that a selector may select.
#[derive(Clone, Copy)]
pub(super) enum Selectable<'k, 'a> {
    All(&'k [Kind<'a>]),
    /// Those with these indices.
    Some(&'k [usize], &'k [Kind<'a>]),
}

impl<'k, 'a> Selectable<'k, 'a> {
    pub(super) fn iter(self) -> impl Iterator<Item = &'k Kind<'a>> + use<'k, 'a> {
        let (all, ids, list): (&'k [Kind<'a>], &'k [usize], &'k [Kind<'a>]) = match self {
            Self::All(list) => (list, &[], &[]),
            Self::Some(ids, list) => (&[], ids, list),
        };
        all.iter().chain(ids.iter().map(|id| &list[*id]))
    }
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
    /// The pods of nodes, by the node's index.
    pub(super) fn of(nodes: impl Iterator<Item = (usize, &'a Pod)>) -> Self {
        let mut kinds = Self::default();
        let mut ids: HashMap<(&'a str, &'a StringMap, Vec<Preference<'a>>), usize> = HashMap::new();
        for (node, pod) in nodes.filter(|(_, pod)| pod.is_active()) {
            let key = (pod.namespace.as_str(), &pod.template.labels, Preference::of(pod).collect::<Vec<_>>());
            let id = match ids.get(&key) {
                Some(id) => *id,
                None => {
                    let id = kinds.list.len();
                    kinds.add(pod);
                    ids.insert(key, id);
                    id
                }
            };
            let at = &mut kinds.list[id].at;
            match at.last_mut() {
                Some((last, count)) if *last == node => *count += 1,
                _ => at.push((node, 1)),
            }
        }
        kinds
    }

    fn add(&mut self, pod: &'a Pod) {
        let id = self.list.len();
        self.list.push(Kind { example: pod, at: Vec::new() });
        self.by_namespace.entry(&pod.namespace).or_default().push(id);
        if let Some(workload) = workload(pod) {
            self.by_workload.entry(workload).or_default().push(id);
        }
        for (key, value) in &pod.template.labels {
            self.by_label.entry((key, value)).or_default().push(id);
        }
        for term in Scoring::of(pod) {
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
    }

    /// The kinds that a selector may select, in one namespace or in all: at least these, by the rarest of the labels that it requires.
    pub(super) fn selectable<'k>(
        &'k self,
        namespace: Option<&str>,
        selector: Option<&'k LabelSelector>,
    ) -> Selectable<'k, 'a> {
        let Some(selector) = selector else { return Selectable::Some(&[], &self.list) };
        let labels = selector.match_labels.iter();
        let by_label = labels.map(|(key, value)| listed(self.by_label.get(&(key.as_str(), value.as_str()))));
        let by_namespace = namespace.map(|namespace| listed(self.by_namespace.get(namespace)));
        match by_label.chain(by_namespace).min_by_key(|ids| ids.len()) {
            Some(ids) => Selectable::Some(ids, &self.list),
            None => Selectable::All(&self.list),
        }
    }

    /// The terms that may select a pod, each with its kind.
    pub(super) fn scoring(&self, pod: &Pod) -> impl Iterator<Item = (&Kind<'a>, &Scoring)> {
        let by_label = pod.template.labels.iter().filter_map(|(key, value)| {
            if self.terms_by_label.is_empty() {
                return None;
            }
            self.terms_by_label.get(&(key.clone(), value.clone()))
        });
        let places: Vec<usize> = by_label.flatten().chain(&self.other_terms).copied().collect();
        places.into_iter().map(|place| {
            let (kind, term) = &self.terms[place];
            (&self.list[*kind], term)
        })
    }

    pub(super) fn of_workload<'k>(
        &'k self,
        workload: &Workload<'k>,
    ) -> impl Iterator<Item = &'k Kind<'a>> + use<'k, 'a> {
        let ids: &'k [usize] = self.by_workload.get(workload).map_or(&[], |ids| &ids[..]);
        ids.iter().map(|id| &self.list[*id])
    }
}
