//! A proxy on loopback that counts the calls that pass through it, by service and operation: what a function really asks of
//! AWS and Kubernetes, whatever its adapters are made of.

use crate::lambda::TRACE;
use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, Method, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde_json::{Map, Value};
use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::net::TcpSocket;
use tokio::runtime::{Builder, Runtime};

/// Calls by name, such as `DynamoDB Query` or `Kubernetes watch pods`.
pub type Counts = BTreeMap<String, u64>;

/// Under this name stand DynamoDB's read request units, at the most.
pub const READ_UNITS: &str = "DynamoDB read request units";
/// Under this name stand DynamoDB's write request units, at the most.
pub const WRITE_UNITS: &str = "DynamoDB write request units";

/// Under this name stand the capacity units of reads that DynamoDB itself reports: DynamoDB Local does, in halves of units.
pub const CONSUMED_READ_HALVES: &str = "DynamoDB consumed halves of read units";
/// Under this name stand the capacity units of writes that DynamoDB itself reports, indexes included. For a transaction, DynamoDB Local
/// reports those of one item, so they are computed from the sizes of its items as AWS documents it.
pub const CONSUMED_WRITES: &str = "DynamoDB consumed write units";

/// Under this name stand the calls of SQS that do not pass on the trace header of the function's invocation.
pub const WITHOUT_TRACE: &str = "SQS calls without the trace header of the invocation";

/// The attribute by which the table is indexed.
const INDEXED: &[u8] = b"\"instanceId\"";

/// A proxy that counts.
#[derive(Clone, Debug)]
pub struct Proxy {
    /// The address, `http://127.0.0.1:PORT`.
    pub url: String,
    forward: Forward,
    port: Arc<Port>,
}

/// The port of a proxy, on which a server listens unless connections are refused.
#[derive(Debug)]
struct Port {
    address: SocketAddr,
    /// Keeps the port while no server listens: the system refuses connections to a socket that does not listen.
    _reserved: TcpSocket,
    server: Mutex<Option<Server>>,
}

/// A server with its connections, which all end with it.
#[derive(Debug)]
struct Server(Option<Runtime>);

impl Server {
    fn start(address: SocketAddr, forward: Forward) -> Self {
        let listener = std::net::TcpListener::bind(address).expect("the port is reserved");
        listener.set_nonblocking(true).expect("a socket can be non-blocking");
        let runtime =
            Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a thread can be started");
        runtime.spawn(async move {
            let listener = tokio::net::TcpListener::from_std(listener).expect("the listener is non-blocking");
            let client = Client::builder(TokioExecutor::new()).build_http();
            let router = Router::new().fallback(pass).with_state((forward, client));
            axum::serve(listener, router).await
        });
        Self(Some(runtime))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

type HttpClient = Client<HttpConnector, Body>;

/// The name of the calls that have a fault, if any.
type Named = Arc<Mutex<Option<String>>>;

/// The outage of the service, during which no call is passed on, if any.
type Current = Arc<Mutex<Option<Outage>>>;

/// The behaviour of a service that is out of order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outage {
    /// The service answers every call with this status.
    Status(StatusCode),
    /// The service accepts every call and never answers.
    Hang,
    /// The service refuses every connection, and closes the present ones.
    Refuse,
}

#[derive(Clone, Debug)]
struct Forward {
    upstream: String,
    counts: Arc<Mutex<Counts>>,
    outage: Current,
    lost: Named,
    held: Named,
    /// Whether DynamoDB is asked what each call consumes.
    measures: bool,
    /// The items that were written.
    items: Arc<Mutex<Items>>,
}

impl Proxy {
    /// Starts a proxy in front of a server, for as long as the runtime lives.
    ///
    /// # Panics
    /// When loopback has no free port.
    pub async fn start(upstream: &str) -> Self {
        Self::starting(upstream, false).await
    }

    /// Starts a proxy in front of a DynamoDB that reports what calls consume, as AWS and DynamoDB Local do; moto does not.
    ///
    /// # Panics
    /// When loopback has no free port.
    pub async fn measuring(upstream: &str) -> Self {
        Self::starting(upstream, true).await
    }

    async fn starting(upstream: &str, measures: bool) -> Self {
        let counts: Arc<Mutex<Counts>> = Arc::default();
        let outage = Current::default();
        let (lost, held) = (Named::default(), Named::default());
        let upstream = upstream.trim_end_matches('/').to_owned();
        let forward = Forward { upstream, counts, outage, lost, held, measures, items: Arc::default() };
        let reserved = TcpSocket::new_v4().expect("a socket can be opened");
        reserved.set_reuseaddr(true).expect("the server binds the same port");
        reserved.bind(SocketAddr::from(([127, 0, 0, 1], 0))).expect("loopback has a free port");
        let address = reserved.local_addr().expect("a bound socket has an address");
        let server = Mutex::new(Some(Server::start(address, forward.clone())));
        let port = Arc::new(Port { address, _reserved: reserved, server });
        Self { url: format!("http://{address}"), forward, port }
    }

    /// From now on fails every call like this, or passes calls on again.
    pub fn fail(&self, outage: Option<Outage>) {
        *self.forward.outage.lock().unwrap_or_else(PoisonError::into_inner) = outage;
        let mut server = self.port.server.lock().unwrap_or_else(PoisonError::into_inner);
        if outage == Some(Outage::Refuse) {
            drop(server.take());
            // The server's threads end a little later.
            while std::net::TcpStream::connect(self.port.address).is_ok() {
                std::thread::yield_now();
            }
        } else if server.is_none() {
            *server = Some(Server::start(self.port.address, self.forward.clone()));
        }
    }

    /// From now on the answers to calls of this name, such as `EC2 CreateFleet`, are lost: the call takes effect, and the
    /// connection breaks before the answer is complete. `None` ends that.
    pub fn lose_answers(&self, name: Option<&str>) {
        *self.forward.lost.lock().unwrap_or_else(PoisonError::into_inner) = name.map(str::to_owned);
    }

    /// From now on calls of this name, such as `DynamoDB TransactWriteItems`, take no effect and get no answer. `None` ends that for
    /// later calls.
    pub fn hold(&self, name: Option<&str>) {
        *self.forward.held.lock().unwrap_or_else(PoisonError::into_inner) = name.map(str::to_owned);
    }

    /// The calls since the start or the last [`Self::take`].
    #[must_use]
    pub fn take(&self) -> Counts {
        std::mem::take(&mut *self.forward.counts.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Forward {
    fn add(&self, name: String, count: u64) {
        *self.counts.lock().unwrap_or_else(PoisonError::into_inner).entry(name).or_default() += count;
    }

    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "units are halves of small whole numbers"
    )]
    fn add_consumed(&self, units: &str, consumed: f64) {
        match units {
            READ_UNITS => self.add(CONSUMED_READ_HALVES.to_owned(), (consumed * 2.0).round() as u64),
            _ => self.add(CONSUMED_WRITES.to_owned(), consumed.round() as u64),
        }
    }

    /// Notes the items that a call has written, and returns the units of these writes in a transaction.
    fn note_writes(&self, operation: &str, sent: &[u8]) -> u64 {
        let Ok(request) = serde_json::from_slice::<Value>(sent) else { return 0 };
        let mut items = self.items.lock().unwrap_or_else(PoisonError::into_inner);
        match operation {
            "PutItem" | "UpdateItem" | "DeleteItem" => items.note(&request),
            "TransactWriteItems" => {
                let parts = request["TransactItems"].as_array().into_iter().flatten();
                parts.filter_map(Value::as_object).flat_map(Map::values).map(|part| items.note(part)).sum()
            }
            "BatchWriteItem" => {
                let tables = request["RequestItems"].as_object().into_iter().flat_map(Map::values);
                let requests = tables.filter_map(Value::as_array).flatten().filter_map(Value::as_object);
                requests.flat_map(Map::values).map(|part| items.note(part)).sum()
            }
            _ => 0,
        }
    }

    /// Counts what DynamoDB would charge for a call, and passes its answer on.
    async fn weigh(&self, operation: &str, sent: &[u8], answer: Response) -> Response {
        let (parts, body) = answer.into_parts();
        let Ok(body) = axum::body::to_bytes(body, 64 << 20).await else {
            return StatusCode::BAD_GATEWAY.into_response();
        };
        if let Some((units, count)) = request_units(operation, sent, body.len()) {
            self.add(units.to_owned(), count);
            let consumed = consumed_units(&body);
            let written = parts.status.is_success().then(|| self.note_writes(operation, sent));
            match (operation, consumed) {
                ("TransactWriteItems", Some(_)) => self.add(CONSUMED_WRITES.to_owned(), written.unwrap_or_default()),
                (_, Some(consumed)) => self.add_consumed(units, consumed),
                (_, None) => {}
            }
        }
        Response::from_parts(parts, Body::from(body))
    }
}

/// The sizes of the items of a table, by their keys, and what they have in the index.
#[derive(Debug, Default)]
struct Items(HashMap<String, Stored>);

#[derive(Clone, Debug, Default)]
struct Stored {
    bytes: usize,
    indexed: Option<Value>,
}

impl Items {
    /// Notes a write of one item, and returns its units in a transaction: two for each kilobyte of the larger of the item before and
    /// after, and one for each entry of the index that is written or deleted.
    /// <https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/read-write-operations.html>
    fn note(&mut self, write: &Value) -> u64 {
        let (item, key) = (&write["Item"], if write["Item"].is_null() { &write["Key"] } else { &write["Item"] });
        let name = format!("{} {}", key["pk"], key["sk"]);
        let before = self.0.remove(&name).unwrap_or_default();
        let values = &write["ExpressionAttributeValues"];
        let after = match (item.is_null(), write.get("UpdateExpression")) {
            (false, _) => Some(Stored { bytes: item_bytes(item), indexed: item.get("instanceId").cloned() }),
            // The names of the attributes are in the item already, or small.
            (true, Some(_)) => {
                Some(Stored { bytes: before.bytes.max(item_bytes(key)) + item_bytes(values), ..before.clone() })
            }
            (true, None) => None,
        };
        let indexed = after.as_ref().and_then(|after| after.indexed.clone());
        let entries = if indexed == before.indexed {
            0
        } else {
            u64::from(indexed.is_some()) + u64::from(before.indexed.is_some())
        };
        let bytes = before.bytes.max(after.as_ref().map_or(0, |after| after.bytes));
        if let Some(after) = after {
            self.0.insert(name, after);
        }
        2 * bytes.div_ceil(1024).max(1) as u64 + entries
    }
}

/// The size of an item in DynamoDB's JSON, as DynamoDB counts it:
/// <https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/CapacityUnitCalculations.html>.
fn item_bytes(item: &Value) -> usize {
    let size = |value: &Value| match value.as_object().and_then(|value| value.iter().next()) {
        Some((kind, Value::String(text))) => match kind.as_str() {
            "B" => text.trim_end_matches('=').len() * 3 / 4,
            "N" => text.len().div_ceil(2) + 1,
            _ => text.len(),
        },
        _ => 1,
    };
    item.as_object().into_iter().flatten().map(|(name, value)| name.len() + size(value)).sum()
}

/// The request units of a DynamoDB call: one for 4 kB read consistently, one for 1 kB of an item written, twice that in a transaction,
/// and one for 1 kB of an entry of the index. Taken from the JSON on the wire, which is larger than the items that are charged for, so
/// this is an upper bound. <https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/on-demand-capacity-mode.html>
fn request_units(operation: &str, request: &[u8], received: usize) -> Option<(&'static str, u64)> {
    let read = || received.div_ceil(4096).max(1) as u64;
    match operation {
        "Query" | "GetItem" => Some((READ_UNITS, read())),
        "BatchGetItem" => Some((READ_UNITS, read().max(parts(request, "Keys").len() as u64))),
        "TransactWriteItems" => Some((WRITE_UNITS, parts(request, "TransactItems").iter().map(|part| 2 * part).sum())),
        "BatchWriteItem" => Some((WRITE_UNITS, parts(request, "RequestItems").iter().sum())),
        "PutItem" | "UpdateItem" | "DeleteItem" => Some((WRITE_UNITS, written(request))),
        _ => None,
    }
}

/// The units of each item that a call with several items is about, which stand in lists at this key of the request or below it.
fn parts(request: &[u8], key: &str) -> Vec<u64> {
    let Ok(request) = serde_json::from_slice::<Value>(request) else { return Vec::new() };
    let mut lists = match (&request[key], &request["RequestItems"]) {
        (Value::Array(items), _) => vec![items],
        (_, Value::Object(tables)) => {
            tables.values().filter_map(|table| table.as_array().or_else(|| table[key].as_array())).collect()
        }
        _ => Vec::new(),
    };
    lists.drain(..).flatten().map(|item| written(item.to_string().as_bytes())).collect()
}

/// The units of one item of this JSON text. A write that names an instance may write an entry of the index and delete another.
fn written(item: &[u8]) -> u64 {
    let indexed = item.windows(INDEXED.len()).any(|bytes| bytes == INDEXED);
    item.len().div_ceil(1024).max(1) as u64 + if indexed { 2 } else { 0 }
}

/// The capacity units that the answer of DynamoDB reports, all tables together.
fn consumed_units(answer: &[u8]) -> Option<f64> {
    let answer: Value = serde_json::from_slice(answer).ok()?;
    let units = |consumed: &Value| consumed.get("CapacityUnits").and_then(Value::as_f64);
    match answer.get("ConsumedCapacity")? {
        Value::Array(tables) => Some(tables.iter().filter_map(units).sum()),
        table => units(table),
    }
}

/// The request, asking DynamoDB to report what it consumes.
fn asking_for_consumption(body: &Bytes) -> Bytes {
    let Ok(Value::Object(mut request)) = serde_json::from_slice(body) else { return body.clone() };
    request.insert("ReturnConsumedCapacity".to_owned(), "TOTAL".into());
    Value::Object(request).to_string().into()
}

async fn pass(State((forward, client)): State<(Forward, HttpClient)>, request: Request) -> Response {
    let outage = *forward.outage.lock().unwrap_or_else(PoisonError::into_inner);
    match outage {
        None => {}
        Some(Outage::Status(status)) => return status.into_response(),
        Some(Outage::Hang | Outage::Refuse) => std::future::pending().await,
    }
    let (mut parts, body) = request.into_parts();
    let watches = parts.uri.query().is_some_and(|query| query.contains("watch="));
    let Ok(body) = axum::body::to_bytes(body, 64 << 20).await else {
        return StatusCode::PAYLOAD_TOO_LARGE.into_response();
    };
    let name = name(&parts.method, &parts.uri, &parts.headers, &body, watches);
    let operation = name.strip_prefix("DynamoDB ").map(str::to_owned);
    let is_of = |named: &Named| named.lock().unwrap_or_else(PoisonError::into_inner).as_ref() == Some(&name);
    let (lost, held) = (is_of(&forward.lost), is_of(&forward.held));
    if name.starts_with("SQS ") && parts.headers.get("x-amzn-trace-id").is_none_or(|trace| trace != TRACE) {
        forward.add(WITHOUT_TRACE.to_owned(), 1);
    }
    forward.add(name, 1);
    if held {
        std::future::pending::<()>().await;
    }
    let sent = body.clone();
    let body = match operation.as_deref().and_then(|operation| request_units(operation, &sent, 0)) {
        Some(_) if forward.measures => asking_for_consumption(&body),
        _ => body,
    };
    let path = parts.uri.path_and_query().map_or("/", |path| path.as_str());
    let Ok(uri) = format!("{}{path}", forward.upstream).parse::<Uri>() else {
        return StatusCode::BAD_REQUEST.into_response();
    };
    parts.uri = uri;
    // Signatures cover the host, so the original one is kept; none of the emulators checks them.
    parts.headers.remove(header::TRANSFER_ENCODING);
    parts.headers.remove(header::CONTENT_LENGTH);
    match client.request(Request::from_parts(parts, Body::from(body))).await {
        Ok(_) if lost => broken(),
        Ok(answer) => match operation {
            Some(operation) => forward.weigh(&operation, &sent, answer.map(Body::new)).await,
            None => answer.map(Body::new).into_response(),
        },
        Err(error) => (StatusCode::BAD_GATEWAY, error.to_string()).into_response(),
    }
}

/// An answer that breaks off after its headers.
fn broken() -> Response {
    let reset = std::io::Error::from(std::io::ErrorKind::ConnectionReset);
    Response::new(Body::from_stream(futures::stream::iter([Err::<Bytes, _>(reset)])))
}

/// The name of a call, in the words of its service.
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
        let small = br#"{"Item":{"pk":{"S":"a"}}}"#;
        let large = format!(r#"{{"Item":{{"pk":{{"S":"{}"}}}}}}"#, "x".repeat(1500));
        assert_eq!(request_units("Query", small, 9000), Some((READ_UNITS, 3)));
        assert_eq!(request_units("GetItem", small, 2), Some((READ_UNITS, 1)));
        assert_eq!(request_units("PutItem", large.as_bytes(), 2), Some((WRITE_UNITS, 2)));
        assert_eq!(request_units("PutItem", br#"{"Item":{"instanceId":{"S":"i-1"}}}"#, 2), Some((WRITE_UNITS, 3)));
        assert_eq!(request_units("DescribeTable", small, 2), None);
    }

    #[test]
    fn each_item_of_a_call_with_several_is_charged_on_its_own() {
        let three = br#"{"TransactItems":[{"Put":{}},{"Put":{}},{"Update":{}}]}"#;
        assert_eq!(request_units("TransactWriteItems", three, 2), Some((WRITE_UNITS, 6)));
        let two = br#"{"RequestItems":{"nodeless":[{"PutRequest":{}},{"DeleteRequest":{}}]}}"#;
        assert_eq!(request_units("BatchWriteItem", two, 2), Some((WRITE_UNITS, 2)));
        let keys = br#"{"RequestItems":{"nodeless":{"Keys":[{"pk":{}},{"pk":{}}]}}}"#;
        assert_eq!(request_units("BatchGetItem", keys, 2), Some((READ_UNITS, 2)));
        assert_eq!(request_units("BatchGetItem", keys, 9000), Some((READ_UNITS, 3)));
    }

    #[test]
    fn a_transaction_is_charged_by_the_sizes_of_its_items() {
        let mut items = Items::default();
        let put = |bytes: usize, rest: &str| -> Value {
            let text = format!(
                r#"{{"Item":{{"pk":{{"S":"c"}},"sk":{{"S":"a"}},"r":{{"S":"{}"}}{rest}}}}}"#,
                "x".repeat(bytes)
            );
            serde_json::from_str(&text).expect("it is JSON")
        };
        assert_eq!(items.note(&put(1000, "")), 2);
        assert_eq!(items.note(&put(1100, "")), 4, "above a kilobyte");
        assert_eq!(items.note(&put(10, "")), 4, "the item before was larger");
        assert_eq!(items.note(&put(10, r#","instanceId":{"S":"i-1"}"#)), 3, "an entry of the index");
        assert_eq!(items.note(&put(10, r#","instanceId":{"S":"i-1"}"#)), 2, "which stays");
        let update = serde_json::json!({ "Key": { "pk": { "S": "c" }, "sk": { "S": "u" } }, "UpdateExpression": "ADD n :n",
            "ExpressionAttributeValues": { ":n": { "N": "12" } } });
        assert_eq!(items.note(&update), 2);
        let delete = serde_json::json!({ "Key": { "pk": { "S": "c" }, "sk": { "S": "a" } } });
        assert_eq!(items.note(&delete), 3, "with the entry of the index");
        assert_eq!(item_bytes(&serde_json::json!({ "b": { "B": "AAAA" }, "n": { "N": "12345" } })), 9);
    }

    #[tokio::test]
    async fn a_service_that_refuses_connections_answers_again_after_it() {
        let upstream = Router::new().fallback(|| async { "here" });
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("an address");
        tokio::spawn(async move { axum::serve(listener, upstream).await });
        let proxy = Proxy::start(&format!("http://{address}")).await;
        let client: HttpClient = Client::builder(TokioExecutor::new()).build_http();
        let get = async || client.get(proxy.url.parse().expect("a URL")).await.map(|answer| answer.status());
        for _ in 0..2 {
            assert_eq!(get().await.expect("it answers"), StatusCode::OK);
            proxy.fail(Some(Outage::Refuse));
            assert!(get().await.is_err());
            let refused = std::net::TcpStream::connect(proxy.port.address).map(drop).map_err(|error| error.kind());
            assert_eq!(refused, Err(std::io::ErrorKind::ConnectionRefused));
            proxy.fail(None);
        }
        assert_eq!(get().await.expect("it answers"), StatusCode::OK);
    }

    #[test]
    fn consumption_is_asked_for_and_read() {
        let request = asking_for_consumption(&Bytes::from_static(br#"{"TableName":"a"}"#));
        assert_eq!(&request[..], br#"{"ReturnConsumedCapacity":"TOTAL","TableName":"a"}"#);
        assert_eq!(&asking_for_consumption(&Bytes::from_static(b"other"))[..], b"other");
        assert_eq!(consumed_units(br#"{"ConsumedCapacity":{"CapacityUnits":0.5}}"#), Some(0.5));
        let tables = br#"{"ConsumedCapacity":[{"CapacityUnits":6.0},{"CapacityUnits":2.0}]}"#;
        assert_eq!(consumed_units(tables), Some(8.0));
        assert_eq!(consumed_units(b"{}"), None);
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
