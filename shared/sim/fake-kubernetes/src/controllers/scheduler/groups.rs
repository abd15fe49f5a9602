//! PodGroups: pods that are attempted together, and bound together or not at all (`schedule_one_podgroup.go` and the plugin
//! `GangScheduling` of kube-scheduler 1.36).
//!
//! A pod is not attempted, and gets no condition, before its PodGroup exists and has `gang.minCount` pods. An attempt of one pod is one of
//! all pods of its group that wait. Pods that fit are bound if there are then `gang.minCount` pods with nodes.

use super::cluster::Cluster;
use super::info::PodInfo;
use crate::controllers::object::{
    all, has_ended, int, is_true, list, name, namespace, set_condition, text, write_status,
};
use crate::server::path::Path as _;
use crate::server::resource::{POD_GROUPS, PODS};
use crate::server::{ApiServer, Status};
use jiff::Timestamp;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Why pods that fit are not bound.
pub(super) const WAITING: &str = "waiting for minCount pods from a gang to be scheduled";
const GROUP_OF_POD: &str = "/spec/schedulingGroup/podGroupName";

/// The PodGroups, by namespace and name, each with the number of its pods.
#[derive(Debug, Default)]
pub(super) struct Groups {
    groups: BTreeMap<(String, String), (Arc<Value>, usize)>,
}

impl Groups {
    /// The PodGroups, if one of these pods has one.
    pub(super) fn read(api: &ApiServer, pods: &[Arc<Value>]) -> Result<Self, Status> {
        let mut groups = BTreeMap::new();
        if !pods.iter().any(|pod| pod.at(GROUP_OF_POD).is_some()) {
            return Ok(Self { groups });
        }
        for group in all(api, &POD_GROUPS)? {
            groups.insert((namespace(&group).to_owned(), name(&group).to_owned()), (group, 0));
        }
        for pod in all(api, &PODS)?.iter().filter(|pod| !has_ended(pod)) {
            let key = (namespace(pod).to_owned(), text(pod, GROUP_OF_POD).to_owned());
            groups.entry(key).and_modify(|(_, pods)| *pods += 1);
        }
        Ok(Self { groups })
    }

    /// Whether a pod may be attempted.
    pub(super) fn admit(&self, pod: &PodInfo) -> bool {
        let Some(group) = &pod.group else { return true };
        let found = self.groups.get(&(pod.namespace.clone(), group.clone()));
        found.is_some_and(|(group, pods)| *pods >= least(group))
    }
}

/// The number of pods that are bound together.
fn least(group: &Value) -> usize {
    int(group, "/spec/schedulingPolicy/gang/minCount").and_then(|count| usize::try_from(count).ok()).unwrap_or(0)
}

/// The PodGroup of a pod, if it is there.
pub(super) fn group_of(api: &ApiServer, pod: &PodInfo) -> Option<Arc<Value>> {
    api.get(&POD_GROUPS, &pod.namespace, pod.group.as_ref()?).ok()
}

/// Whether so many pods of the group have nodes that they are bound.
pub(super) fn is_complete(group: &Value, pod: &PodInfo, cluster: &Cluster) -> bool {
    let pods = cluster.nodes.iter().flat_map(|node| &node.pods);
    pods.filter(|other| other.is_of_group(pod)).count() >= least(group)
}

/// Writes whether a group is scheduled, unless it was already.
pub(super) fn report(api: &ApiServer, group: &Value, scheduled: bool, now: Timestamp) -> Result<(), Status> {
    const KIND: &str = "PodGroupScheduled";
    if !scheduled && is_true(group, KIND) {
        return Ok(());
    }
    let mut conditions = list(group, "/status/conditions").to_vec();
    let (status, reason) = if scheduled { ("True", "Scheduled") } else { ("False", "Unschedulable") };
    set_condition(&mut conditions, KIND, status, reason, "", now);
    // Conditions of this kind have a message in any case.
    for condition in conditions.iter_mut().filter(|condition| condition.get("message").is_none()) {
        condition["message"] = json!("");
    }
    let mut status = group["status"].as_object().cloned().unwrap_or_default();
    status.insert("conditions".to_owned(), Value::Array(conditions));
    write_status(api, &POD_GROUPS, group, Value::Object(status))
}
