//! `nodeless report`: what nodes cost, from the records of the claims table, which keeps them for 13 months.

use crate::commitments::CommitmentArguments;
use crate::error::CliError;
use crate::local::running::Running;
use crate::output::{self, report as print_line};
use crate::report::clusters::Clusters;
use crate::report::commitments::Committed;
use crate::report::times::{Times, Window, time};
use crate::report::{self, clusters};
use crate::table;
use clap::{Args, ValueEnum};
use jiff::Timestamp;
use nodeless_bill::report::{By, Records, csv, text};
use std::collections::BTreeSet;
use std::path::PathBuf;

#[derive(Debug, Args)]
#[command(
    about = "Show what the nodes of clusters cost, who requested them, what was idle and what was saved",
    long_about = "Show what the nodes of clusters cost, who requested them, what was idle, what spot and consolidation saved and what \
interruptions cost, from the records of each hour in the claims table or from the output of `aws dynamodb query` for it. The table keeps \
the records for 13 months. A report compares its time with that of equal length before it, and the current month with the budgets. \
Without --from, the report begins with the month. --cluster uses the AWS configuration of the environment, and needs the right \
dynamodb:Query on the table; a local cluster, which is found by its kubeconfig, needs neither.",
    after_long_help = "Examples:
  nodeless report --cluster CLUSTER --by namespace
  nodeless report --cluster CLUSTER --window 7d
  nodeless report --cluster CLUSTER --window last-month -o html > month.html

  aws dynamodb query --table-name TABLE --output json \\
    --key-condition-expression 'pk = :cluster AND begins_with(sk, :hours)' \\
    --expression-attribute-values '{\":cluster\": {\"S\": \"CLUSTER\"}, \":hours\": {\"S\": \"hour#2026-10\"}}' | nodeless report"
)]
pub(crate) struct ReportArguments {
    /// Read the records of this cluster from its claims table, or from the process of a local cluster with this name. Several are
    /// one report
    #[arg(long = "cluster", value_name = "NAME", conflicts_with = "files")]
    clusters: Vec<String>,
    /// The claims table in AWS, of all clusters [default: nodeless-NAME, as the Terraform module names it]
    #[arg(long, value_name = "TABLE", requires = "clusters")]
    table: Option<String>,
    /// The start: a date or a full hour in UTC [default: the start of the month]
    #[arg(long, value_name = "TIME", value_parser = time)]
    from: Option<Timestamp>,
    /// The end, exclusive: a date or a full hour in UTC [default: the end of the records]
    #[arg(long, value_name = "TIME", value_parser = time)]
    to: Option<Timestamp>,
    /// The time until the end of the records, in UTC: 7d or 24h (any number of days or hours) are the last full hours, without the
    /// current one; week and month are the calendar week (from Monday) and month in which the records end, until now; last-week and
    /// last-month are the whole ones before
    #[arg(long, value_name = "TIME", conflicts_with_all = ["from", "to"])]
    window: Option<Window>,
    /// By what costs are divided: nodepool, namespace, controller (of pods), type, cluster, or label=KEY (label alone is
    /// label=app.kubernetes.io/name). Several are one table after another
    #[arg(long, value_name = "BY", default_value = "nodepool", value_delimiter = ',')]
    by: Vec<By>,
    /// Files with the output of `aws dynamodb query --output json`, of one or several clusters, or - for standard input
    #[arg(value_name = "FILE", default_value = "-")]
    files: Vec<PathBuf>,
    /// The output format
    #[arg(long, short, value_enum, default_value_t = Format::Table)]
    output: Format,
    #[command(flatten)]
    commitments: CommitmentArguments,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// Text with a table
    Table,
    /// CSV with the column names of FOCUS 1.2
    Csv,
    /// JSON
    Json,
    /// A self-contained HTML page
    Html,
}

pub(crate) async fn run(arguments: &ReportArguments) -> Result<(), CliError> {
    let times = Times { from: arguments.from, to: arguments.to, window: arguments.window };
    times.check()?;
    let exported = arguments.commitments.read()?;
    let recorded = if arguments.clusters.is_empty() {
        clusters::of_items(&table::read(&arguments.files)?)?
    } else {
        of_clusters(arguments, times).await?
    };
    if let Some(exported) = exported {
        let committed = Committed::new(&recorded, times, &exported)?;
        committed.notes.iter().for_each(|note| print_line!("warning: {note}"));
        print_line!("note: {}", committed.text());
    }
    let made = || recorded.report(times, &arguments.by);
    match arguments.output {
        Format::Table => {
            let made = made()?;
            output::text(&text::summary(&made))?;
            output::print(text::tables(&made))
        }
        Format::Csv => output::print(csv(&recorded.reports(times, &arguments.by)?)),
        Format::Json => output::json(&made()?),
        Format::Html => output::print(report::html::page(&made()?)),
    }
    .map(drop)
}

/// Reads the records of the clusters: first those of the current hour, because the end of the records determines the time of the
/// report, and then those of this time and of the time before.
async fn of_clusters(arguments: &ReportArguments, times: Times) -> Result<Clusters, CliError> {
    let distinct: BTreeSet<&String> = arguments.clusters.iter().collect();
    let mut current = Vec::new();
    for cluster in &distinct {
        current.push(((*cluster).clone(), of_cluster(arguments, cluster, Times::CURRENT_HOUR).await?));
    }
    let needed = Clusters::from_iter(current).needed(times)?;
    let mut all = Vec::new();
    for cluster in distinct {
        all.push((cluster.clone(), of_cluster(arguments, cluster, needed).await?));
    }
    Ok(all.into_iter().collect())
}

async fn of_cluster(arguments: &ReportArguments, cluster: &str, times: Times) -> Result<Records, CliError> {
    match Running::of_table(cluster, arguments.table.as_deref())? {
        Some(local) => report::records(&local.costs()?),
        None => in_aws(arguments, cluster, times).await,
    }
}

#[cfg(feature = "aws")]
async fn in_aws(arguments: &ReportArguments, cluster: &str, times: Times) -> Result<Records, CliError> {
    report::stored::read(cluster, arguments.table.as_deref(), times).await
}

#[cfg(not(feature = "aws"))]
#[expect(clippy::unused_async, reason = "with the feature `aws` it waits for DynamoDB")]
async fn in_aws(_: &ReportArguments, cluster: &str, _: Times) -> Result<Records, CliError> {
    Err(CliError::without_aws_for(cluster))
}
