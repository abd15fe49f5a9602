//! Functions that the workload controllers share.

use super::object::{all, controller_reference, controller_uid, create, is_active, is_true, name, namespace, time};
use crate::server::resource::PODS;
use crate::server::{ApiServer, Status};
use jiff::Timestamp;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;

/// All pods, by the uid of their controller.
pub(super) struct OwnedPods(BTreeMap<String, Vec<Arc<Value>>>);

impl OwnedPods {
    /// Reads all pods.
    pub(super) fn read(api: &ApiServer) -> Result<Self, Status> {
        let mut owned: BTreeMap<String, Vec<Arc<Value>>> = BTreeMap::new();
        for pod in all(api, &PODS)? {
            owned.entry(controller_uid(&pod).to_owned()).or_default().push(pod);
        }
        Ok(Self(owned))
    }

    /// The pods of a controller, in the order of their names.
    pub(super) fn of(&self, uid: &str) -> &[Arc<Value>] {
        self.0.get(uid).map(Vec::as_slice).unwrap_or_default()
    }
}

/// A pod from the template of its controller, without a name.
pub(super) fn pod_of(owner: &Value, template: &Value) -> Value {
    let mut metadata = json!({
        "namespace": namespace(owner), "ownerReferences": [controller_reference(owner)],
    });
    for field in ["labels", "annotations", "finalizers"] {
        if let Some(value) = template["metadata"].get(field).filter(|value| !value.is_null()) {
            metadata[field] = value.clone();
        }
    }
    json!({ "apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"] })
}

/// Creates this number of pods with generated names.
pub(super) fn create_pods(api: &ApiServer, owner: &Value, count: usize) -> Result<(), Status> {
    for _ in 0..count {
        let mut pod = pod_of(owner, &owner["spec"]["template"]);
        pod["metadata"]["generateName"] = json!(format!("{}-", name(owner)));
        create(api, &PODS, pod)?;
    }
    Ok(())
}

/// Whether a pod is ready.
pub(super) fn is_ready(pod: &Value) -> bool {
    is_true(pod, "Ready")
}

/// Since when a pod is ready.
pub(super) fn ready_since(pod: &Value) -> Option<Timestamp> {
    let condition = super::object::condition(pod, "Ready").filter(|condition| condition["status"] == "True")?;
    time(condition, "/lastTransitionTime")
}

/// When a ready pod becomes available; `None` if it is not ready.
pub(super) fn available_at(pod: &Value, minimum_ready_seconds: i64) -> Option<Timestamp> {
    ready_since(pod).map(|since| super::object::after(since, minimum_ready_seconds))
}

/// How many of the pods are active, ready and available, and when the next one becomes available.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) active: i64,
    pub(super) ready: i64,
    pub(super) available: i64,
    pub(super) next_available: Option<Timestamp>,
}

impl Counts {
    pub(super) fn of<'a>(
        pods: impl IntoIterator<Item = &'a Arc<Value>>,
        minimum_ready_seconds: i64,
        now: Timestamp,
    ) -> Self {
        let mut counts = Self::default();
        for pod in pods.into_iter().filter(|pod| is_active(pod)) {
            counts.active += 1;
            let Some(at) = available_at(pod, minimum_ready_seconds) else { continue };
            counts.ready += 1;
            if at <= now {
                counts.available += 1;
            } else {
                counts.next_available = Some(counts.next_available.map_or(at, |next| next.min(at)));
            }
        }
        counts
    }
}
