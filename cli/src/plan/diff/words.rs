//! The parts of the text and of the Markdown: differences and objects in words.

use super::report::{Amount, Changed, DiffReport, Listed, Maximum, Row, Side};
use super::sets::Sets;
use crate::plan::whatif::words::money;
use crate::plural::counted;
use std::collections::BTreeSet;

/// The maximum number of fields of an object that are named.
const FIELDS: usize = 3;

/// `+$212`, `-$5`, `$0`.
pub(super) fn signed(dollars: i64) -> String {
    format!("{}{}", if dollars > 0 { "+" } else { "" }, money(dollars))
}

/// The difference in one line, without names.
pub(super) fn headline(report: &DiffReport) -> String {
    let mut parts = vec![nodes_and_costs(report)];
    let pods = |count: usize, what: [&str; 2]| {
        let verb = if count == 1 { what[0] } else { what[1] };
        (count > 0).then(|| format!("{} {verb}", counted(count, "pod")))
    };
    parts.extend(pods(report.become_unschedulable.len(), ["becomes unschedulable", "become unschedulable"]));
    parts.extend(pods(report.become_schedulable.len(), ["becomes schedulable", "become schedulable"]));
    let removed = ["that is unschedulable is removed", "that are unschedulable are removed"];
    parts.extend(pods(report.removed_unschedulable.len(), removed));
    if let Some(limit) = report.max_increase.filter(|_| report.exceeds_limit) {
        parts.push(format!("the increase is more than the limit of {}", money(i64::from(limit))));
    }
    parts.join("; ")
}

fn nodes_and_costs(report: &DiffReport) -> String {
    let (nodes, dollars) = (report.difference.nodes, report.difference.dollars_per_month);
    if let Some(most) = report.maximum.as_ref().map(|most| most.difference).filter(|most| *most != report.difference) {
        let range = |least: String, most: String| if least == most { least } else { format!("{least} to {most}") };
        return format!(
            "{} {}, {} a month from the minimum to the maximum of autoscalers",
            range(format!("{nodes:+}"), format!("{:+}", most.nodes)),
            if nodes == most.nodes && nodes.abs() == 1 { "node" } else { "nodes" },
            range(signed(dollars), signed(most.dollars_per_month))
        );
    }
    if report.groups.iter().all(|row| row.before == row.after) {
        return "no change of nodes".to_owned();
    }
    let nodes = match nodes {
        0 => "the same number of nodes".to_owned(),
        _ => format!("{nodes:+} node{}", if nodes.abs() == 1 { "" } else { "s" }),
    };
    match dollars {
        0 => format!("{nodes} at the same cost"),
        _ => format!("{nodes}, {} a month", signed(dollars)),
    }
}

/// The heading of the table of groups.
pub(super) const HEADING: [&str; 8] = [
    "NodePool",
    "instance type",
    "capacity type",
    "nodes before",
    "nodes after",
    "a month before",
    "a month after",
    "difference",
];
/// The number of its columns that are names.
pub(super) const NAMES: usize = 3;

/// The names of a group: NodePool, instance type and capacity type.
pub(super) fn names(row: &Row) -> [Option<String>; NAMES] {
    let shape = &row.shape;
    [shape.node_pool.clone(), shape.instance_type.clone(), shape.capacity_type.map(|kind| kind.to_string())]
}

/// The numbers of a row of the table.
pub(super) fn numbers(before: Amount, after: Amount) -> [String; 5] {
    let difference = after.dollars_per_month - before.dollars_per_month;
    [
        before.nodes.to_string(),
        after.nodes.to_string(),
        money(before.dollars_per_month),
        money(after.dollars_per_month),
        signed(difference),
    ]
}

/// The sum of a side.
pub(super) const fn total(side: &Side) -> Amount {
    Amount { nodes: side.nodes, dollars_per_month: side.dollars_per_month }
}

/// The objects that differ: `added`, `removed` or `changed`, the object, and how.
pub(super) fn objects(report: &DiffReport, name: &dyn Fn(&str) -> String) -> Vec<String> {
    let of = |what: &str, object: &Listed| format!("{what} {}", name(&described(object)));
    let pods = |object: &Listed| object.pods.map_or(String::new(), |pods| format!(": {}", counted(pods, "pod")));
    let objects = &report.objects;
    let added = objects.added.iter().map(|one| of("added", one) + &pods(one));
    let removed = objects.removed.iter().map(|one| of("removed", one) + &pods(one));
    let changed = objects.changed.iter().map(|one| of("changed", &one.object) + ": " + &how(one, name));
    added.chain(removed).chain(changed).collect()
}

fn described(object: &Listed) -> String {
    let namespace = object.namespace.as_ref().map_or(String::new(), |namespace| format!("{namespace}/"));
    format!("{} {namespace}{}", object.kind, object.name)
}

fn how(changed: &Changed, name: &dyn Fn(&str) -> String) -> String {
    let mut parts = Vec::new();
    match (changed.pods_before, changed.object.pods) {
        (Some(before), Some(after)) if before != after => parts.push(format!("{before} to {}", counted(after, "pod"))),
        (_, Some(pods)) => parts.push(counted(pods, "pod")),
        _ => {}
    }
    let fields: Vec<String> = changed.fields.iter().take(FIELDS).map(|field| name(field)).collect();
    if !fields.is_empty() {
        let more = changed.fields.len().checked_sub(FIELDS + 1);
        let more = more.map_or(String::new(), |more| format!(" and {}", counted(more + 1, "more field")));
        parts.push(fields.join(", ") + &more);
    }
    parts.join("; ")
}

/// The label of the last line of the table, with as many pods as autoscalers allow.
pub(super) const AT_MAXIMUM: &str = "all, at the maximum of autoscalers";

/// What the figures of autoscalers are.
fn scaled(sets: &Sets, maximum: Option<&Maximum>) -> Option<String> {
    let failed = sets.maximum.iter().flatten().flat_map(|set| &set.faults).next();
    let least = "Workloads with an autoscaler have its minimum of pods, and in a cluster at least those that run";
    if let Some(fault) = failed {
        return Some(format!("{least}. Their maximum is not planned: {fault}."));
    }
    let Maximum { before, after, .. } = maximum?;
    let mut text = format!("{least}; the maximum is that of all at the same time.");
    if before.unschedulable + after.unschedulable > 0 {
        let (before, after) = (before.unschedulable, after.unschedulable);
        text.push_str(&format!(" At the maximum, {} before and {after} after.", counted(before, "unschedulable pod")));
    }
    Some(text)
}

/// What the figures include, and what they assume. `notes` are those of each plan, and `prices` describes the sources of the prices.
pub(super) fn assumptions(
    sets: &Sets,
    sides: &[Side; 2],
    maximum: Option<&Maximum>,
    notes: [&Vec<String>; 2],
    prices: &str,
) -> Vec<String> {
    let mut all = vec![
        if sets.with_cluster {
            "All nodes of NodePools are planned anew for each set, so free capacity of today's nodes hides no difference. Nodes of no NodePool stay."
        } else {
            "Planned for the pods of the manifests alone, without a cluster; give the objects of a cluster with --cluster."
        }
        .to_owned(),
        "A month has 730 hours. A launched node has the price of its cheapest offering. EC2 instances only: volumes, traffic, Savings Plans and discounts are not included."
            .to_owned(),
    ];
    let manifests = || sets.base.manifests.keys().chain(sets.head.manifests.keys());
    if manifests().any(|object| matches!(object.kind, "Job" | "CronJob" | "JobSet" | "RayJob")) {
        all.push("Pods of Jobs and CronJobs count as if they always ran.".to_owned());
    }
    all.extend(scaled(sets, maximum));
    let [before, after] = sides.each_ref().map(|side| side.unschedulable);
    if before + after > 0 {
        all.push(format!("The costs include no nodes for unschedulable pods: {before} before, {after} after."));
    }
    let unpriced: BTreeSet<&str> =
        sides.iter().flat_map(|side| &side.without_price).map(|one| one.node.as_str()).collect();
    if !unpriced.is_empty() {
        let nodes = unpriced.iter().copied().collect::<Vec<_>>();
        let names = crate::plan::wording::text_parts::shortened(&nodes);
        all.push(format!("The price of {} is unknown and in no sum: {names}.", counted(nodes.len(), "node")));
    }
    let [of_base, of_head] = notes;
    all.extend(of_base.iter().filter(|note| of_head.contains(note)).map(|note| sentence(note)));
    all.extend(of_base.iter().filter(|note| !of_head.contains(note)).map(|note| format!("Before: {note}.")));
    all.extend(of_head.iter().filter(|note| !of_base.contains(note)).map(|note| format!("After: {note}.")));
    all.push(prices.to_owned());
    all
}

fn sentence(note: &str) -> String {
    let mut letters = note.chars();
    let first: String = letters.next().into_iter().flat_map(char::to_uppercase).collect();
    format!("{first}{}.", letters.as_str())
}
