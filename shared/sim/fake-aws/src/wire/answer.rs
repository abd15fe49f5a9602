//! HTTP answers in the formats of the four protocols.

use axum::body::Body;
use axum::http::header::{CONTENT_TYPE, HeaderName};
use axum::http::{HeaderValue, Response, StatusCode};
use serde_json::{Value, json};

use super::super::error::Ec2Error;
use super::xml::{ec2_member, element, escape, query_member};

/// The protocol of a service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Protocol {
    /// EC2's dialect of the query protocol.
    Ec2,
    /// The query protocol with this XML namespace.
    Query(&'static str),
    /// JSON 1.1 with the action in a header.
    Json,
    /// REST with JSON.
    Rest,
}

const EC2_NAMESPACE: &str = "http://ec2.amazonaws.com/doc/2016-11-15/";

/// The answer to a call.
pub(super) fn respond(
    protocol: Protocol,
    action: &str,
    request_id: &str,
    result: Result<Value, Ec2Error>,
) -> Response<Body> {
    let (status, error) = match &result {
        Ok(_) => (200, None),
        Err(error) => (error.status, Some(error.code.clone())),
    };
    let body = match (protocol, result) {
        (Protocol::Ec2, Ok(content)) => ec2_answer(action, request_id, &content),
        (Protocol::Ec2, Err(error)) => format!(
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<Response><Errors><Error><Code>{}</Code><Message>{}</Message>\
             </Error></Errors><RequestID>{request_id}</RequestID></Response>",
            escape(&error.code),
            escape(&error.message)
        ),
        (Protocol::Query(namespace), Ok(content)) => {
            let mut body = format!("<{action}Response xmlns=\"{namespace}\">");
            element(&mut body, "", &format!("{action}Result"), &content, query_member);
            body.push_str(&format!("<ResponseMetadata><RequestId>{request_id}</RequestId></ResponseMetadata>"));
            body.push_str(&format!("</{action}Response>"));
            body
        }
        (Protocol::Query(namespace), Err(error)) => format!(
            "<ErrorResponse xmlns=\"{namespace}\"><Error><Type>Sender</Type><Code>{}</Code><Message>{}</Message>\
             </Error><RequestId>{request_id}</RequestId></ErrorResponse>",
            escape(&error.code),
            escape(&error.message)
        ),
        (Protocol::Json | Protocol::Rest, Ok(content)) => content.to_string(),
        (Protocol::Json | Protocol::Rest, Err(error)) => {
            json!({ "__type": error.code, "message": error.message }).to_string()
        }
    };
    let content_type = match protocol {
        Protocol::Ec2 | Protocol::Query(_) => "text/xml;charset=UTF-8",
        Protocol::Json => "application/x-amz-json-1.1",
        Protocol::Rest => "application/json",
    };
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::BAD_REQUEST);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    if let Ok(id) = HeaderValue::from_str(request_id) {
        headers.insert(HeaderName::from_static("x-amzn-requestid"), id);
    }
    if let Some(code) = error.and_then(|code| HeaderValue::from_str(&code).ok()) {
        headers.insert(HeaderName::from_static("x-amzn-errortype"), code);
    }
    response
}

fn ec2_answer(action: &str, request_id: &str, content: &Value) -> String {
    let mut body = format!("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<{action}Response xmlns=\"{EC2_NAMESPACE}\">");
    body.push_str(&format!("<requestId>{request_id}</requestId>"));
    for (name, value) in content.as_object().into_iter().flatten() {
        element(&mut body, "", name, value, ec2_member);
    }
    body.push_str(&format!("</{action}Response>"));
    body
}
