//! `nodeless metrics`: Karpenter's metrics of a cluster.

use super::install::ClusterArguments;
use crate::error::CliError;
#[cfg(feature = "kubernetes")]
use crate::metrics::MetricsRequest;
use crate::plan::input::catalog::CatalogArguments;
use clap::Args;
use std::net::IpAddr;
#[cfg(feature = "kubernetes")]
use std::net::SocketAddr;

#[derive(Debug, Args)]
#[command(
    about = "Serve Karpenter's metrics of a cluster to Prometheus",
    long_about = "Serve Karpenter's metrics of a cluster to Prometheus, at the path /metrics.

The names, labels and units are those of Karpenter's controller, so that its dashboards and alerts can be used. Only gauges are served: \
what the objects of the cluster show when Prometheus scrapes them. CloudWatch has the counters and latencies of nodeless.

Only read access to the Kubernetes API is needed, and no access to AWS. If a kind of objects cannot be read for lack of permission, its \
metrics are left out, and a warning names them. If the API server does not answer, a scrape fails with the status 503.",
    after_long_help = "Requests must name this machine by an IP address or as localhost, which protects the metrics from pages of other \
sites. Names and addresses of nodes and pods are in the metrics, and everyone who reaches the address can read them.

Examples:
  nodeless metrics
  nodeless metrics --once --no-catalog
  nodeless metrics --context production --address 10.0.0.5 --port 9000"
)]
pub(crate) struct MetricsArguments {
    #[command(flatten)]
    pub(crate) cluster: ClusterArguments,
    /// Print the metrics and end
    #[arg(long, conflicts_with_all = ["address", "port"])]
    pub(crate) once: bool,
    /// The IP address of this machine to serve at, 0.0.0.0 for all
    #[arg(long, value_name = "IP", default_value = "127.0.0.1")]
    pub(crate) address: IpAddr,
    /// The port, 0 for any free one
    #[arg(long, value_name = "PORT", default_value_t = 8080)]
    pub(crate) port: u16,
    /// Leave out the metrics of the catalog's instance types, which are most of the lines. Nodes keep the prices of the catalog
    #[arg(long)]
    pub(crate) no_catalog: bool,
    #[command(flatten)]
    pub(crate) catalog: CatalogArguments,
}

/// Serves or prints the metrics.
#[cfg(feature = "kubernetes")]
pub(crate) async fn run(arguments: &MetricsArguments) -> Result<(), CliError> {
    crate::metrics::run(&MetricsRequest {
        kubeconfig: arguments.cluster.kubeconfig(),
        context: arguments.cluster.context(),
        catalog: &arguments.catalog,
        lists_catalog: !arguments.no_catalog,
        address: (!arguments.once).then(|| SocketAddr::new(arguments.address, arguments.port)),
    })
    .await
}

/// A build without the Kubernetes client refuses the command.
#[cfg(not(feature = "kubernetes"))]
#[expect(clippy::unused_async, reason = "with the feature `kubernetes` it waits for the cluster")]
pub(crate) async fn run(arguments: &MetricsArguments) -> Result<(), CliError> {
    let MetricsArguments { cluster, once, address, port, no_catalog, catalog } = arguments;
    let _ = (cluster, once, address, port, no_catalog, catalog);
    Err(CliError::WithoutKubernetes)
}
