//! The `nodeless` command.
//!
//! Output for people and programs goes to standard output, progress and errors to standard error. The exit code is 0 when
//! what was asked for is done, 1 when it could not be done, 2 when the command line is wrong.
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod catalog;
mod commands;
mod demo;
mod error;
mod local;

use clap::{Parser, Subcommand};
use commands::{catalog as catalog_command, crds, demo as demo_command, install, local as local_command};
use std::process::ExitCode;

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
    /// Watch a deployment scale up and down in a local world, with nodeless at work
    Demo(demo_command::Arguments),
    /// Keep a local world running, with a kubeconfig: a cluster without nodes, and the AWS APIs that nodeless calls
    Local(local_command::Arguments),
    /// Apply the definitions, RBAC and the wake webhook to a cluster
    Install(install::Arguments),
    /// Remove RBAC and the wake webhook from a cluster; definitions and what people made of them stay
    Uninstall(install::ClusterArguments),
}

#[tokio::main]
async fn main() -> ExitCode {
    let result = match Cli::parse().command {
        Command::Catalog(arguments) => catalog_command::run(&arguments).await,
        Command::Crds(arguments) => crds::run(&arguments),
        Command::Demo(arguments) => demo_command::run(&arguments).await,
        Command::Local(arguments) => local_command::run(&arguments).await,
        Command::Install(arguments) => install::install(&arguments).await,
        Command::Uninstall(arguments) => install::uninstall(&arguments).await,
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
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
