//! A report as text: for a terminal, and for a message of a limited size.

use super::columns::aligned;
use super::{BudgetReport, By, Division, Report, ReservedRow, Row, Totals, Volumes};
use jiff::Timestamp;
use nodeless_model::plural::counted;
use nodeless_model::{Dollars, DollarsPerHour};

/// What the report is about, and the figures.
#[must_use]
pub fn summary(report: &Report) -> String {
    heading(report) + &lines(report).concat()
}

/// What the report is about.
fn heading(report: &Report) -> String {
    format!("Nodes of {}, {}\n\n", clusters(report), times(report))
}

/// The figures, a line each.
fn lines(report: &Report) -> Vec<String> {
    let figures = figures(report);
    let width = figures.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    figures.iter().map(|(name, value)| format!("  {name:<width$}  {value}\n")).collect()
}

/// The tables: one for each division, and that of capacity reservations.
#[must_use]
pub fn tables(report: &Report) -> String {
    rows(report).concat()
}

/// The summary and the tables, in at most this number of bytes. The last rows are left out where they do not fit, which a sentence
/// states, with the command that prints all.
#[must_use]
pub fn within(report: &Report, bytes: usize, command: &str) -> String {
    let mut text = heading(report);
    let rows: Vec<String> = lines(report).into_iter().chain(rows(report)).collect();
    if text.len() + rows.iter().map(String::len).sum::<usize>() <= bytes {
        return text + &rows.concat();
    }
    let left_out = |count: usize| {
        let (rows, verb) = (counted(count, "row"), if count == 1 { "is" } else { "are" });
        format!(
            "\n{rows} {verb} left out, because a message has at most {bytes} bytes. This command prints all:\n{command}\n"
        )
    };
    let free = bytes.saturating_sub(left_out(rows.len()).len());
    let mut left = rows.len();
    for row in rows {
        if text.len() + row.len() > free {
            break;
        }
        text.push_str(&row);
        left -= 1;
    }
    text + &left_out(left)
}

/// A subject of at most this number of ASCII characters: the clusters, whose names are shortened where they do not fit, what was spent,
/// and the days.
#[must_use]
pub fn subject(report: &Report, characters: usize) -> String {
    let spent = report.totals.costs.dollars;
    let grown = report.before.dollars.map(|before| grown(spent, before)).unwrap_or_default();
    let day = |at: Timestamp| at.strftime("%Y-%m-%d");
    let costs = format!(": {}{grown}, {} to {}", Dollars(spent), day(report.from), day(report.to));
    let about: String = format!("nodeless: {}", clusters(report))
        .chars()
        .map(|letter| if letter == ' ' || letter.is_ascii_graphic() { letter } else { '?' })
        .collect();
    let free = characters.saturating_sub(costs.len());
    if about.len() <= free {
        return about + &costs;
    }
    format!("{}...{costs}", &about[..free.saturating_sub(3).min(about.len())])
}

/// The rows of the tables. The first of a table contains its headings.
fn rows(report: &Report) -> Vec<String> {
    let rows = |table: Vec<Vec<String>>| {
        let mut rows = aligned(&table).into_iter();
        let headings = format!("\n{}", rows.next().unwrap_or_default());
        let first = headings + &rows.next().unwrap_or_default();
        [first].into_iter().chain(rows).collect::<Vec<_>>()
    };
    let divisions = report.divisions.iter().map(|division| table(report, division));
    divisions.chain(reserved_table(report)).flat_map(rows).collect()
}

/// The headings and the rows of instances in capacity reservations; `None` if there were none.
#[must_use]
pub fn reserved_table(report: &Report) -> Option<Vec<Vec<String>>> {
    let headings = ["RESERVED", "ZONE", "NODEPOOL", "NODE HOURS", "ON-DEMAND"].map(str::to_owned).to_vec();
    let row = |row: &ReservedRow| {
        let names = [&row.instance_type, &row.zone, &row.node_pool].map(Clone::clone);
        let numbers = [format!("{:.1}", row.node_hours), money(row.on_demand_dollars)];
        names.into_iter().chain(numbers).collect()
    };
    let rows = report.reserved.iter().map(row);
    (!report.reserved.is_empty()).then(|| [headings].into_iter().chain(rows).collect())
}

/// The clusters of a report.
#[must_use]
pub fn clusters(report: &Report) -> String {
    let names: Vec<&str> = report.clusters.iter().map(|cluster| cluster.name.as_str()).collect();
    format!("cluster{} {}", if names.len() == 1 { "" } else { "s" }, names.join(", "))
}

/// The time of a report, and which clusters are recorded for a part of it only.
#[must_use]
pub fn times(report: &Report) -> String {
    let late: Vec<String> = report
        .clusters
        .iter()
        .filter(|cluster| cluster.recorded_since > report.from)
        .map(|cluster| {
            let whose = if report.clusters.len() == 1 { String::new() } else { format!("{} is ", cluster.name) };
            format!("{whose}recorded since {}", minute(cluster.recorded_since))
        })
        .collect();
    let late = if late.is_empty() { String::new() } else { format!(" ({})", late.join(", ")) };
    format!("{} to {} UTC{late}", minute(report.from), minute(report.to))
}

fn minute(at: Timestamp) -> String {
    at.strftime("%Y-%m-%d %H:%M").to_string()
}

/// The figures of all nodes together, with names.
#[must_use]
pub fn figures(report: &Report) -> Vec<(String, String)> {
    let spent = spent(&report.totals).into_iter();
    let mut lines: Vec<(String, String)> = spent.map(|(name, value)| (name.to_owned(), value)).collect();
    let of_cluster = |name: &str| if report.clusters.len() == 1 { String::new() } else { format!(" of {name}") };
    lines.extend(report.inexact.iter().map(|hours| {
        let times = format!("{} to {}", minute(hours.from), minute(hours.to));
        (
            format!("not exact{}", of_cluster(&hours.cluster)),
            format!("{times}: recorded late, without the times of nodes that ended meanwhile"),
        )
    }));
    lines.push(("change".to_owned(), change(report)));
    if let Some(forecast) = &report.forecast {
        let (month, pace, until_now) =
            (forecast.month.strftime("%Y-%m"), Dollars(forecast.dollars_at_this_pace), Dollars(forecast.dollars));
        lines.push(("forecast".to_owned(), format!("{month} at this pace {pace}, until now {until_now}")));
    }
    lines.extend(report.budgets.iter().map(|budget| {
        let pool = budget.node_pool.as_ref().map(|pool| format!(" of NodePool {pool}")).unwrap_or_default();
        (format!("budget{pool}{}", of_cluster(&budget.cluster)), of_budget(budget))
    }));
    lines
}

/// What was spent, and on what.
fn spent(totals: &Totals) -> Vec<(&'static str, String)> {
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
            format!("{}, which are not in these amounts", node_hours(totals.unpriced_node_hours)),
        ));
    }
    lines.extend(volumes(totals.volumes).map(|value| ("volumes", value)));
    let spot = totals.spot;
    if spot.node_hours > 0.0 {
        lines.push(("saved by spot", format!("{} in {}", Dollars(spot.saved_dollars), node_hours(spot.node_hours))));
    }
    if totals.reserved.node_hours > 0.0 {
        let reserved = totals.reserved;
        lines.push((
            "reserved",
            format!(
                "{}, {} on-demand; AWS bills the reservation",
                node_hours(reserved.node_hours),
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
                counted(removed.nodes as usize, "node"),
                DollarsPerHour(removed.dollars_per_hour),
                Dollars(removed.dollars_until_the_end)
            ),
        ));
    }
    let interrupted = totals.interruptions;
    if interrupted.nodes > 0 || interrupted.dollars > 0.0 {
        let nodes = counted(interrupted.nodes as usize, "node");
        lines.push(("interruptions", format!("{nodes}, {} from the notice to the end", Dollars(interrupted.dollars))));
    }
    lines
}

/// A budget with what was spent of it.
fn of_budget(budget: &BudgetReport) -> String {
    let warning = match budget.warning {
        Some("exceeded") => ": exceeded",
        Some(_) => ": exceeded at this pace",
        None => "",
    };
    let spent = match budget.dollars_at_this_pace {
        Some(pace) => format!("this month {}, at this pace {}", Dollars(budget.dollars), Dollars(pace)),
        None => format!("{} {}", budget.month.strftime("%Y-%m"), Dollars(budget.dollars)),
    };
    format!("{} a month; {spent}{warning}", Dollars(budget.dollars_per_month))
}

/// Hours of nodes, in hundredths where there is less than one.
fn node_hours(hours: f64) -> String {
    if hours < 0.95 { format!("{hours:.2} node hours") } else { format!("{hours:.1} node hours") }
}

/// The costs of volumes; nothing where none is known.
fn volumes(volumes: Volumes) -> Option<String> {
    let unknown = match volumes.unpriced_node_hours {
        hours if hours < 0.005 => String::new(),
        hours => format!(", without those of {}", node_hours(hours)),
    };
    let beside = "not in these amounts, by list prices of us-east-1";
    (volumes.dollars > 0.0).then(|| format!("{}{unknown}; {beside}", Dollars(volumes.dollars)))
}

/// The costs, compared with those of the time of equal length before.
fn change(report: &Report) -> String {
    let before = &report.before;
    if let Some(dollars) = before.dollars {
        let now = report.totals.costs.dollars;
        return format!(
            "{}{}, from {} in the time before",
            signed(now - dollars),
            grown(now, dollars),
            Dollars(dollars)
        );
    }
    let late = report.clusters.iter().filter(|cluster| cluster.recorded_since > before.from);
    let Some(last) = late.max_by_key(|cluster| cluster.recorded_since) else { return "not known".to_owned() };
    let whose = if report.clusters.len() == 1 { String::new() } else { format!(" of {}", last.name) };
    format!("not known without records{whose} from {} on", minute(before.from))
}

/// Dollars more or less.
fn signed(dollars: f64) -> String {
    let dollars = if dollars.abs() < 5e-5 { 0.0 } else { dollars };
    format!("{}{}", if dollars > 0.0 { "+" } else { "" }, Dollars(dollars))
}

/// The growth in percent, in parentheses; nothing if there was nothing before.
fn grown(now: f64, before: f64) -> String {
    if before > 0.0 { format!(" ({:+.1}%)", (now - before) / before * 100.0) } else { String::new() }
}

/// The headings and the rows of a division.
#[must_use]
pub fn table(report: &Report, division: &Division) -> Vec<Vec<String>> {
    let shape = Shape {
        by: division.by.parse().ok(),
        total: report.totals.costs.dollars,
        has_gpus: division.rows.iter().any(|row| row.costs.requested.gpu > 0.0),
        is_compared: report.before.dollars.is_some(),
    };
    let mut lines = vec![shape.headings(division)];
    lines.extend(division.rows.iter().map(|row| shape.cells(row)));
    lines
}

/// What the columns of a table depend on.
struct Shape {
    by: Option<By>,
    total: f64,
    has_gpus: bool,
    is_compared: bool,
}

impl Shape {
    fn is_of_pods(&self) -> bool {
        matches!(self.by, Some(By::Namespace | By::Controller | By::Label(_)))
    }

    fn headings(&self, division: &Division) -> Vec<String> {
        let first = match &self.by {
            Some(By::Label(key)) => key.clone(),
            _ => division.by.to_uppercase(),
        };
        let more: &[&str] = match &self.by {
            _ if self.is_of_pods() && self.has_gpus => &["DOLLARS", "SHARE", "VCPU HOURS", "GIB HOURS", "GPU HOURS"],
            _ if self.is_of_pods() => &["DOLLARS", "SHARE", "VCPU HOURS", "GIB HOURS"],
            Some(By::Type) => &["ZONE", "CAPACITY TYPE", "NODE HOURS", "DOLLARS", "SHARE", "ON-DEMAND"],
            _ => &["NODE HOURS", "DOLLARS", "SHARE", "ON-DEMAND", "IDLE"],
        };
        let change: &[&str] = if self.is_compared { &["CHANGE", "%"] } else { &[] };
        [first].into_iter().chain(more.iter().chain(change).map(|heading| (*heading).to_owned())).collect()
    }

    fn cells(&self, row: &Row) -> Vec<String> {
        let costs = &row.costs;
        let share =
            if self.total > 0.0 { format!("{:.1}%", costs.dollars / self.total * 100.0) } else { "-".to_owned() };
        let hours = |value: f64| format!("{value:.1}");
        let mut cells = vec![row.name.clone()];
        if self.is_of_pods() {
            let asked = costs.requested;
            cells.extend([money(costs.dollars), share, hours(asked.cpu), hours(asked.memory)]);
            cells.extend(self.has_gpus.then(|| hours(asked.gpu)));
        } else {
            let is_type = self.by == Some(By::Type);
            if is_type {
                cells.push(row.zone.clone().unwrap_or_default());
                cells.push(row.capacity_type.map(|kind| kind.to_string()).unwrap_or_default());
            }
            cells.extend([hours(costs.node_hours), money(costs.dollars), share, money(costs.on_demand_dollars)]);
            cells.extend((!is_type).then(|| money(costs.idle_dollars)));
        }
        if self.is_compared {
            let before = row.dollars_before.unwrap_or_default();
            let grown = if before > 0.0 {
                format!("{:+.0}%", (costs.dollars - before) / before * 100.0)
            } else {
                "-".to_owned()
            };
            cells.extend([signed(costs.dollars - before), grown]);
        }
        cells
    }
}

fn money(dollars: f64) -> String {
    Dollars(dollars).to_string()
}

fn percent(part: f64, whole: f64) -> String {
    if whole > 0.0 { format!(" ({:.1}%)", part / whole * 100.0) } else { String::new() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hour::{HourRecord, OfferingCost};
    use crate::report::{ClusterRecords, Query, report};
    use nodeless_model::CapacityType;

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    /// A report about a day on which this number of NodePools had an instance each.
    fn of_pools(cluster: &str, pools: usize, since: &str) -> Report {
        let record = |pool: usize| {
            let dollars = 1.0 + pool as f64;
            let cost = OfferingCost {
                instance_type: "m5.large".into(),
                zone: "us-east-1a".into(),
                capacity_type: CapacityType::OnDemand,
                seconds: 3600.0,
                dollars,
                on_demand_dollars: dollars,
                unpriced_seconds: 0.0,
            };
            let hour = at("2026-11-23T05:00:00Z");
            HourRecord { offerings: vec![cost], ..HourRecord::new(hour, &format!("pool-{pool}")) }
        };
        let earlier = HourRecord { hour: at("2026-11-22T20:00:00Z"), ..record(0) };
        let hours: Vec<HourRecord> = (0..pools).map(record).chain([earlier]).collect();
        let (from, to) = (at("2026-11-23T00:00:00Z"), at("2026-11-24T00:00:00Z"));
        let source = ClusterRecords { cluster, since: at(since), hours: &hours, open: None };
        report(&Query { from, to, by: vec![By::NodePool] }, &[source]).unwrap()
    }

    const EARLY: &str = "2026-01-01T00:00:00Z";

    #[test]
    fn what_fits_is_the_same_as_without_a_limit() {
        let made = of_pools("prod", 3, EARLY);
        let whole = summary(&made) + &tables(&made);
        assert!(whole.contains("\n\nNODEPOOL ") && whole.contains("\npool-0 "), "{whole}");
        assert_eq!(within(&made, whole.len(), "nodeless report"), whole);
    }

    #[test]
    fn rows_that_do_not_fit_are_left_out_and_counted() {
        let made = of_pools("prod", 5000, EARLY);
        let whole = summary(&made) + &tables(&made);
        assert!(whole.len() > 262_144, "{}", whole.len());
        let text = within(&made, 262_144, "nodeless report --cluster prod");
        assert!(text.len() <= 262_144 && text.len() > 262_000, "{}", text.len());
        let kept = text.lines().filter(|line| line.starts_with("pool-")).count();
        let note = format!(
            "\n\n{} rows are left out, because a message has at most 262144 bytes. This command prints all:\nnodeless report --cluster prod\n",
            5000 - kept
        );
        assert!(text.ends_with(&note), "{}", &text[text.len() - 300..]);
        assert!(text.contains("\npool-4999 ") && !text.contains("\npool-0 "), "the dearest come first");
        // Not even the heading is left out, and no limit panics.
        assert!(within(&made, 0, "nodeless report").starts_with("Nodes of cluster prod, "));
        let one = summary(&of_pools("prod", 1, EARLY)) + &tables(&of_pools("prod", 1, EARLY));
        let but_one = within(&of_pools("prod", 1, EARLY), one.len() - 1, "");
        assert!(but_one.contains(" left out, because a message has at most "), "{but_one}");
    }

    #[test]
    fn a_subject_is_short_ascii_with_the_sum_and_the_change() {
        let made = of_pools("prod", 1, EARLY);
        assert_eq!(subject(&made, 99), "nodeless: cluster prod: $1.0000 (+0.0%), 2026-11-23 to 2026-11-23");
        let new = subject(&of_pools("prod", 1, "2026-11-23T00:00:00Z"), 99);
        assert_eq!(new, "nodeless: cluster prod: $1.0000, 2026-11-23 to 2026-11-23", "nothing to compare with");
        let long = subject(&of_pools(&"a".repeat(100), 1, EARLY), 99);
        assert_eq!(long.len(), 99);
        assert!(long.contains("aaa...: $1.0000 (+0.0%), 2026-11-23"), "{long}");
        let other = subject(&of_pools("pr\u{f6}d\n", 1, EARLY), 99);
        assert!(other.starts_with("nodeless: cluster pr?d?: "), "{other}");
    }
}
