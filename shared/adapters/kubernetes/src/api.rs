//! The requests of the Kubernetes API, by path.

use crate::connection::Connection;
use http::Request;
use http::header::CONTENT_TYPE;
use nodeless_cluster::{CallError, FIELD_MANAGER, PatchKind, found};
use nodeless_ports::ErrorKind;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// The path of an object; names of Kubernetes objects need no encoding.
pub(crate) fn object(collection: &str, name: &str) -> String {
    format!("{collection}/{name}")
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

    /// Reads one object.
    pub(crate) async fn get(&self, operation: &str, path: &str) -> Result<Value, CallError> {
        decode(operation, &self.read(operation, built(operation, Request::get(path).body(Vec::new()))?).await?)
    }

    /// Reads one object; `None` if it does not exist. A path that the API server does not serve is an error.
    pub(crate) async fn find(&self, operation: &str, path: &str) -> Result<Option<Value>, CallError> {
        found(self.get(operation, path).await, operation, path)
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

    /// Deletes an object with these options, and returns the response: the object if it has finalizers, and otherwise a Status or the
    /// object.
    pub(crate) async fn delete(&self, operation: &str, path: &str, options: &Value) -> Result<Value, CallError> {
        let path = if self.dry_run { format!("{path}?dryRun=All") } else { path.to_owned() };
        let request = Request::delete(path).header(CONTENT_TYPE, "application/json").body(body(operation, options)?);
        decode(operation, &self.call(operation, built(operation, request)?).await?)
    }
}

/// Decodes a response body into a value that borrows from it.
pub(crate) fn borrowed<'a, T: serde::Deserialize<'a>>(operation: &str, text: &'a str) -> Result<T, CallError> {
    serde_json::from_str(text).map_err(|error| {
        CallError::other(ErrorKind::Unavailable, operation, format!("the answer is malformed: {error}"))
    })
}
