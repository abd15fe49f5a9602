//! The parts of the text and of the page: amounts, shares and changes in words.

use super::blocked::Blocked;
use super::compare::{Difference, NodePoolChange, lost};
use super::cost::{Cost, Group, Shares, month};
use super::evaluate::Alternative;
use super::moved::{Moved, Origin};
use crate::plan::wording::text_parts::{SHOWN, shortened};
use crate::plural::counted;

/// Whole dollars: `$1,234`, `-$5`.
pub(in crate::plan) fn money(dollars: i64) -> String {
    let digits = dollars.unsigned_abs().to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    format!("{}${text}", if dollars < 0 { "-" } else { "" })
}

/// `31%`, or `-`.
pub(super) fn percent(share: Option<f64>) -> String {
    share.map_or_else(|| "-".to_owned(), |share| format!("{:.0}%", share * 100.0))
}

/// The difference in a cell of the table.
pub(super) fn cell(difference: &Difference) -> String {
    match difference {
        Difference::Exact { dollars_per_month, percent } => {
            let sign = if *dollars_per_month > 0 { "+" } else { "" };
            let percent = percent.filter(|_| *dollars_per_month != 0);
            let percent = percent.map_or(String::new(), |percent| format!(" ({percent:+.0}%)"));
            format!("{sign}{}{percent}", money(*dollars_per_month))
        }
        Difference::AtMost { dollars_per_month } => format!("{} or less", money(*dollars_per_month)),
        Difference::Unknown { .. } => "no comparison".to_owned(),
    }
}

/// The line of a cluster in the table: nodes, dollars, difference, CPU, memory, pods without a node, and with commitments how much of
/// them is unused.
pub(super) fn line(name: &str, cost: &Cost, difference: Option<&Difference>) -> Vec<String> {
    let Shares { cpu, memory } = cost.requested;
    let mut cells = vec![
        name.to_owned(),
        cost.nodes.to_string(),
        money(cost.dollars_per_month),
        difference.map(cell).unwrap_or_default(),
        percent(cpu),
        percent(memory),
        cost.pods_without_node.len().to_string(),
    ];
    cells.extend(cost.commitments.map(|paid| money(month(paid.unused_per_hour))));
    cells
}

/// The heading of the table.
pub(super) fn heading(today: &Cost) -> Vec<&'static str> {
    let mut cells = vec!["", "nodes", "a month", "difference", "CPU", "memory", "pods without a node"];
    cells.extend(today.commitments.map(|_| "unused commitments"));
    cells
}

/// `$2,190 a month for commitments, of which $511 is unused, and $1,100 uncovered`.
pub(super) fn paid(cost: &Cost) -> Option<String> {
    let paid = cost.commitments?;
    let dollars = |per_hour| money(month(per_hour));
    Some(format!(
        "{} a month for commitments, which cover on-demand prices of {} and of which {} is unused, and {} uncovered",
        dollars(paid.committed_per_hour),
        dollars(paid.covered_per_hour),
        dollars(paid.unused_per_hour),
        dollars(paid.uncovered_per_hour)
    ))
}

/// `NodePool default: 12 m5.2xlarge on-demand, 31% full, become 5 m7g.xlarge on-demand, 88% full`.
pub(super) fn changed(change: &NodePoolChange) -> String {
    let pool = change.node_pool.as_ref().map_or("no NodePool".to_owned(), |pool| format!("NodePool {pool}"));
    let (removed, added) = (groups(&change.removed), groups(&change.added));
    let one = change.removed.iter().map(|group| group.nodes).sum::<usize>() == 1;
    match (change.removed.is_empty(), change.added.is_empty()) {
        (false, false) => format!("{pool}: {removed}, {} {added}", if one { "becomes" } else { "become" }),
        (false, true) => format!("{pool}: {removed}, {} not needed", if one { "is" } else { "are" }),
        _ => format!("{pool}: {added} in addition"),
    }
}

fn groups(groups: &[Group]) -> String {
    let one = |group: &Group| {
        let kind = group.shape.instance_type.as_deref().unwrap_or("nodes of unknown type");
        let bought = group.shape.capacity_type.map_or(String::new(), |kind| format!(" {kind}"));
        let full =
            group.requested.full().map_or(String::new(), |_| format!(", {} full", percent(group.requested.full())));
        format!("{} {kind}{bought}{full}", group.nodes)
    };
    let mut shown: Vec<String> = groups.iter().take(SHOWN).map(one).collect();
    let more: usize = groups.iter().skip(SHOWN).map(|group| group.nodes).sum();
    if more > 0 {
        shown.push(format!("{} of other types", counted(more, "node")));
    }
    shown.join(" and ")
}

/// What happens to pods: those that get a node, and those that lose it with the reasons.
pub(super) fn pods(today: &Cost, other: &Alternative) -> Vec<String> {
    let mut lines = Vec::new();
    let still = |pod: &str| other.cost.pods_without_node.iter().any(|one| one.pod == pod);
    let names: Vec<&str> =
        today.pods_without_node.iter().map(|one| one.pod.as_str()).filter(|pod| !still(pod)).collect();
    if !names.is_empty() {
        let (pods, get) = (counted(names.len(), "pending pod"), if names.len() == 1 { "gets" } else { "get" });
        lines.push(format!("{pods} of today {get} a node, and the price includes it: {}", shortened(&names)));
    }
    let lost = lost(today, &other.cost);
    if let Some(first) = lost.first() {
        let names: Vec<&str> = lost.iter().map(|one| one.pod.as_str()).collect();
        let pods = counted(names.len(), "pod");
        lines.push(format!("{pods} would be unschedulable: {}: {}", shortened(&names), first.reasons.join("; ")));
    }
    lines
}

/// What moves to NodePools, and what stays with the reasons.
pub(super) fn moves(moved: &Moved) -> Vec<String> {
    let mut lines = Vec::new();
    for source in &moved.from {
        let unknown = match source.without_price {
            0 => String::new(),
            some => format!(" without {} whose price is unknown", counted(some, "node")),
        };
        lines.push(format!(
            "{}: {} with {}, {} a month{unknown}",
            origin(&source.origin),
            counted(source.nodes, "node"),
            counted(source.pods, "pod"),
            money(source.dollars_per_month)
        ));
    }
    for one in moved.stays.iter().take(SHOWN) {
        let names: Vec<&str> = one.pods.iter().map(|pod| pod.pod.as_str()).collect();
        let why = one.pods.first().map(|pod| pod.reasons.join("; ")).unwrap_or_default();
        lines.push(format!("{} of {} stays for {}: {why}", one.node, origin(&one.origin), shortened(&names)));
    }
    if let Some(more) = moved.stays.len().checked_sub(SHOWN + 1) {
        lines.push(format!("{} more stay; -o json has all", counted(more + 1, "node")));
    }
    lines
}

fn origin(origin: &Origin) -> String {
    match origin {
        Origin::NodeGroup { name } => format!("node group {name}"),
        Origin::AutoMode => "EKS Auto Mode".to_owned(),
        Origin::Fargate => "Fargate".to_owned(),
        Origin::Hybrid => "hybrid nodes".to_owned(),
        Origin::Other => "nodes of no group".to_owned(),
    }
}

/// What blocks disruption, and what is not saved while it does.
pub(super) fn blocks(blocked: &Blocked, cost: &Cost) -> (String, Vec<String>) {
    let nodes = counted(blocked.nodes.len(), "node");
    let (stay, they) = if blocked.nodes.len() == 1 { ("stays", "it") } else { ("stay", "they") };
    let more = blocked.dollars_per_month - cost.dollars_per_month;
    let more = match more {
        more if more > 0 => format!(", {} more", money(more)),
        _ => String::new(),
    };
    let heading = format!(
        "disruption is blocked on {nodes}; while {they} {stay}, it costs {}{more}:",
        money(blocked.dollars_per_month)
    );
    let causes = blocked.causes.iter().map(|cause| format!("{} ({})", cause.why, counted(cause.nodes, "node")));
    (heading, causes.collect())
}

/// Why the difference is not stated, or is only a bound.
pub(super) fn caution(difference: &Difference) -> Option<String> {
    match difference {
        Difference::Exact { .. } => None,
        Difference::AtMost { .. } => {
            Some("it replaces nodes whose price is unknown, so it saves at least what the difference states".to_owned())
        }
        Difference::Unknown { why } => Some(format!("the price is not compared with today's: {why}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dollars_have_separators_and_a_sign() {
        assert_eq!([0, 999, 1_000, -1_234_567].map(money), ["$0", "$999", "$1,000", "-$1,234,567"]);
        let exact = |dollars_per_month, percent| cell(&Difference::Exact { dollars_per_month, percent });
        assert_eq!(exact(-100, Some(-12.4)), "-$100 (-12%)");
        assert_eq!(exact(100, Some(12.4)), "+$100 (+12%)");
        assert_eq!((exact(0, Some(0.0)), exact(5, None)), ("$0".to_owned(), "+$5".to_owned()));
    }
}
