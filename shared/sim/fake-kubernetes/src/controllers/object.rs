//! Reads and writes objects as JSON.

pub(super) use crate::server::controller_uid;
use crate::server::path::Path as _;
pub(crate) use crate::server::path::text;
use crate::server::resource::EVENTS;
use crate::server::{ApiServer, CreateOptions, DeleteOptions, Resource, Status, UpdateOptions};
use crate::server::{ListOptions, PatchOptions, PatchType};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use std::sync::Arc;

/// The number at a path.
pub(super) fn int(object: &Value, pointer: &str) -> Option<i64> {
    object.at(pointer).and_then(Value::as_i64)
}

/// The list at a path; empty if there is none.
pub(super) fn list<'a>(object: &'a Value, pointer: &str) -> &'a [Value] {
    object.at(pointer).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

/// The time at a path.
pub(super) fn time(object: &Value, pointer: &str) -> Option<Timestamp> {
    text(object, pointer).parse().ok()
}

/// A time in the form of Kubernetes' `Time`: whole seconds.
pub(crate) fn seconds(at: Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// The time after this number of seconds.
pub(super) fn after(at: Timestamp, seconds: i64) -> Timestamp {
    at.saturating_add(SignedDuration::from_secs(seconds)).unwrap_or(Timestamp::MAX)
}

pub(super) fn name(object: &Value) -> &str {
    text(object, "/metadata/name")
}

pub(super) fn namespace(object: &Value) -> &str {
    text(object, "/metadata/namespace")
}

/// The uid; empty if there is none.
pub fn uid(object: &Value) -> &str {
    text(object, "/metadata/uid")
}

/// Whether the object is being deleted.
pub fn is_deleting(object: &Value) -> bool {
    object.at("/metadata/deletionTimestamp").is_some()
}

/// A condition of the status.
pub(super) fn condition<'a>(object: &'a Value, kind: &str) -> Option<&'a Value> {
    list(object, "/status/conditions").iter().find(|condition| condition["type"] == kind)
}

/// Whether a condition is `True`.
pub(super) fn is_true(object: &Value, kind: &str) -> bool {
    condition(object, kind).is_some_and(|condition| condition["status"] == "True")
}

/// Whether a pod has ended.
pub(super) fn has_ended(pod: &Value) -> bool {
    matches!(text(pod, "/status/phase"), "Succeeded" | "Failed")
}

/// Whether a controller counts a pod as one of its replicas.
pub(super) fn is_active(pod: &Value) -> bool {
    !has_ended(pod) && !is_deleting(pod)
}

/// The reference to the object that controls this one.
pub(super) fn controller_of(object: &Value) -> Option<&Value> {
    list(object, "/metadata/ownerReferences").iter().find(|owner| owner["controller"] == true)
}

/// A controller reference to `owner`.
pub(super) fn controller_reference(owner: &Value) -> Value {
    json!({
        "apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": name(owner), "uid": uid(owner),
        "controller": true, "blockOwnerDeletion": true,
    })
}

/// Sets a condition. Its transition time changes only with its status.
pub(super) fn set_condition(
    conditions: &mut Vec<Value>,
    kind: &str,
    status: &str,
    reason: &str,
    message: &str,
    now: Timestamp,
) {
    let position = conditions.iter().position(|condition| condition["type"] == kind);
    let since = position
        .map(|position| &conditions[position])
        .filter(|condition| condition["status"] == status)
        .map_or_else(|| json!(seconds(now)), |condition| condition["lastTransitionTime"].clone());
    let mut condition = json!({ "type": kind, "status": status, "lastTransitionTime": since });
    for (key, value) in [("reason", reason), ("message", message)] {
        if !value.is_empty() {
            condition[key] = json!(value);
        }
    }
    match position {
        Some(position) => conditions[position] = condition,
        None => conditions.push(condition),
    }
}

/// A hash that is the same for the same parts: FNV-1a in 64 bits.
pub(crate) fn digest(parts: &[&str]) -> u64 {
    let bytes = parts.iter().flat_map(|part| part.bytes().chain([0]));
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

/// Ten letters and digits for a pod template, as in the names of ReplicaSets. They never form a word.
pub(super) fn template_hash(template: &Value) -> String {
    const ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
    let mut number = digest(&[&template.to_string()]);
    let mut hash = String::new();
    for _ in 0..10 {
        let index = usize::try_from(number % ALPHABET.len() as u64).unwrap_or_default();
        hash.push(char::from(ALPHABET[index]));
        number /= ALPHABET.len() as u64;
    }
    hash
}

/// Ignores conflicts and missing objects: the next step reads the objects again.
pub(super) fn lenient<T>(result: Result<T, Status>) -> Result<(), Status> {
    match result {
        Err(error) if !matches!(error.code, 404 | 409) => Err(error),
        _ => Ok(()),
    }
}

/// All objects of a resource.
pub(super) fn all(api: &ApiServer, resource: &Resource) -> Result<Vec<Arc<Value>>, Status> {
    api.list(resource, &ListOptions::default()).map(|list| list.items)
}

/// Creates an object. If it exists, or its namespace is being deleted, that is no error.
pub(super) fn create(api: &ApiServer, resource: &Resource, object: Value) -> Result<(), Status> {
    match api.create(resource, object, &CreateOptions::default()) {
        Err(error) if error.code == 403 && error.causes.iter().any(|it| it.reason == "NamespaceTerminating") => Ok(()),
        other => lenient(other),
    }
}

/// Replaces an object.
pub(super) fn update(api: &ApiServer, resource: &Resource, object: Value) -> Result<(), Status> {
    lenient(api.update(resource, object, &UpdateOptions::default()))
}

/// Writes the status, if it differs.
pub(super) fn write_status(api: &ApiServer, resource: &Resource, object: &Value, status: Value) -> Result<(), Status> {
    if object["status"] == status {
        return Ok(());
    }
    let mut changed = object.clone();
    changed["status"] = status;
    lenient(api.update_status(resource, changed, &UpdateOptions::default()))
}

/// Deletes an object in the version that was read; `grace` is for pods.
pub(super) fn delete(api: &ApiServer, resource: &Resource, object: &Value, grace: Option<i64>) -> Result<(), Status> {
    let mut options = DeleteOptions { grace_period_seconds: grace, ..DeleteOptions::default() };
    options.preconditions.uid = Some(uid(object).to_owned());
    lenient(api.delete(resource, namespace(object), name(object), &options))
}

/// An event about an object.
#[derive(Clone, Copy, Debug)]
pub struct NewEvent<'a> {
    /// The component that reports it, such as `default-scheduler`.
    pub component: &'a str,
    /// `Normal` or `Warning`.
    pub kind: &'a str,
    /// The reason, such as `FailedScheduling`.
    pub reason: &'a str,
    /// The message.
    pub message: &'a str,
}

/// Publishes an event about an object. Publishing the same event again increases its count.
///
/// # Errors
/// When the API server rejects the event, for example because its namespace does not exist.
pub fn publish(api: &ApiServer, about: &Value, event: &NewEvent<'_>, now: Timestamp) -> Result<(), Status> {
    let own = namespace(about);
    let place = if own.is_empty() { "default" } else { own };
    let number = digest(&[uid(about), event.component, event.kind, event.reason, event.message]);
    let event_name = format!("{}.{number:016x}", name(about));
    if let Ok(present) = api.get(&EVENTS, place, &event_name) {
        let count = int(&present, "/count").unwrap_or(1) + 1;
        let patch = json!({ "count": count, "lastTimestamp": seconds(now) });
        let options = PatchOptions::default();
        return lenient(api.patch(&EVENTS, place, &event_name, None, PatchType::Merge, &patch, &options));
    }
    let mut involved = json!({
        "apiVersion": about["apiVersion"], "kind": about["kind"], "name": name(about), "uid": uid(about),
        "resourceVersion": about["metadata"]["resourceVersion"],
    });
    if !own.is_empty() {
        involved["namespace"] = json!(own);
    }
    let event = json!({
        "apiVersion": "v1", "kind": "Event", "metadata": { "name": event_name, "namespace": place },
        "involvedObject": involved, "type": event.kind, "reason": event.reason, "message": event.message,
        "firstTimestamp": seconds(now), "lastTimestamp": seconds(now), "count": 1,
        "source": { "component": event.component }, "reportingComponent": event.component, "reportingInstance": "",
    });
    create(api, &EVENTS, event)
}
