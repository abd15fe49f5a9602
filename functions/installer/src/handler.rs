//! From a request to a report.

use crate::event::{Action, read};
use aws_config::SdkConfig;
use lambda_runtime::Error;
use nodeless_eks::Tokens;
use nodeless_kubernetes::install::{self, InstallError, Report};
use nodeless_kubernetes::{ApiServer, Connection};
use nodeless_ports::ErrorKind;
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// Terraform invokes us as soon as it has made our access entry, and EKS takes up to a minute to honour one.
const ACCESS_WITHIN: Duration = Duration::from_secs(75);
const RETRY: Duration = Duration::from_secs(5);

/// Does what an event asks for. `cluster` is the one that this function is set up for.
pub(crate) async fn handle(event: Value, cluster: Option<&str>, config: &SdkConfig) -> Result<Report, Error> {
    let request = read(event, cluster)?;
    let access = match nodeless_eks::describe(config, &request.cluster).await {
        // `terraform destroy` of everything: with the cluster went all that we would remove.
        Err(error) if error.kind == ErrorKind::NotFound && request.action == Action::Uninstall => {
            tracing::warn!(cluster = request.cluster, "there is no such cluster any more; nothing to uninstall");
            return Ok(Report::default());
        }
        access => access?,
    };
    let tokens = Arc::new(Tokens::new(config, &request.cluster)?);
    let server = ApiServer { url: access.endpoint, certificate_authority: access.certificate_authority };
    let connection = Connection::with_tokens(&server, move || {
        let tokens = Arc::clone(&tokens);
        async move { tokens.token().await }
    })
    .await?;
    let report = perform(&connection, &request.action).await?;
    for step in &report.steps {
        tracing::info!(object = step.object, outcome = %step.outcome, note = step.note, "installed");
    }
    Ok(report)
}

/// Does it, and waits while the API server does not know us yet.
async fn perform(connection: &Connection, action: &Action) -> Result<Report, InstallError> {
    let deadline = Instant::now() + ACCESS_WITHIN;
    loop {
        let done = match action {
            Action::Install(wake) => install::install(connection, wake).await,
            Action::Uninstall => install::uninstall(connection).await,
        };
        match done {
            Err(InstallError::Api(error)) if error.kind == ErrorKind::Denied && Instant::now() < deadline => {
                tracing::info!(%error, "waiting until the access entry takes effect");
                sleep(RETRY).await;
            }
            done => return done,
        }
    }
}
