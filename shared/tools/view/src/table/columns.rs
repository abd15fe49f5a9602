//! The columns of nodes.

use super::extra::{self, ExtraColumn};
use super::state::state;
use crate::line::{Line, Target, Tone};
use crate::objects::node::NodeRow;
use crate::picture::Picture;
use crate::text::{age, bar, fit, percent, price, right, short_name};
use jiff::Timestamp;

/// From this width on, columns are wide.
pub(super) const WIDE: usize = 120;
/// From this width on, the use of nodes is shown as a percentage, too.
const WIDER: usize = 132;

/// The column headings.
pub(super) fn headings(picture: &Picture, width: usize) -> Line {
    let columns = Columns::new(width, picture);
    let (cpu, memory) = match columns.use_of {
        _ if !columns.wide => ("CPU", "MEM"),
        Use::Unknown => ("CPU requested", "memory requested"),
        Use::Bar => ("CPU, used", "memory, used"),
        Use::BarAndShare => ("CPU requested, used", "memory requested, used"),
    };
    let mut cells = vec![
        fit("NODE", columns.name),
        fit("TYPE", columns.instance_type),
        fit(if columns.wide { "CAPACITY" } else { "CAP" }, columns.capacity_type),
        fit(if columns.wide { "ZONE" } else { "Z" }, columns.zone),
    ];
    cells.extend(columns.age.map(|age| right("AGE", age)));
    cells.extend([right("$/h", columns.price), fit(cpu, columns.load), fit(memory, columns.load)]);
    cells.push(right("PODS", columns.pods));
    cells.extend(columns.extra.iter().map(|column| fit(&column.heading, column.width)));
    cells.push("STATE".to_owned());
    Line::new(Tone::Heading, fit(&format!(" {}", cells.join(" ")), width))
}

/// The widths of the columns.
pub(super) struct Columns {
    wide: bool,
    name: usize,
    instance_type: usize,
    capacity_type: usize,
    zone: usize,
    /// Extra columns may take its place.
    age: Option<usize>,
    price: usize,
    load: usize,
    use_of: Use,
    pods: usize,
    /// Of extended resources and labels.
    extra: Vec<ExtraColumn>,
    /// Those for which the line is too short: they are on a second one.
    below: Vec<ExtraColumn>,
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
    /// The use is shown if that of any node is known.
    pub(super) fn new(width: usize, picture: &Picture) -> Self {
        let use_of = match picture.totals.load.used {
            None => Use::Unknown,
            Some(_) if width < WIDER => Use::Bar,
            Some(_) => Use::BarAndShare,
        };
        let extra = extra::columns(picture);
        let taken: usize = extra.iter().map(|column| column.width + 1).sum();
        if width >= WIDE + taken {
            Self::wide(width - taken, use_of, extra)
        } else {
            Self::narrow(width, use_of, extra)
        }
    }

    fn narrow(width: usize, use_of: Use, extra: Vec<ExtraColumn>) -> Self {
        // 80 columns leave 13 for the state, of which it needs 11, the length of `terminating`.
        let growth = width.saturating_sub(80);
        let age = extra.is_empty().then_some(4);
        let mut spare = growth + if extra.is_empty() { 0 } else { 5 + 2 };
        let (mut fitting, mut below) = (Vec::new(), Vec::new());
        for column in extra {
            match spare.checked_sub(column.width + 1) {
                Some(left) => {
                    spare = left;
                    fitting.push(column);
                }
                None => below.push(column),
            }
        }
        Self {
            wide: false,
            name: 15 + growth.min(15).min(spare),
            instance_type: 11,
            capacity_type: 4,
            zone: 2,
            age,
            price: 6,
            load: 5,
            use_of,
            pods: 4,
            extra: fitting,
            below,
        }
    }

    /// `width` is what extra columns leave.
    fn wide(width: usize, use_of: Use, extra: Vec<ExtraColumn>) -> Self {
        let use_of = if use_of == Use::BarAndShare && width < WIDER { Use::Bar } else { use_of };
        let (load, start) = if use_of == Use::BarAndShare { (22, WIDER) } else { (16, WIDE) };
        // The narrowest column of names leaves 11 for the state, the length of `terminating`.
        let name = 17 + width.saturating_sub(start).min(27);
        Self {
            wide: true,
            name,
            instance_type: 13,
            capacity_type: 9,
            zone: 10,
            age: Some(4),
            price: 8,
            load,
            use_of,
            pods: 7,
            extra,
            below: Vec::new(),
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

    /// A node: its line, and a second one with what the first has no space for.
    pub(super) fn lines(&self, node: &NodeRow, now: Timestamp) -> Vec<Line> {
        let below: Vec<String> = self.below.iter().filter_map(|column| column.sentence(node)).collect();
        let below = (!below.is_empty()).then(|| Line::new(Tone::Dim, format!("     {}", below.join(", "))));
        let lines = [Some(self.line(node, now)), below].into_iter().flatten();
        lines.map(|line| line.opening(Target::Node(node.name.clone()))).collect()
    }

    fn line(&self, node: &NodeRow, now: Timestamp) -> Line {
        let text = |value: &Option<String>| value.clone().unwrap_or_else(|| "-".to_owned());
        let (capacity_type, zone) = match self.wide {
            true => (text(&node.capacity_type), text(&node.zone)),
            false => (short_capacity(&node.capacity_type).to_owned(), text(&node.zone.as_deref().map(short_zone))),
        };
        let load = &node.load;
        let mut start = vec![
            short_name(&node.name, self.name),
            fit(&text(&node.instance_type), self.instance_type),
            fit(&capacity_type, self.capacity_type),
            fit(&zone, self.zone),
        ];
        start.extend(self.age.map(|width| right(&age(node.created, now), width)));
        start.push(right(&price_cell(node.price_per_hour, self.price), self.price));
        let pods = match self.wide {
            true => format!("{}/{}", node.pods.len(), node.pod_capacity),
            false => node.pods.len().to_string(),
        };
        let mut end = vec![right(&pods, self.pods)];
        end.extend(self.extra.iter().map(|column| column.cell(node)));
        let (tone, state) = state(node, now, self.wide);
        Line::new(Tone::Plain, format!(" {} ", start.join(" ")))
            .with(load_tone(load.cpu_requested()), self.load(load.cpu_requested(), load.cpu_used()))
            .with(Tone::Plain, " ")
            .with(load_tone(load.memory_requested()), self.load(load.memory_requested(), load.memory_used()))
            .with(Tone::Plain, format!(" {} ", end.join(" ")))
            .with(tone, state)
    }
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
