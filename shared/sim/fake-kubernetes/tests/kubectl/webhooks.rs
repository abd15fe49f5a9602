//! Webhooks, tokens and limits, over plain HTTP.

use crate::{Cluster, request};
use jiff::Timestamp;
use nodeless_fake_kubernetes::resource::{EVENTS, VALIDATING_WEBHOOK_CONFIGURATIONS};
use nodeless_fake_kubernetes::{ApiServer, CreateOptions, Options};
use serde_json::{Value, json};
use std::sync::Arc;

/// A webhook that records its reviews and answers all of them in the same way.
async fn webhook(allowed: bool) -> (String, tokio::sync::mpsc::UnboundedReceiver<Value>) {
    let (sender, receiver) = tokio::sync::mpsc::unbounded_channel();
    let answer = move |axum::Json(review): axum::Json<Value>| {
        let response = json!({"uid": review["request"]["uid"], "allowed": allowed, "status": {"message": "no"}});
        sender.send(review).unwrap();
        async move {
            axum::Json(json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
            "response": response}))
        }
    };
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/hook", listener.local_addr().unwrap());
    let router = axum::Router::new().route("/hook", axum::routing::post(answer));
    tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
    (url, receiver)
}

/// The next review. The timeout is generous, and only makes a lost review fail the test.
async fn next(reviews: &mut tokio::sync::mpsc::UnboundedReceiver<Value>) -> Value {
    tokio::time::timeout(std::time::Duration::from_secs(60), reviews.recv()).await.unwrap().unwrap()
}

fn configure(cluster: &Cluster, url: &str, policy: &str) {
    let configuration = json!({"metadata": {"name": "wake"}, "webhooks": [{
        "name": "wake.example.com", "clientConfig": {"url": url}, "failurePolicy": policy, "sideEffects": "None",
        "admissionReviewVersions": ["v1"], "timeoutSeconds": 2,
        "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "resources": ["events"],
            "operations": ["CREATE", "UPDATE"]}],
        "matchConditions": [{"name": "pods", "expression":
            "object.reason == 'FailedScheduling' && object.involvedObject.kind == 'Pod'"}],
    }]});
    cluster.server.create(&VALIDATING_WEBHOOK_CONFIGURATIONS, configuration, &CreateOptions::default()).unwrap();
}

fn event(name: &str, reason: &str) -> Value {
    json!({"metadata": {"name": name, "namespace": "default"}, "reason": reason, "type": "Warning",
        "involvedObject": {"kind": "Pod", "name": "a", "namespace": "default"}})
}

const EVENTS_PATH: &str = "/api/v1/namespaces/default/events";

#[tokio::test(flavor = "multi_thread")]
async fn a_webhook_learns_of_matching_events_however_they_are_written() {
    let cluster = Cluster::start(100).await;
    let (url, mut reviews) = webhook(true).await;
    configure(&cluster, &url, "Ignore");
    let create = |name: &str, reason: &str| {
        cluster.server.create(&EVENTS, event(name, reason), &CreateOptions::default()).unwrap();
    };
    create("other", "Scheduled");
    create("inside", "FailedScheduling");
    let review = next(&mut reviews).await;
    assert_eq!((&review["request"]["name"], &review["request"]["operation"]), (&json!("inside"), &json!("CREATE")));
    let (code, _) = request(&cluster.address, "POST", EVENTS_PATH, Some(&event("wire", "FailedScheduling"))).await;
    assert_eq!(code, 201);
    let review = next(&mut reviews).await;
    assert_eq!(review["request"]["object"]["metadata"]["name"], "wire");
    assert_eq!(review["request"]["resource"]["resource"], "events");
    // Events over events.k8s.io match the rule for core/v1 too, and are shown in that form.
    let new = json!({"metadata": {"name": "new", "namespace": "default"}, "reason": "FailedScheduling",
        "regarding": {"kind": "Pod", "name": "a", "namespace": "default"}});
    let path = "/apis/events.k8s.io/v1/namespaces/default/events";
    assert_eq!(request(&cluster.address, "POST", path, Some(&new)).await.0, 201);
    let review = next(&mut reviews).await;
    assert_eq!(review["request"]["object"]["involvedObject"]["name"], "a");
    assert!(reviews.try_recv().is_err(), "a review too many");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_webhook_can_reject_and_an_unavailable_one_is_ignored_if_its_policy_allows() {
    let cluster = Cluster::start(100).await;
    let (url, _reviews) = webhook(false).await;
    configure(&cluster, &url, "Ignore");
    let (code, body) = request(&cluster.address, "POST", EVENTS_PATH, Some(&event("a", "FailedScheduling"))).await;
    assert!(code == 403 && body.contains("denied the request: no"), "{code} {body}");
    assert!(cluster.server.get(&EVENTS, "default", "a").is_err());
    for (policy, expected) in [("Ignore", 201), ("Fail", 500)] {
        let cluster = Cluster::start(100).await;
        // No server listens on port 1.
        configure(&cluster, "http://127.0.0.1:1/hook", policy);
        let event = event("a", "FailedScheduling");
        assert_eq!(request(&cluster.address, "POST", EVENTS_PATH, Some(&event)).await.0, expected, "{policy}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_can_be_required() {
    let mut options = Options::with_clock(Arc::new(Timestamp::now));
    options.token = Some("secret".into());
    let server = ApiServer::new(options).unwrap();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let router = server.router();
    tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
    assert_eq!(request(&address, "GET", "/api", None).await.0, 401);
    let authorised = "/api HTTP/1.0\r\nauthorization: Bearer secret\r\nx-rest:";
    assert_eq!(request(&address, "GET", authorised, None).await.0, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_larger_than_the_limit_is_refused() {
    let cluster = Cluster::start(100).await;
    let large = json!({"metadata": {"name": "c"}, "data": {"a": "x".repeat(3 * 1024 * 1024)}});
    let path = "/api/v1/namespaces/default/configmaps";
    let (code, body) = request(&cluster.address, "POST", path, Some(&large)).await;
    let status: Value = serde_json::from_str(&body).unwrap();
    assert_eq!((code, &status["reason"]), (413, &json!("RequestEntityTooLarge")));
    assert_eq!(status["message"], "Request entity too large: limit is 3145728");
}
