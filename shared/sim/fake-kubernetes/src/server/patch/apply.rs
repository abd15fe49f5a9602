//! Server-side apply, and the field managers that it uses.

use crate::server::path::{Path as _, text};
use jiff::Timestamp;
use serde_json::{Value, json};
use std::collections::{BTreeMap, HashSet};

use super::fields::{self, FieldSet, display};
use crate::server::definition::Definition;
use crate::server::status::{Cause, Status};
use crate::server::structure::{ListType, Positions, is_atomic_map, key_value, list_type};
use crate::server::time::seconds;

/// The field manager, and the subresource.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Writer<'a> {
    pub(crate) manager: &'a str,
    /// Empty for the object itself.
    pub(crate) subresource: &'a str,
    pub(crate) now: Timestamp,
}

#[derive(Clone, Debug)]
struct Entry {
    manager: String,
    operation: String,
    api_version: String,
    subresource: String,
    time: Value,
    fields: FieldSet,
}

fn entries(object: &Value) -> Vec<Entry> {
    let list = object.at("/metadata/managedFields").and_then(Value::as_array);
    list.into_iter()
        .flatten()
        .filter(|entry| !text(entry, "/manager").is_empty())
        .map(|entry| Entry {
            manager: text(entry, "/manager").into(),
            operation: text(entry, "/operation").into(),
            api_version: text(entry, "/apiVersion").into(),
            subresource: text(entry, "/subresource").into(),
            time: entry.get("time").cloned().unwrap_or_default(),
            fields: FieldSet::parse(entry.get("fieldsV1").unwrap_or(&Value::Null)),
        })
        .collect()
}

fn store(object: &mut Value, entries: &[Entry]) {
    let list: Vec<Value> = entries
        .iter()
        .filter(|entry| !entry.fields.is_empty())
        .map(|entry| {
            let mut value = json!({
                "manager": entry.manager, "operation": entry.operation, "apiVersion": entry.api_version,
                "time": entry.time, "fieldsType": "FieldsV1", "fieldsV1": entry.fields.to_value(),
            });
            if !entry.subresource.is_empty() {
                value["subresource"] = json!(entry.subresource);
            }
            value
        })
        .collect();
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        if list.is_empty() {
            metadata.remove("managedFields");
        } else {
            metadata.insert("managedFields".into(), Value::Array(list));
        }
    }
}

fn position(entries: &[Entry], writer: Writer<'_>, operation: &str) -> Option<usize> {
    entries.iter().position(|entry| {
        entry.manager == writer.manager && entry.operation == operation && entry.subresource == writer.subresource
    })
}

/// Records the changes of a create or update: the writer owns them, and removed fields have no owner.
pub(crate) fn track_update(definition: &Definition, old: Option<&Value>, new: &mut Value, writer: Writer<'_>) {
    let mut all = entries(new);
    let nothing = json!({});
    let (changed, removed) = FieldSet::difference(definition, old.unwrap_or(&nothing), new);
    if changed.is_empty() && removed.is_empty() {
        return;
    }
    for entry in &mut all {
        let is_own =
            entry.manager == writer.manager && entry.operation == "Update" && entry.subresource == writer.subresource;
        entry.fields.0.retain(|path| !removed.0.contains(path) && (is_own || !changed.0.contains(path)));
    }
    if !changed.is_empty() {
        let index = position(&all, writer, "Update").unwrap_or_else(|| {
            all.push(new_entry(definition, writer, "Update"));
            all.len() - 1
        });
        all[index].time = json!(seconds(writer.now));
        all[index].fields.0.extend(changed.0);
    }
    store(new, &all);
}

fn new_entry(definition: &Definition, writer: Writer<'_>, operation: &str) -> Entry {
    Entry {
        manager: writer.manager.into(),
        operation: operation.into(),
        api_version: definition.resource.api_version(),
        subresource: writer.subresource.into(),
        time: json!(seconds(writer.now)),
        fields: FieldSet::default(),
    }
}

/// Merges an applied configuration into the live object (an empty one, to create it).
///
/// # Errors
/// A conflict for fields that others own with another value, unless forced.
pub(crate) fn apply(
    definition: &Definition,
    live: &Value,
    configuration: &Value,
    writer: Writer<'_>,
    force: bool,
) -> Result<Value, Status> {
    if !entries(configuration).is_empty() {
        return Err(Status::bad_request("metadata.managedFields must be nil"));
    }
    check_keys(definition, &mut Vec::new(), configuration).map_err(|problem| untyped(configuration, &problem))?;
    let mut all = entries(live);
    let own = position(&all, writer, "Apply");
    let applied = FieldSet::new(definition, configuration);
    let mut conflicts = Vec::new();
    for (index, entry) in all.iter_mut().enumerate().filter(|(index, _)| Some(*index) != own) {
        let differing: Vec<_> = entry
            .fields
            .0
            .intersection(&applied.0)
            .filter(|path| is_conflict(live, configuration, path))
            .cloned()
            .collect();
        for path in differing {
            conflicts.push((index, path.clone()));
            entry.fields.0.remove(&path);
        }
    }
    if !force && !conflicts.is_empty() {
        return Err(conflict(&all, &conflicts));
    }
    let previous = own.map(|index| all[index].fields.clone()).unwrap_or_default();
    let mut merged = merge(definition, &mut Vec::new(), live, configuration);
    // Elements before their fields: an element cannot be found without its keys.
    let abandoned = previous.0.iter().filter(|path| {
        !applied.has_within(path)
            && !all.iter().enumerate().any(|(index, entry)| Some(index) != own && entry.fields.has_within(path))
    });
    for path in abandoned {
        fields::remove(&mut merged, path);
        remove_empty_parents(&mut merged, path);
    }
    let index = own.unwrap_or_else(|| {
        all.push(new_entry(definition, writer, "Apply"));
        all.len() - 1
    });
    if all[index].fields != applied {
        all[index].time = json!(seconds(writer.now));
        all[index].api_version = definition.resource.api_version();
        all[index].fields = applied;
    }
    store(&mut merged, &all);
    Ok(merged)
}

/// A configuration that has no type. The real server returns that as an error of its own, without a reason.
fn untyped(configuration: &Value, problem: &str) -> Status {
    let at = |pointer: &str| text(configuration, pointer);
    let version = at("/apiVersion");
    let group = if version.contains('/') { "" } else { "/" };
    let (namespace, name, kind) = (at("/metadata/namespace"), at("/metadata/name"), at("/kind"));
    let subject = format!("{namespace}/{name}; {group}{version}, Kind={kind}");
    Status::new(500, "", format!("failed to create typed patch object ({subject}): {problem}"))
}

/// Two elements of a list with one key.
fn check_keys(definition: &Definition, path: &mut Vec<String>, value: &Value) -> Result<(), String> {
    match value {
        Value::Object(fields) => fields.iter().try_for_each(|(name, value)| {
            path.push(name.clone());
            let checked = check_keys(definition, path, value);
            path.pop();
            checked
        }),
        Value::Array(list) => {
            if let ListType::Map(keys) = list_type(definition, path) {
                let mut seen = HashSet::new();
                for element in list {
                    let key = keys.iter().filter_map(|key| Some(format!("{key}={}", key_value(element, key)?)));
                    let key = key.collect::<Vec<_>>().join(",");
                    if seen.contains(&key) {
                        return Err(format!(".{}: duplicate entries for key [{key}]", path.join(".")));
                    }
                    seen.insert(key);
                }
            }
            list.iter().try_for_each(|element| check_keys(definition, path, element))
        }
        _ => Ok(()),
    }
}

/// A field in a list element or map that becomes empty is removed with its last child: `labels: {}` has no label.
fn remove_empty_parents(object: &mut Value, path: &[String]) {
    for length in (1..path.len()).rev() {
        let parent = &path[..length];
        let empty = match fields::get(object, parent) {
            Some(Value::Object(map)) => map.is_empty(),
            Some(Value::Array(list)) => list.is_empty(),
            _ => false,
        };
        if !empty || length < 2 {
            return;
        }
        fields::remove(object, parent);
    }
}

fn is_conflict(live: &Value, configuration: &Value, path: &[String]) -> bool {
    // A keyed element is shared by all managers that set fields in it.
    if path.last().is_some_and(|step| step.starts_with("k:")) {
        return false;
    }
    fields::get(live, path) != fields::get(configuration, path)
}

fn conflict(entries: &[Entry], conflicts: &[(usize, Vec<String>)]) -> Status {
    let describe = |index: usize| {
        let entry = &entries[index];
        let subresource = if entry.subresource.is_empty() {
            String::new()
        } else {
            format!(" with subresource {:?}", entry.subresource)
        };
        let using = if entry.operation == "Update" { format!(" using {}", entry.api_version) } else { String::new() };
        format!("conflict with {:?}{subresource}{using}", entry.manager)
    };
    let count = conflicts.len();
    let text = if count == 1 {
        format!("{}: {}", describe(conflicts[0].0), display(&conflicts[0].1))
    } else {
        let mut by_manager: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (index, path) in conflicts {
            let manager = describe(*index).replacen("conflict", "conflicts", 1);
            by_manager.entry(manager).or_default().push(format!("- {}", display(path)));
        }
        let parts = by_manager.into_iter().map(|(manager, paths)| format!("{manager}:\n{}", paths.join("\n")));
        parts.collect::<Vec<_>>().join("\n")
    };
    let plural = if count == 1 { "conflict" } else { "conflicts" };
    let mut status = Status::new(409, "Conflict", format!("Apply failed with {count} {plural}: {text}"));
    status.causes = conflicts
        .iter()
        .map(|(index, path)| Cause {
            reason: "FieldManagerConflict".into(),
            message: describe(*index),
            field: Some(display(path)),
        })
        .collect();
    status
}

fn merge(definition: &Definition, names: &mut Vec<String>, live: &Value, applied: &Value) -> Value {
    match (live, applied) {
        (Value::Object(old), Value::Object(new)) if !is_atomic_map(definition, names) => {
            let mut merged = old.clone();
            for (key, value) in new {
                names.push(key.clone());
                let value = merge(definition, names, old.get(key).unwrap_or(&Value::Null), value);
                names.pop();
                merged.insert(key.clone(), value);
            }
            Value::Object(merged)
        }
        (Value::Array(old), Value::Array(new)) => match list_type(definition, names) {
            ListType::Atomic => applied.clone(),
            ListType::Set => {
                let known: HashSet<&Value> = old.iter().collect();
                let mut merged = old.clone();
                merged.extend(new.iter().filter(|value| !known.contains(value)).cloned());
                Value::Array(merged)
            }
            ListType::Map(keys) => {
                let mut merged = old.clone();
                let mut positions = Positions::new(old, &keys);
                for element in new {
                    if let Some(index) = positions.get(element) {
                        merged[index] = merge(definition, names, &merged[index], element);
                    } else {
                        positions.add(element, merged.len());
                        merged.push(element.clone());
                    }
                }
                Value::Array(merged)
            }
        },
        _ => applied.clone(),
    }
}
