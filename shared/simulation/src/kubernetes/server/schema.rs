//! The seam to the validator of structural schemas: defaults, pruning, validation and CEL rules of custom resources.

use serde_json::Value;

use super::custom::CustomVersion;
use super::status::FieldError;

/// Fills in the schema's defaults and drops the fields that it does not know.
pub(crate) fn default_and_prune(_custom: &CustomVersion, _object: &mut Value) {}

/// What the schema and its rules have against an object.
pub(crate) fn validate(_custom: &CustomVersion, _object: &Value, _old: Option<&Value>) -> Vec<FieldError> {
    Vec::new()
}
