//! The plan as people read it.

use super::disruption_text;
use super::explain::{Explanation, Outcome};
use super::report::{Launch, PricedType, Report, Told, Unschedulable};
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// How many names are shown before the rest is counted.
pub(crate) const SHOWN: usize = 4;

/// How many kinds of nodes are told why they are what they are.
const REASONED: usize = 50;

/// Why the launch of this place, from 0, is what it is.
pub(crate) type Why<'a> = dyn Fn(usize) -> Option<String> + 'a;

/// The plan, with where its prices come from.
pub(crate) fn render(report: &Report, why: &Why<'_>, prices: &str) -> String {
    let mut text = String::new();
    // Writing into a String does not fail.
    let _ = write(&mut text, report, why, prices);
    text
}

fn write(out: &mut String, report: &Report, why: &Why<'_>, prices: &str) -> std::fmt::Result {
    if !report.launches.is_empty() {
        launches(out, &report.launches, why)?;
    }
    if !report.placements.is_empty() {
        placements(out, report)?;
    }
    if !report.unschedulable.is_empty() {
        unschedulable(out, &report.unschedulable)?;
    }
    if let Some(disruption) = &report.disruption {
        disruption_text::write(out, report, disruption)?;
    }
    for told in &report.explanations {
        match told {
            Told::Pod(explanation) => explained(out, explanation)?,
            Told::Node(explanation) => disruption_text::explained(out, explanation, report.disruption.as_ref())?,
        }
    }
    total(out, report, prices)
}

fn launches(out: &mut String, launches: &[Launch], why: &Why<'_>) -> std::fmt::Result {
    writeln!(out, "{} to launch", counted(launches.len(), "node"))?;
    for (told, group) in alike(launches).into_iter().enumerate() {
        let (first, count) = (&launches[group[0]], group.len());
        let offering = &first.offering;
        let times = if count == 1 { String::new() } else { format!("{count} x ") };
        writeln!(
            out,
            "\n  {times}{}  {}  {}  {}{}",
            offering.instance_type,
            offering.capacity_type,
            offering.zone,
            dollars(offering.price_per_hour),
            if count == 1 { String::new() } else { " each".to_owned() }
        )?;
        writeln!(out, "    NodePool  {}", first.node_pool)?;
        let pods: Vec<&str> = group.iter().flat_map(|place| launches[*place].pods.iter().map(String::as_str)).collect();
        writeln!(out, "    for       {}: {}", counted(pods.len(), "pod"), shortened(&pods))?;
        writeln!(out, "    requests  {}{}", first.requests, if count == 1 { "" } else { ", on each at most" })?;
        writeln!(out, "    or        {}", alternatives(&first.instance_types))?;
        if let Some(why) = why(group[0]).filter(|_| told < REASONED) {
            writeln!(out, "    why       {why}")?;
        }
    }
    writeln!(out)
}

/// The places of launches that differ in nothing but their pods, in the order in which they come.
fn alike(launches: &[Launch]) -> Vec<Vec<usize>> {
    let mut groups: Vec<Vec<usize>> = Vec::new();
    for (place, launch) in launches.iter().enumerate() {
        let same = |group: &&mut Vec<usize>| {
            let first = &launches[group[0]];
            first.node_pool == launch.node_pool
                && first.offering == launch.offering
                && first.instance_types == launch.instance_types
        };
        match groups.iter_mut().find(same) {
            Some(group) => group.push(place),
            None => groups.push(vec![place]),
        }
    }
    groups
}

/// What else may be launched.
pub(super) fn alternatives(kinds: &[PricedType]) -> String {
    let others = kinds.get(1..).unwrap_or_default();
    let Some(dearest) = others.last() else { return "nothing else: no other instance type will do".to_owned() };
    let shown = others.iter().take(SHOWN).map(|kind| format!("{} {}", kind.name, dollars(kind.price_per_hour)));
    let shown = shown.collect::<Vec<_>>().join(", ");
    match others.len().saturating_sub(SHOWN) {
        0 => shown,
        more => format!("{shown} and {more} more, up to {}", dollars(dearest.price_per_hour)),
    }
}

fn placements(out: &mut String, report: &Report) -> std::fmt::Result {
    let mut by_node: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for placement in &report.placements {
        by_node.entry(&placement.node).or_default().push(&placement.pod);
    }
    let (pods, nodes) = (counted(report.placements.len(), "pod"), counted(by_node.len(), "node"));
    writeln!(out, "{pods} to place on {nodes} that exist or are on their way\n")?;
    let width = by_node.keys().map(|name| name.len()).max().unwrap_or(0);
    for (node, pods) in &by_node {
        writeln!(out, "  {node:width$}  {}: {}", pods.len(), shortened(pods))?;
    }
    writeln!(out)
}

fn unschedulable(out: &mut String, refused: &[Unschedulable]) -> std::fmt::Result {
    writeln!(out, "{} that fit{} nowhere", counted(refused.len(), "pod"), if refused.len() == 1 { "s" } else { "" })?;
    let mut groups: Vec<(&Unschedulable, Vec<&str>)> = Vec::new();
    for one in refused {
        match groups.iter_mut().find(|(first, _)| first.reasons == one.reasons) {
            Some((_, pods)) => pods.push(&one.pod),
            None => groups.push((one, vec![&one.pod])),
        }
    }
    for (first, pods) in groups {
        writeln!(out, "\n  {}", shortened(&pods))?;
        reasons(out, &first.reasons, &first.remedies)?;
    }
    writeln!(out)
}

fn reasons(out: &mut String, reasons: &[String], remedies: &[String]) -> std::fmt::Result {
    reasons.iter().try_for_each(|reason| writeln!(out, "    {reason}"))?;
    for (index, remedy) in remedies.iter().enumerate() {
        writeln!(out, "    {} {remedy}", if index == 0 { "to fit:" } else { "or:" })?;
    }
    Ok(())
}

fn explained(out: &mut String, explanation: &Explanation) -> std::fmt::Result {
    write!(out, "Pod {} ", explanation.pod)?;
    match &explanation.outcome {
        Outcome::Launch { node_pool, offering, instance_types, ruled_out, with, .. } => {
            let beside = match with.len() {
                0 => String::new(),
                others => format!(", beside {}", counted(others, "other pod")),
            };
            writeln!(out, "goes to a new node of NodePool {node_pool}{beside}")?;
            writeln!(
                out,
                "  {} {} in {}, {}: the cheapest of what may be launched",
                offering.instance_type,
                offering.capacity_type,
                offering.zone,
                dollars(offering.price_per_hour)
            )?;
            for kind in instance_types {
                writeln!(out, "    {:20} {}", kind.name, dollars(kind.price_per_hour))?;
            }
            if !ruled_out.is_empty() {
                writeln!(out, "  cheaper, but ruled out:")?;
            }
            for kind in ruled_out {
                writeln!(out, "    {:20} {}  {}", kind.name, dollars(kind.price), kind.cause)?;
            }
        }
        Outcome::Placement { node } => writeln!(out, "fits on node {node}")?,
        Outcome::Unschedulable { reasons: why, remedies } => {
            writeln!(out, "fits nowhere")?;
            reasons(out, why, remedies)?;
        }
        Outcome::NotPending { why } => writeln!(out, "needs no place: {why}")?,
    }
    writeln!(out)
}

fn total(out: &mut String, report: &Report, prices: &str) -> std::fmt::Result {
    let statistics = &report.statistics;
    if statistics.pods == 0 {
        writeln!(out, "No pod waits for a node. {} looked at.", counted(statistics.nodes, "node"))?;
    } else {
        let launched: usize = report.launches.iter().map(|launch| launch.pods.len()).sum();
        writeln!(
            out,
            "Total: {} for {}. Of {}: {launched} on new nodes, {} on others, {} nowhere.",
            dollars(report.price_per_hour),
            counted(report.launches.len(), "new node"),
            counted(statistics.pods, "pod"),
            report.placements.len(),
            report.unschedulable.len()
        )?;
    }
    let memory =
        statistics.peak_memory_bytes.map_or(String::new(), |bytes| format!(", {} MiB of memory at most", bytes >> 20));
    writeln!(
        out,
        "Solved in {} ms with {} and {}{memory}.",
        statistics.elapsed_milliseconds,
        counted(statistics.nodes, "node"),
        counted(statistics.instance_types, "instance type")
    )?;
    if let Some(decided) = &statistics.disruption {
        let decisions = counted(decided.decisions, "decision");
        writeln!(out, "Decided which nodes go in {} ms, in {decisions}.", decided.elapsed_milliseconds)?;
    }
    writeln!(out, "{prices}")
}

pub(crate) fn shortened(names: &[&str]) -> String {
    let shown = names.iter().take(SHOWN).copied().collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(SHOWN) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

pub(crate) fn counted(count: usize, noun: &str) -> String {
    if count == 1 { format!("1 {noun}") } else { format!("{count} {noun}s") }
}

pub(super) fn dollars(price: f64) -> String {
    format!("{price:.4} $/h")
}
