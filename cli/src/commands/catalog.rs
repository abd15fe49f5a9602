//! `nodeless catalog`: the instance types and offerings that scheduling uses.

use crate::catalog::{export, listing, load, text};
use crate::error::CliError;
use crate::output::{self, report};
use clap::{Args, Subcommand, ValueEnum};
use nodeless_catalog::node_class::AmiFamily;
use nodeless_catalog::{NodeClassSettings, UnavailableOfferings};
use std::path::PathBuf;

#[derive(Debug, Args)]
pub(crate) struct CatalogCommand {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Print the labels, capacity, allocatable resources and offerings of all instance types, for AL2023 with default settings
    Show(ShowArguments),
    /// Write the catalog of the account and region of the AWS configuration in the environment, or of a local cluster
    Export(ExportArguments),
}

#[derive(Debug, Args)]
struct ShowArguments {
    /// The catalog file, or - for standard input [default: the embedded catalog]
    #[arg(long, value_name = "FILE")]
    catalog: Option<PathBuf>,
    /// The region of the embedded catalog
    #[arg(long, value_name = "REGION", default_value = "us-east-1", conflicts_with_all = ["catalog", "instance_types"])]
    region: String,
    /// The output of DescribeInstanceTypes; replaces instanceTypes of the catalog file, or is used with the embedded offerings
    #[arg(long, value_name = "FILE")]
    instance_types: Option<PathBuf>,
    /// The output format
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    output: Output,
}

#[derive(Debug, Args)]
struct ExportArguments {
    /// Read the simulated account of the local cluster with this name
    #[arg(long, value_name = "NAME")]
    cluster: Option<String>,
    /// The file to write, or - for standard output
    #[arg(long, value_name = "FILE", default_value = "-")]
    write: PathBuf,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Output {
    /// A table with one line for each type
    Text,
    /// An array with one object for each type
    Json,
}

pub(crate) async fn run(arguments: &CatalogCommand) -> Result<(), CliError> {
    match &arguments.command {
        Command::Show(arguments) => show(arguments),
        Command::Export(arguments) => export(arguments).await,
    }
}

fn show(arguments: &ShowArguments) -> Result<(), CliError> {
    let file = load::load(arguments.catalog.as_deref(), arguments.instance_types.as_deref(), &arguments.region)?;
    for note in &file.notes {
        report!("warning: {note}");
    }
    let settings = NodeClassSettings::new(AmiFamily::Al2023, file.catalog.zones.clone());
    let types = file.catalog.instance_types(&settings, &UnavailableOfferings::default());
    match arguments.output {
        Output::Json => output::json(&listing::listed(&types, &file.catalog)),
        Output::Text => output::print(text::table(&file, &types)),
    }
    .map(drop)
}

async fn export(arguments: &ExportArguments) -> Result<(), CliError> {
    match &arguments.cluster {
        Some(cluster) => export::of_local_cluster(cluster, &arguments.write),
        None => in_aws(arguments).await,
    }
}

#[cfg(feature = "aws")]
async fn in_aws(arguments: &ExportArguments) -> Result<(), CliError> {
    export::of_account(&arguments.write).await
}

#[cfg(not(feature = "aws"))]
#[expect(clippy::unused_async, reason = "with the feature `aws` it waits for EC2")]
async fn in_aws(_: &ExportArguments) -> Result<(), CliError> {
    let local = "`catalog export --cluster NAME` writes the catalog of a local cluster".to_owned();
    Err(CliError::WithoutAws { what: "the catalog of an account".to_owned(), local })
}
