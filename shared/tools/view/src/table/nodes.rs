//! The nodes, in sections by what the user groups by.

use super::columns::{Columns, headings};
use super::folded;
use super::limits::limits_line;
use crate::group;
use crate::line::{Line, Tone};
use crate::objects::amount::Load;
use crate::objects::node::NodeRow;
use crate::objects::pool::PoolRow;
use crate::picture::Picture;
use crate::screen::{Screen, Sort};
use crate::text::{cost, counted, percent, wrapped};
use crate::viewing::GroupBy;
use std::borrow::Cow;
use std::cmp::Ordering;

/// The nodes of each section: a line for each, or groups if they do not fit.
pub(super) fn nodes(lines: &mut Vec<Line>, picture: &Picture, screen: &Screen, width: usize) {
    let matching: Vec<&NodeRow> = picture.nodes.iter().filter(|node| screen.matches(&words(node))).collect();
    let grouped = screen.groups(matching.len());
    if grouped {
        let legend = wrapped(group::LEGEND, width).into_iter();
        lines.extend(legend.map(|part| Line::new(Tone::Dim, part).at_key('2')));
    } else {
        lines.push(headings(picture, width).at_key('2'));
    }
    for section in sections(picture, screen.group_by()) {
        let by = screen.group_by();
        let own: Vec<&NodeRow> = matching.iter().copied().filter(|node| *by.value(node) == section.name).collect();
        if own.is_empty() && !screen.filter().is_empty() {
            continue;
        }
        lines.extend(folded(section_lines(&section, by, width), width));
        lines.extend(if grouped { group::lines(&own, by, width) } else { node_lines(picture, own, screen, width) });
    }
}

/// The sections: the NodePools with their settings, or the values of what else the user groups by.
pub(crate) fn sections(picture: &Picture, by: GroupBy) -> Vec<Cow<'_, PoolRow>> {
    if by == GroupBy::NodePool {
        return picture.node_pools.iter().map(Cow::Borrowed).collect();
    }
    let groups = group::groups(&picture.nodes, by).into_iter();
    groups.map(|group| Cow::Owned(group.into())).collect()
}

fn node_lines(picture: &Picture, mut nodes: Vec<&NodeRow>, screen: &Screen, width: usize) -> Vec<Line> {
    let columns = Columns::new(width, picture);
    nodes.sort_by(|a, b| order(screen.sort(), a, b).then_with(|| a.name.cmp(&b.name)));
    nodes.into_iter().flat_map(|node| columns.lines(node, picture.at)).collect()
}

/// The nodes of a group, as a screen filters and sorts them.
#[must_use]
pub fn group(picture: &Picture, screen: &Screen, name: &str, width: usize) -> Vec<Line> {
    let in_group = |node: &&NodeRow| group::group_of(node, screen.group_by()) == name && screen.matches(&words(node));
    let nodes: Vec<&NodeRow> = picture.nodes.iter().filter(in_group).collect();
    let title = format!("Nodes of {name} ({})", nodes.len());
    let mut lines = vec![Line::new(Tone::Heading, title), headings(picture, width)];
    lines.extend(node_lines(picture, nodes, screen, width));
    lines
}

/// The words of a node that a filter is compared with.
fn words(node: &NodeRow) -> Vec<&str> {
    let own = [Some(&node.name), node.node_pool.as_ref(), node.node_claim.as_ref(), node.instance_type.as_ref()];
    let place = [node.zone.as_ref(), node.capacity_type.as_ref(), node.disruption_reason.as_ref()];
    own.into_iter()
        .chain(place)
        .flatten()
        .chain(node.labels.values())
        .map(String::as_str)
        .chain([node.state.as_str()])
        .collect()
}

fn order(sort: Sort, a: &NodeRow, b: &NodeRow) -> Ordering {
    let share = |load: &Load| (load.cpu_requested(), load.memory_requested());
    match sort {
        Sort::Name => Ordering::Equal,
        Sort::Type => a.instance_type.cmp(&b.instance_type),
        // The newest first.
        Sort::Age => b.created.cmp(&a.created),
        // The others show the largest first.
        Sort::Price => b.price_per_hour.unwrap_or_default().total_cmp(&a.price_per_hour.unwrap_or_default()),
        Sort::Cpu => share(&b.load).0.total_cmp(&share(&a.load).0),
        Sort::Memory => share(&b.load).1.total_cmp(&share(&a.load).1),
        Sort::Pods => b.pods.len().cmp(&a.pods.len()),
        Sort::State => a.state.cmp(&b.state),
    }
}

fn section_lines(pool: &PoolRow, by: GroupBy, width: usize) -> Vec<Line> {
    let name = by.heading(pool.name.as_deref());
    let mut facts = vec![counted(pool.nodes, "node"), counted(pool.pods, "pod"), cost(pool.price_per_hour)];
    if let Some(replicas) = pool.replicas {
        facts[0] = format!("{} of {}", pool.nodes, counted(replicas, "replica"));
    }
    if pool.claims > 0 {
        facts.push(format!("{} on the way", pool.claims));
    }
    if pool.nodes > 0 {
        let load = &pool.load;
        facts.push(format!("CPU {}, memory {}", percent(load.cpu_requested()), percent(load.memory_requested())));
        facts.extend(load.extended.texts());
    }
    if pool.deleting {
        facts.push("is being deleted".to_owned());
    }
    let mut lines = vec![Line::new(Tone::Heading, name).with(Tone::Plain, format!("  {}", facts.join(", ")))];
    if let Some(why) = &pool.not_ready {
        lines.push(Line::new(Tone::Bad, format!("  not ready: {why}")));
    }
    if !pool.limits.is_empty() {
        lines.push(limits_line("  limits  ", &pool.limits, width));
    }
    lines
}
