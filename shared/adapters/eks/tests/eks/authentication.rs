//! DescribeCluster, ListAccessEntries and DescribeAccessEntry over the wire, answered on loopback in the form that EKS documents.

use crate::config;
use axum::http::{StatusCode, Uri};
use axum::response::IntoResponse;
use nodeless_eks::{Authentication, Entry, authentication};
use nodeless_ports::{ErrorKind, PortError};
use serde_json::{Value, json};

/// Reads the authentication of a cluster whose API answers so.
async fn ask(answer: fn(&str) -> (StatusCode, Value)) -> Result<Authentication, PortError> {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let router = axum::Router::new().fallback(async move |uri: Uri| {
        let path = uri.path_and_query().unwrap().as_str();
        let (status, body) = answer(path);
        (status, axum::Json(body)).into_response()
    });
    let server = tokio::spawn(async move { axum::serve(listener, router).await });
    let read = authentication(&config(&url, "us-east-1").await, "prod").await;
    server.abort();
    read
}

fn entry(name: &str, kind: &str) -> (StatusCode, Value) {
    let principal = format!("arn:aws:iam::123456789012:role/{name}");
    (StatusCode::OK, json!({ "accessEntry": { "clusterName": "prod", "principalArn": principal, "type": kind } }))
}

#[tokio::test]
async fn every_page_of_entries_is_read() {
    let read = ask(|path| {
        let arn = |name: &str| format!("arn:aws:iam::123456789012:role/{name}");
        match path {
            "/clusters/prod" => {
                let cluster = json!({ "name": "prod", "accessConfig": { "authenticationMode": "API_AND_CONFIG_MAP" } });
                (StatusCode::OK, json!({ "cluster": cluster }))
            }
            "/clusters/prod/access-entries" => {
                (StatusCode::OK, json!({ "accessEntries": [arn("nodes")], "nextToken": "more" }))
            }
            "/clusters/prod/access-entries?nextToken=more" => {
                (StatusCode::OK, json!({ "accessEntries": [arn("people")] }))
            }
            path if path.ends_with("nodes") => entry("nodes", "EC2_LINUX"),
            path if path.ends_with("people") => entry("people", "STANDARD"),
            path => (StatusCode::NOT_FOUND, json!({ "message": path })),
        }
    })
    .await
    .unwrap();
    let of = |name: &str, kind: &str| Entry {
        principal: format!("arn:aws:iam::123456789012:role/{name}"),
        kind: kind.to_owned(),
    };
    assert_eq!(read.mode, "API_AND_CONFIG_MAP");
    assert_eq!(read.entries, [of("nodes", "EC2_LINUX"), of("people", "STANDARD")]);
}

#[tokio::test]
async fn a_cluster_with_the_configmap_only_has_no_entries() {
    let config_map = |_: &str| {
        let cluster = json!({ "name": "prod", "accessConfig": { "authenticationMode": "CONFIG_MAP" } });
        (StatusCode::OK, json!({ "cluster": cluster }))
    };
    assert_eq!(ask(config_map).await.unwrap(), Authentication { mode: "CONFIG_MAP".to_owned(), entries: Vec::new() });
    let older = |_: &str| (StatusCode::OK, json!({ "cluster": { "name": "prod" } }));
    assert_eq!(ask(older).await.unwrap().mode, "CONFIG_MAP");
}

#[tokio::test]
async fn a_refusal_is_reported() {
    let refused = |_: &str| {
        (StatusCode::FORBIDDEN, json!({ "__type": "AccessDeniedException", "message": "not eks:DescribeCluster" }))
    };
    let error = ask(refused).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Denied);
    assert!(error.to_string().contains("not eks:DescribeCluster"), "{error}");
}

#[tokio::test]
async fn throttling_is_reported_as_such() {
    let throttled =
        |_: &str| (StatusCode::BAD_REQUEST, json!({ "__type": "ThrottlingException", "message": "Rate exceeded" }));
    let error = ask(throttled).await.unwrap_err();
    assert_eq!((error.kind, error.code.as_str()), (ErrorKind::Throttled, "ThrottlingException"), "{error}");
}
