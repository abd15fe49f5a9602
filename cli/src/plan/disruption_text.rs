//! Which nodes would go and why each other one stays, as people read it.

use super::disruption::{
    ChurnReport, CommandReport, DisruptionReport, Event, Machine, NodeExplanation, RepairAction, RepairReport,
    StaticReport,
};
use super::report::{Launch, Offering, Placement, Report};
use super::text::{SHOWN, alternatives, counted, dollars, shortened};
use nodeless_disruption::{Kept, KeptReason, NodeDetails, PodDetails};
use std::collections::BTreeMap;
use std::fmt::{Result, Write as _};

/// How many nodes with reasons of their own are told of each group.
const TOLD: usize = 10;

/// How many commands are told one by one.
const COMMANDS: usize = 30;

/// What goes, what comes, and why the others stay.
pub(super) fn write(out: &mut String, report: &Report, disruption: &DisruptionReport) -> Result {
    headline(out, report, disruption)?;
    for (index, command) in disruption.commands.iter().take(COMMANDS).enumerate() {
        write_command(out, index + 1, command)?;
    }
    let untold = disruption.commands.get(COMMANDS..).unwrap_or_default();
    if !untold.is_empty() {
        let nodes: usize = untold.iter().map(|command| command.nodes.len()).sum();
        let savings: f64 = untold.iter().map(|command| command.savings_per_hour).sum();
        let (commands, nodes) = (counted(untold.len(), "command"), counted(nodes, "node"));
        writeln!(out, "  and {commands} more, for {nodes}: {}; -o json tells of each\n", saving(savings))?;
    }
    for fixed in &disruption.static_launches {
        write_fixed(out, fixed)?;
    }
    repairs(out, &disruption.repairs)?;
    if !disruption.kept.is_empty() {
        kept(out, &disruption.kept)?;
    }
    churn(out, &disruption.churn)?;
    if !disruption.events.is_empty() {
        writeln!(out, "Said on objects\n")?;
        for event in &disruption.events {
            said(out, event)?;
        }
        writeln!(out)?;
    }
    Ok(())
}

fn headline(out: &mut String, report: &Report, disruption: &DisruptionReport) -> Result {
    let commands = &disruption.commands;
    let goes: usize = commands.iter().map(|command| command.nodes.len()).sum();
    if goes == 0 {
        return writeln!(out, "No node goes, as of {:.0}\n", disruption.at);
    }
    let comes: usize = commands.iter().map(|command| command.replacements.len()).sum();
    let moves: usize = commands.iter().map(|command| command.evictions).sum();
    writeln!(
        out,
        "{goes} of {} {}, {comes} {}, {}, {} {}; as of {:.0}\n",
        counted(report.statistics.nodes, "node"),
        if goes == 1 { "goes" } else { "go" },
        if comes == 1 { "comes" } else { "come" },
        saving(disruption.savings_per_hour),
        counted(moves, "pod"),
        if moves == 1 { "moves" } else { "move" },
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

fn write_command(out: &mut String, number: usize, command: &CommandReport) -> Result {
    let score = command.score.map_or(String::new(), |score| format!(", score {score:.2}"));
    writeln!(
        out,
        "  {number}. {:?} ({:?}): {}{score}",
        command.method,
        command.reason,
        saving(command.savings_per_hour)
    )?;
    for (kind, nodes) in machines(command) {
        let kind = kind.map_or("instance not known".to_owned(), machine);
        let count = if nodes.len() == 1 { String::new() } else { format!("{} x ", nodes.len()) };
        writeln!(out, "     goes   {count}{kind}: {}", shortened(&nodes))?;
    }
    for (launch, count) in alike(&command.replacements) {
        let times = if count == 1 { String::new() } else { format!("{count} x ") };
        writeln!(out, "     comes  {times}{} of NodePool {}", offered(&launch.offering), launch.node_pool)?;
        writeln!(out, "            or {}", alternatives(&launch.instance_types))?;
    }
    if command.drains_first {
        writeln!(out, "     comes  what its pods need, once it is gone: its NodePool is at its limit")?;
    } else if command.replacements.is_empty() {
        writeln!(out, "     comes  nothing")?;
    }
    writeln!(out, "     moves  {}\n", moves(command))
}

/// What a NodePool with a fixed number of nodes launches.
fn write_fixed(out: &mut String, fixed: &StaticReport) -> Result {
    let count = counted(fixed.launches.len(), "node");
    writeln!(out, "  NodePool {} launches {count} to have its replicas, whatever pods need", fixed.node_pool)?;
    for (launch, count) in alike(&fixed.launches) {
        writeln!(out, "     comes  {count} x {}", offered(&launch.offering))?;
    }
    match &fixed.short {
        Some(why) => writeln!(out, "     no more, because {why}\n"),
        None => writeln!(out),
    }
}

/// The nodes that are not healthy.
fn repairs(out: &mut String, repairs: &[RepairReport]) -> Result {
    if repairs.is_empty() {
        return Ok(());
    }
    let (count, is) = (counted(repairs.len(), "node"), if repairs.len() == 1 { "is" } else { "are" });
    writeln!(out, "{count} {is} not healthy\n")?;
    for repair in repairs.iter().take(TOLD * SHOWN) {
        writeln!(out, "  {}: {}; {}", repair.node, repair.why, done(repair))?;
    }
    let more = repairs.len().saturating_sub(TOLD * SHOWN);
    if more > 0 {
        writeln!(out, "  and {}; -o json tells of each", counted(more, "other node"))?;
    }
    writeln!(out)
}

/// What is done about a node that is not healthy.
fn done(repair: &RepairReport) -> String {
    match (repair.action, &repair.blocked) {
        (RepairAction::Repair, _) => "it is repaired: terminated by force, its pods deleted and not evicted".to_owned(),
        (RepairAction::Wait, _) => format!("it is repaired if that lasts until {:.0}", repair.due),
        (RepairAction::Blocked, why) => format!("it is not repaired: {}", why.as_deref().unwrap_or_default()),
        (RepairAction::Off, _) => "nothing is done, as node repair is switched off (see --feature-gates)".to_owned(),
    }
}

/// What the churn breaker judges by, of NodePools where it may matter.
fn churn(out: &mut String, churn: &[ChurnReport]) -> Result {
    let told: Vec<_> =
        churn.iter().filter(|one| one.stopped.is_some() || one.evictions.is_some_and(|many| many > 0)).collect();
    if told.is_empty() {
        return Ok(());
    }
    writeln!(out, "Evicted by choice within the last hour\n")?;
    for one in told {
        write!(out, "  NodePool {}: {}", one.node_pool, counted(one.evictions.unwrap_or_default() as usize, "pod"))?;
        match one.most {
            Some(most) => write!(out, " of {most} that need no falling price")?,
            None => write!(out, "; its churn breaker is switched off")?,
        }
        if let Some(before) = one.price_before.filter(|before| *before > 0.0) {
            write!(out, "; for its load it costs {:+.1}% since", (one.price_now / before - 1.0) * 100.0)?;
        }
        writeln!(out, "{}", if one.stopped.is_some() { "; disruption has stopped" } else { "" })?;
    }
    writeln!(out)
}

/// The nodes that go, those alike together.
fn machines(command: &CommandReport) -> Vec<(Option<&Machine>, Vec<&str>)> {
    let mut groups: BTreeMap<Option<&Machine>, Vec<&str>> = BTreeMap::new();
    for (node, machine) in command.nodes.iter().zip(&command.machines) {
        groups.entry(machine.as_ref()).or_default().push(node);
    }
    groups.into_iter().collect()
}

fn machine(machine: &Machine) -> String {
    format!("{} {} {}", machine.instance_type, machine.capacity_type, machine.zone)
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

fn moves(command: &CommandReport) -> String {
    let to_new: usize = command.replacements.iter().map(|launch| launch.pods.len()).sum();
    moved(command.evictions, command.replacements.len(), to_new, &command.placements)
}

/// Where the pods of a command go: so many to new nodes, the others to those that are there.
pub(crate) fn moved(evictions: usize, replacements: usize, to_new: usize, placements: &[Placement]) -> String {
    if evictions == 0 {
        return "no pod".to_owned();
    }
    let mut nodes: Vec<&str> = placements.iter().map(|placement| placement.node.as_str()).collect();
    nodes.sort_unstable();
    nodes.dedup();
    let new = if replacements == 1 { "the new node" } else { "the new nodes" };
    let rest = match (to_new, nodes.is_empty()) {
        (0, true) => " wherever they fit".to_owned(),
        (0, false) => format!(" to {}", shortened(&nodes)),
        (_, true) => format!(" to {new}"),
        (_, false) => format!(": {to_new} to {new}, {} to {}", placements.len(), shortened(&nodes)),
    };
    format!("{}{rest}", counted(evictions, "pod"))
}

/// The nodes that stay, by kind of reason, the largest group first.
fn kept(out: &mut String, kept: &[Kept]) -> Result {
    writeln!(
        out,
        "{}\n",
        if kept.len() == 1 { "1 node stays".to_owned() } else { format!("{} nodes stay", kept.len()) }
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
        for (text, names) in by_text.iter().take(TOLD) {
            writeln!(out, "    {}: {text}", shortened(names))?;
        }
        let untold: usize = by_text.iter().skip(TOLD).map(|(_, names)| names.len()).sum();
        if untold > 0 {
            writeln!(out, "    and {}; -o json tells of each", counted(untold, "other node"))?;
        }
        writeln!(out)?;
    }
    Ok(())
}

fn text(reasons: &[KeptReason]) -> String {
    reasons.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

fn said(out: &mut String, event: &Event) -> Result {
    let object = &event.object;
    let slash = if object.namespace.is_empty() { "" } else { "/" };
    writeln!(out, "  {} {}{slash}{}: {}: {}", object.kind, object.namespace, object.name, event.reason, event.message)
}

/// Everything about one node.
pub(super) fn explained(
    out: &mut String,
    explanation: &NodeExplanation,
    disruption: Option<&DisruptionReport>,
) -> Result {
    let details = &explanation.details;
    let commands = disruption.into_iter().flat_map(|disruption| disruption.commands.iter().enumerate());
    let own = commands.clone().find(|(_, command)| Some(&command.id) == explanation.command.as_ref());
    match own {
        Some((index, command)) => {
            writeln!(out, "Node {} goes, by command {}\n", details.node, index + 1)?;
            write_command(out, index + 1, command)?;
        }
        None => writeln!(out, "Node {} stays", details.node)?,
    }
    explanation.reasons.iter().try_for_each(|reason| writeln!(out, "  because {reason}"))?;
    let mut fact = |name: &str, value: Option<String>| match value {
        Some(value) => writeln!(out, "  {name:16}{value}"),
        None => Ok(()),
    };
    fact("NodePool", details.node_pool.clone())?;
    fact("NodeClaim", details.node_claim.clone())?;
    fact("instance", instance(details))?;
    fact("ready since", details.initialized.map(|time| time.to_string()))?;
    fact("pods changed", details.last_pod_event.map(|time| time.to_string()))?;
    fact("consolidatable", details.consolidatable.map(|time| format!("from {time}")))?;
    fact("drift", details.drift.clone())?;
    fact("health", explanation.repair.as_ref().map(|repair| format!("{}; {}", repair.why, done(repair))))?;
    for budget in &details.budgets {
        let allowed = budget.allowed.map_or("any number".to_owned(), |allowed| allowed.to_string());
        fact(
            "budget",
            Some(format!("{:?}: {allowed} at once, {} disrupted or not ready", budget.reason, budget.disrupting)),
        )?;
    }
    pods(out, &details.pods, own.map(|(_, command)| command))?;
    if let Some(elsewhere) = &details.elsewhere {
        writeln!(out, "  pod {} fits on no other node", elsewhere.pod)?;
        for other in elsewhere.nodes.iter().take(TOLD * SHOWN) {
            writeln!(out, "    {}: {}", other.node, other.why)?;
        }
        let more = elsewhere.nodes.len().saturating_sub(TOLD * SHOWN);
        if more > 0 {
            writeln!(out, "    and {}; -o json tells of each", counted(more, "other node"))?;
        }
    }
    if !explanation.events.is_empty() {
        writeln!(out, "  said")?;
    }
    for event in &explanation.events {
        write!(out, "  ")?;
        said(out, event)?;
    }
    writeln!(out)
}

fn instance(details: &NodeDetails) -> Option<String> {
    let price = details.price_per_hour.map_or("price not known".to_owned(), dollars);
    let capacity_type = details.capacity_type.map(|kind| kind.to_string()).unwrap_or_default();
    let zone = details.zone.as_deref().unwrap_or_default();
    details.instance_type.as_ref().map(|kind| format!("{kind} {capacity_type} {zone} {price}"))
}

/// Where a command sends a pod, if it says.
fn destination<'c>(command: &'c CommandReport, pod: &str) -> Option<&'c str> {
    let placed =
        command.placements.iter().find(|placement| placement.pod == pod).map(|placement| placement.node.as_str());
    let launched = || command.replacements.iter().any(|launch| launch.pods.iter().any(|own| own == pod));
    placed.or_else(|| launched().then_some("a new node"))
}

fn pods(out: &mut String, pods: &[PodDetails], command: Option<&CommandReport>) -> Result {
    if pods.is_empty() {
        return writeln!(out, "  no pod runs there");
    }
    let moving = pods.iter().filter(|pod| pod.moves).count();
    writeln!(out, "  {}, of which {moving} would have to move", counted(pods.len(), "pod"))?;
    for pod in pods {
        let stays = if pod.moves { "" } else { "; stays with its node" };
        let blocked = text(&pod.blocked_by);
        let blocked = if blocked.is_empty() { blocked } else { format!("; {blocked}") };
        let to = command.and_then(|command| destination(command, &pod.pod));
        let to = to.map_or(String::new(), |node| format!("; to {node}"));
        writeln!(out, "    {}  {}{stays}{to}{blocked}", pod.pod, pod.requests)?;
    }
    Ok(())
}
