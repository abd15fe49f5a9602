//! Woken by a schedule: reads what EC2 offers and what it costs, and resolves every EC2NodeClass. Asked by Terraform when it
//! destroys, it deletes the cluster's launch templates.
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod event;

use event::Action;
use nodeless_ec2::{AwsCatalogSource, NodeProfile, delete_launch_templates};
use nodeless_operations::{CatalogCache, RefreshReport, Refresher};
use nodeless_runtime::{ConnectError, Connections, Environment};
use serde_json::{Value, json};
use std::sync::Arc;
use tokio::sync::OnceCell;

#[tokio::main]
async fn main() -> Result<(), lambda_runtime::Error> {
    nodeless_telemetry::init()?;
    let refresher = OnceCell::new();
    nodeless_runtime::run(async |event: Value| -> Result<Value, lambda_runtime::Error> {
        let cluster = Environment::of_process().cluster_name()?;
        match event::read(event, &cluster)? {
            Action::Refresh { required } => {
                let why = match refresher.get_or_try_init(connect).await {
                    Ok(refresher) => match refreshed(refresher).await {
                        Ok(changed) => return Ok(json!({ "catalogChanged": changed })),
                        Err(why) => why,
                    },
                    Err(ConnectError::Port(error)) => error.to_string(),
                    Err(error @ ConnectError::Environment(_)) => return Err(error.into()),
                };
                if required {
                    return Err(why.into());
                }
                // A failed invocation would only become a dead letter.
                tracing::error!(error = why, "the catalog was not refreshed; the schedule asks again");
                Ok(json!({ "problem": why }))
            }
            // Neither the cluster nor the table is there any more, maybe.
            Action::Leave => {
                let deleted = delete_launch_templates(&nodeless_runtime::aws_config().await, &cluster).await?;
                Ok(json!({ "launchTemplatesDeleted": deleted }))
            }
            Action::Nothing => Ok(json!({})),
        }
    })
    .await
}

/// Refreshes once: whether the catalog changed, or why it is not that of now.
async fn refreshed(refresher: &Refresher) -> Result<bool, String> {
    match Box::pin(refresher.run()).await {
        Ok(RefreshReport { catalog_problem: Some(why), .. }) => Err(why),
        Ok(report) => Ok(report.catalog_changed),
        Err(error) => Err(error.to_string()),
    }
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
    let source = source.with_version(connections.cluster_version());
    Ok(Refresher {
        context: connections.context,
        claims: connections.claims,
        queue: connections.queue,
        cluster: connections.cluster,
        source: Arc::new(source),
        catalog: CatalogCache::default(),
    })
}
