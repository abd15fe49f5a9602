//! The scale subresource: replicas of scalable resources in one form.

use crate::server::path::{Path as _, text};
use serde_json::{Value, json};

use crate::server::definition::{Definition, Scale};
use crate::server::selectors::LabelSelector;
use crate::server::status::{FieldError, Status};

fn paths(definition: &Definition) -> Result<&Scale, Status> {
    definition.scale.as_ref().ok_or_else(Status::no_such_resource)
}

/// The `autoscaling/v1` Scale of an object.
pub(crate) fn read(definition: &Definition, object: &Value) -> Result<Value, Status> {
    let paths = paths(definition)?;
    let count = |pointer: &str| object.at(pointer).and_then(Value::as_i64).unwrap_or_default();
    let mut status = json!({"replicas": count(&paths.status_replicas)});
    let selector = paths.selector.as_deref().and_then(|pointer| object.at(pointer));
    match selector {
        Some(Value::String(text)) => status["selector"] = json!(text),
        Some(selector) => {
            if let Some(selector) = LabelSelector::from_object(selector)? {
                status["selector"] = json!(selector.to_text());
            }
        }
        None => {}
    }
    // Built-in kinds have a default; a custom resource that has no replicas cannot be scaled.
    if object.at(&paths.spec_replicas).is_none() {
        let path = paths.spec_replicas.replace('/', ".");
        return Err(Status::internal(format!("the spec replicas field {path:?} does not exist")));
    }
    let mut metadata = json!({});
    for field in ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"] {
        if let Some(value) = object["metadata"].get(field) {
            metadata[field] = value.clone();
        }
    }
    Ok(json!({"kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": metadata,
        "spec": {"replicas": count(&paths.spec_replicas)}, "status": status}))
}

/// The object with the replicas of a Scale.
pub(crate) fn write(definition: &Definition, object: &Value, scale: &Value) -> Result<Value, Status> {
    let paths = paths(definition)?;
    let desired = scale.at("/spec/replicas").cloned().unwrap_or(json!(0));
    if desired.as_i64().is_none_or(|count| count < 0) {
        let error = FieldError::invalid("spec.replicas", &desired, "must be greater than or equal to 0");
        return Err(Status::invalid(&definition.resource, text(object, "/metadata/name"), vec![error]));
    }
    let mut scaled = object.clone();
    let (parent, field) = paths.spec_replicas.rsplit_once('/').ok_or_else(Status::no_such_resource)?;
    if let Some(parent) = scaled.pointer_mut(parent) {
        parent[field] = desired;
    }
    // A Scale without resourceVersion updates any version.
    let version = text(scale, "/metadata/resourceVersion");
    if !version.is_empty() {
        scaled["metadata"]["resourceVersion"] = json!(version);
    }
    Ok(scaled)
}
