//! Conversion between the two representations of kinds that have them.

use std::sync::Arc;

use serde_json::{Value, json};

use super::definition::Definition;
use super::pairs::pair;
use super::status::Status;
use super::store::Store;

/// The definition under which an object is stored, and the object in that form.
pub(crate) fn to_storage(
    store: &Store,
    definition: &Definition,
    object: Value,
) -> Result<(Arc<Definition>, Value), Status> {
    let Some(pair) = pair(&definition.resource).filter(|pair| pair.other == definition.resource) else {
        return Ok((Arc::new(definition.clone()), object));
    };
    let canonical = store.definition_of(&pair.stored)?;
    let version = object.get("apiVersion").and_then(Value::as_str);
    let own = pair.other.api_version();
    if let Some(version) = version.filter(|version| *version != own) {
        let kind = &pair.other.kind;
        return Err(Status::bad_request(format!("{kind} in version {version:?} cannot be handled as {own}")));
    }
    Ok((canonical, (pair.to_stored)(object)))
}

/// The object in the form of a resource version.
pub(crate) fn to_version(definition: &Definition, object: &Arc<Value>) -> Arc<Value> {
    let requested = definition.resource.api_version();
    let given = object.get("apiVersion").and_then(Value::as_str).unwrap_or_default();
    if given == requested {
        return object.clone();
    }
    match pair(&definition.resource) {
        Some(pair) if pair.other == definition.resource => Arc::new((pair.to_other)(object.as_ref().clone())),
        Some(pair) if pair.other.api_version() == given => Arc::new((pair.to_stored)(object.as_ref().clone())),
        _ => {
            let mut converted = object.as_ref().clone();
            converted["apiVersion"] = json!(requested);
            Arc::new(converted)
        }
    }
}
