//! Decision records as text.

use super::{Command, Detail, Launch, RepeatedDecision, TypeName};
use crate::plan::disruption_text::{moved, offered, saving};
use crate::plan::wording::text_parts::{SHOWN, shortened};
use crate::plural::counted;
use std::collections::BTreeMap;
use std::fmt::{Result, Write as _};

/// The maximum number of lines of each group.
const MAX_LINES: usize = 20;

/// All outcomes, in order.
pub(crate) fn render(outcomes: &[RepeatedDecision]) -> String {
    let mut text = String::new();
    for outcome in outcomes {
        // Writing into a String does not fail.
        let _ = write(&mut text, outcome);
    }
    text
}

fn write(out: &mut String, outcome: &RepeatedDecision) -> Result {
    let RepeatedDecision { decision, since, times } = outcome;
    let repeated = if *times > 1 { format!(" (since {since:.0}, {times} times)") } else { String::new() };
    writeln!(out, "{:.0}  {}  {}{repeated}\n", decision.at, decision.kind, decision.summary)?;
    let detail = &decision.parsed;
    if let Some(instance) = detail.interruption.as_ref().and_then(|one| one.instance.as_ref()) {
        writeln!(out, "  instance {instance}\n")?;
    }
    for command in &detail.commands {
        command_of(out, command)?;
    }
    for launch in &detail.launches {
        launch_of(out, launch)?;
    }
    pods(out, detail)?;
    kept(out, detail)?;
    let names: Vec<&str> = detail.claims.iter().map(String::as_str).collect();
    if !names.is_empty() {
        writeln!(out, "  NodeClaims {}\n", names.join(", "))?;
    }
    let reasons = [("rolled back because", &detail.failure), ("fewer nodes than replicas because", &detail.short)];
    for (what, why) in reasons {
        if let Some(why) = why {
            writeln!(out, "  {what} {why}\n")?;
        }
    }
    Ok(())
}

fn command_of(out: &mut String, command: &Command) -> Result {
    let score = command.score.map_or(String::new(), |score| format!(", score {score:.2}"));
    let saved = saving(command.savings_per_hour);
    writeln!(out, "  {} ({}): {saved}{score}", command.method, command.reason)?;
    for node in &command.nodes {
        writeln!(out, "     disrupt  {node}")?;
    }
    for launch in &command.replacements {
        replacement(out, launch)?;
    }
    if command.replacements.is_empty() {
        writeln!(out, "     launch   nothing")?;
    }
    let to_new: usize = command.replacements.iter().map(|launch| launch.pods.len()).sum();
    writeln!(
        out,
        "     evict    {}\n",
        moved(command.evictions, command.replacements.len(), to_new, &command.placements)
    )
}

fn replacement(out: &mut String, launch: &Launch) -> Result {
    writeln!(out, "     launch   {} of NodePool {}", offered(&launch.offering), launch.node_pool)?;
    let others: Vec<&str> = launch
        .instance_types
        .iter()
        .map(TypeName::name)
        .filter(|name| *name != launch.offering.instance_type)
        .collect();
    if others.is_empty() { Ok(()) } else { writeln!(out, "              or {}", shortened(&others)) }
}

fn launch_of(out: &mut String, launch: &Launch) -> Result {
    replacement(out, launch)?;
    let pods: Vec<&str> = launch.pods.iter().map(String::as_str).collect();
    writeln!(out, "     for      {}: {}\n", counted(pods.len(), "pod"), shortened(&pods))
}

/// The pods that fit on existing or in-flight nodes, and the unschedulable ones.
fn pods(out: &mut String, detail: &Detail) -> Result {
    let mut placed: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for placement in &detail.placements {
        placed.entry(&placement.node).or_default().push(&placement.pod);
    }
    for (node, pods) in placed.iter().take(MAX_LINES) {
        writeln!(out, "  on {node}: {}", shortened(pods))?;
    }
    rest(out, placed.len(), "node")?;
    for refused in detail.unschedulable.iter().take(MAX_LINES) {
        writeln!(out, "  {} is unschedulable: {}", refused.pod, refused.reasons.join("; "))?;
    }
    rest(out, detail.unschedulable.len(), "pod")?;
    if placed.is_empty() && detail.unschedulable.is_empty() { Ok(()) } else { writeln!(out) }
}

/// The nodes that are not disrupted, grouped by reasons, the largest group first.
fn kept(out: &mut String, detail: &Detail) -> Result {
    let mut groups: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for kept in &detail.kept {
        groups.entry(kept.reasons.join("; ")).or_default().push(&kept.node);
    }
    let mut groups: Vec<_> = groups.into_iter().collect();
    groups.sort_by_key(|(_, nodes)| std::cmp::Reverse(nodes.len()));
    for (why, nodes) in groups.iter().take(MAX_LINES) {
        let count = if nodes.len() > SHOWN {
            format!("{} are not disrupted: ", counted(nodes.len(), "node"))
        } else {
            String::new()
        };
        writeln!(out, "  {count}{}: {why}", shortened(nodes))?;
    }
    rest(out, groups.len(), "reason")?;
    if !detail.not_looked_at.is_empty() {
        let nodes: Vec<&str> = detail.not_looked_at.iter().map(String::as_str).collect();
        writeln!(out, "  not evaluated: {}", shortened(&nodes))?;
    }
    if groups.is_empty() { Ok(()) } else { writeln!(out) }
}

fn rest(out: &mut String, count: usize, noun: &str) -> Result {
    match count.saturating_sub(MAX_LINES) {
        0 => Ok(()),
        more => writeln!(out, "  and {} more; -o json lists all", counted(more, noun)),
    }
}
