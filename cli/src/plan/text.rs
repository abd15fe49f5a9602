//! The text output of a plan.

use super::cluster_limits::ClusterLimit;
use super::disruption::DisruptionReport;
use super::report::{Current, Explained, Report, Unschedulable};
use super::whatif::cost::month;
use super::wording::answer::Answer;
use super::wording::parts::{Launch, Placement};
use super::wording::text_parts::{alternatives, dollars, shortened};
use super::{answer_node, answer_pod, disruption_text};
use crate::plural::counted;
use nodeless_scheduling::DaemonSetEffect;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// The maximum number of groups of launches whose price is explained.
const MAX_EXPLAINED: usize = 50;

/// The lines that explain the launch with this index: why it uses no cheaper instance type, and what alternatives of its claims cost.
pub(crate) type Why<'a> = dyn Fn(usize) -> Vec<String> + 'a;

/// The plan, with the sources of its prices.
pub(crate) fn render(report: &Report, why: &Why<'_>, prices: &str) -> String {
    let mut text = String::new();
    // Writing into a String does not fail.
    let _ = write(&mut text, report, why, prices);
    text
}

/// The lines about an object.
pub(super) fn answer(explained: &Explained, disruption: Option<&DisruptionReport>) -> Answer {
    match explained {
        Explained::Pod(explanation) => answer_pod::answer(explanation),
        Explained::Node(explanation) => answer_node::answer(explanation, disruption),
    }
}

fn write(out: &mut String, report: &Report, why: &Why<'_>, prices: &str) -> std::fmt::Result {
    // The plan below would move the answers off the screen.
    if report.explanations.is_empty() {
        plan(out, report, why)?;
    }
    for explained in &report.explanations {
        writeln!(out, "{}\n", answer(explained, report.disruption.as_ref()).text().join("\n"))?;
    }
    total(out, report, prices)
}

fn plan(out: &mut String, report: &Report, why: &Why<'_>) -> std::fmt::Result {
    if !report.launches.is_empty() {
        launches(out, &report.launches, why)?;
    }
    report.static_launches.iter().flatten().try_for_each(|pool| disruption_text::write_static(out, pool))?;
    daemon_sets(out, &report.daemon_sets)?;
    if !report.placements.is_empty() {
        placements(out, report)?;
    }
    if !report.unschedulable.is_empty() {
        unschedulable(out, &report.unschedulable)?;
    }
    if let Some(disruption) = &report.disruption {
        disruption_text::write(out, report, disruption)?;
    }
    Ok(())
}

fn launches(out: &mut String, launches: &[Launch], why: &Why<'_>) -> std::fmt::Result {
    writeln!(out, "{} to launch", counted(launches.len(), "node"))?;
    for (number, group) in alike(launches).into_iter().enumerate() {
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
        writeln!(out, "    requests  {}{}", first.requests, if count == 1 { "" } else { ", at most, on each" })?;
        if !first.is_chosen_by_commitments() {
            writeln!(out, "    or        {}", alternatives(&first.instance_types))?;
        }
        if number < MAX_EXPLAINED {
            why(group[0]).iter().try_for_each(|line| writeln!(out, "    {line}"))?;
        }
    }
    writeln!(out)
}

fn daemon_sets(out: &mut String, found: &[DaemonSetEffect]) -> std::fmt::Result {
    if found.is_empty() {
        return Ok(());
    }
    found.iter().try_for_each(|found| writeln!(out, "{found}."))?;
    writeln!(out)
}

/// The indexes of launches that differ only in their pods, in groups, in the order of the plan.
fn alike(launches: &[Launch]) -> Vec<Vec<usize>> {
    let mut groups: Vec<Vec<usize>> = Vec::new();
    for (place, launch) in launches.iter().enumerate() {
        let same = |group: &&mut Vec<usize>| {
            let first = &launches[group[0]];
            first.node_pool == launch.node_pool
                && first.offering == launch.offering
                && first.instance_types == launch.instance_types
                && first.covered_per_hour == launch.covered_per_hour
        };
        match groups.iter_mut().find(same) {
            Some(group) => group.push(place),
            None => groups.push(vec![place]),
        }
    }
    groups
}

/// The pods of each node.
fn by_node(placements: &[Placement]) -> BTreeMap<&str, Vec<&str>> {
    let mut by_node: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for placement in placements {
        by_node.entry(&placement.node).or_default().push(&placement.pod);
    }
    by_node
}

fn placements(out: &mut String, report: &Report) -> std::fmt::Result {
    let by_node = by_node(&report.placements);
    let (pods, nodes) = (counted(report.placements.len(), "pod"), counted(by_node.len(), "existing or in-flight node"));
    writeln!(out, "{pods} to schedule on {nodes}\n")?;
    let width = by_node.keys().map(|name| name.len()).max().unwrap_or(0);
    for (node, pods) in &by_node {
        writeln!(out, "  {node:width$}  {}: {}", pods.len(), shortened(pods))?;
    }
    writeln!(out)
}

/// The pods with the same reasons and remedies.
pub(super) fn by_reason(refused: &[Unschedulable]) -> Vec<(&Unschedulable, Vec<&str>)> {
    let mut groups: Vec<(&Unschedulable, Vec<&str>)> = Vec::new();
    for one in refused {
        match groups.iter_mut().find(|(first, _)| {
            first.reasons == one.reasons && first.remedies == one.remedies && first.obstacle == one.obstacle
        }) {
            Some((_, pods)) => pods.push(&one.pod),
            None => groups.push((one, vec![&one.pod])),
        }
    }
    groups
}

fn unschedulable(out: &mut String, refused: &[Unschedulable]) -> std::fmt::Result {
    writeln!(out, "{}", counted(refused.len(), "unschedulable pod"))?;
    for (first, pods) in by_reason(refused) {
        writeln!(out, "\n  {}", shortened(&pods))?;
        reasons(out, &first.reasons, &first.remedies, first.obstacle.as_deref())?;
    }
    writeln!(out)
}

fn reasons(out: &mut String, reasons: &[String], remedies: &[String], obstacle: Option<&str>) -> std::fmt::Result {
    reasons.iter().try_for_each(|reason| writeln!(out, "    {reason}"))?;
    obstacle.map_or(Ok(()), |obstacle| writeln!(out, "    {obstacle}"))?;
    for (index, remedy) in remedies.iter().enumerate() {
        writeln!(out, "    {} {remedy}", if index == 0 { "to schedule:" } else { "or:" })?;
    }
    Ok(())
}

fn total(out: &mut String, report: &Report, prices: &str) -> std::fmt::Result {
    let statistics = &report.statistics;
    if report.current.nodes > 0 {
        writeln!(out, "{}", current(&report.current))?;
    }
    let of_static = report.static_nodes();
    let new = report.launches.len() + of_static;
    if statistics.pods > 0 || new > 0 {
        let of_static = if of_static == 0 { String::new() } else { format!(", {of_static} of static NodePools") };
        write!(out, "Total: {} for {}{of_static}. ", with_month(report.price_per_hour), counted(new, "new node"))?;
    }
    if statistics.pods == 0 {
        writeln!(out, "No pending pods. {} evaluated.", counted(statistics.nodes, "node"))?;
    } else {
        let launched: usize = report.launches.iter().map(|launch| launch.pods.len()).sum();
        writeln!(
            out,
            "Of {}: {launched} on new nodes, {} on existing or in-flight nodes, {} unschedulable.",
            counted(statistics.pods, "pod"),
            report.placements.len(),
            report.unschedulable.len()
        )?;
    }
    report.volumes.line(new).map_or(Ok(()), |line| writeln!(out, "{line}"))?;
    if let Some(commitments) = &report.commitments {
        commitments.lines().iter().try_for_each(|line| writeln!(out, "{line}"))?;
    }
    if !report.cluster_limits.is_empty() {
        let limits: Vec<String> = report.cluster_limits.iter().map(ClusterLimit::text).collect();
        writeln!(out, "Limits of the cluster: {}.", limits.join("; "))?;
    }
    let memory =
        statistics.peak_memory_bytes.map_or(String::new(), |bytes| format!(", peak memory {} MiB", bytes >> 20));
    writeln!(
        out,
        "Solved in {} ms with {} and {}{memory}.",
        statistics.elapsed_milliseconds,
        counted(statistics.nodes, "node"),
        counted(statistics.instance_types, "instance type")
    )?;
    if let Some(decided) = &statistics.disruption {
        let decisions = counted(decided.decisions, "decision");
        let ended = if decided.interrupted { "; interrupted, so more may follow" } else { "" };
        writeln!(out, "Evaluated disruption in {} ms, in {decisions}{ended}.", decided.elapsed_milliseconds)?;
    }
    writeln!(out, "{prices}")?;
    if report.derived_prices.is_empty() {
        return Ok(());
    }
    let names: Vec<&str> = report.derived_prices.iter().map(String::as_str).collect();
    writeln!(out, "Derived, not published: the on-demand prices of {}.", names.join(", "))
}

/// What the cluster costs before the plan, and how much of it pods request.
fn current(current: &Current) -> String {
    let unknown = match current.without_price {
        0 => String::new(),
        some => format!(" without {} whose price is unknown", counted(some, "node")),
    };
    let shares: Vec<String> =
        current.shares.iter().map(|(resource, share)| format!("{:.0}% of {resource}", share * 100.0)).collect();
    let requested = match &shares[..] {
        [] => String::new(),
        [others @ .., last] if !others.is_empty() => format!("; pods request {} and {last}", others.join(", ")),
        all => format!("; pods request {}", all.concat()),
    };
    format!("Now: {} for {}{unknown}{requested}.", counted(current.nodes, "node"), with_month(current.price_per_hour))
}

/// A price by the hour, and by the month of 730 hours.
fn with_month(price_per_hour: f64) -> String {
    format!("{} (${} a month)", dollars(price_per_hour), month(price_per_hour))
}
