//! The `nodeless` command.
//!
//! Output for people and programs goes to standard output, progress and errors to standard error. The exit code is 0 when
//! what was asked for is done, 1 when it could not be done, 2 when the command line is wrong. `nodeless plan` ends with 2
//! when pods fit nowhere, and so with 1 for a wrong command line.
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod catalog;
mod commands;
mod decisions;
mod demo;
mod error;
mod local;
mod plan;
mod simulate;
mod table;

use clap::{Parser, Subcommand};
use commands::{
    catalog as catalog_command, crds, decisions as decisions_command, demo as demo_command, install,
    local as local_command, plan as plan_command, simulate as simulate_command,
};
use std::process::ExitCode;

/// Plans and simulated worlds are made of millions of small texts and maps, on which the system's allocator spends a third of
/// the time.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Node autoscaling for Amazon EKS with Karpenter's API, and nothing of it in the cluster.
#[derive(Debug, Parser)]
#[command(version, about, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Show what EC2 offers as scheduling sees it, or write the catalog file of an account
    Catalog(catalog_command::Arguments),
    /// Print the CustomResourceDefinitions, or write them into a folder
    Crds(crds::Arguments),
    Decisions(decisions_command::Arguments),
    /// Watch a deployment scale up and down in a local world, with nodeless at work
    Demo(demo_command::Arguments),
    /// Keep a local world running, with a kubeconfig: a cluster without nodes, and the AWS APIs that nodeless calls
    Local(local_command::Arguments),
    Plan(plan_command::Arguments),
    /// Let hours of a cluster's life pass in seconds, with everything that can go wrong, and check what must hold
    Simulate(simulate_command::Arguments),
    /// Apply the definitions, RBAC and the wake webhook to a cluster
    Install(install::Arguments),
    /// Remove RBAC and the wake webhook from a cluster; definitions and what people made of them stay
    Uninstall(install::ClusterArguments),
}

#[tokio::main]
async fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return usage(&error),
    };
    let done = |()| ExitCode::SUCCESS;
    let result = match cli.command {
        Command::Catalog(arguments) => catalog_command::run(&arguments).await.map(done),
        Command::Crds(arguments) => crds::run(&arguments).map(done),
        Command::Decisions(arguments) => decisions_command::run(&arguments).map(done),
        Command::Demo(arguments) => demo_command::run(&arguments).await.map(done),
        Command::Local(arguments) => local_command::run(&arguments).await.map(done),
        Command::Plan(arguments) => plan_command::run(&arguments).await,
        Command::Simulate(arguments) => simulate_command::run(&arguments).map(done),
        Command::Install(arguments) => install::install(&arguments).await.map(done),
        Command::Uninstall(arguments) => install::uninstall(&arguments).await.map(done),
    };
    match result {
        Ok(code) => code,
        Err(error::CliError::Told) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error}");
            if let Some(advice) = error.advice() {
                eprintln!("  {advice}");
            }
            ExitCode::FAILURE
        }
    }
}

/// Tells help, version, or what is wrong with the command line.
fn usage(error: &clap::Error) -> ExitCode {
    // Nothing is left to tell it to when this fails.
    let _told = error.print();
    let plans = std::env::args_os().nth(1).is_some_and(|command| command == "plan");
    match error.exit_code() {
        2 if plans => ExitCode::from(1),
        code => ExitCode::from(u8::try_from(code).unwrap_or(1)),
    }
}
