//! The text output of `--what-if`.

use super::evaluate::Alternative;
use super::report::WhatIfReport;
use super::words::{blocks, caution, changed, heading, line, moves, paid, pods};

/// The table, what makes the differences, and the assumptions.
pub(super) fn render(report: &WhatIfReport, synthetic_spot: bool) -> String {
    let mut lines = table(report);
    lines.extend(paid(&report.today).map(|paid| format!("\ntoday: {paid}")));
    lines.extend(report.today.commitments_used.iter().map(|used| format!("  {}", used.text())));
    for alternative in &report.alternatives {
        lines.push(String::new());
        lines.push(format!("{}: {}", alternative.name(), alternative.described()));
        lines.extend(details(report, alternative, synthetic_spot).iter().map(|line| format!("  {line}")));
    }
    lines.push(String::new());
    lines.extend(report.assumptions.iter().cloned());
    lines.join("\n") + "\n"
}

fn details(report: &WhatIfReport, alternative: &Alternative, synthetic_spot: bool) -> Vec<String> {
    if alternative.is_repacked_again() {
        return alternative.conditions(synthetic_spot).into_iter().take(1).collect();
    }
    let mut lines: Vec<String> = alternative.changes.iter().map(changed).collect();
    if lines.is_empty() {
        lines.push("the same nodes as today".to_owned());
    }
    lines.extend(alternative.moved.iter().flat_map(moves));
    lines.extend(paid(&alternative.cost));
    lines.extend(caution(&alternative.difference));
    lines.extend(pods(&report.today, alternative));
    lines.extend(alternative.conditions(synthetic_spot));
    if let Some(blocked) = &alternative.blocked {
        let (heading, causes) = blocks(blocked, &alternative.cost);
        lines.push(heading);
        lines.extend(causes.into_iter().map(|cause| format!("  {cause}")));
    }
    lines
}

fn table(report: &WhatIfReport) -> Vec<String> {
    let head: Vec<String> = heading(&report.today).into_iter().map(str::to_owned).collect();
    let columns = head.len();
    let mut rows = vec![head, line("today", &report.today, None)];
    rows.extend(report.alternatives.iter().map(|one| line(&one.name(), &one.cost, Some(&one.difference))));
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let aligned = |row: &Vec<String>| {
        let cells = row.iter().zip(&widths).enumerate().map(|(column, (cell, width))| match column {
            0 => format!("{cell:width$}"),
            _ => format!("{cell:>width$}"),
        });
        cells.collect::<Vec<_>>().join("  ")
    };
    rows.iter().map(aligned).collect()
}
