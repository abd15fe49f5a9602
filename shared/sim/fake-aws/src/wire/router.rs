//! One port for all services: the signature's scope, the target header, or the path selects the service.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, Method, Response};
use jiff::Timestamp;

use super::super::error::Ec2Error;
use super::super::query::QueryNode;
use super::super::services::{eks, iam, pricing, savings_plans, ssm, sts};
use super::super::state::Ec2;
use super::actions::run;
use super::answer::{Protocol, respond};

/// The maximum size of a request in bytes. EC2's own limit is far below.
const BODY_LIMIT: usize = 4 << 20;

type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

#[derive(Clone)]
struct Server {
    ec2: Ec2,
    clock: Option<Clock>,
    requests: Arc<AtomicU64>,
}

/// EC2, EKS, SSM, Pricing, Savings Plans, IAM and STS of the account on one port, for `AWS_ENDPOINT_URL` or its per-service forms. Signatures
/// are not verified. Time advances only by calls of [`Ec2::advance_to`].
pub fn aws_router(ec2: Ec2) -> Router {
    router(ec2, None)
}

/// [`aws_router`] with a clock that advances the account before each request.
pub fn aws_router_with_clock(ec2: Ec2, clock: impl Fn() -> Timestamp + Send + Sync + 'static) -> Router {
    router(ec2, Some(Arc::new(clock)))
}

fn router(ec2: Ec2, clock: Option<Clock>) -> Router {
    let server = Server { ec2, clock, requests: Arc::default() };
    Router::new().fallback(answer).with_state(server)
}

async fn answer(State(server): State<Server>, request: Request) -> Response<Body> {
    let number = server.requests.fetch_add(1, Ordering::Relaxed) + 1;
    let request_id = format!("00000000-0000-4000-9000-{number:012x}");
    let (parts, body) = request.into_parts();
    if let Some(clock) = &server.clock {
        server.ec2.advance_to(clock());
    }
    match to_bytes(body, BODY_LIMIT).await {
        Ok(body) => dispatch(&server.ec2, &request_id, &parts, &body),
        Err(error) => {
            let error = Ec2Error::new("InvalidRequest", format!("The request cannot be read: {error}"));
            respond(Protocol::Ec2, "", &request_id, Err(error))
        }
    }
}

/// Answers one request.
pub(super) fn dispatch(ec2: &Ec2, request_id: &str, parts: &Parts, body: &[u8]) -> Response<Body> {
    if let Some(target) = parts.headers.get("x-amz-target").and_then(|target| target.to_str().ok()) {
        let action = target.rsplit('.').next().unwrap_or_default();
        let result = json_call(ec2, target, action, body);
        return respond(Protocol::Json, action, request_id, result);
    }
    let path = parts.uri.path();
    if path != "/" && !path.is_empty() {
        return respond(Protocol::Rest, "", request_id, rest_call(ec2, &parts.method, path, body));
    }
    let form = if body.is_empty() { parts.uri.query().unwrap_or_default().as_bytes() } else { body };
    let (action, parameters) = match QueryNode::parse(form) {
        Ok((Some(action), parameters)) => (action, parameters),
        Ok((None, _)) => {
            let error = Ec2Error::new("MissingAction", "The request must contain the parameter Action.");
            return respond(Protocol::Ec2, "", request_id, Err(error));
        }
        Err(error) => return respond(Protocol::Ec2, "", request_id, Err(error)),
    };
    let (protocol, result) = match service(&parts.headers, parts.uri.query().unwrap_or_default(), &action) {
        Service::Ec2 => (Protocol::Ec2, run(ec2, &action, parameters)),
        Service::Iam => (Protocol::Query(iam::NAMESPACE), iam::call(ec2, &action, &parameters)),
        Service::Sts => (Protocol::Query(sts::NAMESPACE), sts::call(ec2, &action)),
        Service::Other(name) => {
            let message = format!("The simulated account has no service {name}, which {action} was signed for.");
            (Protocol::Ec2, Err(Ec2Error::new("InvalidAction", message)))
        }
    };
    respond(protocol, &action, request_id, result)
}

/// A call of EKS or of Savings Plans, by its path.
fn rest_call(ec2: &Ec2, method: &Method, path: &str, body: &[u8]) -> Result<serde_json::Value, Ec2Error> {
    let segments: Vec<String> = path.split('/').filter(|segment| !segment.is_empty()).map(decoded).collect();
    let names: Vec<&str> = segments.iter().map(String::as_str).collect();
    match (method, names.as_slice()) {
        (&Method::GET, ["clusters"]) => eks::list_clusters(ec2),
        (&Method::GET, ["clusters", name]) => eks::describe_cluster(ec2, name),
        (&Method::POST, [action @ ("DescribeSavingsPlans" | "DescribeSavingsPlanRates")]) => {
            savings_plans::call(ec2, action, body)
        }
        (_, ["clusters", name, "access-entries", principal, "access-policies", policy @ ..]) => {
            eks::access_policies(ec2, method, name, principal, policy, body)
        }
        _ => Err(Ec2Error::unknown_operation(&format!("{method} {path}"))),
    }
}

/// A segment of a path without its percent-encoding.
fn decoded(segment: &str) -> String {
    form_urlencoded::parse(segment.replace('+', "%2B").as_bytes()).map(|(name, _)| name.into_owned()).collect()
}

fn json_call(ec2: &Ec2, target: &str, action: &str, body: &[u8]) -> Result<serde_json::Value, Ec2Error> {
    let body = if body.is_empty() { b"{}" } else { body };
    let parameters = serde_json::from_slice(body)
        .map_err(|error| Ec2Error::new("SerializationException", format!("The request is no JSON: {error}")))?;
    if target.starts_with("AmazonSSM.") {
        ssm::call(ec2, action, &parameters)
    } else if target.starts_with("AWSPriceListService.") {
        pricing::call(ec2, action, &parameters)
    } else {
        Err(Ec2Error::unknown_operation(target))
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Service {
    Ec2,
    Iam,
    Sts,
    Other(String),
}

/// The service of a query request: by the scope of its signature, or by the action if it is unsigned.
fn service(headers: &HeaderMap, query: &str, action: &str) -> Service {
    let authorization = headers.get("authorization").and_then(|value| value.to_str().ok()).unwrap_or_default();
    let presigned = form_urlencoded::parse(query.as_bytes())
        .find(|(name, _)| name == "X-Amz-Credential")
        .map(|(_, value)| value.into_owned());
    let scope = authorization.split_once("Credential=").map(|(_, rest)| rest.to_owned()).or(presigned);
    let scope = scope.as_deref().and_then(|scope| scope.split([',', ' ']).next()?.split('/').nth(3));
    match scope {
        Some("ec2") => Service::Ec2,
        Some("iam") => Service::Iam,
        Some("sts") => Service::Sts,
        Some(other) => Service::Other(other.to_owned()),
        None if action.contains("InstanceProfile") => Service::Iam,
        None if action == "GetCallerIdentity" => Service::Sts,
        None => Service::Ec2,
    }
}
