//! `nodeless doctor`: whether a cluster is ready.

use super::install::ClusterArguments;
use crate::doctor::{self, Output};
use crate::error::CliError;
use crate::plan::input::catalog::CatalogArguments;
use clap::{Args, ValueEnum};
use std::process::ExitCode;

/// Check whether a cluster is ready for nodeless, or for the way back to Karpenter
#[derive(Debug, Args)]
#[command(
    long_about = "Check whether a cluster is ready for nodeless, or for the way back to Karpenter: authentication mode and access entries, \
CustomResourceDefinitions and who manages them, a Karpenter that still runs, EC2NodeClasses that are not ready, NodePools that nothing can \
serve, PodDisruptionBudgets that never allow an eviction, pods that cannot be scheduled, DaemonSets that take most of nodes, discovery \
tags, quotas, and the right to create successors before drains. Notes name settings that cost seconds until pods run.

Each finding is printed with what to do. What cannot be checked is a finding as well. Nothing is changed; read access is enough, and no AWS \
account is needed.",
    after_long_help = "Exit code: 0 if no finding is an error, 3 if one is, 1 if the cluster cannot be read, 2 for an invalid command line.

Examples:
  nodeless doctor
  nodeless doctor --context production --catalog catalog.json --cluster-name production
  nodeless doctor -o json | jq '.findings[] | select(.severity == \"error\")'"
)]
pub(crate) struct DoctorArguments {
    #[command(flatten)]
    cluster: ClusterArguments,
    #[command(flatten)]
    catalog: CatalogArguments,
    /// The name of the cluster in EKS, for the checks in AWS, with the AWS credentials of the environment
    #[arg(long, value_name = "NAME")]
    cluster_name: Option<String>,
    /// The output format
    #[arg(long, short, value_enum, default_value_t = Format::Text)]
    output: Format,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    Text,
    Json,
}

pub(crate) async fn run(arguments: &DoctorArguments) -> Result<ExitCode, CliError> {
    let output = match arguments.output {
        Format::Text => Output::Text,
        Format::Json => Output::Json,
    };
    let facts = arguments.cluster.facts(&arguments.catalog, arguments.cluster_name.as_deref()).await?;
    doctor::report(&facts, output)
}
