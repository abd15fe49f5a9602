//! Draws the lines of a screen with ratatui, which writes only the cells that changed.

use nodeless_model::printable::printable_line;
use nodeless_view::{Line, Page, Picture, Screen, Tone, detail, table};
use ratatui::Frame;
use ratatui::layout::{Position, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line as DrawnLine, Span as DrawnSpan};

/// The smallest terminal in which the view is readable.
pub(crate) const SMALLEST: (u16, u16) = (60, 10);

/// What is drawn.
pub(crate) struct Scene<'s> {
    pub(crate) picture: &'s Picture,
    /// The first line.
    pub(crate) title: &'s str,
    /// The explanation of the object that is open.
    pub(crate) explanation: &'s [String],
    /// Why the picture is out of date, if it is.
    pub(crate) trouble: Option<&'s str>,
    pub(crate) colour: bool,
}

impl Scene<'_> {
    /// Draws it. The screen keeps the selected line visible.
    pub(crate) fn draw(&self, frame: &mut Frame<'_>, screen: &mut Screen) {
        let area = frame.area();
        if area.width < SMALLEST.0 || area.height < SMALLEST.1 {
            let text =
                format!("{} x {}: too small; enlarge to {} x {}", area.width, area.height, SMALLEST.0, SMALLEST.1);
            put(frame, 0, &Line::new(Tone::Bad, text), Style::default(), self.colour);
            return;
        }
        let width = usize::from(area.width);
        screen.resize(usize::from(area.height));
        let (fixed, lines) = self.lines(screen, width);
        let top = u16::try_from(fixed.len()).unwrap_or(u16::MAX);
        let height = usize::from(area.height.saturating_sub(top + 1));
        for (row, line) in (0..top).zip(&fixed) {
            put(frame, row, line, Style::default(), self.colour);
        }
        let (offset, cursor) = screen.place(&lines, height);
        let visible = lines.iter().enumerate().skip(offset).take(height);
        for (row, (index, line)) in (top..area.height).zip(visible) {
            let selected =
                if index == cursor { Style::default().add_modifier(Modifier::REVERSED) } else { Style::default() };
            put(frame, row, line, selected, self.colour);
        }
        let last = area.height - 1;
        let hints = match self.trouble {
            Some(trouble) if !screen.is_typing() => Line::new(Tone::Bad, trouble),
            _ => Line::new(Tone::Dim, screen.hints()),
        };
        put(frame, last, &hints, Style::default(), self.colour);
        // A screen reader and a magnifier follow the cursor.
        let row = top + u16::try_from(cursor - offset.min(cursor)).unwrap_or_default();
        frame.set_cursor_position(Position { x: 0, y: row.min(last) });
    }

    /// The lines that do not scroll, and those that do.
    fn lines(&self, screen: &Screen, width: usize) -> (Vec<Line>, Vec<Line>) {
        match screen.page() {
            Page::Table => (table::header(self.picture, self.title, width), table::body(self.picture, screen, width)),
            Page::Group(name) => {
                let fixed = table::header(self.picture, self.title, width);
                (fixed, table::group(self.picture, screen, name, width))
            }
            Page::Object(target) => {
                (Vec::new(), detail(self.picture, target, self.explanation, screen.shows_all(), width))
            }
            Page::Help => (Vec::new(), Screen::help()),
        }
    }
}

/// Draws a line in a row, over its whole width.
fn put(frame: &mut Frame<'_>, row: u16, line: &Line, base: Style, colour: bool) {
    let area = frame.area();
    let spans = line.spans.iter().map(|span| DrawnSpan::styled(printable_line(&span.text), style(span.tone, colour)));
    let drawn = DrawnLine::from(spans.collect::<Vec<_>>());
    let buffer = frame.buffer_mut();
    buffer.set_line(area.x, area.y + row, &drawn, area.width);
    buffer.set_style(Rect { x: area.x, y: area.y + row, width: area.width, height: 1 }, base);
}

fn style(tone: Tone, colour: bool) -> Style {
    let plain = Style::default();
    match (tone, colour) {
        (Tone::Heading, _) => plain.add_modifier(Modifier::BOLD),
        (_, false) | (Tone::Plain, true) => plain,
        (Tone::Dim, true) => plain.fg(Color::DarkGray),
        (Tone::Good, true) => plain.fg(Color::Green),
        (Tone::Notice, true) => plain.fg(Color::Yellow),
        (Tone::Bad, true) => plain.fg(Color::Red).add_modifier(Modifier::BOLD),
    }
}

#[cfg(test)]
mod flicker;

#[cfg(test)]
mod tests {
    use super::*;
    use nodeless_catalog::Catalog;
    use nodeless_view::{Cluster, Key, Object, ShownKind, Target, Update};
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;
    use ratatui::buffer::Buffer;
    use serde_json::{Value, json};

    pub(super) fn put(cluster: &mut Cluster, kind: ShownKind, object: &Value) {
        let text = |key: &str| object["metadata"][key].as_str().unwrap_or_default().to_owned();
        let (namespace, name) = (text("namespace"), text("name"));
        let object = Object::decode(kind, &object.to_string());
        assert!(object.is_ok(), "{object:?}");
        cluster.apply(Update::Present { kind, namespace, name, object });
    }

    /// Two nodes, a pod on the first and one without a node.
    fn example() -> Picture {
        let mut cluster = Cluster::default();
        for (name, instance_type) in
            [("ip-10-0-0-1.ec2.internal", "m5.xlarge"), ("ip-10-0-0-2.ec2.internal", "m5.large")]
        {
            let node = json!({
                "metadata": { "name": name, "creationTimestamp": "2026-01-01T00:00:00Z", "labels": {
                    "karpenter.sh/nodepool": "default", "karpenter.k8s.aws/ec2nodeclass": "default",
                "node.kubernetes.io/instance-type": instance_type,
                    "karpenter.sh/capacity-type": "on-demand", "topology.kubernetes.io/zone": "us-east-1a",
                    "karpenter.sh/initialized": "true"
                } },
                "status": {
                    "allocatable": { "cpu": "4", "memory": "16Gi", "pods": "58" },
                    "conditions": [{ "type": "Ready", "status": "True" }]
                }
            });
            put(&mut cluster, ShownKind::Node, &node);
        }
        for (name, node) in [("web", Some("ip-10-0-0-1.ec2.internal")), ("batch", None)] {
            let pod = json!({
                "metadata": { "name": name, "namespace": "shop", "creationTimestamp": "2026-01-01T00:00:00Z" },
                "spec": { "nodeName": node, "containers": [
                    { "name": "c", "resources": { "requests": { "cpu": "3", "memory": "4Gi" } } }
                ] },
                "status": { "phase": "Running", "conditions": [
                    { "type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "too big\u{1b}[2J" }
                ] }
            });
            put(&mut cluster, ShownKind::Pod, &pod);
        }
        let at = "2026-01-01T01:00:00Z".parse().unwrap();
        Picture::new(&cluster, &Catalog::embedded().unwrap(), at)
    }

    fn drawn(screen: &mut Screen, width: u16, height: u16, colour: bool) -> Buffer {
        let picture = example();
        let explanation = ["Node is not disrupted".to_owned()];
        let scene =
            Scene { picture: &picture, title: "nodeless view", explanation: &explanation, trouble: None, colour };
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| scene.draw(frame, screen)).unwrap();
        terminal.backend().buffer().clone()
    }

    fn text(buffer: &Buffer) -> Vec<String> {
        let width = usize::from(buffer.area.width);
        let rows = buffer.content.chunks(width);
        rows.map(|row| row.iter().map(|cell| cell.symbol()).collect::<String>().trim_end().to_owned()).collect()
    }

    #[test]
    fn in_80_columns() {
        let buffer = drawn(&mut Screen::default(), 80, 14, false);
        assert_eq!(
            text(&buffer),
            [
                "nodeless view                                               2026-01-01T01:00:00Z",
                "2 nodes, 1 pod, 1 pod without a node",
                "$0.2880/h, $210/month; 38% of CPU requested, 12% of memory requested",
                "Needs attention (1)",
                "   60m Pod shop/batch has no node: too big�[2J",
                "",
                " NODE            TYPE        CAP  Z   AGE    $/h CPU   MEM   PODS STATE",
                "NodePool default  2 nodes, 1 pod, $0.2880/h, $210/month, CPU 38%, memory 12%",
                " ip-10-0-0-1     m5.xlarge   od   1a  60m 0.1920 ███▊· █▎···    1 ready",
                " ip-10-0-0-2     m5.large    od   1a  60m 0.0960 ····· ·····    0 ready",
                "",
                "Pods without a node (1)",
                "  shop/batch, 60m: too big�[2J",
                "Enter open  / filter  1-8 sections  ? keys  q quit  sorted by name",
            ]
        );
        assert!(buffer.content.iter().all(|cell| cell.fg == Color::Reset && cell.bg == Color::Reset), "no colour");
    }

    #[test]
    fn in_160_columns() {
        let lines = text(&drawn(&mut Screen::default(), 160, 14, false));
        assert_eq!(
            lines[6],
            " NODE                                         TYPE          CAPACITY  ZONE        AGE      $/h CPU requested    memory requested    PODS STATE"
        );
        assert_eq!(
            lines[8],
            " ip-10-0-0-1.ec2.internal                     m5.xlarge     on-demand us-east-1a  60m   0.1920 ████▌·  75%      █▌····  25%         1/58 ready"
        );
    }

    #[test]
    fn colour_is_only_used_if_it_is_enabled() {
        let colours = |colour| {
            let buffer = drawn(&mut Screen::default(), 80, 14, colour);
            buffer.content.iter().filter(|cell| cell.fg != Color::Reset).count()
        };
        assert_eq!(colours(false), 0);
        assert!(colours(true) > 0);
    }

    #[test]
    fn the_selected_line_is_reversed_and_has_the_cursor() {
        let mut screen = Screen::default();
        drawn(&mut screen, 80, 14, false);
        screen.key(Key::Down);
        let buffer = drawn(&mut screen, 80, 14, false);
        let reversed = |row: u16| buffer[(0, row)].modifier.contains(Modifier::REVERSED);
        assert!(reversed(4) && !reversed(3) && !reversed(5));
        assert!(buffer[(79, 4)].modifier.contains(Modifier::REVERSED), "over the whole width");
    }

    #[test]
    fn an_open_node_shows_its_explanation() {
        let mut screen = Screen::default();
        drawn(&mut screen, 80, 14, false);
        for _ in 0..5 {
            screen.key(Key::Down);
        }
        drawn(&mut screen, 80, 14, false);
        screen.key(Key::Enter);
        assert_eq!(*screen.page(), Page::Object(Target::Node("ip-10-0-0-1.ec2.internal".to_owned())));
        let lines = text(&drawn(&mut screen, 80, 24, false)).join("\n");
        assert!(lines.starts_with("Node ip-10-0-0-1.ec2.internal\n"), "{lines}");
        assert!(lines.contains("  shop/web  cpu 3, memory 4Gi, Running, 60m\n"), "{lines}");
        assert!(lines.contains("What a plan made now would do\n  Node is not disrupted"), "{lines}");
    }

    #[test]
    fn a_terminal_that_becomes_too_small_gets_a_message_and_nothing_panics() {
        assert_eq!(text(&drawn(&mut Screen::default(), 40, 4, false))[0], "40 x 4: too small; enlarge to 60 x 10");
        for (width, height) in [(1, 1), (60, 10), (61, 200), (300, 10)] {
            drawn(&mut Screen::default(), width, height, true);
        }
    }

    #[test]
    fn trouble_replaces_the_hints() {
        let picture = example();
        let scene = Scene {
            picture: &picture,
            title: "",
            explanation: &[],
            trouble: Some("Pods cannot be read"),
            colour: true,
        };
        let mut terminal = Terminal::new(TestBackend::new(80, 12)).unwrap();
        terminal.draw(|frame| scene.draw(frame, &mut Screen::default())).unwrap();
        assert_eq!(text(terminal.backend().buffer())[11], "Pods cannot be read");
    }
}
