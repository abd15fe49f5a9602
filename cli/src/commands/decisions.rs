//! `nodeless decisions`: the decisions of the planner and their reasons, which the claims table stores for a week.

use crate::decisions::{self, RepeatedDecision, Selection};
use crate::error::CliError;
use crate::local::running::Running;
use crate::output::{self, report};
use crate::table;
use clap::builder::PossibleValuesParser;
use clap::{Args, ValueEnum};
use jiff::{SignedDuration, Span, SpanRelativeTo};
use nodeless_state::decisions::KINDS;
use std::path::PathBuf;

#[derive(Debug, Args)]
#[command(
    about = "Show the decisions of the planner and their reasons, from the claims table",
    long_about = "Show the decisions of the planner and their reasons, from the claims table or from the output of `aws dynamodb query` for \
it: which nodes were disrupted, their replacements, why every other node was not disrupted, which nodes were launched for which pods, \
which pods were unschedulable, and which nodes were drained because of an interruption. Decisions of a kind that follow each other with the \
same outcome are shown once, with their number. The table stores decisions for a week. --cluster uses the AWS configuration of the environment, and needs \
the right dynamodb:Query on the table; a local cluster, which is found by its kubeconfig, needs neither.",
    after_long_help = "Examples:
  nodeless decisions --cluster CLUSTER --about ip-10-0-0-4.ec2.internal
  nodeless decisions --cluster CLUSTER --window 12h --kind provisioning --kind interruption

  aws dynamodb query --table-name TABLE --no-scan-index-forward --limit 20 --output json \\
    --key-condition-expression 'pk = :cluster AND begins_with(sk, :kind)' \\
    --expression-attribute-values '{\":cluster\": {\"S\": \"CLUSTER\"}, \":kind\": {\"S\": \"decision#\"}}' | nodeless decisions"
)]
pub(crate) struct DecisionsArguments {
    /// Read the decisions of this cluster from its claims table, or from the process of a local cluster with this name
    #[arg(long, value_name = "NAME", conflicts_with = "files")]
    cluster: Option<String>,
    /// The claims table in AWS [default: nodeless-NAME, as the Terraform module names it]
    #[arg(long, value_name = "TABLE", requires = "cluster")]
    table: Option<String>,
    /// How many outcomes to show at most, the latest first; repetitions count as one
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..))]
    limit: u32,
    /// Show only the decisions of this time before the latest one, such as 90m, 12h or 2d
    #[arg(long, value_name = "DURATION", value_parser = window)]
    window: Option<SignedDuration>,
    /// Files with the output of `aws dynamodb query --output json`, or - for standard input
    #[arg(value_name = "FILE", default_value = "-")]
    files: Vec<PathBuf>,
    /// Show only what concerns this Node, NodeClaim or pod (NAMESPACE/NAME); may be repeated
    #[arg(long, value_name = "NAME")]
    about: Vec<String>,
    /// Show only decisions of this kind; may be repeated
    #[arg(long, value_name = "KIND", value_parser = PossibleValuesParser::new(KINDS))]
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

/// How many times as many decisions are read where fewer outcomes than requested were found among them.
const MORE: u32 = 4;

pub(crate) async fn run(arguments: &DecisionsArguments) -> Result<(), CliError> {
    let selection = Selection { about: &arguments.about, kinds: &arguments.kind, window: arguments.window };
    let mut count = arguments.limit;
    let (items, mut found) = loop {
        let items = match &arguments.cluster {
            Some(cluster) => of_cluster(arguments, cluster, count).await?,
            None => table::read(&arguments.files)?,
        };
        let found = decisions::outcomes(&items, &selection)?;
        let is_all = arguments.cluster.is_none() || items.len() < count as usize;
        if is_all || found.len() >= arguments.limit as usize || decisions::are_older(&items, &selection)? {
            break (items, found);
        }
        count = count.saturating_mul(MORE);
    };
    found.truncate(arguments.limit as usize);
    if let Some(first) = items.first()
        && items.iter().all(|item| item.decision().is_none())
    {
        return Err(first.misplaced("it is not an item decision#, and no other item is one"));
    }
    if found.is_empty() {
        report!("note: {}", decisions::explain_empty(&items, &selection));
    }
    print(arguments.output, &found)
}

fn print(format: Format, found: &[RepeatedDecision]) -> Result<(), CliError> {
    match format {
        Format::Text => output::text(&decisions::text::render(found)),
        Format::Json => output::json(&found),
    }
    .map(drop)
}

/// A duration such as `90m`, `12h` or `2d`; a day has 24 hours.
fn window(text: &str) -> Result<SignedDuration, String> {
    let wrong = || format!("{text:?} is no duration; write hours such as 12h, minutes such as 90m, or days such as 2d");
    let span: Span = text.parse().map_err(|_| wrong())?;
    let duration = span.to_duration(SpanRelativeTo::days_are_24_hours()).map_err(|_| wrong())?;
    if duration.is_positive() { Ok(duration) } else { Err(wrong()) }
}

async fn of_cluster(arguments: &DecisionsArguments, cluster: &str, count: u32) -> Result<Vec<table::Item>, CliError> {
    match Running::of_table(cluster, arguments.table.as_deref())? {
        Some(local) => local.decisions(count),
        None => in_aws(arguments, cluster, count).await,
    }
}

#[cfg(feature = "aws")]
async fn in_aws(arguments: &DecisionsArguments, cluster: &str, count: u32) -> Result<Vec<table::Item>, CliError> {
    decisions::stored::read(cluster, arguments.table.as_deref(), count).await
}

#[cfg(not(feature = "aws"))]
#[expect(clippy::unused_async, reason = "with the feature `aws` it waits for DynamoDB")]
async fn in_aws(_: &DecisionsArguments, cluster: &str, _: u32) -> Result<Vec<table::Item>, CliError> {
    Err(CliError::without_aws_for(cluster))
}
