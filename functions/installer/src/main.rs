//! The installer function: Terraform invokes it to apply the CRDs, RBAC and the wake webhook, and to remove the latter two.
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod access;
mod event;
mod handler;
mod log_lines;

use lambda_runtime::{Error, LambdaEvent, service_fn};
use nodeless_runtime::Environment;
use serde_json::Value;

#[tokio::main]
async fn main() -> Result<(), Error> {
    nodeless_telemetry::init()?;
    let environment = Environment::of_process();
    let config = aws_config::load_defaults(aws_config::BehaviorVersion::latest()).await;
    let (environment, config) = (&environment, &config);
    lambda_runtime::run(service_fn(move |event: LambdaEvent<Value>| async move {
        let deadline = event.context.deadline();
        handler::handle(event.payload, environment, deadline, config).await
    }))
    .await
}
