//! Woken by a schedule: reads what EC2 offers and what it costs, and resolves every EC2NodeClass.
#![cfg_attr(test, allow(clippy::unwrap_used))]

use nodeless_ec2::{AwsCatalogSource, NodeProfile};
use nodeless_operations::{CatalogCache, RefreshReport, Refresher};
use nodeless_runtime::{ConnectError, Connections, Environment};
use serde::Deserialize;
use serde_json::{Value, json};
use std::sync::Arc;
use tokio::sync::OnceCell;

/// What the function is invoked with. A schedule's event says nothing of this, and means "look now".
#[derive(Default, Deserialize)]
#[serde(default)]
struct Request {
    /// Whether the invocation fails where the catalog could not be refreshed: for somebody who waits for it, as Terraform does. The
    /// schedule asks again in any case, and a failed invocation would only become a dead letter.
    required: bool,
}

#[tokio::main]
async fn main() -> Result<(), lambda_runtime::Error> {
    nodeless_telemetry::init()?;
    let refresher = OnceCell::new();
    nodeless_runtime::run(async |request: Request| -> Result<Value, lambda_runtime::Error> {
        let why = match refresher.get_or_try_init(connect).await {
            Ok(refresher) => {
                let refresher: &Refresher = refresher;
                match Box::pin(refresher.run()).await {
                    Ok(RefreshReport { catalog_problem: Some(why), .. }) => why,
                    Ok(report) => return Ok(json!({ "catalogChanged": report.catalog_changed })),
                    Err(error) => error.to_string(),
                }
            }
            Err(ConnectError::Port(error)) => error.to_string(),
            Err(error @ ConnectError::Environment(_)) => return Err(error.into()),
        };
        if request.required {
            return Err(why.into());
        }
        tracing::error!(error = why, "the catalog was not refreshed; the schedule asks again");
        Ok(json!({ "problem": why }))
    })
    .await
}

async fn connect() -> Result<Refresher, ConnectError> {
    let environment = Environment::of_process();
    let connections = Connections::connect(&environment).await?;
    let details = connections.cluster_details();
    let profile = environment
        .optional("NODELESS_NODE_ROLE")
        .zip(environment.optional("NODELESS_NODE_INSTANCE_PROFILE"))
        .map(|(role, name)| NodeProfile { role, name });
    let source = AwsCatalogSource::new(&connections.config, details, profile)?;
    Ok(Refresher {
        context: connections.context,
        claims: connections.claims,
        queue: connections.queue,
        cluster: connections.cluster,
        source: Arc::new(source),
        catalog: CatalogCache::default(),
    })
}
