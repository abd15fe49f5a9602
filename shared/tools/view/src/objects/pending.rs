//! Pods without a node.

use crate::objects::amount::Amount;
use crate::objects::event::{EventFacts, FAILED_SCHEDULING, NOMINATED};
use crate::objects::pod::PodFacts;
use jiff::Timestamp;
use nodeless_model::ResourceList;
use serde::Serialize;
use std::collections::HashMap;

/// A pod without a node.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PendingRow {
    /// The namespace.
    pub namespace: String,
    /// The name.
    pub name: String,
    /// The workload, such as `Deployment shop/web`; `null` without one.
    pub workload: Option<String>,
    /// When it was created.
    pub created: Option<Timestamp>,
    /// The requests.
    pub requests: Amount,
    /// The requests of GPUs and other resources.
    #[serde(skip_serializing_if = "ResourceList::is_empty")]
    pub extended: ResourceList,
    /// Why it has no node, or where it is expected to be scheduled.
    pub reason: String,
    /// The source of the reason: the component of the Event, or `kube-scheduler` for the condition PodScheduled; `null` without one.
    pub reported_by: Option<String>,
    /// Whether an Event nominates a node for the pod.
    pub nominated: bool,
}

impl PendingRow {
    /// `namespace/name`.
    #[must_use]
    pub fn key(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }
}

/// The latest Event about each pod that reports why it has no node.
pub(crate) struct Reasons<'e>(HashMap<(&'e str, &'e str), &'e EventFacts>);

impl<'e> Reasons<'e> {
    pub(crate) fn new(events: impl Iterator<Item = &'e EventFacts>) -> Self {
        let mut latest: HashMap<_, &EventFacts> = HashMap::new();
        for event in events {
            let row = &event.row;
            let nominates = row.reason == NOMINATED && event.is_decision();
            if row.kind != "Pod" || !(nominates || row.reason == FAILED_SCHEDULING) {
                continue;
            }
            let known = latest.entry((row.namespace.as_str(), row.name.as_str())).or_insert(event);
            // kube-scheduler repeats that no node fits; what nodeless reports also states whether one can be launched.
            if (event.is_decision(), row.time) > (known.is_decision(), known.row.time) {
                *known = event;
            }
        }
        Self(latest)
    }

    pub(crate) fn row(&self, pod: &PodFacts) -> PendingRow {
        let event = self.0.get(&(pod.namespace.as_str(), pod.name.as_str())).filter(|_| pod.gates.is_empty());
        let (reason, reported_by) = match event {
            _ if !pod.gates.is_empty() => (format!("scheduling gates: {}", pod.gates.join(", ")), None),
            Some(event) => (event.row.message.clone(), Some(event.component.clone())),
            None => match &pod.unscheduled {
                Some(message) => (message.clone(), Some("kube-scheduler".to_owned())),
                None => ("no scheduler has reported a reason yet".to_owned(), None),
            },
        };
        PendingRow {
            namespace: pod.namespace.clone(),
            name: pod.name.clone(),
            workload: pod.workload.clone(),
            created: pod.created,
            requests: pod.requests,
            extended: pod.extended.clone(),
            reason,
            reported_by,
            nominated: event.is_some_and(|event| event.row.reason == NOMINATED),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::fixtures::{at, cluster, event_value, pod_value};
    use crate::objects::decode::ShownKind;
    use crate::picture::Picture;
    use nodeless_catalog::Catalog;
    use serde_json::{Value, json};

    fn reason(pod: Value, events: Vec<Value>) -> (String, Option<String>, bool) {
        let events = events.into_iter().map(|event| (ShownKind::Event, event));
        let cluster = cluster(&[(ShownKind::Pod, pod)].into_iter().chain(events).collect::<Vec<_>>());
        let row = Picture::new(&cluster, &Catalog::embedded().unwrap(), at(5)).pending.remove(0);
        (row.reason, row.reported_by, row.nominated)
    }

    #[test]
    fn the_reason_is_what_nodeless_reports_and_otherwise_what_the_scheduler_reports() {
        let mut pod = pod_value("web", None);
        assert_eq!(reason(pod.clone(), vec![]).0, "no scheduler has reported a reason yet");
        pod["status"]["conditions"] = json!([
            { "type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3 nodes are available" }
        ]);
        let scheduler = ("0/3 nodes are available".to_owned(), Some("kube-scheduler".to_owned()), false);
        assert_eq!(reason(pod.clone(), vec![]), scheduler);
        let failed = event_value("Pod", "web", "FailedScheduling", "limit of cpu reached");
        let mut later = failed.clone();
        later["metadata"]["name"] = json!("scheduler");
        later["lastTimestamp"] = json!("2026-01-01T00:04:00Z");
        later["reportingComponent"] = json!("default-scheduler");
        let decided = ("limit of cpu reached".to_owned(), Some("nodeless".to_owned()), false);
        assert_eq!(reason(pod.clone(), vec![failed.clone(), later]), decided);
        let mut nominated = event_value("Pod", "web", "Nominated", "Pod should schedule on: nodeclaim/default-a");
        nominated["lastTimestamp"] = json!("2026-01-01T00:04:30Z");
        assert!(reason(pod.clone(), vec![failed.clone(), nominated]).2);
        pod["spec"]["schedulingGates"] = json!([{ "name": "quota" }]);
        assert_eq!(reason(pod, vec![failed]).0, "scheduling gates: quota");
    }
}
