//! Woken by messages of its queue, from a schedule and from the planner: reads the catalog from EC2, and resolves every
//! EC2NodeClass. The queue's message group ensures that one refresh runs for a cluster at a time. A weekly message requests a report of
//! costs. On `terraform destroy` it deletes the cluster's launch templates.
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod event;
mod log_lines;
mod reports;

use event::{Action, Request};
use log_lines::CatalogNotRefreshed;
use nodeless_ec2::{AwsCatalogSource, NodeProfile, delete_launch_templates};
use nodeless_operations::{CapacitySettings, CatalogCache, MemoryOverhead};
use nodeless_ports::queue::CatalogMessage;
use nodeless_refresher::{CostReporter, RefreshReport, Refresher};
use nodeless_runtime::{
    Clusters, ConnectError, Connected, Connections, Deadline, Environment, EnvironmentError, Link, Unserved, batch,
    is_denied, once_allowed,
};
use nodeless_sns::SnsTopic;
use nodeless_telemetry::{log, within};
use serde_json::{Value, json};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

/// A connection that is being made. Its type is erased, because the compiler cannot prove for every lifetime that the future is `Send`.
type Connecting<'e> = Pin<Box<dyn Future<Output = Result<(Served, Link), ConnectError>> + Send + 'e>>;
type Connect = for<'e, 'v> fn(&'e Environment<'v>) -> Connecting<'e>;

/// What serves a cluster.
struct Served {
    refresher: Refresher,
    /// `None` without a topic.
    reporter: Option<CostReporter>,
}

#[tokio::main]
async fn main() -> Result<(), lambda_runtime::Error> {
    nodeless_telemetry::init()?;
    let clusters = Clusters::new("catalog", "NODELESS_CATALOG_QUEUE_URL");
    nodeless_runtime::run_until(async |event: Value, deadline| -> Result<Value, lambda_runtime::Error> {
        let request = event::read(event)?;
        match request.action {
            Action::Refresh { .. } | Action::Report => serve(&clusters, request, deadline).await,
            // The cluster and the table may already be deleted.
            Action::Leave => {
                let leave = async {
                    let environment = clusters.environment(request.source).await.map_err(|error| error.to_string())?;
                    let config = nodeless_runtime::aws_config(&environment).await;
                    Ok::<_, lambda_runtime::Error>(
                        delete_launch_templates(&config, &environment.cluster_name()?).await?,
                    )
                };
                let deleted = deadline.bound(Box::pin(leave)).await??;
                Ok(json!({ "launchTemplatesDeleted": deleted }))
            }
            Action::Nothing => Ok(json!({})),
        }
    })
    .await
}

/// Refreshes and sends reports, as requested. Neither waits for the other.
async fn serve(
    clusters: &Clusters<Served>,
    Request { source, action, messages, reports }: Request,
    deadline: Deadline,
) -> Result<Value, lambda_runtime::Error> {
    let refresh = matches!(action, Action::Refresh { .. });
    let required = action == Action::Refresh { required: true };
    let connect: Connect = if required { first_connect } else { connecting };
    let (cluster, refreshed, failed) = match clusters.connected(source, deadline, connect).await {
        Ok(Connected { name, state }) => {
            // Each message means "look now": the EC2NodeClasses that it names are read from the cluster with all others.
            let _: Vec<CatalogMessage> = batch::well_formed(&messages, Some(&name));
            let refreshed = async {
                if !refresh {
                    return Ok(false);
                }
                deadline.bound(Box::pin(refreshed(&state.refresher))).await.unwrap_or_else(|late| Err(late.to_string()))
            };
            let sent = reports::send(state.reporter.as_ref(), &name, deadline, &reports);
            let (refreshed, failed) = within(&name, futures::future::join(refreshed, sent)).await;
            (Some(name), refreshed, failed)
        }
        Err(Unserved::Unreachable { cluster, why }) => {
            let not_sent = |request| reports::not_sent(cluster.as_deref(), request, &why);
            let failed = reports.iter().map(not_sent).collect();
            (cluster, if refresh { Err(why) } else { Ok(false) }, failed)
        }
        Err(Unserved::Configuration(error)) => return Err(error.to_string().into()),
    };
    match refreshed {
        Ok(changed) => Ok(json!({ "batchItemFailures": failed, "catalogChanged": changed })),
        Err(why) if required => Err(why.into()),
        Err(why) => {
            // A failed invocation would only become a dead letter.
            log(cluster.as_deref(), &CatalogNotRefreshed { error: &why });
            Ok(json!({ "batchItemFailures": failed, "problem": why }))
        }
    }
}

/// Refreshes once over cached connections, and returns whether the catalog changed.
async fn refreshed(refresher: &Refresher) -> Result<bool, String> {
    match Box::pin(refresher.run()).await {
        Ok(RefreshReport { catalog_problem: Some(why), .. }) => Err(why),
        Ok(report) => Ok(report.catalog_changed),
        Err(error) => Err(error.to_string()),
    }
}

/// Connects in the first run after an installation, when the policy of the function's role is a few seconds old. The caller ends it at its
/// deadline.
fn first_connect<'e>(environment: &'e Environment<'_>) -> Connecting<'e> {
    Box::pin(async {
        let cluster = environment.cluster_name()?;
        let denied = |error: &ConnectError| matches!(error, ConnectError::Port(error) if is_denied(error));
        once_allowed(Some(&cluster), Duration::MAX, denied, || connecting(environment)).await
    })
}

fn connecting<'e>(environment: &'e Environment<'_>) -> Connecting<'e> {
    Box::pin(connect(environment))
}

async fn connect(environment: &Environment<'_>) -> Result<(Served, Link), ConnectError> {
    let isolated = environment.isolated_vpc()?;
    let dry_runs = !environment.disable_dry_run()?;
    let capacity = capacity(environment)?;
    let connections = Connections::connect(environment).await?;
    let (link, details) = (connections.link(), connections.cluster_details());
    let profile = environment
        .optional("NODELESS_NODE_ROLE")
        .zip(environment.optional("NODELESS_NODE_INSTANCE_PROFILE"))
        .map(|(role, name)| NodeProfile { role, name });
    let iam_path = environment.optional("NODELESS_IAM_PATH").unwrap_or_else(|| "/".to_owned());
    let (control_plane, context) = (connections.control_plane(), connections.context.clone());
    let source = AwsCatalogSource::new(&connections.config, details, control_plane, profile, isolated, context)?;
    let source = source.with_iam_path(iam_path).with_account(connections.account());
    let source = if commitments(environment)? { source.with_commitments(&connections.config) } else { source };
    let reporter = environment.optional("NODELESS_REPORT_TOPIC_ARN").map(|arn| CostReporter {
        context: connections.context.clone(),
        claims: connections.claims.clone(),
        topic: Arc::new(SnsTopic::new(&connections.config, arn)),
    });
    let refresher = Refresher {
        context: connections.context,
        claims: connections.claims,
        queue: connections.queue,
        cluster: connections.cluster,
        source: Arc::new(source),
        catalog: CatalogCache::default(),
        capacity,
        dry_runs,
    };
    Ok((Served { refresher, reporter }, link))
}

/// Whether nodes are planned with the account's Savings Plans and Reserved Instances.
fn commitments(environment: &Environment<'_>) -> Result<bool, EnvironmentError> {
    environment.parsed_or(
        "NODELESS_COMMITMENTS",
        "whether Savings Plans and Reserved Instances are read and used, true or false",
        false,
    )
}

/// Settings of the capacity of all nodes, with Karpenter's names.
fn capacity(environment: &Environment<'_>) -> Result<CapacitySettings, EnvironmentError> {
    Ok(CapacitySettings {
        reserved_enis: environment.parsed_or(
            "NODELESS_RESERVED_ENIS",
            "how many network interfaces of a node pods cannot use",
            0,
        )?,
        memory_overhead: environment.parsed_or(
            "NODELESS_VM_MEMORY_OVERHEAD_PERCENT",
            "the share of an instance type's memory that no node has, 0.075 for 7.5%",
            MemoryOverhead::default(),
        )?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn capacity_of(name: &'static str, value: &str) -> Result<CapacitySettings, EnvironmentError> {
        let value = value.to_owned();
        capacity(&Environment::from_fn(move |asked| (asked == name).then(|| value.clone())))
    }

    #[test]
    fn commitments_are_read_if_the_deployment_uses_them() {
        let of = |value: &'static str| commitments(&Environment::from_fn(move |_| Some(value.to_owned())));
        assert_eq!((of(""), of("false"), of("true")), (Ok(false), Ok(false), Ok(true)));
        assert!(of("yes").unwrap_err().to_string().contains("NODELESS_COMMITMENTS"));
    }

    #[test]
    fn the_capacity_of_nodes_is_read_strictly() {
        assert_eq!(capacity_of("OTHER", "1"), Ok(CapacitySettings::default()));
        assert_eq!(capacity_of("NODELESS_RESERVED_ENIS", "2").unwrap().reserved_enis, 2);
        let overhead = capacity_of("NODELESS_VM_MEMORY_OVERHEAD_PERCENT", "0.1").unwrap().memory_overhead;
        assert!((overhead.share() - 0.1).abs() < 1e-12);
        for (name, value) in [
            ("NODELESS_RESERVED_ENIS", "-1"),
            ("NODELESS_RESERVED_ENIS", "1.5"),
            ("NODELESS_VM_MEMORY_OVERHEAD_PERCENT", "7.5"),
            ("NODELESS_VM_MEMORY_OVERHEAD_PERCENT", "-0.1"),
            ("NODELESS_VM_MEMORY_OVERHEAD_PERCENT", "7.5%"),
            ("NODELESS_VM_MEMORY_OVERHEAD_PERCENT", "NaN"),
        ] {
            let error = capacity_of(name, value).unwrap_err().to_string();
            assert!(error.contains(name) && error.contains(value), "{error}");
        }
    }
}
