//! The installer function: Terraform invokes it to apply the CRDs, RBAC and the wake webhook, and to remove the latter two.
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod event;
mod handler;
mod log_lines;

use lambda_runtime::{Error, LambdaEvent, service_fn};
use serde_json::Value;

#[tokio::main]
async fn main() -> Result<(), Error> {
    nodeless_telemetry::init()?;
    let cluster = std::env::var("CLUSTER_NAME").ok();
    let config = aws_config::load_defaults(aws_config::BehaviorVersion::latest()).await;
    let (cluster, config) = (&cluster, &config);
    lambda_runtime::run(service_fn(move |event: LambdaEvent<Value>| async move {
        let deadline = event.context.deadline();
        handler::handle(event.payload, cluster.as_deref(), deadline, config).await
    }))
    .await
}
