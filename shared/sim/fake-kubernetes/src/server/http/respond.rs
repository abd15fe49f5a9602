//! Answers: whole objects, metadata alone, or tables.

use std::sync::Arc;

use axum::body::Body;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::Response;
use serde::ser::SerializeMap as _;
use serde::{Serialize, Serializer};
use serde_json::{Value, json as object_of};

use crate::server::definition::Definition;
use crate::server::status::Status;
use crate::server::table;
use crate::server::time::Ages;

/// The format of objects that a client accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    Full,
    Partial,
    Table,
}

fn response(code: u16, content_type: &'static str, body: Body) -> Response {
    let mut response = Response::new(body);
    *response.status_mut() = StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}

pub(super) fn stream(body: Body) -> Response {
    response(200, "application/json", body)
}

pub(super) fn text(text: &'static str) -> Response {
    response(200, "text/plain; charset=utf-8", Body::from(text))
}

pub(super) fn bytes(bytes: &'static [u8], content_type: &'static str) -> Response {
    response(200, content_type, Body::from(bytes))
}

pub(super) fn json(code: u16, value: &impl Serialize) -> Response {
    with_type(code, "application/json", value)
}

pub(super) fn typed(value: &Value, content_type: &'static str) -> Response {
    with_type(200, content_type, value)
}

fn with_type(code: u16, content_type: &'static str, value: &impl Serialize) -> Response {
    match serde_json::to_vec(value) {
        Ok(bytes) => response(code, content_type, Body::from(bytes)),
        Err(error) => self::error(&Status::new(500, "InternalError", format!("the answer is no JSON: {error}"))),
    }
}

pub(super) fn error(status: &Status) -> Response {
    let mut response = response(status.code, "application/json", Body::from(status.to_value().to_string()));
    if let Some(seconds) = status.retry_after_seconds {
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    }
    response
}

/// The response with one object.
pub(super) fn object(
    definition: &Definition,
    form: Form,
    include: &str,
    code: u16,
    object: &Arc<Value>,
    ages: Ages,
) -> Response {
    match form {
        Form::Full => json(code, object.as_ref()),
        Form::Partial => json(code, &table::partial(object)),
        Form::Table => {
            let metadata = object_of!({"resourceVersion": object["metadata"]["resourceVersion"]});
            json(code, &table::table(definition, std::slice::from_ref(object), &metadata, include, true, ages))
        }
    }
}

/// A response with a warning for each text (RFC 7234, code 299), which kubectl prints.
pub(super) fn with_warnings(mut response: Response, texts: &[String]) -> Response {
    for warning in texts.iter().filter_map(|text| HeaderValue::from_str(&format!("299 - {text:?}")).ok()) {
        response.headers_mut().append(header::WARNING, warning);
    }
    response
}

#[derive(Serialize)]
struct ListBody<'a> {
    kind: String,
    #[serde(rename = "apiVersion")]
    api_version: String,
    metadata: &'a Value,
    items: Vec<Item<'a>>,
}

/// An object in a list. Those of built-in kinds have no kind of their own: the list has it.
struct Item<'a> {
    object: &'a Value,
    is_typed: bool,
}

impl Serialize for Item<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Some(fields) = self.object.as_object().filter(|_| self.is_typed) else {
            return self.object.serialize(serializer);
        };
        let mut map = serializer.serialize_map(None)?;
        for (name, value) in fields.iter().filter(|(name, _)| !matches!(name.as_str(), "apiVersion" | "kind")) {
            map.serialize_entry(name, value)?;
        }
        map.end()
    }
}

/// A list of objects.
pub(super) fn list(
    definition: &Definition,
    form: Form,
    include: &str,
    objects: &[Arc<Value>],
    metadata: &Value,
    ages: Ages,
) -> Response {
    match form {
        Form::Table => json(200, &table::table(definition, objects, metadata, include, true, ages)),
        Form::Partial => {
            let items: Vec<Value> = objects.iter().map(|object| table::partial(object)).collect();
            json(
                200,
                &object_of!({"kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1",
                "metadata": metadata, "items": items}),
            )
        }
        Form::Full => {
            let is_typed = definition.custom.is_none();
            let body = ListBody {
                kind: format!("{}List", definition.resource.kind),
                api_version: definition.resource.api_version(),
                metadata,
                items: objects.iter().map(|object| Item { object, is_typed }).collect(),
            };
            json(200, &body)
        }
    }
}
