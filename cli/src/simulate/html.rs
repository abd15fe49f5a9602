//! As a page that needs nothing else: tables, and charts as inline SVG.

use super::text::summary;
use nodeless_controller::simulate::{Report, Sample};
use std::fmt::Write as _;

const STYLE: &str = include_str!("page.css");
/// Size of a chart in its own units; the page scales it.
const WIDTH: f64 = 900.0;
const HEIGHT: f64 = 180.0;
/// Room for the numbers at the left, and for the times below.
const LEFT: f64 = 60.0;
const BELOW: f64 = 22.0;
/// Room at the right for half of the last time.
const RIGHT: f64 = 36.0;
/// The greatest number of notes that are shown.
const NOTES: usize = 300;

/// One line of a chart.
struct Line {
    name: &'static str,
    class: &'static str,
    value: fn(&Sample) -> f64,
}

#[expect(clippy::cast_precision_loss, reason = "numbers of nodes and pods are small")]
const CHARTS: [(&str, &[Line]); 4] = [
    (
        "Nodes",
        &[
            Line { name: "all", class: "a", value: |it| it.nodes as f64 },
            Line { name: "spot", class: "b", value: |it| it.spot_nodes as f64 },
        ],
    ),
    (
        "Pods",
        &[
            Line { name: "running", class: "a", value: |it| it.running_pods as f64 },
            Line { name: "pending", class: "b", value: |it| it.pending_pods as f64 },
        ],
    ),
    ("Dollars per hour", &[Line { name: "EC2", class: "a", value: |it| it.dollars_per_hour }]),
    ("Evictions since the beginning", &[Line { name: "evictions", class: "a", value: |it| it.evictions as f64 }]),
];

/// The page.
pub(crate) fn page(report: &Report, replay: &str) -> String {
    let title = format!("{}, seed {}, {} h", escaped(&report.scenario), report.seed, report.hours);
    let mut out = format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>nodeless simulate: {title}</title>\n\
         <meta name=\"viewport\" content=\"width=device-width\">\n<style>{STYLE}</style></head><body>\n\
         <h1>{title}</h1>\n<p>{}</p>\n<pre>{}</pre>\n",
        escaped(&report.description),
        escaped(replay)
    );
    if report.holds() {
        out.push_str("<p class=\"good\">Everything that must hold held.</p>\n");
    } else {
        out.push_str("<h2>Broken</h2>\n<table>\n");
        for it in &report.violations {
            row(&mut out, &[&it.at.to_string(), it.invariant, &it.detail]);
        }
        out.push_str("</table>\n");
    }
    out.push_str("<h2>Figures</h2>\n<table>\n");
    summary(report).iter().for_each(|(what, value)| row(&mut out, &[what, value]));
    out.push_str("</table>\n");
    out.push_str("<p>Times are in UTC, with the day of the month.</p>\n");
    for (name, lines) in CHARTS {
        chart(&mut out, name, lines, &report.samples);
    }
    out.push_str("<h2>Calls to AWS</h2>\n<table>\n");
    report.calls.iter().for_each(|(api, count)| row(&mut out, &[api, &count.to_string()]));
    out.push_str("</table>\n<h2>What happened from outside</h2>\n<table>\n");
    report.notes.iter().take(NOTES).for_each(|note| row(&mut out, &[&note.at.to_string(), &note.what]));
    out.push_str("</table>\n</body></html>\n");
    out
}

fn row(out: &mut String, cells: &[&str]) {
    out.push_str("<tr>");
    cells.iter().for_each(|cell| out.push_str(&format!("<td>{}</td>", escaped(cell))));
    out.push_str("</tr>\n");
}

/// Text as HTML shows it.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

fn chart(out: &mut String, name: &str, lines: &[Line], samples: &[Sample]) {
    let (Some(first), Some(last)) = (samples.first(), samples.last()) else { return };
    let seconds = |sample: &Sample| sample.at.duration_since(first.at).as_secs_f64();
    let length = seconds(last).max(1.0);
    let values = lines.iter().flat_map(|line| samples.iter().map(line.value));
    let top = round_up(values.fold(0.0, f64::max));
    let x = |sample: &Sample| LEFT + (WIDTH - RIGHT - LEFT) * seconds(sample) / length;
    let y = |value: f64| (HEIGHT - BELOW) * (1.0 - value / top) + 4.0;
    let legend: Vec<String> =
        lines.iter().map(|line| format!("<span class=\"{}\">\u{2501} {}</span>", line.class, line.name)).collect();
    let _cannot_fail = write!(
        out,
        "<h2>{name}</h2>\n<p class=\"legend\">{}</p>\n<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{name}\">\n",
        legend.join(" &nbsp; ")
    );
    for part in [0.0, 0.5, 1.0] {
        let at = y(top * part);
        let _cannot_fail = writeln!(
            out,
            "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{WIDTH}\" y1=\"{at:.1}\" y2=\"{at:.1}\"/>\
             <text x=\"{:.0}\" y=\"{:.1}\" class=\"left\">{}</text>",
            LEFT - 6.0,
            at + 4.0,
            number(top * part)
        );
    }
    for sample in samples.iter().step_by(samples.len().div_ceil(8).max(1)) {
        let _cannot_fail = writeln!(
            out,
            "<text x=\"{:.1}\" y=\"{:.1}\" class=\"below\">{}</text>",
            x(sample),
            HEIGHT - 4.0,
            sample.at.strftime("%d %H:%M")
        );
    }
    for line in lines {
        let points: Vec<String> =
            samples.iter().map(|sample| format!("{:.1},{:.1}", x(sample), y((line.value)(sample)))).collect();
        let _cannot_fail = writeln!(out, "<polyline class=\"{}\" points=\"{}\"/>", line.class, points.join(" "));
    }
    out.push_str("</svg>\n");
}

/// The next of 1, 2, 5, 10, 20, 50 and so on.
fn round_up(value: f64) -> f64 {
    let mut step = 1.0;
    loop {
        for factor in [1.0, 2.0, 5.0] {
            if value <= step * factor {
                return step * factor;
            }
        }
        step *= 10.0;
    }
}

fn number(value: f64) -> String {
    if value.fract() == 0.0 { format!("{value:.0}") } else { format!("{value:.1}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_needs_nothing_else_and_escapes_what_it_shows() {
        let mut report = Report { scenario: "a <b>".to_owned(), hours: 1, ..Report::default() };
        let at: jiff::Timestamp = "2026-03-02T00:00:00Z".parse().unwrap();
        for (minutes, nodes) in [(0, 0), (5, 3)] {
            report.samples.push(Sample {
                at: at + jiff::SignedDuration::from_mins(minutes),
                nodes,
                spot_nodes: 0,
                running_pods: nodes,
                pending_pods: 0,
                dollars_per_hour: 0.3,
                evictions: 0,
            });
        }
        let page = page(&report, "nodeless simulate");
        assert!(page.contains("a &lt;b&gt;") && !page.contains("<b>"));
        assert!(!page.contains("http://") && !page.contains("https://") && !page.contains("<script"));
        assert_eq!(page.matches("<svg").count(), CHARTS.len());
        assert_eq!((round_up(0.0), round_up(3.0), round_up(11.0)), (1.0, 5.0, 20.0));
    }
}
