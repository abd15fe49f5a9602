//! Interruptions of instances by AWS.

use super::facts::TimelineFacts;
use super::reasons::meaning;
use super::{EntryKind, TimelineEntry};
use crate::line::Target;
use crate::objects::event::EventFacts;
use crate::objects::node_state::NodeState;
use jiff::Timestamp;
use std::collections::BTreeMap;

/// The reasons of Events that an interruption was announced.
const ANNOUNCED: [&str; 6] = [
    "SpotInterrupted",
    "SpotRebalanceRecommendation",
    "InstanceStopping",
    "InstanceTerminating",
    "InstanceUnhealthy",
    "CapacityReservationInstanceInterrupted",
];
/// The reason of Events that pods are moved because of it.
const MOVED: &str = "TerminatingOnInterruption";

/// Whether an Event with this reason is about an interruption.
pub(super) fn is_announced(reason: &str) -> bool {
    reason == MOVED || ANNOUNCED.contains(&reason)
}

/// One entry for each NodeClaim and announcement.
pub(super) fn interruptions(facts: &TimelineFacts<'_>) -> Vec<TimelineEntry> {
    let mut first = BTreeMap::<(&str, &str), (Timestamp, &EventFacts)>::new();
    for (time, event) in facts.with_reasons(&ANNOUNCED) {
        first.entry((&event.row.name, &event.row.reason)).or_insert((time, event));
    }
    first.values().map(|(time, event)| entry(facts, *time, event)).collect()
}

fn entry(facts: &TimelineFacts<'_>, time: Timestamp, event: &EventFacts) -> TimelineEntry {
    let row = &event.row;
    let node = if row.kind == "Node" { facts.node(&row.name) } else { facts.node_of(&row.name) };
    let object = node.map(|node| Target::Node(node.name.clone()));
    let what = node.map_or_else(|| row.object(), |node| format!("node {}", node.name));
    let offering = node.map(|node| [&node.instance_type, &node.capacity_type, &node.zone]);
    let offering: Vec<&str> = offering.into_iter().flatten().flatten().map(String::as_str).collect();
    let offering = if offering.is_empty() { String::new() } else { format!(" ({})", offering.join(" ")) };
    TimelineEntry {
        time,
        kind: EntryKind::Interruption,
        text: format!("{what}{offering}: {}", meaning(&row.reason).unwrap_or_default()),
        followed: Some(followed(facts, event)),
        object,
    }
}

fn followed(facts: &TimelineFacts<'_>, event: &EventFacts) -> String {
    let row = &event.row;
    let node = if row.kind == "Node" { facts.node(&row.name) } else { facts.node_of(&row.name) };
    let moved = facts.events.iter().any(|(_, other)| {
        other.row.reason == MOVED
            && (other.row.name == row.name || node.is_some_and(|node| node.name == other.row.name))
    });
    match node.map(|node| node.state) {
        None if facts.claims.contains_key(row.name.as_str()) => "its NodeClaim still exists".to_owned(),
        None => "it is gone".to_owned(),
        Some(NodeState::Draining | NodeState::Terminating) => "its pods are moved, and it is terminated".to_owned(),
        Some(_) if moved => "its pods will be moved".to_owned(),
        Some(_) => "its pods stay".to_owned(),
    }
}
