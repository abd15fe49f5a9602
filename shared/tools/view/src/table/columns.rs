//! The columns of nodes.

use super::state::state;
use crate::amount::Load;
use crate::line::{Line, Target, Tone};
use crate::node::NodeRow;
use crate::picture::Picture;
use crate::text::{age, bar, fit, percent, price, right, short_name};
use jiff::Timestamp;

/// From this width on, columns are wide.
pub(super) const WIDE: usize = 120;
/// From this width on, the use of nodes is shown as a percentage, too.
const WIDER: usize = 132;

/// The column headings.
pub(super) fn headings(picture: &Picture, width: usize) -> Line {
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
pub(super) struct Columns {
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
    pub(super) fn new(width: usize, total: &Load) -> Self {
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

pub(super) fn node_line(node: &NodeRow, now: Timestamp, columns: &Columns) -> Line {
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
