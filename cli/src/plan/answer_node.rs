//! The answer about a node.

use super::disruption::{CommandReport, DisruptionReport, NodeExplanation};
use super::disruption_text::{action, event_line, text, write_command};
use super::wording::answer::{Answer, List};
use super::wording::text_parts::dollars;
use crate::plural::counted;
use nodeless_disruption::{NodeDetails, PodDetails};

/// The maximum number of reasons, and of lines of a command.
const MAX_LINES: usize = 8;
/// The number of pods that the text shows.
const PODS: usize = 6;
/// The number of Events and of other nodes that the text shows.
const OTHERS: usize = 3;

pub(super) fn answer(explanation: &NodeExplanation, disruption: Option<&DisruptionReport>) -> Answer {
    let details = &explanation.details;
    let mut commands = disruption.into_iter().flat_map(|disruption| disruption.commands.iter().enumerate());
    let own = commands.find(|(_, command)| Some(&command.id) == explanation.command.as_ref());
    let (answer, mut lines) = match own {
        Some((index, command)) => {
            (format!("Node {} is disrupted by command {}", details.node, index + 1), command_lines(index + 1, command))
        }
        None => (format!("Node {} is not disrupted", details.node), Vec::new()),
    };
    lines.extend(explanation.reasons.iter().take(MAX_LINES).map(|reason| format!("because {reason}")));
    lines.extend(facts(explanation));
    let elsewhere = details.elsewhere.as_ref().map(|elsewhere| List {
        heading: format!("pod {} fits on no other node", elsewhere.pod),
        entries: elsewhere.nodes.iter().map(|other| format!("{}: {}", other.node, other.why)).collect(),
        shown: OTHERS,
    });
    let events = (!explanation.events.is_empty()).then(|| List {
        heading: "events".to_owned(),
        entries: explanation.events.iter().map(event_line).collect(),
        shown: OTHERS,
    });
    let pods = pods(&details.pods, own.map(|(_, command)| command));
    Answer { answer, lines, lists: [Some(pods), elsewhere, events].into_iter().flatten().collect() }
}

fn command_lines(number: usize, command: &CommandReport) -> Vec<String> {
    let mut text = String::new();
    // Writing into a String does not fail.
    let _cannot_fail = write_command(&mut text, number, command);
    let lines = text.lines().map(str::trim_end).filter(|line| !line.is_empty()).take(MAX_LINES);
    lines.map(|line| line.strip_prefix("  ").unwrap_or(line).to_owned()).collect()
}

fn facts(explanation: &NodeExplanation) -> Vec<String> {
    let details = &explanation.details;
    let mut lines = Vec::new();
    let mut fact = |name: &str, value: Option<String>| lines.extend(value.map(|value| format!("{name:16}{value}")));
    fact("NodePool", details.node_pool.clone());
    fact("NodeClaim", details.node_claim.clone());
    fact("instance", instance(details));
    fact("ready since", details.initialized.map(|time| time.to_string()));
    fact("last pod event", details.last_pod_event.map(|time| time.to_string()));
    fact("consolidatable", details.consolidatable.map(|time| format!("from {time}")));
    fact("drift", details.drift.clone());
    fact("health", explanation.repair.as_ref().map(|repair| format!("{}; {}", repair.why, action(repair))));
    for budget in &details.budgets {
        let allowed = budget.allowed.map_or("unlimited".to_owned(), |allowed| allowed.to_string());
        let disrupting = budget.disrupting;
        fact(
            "budget",
            Some(format!("{:?}: {allowed} allowed at once, {disrupting} disrupted or not ready", budget.reason)),
        );
    }
    lines
}

fn instance(details: &NodeDetails) -> Option<String> {
    let price = details.price_per_hour.map_or("price unknown".to_owned(), dollars);
    let capacity_type = details.capacity_type.map(|kind| kind.to_string()).unwrap_or_default();
    let zone = details.zone.as_deref().unwrap_or_default();
    details.instance_type.as_ref().map(|kind| format!("{kind} {capacity_type} {zone} {price}"))
}

/// Where a pod of a command is expected, if that is known.
fn destination<'c>(command: &'c CommandReport, pod: &str) -> Option<&'c str> {
    let placed =
        command.placements.iter().find(|placement| placement.pod == pod).map(|placement| placement.node.as_str());
    let launched = || command.replacements.iter().any(|launch| launch.pods.iter().any(|own| own == pod));
    placed.or_else(|| launched().then_some("a new node"))
}

/// The pods, those that block the disruption first.
fn pods(pods: &[PodDetails], command: Option<&CommandReport>) -> List {
    if pods.is_empty() {
        return List { heading: "it runs no pods".to_owned(), ..List::default() };
    }
    let moving = pods.iter().filter(|pod| pod.moves).count();
    let mut sorted: Vec<&PodDetails> = pods.iter().collect();
    sorted.sort_by_key(|pod| pod.blocked_by.is_empty());
    let entry = |pod: &PodDetails| {
        let stays = if pod.moves { "" } else { "; not evicted" };
        let blocked = text(&pod.blocked_by);
        let blocked = if blocked.is_empty() { blocked } else { format!("; {blocked}") };
        let to = command.and_then(|command| destination(command, &pod.pod));
        let to = to.map_or(String::new(), |node| format!("; to {node}"));
        format!("{}  {}{stays}{to}{blocked}", pod.pod, pod.requests)
    };
    List {
        heading: format!("{}, of which {moving} would be evicted", counted(pods.len(), "pod")),
        entries: sorted.into_iter().map(entry).collect(),
        shown: PODS,
    }
}
