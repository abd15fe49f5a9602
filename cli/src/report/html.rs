//! A report as a self-contained HTML page with inline SVG charts, to be sent.

use crate::html::{self, escaped, header, row};
use nodeless_bill::report::text::{clusters, figures, reserved_table, table, times};
use nodeless_bill::report::{Division, Period, Report, Row};
use nodeless_model::Dollars;
use std::fmt::Write as _;

/// The size of the chart in its own units; the page scales it.
const WIDTH: f64 = 1000.0;
const HEIGHT: f64 = 100.0;
/// How many rows have a colour of their own; the others share one.
const COLOURS: usize = 5;
/// The colours, in light and in dark.
const STYLE: &str = "<style>rect.c0{fill:#1f6feb}rect.c1{fill:#b45309}rect.c2{fill:#15803d}rect.c3{fill:#9333ea}rect.c4{fill:#0e7490}\
rect.c5{fill:#8a93a1}svg.key{display:inline-block;width:.8em;height:.8em}.legend span{margin-right:1rem;display:inline-block;max-width:100%}h1,p{overflow-wrap:anywhere}.plot{margin:.6rem 2.6rem 3.4rem 3.6rem}\
.wide{overflow-x:auto}.wide td{overflow-wrap:normal}.wide td:first-child{min-width:7rem;overflow-wrap:anywhere}.bars svg{width:14rem;max-width:30vw;height:.9em}.bars td:nth-child(n+3){overflow-wrap:normal}.numbers th{text-align:right}.numbers th:first-child{text-align:left}\
@media (prefers-color-scheme: dark){rect.c0{fill:#58a6ff}rect.c1{fill:#f0a34a}rect.c2{fill:#4ade80}rect.c3{fill:#c084fc}\
rect.c4{fill:#22d3ee}rect.c5{fill:#6b7480}}</style>\n";

/// The page.
pub(crate) fn page(report: &Report) -> String {
    let title = format!("What the nodes of {} cost", clusters(report));
    let mut out = format!("{STYLE}<p>{}</p>\n<table>\n", escaped(&times(report)));
    figures(report).iter().for_each(|(name, value)| row(&mut out, &[name, value]));
    out.push_str("</table>\n");
    parts(&mut out, report);
    report.divisions.iter().for_each(|it| division(&mut out, report, it));
    if let Some(lines) = reserved_table(report) {
        out.push_str("<h2>Capacity reservations</h2>\n");
        numbers(&mut out, &lines);
    }
    out.push_str(
        "<p>Prices of EC2 instances, as nodeless knows them: without volumes, traffic, taxes, Savings Plans and discounts. \
         All times are in UTC.</p>\n",
    );
    html::page("report", &title, &out)
}

/// The chart and the table of a division.
fn division(out: &mut String, report: &Report, division: &Division) {
    let _cannot_fail = writeln!(out, "<h2>By {}</h2>", escaped(&division.by));
    chart(out, report, division);
    numbers(out, &table(report, division));
}

/// A table of numbers, whose first row are the headings.
fn numbers(out: &mut String, lines: &[Vec<String>]) {
    out.push_str("<div class=\"wide\"><table class=\"numbers\">\n");
    for (index, line) in lines.iter().enumerate() {
        let cells: Vec<&str> = line.iter().map(String::as_str).collect();
        if index == 0 { header(out, &cells) } else { row(out, &cells) }
    }
    out.push_str("</table></div>\n");
}

/// The colour of a row.
fn colour(names: &[&str], name: &str) -> usize {
    names.iter().position(|it| *it == name).unwrap_or(COLOURS)
}

/// The names of the rows that have a colour of their own.
fn names(rows: &[Row]) -> Vec<&str> {
    let mut names: Vec<&str> = Vec::new();
    for row in rows {
        if names.len() < COLOURS && !names.contains(&row.name.as_str()) {
            names.push(&row.name);
        }
    }
    names
}

/// Dollars of each period, by row.
fn chart(out: &mut String, report: &Report, division: &Division) {
    let sum = |period: &Period| period.rows.iter().map(|row| row.costs.dollars).sum::<f64>();
    let top = division.periods.iter().map(sum).fold(0.0, f64::max);
    let (Some(first), Some(last)) = (division.periods.first(), division.periods.last()) else { return };
    if top <= 0.0 {
        return;
    }
    let names = names(&division.rows);
    let by_hours =
        last.end.duration_since(last.start).as_hours() <= 1 && first.end.duration_since(first.start).as_hours() <= 1;
    let unit = if by_hours { "hour" } else { "day" };
    let _cannot_fail = writeln!(out, "<p>Dollars each {unit}</p>");
    legend(out, &names, division.rows.len() > names.len());
    let _cannot_fail = writeln!(
        out,
        "<div class=\"plot\" role=\"img\" aria-label=\"Dollars each {unit}\">\n<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" \
         preserveAspectRatio=\"none\">"
    );
    let length = report.to.duration_since(report.from).as_secs_f64().max(1.0);
    let place = |at: jiff::Timestamp| at.duration_since(report.from).as_secs_f64() / length * WIDTH;
    for part in [0.0, 0.5, 1.0] {
        let y = HEIGHT * (1.0 - part);
        let _cannot_fail = writeln!(out, "<line x1=\"0\" x2=\"{WIDTH}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>");
    }
    for period in &division.periods {
        bar(out, period, &names, place(period.start), place(period.end), top);
    }
    out.push_str("</svg>\n");
    for part in [0.0, 0.5, 1.0] {
        let _cannot_fail =
            writeln!(out, "<span class=\"y\" style=\"bottom:{:.0}%\">{}</span>", part * 100.0, Dollars(top * part));
    }
    let every = division.periods.len().div_ceil(8).max(1);
    for (index, period) in division.periods.iter().enumerate().step_by(every) {
        let at = period.start.strftime(if by_hours { "%b %-d %H:%M" } else { "%b %-d" });
        let class = if (index / every).is_multiple_of(2) { "x" } else { "x odd" };
        let middle = (place(period.start) + place(period.end)) / 2.0 / WIDTH * 100.0;
        let _cannot_fail = writeln!(out, "<span class=\"{class}\" style=\"left:{middle:.2}%\">{at}</span>");
    }
    out.push_str("</div>\n");
}

/// The parts of a bar, one on the other: first the rows with a colour, then the rest.
fn bar(out: &mut String, period: &Period, names: &[&str], left: f64, right: f64, top: f64) {
    let mut parts = [0.0; COLOURS + 1];
    for row in &period.rows {
        parts[colour(names, &row.name)] += row.costs.dollars;
    }
    let mut below = 0.0;
    let width = ((right - left) * 0.86).max(0.5);
    for (index, dollars) in parts.into_iter().enumerate().filter(|(_, dollars)| *dollars > 0.0) {
        let height = dollars / top * HEIGHT;
        below += height;
        let name = names.get(index).copied().unwrap_or("others");
        let _cannot_fail = writeln!(
            out,
            "<rect class=\"c{index}\" x=\"{left:.2}\" y=\"{:.2}\" width=\"{width:.2}\" height=\"{height:.2}\"><title>{} {} {}</title></rect>",
            HEIGHT - below,
            period.start.strftime("%Y-%m-%d %H:%M"),
            escaped(name),
            Dollars(dollars)
        );
    }
}

fn legend(out: &mut String, names: &[&str], others: bool) {
    let key = |index: usize, name: &str| {
        format!(
            "<span><svg class=\"key\" viewBox=\"0 0 1 1\"><rect class=\"c{index}\" width=\"1\" height=\"1\"/></svg> {}</span>",
            escaped(name)
        )
    };
    let mut all: Vec<String> = names.iter().enumerate().map(|(index, name)| key(index, name)).collect();
    if others {
        all.push(key(COLOURS, "others"));
    }
    let _cannot_fail = writeln!(out, "<p class=\"legend\">{}</p>", all.concat());
}

/// The costs by use.
fn parts(out: &mut String, report: &Report) {
    let costs = &report.totals.costs;
    if costs.dollars <= 0.0 {
        return;
    }
    out.push_str("<h2>What it was for</h2>\n<table class=\"bars\">\n");
    let parts = [
        ("requested by pods", report.totals.requested_dollars),
        ("idle", costs.idle_dollars),
        ("starting", costs.starting_dollars),
        ("terminating", costs.terminating_dollars),
    ];
    for (index, (name, dollars)) in parts.into_iter().enumerate() {
        let share = dollars / costs.dollars;
        let _cannot_fail = writeln!(
            out,
            "<tr><td>{name}</td><td><svg viewBox=\"0 0 1 1\" preserveAspectRatio=\"none\" role=\"img\" aria-label=\"{:.1}%\">\
             <rect class=\"c{index}\" width=\"{share:.4}\" height=\"1\"/></svg></td><td>{}</td><td>{:.1}%</td></tr>",
            share * 100.0,
            Dollars(dollars),
            share * 100.0
        );
    }
    out.push_str("</table>\n");
}
