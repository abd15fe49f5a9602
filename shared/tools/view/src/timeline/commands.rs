//! Commands of disruption.

use super::facts::TimelineFacts;
use super::launches::{followed, offering};
use super::reasons::{disruption, saving};
use super::{EntryKind, TimelineEntry, listed};
use crate::line::Target;
use crate::objects::claim::ClaimFacts;
use crate::objects::event::{DISRUPTION_LAUNCHING, DISRUPTION_TERMINATING};
use crate::objects::node_state::NodeState;
use crate::text::counted;
use jiff::{SignedDuration, Timestamp};
use std::collections::{BTreeMap, BTreeSet};

/// Nodes that are drained for one reason within this time, without replacements, are shown as one command.
const TOGETHER: SignedDuration = SignedDuration::from_secs(15);
const CANDIDATE: &str = "ConsolidationCandidate";
const BLOCKED: &str = "DisruptionBlocked";
/// The start of the Event that a command was cancelled.
const CANCELLED: &str = "Cannot disrupt ";

/// The commands: those with replacements by the Events of these, the others by the Events of the nodes that are drained.
pub(super) fn commands(facts: &TimelineFacts<'_>) -> Vec<TimelineEntry> {
    let mut by_nodes = BTreeMap::<&[&str], Vec<&str>>::new();
    for (claim, nodes) in facts.replacements() {
        by_nodes.entry(nodes).or_default().push(claim);
    }
    let replaced: BTreeSet<&str> = by_nodes.keys().copied().flatten().copied().collect();
    let mut all: Vec<TimelineEntry> =
        by_nodes.iter().filter_map(|(nodes, claims)| with_replacements(facts, nodes, claims)).collect();
    all.extend(without_replacements(facts, &replaced));
    all
}

fn with_replacements(facts: &TimelineFacts<'_>, nodes: &[&str], names: &[&str]) -> Option<TimelineEntry> {
    let launching = |event: &str| event == DISRUPTION_LAUNCHING;
    let own =
        facts.events.iter().find(|(_, event)| launching(&event.row.reason) && names.contains(&event.row.name.as_str()));
    let (time, event) = own?;
    let reason = disruption(event.row.message.strip_prefix("Launching NodeClaim: ")?);
    let claims: Vec<&ClaimFacts> = names.iter().filter_map(|name| facts.claims.get(name).copied()).collect();
    let by = if claims.is_empty() { String::new() } else { format!(": {}", offering(facts, &claims)) };
    let saving = promised(facts, nodes, *time);
    Some(TimelineEntry {
        time: *time,
        kind: EntryKind::Disruption,
        text: format!("{reason}: {} {} {}{by}{saving}", listed(names), replace(names.len()), of_nodes(nodes)),
        followed: Some(result(facts, nodes, &claims, *time)),
        object: existing(facts, nodes),
    })
}

const fn replace(count: usize) -> &'static str {
    if count == 1 { "replaces" } else { "replace" }
}

fn of_nodes(nodes: &[&str]) -> String {
    format!("{} {}", if nodes.len() == 1 { "node" } else { "nodes" }, listed(nodes))
}

fn existing(facts: &TimelineFacts<'_>, nodes: &[&str]) -> Option<Target> {
    nodes.iter().find(|name| facts.node(name).is_some()).map(|name| Target::Node((*name).to_owned()))
}

/// The saving that was computed for the command, from the last Event about a candidate before it.
fn promised(facts: &TimelineFacts<'_>, nodes: &[&str], time: Timestamp) -> String {
    let about =
        facts.events.iter().rev().find(|(at, event)| {
            event.row.reason == CANDIDATE && *at <= time && nodes.contains(&event.row.name.as_str())
        });
    let saving = about.and_then(|(_, event)| saving(&event.row.message));
    saving.map(|saving| format!(", saves {saving}")).unwrap_or_default()
}

/// What became of a command.
fn result(facts: &TimelineFacts<'_>, nodes: &[&str], claims: &[&ClaimFacts], time: Timestamp) -> String {
    let cancelled = facts.events.iter().any(|(at, event)| {
        *at >= time
            && event.row.reason == BLOCKED
            && event.row.message.starts_with(CANCELLED)
            && nodes.contains(&event.row.name.as_str())
    });
    if cancelled {
        return "cancelled".to_owned();
    }
    let states: Vec<NodeState> = nodes.iter().filter_map(|name| facts.node(name)).map(|node| node.state).collect();
    let draining = states.iter().filter(|state| matches!(state, NodeState::Draining | NodeState::Terminating)).count();
    if states.is_empty() {
        return match nodes.len() {
            1 => "the node is gone".to_owned(),
            _ => "the nodes are gone".to_owned(),
        };
    }
    if draining > 0 || claims.is_empty() {
        return format!("{} of {} left, {draining} draining", states.len(), counted(nodes.len(), "node"));
    }
    followed(claims).map_or_else(|| "the replacements are launched".to_owned(), |how| format!("replacement: {how}"))
}

fn without_replacements(facts: &TimelineFacts<'_>, replaced: &BTreeSet<&str>) -> Vec<TimelineEntry> {
    let terminating = facts.events.iter().filter(|(_, event)| {
        event.row.reason == DISRUPTION_TERMINATING
            && event.row.kind == "Node"
            && !replaced.contains(event.row.name.as_str())
    });
    let mut groups = Vec::<(Timestamp, &str, Vec<&str>)>::new();
    for (time, event) in terminating {
        let reason = disruption(event.row.message.strip_prefix("Disrupting Node: ").unwrap_or_default());
        let name = event.row.name.as_str();
        let group =
            groups.iter_mut().rev().find(|(first, why, _)| *why == reason && time.duration_since(*first) <= TOGETHER);
        match group {
            Some((_, _, names)) if !names.contains(&name) => names.push(name),
            Some(_) => {}
            None => groups.push((*time, reason, vec![name])),
        }
    }
    let entry = |(time, reason, names): (Timestamp, &str, Vec<&str>)| TimelineEntry {
        time,
        kind: EntryKind::Disruption,
        text: format!("{reason}: {} removed{}", of_nodes(&names), promised(facts, &names, time)),
        followed: Some(result(facts, &names, &[], time)),
        object: existing(facts, &names),
    };
    groups.into_iter().map(entry).collect()
}
