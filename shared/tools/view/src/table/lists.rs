//! What is above and below the nodes: problems, NodeClaims, pods without a node, disruption, the time line and Events.

use crate::attention::Attention;
use crate::line::{Line, Target, Tone};
use crate::objects::claim::ClaimRow;
use crate::objects::event::EventRow;
use crate::objects::pending::PendingRow;
use crate::picture::Picture;
use crate::reservation::ReservationRow;
use crate::screen::Screen;
use crate::text::{age, counted, dollars, fit, right, wrapped};
use crate::timeline::TimelineEntry;
use jiff::Timestamp;

/// The number of problems above the table.
const PROBLEMS: usize = 8;
/// The number of entries of the time line below the table.
const ENTRIES: usize = 20;

/// What needs attention, or that nothing does. A filter hides none of it.
pub(super) fn attention(picture: &Picture, width: usize) -> Vec<Line> {
    let all = &picture.attention;
    if all.is_empty() {
        return vec![Line::new(Tone::Good, "Nothing needs attention").at_key('1')];
    }
    let mut lines = vec![Line::new(Tone::Heading, format!("Needs attention ({})", all.len())).at_key('1')];
    lines.extend(all.iter().take(PROBLEMS).flat_map(|one| attention_lines(one, picture.at, width)));
    let more = all.len().saturating_sub(PROBLEMS);
    lines
        .extend((more > 0).then(|| Line::new(Tone::Notice, format!("{:7}and {}", "", counted(more, "other problem")))));
    lines
}

fn attention_lines(one: &Attention, now: Timestamp, width: usize) -> Vec<Line> {
    let tone = if one.urgent { Tone::Bad } else { Tone::Notice };
    let since = one.since.map(|_| age(one.since, now)).unwrap_or_default();
    let parts = wrapped(&one.text, width.saturating_sub(7).max(20));
    let line = |(number, part): (usize, String)| {
        let start = if number == 0 { right(&since, 4) } else { " ".repeat(4) };
        let line = Line::new(Tone::Dim, format!("  {start} ")).with(tone, part);
        Line { target: one.object.clone(), ..line }
    };
    parts.into_iter().enumerate().map(line).collect()
}

pub(super) fn claims(picture: &Picture, screen: &Screen) -> Vec<Line> {
    let matching = |claim: &&ClaimRow| {
        let words = [Some(&claim.name), claim.node_pool.as_ref(), claim.instance_type.as_ref(), claim.zone.as_ref()];
        screen.matches(&words.into_iter().flatten().map(String::as_str).collect::<Vec<_>>())
    };
    picture.claims.iter().filter(matching).map(|claim| claim_line(claim, picture.at)).collect()
}

fn claim_line(claim: &ClaimRow, now: Timestamp) -> Line {
    let offering = [&claim.instance_type, &claim.capacity_type, &claim.zone];
    let offering: Vec<&str> = offering.into_iter().flatten().map(String::as_str).collect();
    let offering = if offering.is_empty() { "not launched yet".to_owned() } else { offering.join(" ") };
    let cost = claim.price_per_hour.map(|price| format!(" {}", dollars(price))).unwrap_or_default();
    let role = if claim.replacement { ", a replacement" } else { "" };
    let what = if claim.deleting { "is being deleted".to_owned() } else { format!("waits for {}", claim.waits_for) };
    let why = if claim.message.is_empty() { String::new() } else { format!(": {}", claim.message) };
    Line::new(Tone::Plain, format!("  {}  {offering}{cost}{role}, {}, ", claim.name, age(claim.created, now)))
        .with(Tone::Notice, format!("{what}{why}"))
        .opening(Target::Claim(claim.name.clone()))
}

pub(super) fn pending(picture: &Picture, screen: &Screen) -> Vec<Line> {
    let matching = |pod: &&PendingRow| screen.matches(&[&pod.namespace, &pod.name, &pod.reason]);
    let line = |pod: &PendingRow| {
        let tone = if pod.nominated { Tone::Good } else { Tone::Notice };
        Line::new(Tone::Plain, format!("  {}, {}: ", pod.key(), age(pod.created, picture.at)))
            .with(tone, pod.reason.clone())
            .opening(Target::Pod(pod.key()))
    };
    picture.pending.iter().filter(matching).map(line).collect()
}

pub(super) fn disruption(picture: &Picture) -> Vec<Line> {
    let disruption = &picture.disruption;
    let mut lines: Vec<Line> = Vec::new();
    for node in &disruption.nodes {
        let why = node.reason.as_deref().unwrap_or("reason not known");
        let text = format!("  {} is {} ({why})", node.node, node.state.as_str());
        let cost = node.price_per_hour.map(|price| format!(", {}", dollars(price))).unwrap_or_default();
        lines.push(Line::new(Tone::Plain, format!("{text}{cost}")).opening(Target::Node(node.node.clone())));
    }
    for command in &disruption.commands {
        let text = format!("  {} replace {}", command.replacements.join(", "), command.nodes.join(", "));
        lines.push(Line::new(Tone::Plain, text));
    }
    let others = disruption.other_replacements();
    if !others.is_empty() {
        lines.push(Line::new(Tone::Plain, format!("  replacements: {}", others.join(", "))));
    }
    if let Some(saving) = disruption.saving_per_hour {
        let text =
            if saving < 0.0 { format!("{} more", dollars(-saving)) } else { format!("{} saved", dollars(saving)) };
        lines.push(Line::new(Tone::Good, format!("  together: {text}")));
    }
    lines
}

pub(super) fn reservations(picture: &Picture, screen: &Screen) -> Vec<Line> {
    let matching = picture.reservations.iter().filter(|row| screen.matches(&[&row.text]));
    let tone = |row: &ReservationRow| if row.is_closed() { Tone::Notice } else { Tone::Plain };
    matching.map(|row| Line::new(tone(row), format!("  {}", row.text))).collect()
}

pub(super) fn timeline(picture: &Picture, screen: &Screen, width: usize) -> Vec<Line> {
    let matching = |entry: &&TimelineEntry| screen.matches(&[&entry.text, entry.kind.as_str()]);
    let shown = picture.timeline.iter().filter(matching).take(ENTRIES);
    shown.flat_map(|entry| entry_lines(entry, picture.at, width)).collect()
}

/// An entry, wrapped below its first word.
fn entry_lines(entry: &TimelineEntry, now: Timestamp, width: usize) -> Vec<Line> {
    const KIND: usize = 12;
    let tone = if entry.kind.is_warning() { Tone::Notice } else { Tone::Plain };
    let parts = wrapped(&entry.sentence(), width.saturating_sub(KIND + 8).max(20));
    let line = |(number, part): (usize, String)| {
        let (time, kind) =
            if number == 0 { (age(Some(entry.time), now), entry.kind.as_str()) } else { (String::new(), "") };
        let line = Line::new(Tone::Dim, format!("  {} ", right(&time, 4)));
        let line = line.with(tone, fit(kind, KIND)).with(Tone::Plain, format!(" {part}"));
        Line { target: entry.object.clone(), ..line }
    };
    parts.into_iter().enumerate().map(line).collect()
}

pub(super) fn events(picture: &Picture, screen: &Screen) -> Vec<Line> {
    let matching = |event: &&EventRow| screen.matches(&[&event.name, &event.reason, &event.message, &event.namespace]);
    picture.events.iter().filter(matching).map(|event| event_line(event, picture.at)).collect()
}

pub(crate) fn event_line(event: &EventRow, now: Timestamp) -> Line {
    let tone = if event.event_type == "Warning" { Tone::Notice } else { Tone::Plain };
    let target = match event.kind.as_str() {
        "Node" => Some(Target::Node(event.name.clone())),
        "Pod" => Some(Target::Pod(format!("{}/{}", event.namespace, event.name))),
        _ => None,
    };
    let mut line = Line::new(Tone::Dim, format!("  {} ", right(&age(event.time, now), 4)))
        .with(tone, event.reason.clone())
        .with(Tone::Plain, format!("  {}: {}", event.object(), event.message));
    line.target = target;
    line
}
