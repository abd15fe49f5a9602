//! `nodeless decisions`: what was decided and why, as the claims table keeps it for a week.

use crate::decisions::{self, Selection};
use crate::error::CliError;
use crate::table;
use clap::{Args, ValueEnum};
use std::path::PathBuf;

#[derive(Debug, Args)]
#[command(
    about = "Show what was decided and why, from what `aws dynamodb query` prints of the claims table",
    long_about = "Show what was decided and why, from what `aws dynamodb query` prints of the claims table: which nodes were to go, what \
came in their place, why every other node stayed, what was launched for which pods, and which pods fitted nowhere. The table keeps \
decisions for a week.",
    after_long_help = "Example:
  aws dynamodb query --table-name TABLE --no-scan-index-forward --limit 20 --output json \\
    --key-condition-expression 'pk = :cluster AND begins_with(sk, :kind)' \\
    --expression-attribute-values '{\":cluster\": {\"S\": \"CLUSTER\"}, \":kind\": {\"S\": \"decision#\"}}' | nodeless decisions"
)]
pub(crate) struct Arguments {
    /// Files with what `aws dynamodb query --output json` printed, or - for standard input
    #[arg(value_name = "FILE", default_value = "-")]
    files: Vec<PathBuf>,
    /// Only what concerns this Node, NodeClaim or pod (NAMESPACE/NAME); may be given several times
    #[arg(long, value_name = "NAME")]
    about: Vec<String>,
    /// Only decisions of this kind, such as disruption-proposed; may be given several times
    #[arg(long, value_name = "KIND")]
    kind: Vec<String>,
    /// Text for people, JSON for programs
    #[arg(long, short, value_enum, default_value_t = Form::Text)]
    output: Form,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Form {
    Text,
    Json,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), CliError> {
    let items = table::read(&arguments.files)?;
    let selection = Selection { about: &arguments.about, kinds: &arguments.kind };
    let found = decisions::read(&items, &selection)?;
    if found.is_empty() {
        eprintln!("note: {}", decisions::nothing(&items, &selection));
    }
    crate::plan::print(&match arguments.output {
        Form::Text => decisions::text::render(&found),
        Form::Json => decisions::json(&found)?,
    })
}
