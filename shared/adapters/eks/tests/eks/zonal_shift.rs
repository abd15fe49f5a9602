//! GetManagedResource over the wire, answered on loopback in the form that ARC documents.

use crate::config;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::IntoResponse;
use jiff::Timestamp;
use nodeless_eks::ArcZonalShifts;
use nodeless_ports::{ErrorKind, PortError, ZonalShift, ZonalShifts};
use serde_json::{Value, json};
use std::sync::{Arc, Mutex};

const ARN: &str = "arn:aws:eks:us-east-1:123456789012:cluster/prod";

/// The answer, and the requested paths.
#[derive(Clone)]
struct Answer {
    status: StatusCode,
    body: Value,
    asked: Arc<Mutex<Vec<String>>>,
}

async fn answer(State(answer): State<Answer>, request: Request) -> impl IntoResponse {
    let authorization = request.headers()["authorization"].to_str().unwrap();
    assert!(authorization.contains("/us-east-1/arc-zonal-shift/aws4_request"), "{authorization}");
    answer.asked.lock().unwrap().push(format!("{} {}", request.method(), request.uri().path()));
    (answer.status, axum::Json(answer.body))
}

/// Returns the client's result for an answer, and the requested paths.
async fn ask(status: StatusCode, body: Value) -> (Result<Vec<ZonalShift>, PortError>, Vec<String>) {
    let answer_with = Answer { status, body, asked: Arc::default() };
    let asked = answer_with.asked.clone();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let router = axum::Router::new().fallback(answer).with_state(answer_with);
    let server = tokio::spawn(async move { axum::serve(listener, router).await });
    let result = ArcZonalShifts::new(&config(&url, "us-east-1").await, ARN).applied().await;
    server.abort();
    let asked = asked.lock().unwrap().clone();
    (result, asked)
}

fn shift(zone: &str, status: &str) -> Value {
    json!({
        "appliedStatus": status, "awayFrom": zone, "comment": "", "expiryTime": 1_800_000_000.0,
        "resourceIdentifier": ARN, "startTime": 1_799_990_000.0, "zonalShiftId": "1", "shiftType": "ZONAL_SHIFT",
    })
}

fn resource(shifts: &Value, autoshifts: &Value) -> Value {
    json!({
        "arn": ARN, "name": "prod", "appliedWeights": { "use1-az1": 0.0, "use1-az2": 1.0 },
        "zonalShifts": shifts, "autoshifts": autoshifts, "zonalAutoshiftStatus": "ENABLED",
    })
}

#[tokio::test]
async fn what_is_applied_is_found_whoever_began_it() {
    let shifts = json!([shift("use1-az1", "APPLIED"), shift("use1-az2", "NOT_APPLIED")]);
    let autoshifts = json!([
        { "appliedStatus": "APPLIED", "awayFrom": "use1-az4", "startTime": 1_799_990_000.0 },
        { "appliedStatus": "NOT_APPLIED", "awayFrom": "use1-az6", "startTime": 1_799_990_000.0 },
    ]);
    let (found, asked) = ask(StatusCode::OK, resource(&shifts, &autoshifts)).await;
    let until = Some(Timestamp::from_second(1_800_000_000).unwrap());
    let expected =
        [ZonalShift { zone_id: "use1-az1".into(), until }, ZonalShift { zone_id: "use1-az4".into(), until: None }];
    assert_eq!(found.unwrap(), expected);
    assert_eq!(asked, ["GET /managedresources/arn%3Aaws%3Aeks%3Aus-east-1%3A123456789012%3Acluster%2Fprod"]);
}

#[tokio::test]
async fn a_cluster_without_shifts_has_none() {
    let (found, _) = ask(StatusCode::OK, resource(&json!([]), &json!([]))).await;
    assert_eq!(found.unwrap(), []);
}

#[tokio::test]
async fn what_is_not_understood_is_no_answer() {
    let (strange, _) = ask(StatusCode::OK, resource(&json!([shift("use1-az1", "HALF_APPLIED")]), &json!([]))).await;
    let error = strange.unwrap_err();
    assert!(error.kind == ErrorKind::Invalid && error.message.contains("HALF_APPLIED"), "{error}");
    let mut nameless = shift("use1-az1", "APPLIED");
    nameless.as_object_mut().unwrap().remove("awayFrom");
    let (without_zone, _) = ask(StatusCode::OK, resource(&json!([nameless]), &json!([]))).await;
    assert!(without_zone.unwrap_err().message.contains("names no zone"));
}

#[tokio::test]
async fn an_unknown_end_is_not_in_the_past() {
    let mut endless = shift("use1-az1", "APPLIED");
    endless.as_object_mut().unwrap().remove("expiryTime");
    let (found, _) = ask(StatusCode::OK, resource(&json!([endless]), &json!([]))).await;
    assert_eq!(found.unwrap(), [ZonalShift { zone_id: "use1-az1".into(), until: None }]);
}

#[tokio::test]
async fn an_unregistered_cluster_gets_an_error_with_a_fix() {
    let body =
        json!({ "__type": "AccessDeniedException", "message": format!("Resource {ARN} is not a managed resource") });
    let (denied, _) = ask(StatusCode::FORBIDDEN, body).await;
    let error = denied.unwrap_err();
    assert!(error.kind == ErrorKind::Denied && error.message.contains("zonalShiftConfig"), "{error}");
    let (failing, _) = ask(StatusCode::INTERNAL_SERVER_ERROR, json!({ "message": "later" })).await;
    assert!(failing.unwrap_err().is_retryable());
}
