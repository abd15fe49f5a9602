//! Woken by EC2 and Health events from SQS: makes claims leave whose instance is about to go.
#![cfg_attr(test, allow(clippy::unwrap_used))]

use aws_lambda_events::event::sqs::{SqsBatchResponse, SqsEvent};
use nodeless_operations::Interrupter;
use nodeless_runtime::{ConnectError, Connections, Environment, batch};
use tokio::sync::OnceCell;

#[tokio::main]
async fn main() -> Result<(), lambda_runtime::Error> {
    nodeless_telemetry::init()?;
    let interrupter = OnceCell::new();
    nodeless_runtime::run(async |event: SqsEvent| -> Result<SqsBatchResponse, lambda_runtime::Error> {
        let interrupter: &Interrupter = interrupter.get_or_try_init(connect).await?;
        Ok(batch::together(event, async |bodies| interrupter.run_all(bodies).await).await)
    })
    .await
}

async fn connect() -> Result<Interrupter, ConnectError> {
    let connections = Connections::connect(&Environment::of_process()).await?;
    Ok(Interrupter {
        context: connections.context,
        claims: connections.claims,
        queue: connections.queue,
        cluster: connections.cluster,
    })
}
