//! The definitions of NodePools and EC2NodeClasses, by which the API server checks objects.

use crate::error::CliError;
use nodeless_fake_kubernetes::schema::Schema;
use serde_json::Value;
use std::sync::LazyLock;

/// The schema of a kind.
pub(crate) fn schema(kind: &str) -> Result<Schema, CliError> {
    let definitions = nodeless_api::crds()?;
    let found = definitions.iter().find(|crd| crd.spec.names.kind == kind);
    let crd = found.ok_or_else(|| CliError::Form(format!("there is no definition of {kind}")))?;
    Schema::from_crd(crd, "v1").map_err(|error| CliError::Form(error.to_string()))
}

/// The errors of an object that is to be created, except for missing fields: the fields, and the errors.
pub(crate) fn errors(kind: &str, object: &Value) -> Vec<(String, String)> {
    static NODE_POOL: LazyLock<Result<Schema, CliError>> = LazyLock::new(|| schema("NodePool"));
    static NODE_CLASS: LazyLock<Result<Schema, CliError>> = LazyLock::new(|| schema("EC2NodeClass"));
    let schema = match if kind == "NodePool" { &*NODE_POOL } else { &*NODE_CLASS } {
        Ok(schema) => schema,
        Err(error) => return vec![(String::new(), error.to_string())],
    };
    let mut object = object.clone();
    schema.prune(&mut object);
    schema.default(&mut object);
    let errors = schema.validate(&object, None).into_iter().filter(|error| error.message != "Required value");
    errors.map(|error| (error.path, error.message)).collect()
}
