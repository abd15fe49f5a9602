//! Sets of field paths, as `managedFields` keeps them (`FieldsV1`).

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use serde_json::{Map, Value};

use crate::server::definition::Definition;
use crate::server::structure::{ListType, is_atomic_map, key_value, list_type};

/// One step of a path, in the syntax of `FieldsV1`: `f:name`, `k:{"name":"a"}`, `v:"value"`.
pub(crate) type Path = Vec<String>;

/// The paths that a manager owns. A path that others extend marks the containing map itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct FieldSet(pub(crate) BTreeSet<Path>);

/// Fields of the metadata without a manager, because the server sets them or they are the object's identity.
const UNMANAGED: &[&str] = &[
    "f:name",
    "f:namespace",
    "f:creationTimestamp",
    "f:deletionTimestamp",
    "f:deletionGracePeriodSeconds",
    "f:selfLink",
    "f:uid",
    "f:generation",
    "f:managedFields",
    "f:resourceVersion",
];

fn is_unmanaged(path: &[String]) -> bool {
    match path {
        [] => false,
        [field] => matches!(field.as_str(), "f:apiVersion" | "f:kind" | "f:metadata"),
        [field, within, ..] => field == "f:metadata" && UNMANAGED.contains(&within.as_str()),
    }
}

impl FieldSet {
    /// Every field that an object sets.
    pub(crate) fn new(definition: &Definition, object: &Value) -> Self {
        let mut all: BTreeSet<Path> = paths(definition, object, &mut Place::default()).into_keys().collect();
        all.retain(|path| !is_unmanaged(path));
        Self(all)
    }

    /// The fields that differ between two objects: those set or changed, and those removed.
    pub(crate) fn difference(definition: &Definition, old: &Value, new: &Value) -> (Self, Self) {
        let (mut changed, mut removed) = (BTreeSet::new(), BTreeSet::new());
        compare(definition, old, new, &mut Place::default(), &mut changed, &mut removed);
        changed.retain(|path| !is_unmanaged(path));
        removed.retain(|path| !is_unmanaged(path));
        (Self(changed), Self(removed))
    }

    pub(crate) fn parse(fields: &Value) -> Self {
        let mut set = BTreeSet::new();
        parse_into(fields, &mut Vec::new(), &mut set);
        Self(set)
    }

    pub(crate) fn to_value(&self) -> Value {
        let mut root = Map::new();
        for path in &self.0 {
            let mut current = &mut root;
            for step in path {
                let entry = current.entry(step.clone()).or_insert_with(|| Value::Object(Map::new()));
                let Value::Object(map) = entry else { unreachable!("only maps are inserted") };
                current = map;
            }
        }
        mark_containers(&mut root, &mut Vec::new(), &self.0);
        Value::Object(root)
    }

    /// Whether the set has a path or one that extends it.
    pub(crate) fn has_within(&self, path: &[String]) -> bool {
        // Paths that extend another are sorted right after it.
        self.0
            .range::<[String], _>((Bound::Included(path), Bound::Unbounded))
            .next()
            .is_some_and(|next| next.starts_with(path))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Sets `.` in maps that are owned themselves and also contain owned fields.
fn mark_containers(map: &mut Map<String, Value>, path: &mut Path, set: &BTreeSet<Path>) {
    for (step, child) in map.iter_mut() {
        path.push(step.clone());
        if let Value::Object(child) = child
            && !child.is_empty()
        {
            let owned = set.contains(path);
            mark_containers(child, path, set);
            if owned {
                child.insert(".".into(), Value::Object(Map::new()));
            }
        }
        path.pop();
    }
}

fn parse_into(fields: &Value, path: &mut Path, set: &mut BTreeSet<Path>) {
    let Some(map) = fields.as_object() else { return };
    if map.is_empty() && !path.is_empty() {
        set.insert(path.clone());
    }
    for (step, child) in map {
        if step == "." {
            set.insert(path.clone());
        } else {
            path.push(step.clone());
            parse_into(child, path, set);
            path.pop();
        }
    }
}

/// The position of a value in an object: the names of the fields that lead to it, and its path.
#[derive(Default)]
struct Place {
    names: Vec<String>,
    path: Path,
}

impl Place {
    fn in_field<T>(&mut self, name: &str, visit: impl FnOnce(&mut Self) -> T) -> T {
        self.names.push(name.to_owned());
        let result = self.in_step(format!("f:{name}"), visit);
        self.names.pop();
        result
    }

    fn in_step<T>(&mut self, step: String, visit: impl FnOnce(&mut Self) -> T) -> T {
        self.path.push(step);
        let result = visit(self);
        self.path.pop();
        result
    }
}

/// The fields of a value that have paths of their own.
fn fields_of<'a>(definition: &Definition, value: &'a Value, place: &Place) -> Option<&'a Map<String, Value>> {
    value.as_object().filter(|map| !map.is_empty() && !is_atomic_map(definition, &place.names))
}

/// Every path of a value at this place, with its value; containers of named things count with an empty value.
fn paths(definition: &Definition, value: &Value, place: &mut Place) -> BTreeMap<Path, Value> {
    let mut found = BTreeMap::new();
    collect(definition, value, place, &mut found);
    found
}

fn collect(definition: &Definition, value: &Value, place: &mut Place, found: &mut BTreeMap<Path, Value>) {
    if let Some(map) = fields_of(definition, value, place) {
        for (name, child) in map {
            place.in_field(name, |place| collect(definition, child, place, found));
        }
        return;
    }
    let Some(list) = value.as_array().filter(|list| !list.is_empty()) else {
        found.insert(place.path.clone(), value.clone());
        return;
    };
    match list_type(definition, &place.names) {
        ListType::Atomic => {
            found.insert(place.path.clone(), value.clone());
        }
        ListType::Set => {
            for element in list {
                place.in_step(format!("v:{element}"), |place| found.insert(place.path.clone(), element.clone()));
            }
        }
        ListType::Map(keys) => {
            for element in list {
                place.in_step(key_step(&keys, element), |place| {
                    found.insert(place.path.clone(), Value::Null);
                    collect(definition, element, place, found);
                });
            }
        }
    }
}

/// Collects the paths that are set or changed, and those that are removed. A write changes little of an object, and equal values
/// have equal paths.
fn compare(
    definition: &Definition,
    old: &Value,
    new: &Value,
    place: &mut Place,
    changed: &mut BTreeSet<Path>,
    removed: &mut BTreeSet<Path>,
) {
    if old == new {
        return;
    }
    if let (Some(before), Some(after)) = (fields_of(definition, old, place), fields_of(definition, new, place)) {
        for (name, new) in after {
            place.in_field(name, |place| match before.get(name) {
                Some(old) => compare(definition, old, new, place, changed, removed),
                None => changed.extend(paths(definition, new, place).into_keys()),
            });
        }
        for (name, old) in before.iter().filter(|(name, _)| !after.contains_key(*name)) {
            place.in_field(name, |place| removed.extend(paths(definition, old, place).into_keys()));
        }
        return;
    }
    let (before, after) = (paths(definition, old, place), paths(definition, new, place));
    removed.extend(before.keys().filter(|path| !after.contains_key(*path)).cloned());
    changed.extend(after.into_iter().filter(|(path, value)| before.get(path) != Some(value)).map(|(path, _)| path));
}

fn key_step(keys: &[String], element: &Value) -> String {
    let mut sorted = BTreeMap::new();
    for key in keys {
        if let Some(value) = key_value(element, key) {
            sorted.insert(key.clone(), value);
        }
    }
    format!("k:{}", Value::Object(sorted.into_iter().collect()))
}

/// Removes the field at a path, when it is there.
pub(crate) fn remove(object: &mut Value, path: &[String]) {
    let Some((last, parents)) = path.split_last() else { return };
    let mut current = object;
    for step in parents {
        let Some(next) = child_mut(current, step) else { return };
        current = next;
    }
    match (step_kind(last), current) {
        (Step::Field(name), Value::Object(map)) => {
            map.remove(name);
        }
        (Step::Key(key), Value::Array(list)) => list.retain(|element| !has_keys(element, &key)),
        (Step::Value(value), Value::Array(list)) => list.retain(|element| *element != value),
        _ => {}
    }
}

/// The value at a path.
pub(crate) fn get<'a>(object: &'a Value, path: &[String]) -> Option<&'a Value> {
    path.iter().try_fold(object, |current, step| match (step_kind(step), current) {
        (Step::Field(name), Value::Object(map)) => map.get(name),
        (Step::Key(key), Value::Array(list)) => list.iter().find(|element| has_keys(element, &key)),
        (Step::Value(value), Value::Array(list)) => list.iter().find(|element| **element == value),
        _ => None,
    })
}

fn child_mut<'a>(value: &'a mut Value, step: &str) -> Option<&'a mut Value> {
    match (step_kind(step), value) {
        (Step::Field(name), Value::Object(map)) => map.get_mut(name),
        (Step::Key(key), Value::Array(list)) => list.iter_mut().find(|element| has_keys(element, &key)),
        _ => None,
    }
}

enum Step<'a> {
    Field(&'a str),
    Key(Value),
    Value(Value),
    Unknown,
}

fn step_kind(step: &str) -> Step<'_> {
    let parse = |text: &str| serde_json::from_str(text).unwrap_or(Value::Null);
    match step.split_once(':') {
        Some(("f", name)) => Step::Field(name),
        Some(("k", key)) => Step::Key(parse(key)),
        Some(("v", value)) => Step::Value(parse(value)),
        _ => Step::Unknown,
    }
}

fn has_keys(element: &Value, keys: &Value) -> bool {
    let expected = keys.as_object().into_iter().flatten();
    expected.into_iter().all(|(key, value)| key_value(element, key).as_ref() == Some(value))
}

/// The path in messages: `.spec.template.spec.containers[name="web"].image`.
pub(crate) fn display(path: &[String]) -> String {
    let mut text = String::new();
    for step in path {
        match step_kind(step) {
            Step::Field(name) => {
                text.push('.');
                text.push_str(name);
            }
            Step::Key(keys) => {
                let pairs = keys.as_object().into_iter().flatten().map(|(key, value)| format!("{key}={value}"));
                text.push_str(&format!("[{}]", pairs.collect::<Vec<_>>().join(",")));
            }
            Step::Value(value) => text.push_str(&format!("[={value}]")),
            Step::Unknown => text.push_str(step),
        }
    }
    text
}
