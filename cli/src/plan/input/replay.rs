//! Replays a plan of the planner from its snapshot.

use crate::error::CliError;
use crate::output::{self, report};
use crate::plan::Output;
use crate::plural::counted;
use crate::table::{self, Item};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use nodeless_planner::{ANSWERS, Action, Answers, PlanReport, Replay, Snapshot};
use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::Path;
use std::process::ExitCode;

/// Replays the plan and prints its outcome. The exit code indicates whether all pods can be scheduled.
pub(crate) fn run(path: &Path, form: Output) -> Result<ExitCode, CliError> {
    let (snapshot, answers) = read(path)?;
    let replay = snapshot.replay_with(answers);
    match form {
        Output::Text => output::text(&text(&snapshot, &replay)),
        Output::Json => output::json(&replay),
        Output::Yaml => output::yaml(&replay),
    }?;
    let all_scheduled = replay.outcome.report.unschedulable.is_empty();
    Ok(if all_scheduled { ExitCode::SUCCESS } else { ExitCode::from(crate::plan::SOME_UNSCHEDULABLE) })
}

/// Reads a snapshot, and the results of the plan's writes if they are stored.
fn read(path: &Path) -> Result<(Snapshot, Answers), CliError> {
    let bytes = bytes_of(path).map_err(|source| CliError::Read { path: path.to_owned(), source })?;
    let damaged = |source| CliError::Snapshot { path: path.to_owned(), source };
    let Some(items) = std::str::from_utf8(&bytes).ok().and_then(|text| table::parse(text, path).ok()) else {
        return Ok((Snapshot::read(&bytes).map_err(damaged)?, Answers::default()));
    };
    let mut stored = assemble(&items)?;
    let ids: Vec<String> = stored.keys().filter(|id| !id.ends_with(ANSWERS)).cloned().collect();
    let Some(latest) = ids.last() else {
        let why = "the input contains no item snapshot#".to_owned();
        return Err(CliError::Items { path: path.to_owned(), why });
    };
    if ids.len() > 1 {
        report!("note: the input contains {} snapshots; replaying the latest, {latest}", ids.len());
    }
    let answers = stored.remove(&format!("{latest}{ANSWERS}"));
    if answers.is_none() {
        report!("note: the results of the writes of this plan are not stored; the replay assumes that all succeeded");
    }
    let answers = answers.map_or_else(|| Ok(Answers::default()), |stored| Answers::read(&stored)).map_err(damaged)?;
    let snapshot = stored.remove(latest).unwrap_or_default();
    Ok((Snapshot::read(&snapshot).map_err(damaged)?, answers))
}

/// Assembles snapshots and answers from their chunks, by ID.
fn assemble(items: &[Item]) -> Result<BTreeMap<String, Vec<u8>>, CliError> {
    let mut chunks = Vec::new();
    for item in items {
        let Some((id, number, encoded)) = item.chunk() else { continue };
        let chunk = STANDARD.decode(encoded).map_err(|error| item.damaged(&format!("attribute chunk: {error}")))?;
        chunks.push((id, number, chunk));
    }
    chunks.sort();
    let mut assembled: BTreeMap<String, Vec<u8>> = BTreeMap::new();
    for (id, _, chunk) in chunks {
        assembled.entry(id.to_owned()).or_default().extend(chunk);
    }
    Ok(assembled)
}

fn bytes_of(path: &Path) -> std::io::Result<Vec<u8>> {
    if path.as_os_str() != "-" {
        return std::fs::read(path);
    }
    let mut bytes = Vec::new();
    std::io::stdin().lock().read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn text(snapshot: &Snapshot, replay: &Replay) -> String {
    // A replay always plans.
    let PlanReport {
        pods,
        placed,
        placements,
        created,
        unschedulable,
        leaving,
        proposed,
        kept,
        problems,
        next,
        repeated: _,
    } = &replay.outcome.report;
    let mut lines = vec![format!(
        "Cluster {} at {}: {}, {}, {}",
        snapshot.cluster_name,
        snapshot.now,
        counted(snapshot.view.nodes.len(), "node"),
        counted(snapshot.claims.len(), "NodeClaim"),
        counted(snapshot.view.pods.len(), "pod")
    )];
    lines.push(format!(
        "{}: {placed} on existing or in-flight nodes, {} to launch, {}",
        counted(*pods, "pending pod"),
        counted(created.len(), "node"),
        counted(unschedulable.len(), "unschedulable pod")
    ));
    let mut list = |title: &str, entries: Vec<String>| {
        if !entries.is_empty() {
            lines.push(format!("\n{title}"));
            lines.extend(entries.into_iter().map(|entry| format!("  {entry}")));
        }
    };
    list("Problems", problems.clone());
    list(
        "Pods that fit on existing or in-flight nodes",
        placements.iter().map(|(pod, node)| format!("{pod}  {node}")).collect(),
    );
    list("NodeClaims to create", launched(replay));
    list("Unschedulable pods", unschedulable.iter().map(|(pod, why)| format!("{pod}  {why}")).collect());
    list("NodeClaims to terminate", leaving.clone());
    list("NodeClaims to terminate if the next plan confirms it", proposed.clone());
    let reasons = |kept: &nodeless_disruption::Kept| {
        let reasons: Vec<String> = kept.reasons.iter().map(ToString::to_string).collect();
        format!("{}  {}", kept.node, reasons.join("; "))
    };
    list("Nodes that are not disrupted", kept.iter().map(reasons).collect());
    if let Some(next) = next {
        lines.push(format!("\nThe next plan runs within {} s.", next.as_secs()));
    }
    lines.join("\n") + "\n"
}

/// The NodeClaims to create, with the instance types that may be launched for each.
fn launched(replay: &Replay) -> Vec<String> {
    let actions = replay.batches.iter().flat_map(|batch| &batch.actions);
    let claims = actions.flat_map(|action| match action {
        Action::CreateGroup(claims, _) => claims.as_slice(),
        Action::CreateReplacement(claim, _) | Action::StartClaim(claim, ..) => std::slice::from_ref(claim.as_ref()),
        _ => &[],
    });
    let line = |claim: &nodeless_model::NodeClaim| {
        let (first, more) = (claim.spec.instance_types.first(), claim.spec.instance_types.len().saturating_sub(1));
        let first = first.map_or("", String::as_str);
        format!(
            "{}  {first}{}, for {}",
            claim.name,
            if more == 0 { String::new() } else { format!(" or {}", counted(more, "other instance type")) },
            counted(claim.spec.nominated_pods.len(), "pod")
        )
    };
    claims.map(line).collect()
}
