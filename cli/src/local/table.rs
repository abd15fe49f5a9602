//! The part of DynamoDB that reads the decisions and cost records of a local cluster, so that `nodeless decisions`, `nodeless report` and
//! `aws dynamodb query` can be tried.

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse as _, Response};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use nodeless_ports::{Costs as _, Decisions as _, PortError};
use nodeless_world::memory::MemoryClaims;
use serde_json::{Value, json};

const QUERY: &str = "DynamoDB_20120810.Query";
/// Requests of DynamoDB are at most 16 MB.
const MAX_BODY: usize = 16 * 1024 * 1024;

#[derive(Clone)]
struct Table {
    cluster: String,
    claims: MemoryClaims,
}

/// The router with `Query` of DynamoDB for the decisions and cost records of a cluster. Any name of a table serves.
pub(crate) fn with_table(router: Router, cluster: &str, claims: &MemoryClaims) -> Router {
    let table = Table { cluster: cluster.to_owned(), claims: claims.clone() };
    router.layer(from_fn_with_state(table, answer))
}

fn target(headers: &HeaderMap) -> &str {
    headers.get("x-amz-target").and_then(|value| value.to_str().ok()).unwrap_or_default()
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
        Ok(body) => table.query(&body).await,
        Err(error) => refused("SerializationException", &error.to_string()),
    }
}

impl Table {
    async fn query(&self, body: &Bytes) -> Response {
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
        let limit = query["Limit"].as_u64().and_then(|limit| usize::try_from(limit).ok()).unwrap_or(usize::MAX);
        let mut found = match self.items().await {
            Ok(found) => found,
            Err(error) => return refused("InternalServerError", &error.to_string()),
        };
        found.retain(|(sk, _)| partition == self.cluster && keys.contain(sk));
        found.sort_by(|(a, _), (b, _)| a.cmp(b));
        if query["ScanIndexForward"] == false {
            found.reverse();
        }
        found.truncate(limit);
        let items: Vec<Value> = found.into_iter().map(|(_, item)| item).collect();
        typed(StatusCode::OK, &json!({ "Count": items.len(), "ScannedCount": items.len(), "Items": items }))
    }

    /// The items, each with its sort key.
    async fn items(&self) -> Result<Vec<(String, Value)>, PortError> {
        let mut items = Vec::new();
        let mut add = |sk: String, rest: Value| {
            let mut item = json!({ "pk": { "S": self.cluster }, "sk": { "S": sk } });
            if let (Some(item), Value::Object(rest)) = (item.as_object_mut(), rest) {
                item.extend(rest);
            }
            items.push((sk, item));
        };
        for decision in self.claims.decisions(u32::MAX).await? {
            add(format!("decision#{}", decision.id), json!({ "record": { "S": json!(decision).to_string() } }));
        }
        let open = self.claims.open_costs().await?;
        if open.version > 0 {
            let record = STANDARD.encode(&open.encoded);
            add(
                "cost#open".to_owned(),
                json!({ "record": { "B": record }, "version": { "N": open.version.to_string() } }),
            );
        }
        for hour in self.claims.hours(Timestamp::MIN, Timestamp::MAX).await? {
            let rest = json!({
                "record": { "B": STANDARD.encode(&hour.encoded) },
                "hour": { "N": hour.hour.as_second().to_string() },
                "nodePool": { "S": hour.node_pool },
            });
            add(format!("hour#{}", hour.key()), rest);
        }
        Ok(items)
    }
}

/// The sort keys that a query asks for.
#[derive(Debug, PartialEq)]
enum Keys<'q> {
    BeginWith(&'q str),
    Between(&'q str, &'q str),
}

impl Keys<'_> {
    fn contain(&self, sk: &str) -> bool {
        match self {
            Self::BeginWith(prefix) => sk.starts_with(prefix),
            Self::Between(from, to) => *from <= sk && sk <= *to,
        }
    }
}

/// The value of the partition key, and the sort keys.
fn condition(query: &Value) -> Option<(&str, Keys<'_>)> {
    let expression = query["KeyConditionExpression"].as_str()?;
    let (partition, sort) = expression.split_once(" AND ")?;
    let partition = partition.trim().strip_prefix("pk")?.trim_start().strip_prefix('=')?.trim();
    let value = |name: &str| query["ExpressionAttributeValues"][name.trim()]["S"].as_str();
    let sort = sort.trim();
    let keys = if let Some(range) = sort.strip_prefix("sk BETWEEN ") {
        let (from, to) = range.split_once(" AND ")?;
        Keys::Between(value(from)?, value(to)?)
    } else {
        let sort = sort.strip_prefix("begins_with(")?.strip_suffix(')')?;
        Keys::BeginWith(value(sort.trim().strip_prefix("sk")?.trim_start().strip_prefix(',')?)?)
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
    fn the_key_condition_is_that_of_the_documentation() {
        let values = json!({ ":pk": { "S": "local" }, ":p": { "S": "decision#" } });
        let of =
            |expression: &str| json!({ "KeyConditionExpression": expression, "ExpressionAttributeValues": values });
        for expression in ["pk = :pk AND begins_with(sk, :p)", "pk=:pk AND begins_with( sk , :p )"] {
            assert_eq!(condition(&of(expression)), Some(("local", Keys::BeginWith("decision#"))), "{expression}");
        }
        let range = of("pk = :pk AND sk BETWEEN :p AND :q");
        assert_eq!(condition(&range), None, ":q has no value");
        let mut range = range;
        range["ExpressionAttributeValues"][":q"] = json!({ "S": "hour#" });
        let (_, keys) = condition(&range).unwrap();
        assert_eq!(keys, Keys::Between("decision#", "hour#"));
        assert!(keys.contain("decision#1") && keys.contain("hour#") && !keys.contain("hour#1"));
        for expression in ["pk = :pk", "pk = :other AND begins_with(sk, :p)", "sk = :pk AND begins_with(sk, :p)", ""] {
            assert_eq!(condition(&of(expression)), None, "{expression}");
        }
    }
}
