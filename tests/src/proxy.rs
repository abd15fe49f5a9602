//! A proxy on loopback that counts the calls that pass through it, by service and operation: what a function really asks of
//! AWS and Kubernetes, whatever its adapters are made of.

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, Method, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Calls by name, such as `DynamoDB Query` or `Kubernetes watch pods`.
pub type Counts = BTreeMap<String, u64>;

/// Under this name stand DynamoDB's read request units, at the most.
pub const READ_UNITS: &str = "DynamoDB read request units";
/// Under this name stand DynamoDB's write request units, at the most.
pub const WRITE_UNITS: &str = "DynamoDB write request units";

/// A proxy that counts.
#[derive(Clone, Debug)]
pub struct Proxy {
    /// Its address, `http://127.0.0.1:PORT`.
    pub url: String,
    counts: Arc<Mutex<Counts>>,
    outage: Current,
}

/// What becomes of every call instead of being passed on, if anything.
type Current = Arc<Mutex<Option<Outage>>>;

/// What a service does that is out of order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outage {
    /// It answers every call with this status.
    Status(StatusCode),
    /// It accepts every call and never answers.
    Hang,
}

#[derive(Clone)]
struct Forward {
    upstream: String,
    client: Client<HttpConnector, Body>,
    counts: Arc<Mutex<Counts>>,
    outage: Current,
}

impl Proxy {
    /// Starts a proxy in front of a server, for as long as the runtime lives.
    ///
    /// # Panics
    /// When loopback has no free port.
    pub async fn start(upstream: &str) -> Self {
        let counts: Arc<Mutex<Counts>> = Arc::default();
        let outage = Current::default();
        let forward = Forward {
            upstream: upstream.trim_end_matches('/').to_owned(),
            client: Client::builder(TokioExecutor::new()).build_http(),
            counts: Arc::clone(&counts),
            outage: Arc::clone(&outage),
        };
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("loopback has a free port");
        let url = format!("http://{}", listener.local_addr().expect("a bound listener has an address"));
        let router = Router::new().fallback(pass).with_state(forward);
        tokio::spawn(async move { axum::serve(listener, router).await });
        Self { url, counts, outage }
    }

    /// From now on fails every call like this, or passes calls on again.
    pub fn fail(&self, outage: Option<Outage>) {
        *self.outage.lock().unwrap_or_else(PoisonError::into_inner) = outage;
    }

    /// The calls since the start or the last [`Self::take`].
    #[must_use]
    pub fn take(&self) -> Counts {
        std::mem::take(&mut *self.counts.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Forward {
    fn add(&self, name: String, count: u64) {
        *self.counts.lock().unwrap_or_else(PoisonError::into_inner).entry(name).or_default() += count;
    }

    /// Counts what DynamoDB would charge for a call whose request has so many bytes, and passes its answer on.
    async fn weigh(&self, operation: &str, sent: usize, answer: Response) -> Response {
        let (parts, body) = answer.into_parts();
        let Ok(body) = axum::body::to_bytes(body, 64 << 20).await else {
            return StatusCode::BAD_GATEWAY.into_response();
        };
        if let Some((units, count)) = request_units(operation, sent, body.len()) {
            self.add(units.to_owned(), count);
        }
        Response::from_parts(parts, Body::from(body))
    }
}

/// The request units of a DynamoDB call: one for 4 kB read consistently, one for 1 kB written, twice that in a transaction.
/// Taken from the JSON on the wire, which is larger than the items that are charged for, so this is an upper bound.
fn request_units(operation: &str, sent: usize, received: usize) -> Option<(&'static str, u64)> {
    let units = |bytes: usize, size: usize| bytes.div_ceil(size).max(1) as u64;
    match operation {
        "Query" | "GetItem" | "BatchGetItem" => Some((READ_UNITS, units(received, 4096))),
        "TransactWriteItems" => Some((WRITE_UNITS, 2 * units(sent, 1024))),
        "PutItem" | "UpdateItem" | "DeleteItem" | "BatchWriteItem" => Some((WRITE_UNITS, units(sent, 1024))),
        _ => None,
    }
}

async fn pass(State(forward): State<Forward>, request: Request) -> Response {
    let outage = *forward.outage.lock().unwrap_or_else(PoisonError::into_inner);
    match outage {
        None => {}
        Some(Outage::Status(status)) => return status.into_response(),
        Some(Outage::Hang) => std::future::pending().await,
    }
    let (mut parts, body) = request.into_parts();
    let watches = parts.uri.query().is_some_and(|query| query.contains("watch="));
    let Ok(body) = axum::body::to_bytes(body, 64 << 20).await else {
        return StatusCode::PAYLOAD_TOO_LARGE.into_response();
    };
    let name = name(&parts.method, &parts.uri, &parts.headers, &body, watches);
    let operation = name.strip_prefix("DynamoDB ").map(str::to_owned);
    forward.add(name, 1);
    let sent = body.len();
    let path = parts.uri.path_and_query().map_or("/", |path| path.as_str());
    let Ok(uri) = format!("{}{path}", forward.upstream).parse::<Uri>() else {
        return StatusCode::BAD_REQUEST.into_response();
    };
    parts.uri = uri;
    // Signatures cover the host, so the original one is kept; none of the emulators checks them.
    parts.headers.remove(header::TRANSFER_ENCODING);
    match forward.client.request(Request::from_parts(parts, Body::from(body))).await {
        Ok(answer) => match operation {
            Some(operation) => forward.weigh(&operation, sent, answer.map(Body::new)).await,
            None => answer.map(Body::new).into_response(),
        },
        Err(error) => (StatusCode::BAD_GATEWAY, error.to_string()).into_response(),
    }
}

/// What a call is, in the words of its service.
fn name(method: &Method, uri: &Uri, headers: &HeaderMap, body: &Bytes, watches: bool) -> String {
    if let Some(target) = headers.get("x-amz-target").and_then(|value| value.to_str().ok()) {
        // Such as DynamoDB_20120810.Query or AmazonSQS.SendMessage.
        let (service, operation) = target.split_once('.').unwrap_or((target, ""));
        let service =
            service.split('_').next().unwrap_or(service).trim_start_matches("Amazon").trim_start_matches("AWS");
        return format!("{service} {operation}");
    }
    let authorization = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok()).unwrap_or_default();
    if authorization.starts_with("AWS4-HMAC-SHA256") {
        // Credential=KEY/DATE/REGION/SERVICE/aws4_request
        let service = authorization.split('/').nth(3).unwrap_or("aws").to_uppercase();
        let action = form_value(body, "Action").unwrap_or_else(|| format!("{method} {}", uri.path()));
        return format!("{service} {action}");
    }
    let verb = match (method, watches) {
        (_, true) => "watch".to_owned(),
        (&Method::GET, _) => "read".to_owned(),
        _ => method.as_str().to_lowercase(),
    };
    format!("Kubernetes {verb} {}", resource(uri.path()))
}

/// The value of a field of a query-protocol body. Actions are plain ASCII, so nothing needs decoding.
fn form_value(body: &[u8], field: &str) -> Option<String> {
    let text = std::str::from_utf8(body).ok()?;
    text.split('&')
        .find_map(|pair| pair.split_once('=').filter(|(key, _)| *key == field))
        .map(|(_, value)| value.to_owned())
}

/// The resource that a Kubernetes path is about, with its subresource.
fn resource(path: &str) -> String {
    let mut parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    let skip = if parts.first() == Some(&"apis") { 3 } else { 2 };
    parts.drain(..skip.min(parts.len()));
    if parts.first() == Some(&"namespaces") && parts.len() > 2 {
        parts.drain(..2);
    }
    match parts[..] {
        [resource, _, subresource, ..] => format!("{resource}/{subresource}"),
        [resource, ..] => resource.to_owned(),
        [] => path.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_are_charged_by_four_kilobytes_and_writes_by_one() {
        assert_eq!(request_units("Query", 300, 9000), Some((READ_UNITS, 3)));
        assert_eq!(request_units("GetItem", 300, 2), Some((READ_UNITS, 1)));
        assert_eq!(request_units("PutItem", 1500, 2), Some((WRITE_UNITS, 2)));
        assert_eq!(request_units("TransactWriteItems", 1500, 2), Some((WRITE_UNITS, 4)));
        assert_eq!(request_units("DescribeTable", 1500, 2), None);
    }

    #[test]
    fn calls_have_the_names_that_their_services_use() {
        let with = |name: &'static str, value: &'static str| {
            HeaderMap::from_iter([(name.parse().expect("a name"), value.parse().expect("a value"))])
        };
        let uri = |text: &str| text.parse::<Uri>().expect("a path");
        let empty = Bytes::new();
        let post = Method::POST;
        let target = with("x-amz-target", "DynamoDB_20120810.Query");
        assert_eq!(name(&post, &uri("/"), &target, &empty, false), "DynamoDB Query");
        let target = with("x-amz-target", "AmazonSQS.SendMessage");
        assert_eq!(name(&post, &uri("/"), &target, &empty, false), "SQS SendMessage");
        let signed = with("authorization", "AWS4-HMAC-SHA256 Credential=k/20250101/us-east-1/ec2/aws4_request, x");
        let body = Bytes::from_static(b"Action=CreateFleet&Version=2016-11-15");
        assert_eq!(name(&post, &uri("/"), &signed, &body, false), "EC2 CreateFleet");
        assert_eq!(name(&Method::GET, &uri("/clusters/a"), &signed, &empty, false), "EC2 GET /clusters/a");
        let none = HeaderMap::new();
        assert_eq!(name(&Method::GET, &uri("/api/v1/pods?watch=1"), &none, &empty, true), "Kubernetes watch pods");
        assert_eq!(
            name(&post, &uri("/api/v1/namespaces/a/pods/b/eviction"), &none, &empty, false),
            "Kubernetes post pods/eviction"
        );
        let status = uri("/apis/karpenter.sh/v1/nodeclaims/a/status");
        assert_eq!(name(&Method::PATCH, &status, &none, &empty, false), "Kubernetes patch nodeclaims/status");
    }
}
