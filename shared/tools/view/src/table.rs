//! A picture as a table of lines.

use crate::amount::Load;
use crate::attention::Attention;
use crate::claim::ClaimRow;
use crate::event::EventRow;
use crate::group;
use crate::line::{Line, Target, Tone};
use crate::node::NodeRow;
use crate::node_state::NodeState;
use crate::pending::PendingRow;
use crate::picture::Picture;
use crate::pool::{LimitRow, PoolRow};
use crate::screen::{Screen, Sort};
use crate::text::{age, bar, counted, dollars, fit, percent, price, right, short_name, until, wrapped};
use crate::timeline::Entry;
use jiff::{SignedDuration, Timestamp};
use std::cmp::Ordering;

/// From this width on, columns are wide.
const WIDE: usize = 120;
/// From this width on, the use of nodes is shown as a percentage, too.
const WIDER: usize = 132;
/// The expiry of a node is shown if it is nearer than this.
const SOON: SignedDuration = SignedDuration::from_hours(24);
/// The number of problems above the table.
const PROBLEMS: usize = 8;
/// The number of entries of the time line below the table.
const ENTRIES: usize = 20;

/// The lines above the table, which do not scroll: totals.
#[must_use]
pub fn header(picture: &Picture, title: &str, width: usize) -> Vec<Line> {
    let totals = &picture.totals;
    let mut facts = vec![counted(totals.nodes, "node"), counted(totals.pods, "pod")];
    let states = totals.states.iter().filter(|(state, _)| **state != NodeState::Ready);
    let states: Vec<String> = states.map(|(state, count)| format!("{count} {}", state.as_str())).collect();
    if !states.is_empty() {
        facts[0] = format!("{} ({})", facts[0], states.join(", "));
    }
    if totals.claims > 0 {
        facts.push(format!("{} on the way", counted(totals.claims, "NodeClaim")));
    }
    let waiting = format!("{} without a node", counted(totals.pending_pods, "pod"));
    let tone = if totals.pending_pods > 0 { Tone::Notice } else { Tone::Plain };
    let mut cost = dollars(totals.price_per_hour);
    if totals.nodes_without_price > 0 {
        cost += &format!(" (without {}, whose price is not known)", counted(totals.nodes_without_price, "node"));
    }
    let load = &totals.load;
    let (cpu, memory) = (
        requested("CPU", load.cpu_requested(), load.cpu_used()),
        requested("memory", load.memory_requested(), load.memory_used()),
    );
    let clock = format!("{:.0}", picture.at);
    let mut lines = vec![
        Line::new(Tone::Heading, fit(title, width.saturating_sub(clock.len() + 1)))
            .with(Tone::Dim, format!(" {clock}")),
        Line::new(Tone::Plain, format!("{}, ", facts.join(", "))).with(tone, waiting),
        Line::new(Tone::Plain, format!("{cost}; {cpu}, {memory}")),
    ];
    lines.extend(cluster_lines(picture, width));
    folded(lines, width)
}

fn folded(lines: impl IntoIterator<Item = Line>, width: usize) -> Vec<Line> {
    lines.into_iter().flat_map(|line| line.folded(width)).collect()
}

/// The settings of the whole cluster.
fn cluster_lines(picture: &Picture, width: usize) -> Vec<Line> {
    let cluster = &picture.cluster;
    let mut lines = Vec::new();
    if !cluster.limits.is_empty() {
        lines.push(limits_line("limits of the cluster  ", &cluster.limits, width));
    }
    lines.extend(cluster.disruption_waits.iter().map(|why| Line::new(Tone::Notice, why.clone())));
    let open = cluster.maintenance_until.map(|until| format!("a maintenance window is open until {until:.0}"));
    lines.extend(open.map(|text| Line::new(Tone::Plain, text)));
    lines.extend(cluster.invalid.iter().map(|why| Line::new(Tone::Bad, why.clone())));
    lines
}

fn limits_line(start: &str, limits: &[LimitRow], width: usize) -> Line {
    limits.iter().fold(Line::new(Tone::Dim, start), |line, limit| {
        line.with(limit_tone(limit), format!("{}  ", limit_text(limit, width)))
    })
}

fn requested(resource: &str, share: f64, used: Option<f64>) -> String {
    let used = used.map_or_else(String::new, |used| format!(", {} used", percent(used)));
    format!("{} of {resource} requested{used}", percent(share))
}

/// The column headings.
fn headings(picture: &Picture, width: usize) -> Line {
    let columns = Columns::new(width, &picture.totals.load);
    let (cpu, memory) = match columns.use_of {
        _ if !columns.wide => ("CPU", "MEM"),
        Use::Unknown => ("CPU requested", "memory requested"),
        Use::Bar => ("CPU, used", "memory, used"),
        Use::BarAndShare => ("CPU requested, used", "memory requested, used"),
    };
    let cells = [
        fit("NODE", columns.name),
        fit("TYPE", columns.instance_type),
        fit(if columns.wide { "CAPACITY" } else { "CAP" }, columns.capacity_type),
        fit(if columns.wide { "ZONE" } else { "Z" }, columns.zone),
        right("AGE", columns.age),
        right("$/h", columns.price),
        fit(cpu, columns.load),
        fit(memory, columns.load),
        right("PODS", columns.pods),
        "STATE".to_owned(),
    ];
    Line::new(Tone::Heading, fit(&format!(" {}", cells.join(" ")), width))
}

/// The widths of the columns.
struct Columns {
    wide: bool,
    name: usize,
    instance_type: usize,
    capacity_type: usize,
    zone: usize,
    age: usize,
    price: usize,
    load: usize,
    use_of: Use,
    pods: usize,
}

/// How the use of nodes is shown beside their requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Use {
    /// metrics.k8s.io does not answer.
    Unknown,
    /// A second bar is shown.
    Bar,
    /// A second bar and its percentage are shown.
    BarAndShare,
}

impl Columns {
    /// `total` is the load of all nodes, whose use is known if that of any node is.
    fn new(width: usize, total: &Load) -> Self {
        let use_of = match total.used {
            None => Use::Unknown,
            Some(_) if width < WIDER => Use::Bar,
            Some(_) => Use::BarAndShare,
        };
        if width < WIDE {
            // 80 columns leave 13 for the state.
            let name = 15 + width.saturating_sub(80).min(15);
            return Self {
                wide: false,
                name,
                instance_type: 11,
                capacity_type: 4,
                zone: 2,
                age: 4,
                price: 6,
                load: 5,
                use_of,
                pods: 4,
            };
        }
        let (load, start) = if use_of == Use::BarAndShare { (22, WIDER) } else { (16, WIDE) };
        // The narrowest column of names leaves 11 for the state, the length of `terminating`.
        let name = 17 + width.saturating_sub(start).min(27);
        Self {
            wide: true,
            name,
            instance_type: 13,
            capacity_type: 9,
            zone: 10,
            age: 4,
            price: 8,
            load,
            use_of,
            pods: 7,
        }
    }

    /// The bar of requests, and that of use.
    fn load(&self, share: f64, used: Option<f64>) -> String {
        let half = (self.load - 1) / 2;
        let of_use = |cells| used.map(|used| bar(used, cells)).unwrap_or_default();
        let text = match self.use_of {
            Use::Unknown if !self.wide => bar(share, self.load),
            Use::Unknown => format!("{}{}", bar(share, 6), right(&percent(share), 5)),
            Use::Bar => format!("{} {}", bar(share, half), of_use(half)),
            Use::BarAndShare => {
                let used_share = right(&used.map(percent).unwrap_or_default(), 5);
                format!("{}{} {}{used_share}", bar(share, 5), right(&percent(share), 5), fit(&of_use(5), 5))
            }
        };
        fit(&text, self.load)
    }
}

/// The lines of the table, as a screen filters and sorts them.
#[must_use]
pub fn body(picture: &Picture, screen: &Screen, width: usize) -> Vec<Line> {
    let mut lines = attention(picture, screen, width);
    lines.push(Line::default());
    nodes(&mut lines, picture, screen, width);
    let mut below = Vec::new();
    section(&mut below, '3', "NodeClaims on the way", claims(picture, screen));
    section(&mut below, '4', "Pods without a node", pending(picture, screen));
    if screen.filter().is_empty() {
        section(&mut below, '5', "Disruption in progress", disruption(picture));
    }
    lines.extend(folded(below, width));
    let entries = timeline(picture, screen, width);
    if !entries.is_empty() {
        lines.extend([Line::default(), Line::new(Tone::Heading, "Time line").at_key('6')]);
        lines.extend(entries);
    }
    if screen.shows_all() {
        section(&mut lines, '7', "Events of nodeless", events(picture, screen));
    }
    if screen.filter().is_empty() {
        let warnings = picture.warnings.iter().map(|it| Line::new(Tone::Bad, format!("Warning: {it}")));
        lines.extend(folded(warnings, width));
    }
    lines
}

/// The nodes of each NodePool: a line for each, or groups if they do not fit.
fn nodes(lines: &mut Vec<Line>, picture: &Picture, screen: &Screen, width: usize) {
    let matching: Vec<&NodeRow> = picture.nodes.iter().filter(|node| screen.matches(&words(node))).collect();
    let grouped = screen.groups(matching.len());
    if grouped {
        let legend = wrapped(group::LEGEND, width).into_iter();
        lines.extend(legend.map(|part| Line::new(Tone::Dim, part).at_key('2')));
    } else {
        lines.push(headings(picture, width).at_key('2'));
    }
    for pool in &picture.node_pools {
        let own: Vec<&NodeRow> = matching.iter().copied().filter(|node| node.node_pool == pool.name).collect();
        if own.is_empty() && !screen.filter().is_empty() {
            continue;
        }
        lines.extend(folded(pool_lines(pool, width), width));
        lines.extend(if grouped { group::groups(&own, width) } else { node_lines(picture, own, screen, width) });
    }
}

fn node_lines(picture: &Picture, mut nodes: Vec<&NodeRow>, screen: &Screen, width: usize) -> Vec<Line> {
    let columns = Columns::new(width, &picture.totals.load);
    nodes.sort_by(|a, b| order(screen.sort(), a, b).then_with(|| a.name.cmp(&b.name)));
    nodes.into_iter().map(|node| node_line(node, picture.at, &columns)).collect()
}

/// The nodes of a group, as a screen filters and sorts them.
#[must_use]
pub fn group(picture: &Picture, screen: &Screen, name: &str, width: usize) -> Vec<Line> {
    let in_group = |node: &&NodeRow| group::group_of(node) == name && screen.matches(&words(node));
    let nodes: Vec<&NodeRow> = picture.nodes.iter().filter(in_group).collect();
    let title = format!("Nodes of {name} ({})", nodes.len());
    let mut lines = vec![Line::new(Tone::Heading, title), headings(picture, width)];
    lines.extend(node_lines(picture, nodes, screen, width));
    lines
}

/// What needs attention, or that nothing does.
fn attention(picture: &Picture, screen: &Screen, width: usize) -> Vec<Line> {
    let matching: Vec<&Attention> = picture.attention.iter().filter(|one| screen.matches(&[&one.text])).collect();
    if picture.attention.is_empty() {
        return vec![Line::new(Tone::Good, "Nothing needs attention").at_key('1')];
    }
    let mut lines = vec![Line::new(Tone::Heading, format!("Needs attention ({})", matching.len())).at_key('1')];
    lines.extend(matching.iter().take(PROBLEMS).flat_map(|one| attention_lines(one, picture.at, width)));
    let more = matching.len().saturating_sub(PROBLEMS);
    lines
        .extend((more > 0).then(|| Line::new(Tone::Notice, format!("{:7}and {}", "", counted(more, "other problem")))));
    lines
}

fn attention_lines(one: &Attention, now: Timestamp, width: usize) -> Vec<Line> {
    let tone = if one.urgent { Tone::Bad } else { Tone::Notice };
    let since = one.since.map(|_| age(one.since, now)).unwrap_or_default();
    let parts = wrapped(&one.text, width.saturating_sub(7).max(20));
    let line = |(number, part): (usize, String)| {
        let start = if number == 0 { right(&since, 4) } else { " ".repeat(4) };
        let line = Line::new(Tone::Dim, format!("  {start} ")).with(tone, part);
        Line { target: one.object.clone(), ..line }
    };
    parts.into_iter().enumerate().map(line).collect()
}

fn section(lines: &mut Vec<Line>, key: char, title: &str, own: Vec<Line>) {
    if !own.is_empty() {
        lines.push(Line::default());
        lines.push(Line::new(Tone::Heading, format!("{title} ({})", own.len())).at_key(key));
        lines.extend(own);
    }
}

/// The words of a node that a filter is compared with.
fn words(node: &NodeRow) -> Vec<&str> {
    let own = [Some(&node.name), node.node_pool.as_ref(), node.node_claim.as_ref(), node.instance_type.as_ref()];
    let place = [node.zone.as_ref(), node.capacity_type.as_ref(), node.disruption_reason.as_ref()];
    own.into_iter().chain(place).flatten().map(String::as_str).chain([node.state.as_str()]).collect()
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

fn pool_lines(pool: &PoolRow, width: usize) -> Vec<Line> {
    let name = pool.name.as_ref().map_or_else(|| "Nodes of no NodePool".to_owned(), |name| format!("NodePool {name}"));
    let mut facts = vec![counted(pool.nodes, "node"), counted(pool.pods, "pod"), dollars(pool.price_per_hour)];
    if let Some(replicas) = pool.replicas {
        facts[0] = format!("{} of {replicas} replicas", pool.nodes);
    }
    if pool.claims > 0 {
        facts.push(format!("{} on the way", pool.claims));
    }
    if pool.nodes > 0 {
        let load = &pool.load;
        facts.push(format!("CPU {}, memory {}", percent(load.cpu_requested()), percent(load.memory_requested())));
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

fn limit_tone(limit: &LimitRow) -> Tone {
    match limit.share {
        1.0.. => Tone::Bad,
        0.8.. => Tone::Notice,
        _ => Tone::Plain,
    }
}

pub(crate) fn limit_text(limit: &LimitRow, width: usize) -> String {
    let resource = limit.resource.strip_prefix("nodeless.sh/").unwrap_or(&limit.resource);
    let bar = if width < WIDE { String::new() } else { format!("{} ", bar(limit.share, 6)) };
    format!("{resource} {bar}{} of {} ({})", limit.used, limit.limit, percent(limit.share))
}

fn node_line(node: &NodeRow, now: Timestamp, columns: &Columns) -> Line {
    let text = |value: &Option<String>| value.clone().unwrap_or_else(|| "-".to_owned());
    let (capacity_type, zone) = match columns.wide {
        true => (text(&node.capacity_type), text(&node.zone)),
        false => (short_capacity(&node.capacity_type).to_owned(), text(&node.zone.as_deref().map(short_zone))),
    };
    let load = &node.load;
    let start = [
        short_name(&node.name, columns.name),
        fit(&text(&node.instance_type), columns.instance_type),
        fit(&capacity_type, columns.capacity_type),
        fit(&zone, columns.zone),
        right(&age(node.created, now), columns.age),
        right(&price_cell(node.price_per_hour, columns.price), columns.price),
    ];
    let pods =
        if columns.wide { format!("{}/{}", node.pods.len(), node.pod_capacity) } else { node.pods.len().to_string() };
    let (tone, state) = state(node, now, columns.wide);
    Line::new(Tone::Plain, format!(" {} ", start.join(" ")))
        .with(load_tone(load.cpu_requested()), columns.load(load.cpu_requested(), load.cpu_used()))
        .with(Tone::Plain, " ")
        .with(load_tone(load.memory_requested()), columns.load(load.memory_requested(), load.memory_used()))
        .with(Tone::Plain, format!(" {} ", right(&pods, columns.pods)))
        .with(tone, state)
        .opening(Target::Node(node.name.clone()))
}

/// A price with as many decimal places as fit in the column.
fn price_cell(value: Option<f64>, width: usize) -> String {
    let exact = price(value);
    match value {
        Some(value) if exact.len() > width => format!("{value:.2}"),
        _ => exact,
    }
}

/// Full is good: nobody pays for what no pod requests.
fn load_tone(share: f64) -> Tone {
    if share >= 0.5 { Tone::Good } else { Tone::Plain }
}

fn short_capacity(value: &Option<String>) -> &'static str {
    match value.as_deref() {
        Some("spot") => "spot",
        Some("on-demand") => "od",
        Some("reserved") => "rsv",
        _ => "-",
    }
}

/// The number and letter of a zone: `1a`.
fn short_zone(zone: &str) -> String {
    zone.rsplit('-').next().unwrap_or(zone).to_owned()
}

/// The state of a node; with `wide`, also what it waits for and what will happen to it.
fn state(node: &NodeRow, now: Timestamp, wide: bool) -> (Tone, String) {
    let name = node.state.as_str();
    let (tone, mut text) = match node.state {
        NodeState::Ready => (Tone::Good, name.to_owned()),
        NodeState::NotReady => (Tone::Bad, name.to_owned()),
        NodeState::Draining if !node.waits_for.is_empty() => {
            let first = node.waits_for.first().map(|one| format!(" {} ({})", one.pod, one.why)).unwrap_or_default();
            let more = node.waits_for.len() - 1;
            let more = if more == 0 { String::new() } else { format!(" and {}", counted(more, "other pod")) };
            let long = format!("{name}, waits for{first}{more}");
            (Tone::Notice, if wide { long } else { format!("{name} {}", node.waits_for.len()) })
        }
        NodeState::Joining => {
            let why = node.joining.as_ref().filter(|_| wide).map(|why| format!(": {why}")).unwrap_or_default();
            (Tone::Notice, format!("{name}{why}"))
        }
        _ => (Tone::Notice, name.to_owned()),
    };
    let expires = node.expires.filter(|time| time.duration_since(now) < SOON);
    let also: Vec<String> = [
        node.disruption_reason.clone(),
        node.drifted.as_ref().map(|_| "drifted".to_owned()),
        node.is_protected().then(|| "protected".to_owned()),
        expires.map(|time| format!("expires in {}", until(time, now))),
    ]
    .into_iter()
    .flatten()
    .collect();
    match (wide, also.first()) {
        (_, None) => {}
        (true, _) => text = format!("{text}; {}", also.join("; ")),
        // In 80 columns, the state of a ready node is replaced by what is special about it.
        (false, Some(first)) if node.state == NodeState::Ready => text = first.replace("expires in", "expires"),
        (false, _) => {}
    }
    (tone, text)
}

fn claims(picture: &Picture, screen: &Screen) -> Vec<Line> {
    let matching = |claim: &&ClaimRow| {
        let words = [Some(&claim.name), claim.node_pool.as_ref(), claim.instance_type.as_ref(), claim.zone.as_ref()];
        screen.matches(&words.into_iter().flatten().map(String::as_str).collect::<Vec<_>>())
    };
    picture.claims.iter().filter(matching).map(|claim| claim_line(claim, picture.at)).collect()
}

fn claim_line(claim: &ClaimRow, now: Timestamp) -> Line {
    let offering = [&claim.instance_type, &claim.capacity_type, &claim.zone];
    let offering: Vec<&str> = offering.into_iter().flatten().map(String::as_str).collect();
    let offering = if offering.is_empty() { "not launched yet".to_owned() } else { offering.join(" ") };
    let cost = claim.price_per_hour.map(|price| format!(" {}", dollars(price))).unwrap_or_default();
    let role = if claim.replacement { ", a replacement" } else { "" };
    let what = if claim.deleting { "is being deleted".to_owned() } else { format!("waits for {}", claim.waits_for) };
    let why = if claim.message.is_empty() { String::new() } else { format!(": {}", claim.message) };
    Line::new(Tone::Plain, format!("  {}  {offering}{cost}{role}, {}, ", claim.name, age(claim.created, now)))
        .with(Tone::Notice, format!("{what}{why}"))
        .opening(Target::Claim(claim.name.clone()))
}

fn pending(picture: &Picture, screen: &Screen) -> Vec<Line> {
    let matching = |pod: &&PendingRow| screen.matches(&[&pod.namespace, &pod.name, &pod.reason]);
    let line = |pod: &PendingRow| {
        let tone = if pod.nominated { Tone::Good } else { Tone::Notice };
        Line::new(Tone::Plain, format!("  {}, {}: ", pod.key(), age(pod.created, picture.at)))
            .with(tone, pod.reason.clone())
            .opening(Target::Pod(pod.key()))
    };
    picture.pending.iter().filter(matching).map(line).collect()
}

fn disruption(picture: &Picture) -> Vec<Line> {
    let disruption = &picture.disruption;
    let mut lines: Vec<Line> = Vec::new();
    for node in &disruption.nodes {
        let why = node.reason.as_deref().unwrap_or("reason not known");
        let text = format!("  {} is {} ({why})", node.node, node.state.as_str());
        let cost = node.price_per_hour.map(|price| format!(", {}", dollars(price))).unwrap_or_default();
        lines.push(Line::new(Tone::Plain, format!("{text}{cost}")).opening(Target::Node(node.node.clone())));
    }
    for command in &disruption.commands {
        let text = format!("  {} replace {}", command.replacements.join(", "), command.nodes.join(", "));
        lines.push(Line::new(Tone::Plain, text));
    }
    let others = disruption.other_replacements();
    if !others.is_empty() {
        lines.push(Line::new(Tone::Plain, format!("  replacements: {}", others.join(", "))));
    }
    if let Some(saving) = disruption.saving_per_hour {
        let text =
            if saving < 0.0 { format!("{} more", dollars(-saving)) } else { format!("{} saved", dollars(saving)) };
        lines.push(Line::new(Tone::Good, format!("  together: {text}")));
    }
    lines
}

fn timeline(picture: &Picture, screen: &Screen, width: usize) -> Vec<Line> {
    let matching = |entry: &&Entry| screen.matches(&[&entry.text, entry.kind.as_str()]);
    let shown = picture.timeline.iter().filter(matching).take(ENTRIES);
    shown.flat_map(|entry| entry_lines(entry, picture.at, width)).collect()
}

/// An entry, wrapped below its first word.
fn entry_lines(entry: &Entry, now: Timestamp, width: usize) -> Vec<Line> {
    const KIND: usize = 12;
    let tone = if entry.kind.is_warning() { Tone::Notice } else { Tone::Plain };
    let parts = wrapped(&entry.sentence(), width.saturating_sub(KIND + 8).max(20));
    let line = |(number, part): (usize, String)| {
        let (time, kind) =
            if number == 0 { (age(Some(entry.time), now), entry.kind.as_str()) } else { (String::new(), "") };
        let line = Line::new(Tone::Dim, format!("  {} ", right(&time, 4)));
        let line = line.with(tone, fit(kind, KIND)).with(Tone::Plain, format!(" {part}"));
        Line { target: entry.object.clone(), ..line }
    };
    parts.into_iter().enumerate().map(line).collect()
}

fn events(picture: &Picture, screen: &Screen) -> Vec<Line> {
    let matching = |event: &&EventRow| screen.matches(&[&event.name, &event.reason, &event.message, &event.namespace]);
    picture.events.iter().filter(matching).map(|event| event_line(event, picture.at)).collect()
}

pub(crate) fn event_line(event: &EventRow, now: Timestamp) -> Line {
    let tone = if event.event_type == "Warning" { Tone::Notice } else { Tone::Plain };
    let target = match event.kind.as_str() {
        "Node" => Some(Target::Node(event.name.clone())),
        "Pod" => Some(Target::Pod(format!("{}/{}", event.namespace, event.name))),
        _ => None,
    };
    let mut line = Line::new(Tone::Dim, format!("  {} ", right(&age(event.time, now), 4)))
        .with(tone, event.reason.clone())
        .with(Tone::Plain, format!("  {}: {}", event.object(), event.message));
    line.target = target;
    line
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::amount::Amount;
    use crate::cluster::Update;
    use crate::decode::Kind;
    use crate::fixtures::{at, claim_value, cluster, event_value, node_value, pod_value, pool_value};
    use crate::screen::{Action, Key};
    use nodeless_catalog::Catalog;

    fn example() -> Picture {
        let mut small = node_value("ip-10-0-0-7.ec2.internal", "c5.large");
        small["status"]["allocatable"]["cpu"] = "2".into();
        small["metadata"]["labels"]["karpenter.sh/capacity-type"] = "on-demand".into();
        let cluster = cluster(&[
            (Kind::NodePool, pool_value("default")),
            (Kind::Node, node_value("ip-10-0-0-12.ec2.internal", "m5.xlarge")),
            (Kind::Node, small),
            (
                Kind::NodeClaim,
                claim_value("default-drain", Some("ip-10-0-0-7.ec2.internal"), &["Initialized", "Drained"]),
            ),
            (Kind::NodeClaim, claim_value("default-new", None, &["Launched"])),
            (Kind::Pod, pod_value("cart", Some("ip-10-0-0-7.ec2.internal"))),
            (Kind::Pod, pod_value("web", None)),
            (Kind::Event, event_value("Pod", "web", "FailedScheduling", "limit of cpu reached")),
        ]);
        Picture::of(&cluster, &Catalog::embedded().unwrap(), at(90))
    }

    fn text(lines: &[Line]) -> String {
        lines.iter().map(|line| line.text().trim_end().to_owned() + "\n").collect()
    }

    #[test]
    fn in_80_columns_every_node_is_one_line() {
        let picture = example();
        let body = text(&body(&picture, &Screen::default(), 80));
        assert_eq!(
            headings(&picture, 80).text().trim_end(),
            " NODE            TYPE        CAP  Z   AGE    $/h CPU   MEM   PODS STATE"
        );
        let nodes: Vec<&str> = body.lines().filter(|line| line.starts_with(" ip-")).collect();
        assert_eq!(nodes[0], " ip-10-0-0-12    m5.xlarge   spot 1a  90m 0.0793 ····· ·····    0 ready");
        assert_eq!(nodes[1], " ip-10-0-0-7     c5.large    od   1a  90m 0.0850 ██▌·· ▋····    1 draining 1");
        assert!(nodes.iter().all(|line| line.chars().count() <= 80));
    }

    #[test]
    fn in_160_columns_the_state_includes_what_it_waits_for() {
        let body = text(&body(&example(), &Screen::default(), 160));
        let draining = body.lines().find(|line| line.contains("draining")).unwrap();
        assert!(draining.ends_with("draining, waits for shop/cart (it is not evicted yet)"), "{draining}");
        assert!(draining.contains("on-demand us-east-1a") && draining.contains("50%"), "{draining}");
        assert!(body.contains("limits  cpu ███··· 8 of 16 (50%)"), "{body}");
    }

    #[test]
    fn use_is_a_second_bar_where_it_is_known() {
        let mut cluster = cluster(&[
            (Kind::Node, node_value("ip-10-0-0-12.ec2.internal", "m5.xlarge")),
            (Kind::Node, node_value("ip-10-0-0-7.ec2.internal", "m5.xlarge")),
            (Kind::Pod, pod_value("cart", Some("ip-10-0-0-12.ec2.internal"))),
        ]);
        let used = Amount { cpu_millicores: 3_000, memory_bytes: 4 << 30 };
        let usage = [("ip-10-0-0-12.ec2.internal".to_owned(), used)].into();
        cluster.apply(Update::Usage(Some(usage)));
        let picture = Picture::of(&cluster, &Catalog::embedded().unwrap(), at(90));
        let shown = |width: usize| {
            let lines = body(&picture, &Screen::default(), width);
            let nodes = lines.iter().filter(|line| line.text().starts_with(" ip-"));
            let texts = [headings(&picture, width).text()].into_iter().chain(nodes.map(Line::text));
            texts.map(|text| text.trim_end().to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(
            shown(80),
            [
                " NODE            TYPE        CAP  Z   AGE    $/h CPU   MEM   PODS STATE",
                " ip-10-0-0-12    m5.xlarge   spot 1a  90m 0.0793 ▌· █▌ ▎· ▌·    1 ready",
                " ip-10-0-0-7     m5.xlarge   spot 1a  90m 0.0793 ··    ··       0 ready",
            ]
        );
        assert!(shown(120)[0].contains(" CPU, used        memory, used "), "{:?}", shown(120));
        assert!(shown(120)[1].contains(" █▊····· █████▎·  ▉······ █▊·····  "), "{:?}", shown(120));
        assert!(shown(160)[0].contains(" CPU requested, used    memory requested, used "), "{:?}", shown(160));
        assert!(shown(160)[1].contains(" █▎···  25% ███▊·  75%  ▋····  12% █▎···  25% "), "{:?}", shown(160));
        for width in [80, 119, 120, 131, 132, 160] {
            let visible = |line: &String| line.chars().take(width).collect::<String>();
            let states = shown(width).iter().skip(1).filter(|line| visible(line).ends_with(" ready")).count();
            assert_eq!(states, 2, "{width}: {:?}", shown(width));
        }
    }

    #[test]
    fn what_is_not_a_node_is_listed_below() {
        let mut screen = Screen::default();
        assert!(!text(&body(&example(), &screen, 80)).contains("Events of nodeless"));
        screen.key(Key::Char('e'));
        let body = text(&body(&example(), &screen, 80));
        for expected in [
            "Needs attention (2)\n   90m Pod shop/web has no node: limit of cpu reached\n",
            "NodeClaims on the way (1)\n  default-new  not launched yet, 90m, waits for the node to register\n",
            "Pods without a node (1)\n  shop/web, 90m: limit of cpu reached\n",
            "Events of nodeless (1)\n   87m FailedScheduling  Pod shop/web: limit of cpu reached\n",
        ] {
            assert!(body.contains(expected), "{expected} is missing in\n{body}");
        }
    }

    #[test]
    fn a_filter_leaves_what_it_matches_and_a_sort_changes_the_order() {
        let picture = example();
        let mut screen = Screen::default();
        for key in "/c5".chars().map(Key::Char).chain([Key::Enter]) {
            assert_ne!(screen.key(key), Action::Quit);
        }
        let filtered = text(&body(&picture, &screen, 80));
        assert!(filtered.contains("ip-10-0-0-7") && !filtered.contains("ip-10-0-0-12"), "{filtered}");
        let mut screen = Screen::default();
        screen.key(Key::Char('p'));
        let sorted = text(&body(&picture, &screen, 80));
        assert!(sorted.find("ip-10-0-0-7").unwrap() < sorted.find("ip-10-0-0-12").unwrap(), "{sorted}");
    }

    #[test]
    fn the_header_counts_and_prices_the_cluster() {
        let header = text(&header(&example(), "cluster local", 80));
        assert!(header.starts_with("cluster local"), "{header}");
        assert!(
            header.contains("2 nodes (1 draining), 1 pod, 1 NodeClaim on the way, 1 pod without a node"),
            "{header}"
        );
        assert!(header.contains("/h; 17% of CPU requested, 6% of memory requested"), "{header}");
    }
}
