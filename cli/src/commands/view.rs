//! `nodeless view`: a live view of a cluster.

use super::install::ClusterArguments;
use crate::commitments::CommitmentArguments;
use crate::error::CliError;
use crate::plan::input::catalog::CatalogArguments;
#[cfg(feature = "kubernetes")]
use crate::view::{Form, Printed, ViewRequest};
use clap::{Args, ValueEnum};
use nodeless_model::label_query::LabelQuery;
#[cfg(feature = "kubernetes")]
use nodeless_view::{GroupBy, Viewing};

#[derive(Debug, Args)]
#[command(
    about = "Show the nodes, pods and decisions of a cluster, live in the terminal or in a browser",
    long_about = "Show the nodes, pods and decisions of a cluster, live in the terminal or in a browser.

Each node has its instance type, zone, capacity type, age and price, the CPU and memory that its pods request (and use, where \
metrics.k8s.io answers), and its state. NodeClaims on the way, pods without a node, disruption in progress and the Events of \
nodeless follow. Enter opens a node or a pod and explains it, as `nodeless plan --disruption --explain` does; ? lists the keys.

Only read access to the Kubernetes API is needed, and no access to AWS. The price of a node is that in the annotation \
nodeless.sh/price-per-hour of its NodeClaim; without it, that of the catalog.",
    after_long_help = "Colours are off if the variable NO_COLOR is set. Without a terminal, use --once, --plain or -o json.

Examples:
  nodeless view
  nodeless view --context production --once
  nodeless view -o json | jq '.totals'
  nodeless view -l 'karpenter.sh/nodepool in (default,gpu),kubernetes.io/arch!=arm64' -L example.com/team
  nodeless view --group-by zone
  nodeless view --plain
  nodeless view --web"
)]
pub(crate) struct ViewArguments {
    #[command(flatten)]
    pub(crate) cluster: ClusterArguments,
    /// Print the present state and end
    #[arg(long)]
    pub(crate) once: bool,
    /// Print sentences, and then each change as a line, without drawing: for screen readers
    #[arg(long)]
    pub(crate) plain: bool,
    /// Show only nodes with these labels, and their pods, as `kubectl get -l` (operators: =, ==, !=, in, notin, KEY, !KEY, >, <)
    #[arg(long, short = 'l', value_name = "SELECTOR", value_parser = LabelQuery::parse, default_value = "", hide_default_value = true)]
    pub(crate) selector: LabelQuery,
    /// Show these labels of each node as columns
    #[arg(long, short = 'L', value_name = "KEY", value_delimiter = ',')]
    pub(crate) label_columns: Vec<String>,
    /// Group the nodes by this
    #[arg(long, value_enum, default_value_t = GroupKey::Nodepool)]
    pub(crate) group_by: GroupKey,
    /// The output format; json prints the present state and ends
    #[arg(long, short, value_enum, default_value_t = Format::Text)]
    pub(crate) output: Format,
    /// Serve the view to a browser on this machine instead, and print its address
    #[arg(long, conflicts_with_all = ["once", "plain", "output"])]
    pub(crate) web: bool,
    /// The port of --web [default: any free port]
    #[arg(long, value_name = "PORT", default_value_t = 0, hide_default_value = true, requires = "web")]
    pub(crate) port: u16,
    #[command(flatten)]
    pub(crate) catalog: CatalogArguments,
    #[command(flatten)]
    pub(crate) commitments: CommitmentArguments,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    Text,
    Json,
}

/// What the nodes of a group have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum GroupKey {
    Nodepool,
    Zone,
    Type,
    CapacityType,
}

#[cfg(feature = "kubernetes")]
impl ViewArguments {
    fn viewing(&self) -> Viewing {
        Viewing {
            selector: self.selector.clone(),
            label_columns: self.label_columns.iter().filter(|key| !key.is_empty()).cloned().collect(),
            group_by: match self.group_by {
                GroupKey::Nodepool => GroupBy::NodePool,
                GroupKey::Zone => GroupBy::Zone,
                GroupKey::Type => GroupBy::Type,
                GroupKey::CapacityType => GroupBy::CapacityType,
            },
        }
    }

    fn form(&self) -> Form {
        match (self.output, self.plain) {
            _ if self.web => Form::Web(self.port),
            (Format::Json, _) => Form::Once(Printed::Json),
            (Format::Text, true) if self.once => Form::Once(Printed::Sentences),
            (Format::Text, true) => Form::Sentences,
            (Format::Text, false) if self.once => Form::Once(Printed::Table),
            (Format::Text, false) => Form::Live,
        }
    }
}

/// Shows the cluster.
#[cfg(feature = "kubernetes")]
pub(crate) async fn run(arguments: &ViewArguments) -> Result<(), CliError> {
    crate::view::run(&ViewRequest {
        kubeconfig: arguments.cluster.kubeconfig(),
        context: arguments.cluster.context(),
        catalog: &arguments.catalog,
        viewing: arguments.viewing(),
        commitments: &arguments.commitments,
        form: arguments.form(),
    })
    .await
}

/// A build without the Kubernetes client refuses the command.
#[cfg(not(feature = "kubernetes"))]
#[expect(clippy::unused_async, reason = "with the feature `kubernetes` it waits for the cluster")]
pub(crate) async fn run(arguments: &ViewArguments) -> Result<(), CliError> {
    let ViewArguments {
        cluster,
        once,
        plain,
        selector,
        label_columns,
        group_by,
        output,
        web,
        port,
        catalog,
        commitments,
    } = arguments;
    let _ = (cluster, once, plain, selector, label_columns, group_by, output, web, port, catalog, commitments);
    Err(CliError::WithoutKubernetes)
}
