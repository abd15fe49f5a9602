//! Decodes JSON or YAML into the types of objects, with the field in errors.

use crate::documents::Body;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// Why an object cannot be decoded.
pub(crate) struct Undecoded {
    /// The field; empty for the object itself.
    pub(crate) field: String,
    pub(crate) problem: String,
}

/// Decodes an object.
///
/// `null` means that a field is missing, as in the API server. That requires a copy of the object, so it is tried only if the
/// object does not decode directly; so is finding the invalid field.
pub(crate) fn decode<T: DeserializeOwned>(body: &Body<'_>) -> Result<T, Undecoded> {
    let straight = match body {
        Body::Raw(raw) => serde_json::from_str::<T>(raw.get()),
        Body::Tree(value) => T::deserialize(value),
    };
    straight.or_else(|_| decode_tree(&without_nulls(tree(body))))
}

/// Decodes a value, with the invalid field in the error. Tracking the path to the field takes longer than decoding, so it is done
/// only after an error.
pub(crate) fn decode_tree<T: DeserializeOwned>(value: &Value) -> Result<T, Undecoded> {
    T::deserialize(value).or_else(|_| {
        serde_path_to_error::deserialize(value).map_err(|error| {
            let path = error.path().to_string();
            let field = if path == "." { String::new() } else { path };
            Undecoded { field, problem: error.into_inner().to_string() }
        })
    })
}

/// The object as a tree. A value that is not JSON becomes a string, which fails where an object is expected.
pub(crate) fn tree(body: &Body<'_>) -> Value {
    match body {
        Body::Raw(raw) => serde_json::from_str(raw.get()).unwrap_or_else(|_| Value::String(raw.get().to_owned())),
        Body::Tree(value) => value.clone(),
    }
}

/// Removes the fields that are `null`.
pub(crate) fn without_nulls(mut value: Value) -> Value {
    remove_nulls(&mut value);
    value
}

fn remove_nulls(value: &mut Value) {
    match value {
        Value::Object(fields) => fields.retain(|_, value| {
            remove_nulls(value);
            !value.is_null()
        }),
        Value::Array(items) => items.iter_mut().for_each(remove_nulls),
        _ => {}
    }
}
