//! A plan as a self-contained HTML page, to be sent.

use super::disruption::{CommandReport, DisruptionReport};
use super::disruption_text::{described, evictions, instances, offered, saving};
use super::parts::Launch;
use super::report::{Current, Report};
use super::text::{Why, alike, answer, by_node, by_reason};
use super::text_parts::{alternatives, dollars, shortened};
use crate::html::{self, escaped, header, row};
use crate::plural::counted;
use std::fmt::Write as _;

/// The maximum number of rows of a table of nodes that is open at first.
const MAX_OPEN: usize = 10;

/// The page. `prices` describes the sources of the prices.
pub(crate) fn page(report: &Report, why: &Why<'_>, prices: &str) -> String {
    let mut body = String::new();
    for explained in &report.explanations {
        answer(explained, report.disruption.as_ref()).html(&mut body);
    }
    figures(&mut body, report);
    launches(&mut body, &report.launches, why);
    unschedulable(&mut body, report);
    if let Some(disruption) = &report.disruption {
        commands(&mut body, &disruption.commands);
        kept(&mut body, disruption);
    }
    placements(&mut body, report);
    let _cannot_fail = writeln!(body, "<p>{}</p>", escaped(prices));
    html::page("plan", "Plan", &body)
}

/// What the cluster costs now, and what the plan changes.
fn figures(out: &mut String, report: &Report) {
    let current = &report.current;
    let mut lines = vec![
        ("Nodes now", current.nodes.to_string()),
        ("Price now", dollars(current.price_per_hour)),
        ("New nodes", report.launches.len().to_string()),
        ("Price of new nodes", dollars(report.price_per_hour)),
        ("Pods to schedule", report.statistics.pods.to_string()),
        ("Unschedulable pods", report.unschedulable.len().to_string()),
    ];
    if current.without_price > 0 {
        lines.insert(2, ("Nodes whose price is unknown", current.without_price.to_string()));
    }
    if let Some(disruption) = &report.disruption {
        let nodes: usize = disruption.commands.iter().map(|command| command.nodes.len()).sum();
        lines.push(("Nodes to disrupt", nodes.to_string()));
        lines.push(("By disruption", saving(disruption.savings_per_hour)));
        lines.push(("As of", format!("{:.0}", disruption.at)));
    }
    if let Some(commitments) = &report.commitments {
        lines.extend(commitments.rows());
    }
    out.push_str("<table>\n");
    lines.iter().for_each(|(what, value)| row(out, &[what, value]));
    out.push_str("</table>\n");
    bars(out, current);
}

/// The share of each resource that pods request.
fn bars(out: &mut String, current: &Current) {
    if current.shares.is_empty() {
        return;
    }
    out.push_str("<h2>Requested by pods now</h2>\n<table class=\"bars\">\n");
    for (resource, share) in &current.shares {
        let percent = share * 100.0;
        let _cannot_fail = writeln!(
            out,
            "<tr><td>{resource}</td><td><progress max=\"100\" value=\"{:.0}\">{percent:.0}%</progress></td><td>{percent:.0}%</td></tr>",
            percent.min(100.0)
        );
    }
    out.push_str("</table>\n");
}

fn launches(out: &mut String, launches: &[Launch], why: &Why<'_>) {
    if launches.is_empty() {
        return;
    }
    let _cannot_fail = writeln!(out, "<h2>{} to launch</h2>\n<table class=\"log\">", counted(launches.len(), "node"));
    header(out, &["Nodes", "Instance", "Price", "NodePool", "Pods", "Requests", "Or", "Why"]);
    for group in alike(launches) {
        let Some((place, first)) = group.first().and_then(|place| Some((*place, launches.get(*place)?))) else {
            continue;
        };
        let pods: Vec<&str> =
            group.iter().filter_map(|one| launches.get(*one)).flat_map(|one| &one.pods).map(String::as_str).collect();
        let offering = &first.offering;
        let instance = format!("{} {} {}", offering.instance_type, offering.capacity_type, offering.zone);
        row(
            out,
            &[
                &group.len().to_string(),
                &instance,
                &dollars(offering.price_per_hour),
                &first.node_pool,
                &format!("{}: {}", counted(pods.len(), "pod"), shortened(&pods)),
                &first.requests.to_string(),
                &if first.is_chosen_by_commitments() { String::new() } else { alternatives(&first.instance_types) },
                &why(place).unwrap_or_default(),
            ],
        );
    }
    out.push_str("</table>\n");
}

fn unschedulable(out: &mut String, report: &Report) {
    if report.unschedulable.is_empty() {
        return;
    }
    let count = counted(report.unschedulable.len(), "unschedulable pod");
    let _cannot_fail = writeln!(out, "<h2 class=\"bad\">{count}</h2>\n<table class=\"log\">");
    header(out, &["Pods", "Reasons", "To schedule"]);
    for (lines, pods) in by_reason(&report.unschedulable) {
        let why: Vec<&str> = lines.reasons.iter().chain(&lines.obstacle).map(String::as_str).collect();
        row(out, &[&shortened(&pods), &why.join("\n"), &lines.remedies.join("\nor: ")]);
    }
    out.push_str("</table>\n");
}

fn commands(out: &mut String, commands: &[CommandReport]) {
    if commands.is_empty() {
        out.push_str("<h2>No nodes to disrupt</h2>\n");
        return;
    }
    out.push_str("<h2>Nodes to disrupt</h2>\n");
    let (first, more) = commands.split_at(commands.len().min(MAX_OPEN));
    out.push_str("<table class=\"log\">\n");
    command_rows(out, first);
    out.push_str("</table>\n");
    if !more.is_empty() {
        let nodes: usize = more.iter().map(|command| command.nodes.len()).sum();
        let savings: f64 = more.iter().map(|command| command.savings_per_hour).sum();
        let (count, nodes) = (counted(more.len(), "more command"), counted(nodes, "node"));
        let summary = format!("{count}, for {nodes}: {}", saving(savings));
        let _cannot_fail = writeln!(out, "<details><summary>{summary}</summary><table class=\"log\">");
        command_rows(out, more);
        out.push_str("</table></details>\n");
    }
}

fn command_rows(out: &mut String, commands: &[CommandReport]) {
    header(out, &["Reason", "Price", "Nodes", "Replacements", "Pods"]);
    for command in commands {
        let nodes: Vec<String> = instances(command)
            .into_iter()
            .map(|(instance, nodes)| {
                format!("{}: {}", instance.map_or("instance unknown".to_owned(), described), shortened(&nodes))
            })
            .collect();
        let replacements: Vec<String> = command.replacements.iter().map(|launch| offered(&launch.offering)).collect();
        let replacements = if replacements.is_empty() { "none".to_owned() } else { replacements.join("\n") };
        row(
            out,
            &[
                &format!("{:?}", command.reason),
                &saving(command.savings_per_hour),
                &nodes.join("\n"),
                &replacements,
                &evictions(command),
            ],
        );
    }
}

/// Begins a table that opens; a short one is open.
fn opening(out: &mut String, summary: &str, rows: usize) {
    let open = if rows > MAX_OPEN { "" } else { " open" };
    let _cannot_fail = writeln!(out, "<details{open}><summary>{summary}</summary><table class=\"log\">");
}

fn kept(out: &mut String, disruption: &DisruptionReport) {
    if disruption.kept.is_empty() {
        return;
    }
    out.push_str("<h2>Nodes that stay</h2>\n");
    opening(out, &counted(disruption.kept.len(), "node"), disruption.kept.len());
    for kept in &disruption.kept {
        let reasons: Vec<String> = kept.reasons.iter().map(ToString::to_string).collect();
        row(out, &[&kept.node, &reasons.join("\n")]);
    }
    out.push_str("</table></details>\n");
}

fn placements(out: &mut String, report: &Report) {
    if report.placements.is_empty() {
        return;
    }
    out.push_str("<h2>Pods to schedule on existing or in-flight nodes</h2>\n");
    let by_node = by_node(&report.placements);
    opening(out, &counted(by_node.len(), "node"), by_node.len());
    for (node, pods) in by_node {
        row(out, &[node, &format!("{}: {}", pods.len(), shortened(&pods))]);
    }
    out.push_str("</table></details>\n");
}
