//! The fields of an object that its kind does not have.

use serde_json::Value;

use crate::fields;
use crate::server::definition::Definition;

/// Removes the unknown fields of an object of a built-in kind. Those of custom resources are removed by their schema.
pub(crate) fn prune(definition: &Definition, object: &mut Value) {
    if definition.custom.is_none() {
        fields::prune(&definition.resource.api_version(), &definition.resource.kind, object);
    }
}

/// The unknown fields of an object, as paths.
pub(crate) fn unknown_fields(definition: &Definition, object: &Value) -> Vec<String> {
    let resource = &definition.resource;
    let found = match &definition.custom {
        Some(custom) => fields::custom(&custom.validator, object),
        None => fields::built_in(&resource.api_version(), &resource.kind, object).unwrap_or_default(),
    };
    found.into_iter().map(|field| field.path).collect()
}
