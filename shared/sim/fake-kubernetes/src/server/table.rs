//! `meta.k8s.io/v1` Tables: what `kubectl get` prints.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::columns;
use super::jsonpath;
use super::resource::{Definition, text};

/// A column: name, OpenAPI type, priority (0 is always shown, 1 with `-o wide`).
pub(crate) type Column = (&'static str, &'static str, u8);

/// The column definitions of a resource.
pub(crate) fn definitions(definition: &Definition) -> Value {
    let mut all = Vec::new();
    if definition.custom.is_some() {
        all.push(column("Name", "string", "name", 0, ""));
    }
    match &definition.custom {
        None => {
            for (name, kind, priority) in columns::columns(&definition.resource) {
                let format = if name == "Name" { "name" } else { "" };
                all.push(column(name, kind, format, priority, ""));
            }
        }
        Some(custom) if custom.columns.is_empty() => all.push(column("Age", "date", "", 0, "")),
        Some(custom) => {
            for own in &custom.columns {
                let priority = own["priority"].as_u64().and_then(|it| u8::try_from(it).ok()).unwrap_or_default();
                let texts = (text(own, "/name"), text(own, "/type"), text(own, "/format"));
                all.push(column(texts.0, texts.1, texts.2, priority, text(own, "/description")));
            }
        }
    }
    Value::Array(all)
}

fn column(name: &str, kind: &str, format: &str, priority: u8, description: &str) -> Value {
    json!({"name": name, "type": kind, "format": format, "description": description, "priority": priority})
}

/// One row. `include` is the part of the object to send: `None`, `Metadata` or `Object`.
pub(crate) fn row(definition: &Definition, object: &Value, include: &str, now: Timestamp) -> Value {
    let cells = match &definition.custom {
        None => columns::cells(&definition.resource, object, now),
        Some(custom) => {
            let mut cells = vec![object["metadata"]["name"].clone()];
            if custom.columns.is_empty() {
                cells.push(json!(age(object, now)));
            }
            cells.extend(custom.columns.iter().map(|column| custom_cell(object, column, now)));
            cells
        }
    };
    match include {
        "None" => json!({"cells": cells}),
        "Object" => json!({"cells": cells, "object": object}),
        _ => json!({"cells": cells, "object": partial(object)}),
    }
}

/// The metadata alone.
pub(crate) fn partial(object: &Value) -> Value {
    json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": object["metadata"]})
}

fn custom_cell(object: &Value, column: &Value, now: Timestamp) -> Value {
    let found = jsonpath::find(object, text(column, "/jsonPath"));
    let Some(first) = found.first() else { return Value::Null };
    match text(column, "/type") {
        "date" => json!(first.as_str().map_or("<unknown>".to_owned(), |time| since(time, now))),
        "string" => match first {
            Value::String(_) | Value::Null => (*first).clone(),
            other => json!(other.to_string()),
        },
        _ => (*first).clone(),
    }
}

/// The age of an object, as kubectl shows it.
pub(crate) fn age(object: &Value, now: Timestamp) -> String {
    since(text(object, "/metadata/creationTimestamp"), now)
}

/// The time since a timestamp, as kubectl shows it.
pub(crate) fn since(time: &str, now: Timestamp) -> String {
    match time.parse::<Timestamp>() {
        Ok(time) => human_duration(now.as_second() - time.as_second()),
        Err(_) => "<unknown>".into(),
    }
}

/// Seconds as `59s`, `3m20s`, `5h`, `2d4h`: longer durations have less precision.
pub(crate) fn human_duration(seconds: i64) -> String {
    let seconds = seconds.max(0);
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    let pair = |large: i64, large_unit: &str, small: i64, small_unit: &str| {
        if small == 0 { format!("{large}{large_unit}") } else { format!("{large}{large_unit}{small}{small_unit}") }
    };
    match seconds {
        0..120 => format!("{seconds}s"),
        _ if minutes < 10 => pair(minutes, "m", seconds % 60, "s"),
        _ if minutes < 180 => format!("{minutes}m"),
        _ if hours < 8 => pair(hours, "h", minutes % 60, "m"),
        _ if hours < 48 => format!("{hours}h"),
        _ if hours < 192 => pair(days, "d", hours % 24, "h"),
        _ if days < 730 => format!("{days}d"),
        _ if days < 2920 => pair(days / 365, "y", days % 365, "d"),
        _ => format!("{}y", days / 365),
    }
}

/// A whole table.
pub(crate) fn table(
    definition: &Definition,
    objects: &[std::sync::Arc<Value>],
    metadata: &Value,
    include: &str,
    with_columns: bool,
    now: Timestamp,
) -> Value {
    let rows: Vec<Value> = objects.iter().map(|object| row(definition, object, include, now)).collect();
    let columns = if with_columns { definitions(definition) } else { json!([]) };
    json!({"kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": metadata, "columnDefinitions": columns,
        "rows": rows})
}
