//! AssociateAccessPolicy and DisassociateAccessPolicy over the wire, answered on loopback in the form that EKS documents.

use crate::config;
use aws_config::{BehaviorVersion, SdkConfig};
use axum::body::{Bytes, to_bytes};
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::IntoResponse;
use nodeless_eks::ClusterAdmin;
use nodeless_ports::{ErrorKind, PortError};
use serde_json::{Value, json};
use std::sync::{Arc, Mutex};

const ROLE: &str = "arn:aws-us-gov:iam::123456789012:role/teams/nodeless-prod-installer";
const POLICIES: &str = "/clusters/prod/access-entries/\
                        arn%3Aaws-us-gov%3Aiam%3A%3A123456789012%3Arole%2Fteams%2Fnodeless-prod-installer/access-policies";

/// The answer, and the requests that were made.
#[derive(Clone)]
struct Answer {
    status: StatusCode,
    body: Value,
    asked: Arc<Mutex<Vec<(String, Bytes)>>>,
}

async fn answer(State(answer): State<Answer>, request: Request) -> impl IntoResponse {
    let called = format!("{} {}", request.method(), request.uri().path());
    let body = to_bytes(request.into_body(), usize::MAX).await.unwrap();
    answer.asked.lock().unwrap().push((called, body));
    (answer.status, axum::Json(answer.body))
}

/// The results of both calls, where EKS answers so, and the requests.
async fn ask(status: StatusCode, body: Value) -> (Result<(), PortError>, Result<(), PortError>, Vec<(String, Bytes)>) {
    let answer_with = Answer { status, body, asked: Arc::default() };
    let asked = answer_with.asked.clone();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let router = axum::Router::new().fallback(answer).with_state(answer_with);
    let server = tokio::spawn(async move { axum::serve(listener, router).await });
    let admin = ClusterAdmin::new(&config(&url, "us-gov-west-1").await, "prod", ROLE);
    let (begun, ended) = (admin.associate().await, admin.disassociate().await);
    server.abort();
    let asked = asked.lock().unwrap().clone();
    (begun, ended, asked)
}

fn error(code: &str) -> Value {
    json!({ "__type": code, "message": "from EKS" })
}

#[tokio::test]
async fn the_policy_of_the_partition_is_associated_with_the_role_itself_and_ended() {
    let (begun, ended, asked) = ask(StatusCode::OK, json!({})).await;
    assert_eq!((begun, ended), (Ok(()), Ok(())));
    let [(associate, body), (disassociate, _)] = asked.as_slice() else { panic!("{asked:?}") };
    assert_eq!(*associate, format!("POST {POLICIES}"));
    let policy = "arn:aws-us-gov:eks::aws:cluster-access-policy/AmazonEKSClusterAdminPolicy";
    let expected = json!({ "policyArn": policy, "accessScope": { "type": "cluster" } });
    assert_eq!(serde_json::from_slice::<Value>(body).unwrap(), expected);
    let encoded = policy.replace(':', "%3A").replace('/', "%2F");
    assert_eq!(*disassociate, format!("DELETE {POLICIES}/{encoded}"));
}

#[tokio::test]
async fn a_role_without_an_access_entry_has_nothing_to_end() {
    let (begun, ended, _) = ask(StatusCode::NOT_FOUND, error("ResourceNotFoundException")).await;
    let error = begun.unwrap_err();
    assert_eq!(error.kind, ErrorKind::NotFound);
    let command = format!("aws eks create-access-entry --cluster-name prod --principal-arn {ROLE}");
    assert!(error.message.contains("from EKS") && error.message.contains(&command), "{error}");
    assert_eq!(ended, Ok(()));
}

#[tokio::test]
async fn a_refusal_by_the_organization_is_an_error_of_both_calls() {
    let (begun, ended, _) = ask(StatusCode::FORBIDDEN, error("AccessDeniedException")).await;
    let error = begun.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Denied);
    assert!(error.message.contains("service control policy") && error.message.contains("install = false"), "{error}");
    assert_eq!(ended.unwrap_err().kind, ErrorKind::Denied);
}

#[tokio::test]
async fn other_errors_are_of_their_kind() {
    for (status, code, kind) in [
        (StatusCode::BAD_REQUEST, "InvalidRequestException", ErrorKind::Invalid),
        (StatusCode::INTERNAL_SERVER_ERROR, "ServerException", ErrorKind::Unavailable),
    ] {
        let (begun, ended, _) = ask(status, error(code)).await;
        assert_eq!((begun.unwrap_err().kind, ended.unwrap_err().kind), (kind, kind), "{code}");
    }
}

#[test]
fn the_command_to_end_it_can_be_copied() {
    let config = SdkConfig::builder().behavior_version(BehaviorVersion::latest()).build();
    let command = ClusterAdmin::new(&config, "prod", "arn:aws:iam::1:role/a").command_to_end();
    assert_eq!(
        command,
        "aws eks disassociate-access-policy --cluster-name prod --principal-arn arn:aws:iam::1:role/a \
         --policy-arn arn:aws:eks::aws:cluster-access-policy/AmazonEKSClusterAdminPolicy"
    );
}
