//! `meta.k8s.io/v1` Tables: what `kubectl get` prints.

use serde_json::{Value, json};

use crate::server::definition::Definition;
use crate::server::jsonpath;
use crate::server::path::text;
use crate::server::representation::{cells, columns};
use crate::server::time::Ages;

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
pub(crate) fn row(definition: &Definition, object: &Value, include: &str, ages: Ages) -> Value {
    let cells = match &definition.custom {
        None => cells::cells(&definition.resource, object, ages),
        Some(custom) => {
            let mut cells = vec![object["metadata"]["name"].clone()];
            if custom.columns.is_empty() {
                cells.push(json!(ages.age(object)));
            }
            cells.extend(custom.columns.iter().map(|column| custom_cell(object, column, ages)));
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

fn custom_cell(object: &Value, column: &Value, ages: Ages) -> Value {
    let found = jsonpath::find(object, text(column, "/jsonPath"));
    let Some(first) = found.first() else { return Value::Null };
    match text(column, "/type") {
        "date" => json!(first.as_str().map_or("<unknown>".to_owned(), |time| ages.since(time))),
        "string" => match first {
            Value::String(_) | Value::Null => (*first).clone(),
            other => json!(other.to_string()),
        },
        _ => (*first).clone(),
    }
}

/// A whole table.
pub(crate) fn table(
    definition: &Definition,
    objects: &[std::sync::Arc<Value>],
    metadata: &Value,
    include: &str,
    with_columns: bool,
    ages: Ages,
) -> Value {
    let rows: Vec<Value> = objects.iter().map(|object| row(definition, object, include, ages)).collect();
    let columns = if with_columns { definitions(definition) } else { Value::Null };
    json!({"kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": metadata, "columnDefinitions": columns,
        "rows": rows})
}
