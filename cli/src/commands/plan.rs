//! `nodeless plan`: what nodeless would do for the pods of a cluster, without doing it.

use super::install::ClusterArguments;
use crate::commitments::CommitmentArguments;
use crate::error::CliError;
use crate::input_files;
use crate::output::report;
use crate::output_file::OutputFile;
use crate::plan::diff;
use crate::plan::input::catalog::{CatalogArguments, location};
use crate::plan::input::reservations::{self, ReservationArguments};
use crate::plan::progress::Stage;
use crate::plan::{self, DisruptionSettings, Input, Output};
use crate::table;
use clap::{Args, ValueEnum};
use jiff::Timestamp;
use nodeless_operations::gates::FeatureGates;
use nodeless_scheduling::{MinValuesPolicy, Options, PreferencePolicy};
use nodeless_snapshot::{Snapshot, TemplatePath};
use nodeless_state::StoredRecord;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

#[derive(Debug, Args)]
#[command(
    about = "Show where the pending pods of a cluster would be scheduled and which nodes would be launched and why, without changing anything",
    long_about = "Show where the pending pods of a cluster would be scheduled and which nodes would be launched and why, without changing anything.

The cluster is read from files (--cluster) or from the API server (--kubeconfig). Files contain manifests or the output of \
`kubectl get ... -o yaml` or `-o json`, in any mix: Node, Pod, NodePool, EC2NodeClass, NodeClaim, NodeOverlay, DaemonSet, PersistentVolume, \
PersistentVolumeClaim, StorageClass, CSINode, Namespace, PodDisruptionBudget, PriorityClass, RuntimeClass, LimitRange, ResourceQuota, CapacityBuffer, \
workloads (Deployment, StatefulSet, Job, CronJob, Rollout, JobSet and others), HorizontalPodAutoscaler, ScaledObject and Lists of them. \
Other kinds are skipped. A workload without pods in the files is planned with all its replicas. \
Pods that have no node and have not finished count as pending, even if no scheduler has marked \
them as unschedulable; a NodePool or EC2NodeClass without a status counts as ready.

The same input always results in the same plan. The plan is printed to standard output, everything else to standard error.",
    after_long_help = "Exit code: 0 if all pods can be scheduled, 2 if some are unschedulable, whether or not nodes would be disrupted; 1 for an \
error, including an invalid command line. An object that cannot be read is an error; the plan for all other objects is still printed. Ctrl-C \
ends --disruption after the current decision: the decisions made until then are printed, and the exit code is 1. A second Ctrl-C ends it at once, \
with the exit code 130. --what-if reports unschedulable pods with the exit code 0. --diff ends with 0 if no further pod becomes unschedulable, 2 if one does, 3 if the \
increase of the cost is more than --max-increase, and 1 for an error, with nothing on standard output.

Examples:
  kubectl api-resources --verbs=list -o name | grep -xE '(nodes|pods|namespaces|limitranges|resourcequotas|persistentvolume(claim)?s|(daemonsets|poddisruptionbudgets|(priority|storage|runtime|device|ec2node)classes|csinodes|node(pool|claim|overlay)s|capacitybuffers|resource(slice|claim|claimtemplate)s)\\..*)' | paste -sd, - | xargs kubectl get -A -o yaml > cluster.yaml
  nodeless plan --cluster cluster.yaml
  nodeless plan --cluster cluster.yaml --explain default/web-0
  kubectl get pods -A -o json | nodeless plan --cluster - infra/nodepools/default.yaml -o json
  nodeless plan --cluster cluster.yaml --what-if --if infra/nodepools/
  nodeless plan --diff base/ head/ --cluster cluster.yaml
  nodeless plan --context production
  nodeless plan --snapshot items.json"
)]
pub(crate) struct PlanArguments {
    /// Files with the objects of the cluster (YAML or JSON), directories of such files, or - for standard input
    /// [default: read the cluster of the kubeconfig]
    #[arg(long, value_name = "FILE", num_args = 1.., conflicts_with_all = ["kubeconfig", "context"])]
    cluster: Vec<PathBuf>,
    /// Replay a plan of the planner from its snapshot (NODELESS_KEEP_SNAPSHOTS): the snapshot file, or the output of
    /// `aws dynamodb query` for the items snapshot# of the claims table, or - for standard input
    #[arg(long, value_name = "FILE", conflicts_with_all = ["cluster", "kubeconfig", "context", "catalog", "region", "commitments", "capacity_reservations", "explain", "disruption", "at", "zonal_shift", "preference_policy", "min_values_policy", "scheduler_config"])]
    snapshot: Option<PathBuf>,
    #[command(flatten)]
    live: ClusterArguments,
    #[command(flatten)]
    catalog: CatalogArguments,
    #[command(flatten)]
    commitments: CommitmentArguments,
    #[command(flatten)]
    reservations: ReservationArguments,
    /// The output format
    #[arg(long, short, value_enum, default_value_t = Format::Text)]
    output: Format,
    /// With --what-if: write the comparison also as a page to this file
    #[arg(long, value_name = "FILE", requires = "what_if", conflicts_with = "snapshot")]
    html: Option<PathBuf>,
    /// Print the explanation of the outcome of this pod (NAMESPACE/NAME) in place of the plan, or with --disruption of this Node
    /// or NodeClaim; may be repeated
    #[arg(long, value_name = "POD|NODE")]
    explain: Vec<String>,
    /// Show also which nodes voluntary disruption would remove or replace, and why it would not disrupt each other node
    #[arg(long)]
    disruption: bool,
    /// Show what the cluster costs a month, and what it would cost repacked, with arm64 and with spot
    #[arg(long, conflicts_with_all = ["snapshot", "explain", "disruption", "zonal_shift"])]
    what_if: bool,
    /// With --what-if: show also what the cluster would cost with the manifests in this file or directory (NodePools,
    /// EC2NodeClasses, PodDisruptionBudgets, workloads), which replace those of the same name; may be repeated
    #[arg(long = "if", value_name = "FILE", requires = "what_if")]
    manifests: Vec<PathBuf>,
    /// Compare two sets of manifests, such as rendered charts (files, or directories with their subdirectories): the nodes and dollars a
    /// month that HEAD adds or saves, and the pods that become unschedulable. With --cluster, each set is planned in place of the same
    /// objects of the cluster, and objects that only the other set has are removed
    #[arg(long, num_args = 2, value_names = ["BASE", "HEAD"], conflicts_with_all = ["commitments", "capacity_reservations", "kubeconfig", "context", "snapshot", "what_if", "disruption", "explain", "html", "zonal_shift"])]
    diff: Vec<PathBuf>,
    /// With --diff: end with the exit code 3 if HEAD costs more than this in addition, in whole dollars a month
    #[arg(long, value_name = "DOLLARS", requires = "diff")]
    max_increase: Option<u32>,
    /// The time from which ages, schedules and consolidateAfter are computed, such as 2026-01-31T18:00:00Z [default: the
    /// latest time in the files; for a live cluster, now]
    #[arg(long, value_name = "TIME")]
    at: Option<Timestamp>,
    /// Plan as if an ARC zonal shift of the cluster away from this zone (name or ID) were active; may be repeated. Neither
    /// exports nor the Kubernetes API contain zonal shifts
    #[arg(long, value_name = "ZONE")]
    zonal_shift: Vec<String>,
    /// Also replace spot nodes with cheaper spot nodes; short for --feature-gates SpotToSpotConsolidation=true
    #[arg(long, requires = "disruption")]
    spot_to_spot: bool,
    /// Feature gates in the format of Karpenter, such as NodeRepair=true
    #[arg(long, value_name = "GATES", default_value = "", hide_default_value = true, requires = "disruption")]
    feature_gates: FeatureGates,
    /// The evictions by voluntary disruption within the last hour, for the churn breaker: the output of `aws dynamodb query`
    /// for the items churn# of the claims table, or - for standard input [default: the breaker counts from zero]
    #[arg(long, value_name = "FILE", num_args = 1.., requires = "disruption")]
    churn: Vec<PathBuf>,
    /// The maximum number of decisions to show; each assumes that the commands of the decisions before it are in progress
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u16).range(1..), requires = "disruption")]
    decisions: u16,
    /// Whether to try preferences (preferred affinity, ScheduleAnyway) before relaxing them
    #[arg(long, value_enum, ignore_case = true, default_value_t = Preferences::Respect)]
    preference_policy: Preferences,
    /// Whether to launch nodes if the minValues of a NodePool cannot be satisfied
    #[arg(long, value_enum, ignore_case = true, default_value_t = MinValues::Strict)]
    min_values_policy: MinValues,
    /// The default topology spread constraints of the cluster's scheduler: a file with a document as in Karpenter's SCHEDULER_CONFIG (YAML
    /// or JSON). Exports then need the Services, ReplicaSets and StatefulSets, whose selectors are those of the constraints
    #[arg(long, value_name = "FILE")]
    scheduler_config: Option<PathBuf>,
    /// Where manifests of another kind have the template of their pods, such as
    /// PyTorchJob.kubeflow.org=spec.pytorchReplicaSpecs.*.template, where * is each field or item. The number of pods is the field replicas
    /// beside the template, or the one that ,replicas=PATH names. May be repeated
    #[arg(long = "pod-template", value_name = "KIND.GROUP=PATH", value_parser = plan::input::files::template_path, conflicts_with = "snapshot")]
    template_paths: Vec<&'static TemplatePath>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    Text,
    Json,
    Yaml,
    /// A comment on a pull request; with --diff
    Markdown,
}

/// Values as in Karpenter's PREFERENCE_POLICY.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "PascalCase")]
enum Preferences {
    Respect,
    Ignore,
}

/// Values as in Karpenter's MIN_VALUES_POLICY.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "PascalCase")]
pub(crate) enum MinValues {
    Strict,
    #[value(alias = "best-effort")]
    BestEffort,
}

impl From<MinValues> for MinValuesPolicy {
    fn from(given: MinValues) -> Self {
        match given {
            MinValues::Strict => Self::Strict,
            MinValues::BestEffort => Self::BestEffort,
        }
    }
}

/// Plans and prints. The exit code indicates whether all pods can be scheduled.
pub(crate) async fn run(arguments: &PlanArguments) -> Result<ExitCode, CliError> {
    if let [base, head] = arguments.diff.as_slice() {
        return compare(arguments, base, head);
    }
    let output = match arguments.output {
        Format::Text => Output::Text,
        Format::Json => Output::Json,
        Format::Yaml => Output::Yaml,
        Format::Markdown => return Err(CliError::OnlyOfDiff),
    };
    if let Some(snapshot) = &arguments.snapshot {
        return plan::input::replay::run(snapshot, output);
    }
    let html = arguments.html.as_deref().map(OutputFile::check).transpose()?;
    let settings = settings(arguments)?;
    let live = arguments.cluster.is_empty();
    let exported = arguments.commitments.read()?;
    let reserved = arguments.reservations.read()?;
    let stage = Stage::begin("reading the cluster");
    let reader = if live {
        let reader = arguments.live.read(settings.scheduler_config).await.map_err(CliError::or_without_cluster)?;
        reader.with_template_paths(settings.template_paths)
    } else {
        plan::input::files::read(&arguments.cluster, settings)?
    };
    let paths = &arguments.template_paths;
    let changed = arguments.manifests.iter().map(|path| plan::whatif::manifests::read(&reader, path, paths));
    let mut changed = changed.collect::<Result<Vec<_>, _>>()?;
    let mut snapshot = reader.finish();
    drop(stage);
    if !live && snapshot.objects == 0 && snapshot.faults.is_empty() {
        let input = input_files::named(&arguments.cluster);
        return Err(CliError::NothingToPlan { input, found: plan::skipped(&snapshot) });
    }
    let at = arguments.at.unwrap_or_else(|| planned_at(&snapshot, live, arguments));
    let mut catalog = arguments.catalog.load(&location(&snapshot.view))?;
    match &reserved {
        Some(reserved) => {
            catalog.catalog.reservations = reserved.instances();
            let views = changed.iter_mut().map(|one| &mut one.snapshot.view).chain([&mut snapshot.view]);
            catalog.notes.extend(views.flat_map(|view| reserved.resolve(&mut view.node_classes, at)));
        }
        None => catalog.notes.extend(reservations::assumed_full(&snapshot.view)),
    }
    let region = &catalog.catalog.region;
    let commitments = exported.map(|exported| exported.in_effect(region, at)).transpose()?;
    let options = options(arguments);
    if arguments.what_if {
        let synthetic_spot = arguments.catalog.has_synthetic_spot();
        let input = plan::whatif::Input { snapshot, changed, catalog, commitments, synthetic_spot, options, at, html };
        return plan::whatif::run(input, output);
    }
    let input = Input {
        at,
        disruption: if arguments.disruption { Some(disruption_settings(arguments)?) } else { None },
        catalog,
        commitments,
        snapshot,
        is_files: !arguments.cluster.is_empty(),
        options,
        explain: arguments.explain.clone(),
        shifted: arguments.zonal_shift.clone(),
    };
    plan::run(input, output)
}

/// Compares two sets of manifests.
fn compare(arguments: &PlanArguments, base: &Path, head: &Path) -> Result<ExitCode, CliError> {
    let stage = Stage::begin("reading the manifests");
    let sets = diff::read(&arguments.cluster, base, head, settings(arguments)?)?;
    drop(stage);
    let input = diff::Input {
        catalog: arguments.catalog.load(&sets.location())?,
        at: arguments.at.unwrap_or_else(|| sets.latest()),
        options: options(arguments),
        max_increase: arguments.max_increase,
        sets,
    };
    diff::run(
        &input,
        match arguments.output {
            Format::Text => diff::Form::Text,
            Format::Json => diff::Form::Json,
            Format::Yaml => diff::Form::Yaml,
            Format::Markdown => diff::Form::Markdown,
        },
    )
}

/// How manifests are read.
fn settings(arguments: &PlanArguments) -> Result<plan::input::files::Settings, CliError> {
    let scheduler_config = plan::input::scheduler_config::read(arguments.scheduler_config.as_deref())?;
    Ok(plan::input::files::Settings { scheduler_config, template_paths: arguments.template_paths.clone() })
}

fn options(arguments: &PlanArguments) -> Options {
    Options {
        preferences: match arguments.preference_policy {
            Preferences::Respect => PreferencePolicy::Respect,
            Preferences::Ignore => PreferencePolicy::Ignore,
        },
        min_values: arguments.min_values_policy.into(),
        ..Options::default()
    }
}

fn disruption_settings(arguments: &PlanArguments) -> Result<DisruptionSettings, CliError> {
    let gates = arguments.feature_gates;
    let gates = FeatureGates {
        spot_to_spot_consolidation: gates.spot_to_spot_consolidation || arguments.spot_to_spot,
        ..gates
    };
    let churn = if arguments.churn.is_empty() { None } else { Some(churn(&arguments.churn)?) };
    Ok(DisruptionSettings { gates, churn, decisions: usize::from(arguments.decisions) })
}

/// The recent evictions, from files.
fn churn(paths: &[PathBuf]) -> Result<Vec<StoredRecord>, CliError> {
    let mut records = Vec::new();
    for item in table::read(paths)? {
        records.push(item.churn().ok_or_else(|| item.misplaced("it is not an item churn#NODEPOOL"))??);
    }
    Ok(records)
}

/// The time of the plan if `--at` does not set it. A plan from files does not depend on the clock.
fn planned_at(snapshot: &Snapshot, live: bool, arguments: &PlanArguments) -> Timestamp {
    if live {
        // The clock of `nodeless local --speed` is ahead of the system clock.
        return Timestamp::now().max(snapshot.latest);
    }
    let needs_time = arguments.disruption || arguments.commitments.are_given() || arguments.reservations.are_given();
    if needs_time && snapshot.latest == Timestamp::UNIX_EPOCH {
        let now = Timestamp::now();
        report!("warning: the input contains no timestamp; the plan assumes {now}; set the time with --at");
        return now;
    }
    snapshot.latest
}
