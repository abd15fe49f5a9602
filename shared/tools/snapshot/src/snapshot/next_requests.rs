//! What pods request that are made again: a pod that was resized in place is evicted with other requests than its controller gives to
//! the pod that takes its place.

use crate::created::controllers;
use crate::kinds::PlannedKind;
use crate::manifests::described;
use crate::objects::{Key, Objects};
use crate::workloads::VerticalAutoscaler;
use nodeless_api::limit_ranges::LimitRange;
use nodeless_api::pod_shapes::{ReadShape, RunningPod};
use nodeless_model::{Pod, ResourceList};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A workload by kind, namespace and name.
type Named = (String, String, String);

/// The objects that the requests of pods that are made again follow from.
pub(super) struct NextRequests<'o> {
    shapes: &'o BTreeMap<(&'static str, Key), Result<ReadShape, String>>,
    ranges: Vec<LimitRange>,
    /// By the workload that they aim at.
    autoscalers: BTreeMap<Named, &'o VerticalAutoscaler>,
    /// The result for the pod before, which is often of the same workload.
    last: Option<Last>,
    warnings: BTreeSet<String>,
}

/// A pod, by what its next requests follow from, and these.
struct Last {
    namespace: String,
    owner: [Option<String>; 2],
    running: Arc<RunningPod>,
    requests: Option<ResourceList>,
}

impl Last {
    fn is_of(&self, pod: &Pod, running: &Arc<RunningPod>) -> bool {
        Arc::ptr_eq(&self.running, running)
            && self.namespace == pod.namespace
            && self.owner[0] == pod.owner_kind
            && self.owner[1] == pod.owner_name
    }
}

impl<'o> NextRequests<'o> {
    pub(super) fn new(objects: &'o Objects) -> Self {
        let mut autoscalers: Vec<(&Key, &VerticalAutoscaler)> = objects.vertical_autoscalers.iter().collect();
        // Of several that aim at one workload the oldest applies that is not `Off`. The last one stays in the map.
        autoscalers.sort_by_key(|(key, it)| (it.given.is_some(), Reverse((it.created, *key))));
        let named = |((namespace, _), autoscaler): (&Key, &'o VerticalAutoscaler)| {
            let (kind, name) = autoscaler.target.clone();
            ((kind, namespace.clone(), name), autoscaler)
        };
        Self {
            autoscalers: autoscalers.into_iter().map(named).collect(),
            shapes: &objects.shapes,
            ranges: objects.limit_ranges.values().cloned().collect(),
            last: None,
            warnings: BTreeSet::new(),
        }
    }

    /// Sets them, if they are known and others than those of the pod now.
    pub(super) fn set(&mut self, pod: &mut Pod, running: &Arc<RunningPod>) {
        if !self.last.as_ref().is_some_and(|last| last.is_of(pod, running)) {
            self.last = Some(Last {
                namespace: pod.namespace.clone(),
                owner: [pod.owner_kind.clone(), pod.owner_name.clone()],
                running: Arc::clone(running),
                requests: self.of_pod(pod, running),
            });
        }
        let requests = self.last.as_ref().and_then(|last| last.requests.as_ref());
        if let Some(requests) = requests.filter(|requests| **requests != pod.template.requests) {
            pod.template_mut().requests_again = Some(requests.clone());
        }
    }

    fn of_pod(&mut self, pod: &Pod, running: &RunningPod) -> Option<ResourceList> {
        let workloads = controllers(pod);
        let autoscaler = workloads.iter().find_map(|workload| self.autoscalers.get(workload)).copied();
        if autoscaler.is_none() && running.is_autoscaled {
            // What gave it its requests is not in the input, so it is unknown what the next pod gets.
            return None;
        }
        let recommendation = autoscaler.and_then(|autoscaler| autoscaler.given.as_ref());
        let template = workloads.iter().find_map(|workload| self.template(workload));
        if template.is_none() && recommendation.is_none() {
            return None;
        }
        match running.next_requests(template, recommendation, &self.ranges) {
            Ok(requests) => Some(requests),
            Err(error) => {
                self.warnings.insert(format!("pods like {} count with their requests now: {error}", pod.key()));
                None
            }
        }
    }

    /// The pod of a workload that is in the input.
    fn template(&mut self, workload: &Named) -> Option<&'o ReadShape> {
        let (kind, namespace, name) = workload;
        let known = PlannedKind::new(None, kind)?.name();
        match self.shapes.get(&(known, (namespace.clone(), name.clone())))? {
            Ok(shape) => Some(shape),
            Err(why) => {
                let workload = described(kind, namespace, name);
                self.warnings
                    .insert(format!("{workload} cannot be decoded, so its pods count with their requests now: {why}"));
                None
            }
        }
    }

    pub(super) fn warnings(self) -> BTreeSet<String> {
        self.warnings
    }
}
