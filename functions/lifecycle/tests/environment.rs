//! The error of the function when an environment variable is missing. `tests/tests/functions/one_cluster.rs` tests the function itself.
#![allow(clippy::unwrap_used)]

use nodeless_tests::lambda::Function;

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_variable_is_named() {
    let mut function = Function::start(env!("CARGO_BIN_EXE_lifecycle"), &[("CLUSTER_NAME", "example")]).await;
    function.expect_problem("NODELESS_TABLE");
    let error = function.invoke_sample("lifecycle.sweep.json").await.unwrap_err();
    assert!(error["errorMessage"].as_str().unwrap().contains("NODELESS_TABLE is not set"), "{error}");
}
