//! The plan as people read it.

use super::explain::{Explanation, Outcome};
use super::report::{Launch, PricedType, Report, Unschedulable};
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// How many names are shown before the rest is counted.
const SHOWN: usize = 4;

/// The plan, with where its prices come from.
pub(crate) fn render(report: &Report, prices: &str) -> String {
    let mut text = String::new();
    // Writing into a String does not fail.
    let _ = write(&mut text, report, prices);
    text
}

fn write(out: &mut String, report: &Report, prices: &str) -> std::fmt::Result {
    if !report.launches.is_empty() {
        launches(out, &report.launches)?;
    }
    if !report.placements.is_empty() {
        placements(out, report)?;
    }
    if !report.unschedulable.is_empty() {
        unschedulable(out, &report.unschedulable)?;
    }
    for explanation in &report.explanations {
        explained(out, explanation)?;
    }
    total(out, report, prices)
}

fn launches(out: &mut String, launches: &[Launch]) -> std::fmt::Result {
    writeln!(out, "{} to launch", counted(launches.len(), "node"))?;
    for group in alike(launches) {
        let (first, count) = (group[0], group.len());
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
        let pods: Vec<&str> = group.iter().flat_map(|launch| launch.pods.iter().map(String::as_str)).collect();
        writeln!(out, "    for       {}: {}", counted(pods.len(), "pod"), shortened(&pods))?;
        writeln!(out, "    requests  {}{}", first.requests, if count == 1 { "" } else { ", on each at most" })?;
        writeln!(out, "    or        {}", alternatives(&first.instance_types))?;
    }
    writeln!(out)
}

/// Launches that differ in nothing but their pods, in the order in which they come.
fn alike(launches: &[Launch]) -> Vec<Vec<&Launch>> {
    let mut groups: Vec<Vec<&Launch>> = Vec::new();
    for launch in launches {
        let same = |group: &&mut Vec<&Launch>| {
            let first = group[0];
            first.node_pool == launch.node_pool
                && first.offering == launch.offering
                && first.instance_types == launch.instance_types
        };
        match groups.iter_mut().find(same) {
            Some(group) => group.push(launch),
            None => groups.push(vec![launch]),
        }
    }
    groups
}

/// What else may be launched.
fn alternatives(kinds: &[PricedType]) -> String {
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
    let mut groups: Vec<(&[String], Vec<&str>)> = Vec::new();
    for one in refused {
        match groups.iter_mut().find(|(reasons, _)| *reasons == one.reasons) {
            Some((_, pods)) => pods.push(&one.pod),
            None => groups.push((&one.reasons, vec![&one.pod])),
        }
    }
    for (reasons, pods) in groups {
        writeln!(out, "\n  {}", shortened(&pods))?;
        for reason in reasons {
            writeln!(out, "    {reason}")?;
        }
    }
    writeln!(out)
}

fn explained(out: &mut String, explanation: &Explanation) -> std::fmt::Result {
    write!(out, "Pod {} ", explanation.pod)?;
    match &explanation.outcome {
        Outcome::Launch { node_pool, offering, instance_types, with, .. } => {
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
        }
        Outcome::Placement { node } => writeln!(out, "fits on node {node}")?,
        Outcome::Unschedulable { reasons } => {
            writeln!(out, "fits nowhere")?;
            reasons.iter().try_for_each(|reason| writeln!(out, "  {reason}"))?;
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
    writeln!(out, "{prices}")
}

fn shortened(names: &[&str]) -> String {
    let shown = names.iter().take(SHOWN).copied().collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(SHOWN) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

fn counted(count: usize, noun: &str) -> String {
    if count == 1 { format!("1 {noun}") } else { format!("{count} {noun}s") }
}

fn dollars(price: f64) -> String {
    format!("{price:.4} $/h")
}
