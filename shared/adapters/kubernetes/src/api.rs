//! The requests of the Kubernetes API, by path.

use crate::FIELD_MANAGER;
use crate::connection::Connection;
use crate::error::CallError;
use http::Request;
use http::header::CONTENT_TYPE;
use nodeless_api::resources;
use nodeless_ports::ErrorKind;
use serde::de::DeserializeOwned;
use serde_json::Value;

pub(crate) const NODES: &str = "/api/v1/nodes";
pub(crate) const NODE_POOLS: &str = resources::NODE_POOLS.path;
pub(crate) const NODE_CLAIMS: &str = resources::NODE_CLAIMS.path;
pub(crate) const NODE_OVERLAYS: &str = resources::NODE_OVERLAYS.path;
pub(crate) const CAPACITY_BUFFERS: &str = resources::CAPACITY_BUFFERS.path;
pub(crate) const PROVISIONING_REQUESTS: &str = resources::PROVISIONING_REQUESTS.path;
pub(crate) const NODE_CLASSES: &str = resources::NODE_CLASSES.path;

/// The kind of a patch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PatchKind {
    /// JSON merge patch: `null` removes, lists are replaced.
    Merge,
    /// JSON patch: a list of operations, of which all or none are done.
    Json,
    /// Strategic merge patch: single elements of lists are removed. Kinds of CRDs do not support it.
    Strategic,
    /// Server-side apply as the field manager `nodeless`, taking over fields of other managers.
    Apply,
}

/// The path of an object; names of Kubernetes objects need no encoding.
pub(crate) fn object(collection: &str, name: &str) -> String {
    format!("{collection}/{name}")
}

/// The path of the objects of a collection in a namespace; the collection itself if there is none.
pub(crate) fn within(collection: &str, namespace: &str) -> String {
    match collection.rsplit_once('/') {
        Some((group, plural)) if !namespace.is_empty() => format!("{group}/namespaces/{namespace}/{plural}"),
        _ => collection.to_owned(),
    }
}

/// The path of the pods of a namespace.
pub(crate) fn pods(namespace: &str) -> String {
    format!("/api/v1/namespaces/{namespace}/pods")
}

fn body(operation: &str, value: &Value) -> Result<Vec<u8>, CallError> {
    serde_json::to_vec(value).map_err(|error| CallError::other(ErrorKind::Invalid, operation, error.to_string()))
}

fn built(operation: &str, request: http::Result<Request<Vec<u8>>>) -> Result<Request<Vec<u8>>, CallError> {
    request.map_err(|error| CallError::other(ErrorKind::Invalid, operation, format!("no valid request: {error}")))
}

/// Decodes a response body.
pub(crate) fn decode<T: DeserializeOwned>(operation: &str, text: &str) -> Result<T, CallError> {
    serde_json::from_str(text).map_err(|error| {
        CallError::other(ErrorKind::Unavailable, operation, format!("the answer is malformed: {error}"))
    })
}

impl Connection {
    const fn dry_run_parameter(&self) -> &'static str {
        if self.dry_run { "&dryRun=All" } else { "" }
    }

    /// Reads one object; `None` if it does not exist. A path that the API server does not serve is an error instead: while a CRD
    /// is not served, its objects must not look deleted.
    pub(crate) async fn get(&self, operation: &str, path: &str) -> Result<Option<Value>, CallError> {
        match self.read(operation, built(operation, Request::get(path).body(Vec::new()))?).await {
            Ok(text) => decode(operation, &text).map(Some),
            Err(failed) if failed.names_missing_object() => Ok(None),
            Err(failed) if failed.is(404) => {
                let message = format!(
                    "the API server does not serve {path}; if this persists, install the CRDs with `nodeless install`"
                );
                Err(CallError::other(ErrorKind::Unavailable, operation, message))
            }
            Err(failed) => Err(failed),
        }
    }

    /// Creates an object, or calls a subresource that takes a POST.
    pub(crate) async fn post(&self, operation: &str, path: &str, value: &Value) -> Result<Value, CallError> {
        let request = Request::post(format!("{path}?fieldManager={FIELD_MANAGER}{}", self.dry_run_parameter()))
            .header(CONTENT_TYPE, "application/json")
            .body(body(operation, value)?);
        decode(operation, &self.call(operation, built(operation, request)?).await?)
    }

    /// Patches an object or its subresource, and returns the result.
    pub(crate) async fn patch(
        &self,
        operation: &str,
        path: &str,
        kind: PatchKind,
        value: &Value,
    ) -> Result<Value, CallError> {
        let (force, content_type) = match kind {
            PatchKind::Merge => ("", "application/merge-patch+json"),
            PatchKind::Json => ("", "application/json-patch+json"),
            PatchKind::Strategic => ("", "application/strategic-merge-patch+json"),
            PatchKind::Apply => ("&force=true", "application/apply-patch+yaml"),
        };
        let dry_run = self.dry_run_parameter();
        let request = Request::patch(format!("{path}?fieldManager={FIELD_MANAGER}{force}{dry_run}"))
            .header(CONTENT_TYPE, content_type)
            .body(body(operation, value)?);
        decode(operation, &self.call(operation, built(operation, request)?).await?)
    }

    /// Deletes an object with these options, and returns the response: the object if it has finalizers, and otherwise a Status or the object.
    /// `None` if it does not exist, or its uid differs.
    pub(crate) async fn delete(
        &self,
        operation: &str,
        path: &str,
        options: &Value,
    ) -> Result<Option<String>, CallError> {
        let path = if self.dry_run { format!("{path}?dryRun=All") } else { path.to_owned() };
        let request = Request::delete(path).header(CONTENT_TYPE, "application/json").body(body(operation, options)?);
        match self.call(operation, built(operation, request)?).await {
            Ok(deleted) => Ok(Some(deleted)),
            // 409: the object has another uid than the precondition, so the requested object is gone.
            Err(failed) if failed.is(404) || failed.is(409) => Ok(None),
            Err(failed) => Err(failed),
        }
    }
}

/// Decodes a response body into a value that borrows from it.
pub(crate) fn borrowed<'a, T: serde::Deserialize<'a>>(operation: &str, text: &'a str) -> Result<T, CallError> {
    serde_json::from_str(text).map_err(|error| {
        CallError::other(ErrorKind::Unavailable, operation, format!("the answer is malformed: {error}"))
    })
}
