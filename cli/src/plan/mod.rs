//! The plan for a cluster from files or live: read, solve, tell.

pub(crate) mod catalog;
mod disruption;
pub(crate) mod disruption_text;
mod explain;
pub(crate) mod files;
#[cfg(feature = "kubernetes")]
pub(crate) mod live;
mod memory;
pub(crate) mod replay;
pub(crate) mod report;
pub(crate) mod text;

use crate::error::CliError;
use catalog::Given;
use disruption::{ChurnReport, DisruptionReport, RepairAction};
use explain::Asked;
use jiff::Timestamp;
use nodeless_catalog::Catalog;
use nodeless_disruption::Command;
use nodeless_operations::gates::FeatureGates;
use nodeless_operations::plan::PlanSettings;
use nodeless_operations::{DryRun, DryRunInput};
use nodeless_ports::{ShiftedZone, StoredRecord};
use nodeless_scheduling::{Options, Solution};
use nodeless_snapshot::Snapshot;
use report::{DisruptionStatistics, Report, Told};
use std::collections::BTreeMap;
use std::io::Write as _;
use std::mem::ManuallyDrop;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// How many faults of the input are told one by one.
const FAULTS_TOLD: usize = 50;
/// The exit code when pods fit nowhere.
const SOME_DO_NOT_FIT: u8 = 2;

/// What a plan is made from.
pub(crate) struct Input {
    pub(crate) snapshot: Snapshot,
    pub(crate) catalog: Given,
    pub(crate) options: Options,
    /// Pods and nodes of which all is to be said.
    pub(crate) explain: Vec<String>,
    /// Zones that the cluster is shifted away from, by name or id.
    pub(crate) shifted: Vec<String>,
    /// The moment to reckon by.
    pub(crate) at: Timestamp,
    /// With `--disruption`.
    pub(crate) disruption: Option<Deciding>,
}

/// How it is decided which nodes go.
pub(crate) struct Deciding {
    /// What is switched on.
    pub(crate) gates: FeatureGates,
    /// What the claims table holds of evictions, where that is known.
    pub(crate) churn: Option<Vec<StoredRecord>>,
    /// How many decisions are made at most.
    pub(crate) decisions: usize,
}

/// What is told of decisions, beside them.
#[derive(Clone, Copy)]
struct Telling {
    decisions: usize,
    /// Whether it is known how many pods were evicted within the last hour.
    churn_known: bool,
    node_repair: bool,
}

/// In which form the plan is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Output {
    Text,
    Json,
    Yaml,
}

/// Plans, prints the plan, and says whether all pods fit.
pub(crate) fn run(input: Input, output: Output) -> Result<ExitCode, CliError> {
    let Input { mut snapshot, catalog, options, explain, shifted, at, disruption } = input;
    let shifted = shifted_zones(&shifted, &catalog.catalog)?;
    let faulty = tell_input(&snapshot);
    if faulty && snapshot.objects == 0 {
        return Err(CliError::Told);
    }
    catalog.notes.iter().for_each(|note| eprintln!("warning: {note}"));
    let view = std::mem::take(&mut snapshot.view);
    let claims = std::mem::take(&mut snapshot.claims);
    let gates = disruption.as_ref().map(|deciding| deciding.gates).unwrap_or_default();
    let telling = disruption.as_ref().map(|deciding| Telling {
        decisions: deciding.decisions,
        churn_known: deciding.churn.is_some(),
        node_repair: gates.node_repair,
    });
    let dry_run = DryRun::new(DryRunInput {
        view,
        claims,
        catalog: catalog.catalog.clone(),
        now: at,
        shifted,
        settings: PlanSettings { scheduling: options, gates, ..PlanSettings::default() },
        disruption: disruption.map(|deciding| deciding.churn.unwrap_or_default()),
    });
    // The process ends with the plan, and to give a large cluster back object by object takes as long as to sort it.
    let dry_run = ManuallyDrop::new(dry_run);
    dry_run.assumptions().iter().for_each(|assumption| eprintln!("warning: {assumption}"));
    for (pool, why) in dry_run.unusable() {
        eprintln!("warning: NodePool {pool} cannot be used: {why}");
    }

    let started = Instant::now();
    let (problem, solution) = dry_run.place();
    let elapsed = started.elapsed();
    let nodes = if telling.is_some() { dry_run.node_names() } else { BTreeMap::new() };
    let asked = explain::resolve(&explain, dry_run.view(), &snapshot.held, &nodes)?;
    let faulty_pods = dry_run.faulty();
    let about = explain::About {
        problem: &problem,
        solution: &solution,
        view: dry_run.view(),
        faulty: &faulty_pods,
        held: &snapshot.held,
    };
    let mut report = Report::new(&problem, &solution, &faulty_pods);
    report.statistics.nodes = dry_run.node_count();
    report.statistics.instance_types = catalog.catalog.types.len();
    report.statistics.elapsed_milliseconds = milliseconds(elapsed);
    let decided = telling.map(|telling| decide(&dry_run, &solution, telling, &snapshot.counted, &mut report));
    for asked in asked {
        let told = match (asked, &decided, &report.disruption) {
            (Asked::Pod(pod), _, _) => Some(Told::Pod(about.explain(&pod))),
            (Asked::Node(node), Some(commands), Some(disruption)) => dry_run
                .node_details(&node, commands, &solution)
                .map(|details| Told::Node(Box::new(disruption.explain(details)))),
            (Asked::Node(_), _, _) => None,
        };
        report.explanations.extend(told);
    }
    report.statistics.peak_memory_bytes = memory::peak();
    let why = |place: usize| explain::why(&problem, solution.launches.get(place)?);
    print(&match output {
        Output::Text => text::render(&report, &why, &catalog.described),
        Output::Json => form(serde_json::to_string_pretty(&report).map(|json| json + "\n"))?,
        Output::Yaml => form(serde_saphyr::to_string(&report))?,
    })?;
    Ok(match (faulty, report.unschedulable.is_empty()) {
        (true, _) => ExitCode::FAILURE,
        (false, false) => ExitCode::from(SOME_DO_NOT_FIT),
        (false, true) => ExitCode::SUCCESS,
    })
}

/// The zones of these names or ids. Nobody says when their shifts end.
fn shifted_zones(asked: &[String], catalog: &Catalog) -> Result<Vec<ShiftedZone>, CliError> {
    let find = |asked: &String| {
        let zone = catalog.zones.iter().find(|zone| zone.name == *asked || zone.id == *asked);
        let known = || catalog.zones.iter().map(|zone| zone.name.clone()).collect::<Vec<_>>().join(", ");
        let zone = zone.ok_or_else(|| CliError::UnknownZone { zone: asked.clone(), known: known() })?;
        Ok(ShiftedZone { zone_id: zone.id.clone(), zone: zone.name.clone(), until: Timestamp::MAX })
    };
    asked.iter().map(find).collect()
}

/// Decides which nodes go, writes that into the report, and gives the commands.
fn decide(
    dry_run: &DryRun,
    solution: &Solution,
    telling: Telling,
    counted: &BTreeMap<String, i32>,
    report: &mut Report,
) -> Vec<Command> {
    for (budget, allowed) in counted {
        eprintln!(
            "warning: PodDisruptionBudget {budget} has no status; counted from its pods, it allows {allowed} now"
        );
    }
    let started = Instant::now();
    let found = dry_run.disruption(solution, telling.decisions);
    report.statistics.disruption = Some(DisruptionStatistics {
        decisions: found.decisions,
        elapsed_milliseconds: milliseconds(started.elapsed()),
    });
    if let Some(why) = &found.doubt {
        eprintln!("warning: in the cluster no node would be disrupted by choice before this is mended: {why}");
    }
    if found.cut_off {
        eprintln!("note: the last decision still found something to do; --decisions sets how many are made");
    }
    if let Some(why) = &found.repair_doubt {
        eprintln!("warning: {why}");
    }
    if !telling.churn_known && found.commands.iter().any(|command| !command.evictions.is_empty()) {
        eprintln!(
            "note: how many pods were evicted by choice within the last hour only the claims table knows, so the churn breaker \
             counts from none; give --churn"
        );
    }
    let commands = found.commands.clone();
    let mut told = DisruptionReport::new(found, &dry_run.instances(), dry_run.now());
    told.repairs.iter_mut().filter(|_| !telling.node_repair).for_each(|repair| repair.action = RepairAction::Off);
    told.churn.iter_mut().filter(|_| !telling.churn_known).for_each(ChurnReport::forget);
    report.disruption = Some(told);
    commands
}

fn milliseconds(elapsed: Duration) -> f64 {
    (elapsed.as_secs_f64() * 1e6).round() / 1e3
}

fn form<E: std::fmt::Display>(written: Result<String, E>) -> Result<String, CliError> {
    written.map_err(|error| CliError::Form(error.to_string()))
}

/// Prints to whoever reads; one who has read enough is no error.
pub(crate) fn print(text: &str) -> Result<(), CliError> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Err(CliError::Print(error)),
        _ => Ok(()),
    }
}

/// Tells what of the input could not be used, and whether anything of it is an error.
fn tell_input(snapshot: &Snapshot) -> bool {
    for fault in snapshot.faults.iter().take(FAULTS_TOLD) {
        eprintln!("error: {fault}");
    }
    if let Some(more) = snapshot.faults.len().checked_sub(FAULTS_TOLD + 1) {
        eprintln!("error: and {} more objects that cannot be read", more + 1);
    }
    snapshot.warnings.iter().for_each(|warning| eprintln!("warning: {warning}"));
    if !snapshot.skipped.is_empty() {
        let kinds = snapshot.skipped.iter().map(|(kind, count)| format!("{count} {kind}"));
        eprintln!("note: skipped what planning has no use for: {}", kinds.collect::<Vec<_>>().join(", "));
    }
    if !snapshot.held.is_empty() {
        let (mut held, more) = (snapshot.held.iter(), snapshot.held.len().saturating_sub(3));
        let first = held.by_ref().take(3).map(|(pod, why)| format!("{pod} ({why})")).collect::<Vec<_>>().join(", ");
        let more = if more == 0 { String::new() } else { format!(" and {more} more") };
        eprintln!("note: pods without a node that wait for none: {first}{more}");
    }
    !snapshot.faults.is_empty()
}
