//! Decision records as text.

use super::{Command, Decision, Launch, Story, TypeName};
use crate::plan::disruption_text::{moved, offered, saving};
use crate::plan::text::{SHOWN, counted, shortened};
use std::collections::BTreeMap;
use std::fmt::{Result, Write as _};

/// How many lines are told of each group.
const TOLD: usize = 20;

/// All decisions, one after another.
pub(crate) fn render(decisions: &[Decision]) -> String {
    let mut text = String::new();
    for decision in decisions {
        // Writing into a String does not fail.
        let _ = write(&mut text, decision);
    }
    text
}

fn write(out: &mut String, decision: &Decision) -> Result {
    writeln!(out, "{:.0}  {}  {}\n", decision.at, decision.kind, decision.summary)?;
    let story = &decision.story;
    for command in &story.commands {
        command_of(out, command)?;
    }
    for launch in &story.launches {
        launch_of(out, launch)?;
    }
    pods(out, story)?;
    kept(out, story)?;
    let names: Vec<&str> = story.claims.iter().map(String::as_str).collect();
    if !names.is_empty() {
        writeln!(out, "  NodeClaims {}\n", names.join(", "))?;
    }
    let reasons = [("rolled back because", &story.failure), ("not all, because", &story.short)];
    for (what, why) in reasons {
        if let Some(why) = why {
            writeln!(out, "  {what} {why}\n")?;
        }
    }
    match story.cut_after_bytes {
        Some(bytes) => writeln!(
            out,
            "  the rest was too long for the table, and was cut after {bytes} bytes; -o json has the beginning\n"
        ),
        None => Ok(()),
    }
}

fn command_of(out: &mut String, command: &Command) -> Result {
    let score = command.score.map_or(String::new(), |score| format!(", score {score:.2}"));
    writeln!(out, "  {} ({}): {}{score}", command.method, command.reason, saving(command.savings_per_hour))?;
    for node in &command.nodes {
        writeln!(out, "     goes   {node}")?;
    }
    for launch in &command.replacements {
        comes(out, launch)?;
    }
    if command.replacements.is_empty() {
        writeln!(out, "     comes  nothing")?;
    }
    let to_new: usize = command.replacements.iter().map(|launch| launch.pods.len()).sum();
    writeln!(out, "     moves  {}\n", moved(command.evictions, command.replacements.len(), to_new, &command.placements))
}

fn comes(out: &mut String, launch: &Launch) -> Result {
    writeln!(out, "     comes  {} of NodePool {}", offered(&launch.offering), launch.node_pool)?;
    let others: Vec<&str> = launch
        .instance_types
        .iter()
        .map(TypeName::name)
        .filter(|name| *name != launch.offering.instance_type)
        .collect();
    if others.is_empty() { Ok(()) } else { writeln!(out, "            or {}", shortened(&others)) }
}

fn launch_of(out: &mut String, launch: &Launch) -> Result {
    comes(out, launch)?;
    let pods: Vec<&str> = launch.pods.iter().map(String::as_str).collect();
    writeln!(out, "     for    {}: {}\n", counted(pods.len(), "pod"), shortened(&pods))
}

/// The pods that fit on nodes that are there, and those that fit nowhere.
fn pods(out: &mut String, story: &Story) -> Result {
    let mut placed: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for placement in &story.placements {
        placed.entry(&placement.node).or_default().push(&placement.pod);
    }
    for (node, pods) in placed.iter().take(TOLD) {
        writeln!(out, "  on {node}: {}", shortened(pods))?;
    }
    rest(out, placed.len(), "node")?;
    if let Some(why) = &story.placements_left_out {
        writeln!(out, "  {why}")?;
    }
    for refused in story.unschedulable.iter().take(TOLD) {
        writeln!(out, "  {} fits nowhere: {}", refused.pod, refused.reasons.join("; "))?;
    }
    rest(out, story.unschedulable.len(), "pod")?;
    if placed.is_empty() && story.unschedulable.is_empty() { Ok(()) } else { writeln!(out) }
}

/// The nodes that stay, those with the same reasons together, the largest group first.
fn kept(out: &mut String, story: &Story) -> Result {
    let mut groups: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for kept in &story.kept {
        groups.entry(kept.reasons.join("; ")).or_default().push(&kept.node);
    }
    let mut groups: Vec<_> = groups.into_iter().collect();
    groups.sort_by_key(|(_, nodes)| std::cmp::Reverse(nodes.len()));
    for (why, nodes) in groups.iter().take(TOLD) {
        let count =
            if nodes.len() > SHOWN { format!("{} stay: ", counted(nodes.len(), "node")) } else { String::new() };
        writeln!(out, "  {count}{}: {why}", shortened(nodes))?;
    }
    rest(out, groups.len(), "reason")?;
    if let Some(why) = &story.kept_left_out {
        writeln!(out, "  {why}")?;
    }
    if !story.not_looked_at.is_empty() {
        let nodes: Vec<&str> = story.not_looked_at.iter().map(String::as_str).collect();
        writeln!(out, "  not looked at: {}", shortened(&nodes))?;
    }
    if groups.is_empty() && story.kept_left_out.is_none() { Ok(()) } else { writeln!(out) }
}

fn rest(out: &mut String, count: usize, noun: &str) -> Result {
    match count.saturating_sub(TOLD) {
        0 => Ok(()),
        more => writeln!(out, "  and {} more; -o json tells of each", counted(more, noun)),
    }
}
