//! Plans for a cluster, read from files or from the API server, and prints the plan.

mod answer_node;
mod answer_pod;
mod cluster_limits;
pub(crate) mod diff;
mod disruption;
pub(crate) mod disruption_text;
mod explain;
pub(crate) mod input;
mod memory;
#[cfg(feature = "kubernetes")]
pub(crate) mod one;
pub(crate) mod progress;
pub(crate) mod report;
pub(crate) mod text;
mod volumes;
pub(crate) mod whatif;
pub(crate) mod wording;

use crate::commitments::Summary;
use crate::error::CliError;
use crate::interrupt::Interrupt;
use crate::output::{self, report};
use disruption::{ChurnReport, DisruptionReport, RepairAction};
use input::catalog::LoadedCatalog;
use jiff::Timestamp;
use nodeless_api::view::ClusterView;
use nodeless_catalog::Catalog;
use nodeless_commitments::{Commitments, Instance, bill};
use nodeless_disruption::Command;
use nodeless_model::printable::printable_line;
use nodeless_operations::gates::FeatureGates;
use nodeless_planner::{DryRun, DryRunInput, PlanSettings};
use nodeless_ports::ShiftedZone;
use nodeless_scheduling::{Options, Solution, Unschedulable, advise};
use nodeless_snapshot::Snapshot;
use nodeless_state::StoredRecord;
use progress::Stage;
use report::{DisruptionStatistics, Report};
use std::collections::{BTreeMap, BTreeSet};
use std::mem::ManuallyDrop;
use std::ops::ControlFlow;
use std::process::ExitCode;
use std::time::{Duration, Instant};
use text::Why;
use whatif::moved::assumed_pool;

/// The maximum number of errors of the input that are printed.
const MAX_INPUT_ERRORS: usize = 50;
/// The maximum number of workloads whose pods were created that are printed.
const MAX_WORKLOADS: usize = 10;
/// The exit code if pods are unschedulable.
const SOME_UNSCHEDULABLE: u8 = 2;

/// The input of a plan.
pub(crate) struct Input {
    pub(crate) snapshot: Snapshot,
    /// Whether the cluster is read from files.
    pub(crate) is_files: bool,
    pub(crate) catalog: LoadedCatalog,
    /// The commitments that are in effect, if exports of them are given.
    pub(crate) commitments: Option<Commitments>,
    pub(crate) options: Options,
    /// The names given with `--explain`.
    pub(crate) explain: Vec<String>,
    /// Zones with a zonal shift, by name or ID.
    pub(crate) shifted: Vec<String>,
    /// The time of the plan.
    pub(crate) at: Timestamp,
    /// With `--disruption`.
    pub(crate) disruption: Option<DisruptionSettings>,
}

/// The settings of `--disruption`.
pub(crate) struct DisruptionSettings {
    /// The feature gates.
    pub(crate) gates: FeatureGates,
    /// The records of evictions in the claims table, if given.
    pub(crate) churn: Option<Vec<StoredRecord>>,
    /// The maximum number of decisions.
    pub(crate) decisions: usize,
}

/// How decisions are reported.
#[derive(Clone, Copy)]
struct Reporting {
    decisions: usize,
    /// Whether the number of evictions within the last hour is known.
    churn_known: bool,
    node_repair: bool,
}

impl Reporting {
    fn new(settings: &DisruptionSettings) -> Self {
        let DisruptionSettings { gates, churn, decisions } = settings;
        Self { decisions: *decisions, churn_known: churn.is_some(), node_repair: gates.node_repair }
    }
}

/// The output format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Output {
    Text,
    Json,
    Yaml,
}

/// Plans and prints the plan. The exit code indicates whether all pods can be scheduled.
pub(crate) fn run(mut input: Input, form: Output) -> Result<ExitCode, CliError> {
    let shifted = shifted_zones(&input.shifted, &input.catalog.catalog)?;
    let faulty = report_input(&input.snapshot);
    if faulty && input.snapshot.objects == 0 {
        return Err(CliError::AlreadyReported);
    }
    input.catalog.notes.iter().for_each(|note| report!("warning: {note}"));
    if input.is_files && !faulty {
        assume_pool(&mut input.snapshot.view)?;
    }
    let reporting = input.disruption.as_ref().map(Reporting::new);
    // Their nodes are launched before those for pods, which may use them.
    let has_static = input.snapshot.view.node_pools.iter().any(|pool| pool.replicas.is_some());
    let dry_run = prepare(&mut input, shifted, has_static);
    let Input { snapshot, catalog, commitments, options, explain, .. } = input;

    let started = Instant::now();
    let stage = Stage::begin("scheduling pending pods");
    let (problem, solution) = dry_run.place();
    let elapsed = started.elapsed();
    drop(stage);
    let nodes = if reporting.is_some() { dry_run.node_names() } else { BTreeMap::new() };
    let targets = explain::resolve(&explain, dry_run.view(), &snapshot.held, &nodes)?;
    let faulty_pods = dry_run.faulty();
    let stage = Stage::begin("trying changes for unschedulable pods");
    let advice = advise(&problem, &solution, &solution.unschedulable, &options).advice;
    drop(stage);
    let known = |refused: &Unschedulable| {
        let found = solution.unschedulable.iter().zip(&advice).find(|(other, _)| other.pod == refused.pod);
        found.map(|(_, advice)| advice.clone()).unwrap_or_default()
    };
    let current: Vec<Instance> = dry_run.current_nodes().iter().map(|node| node.instance(&catalog.catalog)).collect();
    let fixed = (has_static || reporting.is_some()).then(|| dry_run.static_changes());
    let launches = solution.launches.iter().chain(fixed.iter().flatten().flat_map(|change| &change.launches));
    let launched: Vec<Instance> = launches.map(|launch| Instance::of_launch(launch, &problem.node_pools)).collect();
    let covered = commitments.as_ref().map_or_else(Vec::new, |commitments| covered(&current, &launched, commitments));
    let explainer = explain::Explainer {
        problem: &problem,
        solution: &solution,
        advise: &known,
        view: dry_run.view(),
        covered: &covered,
        faulty: &faulty_pods,
        held: &snapshot.held,
    };
    let mut report = Report::new(&problem, &solution, &faulty_pods, &advice);
    report.current = dry_run.current().into();
    fixed.into_iter().for_each(|changes| report.set_static(changes));
    report.set_volumes(&dry_run);
    if let Some(commitments) = &commitments {
        report.commitments = Some(Summary::new(&current, &launched, commitments));
        report.set_covered(&covered);
    }
    report.statistics.nodes = report.current.nodes;
    report.statistics.instance_types = catalog.catalog.types.len();
    report.statistics.work = solution.work;
    report.statistics.elapsed_milliseconds = milliseconds(elapsed);
    let decided = reporting.map(|reporting| decide(&dry_run, &solution, reporting, &snapshot.counted, &mut report));
    let decided = decided.transpose()?;
    let node = |name: &str| decided.as_deref().and_then(|commands| dry_run.node_details(name, commands, &solution));
    report.explain(targets, &explainer, &node);
    report.set_derived_prices(&catalog.catalog, current.iter().chain(&launched));
    report.statistics.peak_memory_bytes = memory::peak();
    let why = |place: usize| {
        let lines = |launch| explain::lines(&problem, launch, covered.get(place).copied(), &options);
        solution.launches.get(place).map(lines).unwrap_or_default()
    };
    print(&report, form, &why, &catalog.described)?;
    Ok(exit_code(&report, faulty))
}

/// Prepares the plan, and prints what it assumes and what it cannot use.
fn prepare(input: &mut Input, shifted: Vec<ShiftedZone>, has_static: bool) -> ManuallyDrop<DryRun> {
    let faults = input.snapshot.view.option_faults();
    let gates = input.disruption.as_ref().map(|settings| settings.gates).unwrap_or_default();
    let churn = input.disruption.as_mut().map(|settings| settings.churn.take().unwrap_or_default());
    let stage = Stage::begin("preparing the plan");
    let dry_run = DryRun::new(DryRunInput {
        view: std::mem::take(&mut input.snapshot.view),
        claims: std::mem::take(&mut input.snapshot.claims),
        catalog: input.catalog.catalog.clone(),
        now: input.at,
        shifted,
        settings: PlanSettings { scheduling: input.options, gates, ..PlanSettings::default() },
        commitments: input.commitments.clone(),
        disruption: churn.or(has_static.then(Vec::new)),
    });
    drop(stage);
    dry_run.assumptions().iter().for_each(|assumption| report!("warning: {assumption}"));
    for (pool, why) in dry_run.unusable() {
        report!("warning: NodePool {pool} cannot be used: {why}");
    }
    for fault in faults {
        report!("warning: {}: {}", fault.object_name(), fault.message);
    }
    // The process ends after the plan, and freeing the objects of a large cluster one by one is slow.
    ManuallyDrop::new(dry_run)
}

/// What the commitments cover of each of the launched instances, in dollars per hour.
fn covered(current: &[Instance], launched: &[Instance], commitments: &Commitments) -> Vec<f64> {
    let bill = bill(&[current, launched].concat(), commitments);
    bill.instances.iter().skip(current.len()).map(|one| one.covered).collect()
}

fn print(report: &Report, form: Output, why: &Why<'_>, prices: &str) -> Result<output::Reader, CliError> {
    match form {
        Output::Text => output::text(&text::render(report, why, prices)),
        Output::Json => output::json(report),
        Output::Yaml => output::yaml(report),
    }
}

fn exit_code(report: &Report, faulty: bool) -> ExitCode {
    let interrupted = report.statistics.disruption.as_ref().is_some_and(|decided| decided.interrupted);
    match (faulty || interrupted, report.unschedulable.is_empty()) {
        (true, _) => ExitCode::FAILURE,
        (false, false) => ExitCode::from(SOME_UNSCHEDULABLE),
        (false, true) => ExitCode::SUCCESS,
    }
}

/// Adds a NodePool to manifests of workloads that have none, so that they have a price.
fn assume_pool(view: &mut ClusterView) -> Result<(), CliError> {
    let has_pool = !view.node_pools.is_empty() || !view.other_node_pools.is_empty();
    if has_pool || !view.nodes.is_empty() || view.pods.is_empty() {
        return Ok(());
    }
    let (pool, described) = assumed_pool(&[], &BTreeMap::new())?;
    report!("warning: the input has no NodePool and no Node; the NodePool {} is assumed: {described}", pool.name);
    view.node_pools.push(pool);
    Ok(())
}

/// The zones with these names or IDs. The end of their shifts is unknown.
fn shifted_zones(names: &[String], catalog: &Catalog) -> Result<Vec<ShiftedZone>, CliError> {
    let find = |name: &String| {
        let zone = catalog.zones.iter().find(|zone| zone.name == *name || zone.id == *name);
        let known = || catalog.zones.iter().map(|zone| zone.name.clone()).collect::<Vec<_>>().join(", ");
        let zone = zone.ok_or_else(|| CliError::UnknownZone { zone: name.clone(), known: known() })?;
        Ok(ShiftedZone { zone_id: zone.id.clone(), zone: zone.name.clone(), until: Timestamp::MAX })
    };
    names.iter().map(find).collect()
}

/// Decides which nodes to disrupt, adds the result to the report, and returns the commands. Ctrl-C ends it after the current decision.
fn decide(
    dry_run: &DryRun,
    solution: &Solution,
    reporting: Reporting,
    counted: &BTreeMap<String, i32>,
    report: &mut Report,
) -> Result<Vec<Command>, CliError> {
    for (budget, allowed) in counted {
        report!(
            "warning: PodDisruptionBudget {budget} has no status; computed from its pods, it allows {allowed} disruptions"
        );
    }
    let interrupt = Interrupt::watch()?;
    let started = Instant::now();
    let stage = Stage::begin("deciding which nodes to disrupt");
    let found = dry_run.disruption_observed(solution, reporting.decisions, &mut |made| {
        stage.change(format!("deciding which nodes to disrupt, {} made", crate::plural::counted(made, "decision")));
        if interrupt.is_noted() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    drop(stage);
    report.statistics.disruption = Some(DisruptionStatistics {
        decisions: found.decisions,
        work: found.work,
        elapsed_milliseconds: milliseconds(started.elapsed()),
        interrupted: found.interrupted,
    });
    if let Some(why) = &found.doubt {
        report!("warning: in the cluster, voluntary disruption stops until this object is fixed: {why}");
    }
    if found.cut_off && !found.interrupted {
        report!("note: the last decision still disrupted nodes, so more may follow; increase --decisions to show them");
    }
    if let Some(why) = &found.repair_doubt {
        report!("warning: {why}");
    }
    if !reporting.churn_known && found.commands.iter().any(|command| !command.evictions.is_empty()) {
        report!(
            "note: the churn breaker counts from zero, because only the claims table stores the evictions of the last hour; give its \
             items with --churn"
        );
    }
    let commands = found.commands.clone();
    let mut disruption = DisruptionReport::new(found, &dry_run.instances(), dry_run.now());
    disruption
        .repairs
        .iter_mut()
        .filter(|_| !reporting.node_repair)
        .for_each(|repair| repair.action = RepairAction::Off);
    disruption.churn.iter_mut().filter(|_| !reporting.churn_known).for_each(ChurnReport::clear_evictions);
    report.disruption = Some(disruption);
    Ok(commands)
}

fn milliseconds(elapsed: Duration) -> f64 {
    (elapsed.as_secs_f64() * 1e6).round() / 1e3
}

/// The skipped objects, such as `2 Service, 1 ConfigMap`.
pub(crate) fn skipped(snapshot: &Snapshot) -> String {
    let kinds = snapshot.skipped.iter().map(|(kind, count)| format!("{count} {}", printable_line(kind)));
    kinds.collect::<Vec<_>>().join(", ")
}

/// Prints the errors, warnings and notes about the input. Returns whether there is an error.
fn report_input(snapshot: &Snapshot) -> bool {
    for fault in snapshot.faults.iter().take(MAX_INPUT_ERRORS) {
        report!("error: {fault}");
    }
    if let Some(more) = snapshot.faults.len().checked_sub(MAX_INPUT_ERRORS + 1) {
        report!("error: {} more objects cannot be read", more + 1);
    }
    snapshot.warnings.iter().for_each(|warning| report!("warning: {warning}"));
    if !snapshot.skipped.is_empty() {
        report!("note: skipped kinds that planning does not use: {}", skipped(snapshot));
    }
    if !snapshot.not_planned.is_empty() {
        let named: Vec<&str> = snapshot.not_planned.iter().map(String::as_str).collect();
        report!("warning: not planned, though pods would be created: {}", wording::text_parts::shortened(&named));
        template_options([snapshot]).into_iter().for_each(|note| report!("{note}"));
    }
    if !snapshot.created.is_empty() {
        let most = |workload| snapshot.at_most.get(workload).map_or(String::new(), |most| format!(", at most {most}"));
        let shown = snapshot.created.iter().take(MAX_WORKLOADS);
        let shown = shown.map(|(workload, pods)| format!("{workload} ({pods}{})", most(workload)));
        let shown = shown.collect::<Vec<_>>().join(", ");
        let more = snapshot
            .created
            .len()
            .checked_sub(MAX_WORKLOADS + 1)
            .map_or(String::new(), |more| format!(" and {} more", more + 1));
        report!("note: planned with the pods of workloads that have none in the input: {shown}{more}");
    }
    held(snapshot).into_iter().for_each(|note| report!("{note}"));
    !snapshot.faults.is_empty()
}

/// A note about how the pods of other kinds are planned.
fn template_options<'s>(snapshots: impl IntoIterator<Item = &'s Snapshot>) -> Option<String> {
    let options: BTreeSet<&str> =
        snapshots.into_iter().flat_map(|one| &one.template_options).map(String::as_str).collect();
    let shown: Vec<&str> = options.into_iter().take(MAX_WORKLOADS).collect();
    (!shown.is_empty()).then(|| format!("note: they are planned with {}", shown.join(" ")))
}

/// A note about the pods without a node that are not planned.
fn held(snapshot: &Snapshot) -> Option<String> {
    let shown = snapshot.held.iter().take(3).map(|(pod, why)| format!("{pod} ({why})")).collect::<Vec<_>>().join(", ");
    let more = snapshot.held.len().saturating_sub(3);
    let more = if more == 0 { String::new() } else { format!(" and {more} more") };
    (!shown.is_empty()).then(|| format!("note: pods without a node that are not pending: {shown}{more}"))
}
