//! The definitions of Karpenter's kinds and the fields of built-in ones, by which the API server checks objects.

use crate::error::CliError;
use nodeless_fake_kubernetes::KUBERNETES;
use nodeless_fake_kubernetes::fields::{self, UnknownField};
use nodeless_fake_kubernetes::schema::Schema;
use nodeless_model::labels::similar;
use nodeless_snapshot::FieldCheck;
use serde_json::Value;
use serde_json::value::RawValue;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// The release of Karpenter that the definitions have the fields of.
const KARPENTER: &str = "Karpenter 1.15";
/// What an API server writes between why a rule cannot be evaluated and the rule.
const EVALUATING: &str = " evaluating rule: ";
/// How rules refuse a label key of Karpenter's domains that they do not know.
const RESTRICTED: &str = " is restricted";
/// The groups of the kinds that have definitions.
const DEFINED: [&str; 3] = ["karpenter.sh", "karpenter.k8s.aws", "autoscaling.x-k8s.io"];

type Kept = Result<Option<Arc<Schema>>, String>;

/// The same as [`find`], made once.
fn kept(kind: &str, version: &str) -> Kept {
    static KEPT: Mutex<BTreeMap<(String, String), Kept>> = Mutex::new(BTreeMap::new());
    let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
    let make = || find(kind, version).map(|schema| schema.map(Arc::new)).map_err(|error| error.to_string());
    kept.entry((kind.to_owned(), version.to_owned())).or_insert_with(make).clone()
}

/// The schema of a version of a kind, if there is a definition of it.
fn find(kind: &str, version: &str) -> Result<Option<Schema>, CliError> {
    let found = nodeless_api::crd(kind)?;
    let found = found.filter(|crd| crd.spec.versions.iter().any(|one| one.name == version));
    let schema = found.map(|crd| Schema::from_crd(&crd, version)).transpose();
    schema.map_err(|error| CliError::Form(error.to_string()))
}

/// The schema of a kind.
pub(crate) fn schema(kind: &str) -> Result<Schema, CliError> {
    find(kind, "v1")?.ok_or_else(|| CliError::Form(format!("there is no definition of {kind}")))
}

/// The errors of an object that is to be created, except for missing fields: the fields, and the errors.
pub(crate) fn errors(kind: &str, object: &Value) -> Vec<(String, String)> {
    let schema = match kept(kind, "v1") {
        Ok(Some(schema)) => schema,
        Ok(None) => return Vec::new(),
        Err(error) => return vec![(String::new(), error)],
    };
    let mut object = object.clone();
    schema.prune(&mut object);
    schema.default(&mut object);
    let errors = schema.validate(&object, None).into_iter().filter(|error| error.message != "Required value");
    // A rule that cannot be evaluated is broken; what its evaluation lacks is no message for a user.
    let rule = |message: String| match message.split_once(EVALUATING) {
        Some((_, rule)) => rule.to_owned(),
        None => message,
    };
    errors.map(|error| (error.path.clone(), meant(&object, &error.path, rule(error.message)))).collect()
}

/// A message about a label key, with the well-known label that the key may mean.
fn meant(object: &Value, path: &str, message: String) -> String {
    let pointer = format!("/{}", path.replace(['.', '['], "/").replace(']', ""));
    let key = object.pointer(&pointer).and_then(Value::as_str).filter(|_| message.ends_with(RESTRICTED));
    match key.and_then(similar) {
        Some(known) => format!("{message}; did you mean {known}?"),
        None => message,
    }
}

/// The check of the fields of manifests.
pub(crate) const FIELDS: FieldCheck = FieldCheck { has_only_known, unknown: unknown_fields };

/// Whether the text of a manifest has only fields that its kind has. May be false although it has.
fn has_only_known(api_version: &str, kind: &str, object: &RawValue) -> bool {
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    if !DEFINED.contains(&group) {
        return !fields::is_of_kubernetes(api_version) || fields::has_only_built_in(api_version, kind, object);
    }
    kept(kind, version).is_ok_and(|schema| schema.is_some_and(|schema| fields::has_only_custom(&schema, object)))
}

/// The fields of a manifest that its kind does not have.
fn unknown_fields(api_version: &str, kind: &str, object: &Value) -> Vec<nodeless_snapshot::UnknownField> {
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let (found, release) = if DEFINED.contains(&group) {
        match kept(kind, version) {
            Ok(schema) => (schema.map(|schema| fields::custom(&schema, object)), KARPENTER),
            Err(problem) => {
                return vec![nodeless_snapshot::UnknownField {
                    field: "apiVersion".to_owned(),
                    problem,
                    may_be_newer: true,
                }];
            }
        }
    } else if fields::is_of_kubernetes(api_version) {
        (fields::built_in(api_version, kind, object), KUBERNETES)
    } else {
        return Vec::new();
    };
    let Some(found) = found else {
        let problem = format!("the fields of {kind} are not checked in {api_version}, which {release} does not have");
        return vec![nodeless_snapshot::UnknownField { field: "apiVersion".to_owned(), problem, may_be_newer: true }];
    };
    let found = found.into_iter().map(|one| {
        let may_be_newer = one.may_be_newer();
        let UnknownField { path, meant } = one;
        let problem = match meant {
            Some(meant) => format!("{kind} has no such field; did you mean {meant}?"),
            None if may_be_newer => {
                format!(
                    "{kind} has no such field in {release}; unless it is one of a later release, correct or remove it"
                )
            }
            None => format!("{kind} has no such field; remove it"),
        };
        nodeless_snapshot::UnknownField { field: path, problem, may_be_newer }
    });
    found.collect()
}
