//! The report of a simulation as text.

use crate::plural::counted;
use nodeless_driver::simulation::{Report, Sample};
use nodeless_model::Dollars;
use nodeless_model::money::amount;
use std::fmt::Write as _;

/// The maximum number of lines of figures over time.
const LINES: usize = 25;
/// The maximum number of violations that are printed.
const VIOLATIONS: usize = 10;

/// The report.
pub(crate) fn page(report: &Report, replay: &str) -> String {
    let mut out = format!("{}, seed {}, {}\n", report.scenario, report.seed, counted(hours(report), "hour"));
    if !report.description.is_empty() {
        out.push_str(&format!("{}\n", report.description));
    }
    out.push_str("\n  time (UTC)        nodes   spot    pods  pending     $/hour  evictions\n");
    for sample in thinned(&report.samples, LINES) {
        let _cannot_fail = writeln!(
            out,
            "  {}  {:5}  {:5}  {:6}  {:7}  {:>9}  {:9}",
            sample.at.strftime("%Y-%m-%d %H:%M"),
            sample.nodes,
            sample.spot_nodes,
            sample.running_pods,
            sample.pending_pods,
            amount(sample.dollars_per_hour),
            sample.evictions,
        );
    }
    let _cannot_fail = writeln!(
        out,
        "\n  Nodes and running pods at that time, the price of the nodes, and evictions since the start. The cost is that of {}:\n  \
         later lines show whether the cluster becomes quiescent.\n",
        counted(hours(report), "hour")
    );
    for (what, value) in summary(report) {
        let _cannot_fail = writeln!(out, "  {what:34} {value}");
    }
    out.push('\n');
    if let Some(at) = report.interrupted {
        let _cannot_fail = writeln!(out, "Interrupted at {at}; the checks at the end of a run were left out.");
    }
    if report.holds() {
        out.push_str("Every invariant holds.\n");
        return out;
    }
    let _cannot_fail = writeln!(out, "{}:", counted(report.violations.len(), "invariant violation"));
    for violation in report.violations.iter().take(VIOLATIONS) {
        let _cannot_fail = writeln!(out, "  {}  {}: {}", violation.at, violation.invariant, violation.detail);
    }
    let _cannot_fail = writeln!(out, "To repeat the run: {replay}");
    out
}

fn hours(report: &Report) -> usize {
    usize::try_from(report.hours).unwrap_or(usize::MAX)
}

/// The figures of the run, with their names.
pub(crate) fn summary(report: &Report) -> Vec<(&'static str, String)> {
    let waits = &report.waits;
    let evictions: u64 = report.evictions.values().sum();
    let reasons: Vec<String> = report.evictions.iter().map(|(reason, count)| format!("{reason} {count}")).collect();
    let why = if reasons.is_empty() { String::new() } else { format!(" ({})", reasons.join(", ")) };
    let most = report.samples.iter().map(|sample| sample.nodes).max().unwrap_or(0);
    vec![
        ("Cost of EC2", Dollars(report.dollars).to_string()),
        ("Pods scheduled", waits.pods.to_string()),
        ("Pods pending at the end", report.samples.last().map_or(0, |sample| sample.pending_pods).to_string()),
        (
            "Time from creation to binding",
            format!(
                "p50 {:.1} s, p90 {:.1} s, p99 {:.1} s, max {:.1} s",
                waits.p50, waits.p90, waits.p99, waits.longest
            ),
        ),
        ("Instances launched", format!("{}, at most {} at a time", report.launched, counted(most, "node"))),
        ("Pods evicted", format!("{evictions}{why}, {} more forcefully deleted", report.forced)),
        ("Plans", format!("{} made, {} failed", report.plans.0, report.plans.1)),
        (
            "Faults",
            format!(
                "{} in calls and messages, {} processes killed, {} writes",
                report.faults, report.killed, report.writes
            ),
        ),
    ]
}

/// At most this number of samples, at equal intervals, with the first one.
fn thinned(samples: &[Sample], most: usize) -> impl Iterator<Item = &Sample> {
    samples.iter().step_by(samples.len().div_ceil(most).max(1))
}
