//! Processes objects of a custom resource as an API server does: defaulting, pruning, validation.
//!
//! [`Schema`] is created from a definition and works on plain JSON. It supports OpenAPI v3 structural schemas and the CEL rules
//! in `x-kubernetes-validations`. A definition that uses anything else is rejected with a message that names it, so that
//! everything is checked. The order of use is that of the API server: [`Schema::prune`], [`Schema::default`],
//! [`Schema::validate`].
//!
//! As in the API server, every unchanged field of an old object is exempt from checks that were added later (ratcheting). One
//! difference: rules are skipped only for unchanged top-level fields such as `spec`.

mod cel;
mod compile;
mod cost;
mod defaults;
mod structural;

use crate::size::LARGEST_OBJECT;
use compile::Node;
pub(crate) use compile::Node as SchemaNode;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::Value;

/// A validation error of an object.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {message}")]
pub struct FieldError {
    /// The path, such as `spec.template.spec.requirements[0].key`; empty for the object itself.
    pub path: String,
    /// The message of the API server or of the rule.
    pub message: String,
}

/// Why a definition cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the definition {definition} cannot be used: {path}: {problem}")]
pub struct SchemaError {
    /// The name of the definition.
    pub definition: String,
    /// The path in the schema, such as `spec.properties.replicas`.
    pub path: String,
    /// The part that is malformed or not supported.
    pub problem: String,
}

/// The schema of one version of a custom resource.
pub struct Schema {
    root: Node,
    rules: cel::Rules,
}

impl std::fmt::Debug for Schema {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Schema").finish_non_exhaustive()
    }
}

impl Schema {
    /// The schema of a version in a definition.
    ///
    /// # Errors
    /// When there is no such version or it has no schema, and when the schema or one of its rules is malformed or uses
    /// something that is not supported.
    pub fn from_crd(crd: &CustomResourceDefinition, version: &str) -> Result<Self, SchemaError> {
        let definition = crd.metadata.name.clone().unwrap_or_default();
        let error = |(path, problem)| SchemaError { definition: definition.clone(), path, problem };
        let found = crd.spec.versions.iter().find(|candidate| candidate.name == version);
        let schema = found
            .and_then(|found| found.schema.as_ref())
            .and_then(|schema| schema.open_api_v3_schema.as_ref())
            .ok_or_else(|| error(("spec.versions".to_owned(), format!("there is no schema of version {version:?}"))))?;
        let schema = serde_json::to_value(schema).map_err(|problem| error((String::new(), problem.to_string())))?;
        let root = Node::compile(&schema, "").map_err(error)?;
        let rules = cel::Rules::compile(&schema).map_err(error)?;
        Ok(Self { root, rules })
    }

    /// The schema of a whole object.
    pub(crate) const fn root(&self) -> &SchemaNode {
        &self.root
    }

    /// Adds the defaults of absent fields, until the object is larger than any that can be stored.
    pub fn default(&self, object: &mut Value) {
        let mut remaining = LARGEST_OBJECT;
        defaults::apply(&self.root, object, &mut remaining);
    }

    /// Removes fields that are not in the schema. `apiVersion`, `kind` and `metadata` always stay.
    pub fn prune(&self, object: &mut Value) {
        let Value::Object(fields) = object else { return };
        let kept: Vec<_> = ["apiVersion", "kind", "metadata"]
            .into_iter()
            .filter_map(|name| fields.remove(name).map(|value| (name.to_owned(), value)))
            .collect();
        defaults::prune(&self.root, object);
        if let Value::Object(fields) = object {
            fields.extend(kept);
        }
    }

    /// Checks an object, pruned and with defaults, to be created (`old` is `None`) or to replace another.
    ///
    /// As in the API server, rules are evaluated only if the structure is valid, because they may rely on it.
    #[must_use]
    pub fn validate(&self, new: &Value, old: Option<&Value>) -> Vec<FieldError> {
        let mut errors = Vec::new();
        structural::validate(&self.root, new, old, "", &mut errors);
        if errors.is_empty() {
            errors = self.rules.validate(new, old);
        }
        errors
    }
}

fn join(path: &str, field: &str) -> String {
    if path.is_empty() { field.to_owned() } else { format!("{path}.{field}") }
}
