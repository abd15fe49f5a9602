//! The paths of the server.

use super::Shown;
use crate::view::Viewed;
use crate::view::explain::explain;
use axum::extract::{Query, State as Extracted};
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::middleware::map_response;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use nodeless_model::printable::printable_line;
use nodeless_view::Target;
use serde::Deserialize;
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch::Receiver;
use tokio::time::timeout;

const PAGE: &str = include_str!("page.html");
const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

/// How long a request for a newer picture waits for one.
const WAIT: Duration = Duration::from_secs(20);

/// The headers of all responses: nothing is loaded from elsewhere, embedded elsewhere, or stored.
const HEADERS: [(HeaderName, &str); 5] = [
    (
        CONTENT_SECURITY_POLICY,
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    ),
    (X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (REFERRER_POLICY, "no-referrer"),
    (CACHE_CONTROL, "no-store"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
];

/// The state of the request handlers.
#[derive(Clone)]
pub(super) struct State {
    pub(super) viewed: Arc<Viewed>,
    pub(super) shown: Receiver<Arc<Shown>>,
}

pub(super) fn router(state: State) -> Router {
    Router::new()
        .route("/", get(|| async { asset("text/html; charset=utf-8", PAGE) }))
        .route("/page.css", get(|| async { asset("text/css; charset=utf-8", STYLE) }))
        .route("/page.js", get(|| async { asset("text/javascript; charset=utf-8", SCRIPT) }))
        .route("/api/picture", get(picture))
        .route("/api/explain", get(explained))
        .layer(map_response(with_headers))
        .with_state(state)
}

async fn with_headers(mut response: Response) -> Response {
    for (name, value) in HEADERS {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

fn asset(kind: &'static str, text: &'static str) -> Response {
    ([(CONTENT_TYPE, kind)], text).into_response()
}

#[derive(Deserialize)]
struct After {
    /// The revision that the browser has: the response waits for a newer one.
    #[serde(default)]
    after: u64,
}

/// The picture, as soon as it is newer than the one that the browser has; 204 if it is not for a while.
async fn picture(Extracted(state): Extracted<State>, Query(After { after }): Query<After>) -> Response {
    let mut shown = state.shown.clone();
    let newer = timeout(WAIT, shown.wait_for(|shown| shown.revision != after)).await;
    match newer {
        Ok(Ok(shown)) => ([(CONTENT_TYPE, "application/json")], shown.json.clone()).into_response(),
        Ok(Err(_)) => StatusCode::SERVICE_UNAVAILABLE.into_response(),
        Err(_) => StatusCode::NO_CONTENT.into_response(),
    }
}

#[derive(Deserialize)]
struct Named {
    kind: NamedKind,
    name: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
enum NamedKind {
    Node,
    Pod,
    Claim,
}

/// What a plan made now would do with an object.
async fn explained(Extracted(state): Extracted<State>, Query(Named { kind, name }): Query<Named>) -> Response {
    let target = match kind {
        NamedKind::Node => Target::Node(name),
        NamedKind::Pod => Target::Pod(name),
        NamedKind::Claim => Target::Claim(name),
    };
    let lines = explain(&state.viewed, &target).await;
    Json(json!({ "lines": lines.iter().map(|line| printable_line(line)).collect::<Vec<_>>() })).into_response()
}
