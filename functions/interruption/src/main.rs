//! Woken by EC2 and Health events from SQS: terminates claims whose instance is about to end.
#![cfg_attr(test, allow(clippy::unwrap_used))]

use aws_lambda_events::event::sqs::{SqsBatchResponse, SqsEvent};
use nodeless_reconciler::{Interrupter, interrupt::InterruptError};
use nodeless_runtime::batch::{self, Failure};
use nodeless_runtime::{Clusters, ConnectError, Connected, Connections, Environment, Link, Source, Unserved};
use nodeless_telemetry::{Metric, within};

/// How many times a message is handled: the `maxReceiveCount` of the queue. With the queue's default visibility timeout of 40 s
/// the last attempt is two minutes after the first. EC2 interrupts a spot instance two minutes after its warning, and from then
/// on the sweep detects it.
const ATTEMPTS: u32 = 4;

#[tokio::main]
async fn main() -> Result<(), lambda_runtime::Error> {
    nodeless_telemetry::init()?;
    let interrupters = Clusters::new("interruption", "NODELESS_INTERRUPTION_QUEUE_URL");
    nodeless_runtime::run_until(async |event: SqsEvent, deadline| -> Result<SqsBatchResponse, lambda_runtime::Error> {
        let late = |why| retry(&why);
        match interrupters
            .connected(Source::of_event(&event).map_err(|error| error.to_string())?, deadline, connect)
            .await
        {
            Ok(Connected { name, state: interrupter }) => {
                let interrupter: &Interrupter = &interrupter;
                let handle = async |bodies: &[&str]| -> Vec<Result<Vec<String>, Failure>> {
                    interrupter.run_all(bodies).await.into_iter().map(|result| result.map_err(failure)).collect()
                };
                let handled = batch::together(event, Some(&name), deadline, late, handle);
                Ok(Box::pin(within(&name, handled)).await)
            }
            Err(Unserved::Unreachable { cluster, why }) => {
                let unconnected = retry(&why);
                Ok(batch::each(event, cluster.as_deref(), deadline, late, async |_| Err(unconnected.clone())).await)
            }
            Err(Unserved::Configuration(error)) => Err(error.to_string().into()),
        }
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
    Failure::Retry { why: why.to_string(), attempts: ATTEMPTS, lost: Metric::InterruptionsLost }
}

async fn connect(environment: &Environment<'_>) -> Result<(Interrupter, Link), ConnectError> {
    let connections = Connections::connect(environment).await?;
    let link = connections.link();
    let interrupter = Interrupter {
        context: connections.context,
        claims: connections.claims,
        queue: connections.queue,
        cluster: connections.cluster,
    };
    Ok((interrupter, link))
}
