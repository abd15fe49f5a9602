//! Strategic merge patch: a merge patch with keyed lists and directives.

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value};

use crate::server::definition::Definition;
use crate::server::status::Status;
use crate::server::structure::{ListType, Positions, strategic_list_type};

const PATCH: &str = "$patch";
const RETAIN_KEYS: &str = "$retainKeys";
const DELETE_PRIMITIVES: &str = "$deleteFromPrimitiveList/";
const ELEMENT_ORDER: &str = "$setElementOrder/";

/// Merges a patch into an object of a built-in kind.
pub(crate) fn patch(definition: &Definition, object: &Value, patch: &Value) -> Result<Value, Status> {
    let Some(patch) = patch.as_object() else {
        return Err(Status::bad_request("a strategic merge patch has to be an object"));
    };
    let object = object.as_object().cloned().unwrap_or_default();
    merge_map(definition, &mut Vec::new(), object, patch).map(Value::Object)
}

fn merge_map(
    definition: &Definition,
    path: &mut Vec<String>,
    mut object: Map<String, Value>,
    patch: &Map<String, Value>,
) -> Result<Map<String, Value>, Status> {
    match patch.get(PATCH).and_then(Value::as_str) {
        Some("replace") => return Ok(without_directives(patch)),
        Some("delete") => return Ok(Map::new()),
        Some("merge") | None => {}
        Some(other) => return Err(Status::bad_request(format!("unknown {PATCH} directive {other:?}"))),
    }
    if let Some(keep) = patch.get(RETAIN_KEYS).and_then(Value::as_array) {
        object.retain(|key, _| keep.iter().any(|kept| kept == key));
    }
    for (key, value) in patch {
        if let Some(field) = key.strip_prefix(DELETE_PRIMITIVES) {
            let removed: HashSet<&Value> = value.as_array().into_iter().flatten().collect();
            if let Some(list) = object.get_mut(field).and_then(Value::as_array_mut) {
                list.retain(|element| !removed.contains(element));
            }
        }
    }
    let ordered = |(key, order): (&String, &Value)| {
        let field = key.strip_prefix(ELEMENT_ORDER)?.to_owned();
        let before = object.get(&field).and_then(Value::as_array).cloned().unwrap_or_default();
        Some((field, order.as_array()?.clone(), before))
    };
    let orders: Vec<(String, Vec<Value>, Vec<Value>)> = patch.iter().filter_map(ordered).collect();
    for (key, value) in patch.iter().filter(|(key, _)| !key.starts_with('$')) {
        path.push(key.clone());
        merge_field(definition, path, &mut object, key, value)?;
        path.pop();
    }
    for (field, order, before) in orders {
        path.push(field.clone());
        if let Some(list) = object.get_mut(&field).and_then(Value::as_array_mut) {
            *list = in_order(&strategic_list_type(definition, path), std::mem::take(list), &order, &before);
        }
        path.pop();
    }
    Ok(object)
}

fn merge_field(
    definition: &Definition,
    path: &mut Vec<String>,
    object: &mut Map<String, Value>,
    key: &str,
    value: &Value,
) -> Result<(), Status> {
    let merged = match value {
        Value::Null => {
            object.remove(key);
            return Ok(());
        }
        Value::Object(patch) => {
            if patch.get(PATCH).is_some_and(|directive| directive == "delete") {
                object.remove(key);
                return Ok(());
            }
            let current = object.get(key).and_then(Value::as_object).cloned().unwrap_or_default();
            Value::Object(merge_map(definition, path, current, patch)?)
        }
        Value::Array(patch) => {
            let current = object.get(key).and_then(Value::as_array).cloned().unwrap_or_default();
            Value::Array(merge_list(definition, path, current, patch)?)
        }
        other => other.clone(),
    };
    object.insert(key.to_owned(), merged);
    Ok(())
}

fn merge_list(
    definition: &Definition,
    path: &mut Vec<String>,
    mut list: Vec<Value>,
    patch: &[Value],
) -> Result<Vec<Value>, Status> {
    let is_replace = |element: &Value| element.get(PATCH).is_some_and(|directive| directive == "replace");
    if patch.iter().any(|element| is_replace(element) && element.as_object().is_some_and(|map| map.len() == 1)) {
        return Ok(patch.iter().filter(|element| !is_replace(element)).cloned().collect());
    }
    match strategic_list_type(definition, path) {
        ListType::Atomic => Ok(patch.iter().map(strip).collect()),
        ListType::Set => {
            let before = list.clone();
            let mut known: HashSet<Value> = list.iter().cloned().collect();
            list.extend(patch.iter().filter(|value| known.insert((*value).clone())).cloned());
            Ok(in_order(&ListType::Set, list, patch, &before))
        }
        ListType::Map(keys) => {
            let mut positions = Positions::new(&list, &keys);
            let before = list.clone();
            let mut list: Vec<Option<Value>> = list.into_iter().map(Some).collect();
            for element in patch {
                let Some(fields) = element.as_object() else {
                    return Err(Status::bad_request(format!("an element of {} has to be an object", path.join("."))));
                };
                if let Some(missing) = keys.iter().find(|key| !fields.contains_key(*key)) {
                    let text = format!("map: {element} does not contain declared merge key: {missing}");
                    return Err(Status::bad_request(text));
                }
                if fields.get(PATCH).is_some_and(|directive| directive == "delete") {
                    if let Some(index) = positions.remove(element) {
                        list[index] = None;
                    }
                    continue;
                }
                let index = positions.get(element).unwrap_or_else(|| {
                    positions.add(element, list.len());
                    list.push(None);
                    list.len() - 1
                });
                let current = list[index].as_ref().and_then(Value::as_object).cloned().unwrap_or_default();
                list[index] = Some(Value::Object(merge_map(definition, path, current, fields)?));
            }
            let merged = list.into_iter().flatten().collect();
            drop(positions);
            Ok(in_order(&ListType::Map(keys), merged, patch, &before))
        }
    }
}

/// A merged list with the elements of `order` in that order. The others keep theirs, and come before the first element of `order` that
/// they came before, or last (`normalizeElementOrder` of apimachinery).
fn in_order(list_type: &ListType, merged: Vec<Value>, order: &[Value], before: &[Value]) -> Vec<Value> {
    let same = |element: &Value| match list_type {
        ListType::Map(keys) => keys.iter().map(|key| element.get(key).cloned().unwrap_or_default()).collect(),
        _ => element.clone(),
    };
    let ranks = |list: &[Value]| {
        let mut ranks: HashMap<Value, usize> = HashMap::with_capacity(list.len());
        for (rank, element) in list.iter().enumerate() {
            ranks.entry(same(element)).or_insert(rank);
        }
        ranks
    };
    let (listed, known) = (ranks(order), ranks(before));
    let (mut first, rest): (Vec<Value>, Vec<Value>) =
        merged.into_iter().partition(|element| listed.contains_key(&same(element)));
    first.sort_by_key(|element| listed.get(&same(element)).copied());
    let (mut first, mut rest) = (first.into_iter().peekable(), rest.into_iter().peekable());
    let mut sorted = Vec::new();
    loop {
        let earlier = match (rest.peek(), first.peek()) {
            (None, None) => return sorted,
            (Some(_), None) => true,
            (None, Some(_)) => false,
            (Some(other), Some(next)) => {
                known.get(&same(other)).zip(known.get(&same(next))).is_some_and(|(other, next)| other < next)
            }
        };
        sorted.extend(if earlier { rest.next() } else { first.next() });
    }
}

fn without_directives(map: &Map<String, Value>) -> Map<String, Value> {
    map.iter().filter(|(key, _)| !key.starts_with('$')).map(|(key, value)| (key.clone(), strip(value))).collect()
}

fn strip(value: &Value) -> Value {
    match value {
        Value::Object(map) => Value::Object(without_directives(map)),
        Value::Array(list) => Value::Array(list.iter().map(strip).collect()),
        other => other.clone(),
    }
}
