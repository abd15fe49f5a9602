//! The report of a simulation as a self-contained HTML page with tables and inline SVG charts.

use super::text::summary;
use crate::html::{self, escaped, row};
use jiff::Timestamp;
use nodeless_driver::simulation::{Report, Sample};
use std::fmt::Write as _;

/// The size of a chart in its own units; the page scales it.
const WIDTH: f64 = 1000.0;
const HEIGHT: f64 = 100.0;
/// The maximum number of external events that are shown.
const NOTES: usize = 300;
/// The possible intervals of the time axis, in minutes.
const MINUTES: [i64; 13] = [1, 5, 10, 15, 30, 60, 120, 180, 360, 720, 1440, 7 * 1440, 28 * 1440];

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
    ("Evictions since the start", &[Line { name: "evictions", class: "a", value: |it| it.evictions as f64 }]),
];

/// The page.
pub(crate) fn page(report: &Report, replay: &str) -> String {
    let title = format!("{}, seed {}, {} h", report.scenario, report.seed, report.hours);
    let mut out = format!("<p>{}</p>\n<pre>{}</pre>\n", escaped(&report.description), escaped(replay));
    if report.holds() {
        out.push_str("<p class=\"good\">Every invariant holds.</p>\n");
    } else {
        out.push_str("<h2 class=\"bad\">Violations</h2>\n<table class=\"log\">\n");
        for it in &report.violations {
            row(&mut out, &[&moment(it.at), it.invariant, &it.detail]);
        }
        out.push_str("</table>\n");
    }
    out.push_str("<h2>Figures</h2>\n<table>\n");
    summary(report).iter().for_each(|(what, value)| row(&mut out, &[what, value]));
    out.push_str("</table>\n");
    out.push_str("<p>All times are in UTC.</p>\n");
    for (name, lines) in CHARTS {
        chart(&mut out, name, lines, &report.samples);
    }
    out.push_str("<h2>AWS API calls</h2>\n<table class=\"numbers\">\n");
    report.calls.iter().for_each(|(api, count)| row(&mut out, &[api, &count.to_string()]));
    out.push_str("</table>\n<h2>External events</h2>\n<table class=\"log\">\n");
    report.notes.iter().take(NOTES).for_each(|note| row(&mut out, &[&moment(note.at), &note.what]));
    out.push_str("</table>\n");
    if let Some(more) = report.notes.len().checked_sub(NOTES).filter(|more| *more > 0) {
        out.push_str(&format!("<p>{more} more are not shown.</p>\n"));
    }
    html::page("simulate", &title, &out)
}

/// To the second.
fn moment(at: Timestamp) -> String {
    at.strftime("%Y-%m-%d %H:%M:%S").to_string()
}

fn chart(out: &mut String, name: &str, lines: &[Line], samples: &[Sample]) {
    let (Some(first), Some(last)) = (samples.first(), samples.last()) else { return };
    let length = last.at.duration_since(first.at).as_secs_f64().max(1.0);
    let place = |at: Timestamp| at.duration_since(first.at).as_secs_f64() / length;
    let values = lines.iter().flat_map(|line| samples.iter().map(line.value));
    let top = round_up(values.fold(0.0, f64::max));
    let legend: Vec<String> =
        lines.iter().map(|line| format!("<span class=\"{}\">\u{2501} {}</span>", line.class, line.name)).collect();
    let legend =
        if lines.len() > 1 { format!("<p class=\"legend\">{}</p>\n", legend.join(" &nbsp; ")) } else { String::new() };
    let _cannot_fail = write!(
        out,
        "<h2>{name}</h2>\n{legend}<div class=\"plot\" role=\"img\" aria-label=\"{name} over time\">\n\
         <svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" preserveAspectRatio=\"none\">\n"
    );
    for part in [0.0, 0.5, 1.0] {
        let y = HEIGHT * (1.0 - part);
        let _cannot_fail = writeln!(out, "<line x1=\"0\" x2=\"{WIDTH}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>");
    }
    for line in lines {
        let point = |sample: &Sample| {
            format!("{:.1},{:.1}", WIDTH * place(sample.at), HEIGHT * (1.0 - (line.value)(sample) / top))
        };
        let points: Vec<String> = samples.iter().map(point).collect();
        let _cannot_fail = writeln!(out, "<polyline class=\"{}\" points=\"{}\"/>", line.class, points.join(" "));
    }
    out.push_str("</svg>\n");
    for part in [0.0, 0.5, 1.0] {
        let value = number(top * part);
        let _cannot_fail = writeln!(out, "<span class=\"y\" style=\"bottom:{:.0}%\">{value}</span>", part * 100.0);
    }
    for (index, at) in ticks(first.at, last.at).into_iter().enumerate() {
        // On narrow screens every other label is hidden.
        let class = if index % 2 == 0 { "x" } else { "x odd" };
        let _cannot_fail =
            writeln!(out, "<span class=\"{class}\" style=\"left:{:.2}%\">{}</span>", 100.0 * place(at), time(at));
    }
    out.push_str("</div>\n");
}

/// At most nine round times between two times, with the smallest possible interval.
fn ticks(first: Timestamp, last: Timestamp) -> Vec<Timestamp> {
    let length = last.as_second() - first.as_second();
    let mut steps = MINUTES.iter().map(|minutes| minutes * 60);
    let step = steps.clone().find(|step| length / step < 9).or_else(|| steps.next_back()).unwrap_or(1);
    let from = first.as_second().div_euclid(step) + i64::from(first.as_second().rem_euclid(step) > 0);
    let times = (from..).map(|number| number * step).take_while(|second| *second <= last.as_second());
    times.filter_map(|second| Timestamp::from_second(second).ok()).collect()
}

/// The time of day, or the date at midnight.
fn time(at: Timestamp) -> String {
    let midnight = at.as_second().rem_euclid(24 * 3600) == 0;
    at.strftime(if midnight { "%b %-d" } else { "%H:%M" }).to_string()
}

/// The next round number whose half is round too.
fn round_up(value: f64) -> f64 {
    let mut step = if value > 0.0 { 0.01 } else { 1.0 };
    loop {
        for factor in [1.0, 2.0, 4.0, 6.0, 8.0] {
            if value <= step * factor {
                return step * factor;
            }
        }
        step *= 10.0;
    }
}

fn number(value: f64) -> String {
    let text = format!("{value:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_self_contained_and_escapes_text() {
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
        assert_eq!((round_up(0.0), round_up(3.0), round_up(11.0)), (1.0, 4.0, 20.0));
        assert_eq!([number(round_up(0.31) / 2.0), number(20.0), number(0.0)], ["0.2", "20", "0"]);
    }

    #[test]
    fn the_time_axis_has_few_and_round_times() {
        let at = |text: &str| text.parse::<jiff::Timestamp>().unwrap();
        let labels = |first: &str, last: &str| ticks(at(first), at(last)).into_iter().map(time).collect::<Vec<_>>();
        assert_eq!(
            labels("2026-03-02T00:00:00Z", "2026-03-02T01:00:00Z").join(" "),
            "Mar 2 00:10 00:20 00:30 00:40 00:50 01:00"
        );
        let day = "Mar 2 03:00 06:00 09:00 12:00 15:00 18:00 21:00 Mar 3";
        assert_eq!(labels("2026-03-02T00:00:00Z", "2026-03-03T00:00:00Z").join(" "), day);
        assert_eq!(labels("2026-03-02T07:31:00Z", "2026-03-02T07:33:00Z"), ["07:31", "07:32", "07:33"]);
        assert!(labels("2026-03-02T07:31:00Z", "2027-03-02T07:31:00Z").len() <= 14);
    }
}
