//! The explanation of one object, for the live view: what `--disruption --explain` prints about it.

use super::disruption::DisruptionReport;
use super::explain::{self, Explainer, Target};
use super::report::Explained;
use super::text;
use crate::error::CliError;
use jiff::Timestamp;
use nodeless_catalog::Catalog;
use nodeless_planner::{DryRun, DryRunInput, PlanSettings};
use nodeless_scheduling::advise;
use nodeless_snapshot::Snapshot;

/// The number of consecutive decisions, as the default of `--decisions`.
const DECISIONS: usize = 20;

/// Explains a pod, Node or NodeClaim by its name, a line each. Objects that cannot be decoded are named below the explanation, because the
/// plan was made without them.
///
/// # Errors
/// When no object has the name.
pub(crate) fn explain(
    mut snapshot: Snapshot,
    catalog: &Catalog,
    name: &str,
    at: Timestamp,
) -> Result<Vec<String>, CliError> {
    let dry_run = DryRun::new(DryRunInput {
        view: std::mem::take(&mut snapshot.view),
        claims: std::mem::take(&mut snapshot.claims),
        catalog: catalog.clone(),
        now: at,
        shifted: Vec::new(),
        settings: PlanSettings::default(),
        commitments: None,
        disruption: Some(Vec::new()),
    });
    let (problem, solution) = dry_run.place();
    let target =
        explain::resolve(&[name.to_owned()], dry_run.view(), &snapshot.held, &dry_run.node_names())?.into_iter().next();
    let faulty = dry_run.faulty();
    let explainer = Explainer {
        problem: &problem,
        solution: &solution,
        advise: &|refused| {
            let options = PlanSettings::default().scheduling;
            advise(&problem, &solution, [refused], &options).advice.into_iter().next().unwrap_or_default()
        },
        view: dry_run.view(),
        covered: &[],
        faulty: &faulty,
        held: &snapshot.held,
    };
    let found = dry_run.disruption(&solution, DECISIONS);
    let commands = found.commands.clone();
    let disruption = DisruptionReport::new(found, &dry_run.instances(), dry_run.now());
    let explained = target.and_then(|target| match target {
        Target::Pod(pod) => Some(Explained::Pod(explainer.explain(&pod))),
        Target::Node(node) => dry_run
            .node_details(&node, &commands, &solution)
            .map(|details| Explained::Node(Box::new(disruption.explain(details)))),
    });
    let mut lines = match explained {
        Some(explained) => text::answer(&explained, Some(&disruption)).text(),
        None => vec!["The plan has no details about it.".to_owned()],
    };
    lines.extend(snapshot.faults.iter().map(|fault| format!("The plan ignores an object: {fault}")));
    lines.extend(dry_run.assumptions().iter().map(|assumption| format!("Warning: {assumption}")));
    lines.extend(dry_run.unusable().map(|(pool, why)| format!("Warning: NodePool {pool} cannot be used: {why}")));
    Ok(lines)
}
