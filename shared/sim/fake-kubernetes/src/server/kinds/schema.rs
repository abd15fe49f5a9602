//! Structural schemas of custom resources: defaults, pruning, validation and CEL rules, by the validator that checks the
//! project's own definitions.

use crate::server::path::{Path as _, text};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use crate::schema::Schema;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::Value;

use crate::server::definition::CustomVersion;
use crate::server::status::FieldError;

/// Validators of this process, by definition and version. Each has dozens of rules and patterns to compile, and every new world
/// has the same definitions.
static COMPILED: Mutex<BTreeMap<(String, String), Arc<Schema>>> = Mutex::new(BTreeMap::new());
/// The maximum number of validators that are kept.
const KEPT: usize = 64;

/// The validator of one version of a definition.
pub(crate) fn compile(crd: &Value, version: &str) -> Result<Arc<Schema>, FieldError> {
    let key = (crd["spec"].to_string(), version.to_owned());
    let known = COMPILED.lock().unwrap_or_else(PoisonError::into_inner).get(&key).cloned();
    if let Some(schema) = known {
        return Ok(schema);
    }
    let schema = compile_anew(crd, version)?;
    let mut compiled = COMPILED.lock().unwrap_or_else(PoisonError::into_inner);
    if compiled.len() >= KEPT {
        compiled.clear();
    }
    compiled.insert(key, schema.clone());
    Ok(schema)
}

fn compile_anew(crd: &Value, version: &str) -> Result<Arc<Schema>, FieldError> {
    let invalid = |field: &str, problem: &str| FieldError::invalid(field, &Value::Null, problem);
    let parsed: CustomResourceDefinition =
        serde_json::from_value(crd.clone()).map_err(|error| invalid("spec", &error.to_string()))?;
    Schema::from_crd(&parsed, version).map(Arc::new).map_err(|error| {
        let field = format!("spec.versions[{version}].schema.openAPIV3Schema{}", error.path);
        invalid(&field, &error.problem)
    })
}

/// Why the schemas of a definition cannot be used.
pub(crate) fn definition_errors(crd: &Value) -> Vec<FieldError> {
    let versions = crd.at("/spec/versions").and_then(Value::as_array);
    let served = versions.into_iter().flatten().filter(|version| version["served"] != false);
    served.filter_map(|version| compile(crd, text(version, "/name")).err()).collect()
}

/// Removes unknown fields and adds the defaults of the schema.
pub(crate) fn default_and_prune(custom: &CustomVersion, object: &mut Value) {
    custom.validator.prune(object);
    custom.validator.default(object);
}

/// The errors of an object by the schema and its rules.
pub(crate) fn validate(custom: &CustomVersion, object: &Value, old: Option<&Value>) -> Vec<FieldError> {
    custom
        .validator
        .validate(object, old)
        .into_iter()
        .map(|error| FieldError { field: error.path, reason: "FieldValueInvalid", message: error.message })
        .collect()
}
