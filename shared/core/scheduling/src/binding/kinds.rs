//! The running pods by their labels, so that each selector is compared with each set of labels once.

use super::preference::Preference;
use nodeless_model::{Pod, StringMap};
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
    /// Kinds that prefer to be near other pods, or away from them.
    preferring: Vec<usize>,
}

/// The namespace and labels of a workload's pods, without those that differ between the pods of a StatefulSet.
pub(super) type Workload<'a> = (&'a str, Vec<(&'a str, &'a str)>);

const PER_POD: [&str; 2] = ["statefulset.kubernetes.io/pod-name", "apps.kubernetes.io/pod-index"];

/// The workload of a pod to which the default constraints of `PodTopologySpread` apply: upstream by the selectors of its Services
/// and its controller, here by all labels of the pods that these controllers make.
pub(super) fn workload(pod: &Pod) -> Option<Workload<'_>> {
    let controlled = matches!(pod.owner_kind.as_deref(), Some("ReplicaSet" | "StatefulSet" | "ReplicationController"));
    let labels = pod.labels.iter().filter(|(key, _)| !PER_POD.contains(&key.as_str()));
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
            let key = (pod.namespace.as_str(), &pod.labels, Preference::of(pod).collect::<Vec<_>>());
            let id = match ids.get(&key) {
                Some(id) => *id,
                None => {
                    let id = kinds.list.len();
                    kinds.add(pod, !key.2.is_empty());
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

    fn add(&mut self, pod: &'a Pod, prefers: bool) {
        let id = self.list.len();
        self.list.push(Kind { example: pod, at: Vec::new() });
        self.by_namespace.entry(&pod.namespace).or_default().push(id);
        if let Some(workload) = workload(pod) {
            self.by_workload.entry(workload).or_default().push(id);
        }
        if prefers {
            self.preferring.push(id);
        }
    }

    pub(super) fn in_namespace(&self, namespace: &str) -> impl Iterator<Item = &Kind<'a>> {
        self.by_namespace.get(namespace).into_iter().flatten().map(|id| &self.list[*id])
    }

    pub(super) fn of_workload<'k>(
        &'k self,
        workload: &Workload<'k>,
    ) -> impl Iterator<Item = &'k Kind<'a>> + use<'k, 'a> {
        let ids: &'k [usize] = self.by_workload.get(workload).map_or(&[], |ids| &ids[..]);
        ids.iter().map(|id| &self.list[*id])
    }

    pub(super) fn preferring(&self) -> impl Iterator<Item = &Kind<'a>> {
        self.preferring.iter().map(|id| &self.list[*id])
    }
}
