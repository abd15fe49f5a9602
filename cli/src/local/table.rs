//! The part of DynamoDB that reads the claims table of a local cluster, for `nodeless decisions`, `nodeless report` and
//! `aws dynamodb query`.

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse as _, Response};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use nodeless_fake_kubernetes::WallClock;
use nodeless_ports::table::{Item, Partition, Query, Range, Value as Attribute};
use nodeless_world::memory::MemoryState;
use serde_json::{Value, json};

/// The header with the operation.
pub(super) const TARGET: &str = "x-amz-target";
/// The only operation.
pub(super) const QUERY: &str = "DynamoDB_20120810.Query";
/// The beginning of the sort keys of decisions, and that of the time in their records.
const DECISION: &str = "decision#";
const AT: &str = "\"at\":\"";
/// Requests of DynamoDB are at most 16 MB.
const MAX_BODY: usize = 16 * 1024 * 1024;

#[derive(Clone)]
struct Table {
    cluster: String,
    claims: MemoryState,
    /// The clock of clients, if it is another one than that of the records.
    wall: Option<WallClock>,
}

/// The router with `Query` of DynamoDB for the items of a cluster. Any name of a table serves. The times of decisions are on the wall clock,
/// as those of the Kubernetes API; costs are those of hours of simulated time.
pub(crate) fn with_table(router: Router, cluster: &str, claims: &MemoryState, wall: Option<WallClock>) -> Router {
    let table = Table { cluster: cluster.to_owned(), claims: claims.clone(), wall };
    router.layer(from_fn_with_state(table, answer))
}

fn target(headers: &HeaderMap) -> &str {
    headers.get(TARGET).and_then(|value| value.to_str().ok()).unwrap_or_default()
}

async fn answer(State(table): State<Table>, request: Request, next: Next) -> Response {
    match target(request.headers()) {
        QUERY => {}
        other if other.starts_with("DynamoDB_") => {
            return refused("UnknownOperationException", "a local cluster answers only Query");
        }
        _ => return next.run(request).await,
    }
    match axum::body::to_bytes(request.into_body(), MAX_BODY).await {
        Ok(body) => table.query(&body),
        Err(error) => refused("SerializationException", &error.to_string()),
    }
}

impl Table {
    fn partition(&self, pk: &str) -> Option<Partition> {
        match pk.strip_prefix(&self.cluster)? {
            "" => Some(Partition::Cluster),
            rest => rest.strip_prefix('#')?.parse().ok().map(Partition::Claims),
        }
    }

    /// An item in the JSON of DynamoDB.
    fn encoded(&self, item: &Item) -> Value {
        let value = |value: &Attribute| match value {
            Attribute::Text(text) if item.key.sort.starts_with(DECISION) => {
                json!({ "S": self.on_the_wall_clock(text) })
            }
            Attribute::Text(text) => json!({ "S": text }),
            Attribute::Number(number) => json!({ "N": number.to_string() }),
            Attribute::Bytes(bytes) => json!({ "B": STANDARD.encode(bytes) }),
        };
        let attributes = item.attributes.iter().map(|(name, attribute)| (name.clone(), value(attribute)));
        let keys = [("pk", &self.cluster), ("sk", &item.key.sort)];
        keys.into_iter().map(|(name, key)| (name.to_owned(), json!({ "S": key }))).chain(attributes).collect()
    }

    /// The record of a decision, whose time is a field before all that has other texts.
    fn on_the_wall_clock(&self, record: &str) -> String {
        let convert = || {
            let (before, rest) = record.split_once(AT)?;
            let (time, after) = rest.split_once('"')?;
            Some(format!("{before}{AT}{}\"{after}", self.wall?.time(time.parse().ok()?)))
        };
        convert().unwrap_or_else(|| record.to_owned())
    }

    fn query(&self, body: &Bytes) -> Response {
        let Ok(query) = serde_json::from_slice::<Value>(body) else {
            return refused("SerializationException", "the request is no JSON");
        };
        let Some((partition, keys)) = condition(&query) else {
            return refused(
                "ValidationException",
                "a local cluster understands only the key conditions `pk = :a AND begins_with(sk, :b)` and `pk = :a AND sk BETWEEN \
                 :b AND :c`",
            );
        };
        let limit = query["Limit"].as_u64().and_then(|limit| u32::try_from(limit).ok());
        let last = limit.filter(|_| query["ScanIndexForward"] == false);
        let items = |partition| self.claims.table().items(&Query { partition, keys, last, consistent: true });
        let mut found = self.partition(partition).map(items).unwrap_or_default();
        found.truncate(limit.map_or(usize::MAX, |limit| limit as usize));
        let items: Vec<Value> = found.iter().map(|item| self.encoded(item)).collect();
        typed(StatusCode::OK, &json!({ "Count": items.len(), "ScannedCount": items.len(), "Items": items }))
    }
}

/// The value of the partition key, and the sort keys.
fn condition(query: &Value) -> Option<(&str, Range)> {
    let expression = query["KeyConditionExpression"].as_str()?;
    let (partition, sort) = expression.split_once(" AND ")?;
    let partition = partition.trim().strip_prefix("pk")?.trim_start().strip_prefix('=')?.trim();
    let value = |name: &str| query["ExpressionAttributeValues"][name.trim()]["S"].as_str();
    let sort = sort.trim();
    let keys = if let Some(range) = sort.strip_prefix("sk BETWEEN ") {
        let (from, to) = range.split_once(" AND ")?;
        Range::Between(value(from)?.to_owned(), value(to)?.to_owned())
    } else {
        let sort = sort.strip_prefix("begins_with(")?.strip_suffix(')')?;
        Range::Prefix(value(sort.trim().strip_prefix("sk")?.trim_start().strip_prefix(',')?)?.to_owned())
    };
    Some((value(partition)?, keys))
}

fn refused(kind: &str, message: &str) -> Response {
    let kind = format!("com.amazonaws.dynamodb.v20120810#{kind}");
    typed(StatusCode::BAD_REQUEST, &json!({ "__type": kind, "message": message }))
}

fn typed(status: StatusCode, body: &Value) -> Response {
    (status, [(header::CONTENT_TYPE, "application/x-amz-json-1.0")], Body::from(body.to_string())).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_times_of_decisions_are_on_the_wall_clock() {
        let table = |wall| Table { cluster: "local".to_owned(), claims: MemoryState::default(), wall };
        let record = r#"{"id":"1","at":"2026-01-01T01:00:00Z","kind":"provisioning","detail":"{\\"at\\":\\"x\\"}"}"#;
        let wall = WallClock { start: "2026-01-01T00:00:00Z".parse().unwrap(), speed: 60.0 };
        let expected = record.replace("T01:00:00Z", "T00:01:00Z");
        assert_eq!(table(Some(wall)).on_the_wall_clock(record), expected);
        assert_eq!(table(None).on_the_wall_clock(record), record);
        assert_eq!(table(Some(wall)).on_the_wall_clock("the second part of a record"), "the second part of a record");
    }

    #[test]
    fn the_key_condition_is_that_of_the_documentation() {
        let values = json!({ ":pk": { "S": "local" }, ":p": { "S": "decision#" } });
        let of =
            |expression: &str| json!({ "KeyConditionExpression": expression, "ExpressionAttributeValues": values });
        for expression in ["pk = :pk AND begins_with(sk, :p)", "pk=:pk AND begins_with( sk , :p )"] {
            assert_eq!(
                condition(&of(expression)),
                Some(("local", Range::Prefix("decision#".to_owned()))),
                "{expression}"
            );
        }
        let range = of("pk = :pk AND sk BETWEEN :p AND :q");
        assert_eq!(condition(&range), None, ":q has no value");
        let mut range = range;
        range["ExpressionAttributeValues"][":q"] = json!({ "S": "hour#" });
        let (_, keys) = condition(&range).unwrap();
        assert_eq!(keys, Range::Between("decision#".to_owned(), "hour#".to_owned()));
        for expression in ["pk = :pk", "pk = :other AND begins_with(sk, :p)", "sk = :pk AND begins_with(sk, :p)", ""] {
            assert_eq!(condition(&of(expression)), None, "{expression}");
        }
    }
}
