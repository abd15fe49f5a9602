//! The part of OpenAPI v3 that kubectl uses: the parameters of writes, and the schemas of built-in and custom resources.

use serde_json::{Map, Value, json};

use crate::messages::GIT_VERSION;
use crate::server::definition::Definition;
use crate::server::store::Store;
use crate::server::{built_in_schemas, discovery};

/// The media type that clients accept for the second version of OpenAPI: a `Document` of gnostic's `openapi_v2` in protobuf.
pub(crate) const V2_ACCEPTED: &str = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf";
/// The media type of the answer, as of a real API server: `@` is not allowed in one (RFC 9110, token).
pub(crate) const V2_PROTOBUF: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";
/// Such a document with nothing but its version, `swagger: "2.0"` (field 1).
pub(crate) const V2_WITHOUT_KINDS: &[u8] = b"\x0a\x032.0";

fn document_name(group: &str, version: &str) -> String {
    if group.is_empty() { format!("api/{version}") } else { format!("apis/{group}/{version}") }
}

/// `/openapi/v3`: the URLs of the documents of the group versions.
pub(crate) fn index(store: &Store) -> Value {
    let paths: Map<String, Value> = discovery::group_versions(store)
        .into_iter()
        .map(|(group, version)| {
            let name = document_name(&group, &version);
            let url = format!("/openapi/v3/{name}");
            (name, json!({"serverRelativeURL": url}))
        })
        .collect();
    json!({"paths": paths})
}

/// The document of one group version.
pub(crate) fn document(store: &Store, name: &str) -> Option<Value> {
    let (group, version) =
        discovery::group_versions(store).into_iter().find(|(group, version)| document_name(group, version) == name)?;
    let mut paths = Map::new();
    let mut schemas = built_in_schemas::schemas_of_group(&group, &version);
    for definition in store.definitions() {
        let resource = &definition.resource;
        if resource.group != group || resource.version != version {
            continue;
        }
        let namespaced = if resource.namespaced { "/namespaces/{namespace}" } else { "" };
        let base = format!("/{name}{namespaced}/{}", resource.plural);
        paths.insert(base.clone(), json!({"post": operation(definition, "post")}));
        let one = json!({"put": operation(definition, "put"), "patch": operation(definition, "patch")});
        paths.insert(format!("{base}/{{name}}"), one);
        if let Some(custom) = &definition.custom {
            let mut schema = custom.schema.clone();
            schema["x-kubernetes-group-version-kind"] = json!([kind(definition)]);
            let prefix: Vec<&str> = resource.group.split('.').rev().collect();
            schemas.insert(format!("{}.{}.{}", prefix.join("."), resource.version, resource.kind), schema);
        }
    }
    Some(json!({"openapi": "3.0.0", "info": {"title": "Kubernetes", "version": GIT_VERSION}, "paths": paths,
        "components": {"schemas": schemas}}))
}

fn kind(definition: &Definition) -> Value {
    let resource = &definition.resource;
    json!({"group": resource.group, "version": resource.version, "kind": resource.kind})
}

fn operation(definition: &Definition, action: &str) -> Value {
    let parameters: Vec<Value> = ["dryRun", "fieldManager", "fieldValidation"]
        .into_iter()
        .map(|name| json!({"name": name, "in": "query", "schema": {"type": "string", "uniqueItems": true}}))
        .collect();
    json!({"parameters": parameters, "x-kubernetes-action": action,
        "x-kubernetes-group-version-kind": kind(definition), "responses": {"200": {"description": "OK"}}})
}
