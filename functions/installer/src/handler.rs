//! Handles a request and returns a report.

use crate::event::{Action, read};
use crate::log_lines::{
    ClusterFinding, ClusterMissing, ClusterNotChecked, ObjectInstalled, WaitingForAccess, WebhookLeftOut,
};
use aws_config::SdkConfig;
use jiff::Timestamp;
use lambda_runtime::Error;
use nodeless_doctor::{Check, Severity};
use nodeless_eks::Tokens;
use nodeless_kubernetes::install::{self, InstallError, Report, Wake};
use nodeless_kubernetes::{ApiServer, Connection, facts};
use nodeless_ports::ErrorKind;
use nodeless_telemetry::log;
use serde_json::Value;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use tokio::time::{Instant, sleep, timeout};

/// Terraform invokes the function as soon as the access entry exists, and EKS takes up to a minute to apply it.
const ACCESS_WITHIN: Duration = Duration::from_secs(75);
const RETRY: Duration = Duration::from_secs(5);

/// The time that is reserved to report what is left.
const KEPT_FOR_THE_ANSWER: Duration = Duration::from_secs(20);

/// The checks after an installation: those that need the API server only.
const CHECKS: [Check; 6] = [
    Check::Definitions,
    Check::Karpenter,
    Check::Objects,
    Check::NodeClasses,
    Check::Discovery,
    Check::DisruptionBudgets,
];

/// The timeout of the checks, which read the pods of the cluster.
const CHECKED_WITHIN: Duration = Duration::from_secs(60);

/// Handles an event. `cluster` is the cluster that this function serves, and the function ends at `deadline`.
pub(crate) async fn handle(
    event: Value,
    cluster: Option<&str>,
    deadline: SystemTime,
    config: &SdkConfig,
) -> Result<Report, Error> {
    let request = read(event, cluster)?;
    if request.action == Action::Nothing {
        return Ok(Report::default());
    }
    let time = deadline.duration_since(SystemTime::now()).unwrap_or_default().saturating_sub(KEPT_FOR_THE_ANSWER);
    let access = match nodeless_eks::describe(config, &request.cluster).await {
        // `terraform destroy` of everything: the objects were deleted with the cluster.
        Err(error) if error.kind == ErrorKind::NotFound && !matches!(request.action, Action::Install { .. }) => {
            log(Some(&request.cluster), &ClusterMissing {});
            return Ok(Report::default());
        }
        access => access?,
    };
    let action = reachable(&request.cluster, request.action, access.egress_by_aws);
    let tokens = Arc::new(Tokens::new(config, &request.cluster)?);
    let server = ApiServer { url: access.endpoint, certificate_authority: access.certificate_authority };
    let connection = Connection::with_tokens(&server, move |refused| {
        let tokens = Arc::clone(&tokens);
        async move { tokens.token(refused.as_deref()).await }
    })
    .await?;
    let report = perform(&request.cluster, &connection, &action, time).await?;
    if matches!(action, Action::Install { .. }) {
        let left = deadline.duration_since(SystemTime::now()).unwrap_or_default();
        check_cluster(&request.cluster, &connection, CHECKED_WITHIN.min(left / 2)).await;
    }
    for step in &report.steps {
        let outcome = step.outcome.to_string();
        let note = Some(step.note.as_str()).filter(|note| !note.is_empty());
        log(Some(&request.cluster), &ObjectInstalled { object: &step.object, outcome: &outcome, note });
    }
    Ok(report)
}

/// Logs what is in the way of nodeless. A cluster that cannot be checked is no reason to fail, and no warning: everything is installed.
async fn check_cluster(cluster: &str, connection: &Connection, within: Duration) {
    let not_checked = |error: &str| log(Some(cluster), &ClusterNotChecked { error });
    match timeout(within, facts::after_installation(connection, Timestamp::now())).await {
        Ok(Ok(facts)) => {
            for finding in nodeless_doctor::check_some(&facts, &CHECKS) {
                match finding.severity {
                    Severity::NotChecked => not_checked(&finding.problem),
                    Severity::Error | Severity::Warning => log(Some(cluster), &ClusterFinding { finding: &finding }),
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
        Action::Install { wake: Wake::Url(_), own_endpoint: false, nominations } if !egress_by_aws => {
            let why = "the cluster's controlPlaneEgressMode is not AWS_MANAGED, so its API server may not reach the Function URL of wake: \
                 the webhook is left out, and pods wait for the heartbeat; set wake_endpoint in Terraform where it does";
            log(Some(cluster), &WebhookLeftOut { why });
            Action::Install { wake: Wake::Off, own_endpoint: false, nominations }
        }
        other => other,
    }
}

/// Runs the request, and waits while the API server does not accept the access entry yet.
async fn perform(
    cluster: &str,
    connection: &Connection,
    action: &Action,
    time: Duration,
) -> Result<Report, InstallError> {
    let deadline = Instant::now() + ACCESS_WITHIN;
    loop {
        let done = match action {
            Action::Install { wake, nominations, .. } => install::install(connection, wake, *nominations).await,
            Action::Uninstall => install::uninstall(connection).await,
            Action::RemoveNodes => install::remove_nodes(connection, time).await,
            Action::Nothing => Ok(Report::default()),
        };
        match done {
            Err(InstallError::Api(error)) if error.kind == ErrorKind::Denied && Instant::now() < deadline => {
                log(Some(cluster), &WaitingForAccess { error: &error.to_string() });
                sleep(RETRY).await;
            }
            done => return done,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_webhook_is_left_out_where_the_api_server_may_not_reach_it() {
        let install = |own_endpoint| Action::Install {
            wake: Wake::Url("https://a.example/secret".to_owned()),
            own_endpoint,
            nominations: true,
        };
        assert_eq!(reachable("one", install(false), true), install(false));
        assert_eq!(reachable("one", install(true), false), install(true));
        let without = Action::Install { wake: Wake::Off, own_endpoint: false, nominations: true };
        assert_eq!(reachable("one", install(false), false), without);
        assert_eq!(reachable("one", Action::Uninstall, false), Action::Uninstall);
    }
}
