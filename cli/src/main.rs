//! The `nodeless` command.
//!
//! Results are printed to standard output, progress and errors to standard error. The exit code is 0 on success, 1 on
//! failure and 2 for an invalid command line. `nodeless plan` exits with 2 when pods are unschedulable, and `nodeless upgrade --check`
//! when the cluster has another version; therefore they exit with 1 for an invalid command line. `nodeless doctor` exits with 3 when it
//! finds errors.
#![cfg_attr(test, allow(clippy::unwrap_used))]
// These macros panic when the reader of a pipe closes it: see `output`.
#![deny(clippy::print_stdout, clippy::print_stderr)]

mod catalog;
mod commands;
mod commitments;
mod convert;
mod decisions;
mod definitions;
mod demo;
mod doctor;
mod error;
mod html;
mod input_files;
mod interrupt;
mod invocation;
mod local;
#[cfg(feature = "kubernetes")]
mod metrics;
mod origin;
mod output;
mod output_file;
mod plan;
mod plural;
mod report;
mod shutdown;
mod simulate;
mod table;
#[cfg(feature = "kubernetes")]
mod upgrade;
#[cfg(feature = "kubernetes")]
mod view;

use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand};
use commands::generated::{completions, crds, man};
use commands::{
    catalog as catalog_command, convert as convert_command, decisions as decisions_command, demo as demo_command,
    doctor as doctor_command, install, local as local_command, metrics as metrics_command, plan as plan_command,
    report as report_command, simulate as simulate_command, upgrade as upgrade_command, view as view_command,
};
use output::report;
use std::process::ExitCode;

/// Plans and simulations allocate millions of small strings and maps; with the allocator of the system a third of the time is
/// spent on that.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Node autoscaling for Amazon EKS with Karpenter's API, with nothing to run in the cluster.
#[derive(Debug, Parser)]
#[command(version, about, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Show the instance types and offerings that scheduling uses, or write the catalog file of an account
    Catalog(catalog_command::CatalogCommand),
    Completions(completions::CompletionsArguments),
    Convert(convert_command::ConvertArguments),
    /// Print the CustomResourceDefinitions, or write them to a directory
    Crds(crds::CrdsArguments),
    Decisions(decisions_command::DecisionsArguments),
    /// Show how nodeless scales the nodes of a local simulated cluster up and down with a Deployment
    Demo(demo_command::DemoArguments),
    Doctor(doctor_command::DoctorArguments),
    /// Run a local simulated cluster without nodes, and the AWS APIs that nodeless calls, and write a kubeconfig for it
    Local(local_command::LocalArguments),
    Man(man::ManArguments),
    Metrics(metrics_command::MetricsArguments),
    Plan(Box<plan_command::PlanArguments>),
    Report(report_command::ReportArguments),
    /// Simulate hours of a cluster in seconds, with faults, and check invariants
    Simulate(simulate_command::SimulateArguments),
    View(view_command::ViewArguments),
    /// Install the CustomResourceDefinitions, RBAC objects and wake webhook in a cluster
    Install(install::InstallArguments),
    /// Remove the RBAC objects and wake webhook from a cluster; CustomResourceDefinitions and their objects are kept
    Uninstall(install::ClusterArguments),
    Upgrade(upgrade_command::UpgradeArguments),
}

#[tokio::main]
async fn main() -> ExitCode {
    let cli = match parse() {
        Ok(cli) => cli,
        Err(error) => return usage(&error),
    };
    let done = |()| ExitCode::SUCCESS;
    let result = match cli.command {
        Command::Catalog(arguments) => catalog_command::run(&arguments).await.map(done),
        Command::Completions(arguments) => completions::run(&arguments, Cli::command()).map(done),
        Command::Convert(arguments) => convert_command::run(&arguments).map(done),
        Command::Crds(arguments) => crds::run(&arguments).map(done),
        Command::Decisions(arguments) => decisions_command::run(&arguments).await.map(done),
        Command::Demo(arguments) => demo_command::run(&arguments).await.map(done),
        Command::Doctor(arguments) => doctor_command::run(&arguments).await,
        Command::Local(arguments) => local_command::run(&arguments).await.map(done),
        Command::Man(arguments) => man::run(&arguments, Cli::command()).map(done),
        Command::Metrics(arguments) => metrics_command::run(&arguments).await.map(done),
        Command::Plan(arguments) => plan_command::run(&arguments).await,
        Command::Report(arguments) => report_command::run(&arguments).await.map(done),
        Command::Simulate(arguments) => simulate_command::run(&arguments).map(done),
        Command::View(arguments) => view_command::run(&arguments).await.map(done),
        Command::Install(arguments) => install::install(&arguments).await.map(done),
        Command::Uninstall(arguments) => install::uninstall(&arguments).await.map(done),
        Command::Upgrade(arguments) => upgrade_command::run(&arguments).await,
    };
    match result {
        Ok(code) => code,
        Err(error::CliError::AlreadyReported) => ExitCode::FAILURE,
        Err(error) => {
            report!("error: {error}");
            if let Some(advice) = error.advice() {
                report!("  {advice}");
            }
            ExitCode::FAILURE
        }
    }
}

fn parse() -> Result<Cli, clap::Error> {
    let mut command = Cli::command();
    if let Some(name) = invocation::plugin_name(std::env::args_os().next().as_deref()) {
        command.set_bin_name(name);
    }
    let mut matches = command.try_get_matches_from_mut(std::env::args_os())?;
    Cli::from_arg_matches_mut(&mut matches).map_err(|error| error.format(&mut command))
}

/// Prints the help, the version, or the error of the command line.
fn usage(error: &clap::Error) -> ExitCode {
    // Where this fails, the error cannot be printed either.
    let _unprintable = error.print();
    // Their exit code 2 has another meaning.
    let command = std::env::args_os().nth(1).unwrap_or_default();
    let is_result = command == "plan" || command == "upgrade";
    match error.exit_code() {
        2 if is_result => ExitCode::from(1),
        code => ExitCode::from(u8::try_from(code).unwrap_or(1)),
    }
}
