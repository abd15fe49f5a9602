//! Groups of nodes: those of one NodePool, zone, instance type or capacity type, and within them, for clusters with more nodes than fit
//! on a screen, those of one NodePool, instance type and capacity type.

use crate::line::{Line, Target, Tone};
use crate::objects::amount::Load;
use crate::objects::node::NodeRow;
use crate::objects::node_state::NodeState;
use crate::objects::pool::PoolRow;
use crate::text::{counted, dollars, percent};
use crate::viewing::GroupBy;
use nodeless_model::money::ByMonth;
use serde::Serialize;
use std::collections::BTreeMap;

/// More nodes than this are shown as groups, unless the terminal is taller.
pub(crate) const MANY: usize = 40;
/// The cells of ready nodes, from empty to full.
const LEVELS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
/// What the cells mean, for the line above the groups.
pub(crate) const LEGEND: &str = "A cell is a node: ▁ to █ by requests; J joining, D draining, T terminating, \
                                 X disrupted, N not ready, C cordoned. Enter lists the nodes.";

/// The nodes with one value of what the user chose to group by.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct GroupRow {
    /// The value; `null` for the nodes without one.
    pub name: Option<String>,
    /// The number of nodes.
    pub nodes: usize,
    /// The number of pods on them.
    pub pods: usize,
    /// The price of the nodes in dollars an hour, as far as it is known.
    pub price_per_hour: f64,
    /// The same for a month of 730 hours.
    pub price_per_month: f64,
    /// The number of nodes whose price is not known.
    pub nodes_without_price: usize,
    /// The allocatable and used resources of the nodes.
    pub load: Load,
}

impl From<GroupRow> for PoolRow {
    fn from(group: GroupRow) -> Self {
        let GroupRow { name, nodes, pods, price_per_hour, price_per_month, nodes_without_price, load } = group;
        Self { name, nodes, pods, price_per_hour, price_per_month, nodes_without_price, load, ..Self::default() }
    }
}

/// The nodes by value, the most expensive first.
pub(crate) fn groups(nodes: &[NodeRow], by: GroupBy) -> Vec<GroupRow> {
    let mut sums = BTreeMap::<&Option<String>, PoolRow>::new();
    nodes.iter().for_each(|node| sums.entry(by.value(node)).or_default().add(node));
    let row = |(name, sum): (&Option<String>, PoolRow)| {
        let PoolRow { nodes, pods, price_per_hour, price_per_month, nodes_without_price, load, .. } = sum;
        GroupRow { name: name.clone(), nodes, pods, price_per_hour, price_per_month, nodes_without_price, load }
    };
    let mut rows: Vec<GroupRow> = sums.into_iter().map(row).collect();
    rows.sort_by(|a, b| b.price_per_hour.total_cmp(&a.price_per_hour));
    rows
}

/// The name of a node's group: what the user groups by, and then the NodePool, instance type and capacity type:
/// `default m5.large spot`.
pub(crate) fn group_of(node: &NodeRow, by: GroupBy) -> String {
    let rest = [GroupBy::NodePool, GroupBy::Type, GroupBy::CapacityType].into_iter().filter(|other| *other != by);
    let parts = [by].into_iter().chain(rest).map(|by| by.value(node).as_deref().unwrap_or("-"));
    parts.collect::<Vec<_>>().join(" ")
}

/// The groups of nodes of one section, the most expensive first, as lines. `nodes` are ordered by name.
pub(crate) fn lines(nodes: &[&NodeRow], by: GroupBy, width: usize) -> Vec<Line> {
    let mut groups = BTreeMap::<String, Vec<&NodeRow>>::new();
    for node in nodes {
        groups.entry(group_of(node, by)).or_default().push(node);
    }
    let mut groups: Vec<_> = groups.into_iter().map(|(name, nodes)| (PoolRow::new(&nodes), name, nodes)).collect();
    groups.sort_by(|(a, ..), (b, ..)| b.price_per_hour.total_cmp(&a.price_per_hour));
    let longest = groups.iter().map(|(_, name, _)| kind(name).chars().count()).max().unwrap_or_default();
    groups.iter().flat_map(|(sum, name, nodes)| group_lines(sum, name, longest, nodes, width)).collect()
}

/// What follows in the name of a group; what the user groups by is in the heading above.
fn kind(name: &str) -> &str {
    name.split_once(' ').map_or(name, |(_, kind)| kind)
}

fn group_lines(sum: &PoolRow, name: &str, longest: usize, nodes: &[&NodeRow], width: usize) -> Vec<Line> {
    let kind = kind(name);
    let more: String = sum.load.extended.texts().map(|text| format!(", {text}")).collect();
    let facts = format!(
        "  {kind:longest$} {:>9} {:>10} {:>12}  CPU {:>4} mem {:>4}{more}  ",
        counted(sum.nodes, "node"),
        dollars(sum.price_per_hour),
        ByMonth(sum.price_per_hour).to_string(),
        percent(sum.load.cpu_requested()),
        percent(sum.load.memory_requested())
    );
    let mut nodes = nodes.to_vec();
    nodes.sort_by_key(|node| node.state);
    let opening = |line: Line| line.opening(Target::Group(name.to_owned()));
    let free = width.saturating_sub(facts.chars().count());
    let first = Line::new(Tone::Plain, facts);
    if nodes.len() <= free {
        return vec![opening(cells(first, &nodes))];
    }
    let rows = nodes.chunks(width.saturating_sub(5).max(20));
    let rows = rows.map(|row| opening(cells(Line::new(Tone::Plain, "    "), row)));
    first.folded(width).into_iter().map(opening).chain(rows).collect()
}

/// A line with a cell for each node.
fn cells(line: Line, nodes: &[&NodeRow]) -> Line {
    nodes.iter().fold(line, |mut line, node| {
        let (tone, cell) = cell(node);
        match line.spans.last_mut() {
            Some(last) if last.tone == tone => last.text.push(cell),
            _ => line = line.with(tone, cell),
        }
        line
    })
}

fn cell(node: &NodeRow) -> (Tone, char) {
    match node.state {
        NodeState::Ready => {
            let full = node.load.cpu_requested().max(node.load.memory_requested());
            let level = LEVELS.iter().zip(1_u8..).find(|(_, eighths)| full * 8.0 <= f64::from(*eighths));
            (Tone::Good, level.map_or('█', |(level, _)| *level))
        }
        NodeState::NotReady => (Tone::Bad, 'N'),
        NodeState::Joining => (Tone::Notice, 'J'),
        NodeState::Draining => (Tone::Notice, 'D'),
        NodeState::Terminating => (Tone::Notice, 'T'),
        NodeState::Disrupted => (Tone::Notice, 'X'),
        NodeState::Cordoned => (Tone::Notice, 'C'),
    }
}

#[cfg(test)]
mod tests {
    use crate::fixtures::{at, claim_value, cluster, node_value, pod_value};
    use crate::objects::decode::ShownKind;
    use crate::picture::Picture;
    use crate::screen::{Key, KeyAction, Page, Screen};
    use crate::table;
    use nodeless_catalog::Catalog;

    fn many() -> Picture {
        let mut objects: Vec<_> = (0..60)
            .map(|number| {
                let instance_type = if number < 55 { "m5.xlarge" } else { "m5.large" };
                (ShownKind::Node, node_value(&format!("n{number:02}"), instance_type))
            })
            .collect();
        objects.push((ShownKind::NodeClaim, claim_value("c", Some("n07"), &["Initialized", "Drained"])));
        objects.extend((0..3).map(|number| (ShownKind::Pod, pod_value(&format!("p{number}"), Some("n00")))));
        Picture::new(&cluster(&objects), &Catalog::embedded().unwrap(), at(5))
    }

    #[test]
    fn many_nodes_are_groups_with_a_cell_for_each_node() {
        let picture = many();
        let text: Vec<String> = table::body(&picture, &Screen::default(), 80)
            .iter()
            .map(|line| line.text().trim_end().to_owned())
            .collect();
        let start = text.iter().position(|line| line.starts_with("NodePool default")).unwrap();
        let [_, large, cells, small] = &text[start..start + 4] else { panic!("{text:?}") };
        assert!(large.starts_with("  m5.xlarge spot  55 nodes  $4.3615/h  $3184/month  CPU "), "{large}");
        assert_eq!(*cells, format!("    D▆{}", "▁".repeat(53)));
        assert!(small.starts_with("  m5.large spot    5 nodes") && small.ends_with("mem   0%  ▁▁▁▁▁"), "{small}");
        assert!(text.iter().all(|line| line.chars().count() <= 80), "{text:?}");
        assert!(!text.iter().any(|line| line.starts_with(" n00")), "{text:?}");
    }

    #[test]
    fn a_cluster_of_300_nodes_fits_on_two_screens() {
        let types = ["m5.large", "m5.xlarge", "c5.large", "c5.xlarge"];
        let mut objects: Vec<_> =
            (0..300).map(|number| (ShownKind::Node, node_value(&format!("n{number:03}"), types[number % 4]))).collect();
        objects.extend((0..300).map(|number| (ShownKind::Pod, pod_value(&format!("p{number}"), None))));
        let picture = Picture::new(&cluster(&objects), &Catalog::embedded().unwrap(), at(5));
        for width in [60, 80, 120, 160] {
            let head = table::header(&picture, "nodeless view", width);
            let body = table::body(&picture, &Screen::default(), width);
            let nodes = body.iter().take_while(|line| !line.text().starts_with("Pods without")).count();
            let attention = body.iter().position(|line| line.text().is_empty()).unwrap();
            assert!(head.len() <= 4 && attention <= 12, "{width}: {} and {attention} lines", head.len());
            assert!(nodes <= 48, "{width}: {nodes} lines from the problems to the last node");
            // The longest line is that of a group, at 60 columns.
            let long = body.iter().map(|line| line.text().trim_end().chars().count()).max().unwrap();
            assert!(long <= width.max(80), "{width}: {long}");
        }
    }

    #[test]
    fn a_key_groups_the_nodes_of_all_node_pools_by_zone_type_or_capacity_type() {
        let picture = many();
        let mut screen = Screen::default();
        let mut shown = |presses: usize| {
            (0..presses).for_each(|_| assert_eq!(screen.key(Key::Char('b')), KeyAction::Redraw));
            let lines = table::body(&picture, &screen, 80).into_iter();
            lines
                .map(|line| line.text().trim_end().to_owned())
                .filter(|line| line.contains("/month"))
                .collect::<Vec<_>>()
        };
        assert!(shown(0)[0].starts_with("NodePool default  60 nodes, 3 pods, $"), "{:?}", shown(0));
        let zones = shown(1);
        assert!(zones[0].starts_with("Zone us-east-1a  60 nodes, 3 pods, $"), "{zones:?}");
        assert!(zones[1].starts_with("  default m5.xlarge spot  55 nodes"), "{zones:?}");
        let types = shown(1);
        assert!(types[0].starts_with("Instance type m5.xlarge  55 nodes") && types[1].starts_with("  default spot "));
        assert!(types[2].starts_with("Instance type m5.large  5 nodes"), "the most expensive first: {types:?}");
        assert!(shown(1)[0].starts_with("Capacity type spot  60 nodes"));
        assert!(shown(1)[0].starts_with("NodePool default"));
    }

    #[test]
    fn enter_lists_the_nodes_of_a_group_and_escape_returns() {
        let picture = many();
        let mut screen = Screen::default();
        let draw = |screen: &mut Screen| {
            let lines = match screen.page() {
                Page::Group(name) => table::group(&picture, screen, name, 80),
                _ => table::body(&picture, screen, 80),
            };
            screen.place(&lines, 20);
            lines
        };
        draw(&mut screen);
        screen.key(Key::Char('2'));
        draw(&mut screen);
        while !matches!(screen.page(), Page::Group(_)) {
            screen.key(Key::Down);
            draw(&mut screen);
            screen.key(Key::Enter);
        }
        assert_eq!(*screen.page(), Page::Group("default m5.xlarge spot".to_owned()));
        let nodes = draw(&mut screen).iter().filter(|line| line.target.is_some()).count();
        assert_eq!(nodes, 55);
        assert_eq!(screen.key(Key::Escape), KeyAction::Redraw);
        assert_eq!(*screen.page(), Page::Table);
    }

    #[test]
    fn a_filter_that_leaves_few_nodes_lists_them() {
        let mut screen = Screen::default();
        for key in "/m5.large".chars().map(Key::Char).chain([Key::Enter]) {
            screen.key(key);
        }
        let nodes = table::body(&many(), &screen, 80).iter().filter(|line| line.text().starts_with(" n")).count();
        assert_eq!(nodes, 5);
    }

    #[test]
    fn a_tall_terminal_lists_the_nodes() {
        let mut screen = Screen::default();
        screen.resize(70);
        let nodes = table::body(&many(), &screen, 80).iter().filter(|line| line.text().starts_with(" n")).count();
        assert_eq!(nodes, 60);
    }
}
