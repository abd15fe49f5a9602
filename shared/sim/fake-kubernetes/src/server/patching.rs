//! Patches and bindings: writes that are based on the current object.

use crate::server::path::{Path as _, text};
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::definition::Definition;
use super::patch::{PatchType, apply, json as json_patch, merge, strategic};
use super::resource::PODS;
use super::status::Status;
use super::store::{ChangeKind, ObjectKey, Store};
use super::time::seconds;
use super::writes::{self, Part, Request};
use super::{events, scale};

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
    let current = store.get(&resource.storage_key(), key).map(|object| events::to_version(definition, object));
    if kind == PatchType::Apply {
        return apply_in(store, definition, key, current.as_deref(), subresource, patch, force, request);
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
    let given = text(&patched, "/metadata/namespace");
    if resource.namespaced && given != namespace {
        return Err(Status::bad_request("the namespace of the provided object does not match the namespace sent"));
    }
    let (object, part) = match subresource {
        None => (patched, Part::Object),
        Some("status") if definition.status => (patched, Part::Status),
        Some("scale") => (scale::write(definition, &current, &patched)?, Part::Whole("scale")),
        Some(_) => return Err(Status::method_not_allowed()),
    };
    writes::update(store, definition, key, object, part, request)
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
        let error = super::status::FieldError::required("fieldManager", "is required for apply patch");
        Status::invalid(&definition.resource, &key.1, vec![error])
    })?;
    let resource = &definition.resource;
    let given = (text(configuration, "/apiVersion"), text(configuration, "/kind"));
    if given != (resource.api_version().as_str(), resource.kind.as_ref()) {
        let text = format!("apply: the configuration has to be of {} {}", resource.api_version(), resource.kind);
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

/// Binds a pod to a node.
pub(crate) fn bind(store: &mut Store, key: &ObjectKey, node: &str, now: Timestamp) -> Result<(), Status> {
    let definition = store.definition_of(&PODS)?;
    let mut pod = store.get(&PODS.storage_key(), key).ok_or_else(|| Status::not_found(&PODS, &key.1))?.as_ref().clone();
    let refuse = |detail: String| {
        let text = format!("Operation cannot be fulfilled on pods/binding {:?}: {detail}", key.1);
        Status::new(409, "Conflict", text).about(&PODS, &key.1)
    };
    if node.is_empty() {
        return Err(Status::bad_request("target.name: Required value"));
    }
    if pod.at("/metadata/deletionTimestamp").is_some() {
        return Err(refuse(format!("pod {} is being deleted, cannot be assigned to a host", key.1)));
    }
    let current = text(&pod, "/spec/nodeName");
    if !current.is_empty() {
        return Err(refuse(format!("pod {} is already assigned to node {current:?}", key.1)));
    }
    pod["spec"]["nodeName"] = json!(node);
    let scheduled = json!({"type": "PodScheduled", "status": "True", "lastProbeTime": null,
        "lastTransitionTime": seconds(now)});
    let conditions = pod.at("/status/conditions").and_then(Value::as_array).cloned().unwrap_or_default();
    let mut conditions: Vec<Value> = conditions.into_iter().filter(|it| it["type"] != "PodScheduled").collect();
    conditions.push(scheduled);
    pod["status"]["conditions"] = Value::Array(conditions);
    store.commit(&definition, ChangeKind::Modified, pod);
    Ok(())
}
