//! Woken by the claims queue: launches, registers, drains and terminates claims, one shard at a time, and compares all claims
//! with EC2 and the cluster once a minute. On request of the catalog function it also validates EC2NodeClasses by EC2 dry runs.
#![cfg_attr(test, allow(clippy::unwrap_used))]

use aws_lambda_events::event::sqs::{SqsBatchResponse, SqsEvent};
use nodeless_ec2::Ec2Cloud;
use nodeless_lifecycle::Settings;
use nodeless_operations::{CatalogCache, EventRate};
use nodeless_ports::Queue;
use nodeless_ports::queue::{ClaimMessage, WakeSource};
use nodeless_reconciler::{NominationSwitch, Reconciler, Sweeper};
use nodeless_refresher::Validator;
use nodeless_runtime::batch::{self, Failure};
use nodeless_runtime::{Clusters, ConnectError, Connected, Connections, Environment, Link, Source, Unserved};
use nodeless_scheduling::MinValuesPolicy;
use nodeless_telemetry::within;
use std::sync::Arc;

struct Lifecycle {
    reconciler: Reconciler,
    sweeper: Sweeper,
    validator: Validator,
    queue: Arc<dyn Queue>,
}

#[tokio::main]
async fn main() -> Result<(), lambda_runtime::Error> {
    nodeless_telemetry::init()?;
    let lifecycles = Clusters::new("lifecycle", "NODELESS_CLAIMS_QUEUE_URL");
    nodeless_runtime::run_until(async |event: SqsEvent, deadline| -> Result<SqsBatchResponse, lambda_runtime::Error> {
        let late = |why| asked_again(&why);
        match lifecycles
            .connected(Source::of_event(&event).map_err(|error| error.to_string())?, deadline, connect)
            .await
        {
            Ok(Connected { name, state: lifecycle }) => {
                let lifecycle: &Lifecycle = &lifecycle;
                let Some(event) = batch::current(event, &name, ClaimMessage::scheduled) else {
                    return Ok(SqsBatchResponse::default());
                };
                let handle = |body| Box::pin(lifecycle.handle(body));
                Ok(within(&name, batch::each(event, Some(&name), deadline, late, handle)).await)
            }
            Err(Unserved::Unreachable { cluster, why }) => {
                let unconnected = asked_again(&why);
                Ok(batch::each(event, cluster.as_deref(), deadline, late, async |_| Err(unconnected.clone())).await)
            }
            Err(Unserved::Configuration(error)) => Err(error.to_string().into()),
        }
    })
    .await
}

/// The sweep finds every claim each minute, the catalog function requests every validation again, and the heartbeat requests a
/// plan.
fn asked_again(error: &dyn std::fmt::Display) -> Failure {
    Failure::AskedAgain(error.to_string())
}

impl Lifecycle {
    async fn handle(&self, body: String) -> Result<(), Failure> {
        let message = serde_json::from_str(&body)
            .map_err(|error| Failure::Unreadable(format!("{body:?} is not a message of the claims queue: {error}")))?;
        match message {
            ClaimMessage::Shard(message) => {
                self.reconciler.run_shard(message).await.map(drop).map_err(|error| asked_again(&error))
            }
            ClaimMessage::Plan { .. } => {
                self.queue.wake_planner(WakeSource::Planner).await.map_err(|error| asked_again(&error))
            }
            ClaimMessage::NodeClass { name } => {
                self.validator.run(&name).await.map(drop).map_err(|error| asked_again(&error))
            }
            ClaimMessage::Sweep { .. } => self.sweeper.run().await.map(drop).map_err(|error| asked_again(&error)),
        }
    }
}

async fn connect(environment: &Environment<'_>) -> Result<(Lifecycle, Link), ConnectError> {
    let zonal_shift = environment.zonal_shift()?;
    let dry_runs = !environment.disable_dry_run()?;
    let nominations = environment.nominations()?;
    let min_values = environment.parsed_or(
        "NODELESS_MIN_VALUES_POLICY",
        "what happens where minValues cannot be reached: Strict or BestEffort",
        MinValuesPolicy::default(),
    )?;
    let connections = Connections::connect(environment).await?;
    let zonal_shifts = if zonal_shift { Some(connections.zonal_shifts()?) } else { None };
    let (link, details) = (connections.link(), connections.cluster_details());
    let cloud = Ec2Cloud::new(&connections.config, details, connections.control_plane(), connections.context.clone());
    let cloud = Arc::new(cloud);
    let settings = Settings::new(&connections.access.name);
    let reconciler = Reconciler {
        context: connections.context.clone(),
        claims: connections.claims.clone(),
        queue: connections.queue.clone(),
        cluster: connections.cluster.clone(),
        cloud: cloud.clone(),
        catalog: CatalogCache::default(),
        events: EventRate::default(),
        nominations: NominationSwitch::new(nominations),
        settings: settings.clone(),
        zonal_shift,
        min_values_strict: min_values == MinValuesPolicy::Strict,
    };
    let queue: Arc<dyn Queue> = connections.queue.clone();
    let validator = Validator {
        context: connections.context.clone(),
        claims: connections.claims.clone(),
        queue: connections.queue.clone(),
        cluster: connections.cluster.clone(),
        cloud: cloud.clone(),
        catalog: CatalogCache::default(),
        dry_runs,
    };
    let sweeper = Sweeper {
        context: connections.context,
        claims: connections.claims,
        queue: connections.queue,
        cluster: connections.cluster,
        cloud,
        catalog: CatalogCache::default(),
        settings,
        zonal_shifts,
    };
    Ok((Lifecycle { reconciler, sweeper, validator, queue }, link))
}
