//! `nodeless demo`: the first thing to try.

use super::local::{End, KUBECONFIG, farewell, speed};
use crate::demo::steps::Demo;
use crate::demo::{Progress, style};
use crate::error::CliError;
use crate::local::kubeconfig::Kubeconfig;
use crate::local::listen::Port;
use crate::local::log::Recorder;
use crate::local::{Controllers, LocalWorld, counted};
use clap::Args;
use nodeless_operations::gates::FeatureGates;
use std::path::PathBuf;
use std::sync::Arc;

/// The demo's cluster.
const CLUSTER: &str = "demo";

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Keep the cluster when the demo ends, and write a kubeconfig for it
    #[arg(long)]
    interactive: bool,
    /// How many times faster than the wall clock time runs
    #[arg(long, value_name = "N", default_value = "60", value_parser = speed)]
    speed: f64,
    /// Where to write the kubeconfig with --interactive; it is removed at the end
    #[arg(long, value_name = "FILE", default_value = KUBECONFIG, requires = "interactive")]
    kubeconfig: PathBuf,
}

pub(crate) async fn run(arguments: &Arguments) -> Result<(), CliError> {
    // What is not available is reported before the demo begins.
    let open = if arguments.interactive { Some(Open::new().await?) } else { None };
    let log = Arc::new(Recorder::default());
    let world = LocalWorld::start(CLUSTER, arguments.speed, &Controllers::Work(log.clone(), FeatureGates::default()))?;
    let mut open = match open {
        Some(open) => Some(open.serve(&world, arguments)?),
        None => None,
    };
    let progress = Progress::new();
    introduce(&world, arguments.speed, &progress);
    let mut demo = Demo::new(&world, &progress);
    let told = match &mut open {
        None => Some(demo.run().await),
        Some((end, _)) => tokio::select! {
            result = demo.run() => Some(result),
            () = end.wait() => None,
        },
    };
    progress.finish();
    if let Some(Err(error)) = &told {
        log.lines().iter().for_each(|line| eprintln!("  {line}"));
        progress.failed(&format!("The demo ended early with {}.", world.summary()));
        eprintln!("error: {error}");
    }
    match open {
        Some((mut end, kubeconfig)) => {
            if told.is_some() {
                invite(&kubeconfig);
                end.wait().await;
            }
            farewell(&world, &kubeconfig);
        }
        None => println!("\nNothing of it stays. To use such a world with kubectl: nodeless local --speed 20"),
    }
    match told {
        Some(Err(_already_told)) => Err(CliError::AlreadyReported),
        Some(Ok(())) | None => Ok(()),
    }
}

fn invite(kubeconfig: &Kubeconfig) {
    println!(
        "
The world goes on until Ctrl-C. In another terminal:

  export KUBECONFIG='{}'
  kubectl scale deployment inflate --replicas=5
  kubectl get nodepools,nodeclaims,nodes,pods",
        kubeconfig.path().display()
    );
}

/// A world that will stay open.
struct Open {
    kubernetes: Port,
    aws: Port,
    end: End,
}

impl Open {
    async fn new() -> Result<Self, CliError> {
        let (kubernetes, aws) = (Port::bind("--port", 0).await?, Port::bind("--aws-port", 0).await?);
        Ok(Self { kubernetes, aws, end: End::new()? })
    }

    fn serve(self, world: &LocalWorld, arguments: &Arguments) -> Result<(End, Kubeconfig), CliError> {
        let url = self.kubernetes.url();
        world.serve(self.kubernetes, self.aws);
        Ok((self.end, Kubeconfig::write(&arguments.kubeconfig, CLUSTER, &url)?))
    }
}

fn introduce(world: &LocalWorld, speed: f64, progress: &Progress) {
    let options = &world.options;
    progress.print(&format!(
        "{}  EKS {} without a node, and EC2 with {} in {}",
        style().bold().apply_to("nodeless demo"),
        options.version,
        counted(world.instance_types, "instance type"),
        counted(options.zones.len(), "zone"),
    ));
    progress.print(&format!(
        "{}\n",
        style().dim().apply_to(format!("All of it is in this process; time runs {speed} times faster."))
    ));
    progress.heads();
}
