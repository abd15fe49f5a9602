//! `nodeless install` and `nodeless uninstall`: what the installer function does, with a kubeconfig.

use crate::error::CliError;
use clap::Args;
use nodeless_kubernetes::Connection;
use nodeless_kubernetes::install::{self, Report, Wake};
use std::path::PathBuf;

#[derive(Debug, Args)]
pub(crate) struct ClusterArguments {
    /// The kubeconfig [default: $KUBECONFIG, else ~/.kube/config]
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// The kubeconfig's context [default: its current one]
    #[arg(long)]
    context: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    cluster: ClusterArguments,
    /// URL of the wake function, secret path included (Terraform output `wake_url`); without it the present webhook stays
    #[arg(long, value_name = "URL", conflicts_with = "no_wake")]
    wake_url: Option<String>,
    /// Remove the wake webhook: the minute heartbeat alone wakes the planner
    #[arg(long)]
    no_wake: bool,
}

impl ClusterArguments {
    pub(crate) async fn connect(&self) -> Result<Connection, CliError> {
        Ok(Connection::with_kubeconfig(self.kubeconfig.as_deref(), self.context.as_deref()).await?)
    }
}

pub(crate) async fn install(arguments: &Arguments) -> Result<(), CliError> {
    let wake = match &arguments.wake_url {
        Some(url) => Wake::Url(url.clone()),
        None if arguments.no_wake => Wake::Off,
        None => Wake::Keep,
    };
    let connection = arguments.cluster.connect().await?;
    print_report(&install::install(&connection, &wake).await?);
    Ok(())
}

pub(crate) async fn uninstall(arguments: &ClusterArguments) -> Result<(), CliError> {
    let connection = arguments.connect().await?;
    print_report(&install::uninstall(&connection).await?);
    Ok(())
}

fn print_report(report: &Report) {
    print!("{report}");
}
