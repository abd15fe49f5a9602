//! Patches and bindings: writes that are based on the current object.

use crate::server::path::{Path as _, text};
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::definition::Definition;
use super::patch::{PatchType, apply, json as json_patch, merge, strategic};
use super::resource::{PODS, Resource};
use super::status::{FieldError, Status};
use super::store::{ChangeKind, ObjectKey, Store};
use super::time::seconds;
use super::writes::{self, Part, RESIZE, Request};
use super::{conversion, scale, validation};

/// How errors name the parameters of a patch.
const PATCH_OPTIONS: Resource = Resource::new("meta.k8s.io", "v1", "", "PatchOptions", false);

/// Patches an object, or its `status` or `scale`.
#[allow(clippy::too_many_arguments)]
pub(crate) fn patch(
    store: &mut Store,
    definition: &Definition,
    key: &ObjectKey,
    subresource: Option<&str>,
    kind: PatchType,
    patch: &Value,
    force: bool,
    request: Request<'_>,
) -> Result<Arc<Value>, Status> {
    let resource = &definition.resource;
    let (namespace, name) = key;
    let current = store.get(&resource.storage_key(), key).map(|object| conversion::to_version(definition, object));
    if kind == PatchType::Apply {
        check_uid(resource, name, current.as_deref(), patch)?;
        return apply_in(store, definition, key, current.as_deref(), subresource, patch, force, request);
    }
    if force {
        let error = FieldError::forbidden("force", "may not be specified for non-apply patch");
        return Err(Status::invalid(&PATCH_OPTIONS, "", vec![error]));
    }
    let current = current.ok_or_else(|| Status::not_found(resource, name))?;
    let base = match subresource {
        Some("scale") => scale::read(definition, &current)?,
        _ => current.as_ref().clone(),
    };
    let patched = match kind {
        PatchType::Json => json_patch::patch(resource, name, &base, patch)?,
        PatchType::Merge => merge::patch(&base, patch),
        PatchType::Strategic if definition.custom.is_some() => {
            let text = "the body of the request was in an unknown format - accepted media types include: \
                application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml";
            return Err(Status::new(415, "UnsupportedMediaType", text));
        }
        PatchType::Strategic | PatchType::Apply => strategic::patch(definition, &base, patch)?,
    };
    check_uid(resource, name, Some(current.as_ref()), &patched)?;
    let given = text(&patched, "/metadata/namespace");
    if resource.namespaced && given != namespace {
        return Err(Status::bad_request("the namespace of the provided object does not match the namespace sent"));
    }
    let (object, part) = match subresource {
        None => (patched, Part::Object),
        Some("status") if definition.status => (patched, Part::Status),
        Some("scale") => (scale::write(definition, &current, &patched)?, Part::Whole("scale")),
        Some("resize") => (resized(&current, &patched)?, Part::Whole(RESIZE)),
        Some(_) => return Err(Status::method_not_allowed()),
    };
    writes::update(store, definition, key, object, part, request)
}

/// A pod with the resources of the containers of another.
pub(crate) fn resized(current: &Value, given: &Value) -> Result<Value, Status> {
    let (mut pod, errors) = validation::pods::resized(current, given);
    pod["metadata"]["resourceVersion"] = given["metadata"]["resourceVersion"].clone();
    if errors.is_empty() { Ok(pod) } else { Err(Status::invalid(&PODS, text(current, "/metadata/name"), errors)) }
}

/// A patch with the uid of another object. An update with one is a conflict.
fn check_uid(resource: &Resource, name: &str, current: Option<&Value>, patched: &Value) -> Result<(), Status> {
    let given = text(patched, "/metadata/uid");
    if given.is_empty() || current.is_none_or(|current| text(current, "/metadata/uid") == given) {
        return Ok(());
    }
    let error = FieldError::invalid("metadata.uid", &json!(given), "field is immutable");
    Err(Status::invalid(resource, name, vec![error]))
}

#[allow(clippy::too_many_arguments)]
fn apply_in(
    store: &mut Store,
    definition: &Definition,
    key: &ObjectKey,
    current: Option<&Value>,
    subresource: Option<&str>,
    configuration: &Value,
    force: bool,
    request: Request<'_>,
) -> Result<Arc<Value>, Status> {
    let manager = request.manager.filter(|manager| !manager.is_empty()).ok_or_else(|| {
        Status::invalid(&PATCH_OPTIONS, "", vec![FieldError::required("fieldManager", "is required for apply patch")])
    })?;
    let resource = &definition.resource;
    let given = (text(configuration, "/apiVersion"), text(configuration, "/kind"));
    if given != (resource.api_version().as_str(), resource.kind.as_ref()) {
        let text = match given.0.split_once('/') {
            Some(_) => format!("invalid object type: {}, Kind={}", given.0, given.1),
            None => format!("invalid object type: /{}, Kind={}", given.0, given.1),
        };
        return Err(Status::bad_request(text));
    }
    let mut configuration = configuration.clone();
    if let Some(metadata) = configuration["metadata"].as_object_mut() {
        metadata.retain(|_, value| !value.is_null());
    }
    let part = match subresource {
        None => Part::Whole("apply"),
        Some("status") if definition.status => Part::Status,
        Some(_) => return Err(Status::method_not_allowed()),
    };
    let sub = subresource.unwrap_or_default();
    match (definition.status, subresource) {
        (true, None) => {
            configuration.as_object_mut().and_then(|map| map.remove("status"));
        }
        (_, Some(_)) => {
            if let Some(map) = configuration.as_object_mut() {
                map.remove("spec");
            }
        }
        _ => {}
    }
    let writer = apply::Writer { manager, subresource: sub, now: request.now };
    match current {
        Some(current) => {
            let mut merged = apply::apply(definition, current, &configuration, writer, force)?;
            let version = text(&configuration, "/metadata/resourceVersion");
            let version = if version.is_empty() { text(current, "/metadata/resourceVersion") } else { version };
            merged["metadata"]["resourceVersion"] = json!(version);
            let quiet = Request { manager: None, ..request };
            writes::update(store, definition, key, merged, part, quiet)
        }
        None if subresource.is_some() => Err(Status::not_found(resource, &key.1)),
        None => {
            configuration["metadata"]["name"] = json!(key.1);
            if resource.namespaced {
                configuration["metadata"]["namespace"] = json!(key.0);
            }
            let empty = json!({"metadata": {}});
            let merged = apply::apply(definition, &empty, &configuration, writer, force)?;
            writes::create(store, definition, merged, request)
        }
    }
}

/// Binds a pod to the node of a `Binding`, with its annotations.
pub(crate) fn bind(store: &mut Store, key: &ObjectKey, binding: &Value, now: Timestamp) -> Result<(), Status> {
    let definition = store.definition_of(&PODS)?;
    check_binding(key, binding)?;
    let mut pod = store.get(&PODS.storage_key(), key).ok_or_else(|| Status::not_found(&PODS, &key.1))?.as_ref().clone();
    check_bindable(key, binding, &pod)?;
    if let Some(annotations) = binding.at("/metadata/annotations").and_then(Value::as_object) {
        for (name, value) in annotations {
            pod["metadata"]["annotations"][name] = value.clone();
        }
    }
    pod["spec"]["nodeName"] = binding["target"]["name"].clone();
    if let Some(status) = pod["status"].as_object_mut() {
        status.remove("nominatedNodeName");
    }
    let scheduled = json!({"type": "PodScheduled", "status": "True", "lastProbeTime": null,
        "lastTransitionTime": seconds(now)});
    let conditions = pod.at("/status/conditions").and_then(Value::as_array).cloned().unwrap_or_default();
    let mut conditions: Vec<Value> = conditions.into_iter().filter(|it| it["type"] != "PodScheduled").collect();
    conditions.push(scheduled);
    pod["status"]["conditions"] = Value::Array(conditions);
    store.commit(&definition, ChangeKind::Modified, pod);
    Ok(())
}

/// What is invalid in a `Binding` itself. The real server returns its validation as an error of its own, without a reason.
fn check_binding(key: &ObjectKey, binding: &Value) -> Result<(), Status> {
    if text(binding, "/metadata/name") != key.1 {
        return Err(Status::bad_request("name in URL does not match name in Binding object"));
    }
    let kind = text(binding, "/target/kind");
    if !matches!(kind, "" | "Node") {
        let message = format!("target.kind: Unsupported value: {kind:?}: supported values: \"Node\", \"<empty>\"");
        return Err(Status::new(500, "", message));
    }
    if text(binding, "/target/name").is_empty() {
        return Err(Status::new(500, "", "target.name: Required value"));
    }
    Ok(())
}

/// Why a pod cannot be bound.
fn check_bindable(key: &ObjectKey, binding: &Value, pod: &Value) -> Result<(), Status> {
    let (given, own) = (text(binding, "/metadata/uid"), text(pod, "/metadata/uid"));
    if !given.is_empty() && given != own {
        let detail = format!(
            "StorageError: invalid object, Code: 4, Key: /registry/pods/{}/{}, ResourceVersion: 0, AdditionalErrorMsg: \
             Precondition failed: UID in precondition: {given}, UID in object meta: {own}",
            key.0, key.1
        );
        return Err(Status::conflict(&PODS, &key.1, &detail));
    }
    let subject = Resource { plural: "pods/binding".into(), ..PODS };
    let refuse = |detail: String| Err(Status::conflict(&subject, &key.1, &detail));
    if pod.at("/metadata/deletionTimestamp").is_some() {
        return refuse(format!("pod {} is being deleted, cannot be assigned to a host", key.1));
    }
    let current = text(pod, "/spec/nodeName");
    if !current.is_empty() {
        return refuse(format!("pod {} is already assigned to node {current:?}", key.1));
    }
    if pod.at("/spec/schedulingGates").and_then(Value::as_array).is_some_and(|gates| !gates.is_empty()) {
        return refuse(format!("pod {} has non-empty .spec.schedulingGates", key.1));
    }
    Ok(())
}
