//! A plan that the planner made, made again from what it kept.

use super::{Output, form, print};
use crate::error::CliError;
use crate::table::{self, Item};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use nodeless_operations::plan::{ANSWERS, Action, Answers, PlanReport, Replay, Snapshot};
use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::Path;
use std::process::ExitCode;

/// Plans again, prints what came of it, and says whether all pods fit.
pub(crate) fn run(path: &Path, output: Output) -> Result<ExitCode, CliError> {
    let (snapshot, answers) = read(path)?;
    let replay = snapshot.replay_with(answers);
    print(&match output {
        Output::Text => text(&snapshot, &replay),
        Output::Json => form(serde_json::to_string_pretty(&replay).map(|json| json + "\n"))?,
        Output::Yaml => form(serde_saphyr::to_string(&replay))?,
    })?;
    let fits = replay.outcome.report.unschedulable.is_empty();
    Ok(if fits { ExitCode::SUCCESS } else { ExitCode::from(super::SOME_DO_NOT_FIT) })
}

/// A snapshot, and what came of the plan's writes, where that is known.
fn read(path: &Path) -> Result<(Snapshot, Answers), CliError> {
    let bytes = bytes_of(path).map_err(|source| CliError::Read { path: path.to_owned(), source })?;
    let damaged = |source| CliError::Snapshot { path: path.to_owned(), source };
    let Some(items) = std::str::from_utf8(&bytes).ok().and_then(|text| table::parse(text, path).ok()) else {
        return Ok((Snapshot::read(&bytes).map_err(damaged)?, Answers::default()));
    };
    let mut kept = kept(&items)?;
    let ids: Vec<String> = kept.keys().filter(|id| !id.ends_with(ANSWERS)).cloned().collect();
    let Some(latest) = ids.last() else {
        let why = "none of the items is a snapshot#".to_owned();
        return Err(CliError::Items { path: path.to_owned(), why });
    };
    if ids.len() > 1 {
        eprintln!("note: of {} snapshots this is the latest, {latest}", ids.len());
    }
    let answers = kept.remove(&format!("{latest}{ANSWERS}"));
    if answers.is_none() {
        eprintln!("note: what came of this plan's writes was not kept, so they are taken for done");
    }
    let answers = answers.map_or_else(|| Ok(Answers::default()), |kept| Answers::read(&kept)).map_err(damaged)?;
    let snapshot = kept.remove(latest).unwrap_or_default();
    Ok((Snapshot::read(&snapshot).map_err(damaged)?, answers))
}

/// What is kept in items, by its id, whole.
fn kept(items: &[Item]) -> Result<BTreeMap<String, Vec<u8>>, CliError> {
    let mut chunks = Vec::new();
    for item in items {
        let Some((id, number, encoded)) = item.chunk() else { continue };
        let chunk = STANDARD.decode(encoded).map_err(|error| item.damaged(&format!("attribute chunk: {error}")))?;
        chunks.push((id, number, chunk));
    }
    chunks.sort();
    let mut kept: BTreeMap<String, Vec<u8>> = BTreeMap::new();
    for (id, _, chunk) in chunks {
        kept.entry(id.to_owned()).or_default().extend(chunk);
    }
    Ok(kept)
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
    let PlanReport { pods, placed, placements, created, unschedulable, leaving, proposed, kept, problems, next } =
        &replay.outcome.report;
    let (nodes, claims) = (snapshot.view.nodes.len(), snapshot.claims.len());
    let mut lines = vec![format!(
        "Cluster {} at {}: {nodes} nodes, {claims} NodeClaims, {} pods",
        snapshot.cluster_name,
        snapshot.now,
        snapshot.view.pods.len()
    )];
    lines.push(format!(
        "{pods} pods wait for a node: {placed} fit on nodes that exist or are on their way, {} nodes are launched, {} pods fit \
         nowhere",
        created.len(),
        unschedulable.len()
    ));
    let mut list = |title: &str, entries: Vec<String>| {
        if !entries.is_empty() {
            lines.push(format!("\n{title}"));
            lines.extend(entries.into_iter().map(|entry| format!("  {entry}")));
        }
    };
    list("Problems", problems.clone());
    list("Pods and the nodes where they fit", placements.iter().map(|(pod, node)| format!("{pod}  {node}")).collect());
    list("NodeClaims written", launched(replay));
    list("Pods that fit nowhere", unschedulable.iter().map(|(pod, why)| format!("{pod}  {why}")).collect());
    list("NodeClaims that begin to leave", leaving.clone());
    list("NodeClaims that leave if the next plan still finds it right", proposed.clone());
    let reasons = |kept: &nodeless_disruption::Kept| {
        let reasons: Vec<String> = kept.reasons.iter().map(ToString::to_string).collect();
        format!("{}  {}", kept.node, reasons.join("; "))
    };
    list("Nodes that stay", kept.iter().map(reasons).collect());
    if let Some(next) = next {
        lines.push(format!("\nThe next plan is due in {} s at the latest.", next.as_secs()));
    }
    lines.join("\n") + "\n"
}

/// The claims that are written, with what may be launched for each.
fn launched(replay: &Replay) -> Vec<String> {
    let actions = replay.batches.iter().flat_map(|batch| &batch.actions);
    let claims = actions.flat_map(|action| match action {
        Action::CreateGroup(claims, _) => claims.as_slice(),
        Action::CreateReplacement(claim, _) => std::slice::from_ref(claim.as_ref()),
        _ => &[],
    });
    let line = |claim: &nodeless_model::NodeClaim| {
        let (first, more) = (claim.spec.instance_types.first(), claim.spec.instance_types.len().saturating_sub(1));
        let first = first.map_or("", String::as_str);
        format!("{}  {first} or one of {more} others, for {} pods", claim.name, claim.spec.nominated_pods.len())
    };
    claims.map(line).collect()
}
