//! `nodeless upgrade --check`: whether a cluster has the objects of this version.

use super::install::ClusterArguments;
use crate::error::CliError;
use clap::Args;
use std::process::ExitCode;

/// Compare the objects of nodeless in a cluster with this command, and show what to upgrade
#[derive(Debug, Args)]
#[command(
    long_about = "Compare the objects of nodeless in a cluster with this command, and show what to upgrade: CustomResourceDefinitions, RBAC and \
the wake webhook state the version that applied them. Terraform upgrades nodeless: without --check, the command is refused.

Only the API server is asked: the versions of functions and newer releases are not looked up. Nothing is changed.",
    after_long_help = "Exit code: 0 if the cluster has the objects of this version, 2 if it has older, newer or none; 1 for an error, including \
an invalid command line and objects that cannot be read.

Examples:
  nodeless upgrade --check
  nodeless upgrade --check --context production"
)]
pub(crate) struct UpgradeArguments {
    /// Only compare
    #[arg(long)]
    check: bool,
    #[command(flatten)]
    cluster: ClusterArguments,
}

#[cfg(feature = "kubernetes")]
pub(crate) async fn run(arguments: &UpgradeArguments) -> Result<ExitCode, CliError> {
    if !arguments.check {
        return Err(CliError::UpgradeWithTerraform);
    }
    crate::upgrade::report(&nodeless_kubernetes::install::versions(&arguments.cluster.connect().await?).await?)
}

#[cfg(not(feature = "kubernetes"))]
#[expect(clippy::unused_async, reason = "with the feature `kubernetes` it waits for the cluster")]
pub(crate) async fn run(arguments: &UpgradeArguments) -> Result<ExitCode, CliError> {
    let _ = (&arguments.cluster, arguments.check);
    Err(CliError::WithoutKubernetes)
}
