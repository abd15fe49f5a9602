//! As text.

use crate::local::counted;
use nodeless_driver::simulation::{Report, Sample};
use std::fmt::Write as _;

/// The greatest number of lines of figures over time.
const LINES: usize = 25;
/// The greatest number of violations that are printed.
const VIOLATIONS: usize = 10;

/// The whole output.
pub(crate) fn page(report: &Report, replay: &str) -> String {
    let mut out = format!("{}, seed {}, {}\n", report.scenario, report.seed, counted(hours(report), "hour"));
    if !report.description.is_empty() {
        out.push_str(&format!("{}\n", report.description));
    }
    out.push_str("\n  time (UTC)        nodes   spot    pods  pending     $/hour  evictions\n");
    for sample in thinned(&report.samples, LINES) {
        let _cannot_fail = writeln!(
            out,
            "  {}  {:5}  {:5}  {:6}  {:7}  {:9.3}  {:9}",
            sample.at.strftime("%Y-%m-%d %H:%M"),
            sample.nodes,
            sample.spot_nodes,
            sample.running_pods,
            sample.pending_pods,
            sample.dollars_per_hour,
            sample.evictions,
        );
    }
    out.push_str("\n  Nodes and running pods at that moment, what EC2 takes for the nodes, and evictions since the beginning\n\n");
    for (what, value) in summary(report) {
        let _cannot_fail = writeln!(out, "  {what:34} {value}");
    }
    out.push('\n');
    if report.holds() {
        out.push_str("Every invariant held.\n");
        return out;
    }
    let _cannot_fail = writeln!(out, "{} broken:", counted(report.violations.len(), "invariant"));
    for violation in report.violations.iter().take(VIOLATIONS) {
        let _cannot_fail = writeln!(out, "  {}  {}: {}", violation.at, violation.invariant, violation.detail);
    }
    let _cannot_fail = writeln!(out, "Repeat it with: {replay}");
    out
}

fn hours(report: &Report) -> usize {
    usize::try_from(report.hours).unwrap_or(usize::MAX)
}

/// The figures of the whole run, each with its name.
pub(crate) fn summary(report: &Report) -> Vec<(&'static str, String)> {
    let waits = &report.waits;
    let evictions: u64 = report.evictions.values().sum();
    let reasons: Vec<String> = report.evictions.iter().map(|(reason, count)| format!("{reason} {count}")).collect();
    let why = if reasons.is_empty() { String::new() } else { format!(" ({})", reasons.join(", ")) };
    let most = report.samples.iter().map(|sample| sample.nodes).max().unwrap_or(0);
    vec![
        ("Spent on EC2", format!("${:.2}", report.dollars)),
        ("Pods that got a node", waits.pods.to_string()),
        ("Pods that wait at the end", report.samples.last().map_or(0, |sample| sample.pending_pods).to_string()),
        (
            "From created to bound",
            format!(
                "half within {:.1} s, 90% {:.1} s, 99% {:.1} s, all {:.1} s",
                waits.p50, waits.p90, waits.p99, waits.longest
            ),
        ),
        ("Instances launched", format!("{}, at most {most} nodes at once", report.launched)),
        ("Pods evicted", format!("{evictions}{why}, {} more by force", report.forced)),
        ("Plans", format!("{} made, {} failed", report.plans.0, report.plans.1)),
        (
            "Faults",
            format!(
                "{} of calls or messages, {} processes killed, in {} writes",
                report.faults, report.killed, report.writes
            ),
        ),
    ]
}

/// So many samples at most, evenly, the first among them.
fn thinned(samples: &[Sample], most: usize) -> impl Iterator<Item = &Sample> {
    samples.iter().step_by(samples.len().div_ceil(most).max(1))
}
