//! `--what-if` as a self-contained HTML page, to be sent.

use super::evaluate::Alternative;
use super::report::WhatIfReport;
use super::words::{blocks, caution, changed, heading, line, money, moves, paid, pods};
use crate::html::{self, escaped, header, row};
use std::fmt::Write as _;

/// The page.
pub(super) fn page(report: &WhatIfReport, synthetic_spot: bool) -> String {
    let mut body = String::new();
    bars(&mut body, report);
    body.push_str("<table class=\"numbers\">\n");
    header(&mut body, &heading(&report.today));
    let cells = line("today", &report.today, None);
    row(&mut body, &cells.iter().map(String::as_str).collect::<Vec<_>>());
    for one in &report.alternatives {
        let cells = line(&one.name(), &one.cost, Some(&one.difference));
        row(&mut body, &cells.iter().map(String::as_str).collect::<Vec<_>>());
    }
    body.push_str("</table>\n");
    if let Some(paid) = paid(&report.today) {
        let used: Vec<String> = report.today.commitments_used.iter().map(|used| used.text()).collect();
        body.push_str("<h2>today</h2>\n");
        list(&mut body, &[vec![paid], used].concat());
    }
    report.alternatives.iter().for_each(|one| alternative(&mut body, report, one, synthetic_spot));
    body.push_str("<h2>What the figures include</h2>\n");
    list(&mut body, &report.assumptions);
    html::page("what-if", "What the cluster costs, and what it would cost otherwise", &body)
}

/// Dollars a month as bars; without those of alternatives that are no comparison.
fn bars(out: &mut String, report: &WhatIfReport) {
    let compared = report.alternatives.iter().filter(|one| caution(&one.difference).is_none());
    let all: Vec<(String, i64)> = [("today".to_owned(), report.today.dollars_per_month)]
        .into_iter()
        .chain(compared.map(|one| (one.name(), one.cost.dollars_per_month)))
        .collect();
    let most = all.iter().map(|(_, dollars)| *dollars).max().unwrap_or_default().max(1);
    out.push_str("<h2>Dollars a month</h2>\n<table class=\"bars\">\n");
    for (name, dollars) in &all {
        let _cannot_fail = writeln!(
            out,
            "<tr><td>{}</td><td><progress max=\"{most}\" value=\"{dollars}\"></progress></td><td>{}</td></tr>",
            escaped(name),
            money(*dollars)
        );
    }
    out.push_str("</table>\n");
}

fn alternative(out: &mut String, report: &WhatIfReport, one: &Alternative, synthetic_spot: bool) {
    let _cannot_fail = writeln!(out, "<h2>{}</h2>\n<p>{}</p>", escaped(&one.name()), escaped(one.described()));
    if one.is_repacked_again() {
        return list(out, &one.conditions(synthetic_spot)[..1]);
    }
    let mut lines: Vec<String> = one.changes.iter().map(changed).collect();
    lines.extend(one.moved.iter().flat_map(moves));
    lines.extend(paid(&one.cost));
    lines.extend(caution(&one.difference));
    lines.extend(pods(&report.today, one));
    lines.extend(one.conditions(synthetic_spot));
    if let Some(blocked) = &one.blocked {
        let (heading, causes) = blocks(blocked, &one.cost);
        lines.push(format!("{heading} {}", causes.join("; ")));
    }
    list(out, &lines);
}

fn list(out: &mut String, lines: &[String]) {
    out.push_str("<ul>\n");
    lines.iter().for_each(|line| out.push_str(&format!("<li>{}</li>\n", escaped(line))));
    out.push_str("</ul>\n");
}
