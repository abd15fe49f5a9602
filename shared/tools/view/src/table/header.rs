//! The lines above the table: totals, and the settings of the cluster.

use super::folded;
use super::limits::limits_line;
use crate::line::{Line, Tone};
use crate::objects::node_state::NodeState;
use crate::picture::Picture;
use crate::text::{cost, counted, fit, percent};

/// The lines above the table, which do not scroll: totals.
#[must_use]
pub fn header(picture: &Picture, title: &str, width: usize) -> Vec<Line> {
    let totals = &picture.totals;
    let mut facts = vec![counted(totals.nodes, "node"), counted(totals.pods, "pod")];
    let states = totals.states.iter().filter(|(state, _)| **state != NodeState::Ready);
    let states: Vec<String> = states.map(|(state, count)| format!("{count} {}", state.as_str())).collect();
    if !states.is_empty() {
        facts[0] = format!("{} ({})", facts[0], states.join(", "));
    }
    if totals.claims > 0 {
        facts.push(format!("{} on the way", counted(totals.claims, "NodeClaim")));
    }
    let waiting = format!("{} without a node", counted(totals.pending_pods, "pod"));
    let tone = if totals.pending_pods > 0 { Tone::Notice } else { Tone::Plain };
    let mut cost = cost(totals.price_per_hour);
    if totals.nodes_without_price > 0 {
        cost += &format!(" (without {}, whose price is not known)", counted(totals.nodes_without_price, "node"));
    }
    let load = &totals.load;
    let (cpu, memory) = (
        requested("CPU", load.cpu_requested(), load.cpu_used()),
        requested("memory", load.memory_requested(), load.memory_used()),
    );
    let extended: String = load.extended.texts().map(|text| format!(", {text}")).collect();
    let clock = format!("{:.0}", picture.at);
    let mut lines = vec![
        Line::new(Tone::Heading, fit(title, width.saturating_sub(clock.len() + 1)))
            .with(Tone::Dim, format!(" {clock}")),
        Line::new(Tone::Plain, format!("{}, ", facts.join(", "))).with(tone, waiting),
        Line::new(Tone::Plain, format!("{cost}; {cpu}, {memory}{extended}")),
    ];
    lines.extend(picture.commitments.map(|committed| Line::new(Tone::Plain, committed.text())));
    lines.extend(picture.hidden.as_ref().map(|hidden| Line::new(Tone::Notice, hidden.text())));
    lines.extend(cluster_lines(picture, width));
    folded(lines, width)
}

/// The settings of the whole cluster.
fn cluster_lines(picture: &Picture, width: usize) -> Vec<Line> {
    let cluster = &picture.cluster;
    let mut lines = Vec::new();
    if !cluster.limits.is_empty() {
        lines.push(limits_line("limits of the cluster  ", &cluster.limits, width));
    }
    lines.extend(cluster.disruption_waits.iter().map(|why| Line::new(Tone::Notice, why.clone())));
    let open = cluster.maintenance_until.map(|until| format!("a maintenance window is open until {until:.0}"));
    lines.extend(open.map(|text| Line::new(Tone::Plain, text)));
    lines
}

fn requested(resource: &str, share: f64, used: Option<f64>) -> String {
    let used = used.map_or_else(String::new, |used| format!(", {} used", percent(used)));
    format!("{} of {resource} requested{used}", percent(share))
}
