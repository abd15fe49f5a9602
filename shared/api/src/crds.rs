//! The CustomResourceDefinitions, as objects and as the YAML in `infra/crds/`.

use crate::resources::PROVISIONING_REQUESTS;
use crate::{CapacityBuffer, EC2NodeClass, NodeClaim, NodeOverlay, NodePool, ProvisioningRequest};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, CustomResourceDefinitionVersion,
};
use kube::CustomResourceExt as _;
use serde_json::{Value, json};

/// Why a definition could not be made or printed. It is a fault of this program, not of what it was given.
#[derive(Debug, thiserror::Error)]
pub enum CrdError {
    /// The generated schema is not a CustomResourceDefinition.
    #[error("the generated definition of {name} is malformed: {source}; this is a bug in nodeless")]
    Malformed {
        /// The definition's name.
        name: String,
        /// The JSON error.
        source: serde_json::Error,
    },
    /// The definition could not be printed.
    #[cfg(feature = "yaml")]
    #[error("the definition of {name} could not be printed as YAML: {reason}; this is a bug in nodeless")]
    Yaml {
        /// The definition's name.
        name: String,
        /// The YAML error.
        reason: String,
    },
}

/// A kind, and the definition that its type derives.
type Derived = (&'static str, fn() -> CustomResourceDefinition);

/// The kinds that have a definition.
const DERIVED: [Derived; 6] = [
    ("NodePool", NodePool::crd),
    ("NodeClaim", NodeClaim::crd),
    ("EC2NodeClass", EC2NodeClass::crd),
    ("NodeOverlay", NodeOverlay::crd),
    ("CapacityBuffer", CapacityBuffer::crd),
    ("ProvisioningRequest", ProvisioningRequest::crd),
];

/// The definitions of NodePool, NodeClaim, EC2NodeClass, NodeOverlay, CapacityBuffer and ProvisioningRequest.
///
/// # Errors
/// When a generated schema is malformed, which a test rules out.
pub fn crds() -> Result<Vec<CustomResourceDefinition>, CrdError> {
    DERIVED.iter().map(|(_, derived)| finish(&derived())).collect()
}

/// The definition of a kind, if there is one.
///
/// # Errors
/// When the generated schema is malformed, which a test rules out.
pub fn crd(kind: &str) -> Result<Option<CustomResourceDefinition>, CrdError> {
    let found = DERIVED.iter().find(|(name, _)| *name == kind);
    found.map(|(_, derived)| finish(&derived())).transpose()
}

/// ProvisioningRequests have an earlier version with the same schema, which Kueue uses.
const EARLIER_VERSION: &str = "v1beta1";

/// Serves the earlier version, too.
fn add_earlier_version(crd: &mut CustomResourceDefinition) {
    let earlier = crd.spec.versions.first().map(|version| CustomResourceDefinitionVersion {
        name: EARLIER_VERSION.to_owned(),
        storage: false,
        deprecated: Some(true),
        ..version.clone()
    });
    crd.spec.versions.extend(earlier);
}

/// Rewrites what the derive makes of `Option` and integers into the schema that Karpenter has.
fn finish(crd: &CustomResourceDefinition) -> Result<CustomResourceDefinition, CrdError> {
    let malformed = |source| CrdError::Malformed { name: crd.metadata.name.clone().unwrap_or_default(), source };
    let mut value = serde_json::to_value(crd).map_err(malformed)?;
    if let Some(schema) = value.pointer_mut("/spec/versions/0/schema/openAPIV3Schema") {
        tidy(schema);
        add_object_fields(schema);
    }
    let list_kind = format!("{}List", crd.spec.names.kind);
    if let Some(names) = value.pointer_mut("/spec/names") {
        names["listKind"] = Value::String(list_kind);
    }
    let mut finished: CustomResourceDefinition = serde_json::from_value(value).map_err(malformed)?;
    if finished.spec.names.kind == PROVISIONING_REQUESTS.kind {
        add_earlier_version(&mut finished);
    }
    Ok(finished)
}

/// An absent field is not the same as `null`: Karpenter's schemas refuse `null`, so ours do. Titles are Rust's names.
fn tidy(schema: &mut Value) {
    let Some(object) = schema.as_object_mut() else { return };
    object.remove("nullable");
    object.remove("title");
    if let Some(Value::Array(values)) = object.get_mut("enum") {
        values.retain(|value| !value.is_null());
    }
    if object.get("x-kubernetes-int-or-string") == Some(&Value::Bool(true)) {
        object.insert("anyOf".to_owned(), json!([{ "type": "integer" }, { "type": "string" }]));
    }
    if let Some(Value::Object(properties)) = object.get_mut("properties") {
        properties.values_mut().for_each(tidy);
    }
    for key in ["items", "additionalProperties"] {
        if let Some(child) = object.get_mut(key) {
            tidy(child);
        }
    }
}

/// Adds the fields of every object that the derive leaves out, for `kubectl explain`.
fn add_object_fields(schema: &mut Value) {
    if let Some(Value::Object(properties)) = schema.get_mut("properties") {
        let version =
            json!({ "type": "string", "description": "The API group and version: what this object's fields mean." });
        let kind = json!({ "type": "string", "description": "The kind of this object." });
        properties.insert("apiVersion".to_owned(), version);
        properties.insert("kind".to_owned(), kind);
        properties.insert("metadata".to_owned(), json!({ "type": "object" }));
    }
}

/// The definitions as files: (name, content), exactly as they are kept in `infra/crds/`.
///
/// # Errors
/// When a definition cannot be made or printed, which a test rules out.
#[cfg(feature = "yaml")]
pub fn yaml_files() -> Result<Vec<(String, String)>, CrdError> {
    crds()?
        .iter()
        .map(|crd| {
            let name = crd.metadata.name.clone().unwrap_or_default();
            let (plural, group) = name.split_once('.').unwrap_or((&name, ""));
            let file = format!("{group}_{plural}.yaml");
            let yaml = serde_saphyr::to_string(crd)
                .map_err(|error| CrdError::Yaml { name: name.clone(), reason: error.to_string() })?;
            Ok((
                file,
                format!("# Generated by `nodeless crds --write infra/crds`; do not edit.\n---\n{}\n", yaml.trim_end()),
            ))
        })
        .collect()
}
