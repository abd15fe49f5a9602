//! Handles a request and returns a report.

use crate::access::{KEPT_TO_END, TIMEOUTS, as_cluster_admin};
use crate::event::{Action, read};
use crate::log_lines::{ClusterFinding, ClusterMissing, ClusterNotChecked, ObjectInstalled, WebhookLeftOut};
use aws_config::SdkConfig;
use jiff::Timestamp;
use lambda_runtime::Error;
use nodeless_doctor::{Check, Severity};
use nodeless_eks::{ClusterAccess, ClusterAdmin, Tokens};
use nodeless_kubernetes::install::{self, InstallError, Report, Wake};
use nodeless_kubernetes::{ApiServer, Connection, facts};
use nodeless_model::shell::quoted;
use nodeless_ports::ErrorKind;
use nodeless_runtime::{Environment, once_allowed};
use nodeless_telemetry::log;
use serde_json::Value;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use tokio::time::{Instant, timeout};

/// The time that is kept to report what is left when nodes are removed.
const KEPT_FOR_THE_ANSWER: Duration = Duration::from_secs(20);

/// The checks after an installation: those that need the API server only.
const CHECKS: [Check; 8] = [
    Check::Definitions,
    Check::Karpenter,
    Check::OtherControllers,
    Check::Objects,
    Check::Options,
    Check::NodeClasses,
    Check::Discovery,
    Check::DisruptionBudgets,
];

/// The timeout of the checks, which read the pods of the cluster.
const CHECKED_WITHIN: Duration = Duration::from_secs(60);

/// The function can get no rights in a cluster.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "cluster {cluster} has the authentication mode CONFIG_MAP, in which there are no access entries and the installer gets no rights: run \
     `aws eks update-cluster-config --name {} --access-config authenticationMode=API_AND_CONFIG_MAP`, after which the ConfigMap aws-auth \
     stays valid; or set install = false, and run `nodeless install` with your own kubeconfig",
    quoted(.cluster)
)]
struct NoAccessEntries {
    cluster: String,
}

/// Handles an event. The environment names the cluster that this function serves, and the function ends at `deadline`.
pub(crate) async fn handle(
    event: Value,
    environment: &Environment<'_>,
    deadline: SystemTime,
    config: &SdkConfig,
) -> Result<Report, Error> {
    let request = read(event, environment.optional("CLUSTER_NAME").as_deref())?;
    if request.action == Action::Nothing {
        return Ok(Report::default());
    }
    let cluster = request.cluster.as_str();
    let time = deadline.duration_since(SystemTime::now()).unwrap_or_default().saturating_sub(KEPT_TO_END);
    let work_until = Instant::now() + time;
    let describe = async || nodeless_eks::describe(config, cluster).await;
    let access = match once_allowed(Some(cluster), time, nodeless_eks::is_denied, describe).await {
        // `terraform destroy` of everything: the objects were deleted with the cluster.
        Err(error) if error.kind == ErrorKind::NotFound && !matches!(request.action, Action::Install { .. }) => {
            log(Some(cluster), &ClusterMissing {});
            return Ok(Report::default());
        }
        access => access?,
    };
    if !access.has_access_entries {
        return Err(NoAccessEntries { cluster: cluster.to_owned() }.into());
    }
    let role =
        environment.required("NODELESS_ROLE_ARN", "the ARN of the role of this function, which has an access entry")?;
    let table = environment.table()?;
    let action = reachable(cluster, request.action, access.egress_by_aws);
    let connection = connect(config, cluster, access).await?;
    let rights = ClusterAdmin::new(config, cluster, &role);
    let work = async || perform(cluster, &table, &connection, &action, work_until).await;
    let time = work_until.saturating_duration_since(Instant::now());
    let report = as_cluster_admin(cluster, &rights, TIMEOUTS, time, work).await?;
    for step in &report.steps {
        let outcome = step.outcome.to_string();
        let note = Some(step.note.as_str()).filter(|note| !note.is_empty());
        log(Some(cluster), &ObjectInstalled { object: &step.object, outcome: &outcome, note });
    }
    Ok(report)
}

async fn connect(config: &SdkConfig, cluster: &str, access: ClusterAccess) -> Result<Connection, Error> {
    let tokens = Arc::new(Tokens::new(config, cluster)?);
    let server = ApiServer { url: access.endpoint, certificate_authority: access.certificate_authority };
    let connection = Connection::with_tokens(&server, move |refused| {
        let tokens = Arc::clone(&tokens);
        async move { tokens.token(refused.as_deref()).await }
    });
    Ok(connection.await?)
}

/// Does what is requested for the deployment with this table, until then at the latest, and checks the cluster after an installation.
async fn perform(
    cluster: &str,
    table: &str,
    connection: &Connection,
    action: &Action,
    until: Instant,
) -> Result<Report, InstallError> {
    let left = || until.saturating_duration_since(Instant::now());
    match action {
        Action::Install { wake, rights, .. } => {
            let report = install::install(connection, Some(table), wake, *rights).await?;
            check_cluster(cluster, connection, CHECKED_WITHIN.min(left() / 2)).await;
            Ok(report)
        }
        Action::Uninstall => install::uninstall(connection, Some(table)).await,
        Action::RemoveNodes => {
            install::remove_nodes(connection, table, left().saturating_sub(KEPT_FOR_THE_ANSWER)).await
        }
        Action::Nothing => Ok(Report::default()),
    }
}

/// Logs what is in the way of nodeless. A cluster that cannot be checked is no reason to fail, and no warning: everything is installed.
async fn check_cluster(cluster: &str, connection: &Connection, within: Duration) {
    let not_checked = |error: &str| log(Some(cluster), &ClusterNotChecked { error });
    match timeout(within, facts::after_installation(connection, Timestamp::now())).await {
        Ok(Ok(facts)) => {
            for finding in nodeless_doctor::check_some(&facts, &CHECKS) {
                match finding.severity {
                    Severity::NotChecked => not_checked(&finding.problem),
                    Severity::Error | Severity::Warning | Severity::Note => {
                        log(Some(cluster), &ClusterFinding { finding: &finding });
                    }
                }
            }
        }
        Ok(Err(error)) => not_checked(&error.to_string()),
        Err(_) => not_checked(&format!("the checks did not end within {within:?}; run `nodeless doctor`")),
    }
}

/// Leaves out the webhook if the control plane may not reach it: otherwise each Event of an unschedulable pod would wait for
/// the webhook's timeout of two seconds.
fn reachable(cluster: &str, action: Action, egress_by_aws: bool) -> Action {
    match action {
        Action::Install { wake: Wake::Url(_), own_endpoint: false, rights } if !egress_by_aws => {
            let why = "the cluster's controlPlaneEgressMode is not AWS_MANAGED, so its API server may not reach the Function URL of wake: \
                 the webhook is left out, and pods wait for the heartbeat; set wake_endpoint in Terraform where it does";
            log(Some(cluster), &WebhookLeftOut { why });
            Action::Install { wake: Wake::Off, own_endpoint: false, rights }
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodeless_kubernetes::install::Rights;

    #[test]
    fn a_cluster_without_access_entries_is_refused_with_a_command() {
        let message = NoAccessEntries { cluster: "one".to_owned() }.to_string();
        let command =
            "`aws eks update-cluster-config --name one --access-config authenticationMode=API_AND_CONFIG_MAP`";
        assert!(message.contains("CONFIG_MAP") && message.contains(command), "{message}");
        assert!(message.contains("install = false"), "{message}");
    }

    #[test]
    fn the_webhook_is_left_out_where_the_api_server_may_not_reach_it() {
        let install = |own_endpoint| Action::Install {
            wake: Wake::Url("https://a.example/secret".to_owned()),
            own_endpoint,
            rights: Rights::default(),
        };
        assert_eq!(reachable("one", install(false), true), install(false));
        assert_eq!(reachable("one", install(true), false), install(true));
        let without = Action::Install { wake: Wake::Off, own_endpoint: false, rights: Rights::default() };
        assert_eq!(reachable("one", install(false), false), without);
        assert_eq!(reachable("one", Action::Uninstall, false), Action::Uninstall);
    }
}
