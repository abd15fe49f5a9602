//! Functions that the workload controllers share.

use crate::controllers::object::{
    NewEvent, controller_reference, create, is_active, is_true, name, namespace, publish, time,
};
use crate::server::resource::{PODS, Resource};
use crate::server::{ApiServer, Status};
use jiff::Timestamp;
use serde_json::{Value, json};
use std::sync::Arc;

/// A pod from the template of its controller, without a name.
pub(in crate::controllers) fn pod_of(owner: &Value, template: &Value) -> Value {
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

/// How a controller reports that an object for one of its own cannot be created.
#[derive(Clone, Copy)]
pub(in crate::controllers) struct Refusal<'a> {
    pub(in crate::controllers) component: &'a str,
    pub(in crate::controllers) reason: &'a str,
    /// What comes before the error in the message of the event.
    pub(in crate::controllers) before: &'a str,
}

impl<'a> Refusal<'a> {
    /// The report of most controllers.
    pub(in crate::controllers) const fn new(component: &'a str) -> Self {
        Self { component, reason: "FailedCreate", before: "Error creating: " }
    }
}

/// Creates an object for its owner. If the API server refuses it, for example because of a quota, an event about the owner states why, and
/// the next step tries again. Returns the error of the refusal.
pub(in crate::controllers) fn create_for(
    api: &ApiServer,
    owner: &Value,
    resource: &Resource,
    object: Value,
    refusal: Refusal<'_>,
    now: Timestamp,
) -> Result<Option<String>, Status> {
    match create(api, resource, object) {
        Err(refused) if matches!(refused.code, 403 | 422) => {
            let Refusal { component, reason, before } = refusal;
            let message = format!("{before}{refused}");
            publish(api, owner, &NewEvent { component, kind: "Warning", reason, message: &message }, now)?;
            Ok(Some(refused.to_string()))
        }
        other => other.map(|()| None),
    }
}

/// Creates this number of pods with generated names, until one is refused. Returns the error of the refusal.
pub(in crate::controllers) fn create_pods(
    api: &ApiServer,
    owner: &Value,
    count: usize,
    component: &str,
    now: Timestamp,
) -> Result<Option<String>, Status> {
    for _ in 0..count {
        let mut pod = pod_of(owner, &owner["spec"]["template"]);
        pod["metadata"]["generateName"] = json!(format!("{}-", name(owner)));
        if let Some(refused) = create_for(api, owner, &PODS, pod, Refusal::new(component), now)? {
            return Ok(Some(refused));
        }
    }
    Ok(None)
}

/// Whether a pod is ready.
pub(in crate::controllers) fn is_ready(pod: &Value) -> bool {
    is_true(pod, "Ready")
}

/// Since when a pod is ready.
pub(in crate::controllers) fn ready_since(pod: &Value) -> Option<Timestamp> {
    let condition =
        crate::controllers::object::condition(pod, "Ready").filter(|condition| condition["status"] == "True")?;
    time(condition, "/lastTransitionTime")
}

/// When a ready pod becomes available; `None` if it is not ready.
pub(in crate::controllers) fn available_at(pod: &Value, minimum_ready_seconds: i64) -> Option<Timestamp> {
    ready_since(pod).map(|since| crate::controllers::object::after(since, minimum_ready_seconds))
}

/// How many of the pods are active, ready and available, and when the next one becomes available.
#[derive(Debug, Default, PartialEq, Eq)]
pub(in crate::controllers) struct Counts {
    pub(in crate::controllers) active: i64,
    pub(in crate::controllers) ready: i64,
    pub(in crate::controllers) available: i64,
    pub(in crate::controllers) next_available: Option<Timestamp>,
}

impl Counts {
    pub(in crate::controllers) fn new<'a>(
        pods: impl IntoIterator<Item = &'a Arc<Value>>,
        minimum_ready_seconds: i64,
        now: Timestamp,
    ) -> Self {
        let mut counts = Self::default();
        for pod in pods.into_iter().filter(|pod| is_active(pod)) {
            counts.active += 1;
            available_at(pod, minimum_ready_seconds).into_iter().for_each(|at| counts.add_ready(1, at, now));
        }
        counts
    }

    /// Counts ready pods that become available at a time.
    pub(in crate::controllers) fn add_ready(&mut self, pods: i64, available_at: Timestamp, now: Timestamp) {
        self.ready += pods;
        if available_at <= now {
            self.available += pods;
        } else {
            self.next_available = Some(self.next_available.map_or(available_at, |next| next.min(available_at)));
        }
    }
}
