//! Code of all functions: environment variables, warm connections, and batches that fail one message at a time.
//!
//! A function's `main.rs` reads its [`Environment`], wires the ports, and calls one operation. It makes no decision.
#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod batch;
#[cfg(feature = "cluster")]
mod clusters;
#[cfg(feature = "cluster")]
mod connections;
mod deadline;
mod environment;
mod log_lines;
mod permissions;
pub mod terraform;

#[cfg(feature = "cluster")]
pub use clusters::{Clusters, ConfigurationError, Connected, Source, Unserved, memory_megabytes};
#[cfg(feature = "cluster")]
pub use connections::{ConnectError, Connections, Link, aws_config, cluster_access, is_denied};
pub use deadline::{Deadline, OutOfTime};
pub use environment::{Environment, EnvironmentError};
pub use nodeless_telemetry::SystemClock;
pub use permissions::once_allowed;

use lambda_runtime::{LambdaEvent, service_fn};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::future::Future;

/// Runs a Lambda function until the environment is shut down.
///
/// # Errors
/// When the Lambda Runtime API cannot be reached.
pub async fn run<E, A, H, F>(handler: H) -> Result<(), lambda_runtime::Error>
where
    E: DeserializeOwned + Send + 'static,
    A: Serialize + Send + 'static,
    H: Fn(E) -> F + Send + Sync,
    F: Future<Output = Result<A, lambda_runtime::Error>> + Send,
{
    run_until(|event, _| handler(event)).await
}

/// Runs a function that works until shortly before Lambda ends it: the handler gets the deadline with the event.
///
/// # Errors
/// When the Lambda Runtime API cannot be reached.
pub async fn run_until<E, A, H, F>(handler: H) -> Result<(), lambda_runtime::Error>
where
    E: DeserializeOwned + Send + 'static,
    A: Serialize + Send + 'static,
    H: Fn(E, Deadline) -> F + Send + Sync,
    F: Future<Output = Result<A, lambda_runtime::Error>> + Send,
{
    // Boxed, because the nested future of a whole operation is too deep for the compiler to lay out in one piece.
    lambda_runtime::run(service_fn(|event: LambdaEvent<E>| {
        let deadline = Deadline::of_lambda(event.context.deadline);
        Box::pin(handler(event.payload, deadline))
    }))
    .await
}
