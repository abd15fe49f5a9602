//! `nodeless local`: a simulated cluster that runs until Ctrl-C, for kubectl and other clients.

use super::plan::MinValues;
use crate::error::CliError;
use crate::local::kubeconfig::{KUBECONFIG, Kubeconfig};
use crate::local::listen::Port;
use crate::local::log::Quiet;
use crate::local::{Controllers, LocalWorld, human_duration};
use crate::output;
use crate::shutdown::Shutdown;
use clap::{Args, ValueEnum};
use nodeless_driver::FunctionSettings;
use nodeless_model::shell::quoted;
use nodeless_operations::gates::FeatureGates;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

#[derive(Debug, Args)]
pub(crate) struct LocalArguments {
    /// The path of the kubeconfig; the file is removed at the end
    #[arg(long, value_name = "FILE", default_value = KUBECONFIG)]
    kubeconfig: PathBuf,
    /// The speed of simulated time as a multiple of the wall clock. Times and ages in the Kubernetes API, in decisions and in the log are on
    /// the wall clock; costs are those of simulated hours
    #[arg(long, value_name = "N", default_value = "1", value_parser = speed)]
    speed: f64,
    /// The port of the Kubernetes API on 127.0.0.1; 0 for any free port
    #[arg(long, default_value_t = 0)]
    port: u16,
    /// The port of the EC2, EKS, SSM, Pricing, IAM and STS APIs, and of decisions and cost records, on 127.0.0.1; 0 for any free port
    #[arg(long, default_value_t = 0, value_name = "PORT")]
    aws_port: u16,
    /// The name of the cluster; EC2 resources have the tag karpenter.sh/discovery=NAME, and the node role is NAME-node
    #[arg(long, value_name = "NAME", default_value = "local", value_parser = cluster_name)]
    cluster_name: String,
    /// The AWS region, whose instance types and on-demand prices are those of the embedded catalog
    #[arg(long, value_name = "REGION", default_value = "us-east-1")]
    region: String,
    /// Apply a NodePool and an EC2NodeClass, both with the name default, at the start
    #[arg(long)]
    with_nodepool: bool,
    /// Serve the view of the cluster (see `nodeless view`) to browsers on this machine, on this port of 127.0.0.1
    /// [default: any free port]
    #[cfg(feature = "kubernetes")]
    #[arg(long, value_name = "PORT", num_args = 0..=1, default_missing_value = "0")]
    web: Option<u16>,
    /// Run only the control plane, the instances and the AWS APIs, without nodeless, for functions that run elsewhere
    #[arg(long)]
    no_controllers: bool,
    /// Call admission webhooks at any address, not only at those of this machine (127.0.0.1, [::1] and localhost)
    #[arg(long)]
    remote_webhooks: bool,
    /// Feature gates in the format of Karpenter, such as NodeRepair=true,SpotToSpotConsolidation=true
    #[arg(
        long,
        value_name = "GATES",
        default_value = "",
        hide_default_value = true,
        conflicts_with = "no_controllers"
    )]
    feature_gates: FeatureGates,
    /// Whether to launch nodes if the minValues of a NodePool cannot be satisfied
    #[arg(long, value_enum, ignore_case = true, default_value_t = MinValues::Strict, conflicts_with = "no_controllers")]
    min_values_policy: MinValues,
    /// What to print when the cluster is ready: text, or one line of JSON
    #[arg(long, short, value_enum, default_value_t = Output::Text)]
    output: Output,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Output {
    Text,
    Json,
}

pub(crate) async fn run(arguments: &LocalArguments) -> Result<(), CliError> {
    nodeless_telemetry::init_for_people(output::LibraryLog::default)?;
    let kubernetes = Port::bind("--port", arguments.port).await?;
    let aws = Port::bind("--aws-port", arguments.aws_port).await?;
    let web = Web::bind(arguments).await?;
    let urls = Urls { kubernetes: kubernetes.url(), aws: aws.url(), web: web.url() };
    let mut end = Shutdown::new()?;
    let log = Arc::new(Quiet::default());
    let controllers = match arguments.no_controllers {
        true => Controllers::LeftOut(log),
        false => {
            let min_values = arguments.min_values_policy.into();
            Controllers::Work(
                log,
                FunctionSettings { gates: arguments.feature_gates, min_values, ..FunctionSettings::default() },
            )
        }
    };
    let world = LocalWorld::start(&arguments.cluster_name, &arguments.region, arguments.speed, &controllers)?;
    if arguments.remote_webhooks {
        world.api.allow_remote_webhooks();
    }
    world.serve(kubernetes, aws)?;
    if arguments.with_nodepool {
        world.apply_node_pool()?;
    }
    // Without nodeless, its records and its catalog are elsewhere.
    let aws = (!arguments.no_controllers).then_some(urls.aws.as_str());
    let kubeconfig = Kubeconfig::write(&arguments.kubeconfig, &arguments.cluster_name, &urls.kubernetes, aws)?;
    match arguments.output {
        Output::Json => output::json_line(&ready_json(&urls, kubeconfig.path()))?,
        Output::Text => output::text_with_commands(&ready_text(arguments, &urls, kubeconfig.path()))?,
    };
    let served = tokio::select! {
        () = end.wait() => Ok(()),
        failed = web.serve(kubeconfig.path(), &arguments.cluster_name, &world) => failed,
    };
    print_summary(&world, &kubeconfig)?;
    served
}

/// The addresses of a local cluster.
struct Urls {
    kubernetes: String,
    aws: String,
    /// The address of the view, if it is served.
    web: Option<String>,
}

/// The view of the cluster in a browser, if requested.
pub(crate) struct Web(Option<Port>);

impl Web {
    #[cfg(feature = "kubernetes")]
    async fn bind(arguments: &LocalArguments) -> Result<Self, CliError> {
        match arguments.web {
            Some(port) => Ok(Self(Some(Port::bind("--web", port).await?))),
            None => Ok(Self(None)),
        }
    }

    #[cfg(not(feature = "kubernetes"))]
    #[expect(clippy::unused_async, reason = "with the feature `kubernetes` it binds a port")]
    async fn bind(_: &LocalArguments) -> Result<Self, CliError> {
        Ok(Self(None))
    }

    /// Binds any free port, in builds that can read a cluster.
    pub(crate) async fn anywhere() -> Result<Self, CliError> {
        if cfg!(feature = "kubernetes") { Ok(Self(Some(Port::bind("--web", 0).await?))) } else { Ok(Self(None)) }
    }

    /// The address of the view, if it is served.
    pub(crate) fn url(&self) -> Option<String> {
        self.0.as_ref().map(Port::url)
    }

    /// Serves it until the process ends. Without a view, this waits for ever.
    #[cfg(feature = "kubernetes")]
    pub(crate) async fn serve(self, kubeconfig: &Path, cluster_name: &str, world: &LocalWorld) -> Result<(), CliError> {
        match self.0 {
            Some(port) => crate::view::serve_local(kubeconfig, cluster_name, &world.catalog, port).await,
            None => std::future::pending().await,
        }
    }

    /// Waits for ever.
    #[cfg(not(feature = "kubernetes"))]
    pub(crate) async fn serve(self, _: &Path, _: &str, _: &LocalWorld) -> Result<(), CliError> {
        std::future::pending().await
    }
}

/// Prints the final state of the cluster and removes the kubeconfig.
pub(crate) fn print_summary(world: &LocalWorld, kubeconfig: &Kubeconfig) -> Result<(), CliError> {
    let wall = human_duration(world.pace.elapsed());
    let simulated = human_duration(Duration::try_from(world.age()).unwrap_or_default());
    let removed = kubeconfig.remove();
    let summary = world.summary();
    output::line(format_args!(
        "\nEnded after {wall} ({simulated} of simulated time) with {summary}. Everything is removed."
    ))?;
    if !removed {
        output::line(format_args!("{} was changed by another program and is kept.", kubeconfig.path().display()))?;
    }
    Ok(())
}

fn ready_json(urls: &Urls, kubeconfig: &Path) -> String {
    let Urls { kubernetes, aws, web } = urls;
    let mut ready = serde_json::json!({ "kubernetes": kubernetes, "aws": aws, "kubeconfig": kubeconfig });
    if let Some(web) = web {
        ready["web"] = serde_json::json!(web);
    }
    ready.to_string()
}

fn ready_text(arguments: &LocalArguments, urls: &Urls, kubeconfig: &Path) -> String {
    let Urls { kubernetes, aws, web } = urls;
    let LocalArguments { cluster_name, region, speed, no_controllers, with_nodepool, .. } = arguments;
    let time = if *speed == 1.0 { String::new() } else { format!(", time runs {speed} times faster") };
    let work = if *no_controllers { "nodeless does not run (--no-controllers)" } else { "nodeless runs" };
    let path = kubeconfig.display();
    let kubeconfig = quoted(&path.to_string()).into_owned();
    let region = quoted(region);
    let web = web
        .as_ref()
        .map_or_else(String::new, |url| format!("\n  view             {url}/ (for browsers on this machine)"));
    let records = if *no_controllers {
        String::new()
    } else {
        let program = std::env::current_exe().map_or_else(|_| "nodeless".to_owned(), |path| path.display().to_string());
        let program = quoted(&program);
        format!(
            "To see why nodes were launched and disrupted, and what they cost:

  {program} decisions --cluster {cluster_name}
  {program} report --cluster {cluster_name}

"
        )
    };
    let node_pool = if *with_nodepool {
        ""
    } else {
        "\n\nThe cluster has no NodePool: apply yours, or start again with --with-nodepool."
    };
    format!(
        "Cluster {cluster_name}: no nodes yet, {work}{time}

  Kubernetes API   {kubernetes}
  AWS APIs         {aws}
  kubeconfig       {path}{web}{node_pool}

To use it, run in another terminal, for example:

  export KUBECONFIG={kubeconfig}
  kubectl create deployment inflate --image=registry.k8s.io/pause --replicas=0
  kubectl set resources deployment inflate --requests=cpu=1,memory=1Gi
  kubectl scale deployment inflate --replicas=5
  kubectl get nodepools,nodeclaims,nodes,pods

{records}To see its nodes with prices in eks-node-viewer:

  AWS_ENDPOINT_URL={aws} AWS_REGION={region} AWS_ACCESS_KEY_ID=local AWS_SECRET_ACCESS_KEY=local eks-node-viewer

Press Ctrl-C to end it.

"
    )
}

pub(crate) fn speed(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(speed) if (0.1..=1000.0).contains(&speed) => Ok(speed),
        _ => Err("give a number from 0.1 to 1000, such as 20".to_owned()),
    }
}

/// The rule of EKS for names of clusters. The name is also used in tags and role names.
fn cluster_name(text: &str) -> Result<String, String> {
    let valid_start = text.starts_with(|first: char| first.is_ascii_alphanumeric());
    let valid_characters = text.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_');
    if valid_start && valid_characters && text.len() <= 100 {
        return Ok(text.to_owned());
    }
    Err("the name of a cluster must have at most 100 letters, digits, - and _, and must begin with a letter or digit"
        .to_owned())
}
