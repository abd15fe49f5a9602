//! ListServiceQuotas over the wire, answered on loopback in the form that Service Quotas documents.

use aws_config::retry::RetryConfig;
use aws_config::{BehaviorVersion, Region};
use aws_credential_types::Credentials;
use axum::http::StatusCode;
use axum::response::IntoResponse;
use nodeless_ec2::{ListedQuota, quotas};
use nodeless_ports::{ErrorKind, PortError};
use serde_json::{Value, json};

/// Reads the quotas of an account whose API answers so.
async fn ask(answer: fn(&Value) -> (StatusCode, Value)) -> Result<Vec<ListedQuota>, PortError> {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let router = axum::Router::new().fallback(async move |body: String| {
        let (status, answer) = answer(&serde_json::from_str(&body).unwrap());
        (status, [("content-type", "application/x-amz-json-1.1")], answer.to_string()).into_response()
    });
    let server = tokio::spawn(async move { axum::serve(listener, router).await });
    let config = aws_config::defaults(BehaviorVersion::latest())
        .region(Region::new("us-east-1"))
        .credentials_provider(Credentials::new("test", "test", None, None, "test"))
        .retry_config(RetryConfig::disabled())
        .endpoint_url(&url)
        .load()
        .await;
    let read = quotas(&config).await;
    server.abort();
    read
}

#[tokio::test]
async fn every_page_of_quotas_is_read() {
    let read = ask(|request| {
        let quota = |name: &str, code: &str, value: f64| json!({ "ServiceCode": "ec2", "QuotaName": name, "QuotaCode": code, "Value": value });
        assert_eq!(request["ServiceCode"], "ec2");
        let answer = if request["NextToken"].is_null() {
            json!({ "NextToken": "more", "Quotas": [quota("EC2-VPC Elastic IPs", "L-0263D0A3", 5.0)] })
        } else {
            json!({ "Quotas": [quota("Running On-Demand G and VT instances", "L-DB2E81BA", 64.0), { "QuotaName": "without a value" }] })
        };
        (StatusCode::OK, answer)
    })
    .await
    .unwrap();
    let listed = |name: &str, code: &str, value| ListedQuota { name: name.to_owned(), code: code.to_owned(), value };
    let expected = [
        listed("EC2-VPC Elastic IPs", "L-0263D0A3", 5.0),
        listed("Running On-Demand G and VT instances", "L-DB2E81BA", 64.0),
    ];
    assert_eq!(read, expected);
}

#[tokio::test]
async fn a_refusal_is_reported() {
    let refused = |_: &Value| {
        (
            StatusCode::BAD_REQUEST,
            json!({ "__type": "AccessDeniedException", "Message": "not servicequotas:ListServiceQuotas" }),
        )
    };
    let error = ask(refused).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Denied);
    assert!(error.to_string().contains("not servicequotas:ListServiceQuotas"), "{error}");
}
