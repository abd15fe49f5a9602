//! The part of DynamoDB that reads the decisions of a local cluster, so that `nodeless decisions` and `aws dynamodb query` can be tried.

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse as _, Response};
use nodeless_ports::Decisions as _;
use nodeless_ports::decisions::Decision;
use nodeless_world::memory::MemoryClaims;
use serde_json::{Value, json};

const QUERY: &str = "DynamoDB_20120810.Query";
const PREFIX: &str = "decision#";
/// Requests of DynamoDB are at most 16 MB.
const MAX_BODY: usize = 16 * 1024 * 1024;

#[derive(Clone)]
struct Table {
    cluster: String,
    claims: MemoryClaims,
}

/// The router with `Query` of DynamoDB for the decisions of a cluster. Any name of a table serves.
pub(crate) fn with_decisions(router: Router, cluster: &str, claims: &MemoryClaims) -> Router {
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
        let Some((partition, prefix)) = condition(&query) else {
            return refused(
                "ValidationException",
                "a local cluster understands only the key condition `pk = :a AND begins_with(sk, :b)`",
            );
        };
        let limit = query["Limit"].as_u64().and_then(|limit| u32::try_from(limit).ok()).unwrap_or(u32::MAX);
        let mut found = match self.claims.decisions(u32::MAX).await {
            Ok(found) => found,
            Err(error) => return refused("InternalServerError", &error.to_string()),
        };
        found.retain(|one| partition == self.cluster && format!("{PREFIX}{}", one.id).starts_with(prefix));
        // The latest comes first.
        if query["ScanIndexForward"] != false {
            found.reverse();
        }
        found.truncate(limit as usize);
        let items: Vec<Value> = found.iter().map(|decision| item(&self.cluster, decision)).collect();
        typed(StatusCode::OK, &json!({ "Count": items.len(), "ScannedCount": items.len(), "Items": items }))
    }
}

/// The values of the partition key and of the prefix of the sort key.
fn condition(query: &Value) -> Option<(&str, &str)> {
    let expression = query["KeyConditionExpression"].as_str()?;
    let (partition, sort) = expression.split_once(" AND ")?;
    let partition = partition.trim().strip_prefix("pk")?.trim_start().strip_prefix('=')?.trim();
    let sort = sort.trim().strip_prefix("begins_with(")?.strip_suffix(')')?;
    let sort = sort.trim().strip_prefix("sk")?.trim_start().strip_prefix(',')?.trim();
    let value = |name: &str| query["ExpressionAttributeValues"][name]["S"].as_str();
    Some((value(partition)?, value(sort)?))
}

fn item(cluster: &str, decision: &Decision) -> Value {
    json!({
        "pk": { "S": cluster }, "sk": { "S": format!("{PREFIX}{}", decision.id) },
        "record": { "S": json!(decision).to_string() },
    })
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
            assert_eq!(condition(&of(expression)), Some(("local", "decision#")), "{expression}");
        }
        for expression in ["pk = :pk", "pk = :other AND begins_with(sk, :p)", "sk = :pk AND begins_with(sk, :p)", ""] {
            assert_eq!(condition(&of(expression)), None, "{expression}");
        }
    }
}
