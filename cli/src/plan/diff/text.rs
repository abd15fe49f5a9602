//! The text output of `--diff`.

use super::bounded::{Bounded, bounded};
use super::report::DiffReport;
use super::words::{AT_MAXIMUM, HEADING, NAMES, names, numbers, objects, total};
use crate::plan::report::Unschedulable;
use crate::plan::text::by_reason;
use crate::plan::wording::text_parts::shortened;
use crate::plural::counted;

/// The maximum number of rows, objects and groups of pods.
const MAX_ITEMS: usize = 100;
/// The maximum bytes of each list.
const MAX_BYTES: usize = 64 * 1024;

/// The headline, the table, what changed, and the pods that become unschedulable with the reasons.
pub(super) fn render(report: &DiffReport) -> String {
    let mut lines = vec![report.headline.clone(), String::new()];
    lines.extend(table(report));
    let heading = |lines: &mut Vec<String>, text: &str| lines.extend([String::new(), text.to_owned()]);
    heading(&mut lines, "what changed");
    let changed = objects(report, &str::to_owned);
    if changed.is_empty() {
        lines.push("  nothing that planning uses".to_owned());
    }
    list(&mut lines, changed.into_iter().map(|line| format!("  {line}")).collect(), "object");
    if !report.not_planned.is_empty() {
        heading(&mut lines, "not planned, though pods would be created");
        list(&mut lines, report.not_planned.iter().map(|object| format!("  {object}")).collect(), "object");
    }
    if !report.become_unschedulable.is_empty() {
        heading(&mut lines, "pods that become unschedulable");
        let groups = by_reason(&report.become_unschedulable);
        list(&mut lines, groups.iter().map(|(first, pods)| group(first, pods)).collect(), "group");
    }
    let others = [
        ("pods that become schedulable", &report.become_schedulable),
        ("unschedulable pods that are removed", &report.removed_unschedulable),
    ];
    for (what, pods) in others.into_iter().filter(|(_, pods)| !pods.is_empty()) {
        heading(&mut lines, what);
        lines.push(format!("  {}", shortened(&pods.iter().map(String::as_str).collect::<Vec<_>>())));
    }
    lines.push(String::new());
    lines.extend(report.assumptions.iter().cloned());
    lines.join("\n") + "\n"
}

fn list(lines: &mut Vec<String>, items: Vec<String>, what: &str) {
    let Bounded { shown, left_out } = bounded(items, MAX_ITEMS, MAX_BYTES);
    lines.extend(shown);
    if left_out > 0 {
        lines.push(format!("  and {}; -o json has all", counted(left_out, &format!("more {what}"))));
    }
}

fn group(first: &Unschedulable, pods: &[&str]) -> String {
    let mut lines = vec![format!("  {}", shortened(pods))];
    lines.extend(first.reasons.iter().chain(&first.obstacle).map(|reason| format!("    {reason}")));
    for (index, remedy) in first.remedies.iter().enumerate() {
        lines.push(format!("    {} {remedy}", if index == 0 { "to schedule:" } else { "or:" }));
    }
    lines.join("\n")
}

fn table(report: &DiffReport) -> Vec<String> {
    let (differ, sum, same) = report.split_groups();
    let mut rows = vec![HEADING.map(str::to_owned)];
    let row = |names: [String; NAMES], numbers: [String; 5]| {
        let mut cells = names.into_iter().chain(numbers);
        HEADING.map(|_| cells.next().unwrap_or_default())
    };
    let given = |name: Option<String>| name.unwrap_or_else(|| "-".to_owned());
    rows.extend(differ.iter().take(MAX_ITEMS).map(|one| row(names(one).map(given), numbers(one.before, one.after))));
    let label = |text: String| [text, String::new(), String::new()];
    if same > 0 {
        rows.push(row(label(format!("{} without a change", counted(same, "group"))), numbers(sum, sum)));
    }
    rows.push(row(label("all".to_owned()), numbers(total(&report.before), total(&report.after))));
    if let Some(most) = &report.maximum {
        rows.push(row(label(AT_MAXIMUM.to_owned()), numbers(total(&most.before), total(&most.after))));
    }
    let mut lines = aligned(&rows);
    if let Some(more) = differ.len().checked_sub(MAX_ITEMS + 1) {
        lines.push(format!("and {}; -o json has all", counted(more + 1, "more group")));
    }
    lines
}

/// Names are aligned to the left, numbers to the right.
fn aligned(rows: &[[String; HEADING.len()]]) -> Vec<String> {
    let widths = std::array::from_fn::<usize, { HEADING.len() }, _>(|column| {
        rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0)
    });
    let line = |row: &[String; HEADING.len()]| {
        let cells = row.iter().zip(widths).enumerate().map(|(column, (cell, width))| match column {
            0..NAMES => format!("{cell:width$}"),
            _ => format!("{cell:>width$}"),
        });
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    rows.iter().map(line).collect()
}
