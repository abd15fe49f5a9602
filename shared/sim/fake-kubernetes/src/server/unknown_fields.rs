//! The fields of an object that its kind does not have.

use serde_json::Value;

use super::definition::Definition;
use super::{protobuf, schema};

/// The unknown fields of an object, as paths.
pub(crate) fn unknown_fields(definition: &Definition, object: &Value) -> Vec<String> {
    match &definition.custom {
        Some(custom) => schema::unknown_fields(custom, object),
        None => protobuf::unknown_fields(&definition.resource.api_version(), &definition.resource.kind, object),
    }
}
