//! `nodeless decisions`: the decisions of the planner and their reasons, which the claims table stores for a week.

use crate::decisions::{self, Selection};
use crate::error::CliError;
use crate::local::running::Running;
use crate::output::{self, report};
use crate::table;
use clap::{Args, ValueEnum};
use std::path::PathBuf;

#[derive(Debug, Args)]
#[command(
    about = "Show the decisions of the planner and their reasons, from the claims table",
    long_about = "Show the decisions of the planner and their reasons, from the claims table or from the output of `aws dynamodb query` for \
it: which nodes were disrupted, their replacements, why every other node was not disrupted, which nodes were launched for which pods, and \
which pods were unschedulable. The table stores decisions for a week. --cluster uses the AWS configuration of the environment, and needs \
the right dynamodb:Query on the table; a local cluster, which is found by its kubeconfig, needs neither.",
    after_long_help = "Examples:
  nodeless decisions --cluster CLUSTER --about ip-10-0-0-4.ec2.internal

  aws dynamodb query --table-name TABLE --no-scan-index-forward --limit 20 --output json \\
    --key-condition-expression 'pk = :cluster AND begins_with(sk, :kind)' \\
    --expression-attribute-values '{\":cluster\": {\"S\": \"CLUSTER\"}, \":kind\": {\"S\": \"decision#\"}}' | nodeless decisions"
)]
pub(crate) struct Arguments {
    /// Read the decisions of this cluster from its claims table, or from the process of a local cluster with this name
    #[arg(long, value_name = "NAME", conflicts_with = "files")]
    cluster: Option<String>,
    /// The claims table in AWS [default: nodeless-NAME, as the Terraform module names it]
    #[arg(long, value_name = "TABLE", requires = "cluster")]
    table: Option<String>,
    /// How many decisions to read at most, the latest first
    #[arg(long, value_name = "N", default_value_t = 100, requires = "cluster", value_parser = clap::value_parser!(u32).range(1..))]
    limit: u32,
    /// Files with the output of `aws dynamodb query --output json`, or - for standard input
    #[arg(value_name = "FILE", default_value = "-")]
    files: Vec<PathBuf>,
    /// Show only what concerns this Node, NodeClaim or pod (NAMESPACE/NAME); may be repeated
    #[arg(long, value_name = "NAME")]
    about: Vec<String>,
    /// Show only decisions of this kind, such as disruption-proposed; may be repeated
    #[arg(long, value_name = "KIND")]
    kind: Vec<String>,
    /// The output format
    #[arg(long, short, value_enum, default_value_t = Format::Text)]
    output: Format,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    Text,
    Json,
}

pub(crate) async fn run(arguments: &Arguments) -> Result<(), CliError> {
    let items = match &arguments.cluster {
        Some(cluster) => of_cluster(arguments, cluster).await?,
        None => table::read(&arguments.files)?,
    };
    let selection = Selection { about: &arguments.about, kinds: &arguments.kind };
    let found = decisions::read(&items, &selection)?;
    if let Some(first) = items.first()
        && items.iter().all(|item| item.decision().is_none())
    {
        return Err(first.misplaced("it is not an item decision#, and no other item is one"));
    }
    if found.is_empty() {
        report!("note: {}", decisions::explain_empty(&items, &selection));
    }
    match arguments.output {
        Format::Text => output::text(&decisions::text::render(&found)),
        Format::Json => output::json(&found),
    }
    .map(drop)
}

async fn of_cluster(arguments: &Arguments, cluster: &str) -> Result<Vec<table::Item>, CliError> {
    match Running::of_table(cluster, arguments.table.as_deref()) {
        Some(local) => local.decisions(arguments.limit),
        None => in_aws(arguments, cluster).await,
    }
}

#[cfg(feature = "aws")]
async fn in_aws(arguments: &Arguments, cluster: &str) -> Result<Vec<table::Item>, CliError> {
    decisions::stored::read(cluster, arguments.table.as_deref(), arguments.limit).await
}

#[cfg(not(feature = "aws"))]
#[expect(clippy::unused_async, reason = "with the feature `aws` it waits for DynamoDB")]
async fn in_aws(_: &Arguments, cluster: &str) -> Result<Vec<table::Item>, CliError> {
    Err(CliError::without_aws_for(cluster))
}
