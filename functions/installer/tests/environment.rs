//! The function's errors for invalid requests, through the Lambda Runtime API.
#![allow(clippy::unwrap_used)]

use nodeless_tests::lambda::Function;
use serde_json::json;

#[tokio::test(flavor = "multi_thread")]
async fn a_malformed_request_is_refused_by_name() {
    let mut function = Function::start(env!("CARGO_BIN_EXE_installer"), &[("CLUSTER_NAME", "example")]).await;
    function.expect_problem("explode");
    let error = function.invoke(&json!({ "action": "explode" })).await.unwrap_err();
    assert!(error["errorMessage"].as_str().unwrap().contains("action"), "{error}");
}
