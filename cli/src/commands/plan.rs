//! `nodeless plan`: where pods would go, without doing any of it.

use super::install::ClusterArguments;
use crate::error::CliError;
use crate::plan::{self, Deciding, Input, Output};
use crate::table;
use clap::{Args, ValueEnum};
use jiff::Timestamp;
use nodeless_operations::gates::FeatureGates;
use nodeless_ports::StoredRecord;
use nodeless_scheduling::{MinValuesPolicy, Options, PreferencePolicy};
use nodeless_snapshot::Snapshot;
use std::path::PathBuf;
use std::process::ExitCode;

#[derive(Debug, Args)]
#[command(
    about = "Say where the pods of a cluster would go, what would be launched for them and why, without doing any of it",
    long_about = "Say where the pods of a cluster would go, what would be launched for them and why, without doing any of it.

The cluster comes from files (--cluster), or live from a kubeconfig. Files hold what `kubectl get ... -o yaml` or `-o json` \
prints, or manifests, in any mix: Node, Pod, NodePool, EC2NodeClass, NodeClaim, NodeOverlay, DaemonSet, PersistentVolume, \
PersistentVolumeClaim, StorageClass, CSINode, Namespace, PodDisruptionBudget, PriorityClass, CapacityBuffer and Lists of \
them. Other kinds are skipped. Pods without a node that have not ended count as pending, even where no scheduler has marked \
them; a NodePool or EC2NodeClass without a status counts as ready.

The same input always gives the same plan. The plan goes to standard output, everything else to standard error.",
    after_long_help = "Exit code: 0 when all pods fit, 2 when some do not, 1 for an error. An object that cannot be read is an \
error, but hides nothing else: the plan for all others is printed.

Examples:
  kubectl get nodes,pods,nodepools,ec2nodeclasses,nodeclaims,daemonsets,pv,pvc,storageclasses,csinodes,namespaces,\\
priorityclasses -A -o yaml > cluster.yaml
  nodeless plan --cluster cluster.yaml
  nodeless plan --cluster cluster.yaml --explain default/web-0
  kubectl get pods -A -o json | nodeless plan --cluster - infra/nodepools/default.yaml -o json
  nodeless plan --context production
  nodeless plan --snapshot items.json"
)]
pub(crate) struct Arguments {
    /// Files with the cluster's objects, YAML or JSON, folders of such files, or - for standard input. Without it the
    /// cluster of the kubeconfig is read
    #[arg(long, value_name = "FILE", num_args = 1.., conflicts_with_all = ["kubeconfig", "context"])]
    cluster: Vec<PathBuf>,
    /// A plan that the planner made, made again from what it kept (NODELESS_KEEP_SNAPSHOTS): the file itself, or what
    /// `aws dynamodb query` prints of the items snapshot# of the claims table, or - for standard input
    #[arg(long, value_name = "FILE", conflicts_with_all = ["cluster", "kubeconfig", "context", "catalog", "explain", "disruption", "at", "zonal_shift", "preference_policy", "min_values_policy"])]
    snapshot: Option<PathBuf>,
    #[command(flatten)]
    live: ClusterArguments,
    /// The catalog, JSON: region, zones, instanceTypes as DescribeInstanceTypes gives them, offerings with prices. Without
    /// it that of us-east-1 which is built in, with zones a, b and c and synthetic spot prices
    #[arg(long, value_name = "FILE")]
    catalog: Option<PathBuf>,
    /// Text for people, JSON or YAML for programs
    #[arg(long, short, value_enum, default_value_t = Form::Text)]
    output: Form,
    /// Say in full what becomes of this pod and why, NAMESPACE/NAME, or with --disruption of this node or NodeClaim; may
    /// be given several times
    #[arg(long, value_name = "POD|NODE")]
    explain: Vec<String>,
    /// Say also which nodes would go by choice, what would come in their place, and why each other node stays
    #[arg(long)]
    disruption: bool,
    /// The moment to reckon ages, schedules and consolidateAfter by, such as 2026-01-31T18:00:00Z. Without it the latest
    /// moment in the files; for a live cluster, now
    #[arg(long, value_name = "TIME")]
    at: Option<Timestamp>,
    /// Plan as while the cluster is shifted away from this zone (ARC zonal shift), by name or id; may be given several times.
    /// Neither exports nor the cluster tell of shifts
    #[arg(long, value_name = "ZONE")]
    zonal_shift: Vec<String>,
    /// Replace spot nodes by cheaper spot nodes too; short for --feature-gates SpotToSpotConsolidation=true
    #[arg(long, requires = "disruption")]
    spot_to_spot: bool,
    /// Feature gates as Karpenter takes them and the Terraform module sets them, such as NodeRepair=true
    #[arg(long, value_name = "GATES", default_value = "", hide_default_value = true, requires = "disruption")]
    feature_gates: FeatureGates,
    /// What was evicted by choice within the last hour, for the churn breaker: what `aws dynamodb query` prints of the items
    /// churn# of the claims table, or - for standard input. Without it nobody knows, and the breaker counts from none
    #[arg(long, value_name = "FILE", num_args = 1.., requires = "disruption")]
    churn: Vec<PathBuf>,
    /// How many decisions are shown, one after another, each with the commands before it under way
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u16).range(1..), requires = "disruption")]
    decisions: u16,
    /// Whether preferences (preferred affinity, ScheduleAnyway) are tried before they are given up
    #[arg(long, value_enum, default_value_t = Preferences::Respect)]
    preference_policy: Preferences,
    /// What happens when minValues of a NodePool cannot be reached
    #[arg(long, value_enum, default_value_t = MinValues::Strict)]
    min_values_policy: MinValues,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Form {
    Text,
    Json,
    Yaml,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Preferences {
    Respect,
    Ignore,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum MinValues {
    Strict,
    BestEffort,
}

/// Whether all pods fit is the exit code.
pub(crate) async fn run(arguments: &Arguments) -> Result<ExitCode, CliError> {
    let output = match arguments.output {
        Form::Text => Output::Text,
        Form::Json => Output::Json,
        Form::Yaml => Output::Yaml,
    };
    if let Some(snapshot) = &arguments.snapshot {
        return plan::replay::run(snapshot, output);
    }
    let live = arguments.cluster.is_empty();
    let reader = if live { arguments.live.read().await? } else { plan::files::read(&arguments.cluster)? };
    let snapshot = reader.finish();
    let input = Input {
        at: arguments.at.unwrap_or_else(|| moment(&snapshot, live, arguments.disruption)),
        disruption: if arguments.disruption { Some(deciding(arguments)?) } else { None },
        snapshot,
        catalog: plan::catalog::read(arguments.catalog.as_deref())?,
        options: Options {
            preferences: match arguments.preference_policy {
                Preferences::Respect => PreferencePolicy::Respect,
                Preferences::Ignore => PreferencePolicy::Ignore,
            },
            min_values: match arguments.min_values_policy {
                MinValues::Strict => MinValuesPolicy::Strict,
                MinValues::BestEffort => MinValuesPolicy::BestEffort,
            },
            ..Options::default()
        },
        explain: arguments.explain.clone(),
        shifted: arguments.zonal_shift.clone(),
    };
    plan::run(input, output)
}

fn deciding(arguments: &Arguments) -> Result<Deciding, CliError> {
    let gates = arguments.feature_gates;
    let gates = FeatureGates {
        spot_to_spot_consolidation: gates.spot_to_spot_consolidation || arguments.spot_to_spot,
        ..gates
    };
    let churn = if arguments.churn.is_empty() { None } else { Some(churn(&arguments.churn)?) };
    Ok(Deciding { gates, churn, decisions: usize::from(arguments.decisions) })
}

/// What was evicted lately, from files.
fn churn(paths: &[PathBuf]) -> Result<Vec<StoredRecord>, CliError> {
    let mut known = Vec::new();
    for item in table::read(paths)? {
        known.push(item.churn().ok_or_else(|| item.damaged("it is no item churn#NODEPOOL"))??);
    }
    Ok(known)
}

/// The moment to reckon by, where none is given: a plan from files must not depend on when it is made.
fn moment(snapshot: &Snapshot, live: bool, disruption: bool) -> Timestamp {
    if live {
        // The clock of a `nodeless local` that runs fast is ahead of ours.
        return Timestamp::now().max(snapshot.latest);
    }
    if disruption && snapshot.latest == Timestamp::UNIX_EPOCH {
        let now = Timestamp::now();
        eprintln!("warning: nothing in the input has a time, so {now} counts as the present; give one with --at");
        return now;
    }
    snapshot.latest
}
