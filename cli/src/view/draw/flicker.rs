//! Tests how much of a terminal each drawing writes, with 5,000 nodes.

use super::tests::put;
use super::*;
use nodeless_catalog::Catalog;
use nodeless_view::{Cluster, ShownKind, Update};
use ratatui::Terminal;
use ratatui::backend::{Backend, ClearType, TestBackend, WindowSize};
use ratatui::buffer::Cell;
use ratatui::layout::Size;
use serde_json::{Value, json};

const NODES: usize = 5_000;
const SIZE: (u16, u16) = (120, 50);

/// A terminal that counts what is written to it.
struct Counting {
    terminal: TestBackend,
    /// The cells since the last [`Self::take`], by row and column.
    cells: Vec<(u16, u16)>,
    /// How often the terminal was cleared, which makes it flicker.
    cleared: usize,
}

impl Counting {
    fn new() -> Self {
        Self { terminal: TestBackend::new(SIZE.0, SIZE.1), cells: Vec::new(), cleared: 0 }
    }
}

impl Backend for Counting {
    type Error = <TestBackend as Backend>::Error;

    fn draw<'a, I: Iterator<Item = (u16, u16, &'a Cell)>>(&mut self, content: I) -> Result<(), Self::Error> {
        let content: Vec<(u16, u16, &Cell)> = content.collect();
        self.cells.extend(content.iter().map(|(x, y, _)| (*y, *x)));
        self.terminal.draw(content.into_iter())
    }

    fn hide_cursor(&mut self) -> Result<(), Self::Error> {
        self.terminal.hide_cursor()
    }

    fn show_cursor(&mut self) -> Result<(), Self::Error> {
        self.terminal.show_cursor()
    }

    fn get_cursor_position(&mut self) -> Result<Position, Self::Error> {
        self.terminal.get_cursor_position()
    }

    fn set_cursor_position<P: Into<Position>>(&mut self, position: P) -> Result<(), Self::Error> {
        self.terminal.set_cursor_position(position)
    }

    fn clear(&mut self) -> Result<(), Self::Error> {
        self.cleared += 1;
        self.terminal.clear()
    }

    fn clear_region(&mut self, clear_type: ClearType) -> Result<(), Self::Error> {
        self.cleared += 1;
        self.terminal.clear_region(clear_type)
    }

    fn size(&self) -> Result<Size, Self::Error> {
        self.terminal.size()
    }

    fn window_size(&mut self) -> Result<WindowSize, Self::Error> {
        self.terminal.window_size()
    }

    fn flush(&mut self) -> Result<(), Self::Error> {
        self.terminal.flush()
    }
}

fn node(index: usize, ready: &str) -> Value {
    json!({
        "metadata": { "name": format!("ip-10-0-{}-{}.ec2.internal", index / 256, index % 256), "creationTimestamp": "2026-01-01T00:00:00Z", "labels": {
            "karpenter.sh/nodepool": "default", "node.kubernetes.io/instance-type": "m5.xlarge",
            "karpenter.sh/capacity-type": "on-demand", "topology.kubernetes.io/zone": "us-east-1a",
            "karpenter.sh/initialized": "true"
        } },
        "status": {
            "allocatable": { "cpu": "4", "memory": "16Gi", "pods": "58" },
            "conditions": [{ "type": "Ready", "status": ready }]
        }
    })
}

/// The rows that are written when the cluster is drawn, and how many cells.
fn written(terminal: &mut Terminal<Counting>, screen: &mut Screen, cluster: &Cluster, time: &str) -> (Vec<u16>, usize) {
    let picture = Picture::new(cluster, &Catalog::embedded().unwrap(), time.parse().unwrap());
    let scene = Scene { picture: &picture, title: "nodeless view", explanation: &[], trouble: None, colour: true };
    terminal.backend_mut().cells.clear();
    terminal.draw(|frame| scene.draw(frame, screen)).unwrap();
    let cells = &terminal.backend().cells;
    let mut rows: Vec<u16> = cells.iter().map(|(row, _)| *row).collect();
    rows.sort_unstable();
    rows.dedup();
    (rows, cells.len())
}

#[test]
fn only_what_changed_is_written_with_5000_nodes() {
    let mut cluster = Cluster::default();
    (0..NODES).for_each(|index| put(&mut cluster, ShownKind::Node, &node(index, "True")));
    let (mut terminal, mut screen) = (Terminal::new(Counting::new()).unwrap(), Screen::default());
    let mut draw = |cluster: &Cluster, time: &str| {
        let written = written(&mut terminal, &mut screen, cluster, time);
        (written, terminal.backend().cleared)
    };
    let ((rows, cells), _) = draw(&cluster, "2026-01-01T05:00:00Z");
    assert!(rows.len() >= usize::from(SIZE.1) - 2 && cells > 3_000, "the first drawing fills the screen: {rows:?}");

    assert_eq!(draw(&cluster, "2026-01-01T05:00:00Z").0, (vec![], 0), "nothing changed");
    // The clock in the first line, and no age: they are in hours.
    assert_eq!(draw(&cluster, "2026-01-01T05:00:07Z").0, (vec![0], 1));

    // A node on the screen and one below it, which only changes the totals.
    put(&mut cluster, ShownKind::Node, &node(0, "False"));
    put(&mut cluster, ShownKind::Node, &node(NODES - 1, "False"));
    let ((rows, cells), _) = draw(&cluster, "2026-01-01T05:00:07Z");
    assert!(rows.len() == 2 && rows.contains(&1) && cells < 120, "{rows:?}, {cells} cells");

    // A node that goes moves those below it by one line: their names change, and what they have in common is not written.
    let gone = node(0, "False")["metadata"]["name"].as_str().unwrap().to_owned();
    cluster.apply(Update::Absent { kind: ShownKind::Node, namespace: String::new(), name: gone });
    let ((_, cells), cleared) = draw(&cluster, "2026-01-01T05:00:07Z");
    assert!((1..1_000).contains(&cells), "{cells} of {} cells", SIZE.0 * SIZE.1);
    assert_eq!(cleared, 0, "nothing is cleared, so nothing flickers");
}
