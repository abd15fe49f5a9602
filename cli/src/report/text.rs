//! A report as text.

use nodeless_bill::report::{By, Report, Row};
use nodeless_model::{Dollars, DollarsPerHour};
use std::fmt::Write as _;

/// What the report is about, and the figures.
pub(crate) fn summary(report: &Report) -> String {
    let mut text = format!("Nodes of cluster {}, {}\n\n", report.cluster, times(report));
    let figures = figures(report);
    let width = figures.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    for (name, value) in &figures {
        let _cannot_fail = writeln!(text, "  {name:<width$}  {value}");
    }
    text.push('\n');
    text
}

/// The table.
pub(crate) fn rows(report: &Report) -> String {
    aligned(&table(report))
}

/// The time of a report.
pub(crate) fn times(report: &Report) -> String {
    let of = |at: jiff::Timestamp| at.strftime("%Y-%m-%d %H:%M").to_string();
    let since = report.recorded_since.map(|since| format!(" (recorded since {})", of(since))).unwrap_or_default();
    format!("{} to {} UTC{since}", of(report.from), of(report.to))
}

/// The figures of all nodes together, with names.
pub(crate) fn figures(report: &Report) -> Vec<(String, String)> {
    let totals = &report.totals;
    let costs = &totals.costs;
    let of = |dollars: f64| format!("{}{}", Dollars(dollars), percent(dollars, costs.dollars));
    let mut lines = vec![
        ("spent", format!("{}, on-demand {}", Dollars(costs.dollars), Dollars(costs.on_demand_dollars))),
        ("requested by pods", of(totals.requested_dollars)),
        ("idle", of(costs.idle_dollars)),
        ("starting", of(costs.starting_dollars)),
        ("terminating", of(costs.terminating_dollars)),
    ];
    if totals.unpriced_node_hours > 0.0 {
        lines.push((
            "without a price",
            format!("{:.1} node hours, which are not in these amounts", totals.unpriced_node_hours),
        ));
    }
    let spot = totals.spot;
    if spot.node_hours > 0.0 {
        lines.push(("saved by spot", format!("{} in {:.1} node hours", Dollars(spot.saved_dollars), spot.node_hours)));
    }
    if totals.reserved.node_hours > 0.0 {
        let reserved = totals.reserved;
        lines.push((
            "reserved",
            format!(
                "{:.1} node hours, {} on-demand; AWS bills the reservation",
                reserved.node_hours,
                Dollars(reserved.on_demand_dollars)
            ),
        ));
    }
    let removed = totals.consolidation;
    if removed.nodes > 0 {
        lines.push((
            "consolidation",
            format!(
                "{} removed, {} less; had they stayed until the end of this time, {}",
                crate::plural::counted(removed.nodes as usize, "node"),
                DollarsPerHour(removed.dollars_per_hour),
                Dollars(removed.dollars_until_the_end)
            ),
        ));
    }
    let interrupted = totals.interruptions;
    if interrupted.nodes > 0 || interrupted.dollars > 0.0 {
        let nodes = crate::plural::counted(interrupted.nodes as usize, "node");
        lines.push(("interruptions", format!("{nodes}, {} from the notice to the end", Dollars(interrupted.dollars))));
    }
    let mut lines: Vec<(String, String)> = lines.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    lines.extend(report.budgets.iter().map(|budget| {
        let whose = budget.node_pool.as_ref().map(|pool| format!(" of NodePool {pool}")).unwrap_or_default();
        let warning = match budget.warning {
            Some("exceeded") => ": exceeded",
            Some(_) => ": exceeded at this pace",
            None => "",
        };
        let spent = match budget.dollars_at_this_pace {
            Some(pace) => format!("this month {}, at this pace {}", Dollars(budget.dollars), Dollars(pace)),
            None => format!("{} {}", budget.month.strftime("%Y-%m"), Dollars(budget.dollars)),
        };
        let value = format!("{} a month; {spent}{warning}", Dollars(budget.dollars_per_month));
        (format!("budget{whose}"), value)
    }));
    lines
}

/// The headings and the rows.
pub(crate) fn table(report: &Report) -> Vec<Vec<String>> {
    let by: Option<By> = report.by.parse().ok();
    let of_pods = matches!(by, Some(By::Namespace | By::Controller | By::Label(_)));
    let of_types = by == Some(By::Type);
    let mut headings = vec![report.by.to_uppercase()];
    match of_pods {
        true => headings.extend(["DOLLARS", "SHARE", "VCPU HOURS", "GIB HOURS", "GPU HOURS"].map(str::to_owned)),
        false if of_types => {
            let all = ["ZONE", "CAPACITY TYPE", "NODE HOURS", "DOLLARS", "SHARE", "ON-DEMAND"];
            headings.extend(all.map(str::to_owned));
        }
        false => headings.extend(["NODE HOURS", "DOLLARS", "SHARE", "ON-DEMAND", "IDLE"].map(str::to_owned)),
    }
    if let Some(By::Label(key)) = &by {
        headings[0] = key.clone();
    }
    let total = report.totals.costs.dollars;
    let mut lines = vec![headings];
    lines.extend(report.rows.iter().map(|row| cells(row, total, of_pods, of_types)));
    lines
}

fn cells(row: &Row, total: f64, of_pods: bool, of_types: bool) -> Vec<String> {
    let costs = &row.costs;
    let share = if total > 0.0 { format!("{:.1}%", costs.dollars / total * 100.0) } else { "-".to_owned() };
    let hours = |value: f64| format!("{value:.1}");
    let mut cells = vec![row.name.clone()];
    if of_pods {
        let asked = costs.requested;
        cells.extend([money(costs.dollars), share, hours(asked.cpu), hours(asked.memory), hours(asked.gpu)]);
        return cells;
    }
    if of_types {
        cells.push(row.zone.clone().unwrap_or_default());
        cells.push(row.capacity_type.map(|kind| kind.to_string()).unwrap_or_default());
    }
    cells.extend([hours(costs.node_hours), money(costs.dollars), share, money(costs.on_demand_dollars)]);
    if !of_types {
        cells.push(money(costs.idle_dollars));
    }
    cells
}

fn money(dollars: f64) -> String {
    Dollars(dollars).to_string()
}

fn percent(part: f64, whole: f64) -> String {
    if whole > 0.0 { format!(" ({:.1}%)", part / whole * 100.0) } else { String::new() }
}

/// Columns: the first and those of text to the left, numbers to the right.
fn aligned(rows: &[Vec<String>]) -> String {
    let columns = rows.first().map_or(0, Vec::len);
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let is_number = |column: usize| {
        column > 0
            && rows.iter().skip(1).all(|row| row[column].starts_with(|first: char| "$-0123456789".contains(first)))
    };
    let mut text = String::new();
    for row in rows {
        let cell = |(column, cell): (usize, &String)| {
            let space = " ".repeat(widths[column] - cell.chars().count());
            if is_number(column) { format!("{space}{cell}") } else { format!("{cell}{space}") }
        };
        let cells: Vec<String> = row.iter().enumerate().map(cell).collect();
        text.push_str(cells.join("  ").trim_end());
        text.push('\n');
    }
    text
}
