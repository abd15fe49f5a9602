//! `nodeless local`: a world that stays until Ctrl-C, for kubectl and for programs.

use crate::error::CliError;
use crate::local::kubeconfig::Kubeconfig;
use crate::local::listen::Port;
use crate::local::log::Quiet;
use crate::local::{Controllers, LocalWorld, spoken};
use clap::{Args, ValueEnum};
use nodeless_operations::gates::FeatureGates;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Where a kubeconfig goes that nobody gave a place.
pub(crate) const KUBECONFIG: &str = "nodeless.kubeconfig";

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Where to write the kubeconfig; it is removed at the end
    #[arg(long, value_name = "FILE", default_value = KUBECONFIG)]
    kubeconfig: PathBuf,
    /// How many times faster than the wall clock time runs. Ages that kubectl computes itself are then off
    #[arg(long, value_name = "N", default_value = "1", value_parser = speed)]
    speed: f64,
    /// The Kubernetes API's port on 127.0.0.1; 0 for any that is free
    #[arg(long, default_value_t = 0)]
    port: u16,
    /// The port on 127.0.0.1 of EC2, EKS, SSM, Pricing, IAM and STS; 0 for any that is free
    #[arg(long, default_value_t = 0, value_name = "PORT")]
    aws_port: u16,
    /// The cluster's name; EC2 resources are tagged karpenter.sh/discovery=NAME, and the node role is NAME-node
    #[arg(long, value_name = "NAME", default_value = "local", value_parser = cluster_name)]
    cluster_name: String,
    /// Leave nodeless out: only the control plane, the machines and AWS, for functions that run elsewhere
    #[arg(long)]
    no_controllers: bool,
    /// Feature gates as Karpenter takes them, such as NodeRepair=true,SpotToSpotConsolidation=true
    #[arg(
        long,
        value_name = "GATES",
        default_value = "",
        hide_default_value = true,
        conflicts_with = "no_controllers"
    )]
    feature_gates: FeatureGates,
    /// What is printed once the world answers: text for people, or one line of JSON
    #[arg(long, short, value_enum, default_value_t = Output::Text)]
    output: Output,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Output {
    Text,
    Json,
}

pub(crate) async fn run(arguments: &Arguments) -> Result<(), CliError> {
    nodeless_telemetry::init_for_people()?;
    let kubernetes = Port::bind("--port", arguments.port).await?;
    let aws = Port::bind("--aws-port", arguments.aws_port).await?;
    let urls = (kubernetes.url(), aws.url());
    let mut end = End::new()?;
    let log = Arc::new(Quiet::default());
    let controllers = match arguments.no_controllers {
        true => Controllers::LeftOut(log),
        false => Controllers::Work(log, arguments.feature_gates),
    };
    let world = LocalWorld::start(&arguments.cluster_name, arguments.speed, &controllers)?;
    world.serve(kubernetes, aws);
    let kubeconfig = Kubeconfig::write(&arguments.kubeconfig, &arguments.cluster_name, &urls.0)?;
    match arguments.output {
        Output::Json => println!("{}", announcement(&urls, kubeconfig.path())),
        Output::Text => println!("{}", welcome(arguments, &urls, kubeconfig.path())),
    }
    end.wait().await;
    farewell(&world, &kubeconfig);
    Ok(())
}

/// Ctrl-C, or a request to end from whoever started us.
pub(crate) struct End {
    #[cfg(unix)]
    signals: [tokio::signal::unix::Signal; 2],
}

impl End {
    /// From now on these signals do not end the process by themselves.
    ///
    /// # Errors
    /// When the system does not let us listen for them.
    pub(crate) fn new() -> Result<Self, CliError> {
        #[cfg(unix)]
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Self {
            #[cfg(unix)]
            signals: [
                signal(SignalKind::interrupt()).map_err(CliError::Signals)?,
                signal(SignalKind::terminate()).map_err(CliError::Signals)?,
            ],
        })
    }

    /// Waits for the first of them.
    pub(crate) async fn wait(&mut self) {
        #[cfg(unix)]
        {
            let [interrupt, terminate] = &mut self.signals;
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
            }
        }
        #[cfg(not(unix))]
        let _ended_either_way = tokio::signal::ctrl_c().await;
    }
}

/// Says what the world leaves behind, which is nothing.
pub(crate) fn farewell(world: &LocalWorld, kubeconfig: &Kubeconfig) {
    let wall = spoken(world.pace.elapsed());
    let virtually = spoken(Duration::try_from(world.age()).unwrap_or_default());
    println!("\nEnded after {wall} ({virtually} in the world) with {}. Nothing of it stays.", world.summary());
    if !kubeconfig.remove() {
        println!("{} was changed meanwhile and is left as it is.", kubeconfig.path().display());
    }
}

fn announcement((kubernetes, aws): &(String, String), kubeconfig: &Path) -> String {
    serde_json::json!({ "kubernetes": kubernetes, "aws": aws, "kubeconfig": kubeconfig }).to_string()
}

fn welcome(arguments: &Arguments, (kubernetes, aws): &(String, String), kubeconfig: &Path) -> String {
    let Arguments { cluster_name, speed, no_controllers, .. } = arguments;
    let time = if *speed == 1.0 { String::new() } else { format!(", time runs {speed} times faster") };
    let work = if *no_controllers { "without nodeless itself (--no-controllers)" } else { "with nodeless at work" };
    let kubeconfig = kubeconfig.display();
    format!(
        "Cluster {cluster_name}: no nodes yet, {work}{time}

  Kubernetes API   {kubernetes}
  AWS APIs         {aws}
  kubeconfig       {kubeconfig}

Point kubectl at it in another terminal, then for instance:

  export KUBECONFIG='{kubeconfig}'
  sed 's/CLUSTER/{cluster_name}/' infra/nodepools/default.yaml | kubectl apply -f -
  kubectl create deployment inflate --image=registry.k8s.io/pause --replicas=0
  kubectl set resources deployment inflate --requests=cpu=1,memory=1Gi
  kubectl scale deployment inflate --replicas=5
  kubectl get nodepools,nodeclaims,nodes,pods

Ctrl-C ends it.
"
    )
}

pub(crate) fn speed(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(speed) if (0.1..=1000.0).contains(&speed) => Ok(speed),
        _ => Err("a number from 0.1 to 1000 is expected, such as 20".to_owned()),
    }
}

/// What EKS allows for a name. It also goes into tags and role names.
fn cluster_name(text: &str) -> Result<String, String> {
    let begins_well = text.starts_with(|first: char| first.is_ascii_alphanumeric());
    let is_plain = text.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_');
    if begins_well && is_plain && text.len() <= 100 {
        return Ok(text.to_owned());
    }
    Err("a cluster's name has at most 100 letters, digits, - and _, and begins with a letter or digit".to_owned())
}
