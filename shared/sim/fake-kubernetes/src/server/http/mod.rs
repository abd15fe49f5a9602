//! The HTTP API: maps URLs to operations, and answers in the format that the client accepts.

mod body;
mod list_options;
mod metrics;
mod reads;
mod request;
mod respond;
mod watching;
mod writing;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::{Method, header};
use axum::response::Response;
use serde_json::{Value, json};

use request::{Call, Target};
use respond::{Form, json as answer};

use super::api::ApiServer;
use super::discovery::{self, REVIEWS};
use super::openapi;
use super::status::Status;
use crate::messages::GIT_VERSION;

impl ApiServer {
    /// The API over HTTP. Serve it with `axum::serve`, and run [`ApiServer::run_reviews`] beside it.
    pub fn router(&self) -> Router {
        Router::new().fallback(handle).with_state(self.clone())
    }
}

async fn handle(State(server): State<ApiServer>, request: Request) -> Response {
    match route(&server, request).await {
        Ok(response) => response,
        Err(status) => respond::error(&status),
    }
}

async fn route(server: &ApiServer, request: Request) -> Result<Response, Status> {
    let (parts, body) = request.into_parts();
    authenticate(server, parts.headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok()))?;
    let call = Call::new(&parts)?;
    if parts.method == Method::GET
        && let Some(response) = static_page(server, &call)
    {
        return response;
    }
    let bytes = body::read(body).await?;
    if let ["apis", group, "v1", plural] = call.segments().as_slice()
        && let Some((_, _, kind)) = REVIEWS.iter().find(|(g, p, _)| g == group && p == plural)
    {
        return review(group, kind, body::parse(&call, &bytes)?);
    }
    let target = Target::parse(server, &call)?;
    if metrics::is_measured(&target) {
        return metrics::answer(server, &call, &target, &parts.method);
    }
    match parts.method {
        Method::GET if target.name.is_none() && call.flag("watch") => watching::watch(server, &call, &target),
        Method::GET if target.name.is_none() => reads::list(server, &call, &target),
        Method::GET => reads::get(server, &call, &target),
        Method::POST => writing::post(server, &call, &target, &bytes).await,
        Method::PUT => writing::put(server, &call, &target, &bytes).await,
        Method::PATCH => writing::patch(server, &call, &target, &bytes).await,
        Method::DELETE => writing::delete(server, &call, &target, &bytes).await,
        _ => Err(Status::method_not_allowed()),
    }
}

fn authenticate(server: &ApiServer, authorization: Option<&str>) -> Result<(), Status> {
    let Some(expected) = server.token() else { return Ok(()) };
    if authorization.and_then(|value| value.strip_prefix("Bearer ")).is_some_and(|token| token.trim() == expected) {
        return Ok(());
    }
    Err(Status::new(401, "Unauthorized", "Unauthorized"))
}

/// Requests that are not about objects: discovery, health, version, OpenAPI.
fn static_page(server: &ApiServer, call: &Call) -> Option<Result<Response, Status>> {
    let aggregated = call.accept.contains("as=APIGroupDiscoveryList") && call.accept.contains("v=v2");
    let store = server.store();
    let found = match call.segments().as_slice() {
        ["api" | "apis"] if aggregated => {
            let value = discovery::aggregated(&store, call.path == "/api" || call.path == "/api/");
            return Some(Ok(respond::typed(&value, discovery::AGGREGATED)));
        }
        ["api"] => discovery::core_versions(),
        ["apis"] => discovery::group_list(&store),
        ["apis", group] => discovery::one_group(&store, group)?,
        ["api", version] => discovery::resource_list(&store, "", version)?,
        ["apis", group, version] => discovery::resource_list(&store, group, version)?,
        ["healthz" | "readyz" | "livez", ..] => return Some(Ok(respond::text("ok"))),
        ["version"] => json!({"major": "1", "minor": "36", "emulationMajor": "1", "emulationMinor": "36",
            "minCompatibilityMajor": "1", "minCompatibilityMinor": "35", "gitVersion": GIT_VERSION, "gitCommit": "",
            "gitTreeState": "clean", "buildDate": "1970-01-01T00:00:00Z", "goVersion": "", "compiler": "",
            "platform": "linux/amd64"}),
        ["openapi", "v2"] => return Some(openapi_v2(call)),
        ["openapi", "v3"] => openapi::index(&store),
        ["openapi", "v3", rest @ ..] => openapi::document(&store, &rest.join("/"))?,
        [] => {
            json!({"paths": ["/api", "/apis", "/healthz", "/livez", "/openapi/v2", "/openapi/v3", "/readyz", "/version"]})
        }
        _ => return None,
    };
    Some(Ok(answer(200, &found)))
}

/// The second version of OpenAPI, which kubectl reads for kinds that the third does not have, in protobuf alone. The document has no kinds,
/// so that kubectl continues, and reports that no API matches the kind.
fn openapi_v2(call: &Call) -> Result<Response, Status> {
    if [openapi::V2_ACCEPTED, openapi::V2_PROTOBUF].iter().any(|kind| call.accept.contains(kind)) {
        return Ok(respond::bytes(openapi::V2_WITHOUT_KINDS, openapi::V2_PROTOBUF));
    }
    Err(Status::new(406, "NotAcceptable", format!("/openapi/v2 is served as {} alone", openapi::V2_PROTOBUF)))
}

/// Access reviews: all requests are allowed.
fn review(group: &str, kind: &str, mut review: Value) -> Result<Response, Status> {
    if !review.is_object() {
        return Err(Status::bad_request("a review has to be an object"));
    }
    review["apiVersion"] = json!(format!("{group}/v1"));
    review["kind"] = json!(kind);
    let user = json!({"username": "system:admin", "groups": ["system:masters", "system:authenticated"]});
    let everything = json!([{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}]);
    review["status"] = match kind {
        "SelfSubjectReview" => json!({"userInfo": user}),
        "TokenReview" => json!({"authenticated": true, "user": user}),
        "SelfSubjectRulesReview" => json!({"resourceRules": everything, "nonResourceRules":
            [{"verbs": ["*"], "nonResourceURLs": ["*"]}], "incomplete": false}),
        _ => json!({"allowed": true}),
    };
    Ok(answer(201, &review))
}

/// One object in the requested format.
fn show(server: &ApiServer, call: &Call, target: &Target, code: u16, object: &std::sync::Arc<Value>) -> Response {
    let form = if target.subresource.as_deref() == Some("scale") { Form::Full } else { call.form() };
    respond::object(&target.definition, form, call.include(), code, object, server.ages())
}
