//! `nodeless install` and `nodeless uninstall`: the work of the installer function, through a kubeconfig.

use crate::error::CliError;
use crate::plan::input::catalog::CatalogArguments;
use clap::Args;
use nodeless_api::default_spread::SchedulerConfig;
use nodeless_doctor::Facts;
use nodeless_snapshot::Reader;
use std::path::PathBuf;

#[derive(Debug, Args)]
pub(crate) struct ClusterArguments {
    /// The kubeconfig file [default: $KUBECONFIG, or ~/.kube/config]
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// The context of the kubeconfig [default: the current context]
    #[arg(long)]
    context: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct InstallArguments {
    #[command(flatten)]
    cluster: ClusterArguments,
    /// The URL of the wake function with its secret path (Terraform output `wake_url`) [default: keep the present webhook]
    #[arg(long, value_name = "URL", conflicts_with = "no_wake")]
    wake_url: Option<String>,
    /// Remove the wake webhook; the planner then runs only once a minute
    #[arg(long)]
    no_wake: bool,
    /// Do not grant lifecycle the right to nominate nodes for pods (patch of pods/status), or take it away
    #[arg(long)]
    no_nominations: bool,
    /// Add the role nodeless:admin to the role admin of Kubernetes, so that the admins of a namespace may request capacity for it
    #[arg(long)]
    aggregate_to_admin: bool,
    /// Print what would be done: the API server checks each write and stores none
    #[arg(long)]
    dry_run: bool,
}

#[cfg(feature = "kubernetes")]
mod connected {
    use super::{CatalogArguments, CliError, ClusterArguments, Facts, InstallArguments, Reader, SchedulerConfig};
    use crate::output::{self, report};
    use nodeless_kubernetes::Connection;
    use nodeless_kubernetes::install::{self, Rights, Wake};
    use std::path::Path;

    impl ClusterArguments {
        pub(crate) async fn connect(&self) -> Result<Connection, CliError> {
            Ok(Connection::with_kubeconfig(self.kubeconfig.as_deref(), self.context.as_deref()).await?)
        }

        /// The kubeconfig file, if it is given.
        pub(crate) fn kubeconfig(&self) -> Option<&Path> {
            self.kubeconfig.as_deref()
        }

        /// The name of the context, if it is given.
        pub(crate) fn context(&self) -> Option<&str> {
            self.context.as_deref()
        }

        /// Reads the objects that a plan needs.
        pub(crate) async fn read(&self, config: SchedulerConfig) -> Result<Reader, CliError> {
            crate::plan::input::live::read_with(&self.connect().await?, config).await
        }

        /// Reads the facts about the cluster that `doctor` checks.
        pub(crate) async fn facts(
            &self,
            catalog: &CatalogArguments,
            cluster_name: Option<&str>,
        ) -> Result<Facts, CliError> {
            crate::doctor::read::read(&self.connect().await?, catalog, cluster_name).await
        }
    }

    pub(crate) async fn install(arguments: &InstallArguments) -> Result<(), CliError> {
        let wake = match &arguments.wake_url {
            Some(url) => Wake::Url(url.clone()),
            None if arguments.no_wake => Wake::Off,
            None => Wake::Keep,
        };
        let mut connection = arguments.cluster.connect().await?;
        if arguments.dry_run {
            connection = connection.with_dry_run();
        }
        name_context(&connection, arguments.dry_run);
        let rights =
            Rights { nominations: !arguments.no_nominations, aggregate_to_admin: arguments.aggregate_to_admin };
        output::print(install::install(&connection, None, &wake, rights).await?).map(drop)
    }

    /// States which cluster is meant, before anything is done to it.
    fn name_context(connection: &Connection, dry_run: bool) {
        let context = connection.context().unwrap_or("of the kubeconfig");
        let nothing = if dry_run { "; nothing is changed, the lines state what would be" } else { "" };
        report!("note: context {context}{nothing}");
    }

    pub(crate) async fn uninstall(arguments: &ClusterArguments) -> Result<(), CliError> {
        let connection = arguments.connect().await?;
        name_context(&connection, false);
        output::print(install::uninstall(&connection, None).await?).map(drop)
    }
}

/// A build without the Kubernetes client refuses commands that need it.
#[cfg(not(feature = "kubernetes"))]
#[expect(clippy::unused_async, reason = "with the feature `kubernetes` these wait for the cluster")]
mod connected {
    use super::{CatalogArguments, CliError, ClusterArguments, Facts, InstallArguments, Reader, SchedulerConfig};

    impl ClusterArguments {
        pub(crate) async fn read(&self, _: SchedulerConfig) -> Result<Reader, CliError> {
            let _ = (&self.kubeconfig, &self.context);
            Err(CliError::WithoutKubernetes)
        }

        pub(crate) async fn facts(&self, _: &CatalogArguments, _: Option<&str>) -> Result<Facts, CliError> {
            Err(CliError::WithoutKubernetes)
        }
    }

    pub(crate) async fn install(arguments: &InstallArguments) -> Result<(), CliError> {
        let _ = (&arguments.cluster, &arguments.wake_url, arguments.no_wake);
        let _ = (arguments.no_nominations, arguments.aggregate_to_admin, arguments.dry_run);
        Err(CliError::WithoutKubernetes)
    }

    pub(crate) async fn uninstall(_: &ClusterArguments) -> Result<(), CliError> {
        Err(CliError::WithoutKubernetes)
    }
}

pub(crate) use connected::{install, uninstall};
