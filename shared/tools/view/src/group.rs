//! Groups of nodes, for clusters with more nodes than fit on a screen: those of one NodePool, instance type and capacity type.

use crate::line::{Line, Target, Tone};
use crate::node::NodeRow;
use crate::node_state::NodeState;
use crate::pool::PoolRow;
use crate::text::{counted, dollars, percent};

/// More nodes than this are shown as groups, unless the terminal is taller.
pub(crate) const MANY: usize = 40;
/// The cells of ready nodes, from empty to full.
const LEVELS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
/// What the cells mean, for the line above the groups.
pub(crate) const LEGEND: &str = "A cell is a node: ▁ to █ by requests; J joining, D draining, T terminating, \
                                 X disrupted, N not ready, C cordoned. Enter lists the nodes.";

/// The name of a node's group: `default m5.large spot`.
pub(crate) fn group_of(node: &NodeRow) -> String {
    let parts = [&node.node_pool, &node.instance_type, &node.capacity_type];
    parts.map(|part| part.as_deref().unwrap_or("-")).join(" ")
}

/// The groups of the nodes of one NodePool, the most expensive first, as lines. `nodes` are ordered by name.
pub(crate) fn groups(nodes: &[&NodeRow], width: usize) -> Vec<Line> {
    let mut groups = std::collections::BTreeMap::<String, Vec<&NodeRow>>::new();
    for node in nodes {
        groups.entry(group_of(node)).or_default().push(node);
    }
    let mut groups: Vec<_> = groups.into_iter().map(|(name, nodes)| (PoolRow::of(&nodes), name, nodes)).collect();
    groups.sort_by(|(a, ..), (b, ..)| b.price_per_hour.total_cmp(&a.price_per_hour));
    groups.iter().flat_map(|(sum, name, nodes)| group_lines(sum, name, nodes, width)).collect()
}

fn group_lines(sum: &PoolRow, name: &str, nodes: &[&NodeRow], width: usize) -> Vec<Line> {
    // The NodePool is in the heading above.
    let kind = name.split_once(' ').map_or(name, |(_, kind)| kind);
    let facts = format!(
        "  {kind:24} {:>9} {:>11}  CPU {:>4} memory {:>4}  ",
        counted(sum.nodes, "node"),
        dollars(sum.price_per_hour),
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
    [opening(first)].into_iter().chain(rows).collect()
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
    use crate::decode::Kind;
    use crate::fixtures::{at, claim_value, cluster, node_value, pod_value};
    use crate::picture::Picture;
    use crate::screen::{Action, Key, Page, Screen};
    use crate::table;
    use nodeless_catalog::Catalog;

    fn many() -> Picture {
        let mut objects: Vec<_> = (0..60)
            .map(|number| {
                let instance_type = if number < 55 { "m5.xlarge" } else { "m5.large" };
                (Kind::Node, node_value(&format!("n{number:02}"), instance_type))
            })
            .collect();
        objects.push((Kind::NodeClaim, claim_value("c", Some("n07"), &["Initialized", "Drained"])));
        objects.extend((0..3).map(|number| (Kind::Pod, pod_value(&format!("p{number}"), Some("n00")))));
        Picture::of(&cluster(&objects), &Catalog::embedded().unwrap(), at(5))
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
        assert!(large.starts_with("  m5.xlarge spot            55 nodes   $"), "{large}");
        assert_eq!(*cells, format!("    D▆{}", "▁".repeat(53)));
        assert!(
            small.starts_with("  m5.large spot              5 nodes") && small.ends_with("memory   0%  ▁▁▁▁▁"),
            "{small}"
        );
        assert!(text.iter().all(|line| line.chars().count() <= 80), "{text:?}");
        assert!(!text.iter().any(|line| line.starts_with(" n00")), "{text:?}");
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
        assert_eq!(screen.key(Key::Escape), Action::Redraw);
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
