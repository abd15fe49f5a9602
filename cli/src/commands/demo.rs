//! `nodeless demo`: scales a Deployment in a local simulated cluster and prints what nodeless does.

use super::local::{print_summary, speed};
use crate::commands::local::Web;
use crate::demo::steps::Demo;
use crate::demo::{DemoProgress, style};
use crate::error::CliError;
use crate::local::kubeconfig::{KUBECONFIG, Kubeconfig};
use crate::local::listen::Port;
use crate::local::log::Recorder;
use crate::local::{Controllers, LocalWorld};
use crate::output::{self, report};
use crate::plural::counted;
use crate::shutdown::Shutdown;
use clap::Args;
use nodeless_driver::FunctionSettings;
use nodeless_model::shell::quoted;
use std::io::stdin;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use tokio::sync::oneshot;

/// The name of the cluster.
const CLUSTER: &str = "demo";
const REGION: &str = "us-east-1";

#[derive(Debug, Args)]
pub(crate) struct DemoArguments {
    /// Begin when you press Enter, keep the cluster when the demo ends, and write a kubeconfig for it
    #[arg(long)]
    interactive: bool,
    /// The speed of simulated time as a multiple of the wall clock
    #[arg(long, value_name = "N", default_value = "60", value_parser = speed)]
    speed: f64,
    /// The path of the kubeconfig for --interactive; the file is removed at the end
    #[arg(long, value_name = "FILE", default_value = KUBECONFIG, requires = "interactive")]
    kubeconfig: PathBuf,
}

pub(crate) async fn run(arguments: &DemoArguments) -> Result<(), CliError> {
    // Ports that are not available are reported before the demo begins.
    let ports = if arguments.interactive { Some(Ports::bind().await?) } else { None };
    let log = Arc::new(Recorder::default());
    let controllers = Controllers::Work(log.clone(), FunctionSettings::default());
    let world = LocalWorld::start(CLUSTER, REGION, arguments.speed, &controllers)?;
    let open = ports.map(|ports| ports.serve(&world, arguments)).transpose()?;
    let progress = DemoProgress::new();
    print_header(&world, arguments.speed, &progress);
    let Some(open) = open else {
        progress.headings();
        let steps = tokio::select! {
            steps = run_steps(&world, &progress, &log) => steps,
            closed = progress.closed() => return closed,
        };
        output::line(
            "\nThe demo ended and left no files. To use a simulated cluster with kubectl, run: nodeless local --speed 20",
        )?;
        return steps;
    };
    interactive(open, &world, &progress, &log).await
}

/// Runs the steps. An error is printed here.
async fn run_steps(world: &LocalWorld, progress: &DemoProgress, log: &Recorder) -> Result<(), CliError> {
    let ended = Demo::new(world, progress).run().await;
    progress.finish();
    let Err(error) = ended else { return Ok(()) };
    log.lines().iter().for_each(|line| report!("  {line}"));
    progress.failed(&format!("The demo failed. State of the cluster: {}.", world.summary()));
    report!("error: {error}");
    Err(CliError::AlreadyReported)
}

/// Waits for Enter, so that there is time to open the page, and runs the steps while the cluster and its view are served. It goes on
/// serving them until a signal ends the process.
async fn interactive(open: Open, world: &LocalWorld, progress: &DemoProgress, log: &Recorder) -> Result<(), CliError> {
    let Open { mut end, kubeconfig, web } = open;
    if let Some(url) = web.url() {
        progress.print(&format!("See it in a browser on this machine: {url}/\n"));
    }
    progress.print("Press Enter to begin, or Ctrl-C to end.\n");
    let serve = web.serve(kubeconfig.path(), CLUSTER, world);
    tokio::pin!(serve);
    let mut outcome = tokio::select! {
        steps = async {
            enter().await;
            progress.headings();
            run_steps(world, progress, log).await
        } => Some(steps),
        () = end.wait() => None,
        closed = progress.closed() => return closed,
        failed = &mut serve => Some(failed),
    };
    progress.finish();
    if let Some(Ok(()) | Err(CliError::AlreadyReported)) = outcome {
        print_commands(&kubeconfig)?;
        tokio::select! {
            () = end.wait() => {}
            failed = &mut serve => outcome = Some(failed),
        }
    }
    print_summary(world, &kubeconfig)?;
    outcome.unwrap_or(Ok(()))
}

/// Waits for a line of standard input, or its end. The thread that reads it does not keep the process from ending.
async fn enter() {
    let (entered, line) = oneshot::channel();
    thread::spawn(move || {
        let read = stdin().read_line(&mut String::new());
        // Nobody waits any more if the demo was ended.
        let _ended = entered.send(read);
    });
    // Standard input that cannot be read begins the demo, as its end does.
    let _read = line.await;
}

fn print_commands(kubeconfig: &Kubeconfig) -> Result<(), CliError> {
    output::line(format_args!(
        "
The cluster runs until you press Ctrl-C. In another terminal, run:

  export KUBECONFIG={}
  kubectl scale deployment inflate --replicas=5
  kubectl get nodepools,nodeclaims,nodes,pods",
        quoted(&kubeconfig.path().display().to_string())
    ))
    .map(drop)
}

/// The ports of a cluster that stays open, before it is started.
struct Ports {
    kubernetes: Port,
    aws: Port,
    web: Web,
    end: Shutdown,
}

impl Ports {
    async fn bind() -> Result<Self, CliError> {
        let (kubernetes, aws) = (Port::bind("--port", 0).await?, Port::bind("--aws-port", 0).await?);
        Ok(Self { kubernetes, aws, web: Web::anywhere().await?, end: Shutdown::new()? })
    }

    fn serve(self, world: &LocalWorld, arguments: &DemoArguments) -> Result<Open, CliError> {
        let (url, aws) = (self.kubernetes.url(), self.aws.url());
        world.serve(self.kubernetes, self.aws)?;
        let kubeconfig = Kubeconfig::write(&arguments.kubeconfig, CLUSTER, &url, Some(&aws))?;
        Ok(Open { kubeconfig, web: self.web, end: self.end })
    }
}

/// A cluster that stays open after the demo.
struct Open {
    kubeconfig: Kubeconfig,
    web: Web,
    end: Shutdown,
}

fn print_header(world: &LocalWorld, speed: f64, progress: &DemoProgress) {
    let options = &world.options;
    progress.print(&format!(
        "{}  EKS {} without nodes, EC2 with {} in {}",
        style().bold().apply_to("nodeless demo"),
        options.version,
        counted(world.catalog.types.len(), "instance type"),
        counted(options.zones.len(), "zone"),
    ));
    progress.print(&format!(
        "{}\n",
        style().dim().apply_to(format!("Everything is simulated in this process; time runs {speed} times faster."))
    ));
}
