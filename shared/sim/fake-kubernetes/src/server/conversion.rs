//! Kinds with two representations of one set of objects. Objects are stored in one of them.

use std::sync::Arc;

use serde_json::{Value, json};

use super::definition::Definition;
use super::resource::{EVENTS, HORIZONTAL_POD_AUTOSCALERS, HORIZONTAL_POD_AUTOSCALERS_V1, NEW_EVENTS, Resource};
use super::status::Status;
use super::store::Store;
use super::{autoscaling, events};

/// A kind with two representations.
struct Pair {
    stored: Resource,
    other: Resource,
    to_stored: fn(Value) -> Value,
    to_other: fn(Value) -> Value,
}

static PAIRS: [Pair; 2] = [
    Pair { stored: EVENTS, other: NEW_EVENTS, to_stored: events::to_core, to_other: events::to_new },
    Pair {
        stored: HORIZONTAL_POD_AUTOSCALERS,
        other: HORIZONTAL_POD_AUTOSCALERS_V1,
        to_stored: autoscaling::to_v2,
        to_other: autoscaling::to_v1,
    },
];

fn pair(resource: &Resource) -> Option<&'static Pair> {
    PAIRS.iter().find(|pair| pair.stored == *resource || pair.other == *resource)
}

/// The other representation of a resource, if it has one.
pub(crate) fn other(resource: &Resource) -> Option<&'static Resource> {
    pair(resource).map(|pair| if pair.stored == *resource { &pair.other } else { &pair.stored })
}

/// Whether objects of a resource are stored as those of another.
pub(crate) fn is_converted(resource: &Resource) -> bool {
    pair(resource).is_some_and(|pair| pair.other == *resource)
}

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
