//! `nodeless demo`: scales a Deployment in a local simulated cluster and prints what nodeless does.

use super::local::{KUBECONFIG, print_summary, speed};
use crate::commands::local::Web;
use crate::demo::steps::Demo;
use crate::demo::{Progress, style};
use crate::error::CliError;
use crate::local::kubeconfig::Kubeconfig;
use crate::local::listen::Port;
use crate::local::log::Recorder;
use crate::local::{Controllers, LocalWorld};
use crate::output::{self, report};
use crate::plural::counted;
use crate::shutdown::Shutdown;
use clap::Args;
use nodeless_operations::gates::FeatureGates;
use std::path::PathBuf;
use std::sync::Arc;

/// The name of the cluster.
const CLUSTER: &str = "demo";
const REGION: &str = "us-east-1";

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Keep the cluster when the demo ends, and write a kubeconfig for it
    #[arg(long)]
    interactive: bool,
    /// The speed of simulated time as a multiple of the wall clock
    #[arg(long, value_name = "N", default_value = "60", value_parser = speed)]
    speed: f64,
    /// The path of the kubeconfig for --interactive; the file is removed at the end
    #[arg(long, value_name = "FILE", default_value = KUBECONFIG, requires = "interactive")]
    kubeconfig: PathBuf,
}

pub(crate) async fn run(arguments: &Arguments) -> Result<(), CliError> {
    // Ports that are not available are reported before the demo begins.
    let open = if arguments.interactive { Some(Open::new().await?) } else { None };
    let log = Arc::new(Recorder::default());
    let world =
        LocalWorld::start(CLUSTER, REGION, arguments.speed, &Controllers::Work(log.clone(), FeatureGates::default()))?;
    let mut open = match open {
        Some(open) => Some(open.serve(&world, arguments)?),
        None => None,
    };
    let progress = Progress::new();
    print_header(&world, arguments.speed, &progress);
    let mut demo = Demo::new(&world, &progress);
    let outcome = match &mut open {
        None => tokio::select! {
            result = demo.run() => Some(result),
            closed = progress.closed() => return closed,
        },
        Some((end, _)) => tokio::select! {
            result = demo.run() => Some(result),
            () = end.wait() => None,
            closed = progress.closed() => return closed,
        },
    };
    progress.finish();
    if let Some(Err(error)) = &outcome {
        log.lines().iter().for_each(|line| report!("  {line}"));
        progress.failed(&format!("The demo failed. State of the cluster: {}.", world.summary()));
        report!("error: {error}");
    }
    match open {
        Some((mut end, kubeconfig)) => {
            let mut served = Ok(());
            if outcome.is_some() {
                let web = Web::anywhere().await?;
                print_commands(&kubeconfig, web.url().as_deref())?;
                served = tokio::select! {
                    () = end.wait() => Ok(()),
                    failed = web.serve(kubeconfig.path(), CLUSTER) => failed,
                };
            }
            print_summary(&world, &kubeconfig)?;
            served?;
        }
        None => drop(output::line(
            "\nThe demo ended and left no files. To use a simulated cluster with kubectl, run: nodeless local --speed 20",
        )?),
    }
    match outcome {
        Some(Err(_already_reported)) => Err(CliError::AlreadyReported),
        Some(Ok(())) | None => Ok(()),
    }
}

fn print_commands(kubeconfig: &Kubeconfig, web: Option<&str>) -> Result<(), CliError> {
    let view = web.map_or_else(String::new, |url| format!(" See it in a browser at {url}/."));
    output::line(format_args!(
        "
The cluster runs until you press Ctrl-C.{view} In another terminal, run:

  export KUBECONFIG='{}'
  kubectl scale deployment inflate --replicas=5
  kubectl get nodepools,nodeclaims,nodes,pods",
        kubeconfig.path().display()
    ))
    .map(drop)
}

/// What a cluster needs to stay open after the demo.
struct Open {
    kubernetes: Port,
    aws: Port,
    end: Shutdown,
}

impl Open {
    async fn new() -> Result<Self, CliError> {
        let (kubernetes, aws) = (Port::bind("--port", 0).await?, Port::bind("--aws-port", 0).await?);
        Ok(Self { kubernetes, aws, end: Shutdown::new()? })
    }

    fn serve(self, world: &LocalWorld, arguments: &Arguments) -> Result<(Shutdown, Kubeconfig), CliError> {
        let url = self.kubernetes.url();
        world.serve(self.kubernetes, self.aws)?;
        Ok((self.end, Kubeconfig::write(&arguments.kubeconfig, CLUSTER, &url)?))
    }
}

fn print_header(world: &LocalWorld, speed: f64, progress: &Progress) {
    let options = &world.options;
    progress.print(&format!(
        "{}  EKS {} without nodes, EC2 with {} in {}",
        style().bold().apply_to("nodeless demo"),
        options.version,
        counted(world.instance_types, "instance type"),
        counted(options.zones.len(), "zone"),
    ));
    progress.print(&format!(
        "{}\n",
        style().dim().apply_to(format!("Everything is simulated in this process; time runs {speed} times faster."))
    ));
    progress.headings();
}
