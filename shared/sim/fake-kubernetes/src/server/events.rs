//! Events are one set of objects with two representations: core/v1, in which they are stored, and events.k8s.io/v1.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::definition::Definition;
use super::resource::{EVENTS, NEW_EVENTS};
use super::status::Status;
use super::store::Store;

/// Field names: events.k8s.io/v1, core/v1.
const RENAMED: &[(&str, &str)] = &[
    ("regarding", "involvedObject"),
    ("note", "message"),
    ("reportingController", "reportingComponent"),
    ("deprecatedCount", "count"),
    ("deprecatedFirstTimestamp", "firstTimestamp"),
    ("deprecatedLastTimestamp", "lastTimestamp"),
    ("deprecatedSource", "source"),
];

/// The definition under which an object is stored, and the object in that form.
pub(crate) fn to_storage(
    store: &Store,
    definition: &Definition,
    object: Value,
) -> Result<(Arc<Definition>, Value), Status> {
    if definition.resource != NEW_EVENTS {
        return Ok((Arc::new(definition.clone()), object));
    }
    let canonical = store.definition_of(&EVENTS)?;
    let version = object.get("apiVersion").and_then(Value::as_str);
    if version.is_some_and(|version| version != "events.k8s.io/v1") {
        return Err(Status::bad_request(format!("Event in version {version:?} cannot be handled as events.k8s.io/v1")));
    }
    Ok((canonical, rename(object, "v1", |new, old| (new, old))))
}

/// The object in the form of a resource version.
pub(crate) fn to_version(definition: &Definition, object: &Arc<Value>) -> Arc<Value> {
    let requested = definition.resource.api_version();
    if object.get("apiVersion").is_some_and(|version| *version == requested) {
        return object.clone();
    }
    if definition.resource == NEW_EVENTS {
        return Arc::new(rename(object.as_ref().clone(), &requested, |new, old| (old, new)));
    }
    if definition.resource == EVENTS && object.get("apiVersion").is_some_and(|it| it == "events.k8s.io/v1") {
        return Arc::new(rename(object.as_ref().clone(), &requested, |new, old| (new, old)));
    }
    let mut converted = object.as_ref().clone();
    converted["apiVersion"] = json!(requested);
    Arc::new(converted)
}

fn rename(
    object: Value,
    version: &str,
    direction: fn(&'static str, &'static str) -> (&'static str, &'static str),
) -> Value {
    let Value::Object(map) = object else { return object };
    let renamed = map.into_iter().map(|(field, value)| {
        let pairs = RENAMED.iter().map(|(new, old)| direction(new, old));
        let target = pairs.into_iter().find(|(from, _)| *from == field).map(|(_, to)| to.to_owned());
        (target.unwrap_or(field), value)
    });
    let mut renamed: Map<String, Value> = renamed.collect();
    renamed.insert("apiVersion".into(), json!(version));
    Value::Object(renamed)
}
