//! Reads and writes objects, with the errors of the port.

use super::FIELD_MANAGER;
use super::decoded::Decoded;
use super::kinds::Kind;
use nodeless_fake_kubernetes::server::LabelSelector;
use nodeless_fake_kubernetes::{
    ApiServer, DeleteOptions, ListOptions, PatchOptions, PatchType, Resource, Status, UpdateOptions,
};
use nodeless_ports::cluster::{InvalidObject, Outline};
use nodeless_ports::{ErrorKind, PortError};
use serde_json::Value;
use std::sync::Arc;

/// The objects of a kind with these labels and fields, and those that cannot be decoded.
pub(super) fn select<T: Clone + Send + 'static>(
    api: &ApiServer,
    decoded: &Decoded,
    kind: &Kind<T>,
    labels: &str,
    fields: &str,
) -> Result<(Vec<T>, Vec<InvalidObject>), PortError> {
    let resource = (kind.resource)();
    let operation = format!("Kubernetes list {}", resource.kind);
    let labels = LabelSelector::parse(labels).map_err(|error| failed(&operation, &error))?;
    let fields = if fields.is_empty() { kind.fields } else { fields };
    let options = ListOptions { namespace: None, labels, fields: fields.to_owned() };
    let list = api.list(&resource, &options).map_err(|error| failed(&operation, &error))?;
    let (mut taken, mut invalid) = (Vec::new(), Vec::new());
    for (object, reduced) in list.items.iter().zip(decoded.decode(kind, &list.items)) {
        match reduced {
            Ok(reduced) => taken.push(reduced),
            Err(message) => {
                let part = |field: &str| object["metadata"][field].as_str().unwrap_or_default().to_owned();
                let (namespace, name) = (part("namespace"), part("name"));
                let name = if namespace.is_empty() { name } else { format!("{namespace}/{name}") };
                let outline = Outline::read(object.as_ref());
                invalid.push(InvalidObject { kind: resource.kind.to_string(), name, message, outline });
            }
        }
    }
    Ok((taken, invalid))
}

/// The objects of a namespace, or of all, with these labels, as they are.
pub(super) fn select_raw(
    api: &ApiServer,
    resource: &Resource,
    namespace: Option<&str>,
    labels: &str,
) -> Result<Vec<Arc<Value>>, PortError> {
    let operation = format!("Kubernetes list {}", resource.kind);
    let labels = LabelSelector::parse(labels).map_err(|error| failed(&operation, &error))?;
    let options = ListOptions { namespace: namespace.map(str::to_owned), labels, ..ListOptions::default() };
    Ok(api.list(resource, &options).map_err(|error| failed(&operation, &error))?.items)
}

/// One object of a cluster-scoped kind, converted.
pub(super) fn get_one<T>(api: &ApiServer, kind: &Kind<T>, name: &str) -> Result<Option<T>, PortError> {
    get_in(api, kind, "", name)
}

/// One object, converted; the namespace is empty for cluster-scoped ones.
pub(super) fn get_in<T>(api: &ApiServer, kind: &Kind<T>, namespace: &str, name: &str) -> Result<Option<T>, PortError> {
    let resource = (kind.resource)();
    let operation = format!("Kubernetes get {}", resource.kind);
    let Some(object) = get(api, &operation, &resource, namespace, name)? else { return Ok(None) };
    (kind.reduce)(&object).map(Some).map_err(|error| {
        PortError::new(ErrorKind::Invalid, &operation, format!("{} {name} cannot be read: {error}", resource.kind))
    })
}

/// Fails if an object could not be decoded and the answer cannot report it.
pub(super) fn refuse_doubt(hides: bool, invalid: &[InvalidObject]) -> Result<(), PortError> {
    let Some(faulty) = invalid.first().filter(|_| hides) else { return Ok(()) };
    let InvalidObject { kind, name, message, .. } = faulty;
    let message = format!("{kind} {name} cannot be read: {message}; repair or delete it");
    Err(PortError::new(ErrorKind::Invalid, format!("Kubernetes list {kind}"), message))
}

/// Maps an error of the API server to an error of the port.
pub(super) fn failed(operation: &str, status: &Status) -> PortError {
    let kind = match status.code {
        401 | 403 => ErrorKind::Denied,
        404 => ErrorKind::NotFound,
        409 => ErrorKind::Conflict,
        429 => ErrorKind::Throttled,
        400..=499 if status.code != 410 => ErrorKind::Invalid,
        _ => ErrorKind::Unavailable,
    };
    PortError::new(kind, operation, status.message.clone()).with_code(status.reason)
}

/// One object, if it exists.
pub(super) fn get(
    api: &ApiServer,
    operation: &str,
    resource: &Resource,
    namespace: &str,
    name: &str,
) -> Result<Option<Arc<Value>>, PortError> {
    match api.get(resource, namespace, name) {
        Ok(object) => Ok(Some(object)),
        Err(error) if error.code == 404 && error.name.is_some() => Ok(None),
        Err(error) => Err(failed(operation, &error)),
    }
}

/// Replaces an object in the version that was read.
pub(super) fn update(
    api: &ApiServer,
    operation: &str,
    resource: &Resource,
    object: Value,
) -> Result<Arc<Value>, PortError> {
    let options = UpdateOptions { field_manager: Some(FIELD_MANAGER.to_owned()), dry_run: false };
    api.update(resource, object, &options).map_err(|error| failed(operation, &error))
}

/// Applies a JSON merge patch.
pub(super) fn patch(
    api: &ApiServer,
    operation: &str,
    resource: &Resource,
    namespace: &str,
    name: &str,
    body: &Value,
) -> Result<(), PortError> {
    let patched = api.patch(resource, namespace, name, None, PatchType::Merge, body, &patch_options());
    patched.map(drop).map_err(|error| failed(operation, &error))
}

/// Applies a JSON merge patch to the status.
pub(super) fn patch_status(
    api: &ApiServer,
    operation: &str,
    resource: &Resource,
    namespace: &str,
    name: &str,
    body: &Value,
) -> Result<(), PortError> {
    let patched = api.patch(resource, namespace, name, Some("status"), PatchType::Merge, body, &patch_options());
    patched.map(drop).map_err(|error| failed(operation, &error))
}

fn patch_options() -> PatchOptions {
    PatchOptions { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchOptions::default() }
}

/// Replaces the status if it differs: nodeless owns the whole status.
pub(super) fn write_status(
    api: &ApiServer,
    operation: &str,
    resource: &Resource,
    object: &Value,
    desired: Value,
) -> Result<(), PortError> {
    let empty = serde_json::json!({});
    if object.get("status").unwrap_or(&empty) == &desired {
        return Ok(());
    }
    let mut changed = object.clone();
    changed["status"] = desired;
    let options = UpdateOptions { field_manager: Some(FIELD_MANAGER.to_owned()), dry_run: false };
    api.update_status(resource, changed, &options).map(drop).map_err(|error| failed(operation, &error))
}

/// The options for deleting an object only if it still is this one.
pub(super) fn only(uid: &str) -> DeleteOptions {
    let mut options = DeleteOptions::default();
    options.preconditions.uid = Some(uid.to_owned());
    options
}

/// Deletes an object. A missing object counts as success.
pub(super) fn delete(
    api: &ApiServer,
    operation: &str,
    resource: &Resource,
    namespace: &str,
    name: &str,
    options: &DeleteOptions,
) -> Result<(), PortError> {
    match api.delete(resource, namespace, name, options) {
        // 409: another object has this name now, so the requested one is gone.
        Err(error) if !matches!(error.code, 404 | 409) => Err(failed(operation, &error)),
        _ => Ok(()),
    }
}

/// The strings in a list.
pub(super) fn strings(object: &Value, pointer: &str) -> Vec<String> {
    let list = object.pointer(pointer).and_then(Value::as_array);
    list.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}

/// Removes a finalizer from an object. A missing object counts as success.
pub(super) fn remove_finalizer(
    api: &ApiServer,
    operation: &str,
    resource: &Resource,
    name: &str,
    finalizer: &str,
) -> Result<(), PortError> {
    let Some(object) = get(api, operation, resource, "", name)? else { return Ok(()) };
    let mut left = strings(&object, "/metadata/finalizers");
    let before = left.len();
    left.retain(|present| present != finalizer);
    if left.len() == before {
        return Ok(());
    }
    let mut changed = object.as_ref().clone();
    changed["metadata"]["finalizers"] = serde_json::json!(left);
    match update(api, operation, resource, changed) {
        Err(error) if error.kind != ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
