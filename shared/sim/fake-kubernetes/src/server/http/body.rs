//! Request bodies: JSON, or YAML or protobuf by the content type.

use axum::body::{Body, Bytes};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use serde_json::Value;

use super::request::Call;
use crate::server::garbage::{DeleteOptions, Preconditions, Propagation};
use crate::server::limits::{LARGEST_BODY, too_large};
use crate::server::protobuf;
use crate::server::status::Status;

/// The bytes of a body.
pub(super) async fn read(body: Body) -> Result<Bytes, Status> {
    match Limited::new(body, LARGEST_BODY).collect().await {
        Ok(read) => Ok(read.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => Err(too_large(&format!("limit is {LARGEST_BODY}"))),
        Err(error) => Err(Status::bad_request(format!("the body of the request cannot be read: {error}"))),
    }
}

/// The body as a value.
pub(super) fn parse(call: &Call, bytes: &[u8]) -> Result<Value, Status> {
    let kind = call.content_type.split(';').next().unwrap_or_default().trim();
    if kind == "application/vnd.kubernetes.protobuf" {
        return protobuf::decode(bytes);
    }
    // Without a content type, the body is JSON, as for the real server. A page of another site can send those of forms and of plain text.
    if !(kind.is_empty() || kind.contains("json") || kind.contains("yaml")) {
        let text = format!("the body of the request is {kind}; JSON, YAML and Kubernetes' protobuf are supported");
        return Err(Status::new(415, "UnsupportedMediaType", text));
    }
    match serde_json::from_slice(bytes) {
        Ok(value) => Ok(value),
        Err(json_error) => {
            if !kind.contains("yaml") {
                return Err(Status::bad_request(format!("the body of the request is no JSON: {json_error}")));
            }
            let text = std::str::from_utf8(bytes)
                .map_err(|error| Status::bad_request(format!("the body of the request is no text: {error}")))?;
            serde_saphyr::from_str(text)
                .map_err(|error| Status::bad_request(format!("the body of the request is no YAML: {error}")))
        }
    }
}

/// Options of a deletion: a `DeleteOptions` in the body, or query parameters.
pub(super) fn delete_options(call: &Call, body: Option<&Value>) -> Result<DeleteOptions, Status> {
    let field = |name: &str| body.and_then(|body| body.get(name)).filter(|value| !value.is_null());
    let named = field("propagationPolicy").and_then(Value::as_str).or(call.parameter("propagationPolicy"));
    let orphans = field("orphanDependents").and_then(Value::as_bool).unwrap_or(false) || call.flag("orphanDependents");
    let propagation = match named {
        None if orphans => Propagation::Orphan,
        None | Some("Background") => Propagation::Background,
        Some("Foreground") => Propagation::Foreground,
        Some("Orphan") => Propagation::Orphan,
        Some(other) => {
            let text = format!(
                "DeleteOptions is invalid: propagationPolicy: Unsupported value: {other:?}: supported values: \
                 \"Foreground\", \"Background\", \"Orphan\""
            );
            return Err(Status::new(422, "Invalid", text));
        }
    };
    let grace = match field("gracePeriodSeconds").and_then(Value::as_i64) {
        Some(grace) => Some(grace),
        None => call.number("gracePeriodSeconds")?.and_then(|grace| i64::try_from(grace).ok()),
    };
    let precondition = |name: &str| {
        let value = field("preconditions").and_then(|it| it.get(name)).and_then(Value::as_str);
        value.map(str::to_owned)
    };
    let dry_run = field("dryRun").and_then(Value::as_array).is_some_and(|list| !list.is_empty());
    Ok(DeleteOptions {
        grace_period_seconds: grace,
        propagation,
        preconditions: Preconditions { uid: precondition("uid"), resource_version: precondition("resourceVersion") },
        dry_run: dry_run || call.dry_run()?,
    })
}
