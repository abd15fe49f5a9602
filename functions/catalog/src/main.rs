//! Woken by a schedule: reads what EC2 offers and what it costs, and resolves every EC2NodeClass.
#![cfg_attr(test, allow(clippy::unwrap_used))]

use nodeless_ec2::{AwsCatalogSource, NodeProfile};
use nodeless_operations::{CatalogCache, Refresher};
use nodeless_runtime::{ConnectError, Connections, Environment};
use serde_json::{Value, json};
use std::sync::Arc;
use tokio::sync::OnceCell;

#[tokio::main]
async fn main() -> Result<(), lambda_runtime::Error> {
    nodeless_telemetry::init()?;
    let refresher = OnceCell::new();
    // Whatever the event says, it means "look now".
    nodeless_runtime::run(async |_: Value| -> Result<Value, lambda_runtime::Error> {
        let refresher: &Refresher = refresher.get_or_try_init(connect).await?;
        let report = Box::pin(refresher.run()).await?;
        Ok(json!({ "catalogChanged": report.catalog_changed }))
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
