//! Compares two plans. No I/O and no clock.

use super::evaluate::Planned;
use super::report::{Amount, Changed, DiffReport, Difference, Listed, Maximum, Objects, Row, Side};
use super::sets::Sets;
use super::words;
use crate::plan::input::catalog::LoadedCatalog;
use crate::plan::report::Unschedulable;
use crate::plan::whatif::cost::{Cost, Group, Shape, month};
use nodeless_snapshot::{Identity, Manifest};
use std::collections::{BTreeMap, BTreeSet};

/// What HEAD changes, compared with BASE. `maximum` are both with as many pods as autoscalers allow.
pub(super) fn report(
    sets: &Sets,
    [before, after]: [Planned; 2],
    maximum: Option<[Planned; 2]>,
    catalog: &LoadedCatalog,
    max_increase: Option<u32>,
) -> DiffReport {
    let costs = [&before, &after].map(|planned| Cost::new(&planned.nodes, Vec::new(), None));
    let sides = [side(&costs[0], &before), side(&costs[1], &after)];
    let difference = difference(&sides);
    let maximum = maximum.map(|both| {
        let sides = both.each_ref().map(|planned| side(&Cost::new(&planned.nodes, Vec::new(), None), planned));
        let difference = self::difference(&sides);
        let [before, after] = sides;
        Maximum { difference, before, after }
    });
    let (known, now) = (before.pods_without_node(), after.pods_without_node());
    let no_longer = || known.difference(&now);
    let objects = objects(&sets.base.manifests, &sets.head.manifests);
    let notes = [&before.notes, &after.notes];
    let assumptions = words::assumptions(sets, &sides, maximum.as_ref(), notes, &catalog.described);
    let become_schedulable = no_longer().filter(|pod| after.pods.contains(*pod)).cloned().collect();
    let removed_unschedulable = no_longer().filter(|pod| !after.pods.contains(*pod)).cloned().collect();
    let is_new = |one: &Unschedulable| !known.contains(&one.pod);
    let [before, side_after] = sides;
    let mut report = DiffReport {
        headline: String::new(),
        difference,
        before,
        after: side_after,
        maximum,
        groups: rows(&costs),
        objects,
        not_planned: sets.base.not_planned.union(&sets.head.not_planned).cloned().collect(),
        become_unschedulable: after.unschedulable.into_iter().filter(is_new).collect(),
        become_schedulable,
        removed_unschedulable,
        max_increase,
        exceeds_limit: max_increase.is_some_and(|limit| difference.dollars_per_month > i64::from(limit)),
        region: catalog.catalog.region.clone(),
        assumptions,
    };
    report.headline = words::headline(&report);
    report
}

fn difference([before, after]: &[Side; 2]) -> Difference {
    let signed = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
    Difference {
        nodes: signed(after.nodes) - signed(before.nodes),
        dollars_per_month: after.dollars_per_month - before.dollars_per_month,
    }
}

fn listed(object: &Identity, manifest: &Manifest) -> Listed {
    let namespace = Some(object.namespace.clone()).filter(|namespace| !namespace.is_empty());
    Listed { kind: object.kind, namespace, name: object.name.clone(), pods: manifest.pods }
}

fn objects(base: &BTreeMap<Identity, Manifest>, head: &BTreeMap<Identity, Manifest>) -> Objects {
    let only = |one: &BTreeMap<Identity, Manifest>, other: &BTreeMap<Identity, Manifest>| {
        let only = one.iter().filter(|(object, _)| !other.contains_key(object));
        only.map(|(object, manifest)| listed(object, manifest)).collect()
    };
    let changed = head.iter().filter_map(|(object, manifest)| {
        let before = base.get(object)?;
        let fields = before.differences(manifest);
        let differs = !fields.is_empty() || before.pods != manifest.pods;
        differs.then(|| Changed { object: listed(object, manifest), pods_before: before.pods, fields })
    });
    Objects { added: only(head, base), removed: only(base, head), changed: changed.collect() }
}

fn side(cost: &Cost, planned: &Planned) -> Side {
    Side {
        nodes: cost.nodes,
        price_per_hour: cost.price_per_hour,
        dollars_per_month: cost.dollars_per_month,
        without_price: cost.without_price.clone(),
        unschedulable: planned.unschedulable.len(),
    }
}

fn rows(costs: &[Cost; 2]) -> Vec<Row> {
    let amount = |group: &Group| Amount { nodes: group.nodes, dollars_per_month: month(group.price_per_hour) };
    let of = |cost: &Cost, shape: &Shape| {
        cost.groups.iter().find(|group| group.shape == *shape).map(amount).unwrap_or_default()
    };
    let shapes: BTreeSet<&Shape> = costs.iter().flat_map(|cost| &cost.groups).map(|group| &group.shape).collect();
    let row = |shape: &Shape| Row { shape: shape.clone(), before: of(&costs[0], shape), after: of(&costs[1], shape) };
    let mut rows: Vec<Row> = shapes.into_iter().map(row).collect();
    // The sort is stable: equal differences are in the order of the shapes.
    rows.sort_by_key(|row| std::cmp::Reverse(row.difference().abs()));
    rows
}
