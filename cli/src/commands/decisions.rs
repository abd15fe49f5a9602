//! `nodeless decisions`: the decisions of the planner and their reasons, which the claims table stores for a week.

use crate::decisions::{self, Selection};
use crate::error::CliError;
use crate::output::{self, report};
use crate::table;
use clap::{Args, ValueEnum};
use std::path::PathBuf;

#[derive(Debug, Args)]
#[command(
    about = "Show the decisions of the planner and their reasons, from the output of `aws dynamodb query` for the claims table",
    long_about = "Show the decisions of the planner and their reasons, from the output of `aws dynamodb query` for the claims table: which \
nodes were disrupted, their replacements, why every other node was not disrupted, which nodes were launched for which pods, and which \
pods were unschedulable. The table stores decisions for a week.",
    after_long_help = "Example:
  aws dynamodb query --table-name TABLE --no-scan-index-forward --limit 20 --output json \\
    --key-condition-expression 'pk = :cluster AND begins_with(sk, :kind)' \\
    --expression-attribute-values '{\":cluster\": {\"S\": \"CLUSTER\"}, \":kind\": {\"S\": \"decision#\"}}' | nodeless decisions"
)]
pub(crate) struct Arguments {
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

pub(crate) fn run(arguments: &Arguments) -> Result<(), CliError> {
    let items = table::read(&arguments.files)?;
    let selection = Selection { about: &arguments.about, kinds: &arguments.kind };
    let found = decisions::read(&items, &selection)?;
    if found.is_empty() {
        report!("note: {}", decisions::explain_empty(&items, &selection));
    }
    output::print(match arguments.output {
        Format::Text => decisions::text::render(&found),
        Format::Json => decisions::json(&found)?,
    })
    .map(drop)
}
