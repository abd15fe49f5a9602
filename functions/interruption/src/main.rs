//! Woken by EC2 and Health events from SQS: terminates claims whose instance is about to end.
#![cfg_attr(test, allow(clippy::unwrap_used))]

use aws_lambda_events::event::sqs::{SqsBatchResponse, SqsEvent};
use nodeless_operations::Interrupter;
use nodeless_operations::interrupt::InterruptError;
use nodeless_runtime::batch::{self, Failure};
use nodeless_runtime::{ConnectError, Connections, Environment};
use tokio::sync::OnceCell;

/// How many times a message is handled: the `maxReceiveCount` of the queue. With the queue's default visibility timeout of 40 s
/// the last attempt is two minutes after the first. EC2 interrupts a spot instance two minutes after its warning, and from then
/// on the sweep detects it.
const ATTEMPTS: u32 = 4;

#[tokio::main]
async fn main() -> Result<(), lambda_runtime::Error> {
    nodeless_telemetry::init()?;
    let interrupter = OnceCell::new();
    nodeless_runtime::run_until(async |event: SqsEvent, deadline| -> Result<SqsBatchResponse, lambda_runtime::Error> {
        let unconnected = match deadline.bound(Box::pin(interrupter.get_or_try_init(connect))).await {
            Ok(Ok(interrupter)) => {
                let interrupter: &Interrupter = interrupter;
                let handle = async |bodies: &[&str]| -> Vec<Result<Vec<String>, Failure>> {
                    interrupter.run_all(bodies).await.into_iter().map(|result| result.map_err(failure)).collect()
                };
                return Ok(Box::pin(batch::together(event, deadline, |why| retry(&why), handle)).await);
            }
            Ok(Err(ConnectError::Port(error))) => retry(&error),
            Ok(Err(error @ ConnectError::Environment(_))) => return Err(error.into()),
            Err(late) => retry(&late),
        };
        Ok(batch::each(event, deadline, |why| retry(&why), async |_| Err(unconnected.clone())).await)
    })
    .await
}

fn failure(error: InterruptError) -> Failure {
    match error {
        InterruptError::Parse(error) => Failure::Unreadable(error.to_string()),
        InterruptError::Port(error) => retry(&error),
    }
}

/// No other message requests the work of an interruption message.
fn retry(why: &dyn std::fmt::Display) -> Failure {
    Failure::Retry { why: why.to_string(), attempts: ATTEMPTS }
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
