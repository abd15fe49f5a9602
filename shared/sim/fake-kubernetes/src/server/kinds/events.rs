//! Events are one set of objects with two representations: core/v1, in which they are stored, and events.k8s.io/v1.

use serde_json::{Map, Value, json};

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

/// An Event of events.k8s.io/v1 in the form of core/v1.
pub(crate) fn to_core(object: Value) -> Value {
    rename(object, "v1", |new, old| (new, old))
}

/// An Event of core/v1 in the form of events.k8s.io/v1.
pub(crate) fn to_new(object: Value) -> Value {
    rename(object, "events.k8s.io/v1", |new, old| (old, new))
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
