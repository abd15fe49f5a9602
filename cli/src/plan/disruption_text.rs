//! The text output of `--disruption`.

use super::disruption::{
    ChurnReport, CommandReport, DisruptionReport, Event, Instance, RepairAction, RepairReport, StaticReport,
};
use super::report::Report;
use super::wording::parts::{Launch, Offering, Placement};
use super::wording::text_parts::{SHOWN, alternatives, dollars, shortened};
use crate::plural::counted;
use nodeless_disruption::{Kept, KeptReason};
use std::collections::BTreeMap;
use std::fmt::{Result, Write as _};

/// The maximum number of lines of each group.
const MAX_LINES: usize = 10;

/// The maximum number of commands that are printed.
const MAX_COMMANDS: usize = 30;

/// Writes the commands, and why the other nodes are not disrupted.
pub(super) fn write(out: &mut String, report: &Report, disruption: &DisruptionReport) -> Result {
    headline(out, report, disruption)?;
    for (index, command) in disruption.commands.iter().take(MAX_COMMANDS).enumerate() {
        write_command(out, index + 1, command)?;
    }
    let omitted = disruption.commands.get(MAX_COMMANDS..).unwrap_or_default();
    if !omitted.is_empty() {
        let nodes: usize = omitted.iter().map(|command| command.nodes.len()).sum();
        let savings: f64 = omitted.iter().map(|command| command.savings_per_hour).sum();
        let (commands, nodes) = (counted(omitted.len(), "command"), counted(nodes, "node"));
        writeln!(out, "  and {commands} more, for {nodes}: {}; -o json lists all\n", saving(savings))?;
    }
    repairs(out, &disruption.repairs)?;
    if !disruption.kept.is_empty() {
        kept(out, &disruption.kept)?;
    }
    churn(out, &disruption.churn)?;
    if !disruption.events.is_empty() {
        writeln!(out, "Events\n")?;
        for event in &disruption.events {
            writeln!(out, "  {}", event_line(event))?;
        }
        writeln!(out)?;
    }
    Ok(())
}

fn headline(out: &mut String, report: &Report, disruption: &DisruptionReport) -> Result {
    let commands = &disruption.commands;
    let disrupted: usize = commands.iter().map(|command| command.nodes.len()).sum();
    if disrupted == 0 {
        return writeln!(out, "No nodes to disrupt, as of {:.0}\n", disruption.at);
    }
    let launched: usize = commands.iter().map(|command| command.replacements.len()).sum();
    let evicted: usize = commands.iter().map(|command| command.evictions).sum();
    writeln!(
        out,
        "{disrupted} of {} to disrupt, {} to launch, {}, {} to evict; as of {:.0}\n",
        counted(report.statistics.nodes, "node"),
        counted(launched, "replacement"),
        saving(disruption.savings_per_hour),
        counted(evicted, "pod"),
        disruption.at
    )
}

pub(crate) fn saving(savings_per_hour: f64) -> String {
    if savings_per_hour < 0.0 {
        format!("{} more", dollars(-savings_per_hour))
    } else {
        format!("{} saved", dollars(savings_per_hour))
    }
}

pub(super) fn write_command(out: &mut String, number: usize, command: &CommandReport) -> Result {
    let score = command.score.map_or(String::new(), |score| format!(", score {score:.2}"));
    writeln!(
        out,
        "  {number}. {:?} ({:?}): {}{score}",
        command.method,
        command.reason,
        saving(command.savings_per_hour)
    )?;
    for (instance, nodes) in instances(command) {
        let instance = instance.map_or("instance unknown".to_owned(), described);
        let count = if nodes.len() == 1 { String::new() } else { format!("{} x ", nodes.len()) };
        writeln!(out, "     disrupt  {count}{instance}: {}", shortened(&nodes))?;
    }
    for (launch, count) in alike(&command.replacements) {
        let times = if count == 1 { String::new() } else { format!("{count} x ") };
        writeln!(out, "     launch   {times}{} of NodePool {}", offered(&launch.offering), launch.node_pool)?;
        writeln!(out, "              or {}", alternatives(&launch.instance_types))?;
    }
    if command.drains_first {
        writeln!(
            out,
            "     launch   the replacement after the node is terminated, because a limit is reached or its capacity reservation is full"
        )?;
    } else if command.replacements.is_empty() {
        writeln!(out, "     launch   nothing")?;
    }
    if let Some(zones) = &command.zones {
        writeln!(out, "     balance  {zones}")?;
    }
    writeln!(out, "     evict    {}\n", evictions(command))
}

/// Writes what a static NodePool launches.
pub(super) fn write_static(out: &mut String, pool: &StaticReport) -> Result {
    let count = counted(pool.launches.len(), "node");
    writeln!(out, "  NodePool {} launches {count} to reach its replicas", pool.node_pool)?;
    for (launch, count) in alike(&pool.launches) {
        writeln!(out, "     launch   {count} x {}", offered(&launch.offering))?;
    }
    match &pool.short {
        Some(why) => writeln!(out, "     fewer than its replicas, because {why}\n"),
        None => writeln!(out),
    }
}

/// Writes the unhealthy nodes.
fn repairs(out: &mut String, repairs: &[RepairReport]) -> Result {
    if repairs.is_empty() {
        return Ok(());
    }
    let (count, is) = (counted(repairs.len(), "node"), if repairs.len() == 1 { "is" } else { "are" });
    writeln!(out, "{count} {is} unhealthy\n")?;
    for repair in repairs.iter().take(MAX_LINES * SHOWN) {
        writeln!(out, "  {}: {}; {}", repair.node, repair.why, action(repair))?;
    }
    let more = repairs.len().saturating_sub(MAX_LINES * SHOWN);
    if more > 0 {
        writeln!(out, "  and {}; -o json lists all", counted(more, "other node"))?;
    }
    writeln!(out)
}

/// The action for an unhealthy node.
pub(super) fn action(repair: &RepairReport) -> String {
    match (repair.action, &repair.blocked) {
        (RepairAction::Repair, _) => {
            let within = &repair.drain_within;
            format!("it is repaired: its pods get other nodes first, and its drain ends by force after {within}")
        }
        (RepairAction::Reboot, _) => {
            format!("its instance is rebooted: its pods are evicted first, for {} at most", repair.drain_within)
        }
        (RepairAction::Terminate, _) => {
            "it was never initialized: it is forcefully terminated, and its pods are deleted instead of evicted"
                .to_owned()
        }
        (RepairAction::Wait, _) => format!("it is repaired if it is still unhealthy at {:.0}", repair.due),
        (RepairAction::Blocked, why) => format!("it is not repaired: {}", why.as_deref().unwrap_or_default()),
        (RepairAction::Off, _) => {
            "it is not repaired, because the feature gate NodeRepair is off (see --feature-gates)".to_owned()
        }
    }
}

/// Writes the input of the churn breaker for NodePools with evictions.
fn churn(out: &mut String, churn: &[ChurnReport]) -> Result {
    let shown: Vec<_> =
        churn.iter().filter(|one| one.stopped.is_some() || one.evictions.is_some_and(|many| many > 0)).collect();
    if shown.is_empty() {
        return Ok(());
    }
    writeln!(out, "Pods evicted by voluntary disruption within the last hour\n")?;
    for one in shown {
        write!(out, "  NodePool {}: {}", one.node_pool, counted(one.evictions.unwrap_or_default() as usize, "pod"))?;
        match one.max_evictions {
            Some(max) => {
                write!(out, ", {} without a lower price of {max} allowed", one.useless.unwrap_or_default())?;
            }
            None => write!(out, "; its churn breaker is off")?,
        }
        if let Some(before) = one.price_before.filter(|before| *before > 0.0) {
            write!(
                out,
                "; its price per unit of load has changed by {:+.1}% since",
                (one.price_now / before - 1.0) * 100.0
            )?;
        }
        writeln!(out, "{}", if one.stopped.is_some() { "; disruption is stopped" } else { "" })?;
    }
    writeln!(out)
}

/// The disrupted nodes, grouped by instance.
fn instances(command: &CommandReport) -> Vec<(Option<&Instance>, Vec<&str>)> {
    let mut groups: BTreeMap<Option<&Instance>, Vec<&str>> = BTreeMap::new();
    for (node, instance) in command.nodes.iter().zip(&command.instances) {
        groups.entry(instance.as_ref()).or_default().push(node);
    }
    groups.into_iter().collect()
}

fn described(instance: &Instance) -> String {
    format!("{} {} {}", instance.instance_type, instance.capacity_type, instance.zone)
}

pub(crate) fn offered(offering: &Offering) -> String {
    let Offering { instance_type, zone, capacity_type, price_per_hour } = offering;
    format!("{instance_type} {capacity_type} {zone} {}", dollars(*price_per_hour))
}

fn alike(launches: &[Launch]) -> Vec<(&Launch, usize)> {
    let mut groups: Vec<(&Launch, usize)> = Vec::new();
    for launch in launches {
        let same = |(first, _): &&mut (&Launch, usize)| {
            first.offering == launch.offering
                && first.instance_types == launch.instance_types
                && first.node_pool == launch.node_pool
        };
        match groups.iter_mut().find(same) {
            Some((_, count)) => *count += 1,
            None => groups.push((launch, 1)),
        }
    }
    groups
}

fn evictions(command: &CommandReport) -> String {
    let to_new: usize = command.replacements.iter().map(|launch| launch.pods.len()).sum();
    moved(command.evictions, command.replacements.len(), to_new, &command.placements)
}

/// Where the evicted pods of a command are expected: on new nodes, and on existing or in-flight ones.
pub(crate) fn moved(evictions: usize, replacements: usize, to_new: usize, placements: &[Placement]) -> String {
    if evictions == 0 {
        return "no pods".to_owned();
    }
    let mut nodes: Vec<&str> = placements.iter().map(|placement| placement.node.as_str()).collect();
    nodes.sort_unstable();
    nodes.dedup();
    let new = if replacements == 1 { "the new node" } else { "the new nodes" };
    let rest = match (to_new, nodes.is_empty()) {
        (0, true) => " to any node with enough capacity".to_owned(),
        (0, false) => format!(" to {}", shortened(&nodes)),
        (_, true) => format!(" to {new}"),
        (_, false) => format!(": {to_new} to {new}, {} to {}", placements.len(), shortened(&nodes)),
    };
    format!("{}{rest}", counted(evictions, "pod"))
}

/// Writes the nodes that are not disrupted, grouped by kind of reason, the largest group first.
fn kept(out: &mut String, kept: &[Kept]) -> Result {
    writeln!(
        out,
        "{}\n",
        if kept.len() == 1 {
            "1 node is not disrupted".to_owned()
        } else {
            format!("{} nodes are not disrupted", kept.len())
        }
    )?;
    let mut groups: BTreeMap<Vec<&str>, Vec<&Kept>> = BTreeMap::new();
    for one in kept {
        let mut headings: Vec<&str> = one.reasons.iter().map(KeptReason::heading).collect();
        headings.dedup();
        groups.entry(headings).or_default().push(one);
    }
    let mut groups: Vec<_> = groups.into_iter().collect();
    groups.sort_by_key(|(_, nodes)| std::cmp::Reverse(nodes.len()));
    for (headings, nodes) in groups {
        let count = nodes.len();
        let mut by_text: Vec<(String, Vec<&str>)> = Vec::new();
        let mut places: BTreeMap<String, usize> = BTreeMap::new();
        for one in nodes {
            let text = text(&one.reasons);
            let place = *places.entry(text.clone()).or_insert(by_text.len());
            match by_text.get_mut(place) {
                Some((_, names)) => names.push(&one.node),
                None => by_text.push((text, vec![&one.node])),
            }
        }
        if let [(text, names)] = &by_text[..] {
            let count = if count == 1 { String::new() } else { format!("{} (", counted(count, "node")) };
            let end = if count.is_empty() { "" } else { ")" };
            writeln!(out, "  {count}{}{end}: {text}\n", shortened(names))?;
            continue;
        }
        writeln!(out, "  {}: {}", counted(count, "node"), headings.join("; "))?;
        for (text, names) in by_text.iter().take(MAX_LINES) {
            writeln!(out, "    {}: {text}", shortened(names))?;
        }
        let omitted: usize = by_text.iter().skip(MAX_LINES).map(|(_, names)| names.len()).sum();
        if omitted > 0 {
            writeln!(out, "    and {}; -o json lists all", counted(omitted, "other node"))?;
        }
        writeln!(out)?;
    }
    Ok(())
}

pub(super) fn text(reasons: &[KeptReason]) -> String {
    reasons.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

pub(super) fn event_line(event: &Event) -> String {
    let object = &event.object;
    let slash = if object.namespace.is_empty() { "" } else { "/" };
    format!("{} {}{slash}{}: {}: {}", object.kind, object.namespace, object.name, event.reason, event.message)
}
