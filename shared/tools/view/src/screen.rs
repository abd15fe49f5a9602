//! The keys of the live view, and what they do.

use crate::group::MANY;
use crate::line::{Line, Target};
use crate::viewing::GroupBy;

/// A key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    /// One line up.
    Up,
    /// One line down.
    Down,
    /// One page up.
    PageUp,
    /// One page down.
    PageDown,
    /// To the first line.
    Home,
    /// To the last line.
    End,
    /// Open the line, or end the input of a filter.
    Enter,
    /// Back to the page before; on the table, remove the filter.
    Escape,
    /// Remove a character of the filter.
    Backspace,
    /// A character.
    Char(char),
    /// Ctrl-C.
    Interrupt,
}

/// What the caller has to do after a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyAction {
    /// Nothing.
    None,
    /// Draw the screen again.
    Redraw,
    /// Draw the screen again, and explain what was opened.
    Open(Target),
    /// End.
    Quit,
}

/// The order of the nodes of a group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sort {
    /// By name.
    #[default]
    Name,
    /// By instance type.
    Type,
    /// The newest first.
    Age,
    /// The most expensive first.
    Price,
    /// The fullest by CPU first.
    Cpu,
    /// The fullest by memory first.
    Memory,
    /// The one with most pods first.
    Pods,
    /// Nodes that terminate, drain or join first.
    State,
}

impl Sort {
    const KEYS: [(char, Self, &'static str); 8] = [
        ('n', Self::Name, "name"),
        ('t', Self::Type, "type"),
        ('a', Self::Age, "age"),
        ('p', Self::Price, "price"),
        ('c', Self::Cpu, "CPU"),
        ('m', Self::Memory, "memory"),
        ('o', Self::Pods, "pods"),
        ('s', Self::State, "state"),
    ];

    /// The name of the sort key.
    #[must_use]
    pub fn name(self) -> &'static str {
        Self::KEYS.iter().find(|(_, sort, _)| *sort == self).map_or("", |(_, _, name)| name)
    }
}

/// A page of the view.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Page {
    /// All nodes.
    #[default]
    Table,
    /// The nodes of a group.
    Group(String),
    /// The details of an object.
    Object(Target),
    /// The keys.
    Help,
}

/// A page, and where its reader is.
#[derive(Clone, Debug, Default)]
struct Place {
    page: Page,
    /// The selected line.
    cursor: usize,
    /// The object of the selected line. It stays selected when lines come and go.
    selected: Option<Target>,
    /// Whether a key moved the cursor since the lines were last placed.
    moved: bool,
    /// The first visible line.
    offset: usize,
    /// The key of the section to jump to.
    jump: Option<char>,
}

/// The state of the live view: which page is shown, and how.
#[derive(Clone, Debug, Default)]
pub struct Screen {
    /// The pages that were opened, below the present one.
    below: Vec<Place>,
    place: Place,
    sort: Sort,
    group_by: GroupBy,
    filter: String,
    /// Whether characters are added to the filter.
    typing: bool,
    /// Whether all Events are shown below the time line, and all of an explanation.
    all: bool,
    /// The number of visible lines.
    height: usize,
    /// The number of rows of the terminal; zero without one.
    rows: usize,
}

impl Screen {
    /// A screen that groups nodes by this at first.
    #[must_use]
    pub fn grouped_by(group_by: GroupBy) -> Self {
        Self { group_by, ..Self::default() }
    }

    /// What the nodes of a group have in common.
    #[must_use]
    pub const fn group_by(&self) -> GroupBy {
        self.group_by
    }

    /// The page that is shown.
    #[must_use]
    pub const fn page(&self) -> &Page {
        &self.place.page
    }

    /// The order of nodes.
    #[must_use]
    pub const fn sort(&self) -> Sort {
        self.sort
    }

    /// The filter; empty if there is none.
    #[must_use]
    pub fn filter(&self) -> &str {
        &self.filter
    }

    /// Whether the filter is being typed.
    #[must_use]
    pub const fn is_typing(&self) -> bool {
        self.typing
    }

    /// Whether all Events are shown below the time line, and all of an explanation.
    #[must_use]
    pub const fn shows_all(&self) -> bool {
        self.all
    }

    /// Takes the number of rows of the terminal.
    pub const fn resize(&mut self, rows: usize) {
        self.rows = rows;
    }

    /// Whether this many nodes are more than fit, and are shown as groups.
    #[must_use]
    pub fn groups(&self, nodes: usize) -> bool {
        nodes > MANY.max(self.rows)
    }

    /// Whether one of these words contains the filter. Upper and lower case do not matter.
    #[must_use]
    pub fn matches(&self, words: &[&str]) -> bool {
        let filter = self.filter.to_lowercase();
        filter.is_empty() || words.iter().any(|word| word.to_lowercase().contains(&filter))
    }

    /// Handles a key.
    pub fn key(&mut self, key: Key) -> KeyAction {
        match key {
            Key::Interrupt => KeyAction::Quit,
            _ if self.typing => self.typed(key),
            Key::Char('q') => KeyAction::Quit,
            Key::Char('?' | 'h') if self.place.page != Page::Help => self.open(Page::Help),
            Key::Char('/') if self.lists_nodes() => {
                self.typing = true;
                KeyAction::Redraw
            }
            Key::Char('b') if self.place.page == Page::Table => {
                self.group_by = self.group_by.next();
                KeyAction::Redraw
            }
            Key::Char('e') if self.place.page != Page::Help => {
                self.all = !self.all;
                KeyAction::Redraw
            }
            Key::Char(key @ '1'..='8') if self.place.page == Page::Table => {
                self.place.jump = Some(key);
                KeyAction::Redraw
            }
            Key::Enter => match self.place.selected.clone() {
                Some(Target::Group(name)) => self.open(Page::Group(name)),
                Some(target) if self.place.page != Page::Object(target.clone()) => {
                    self.open(Page::Object(target.clone()));
                    KeyAction::Open(target)
                }
                _ => KeyAction::None,
            },
            Key::Escape | Key::Backspace => self.back(),
            Key::Char(letter) if self.sorted(letter) => KeyAction::Redraw,
            _ => self.moved(key),
        }
    }

    fn typed(&mut self, key: Key) -> KeyAction {
        match key {
            Key::Char(letter) => self.filter.push(letter),
            Key::Backspace => drop(self.filter.pop()),
            Key::Enter => self.typing = false,
            Key::Escape => {
                self.filter.clear();
                self.typing = false;
            }
            _ => return KeyAction::None,
        }
        KeyAction::Redraw
    }

    fn open(&mut self, page: Page) -> KeyAction {
        let present = std::mem::replace(&mut self.place, Place { page, ..Place::default() });
        self.below.push(present);
        KeyAction::Redraw
    }

    fn back(&mut self) -> KeyAction {
        match self.below.pop() {
            Some(place) => self.place = place,
            None if !self.filter.is_empty() => self.filter.clear(),
            None => return KeyAction::None,
        }
        KeyAction::Redraw
    }

    const fn lists_nodes(&self) -> bool {
        matches!(self.place.page, Page::Table | Page::Group(_))
    }

    fn sorted(&mut self, letter: char) -> bool {
        let found = Sort::KEYS.iter().find(|(key, _, _)| *key == letter).filter(|_| self.lists_nodes());
        if let Some((_, sort, _)) = found {
            self.sort = *sort;
        }
        found.is_some()
    }

    fn moved(&mut self, key: Key) -> KeyAction {
        let page = self.height.saturating_sub(1).max(1);
        let cursor = self.place.cursor;
        self.place.cursor = match key {
            Key::Up | Key::Char('k') => cursor.saturating_sub(1),
            Key::Down | Key::Char('j') => cursor + 1,
            Key::PageUp => cursor.saturating_sub(page),
            Key::PageDown | Key::Char(' ') => cursor + page,
            Key::Home | Key::Char('g') => 0,
            Key::End | Key::Char('G') => usize::MAX,
            _ => return KeyAction::None,
        };
        self.place.moved = true;
        KeyAction::Redraw
    }

    /// Places the lines of the page in a window of this height: the selected line stays selected and visible. Returns the index
    /// of the first visible line and that of the selected one.
    pub fn place(&mut self, lines: &[Line], height: usize) -> (usize, usize) {
        self.height = height;
        let place = &mut self.place;
        let last = lines.len().saturating_sub(1);
        let is_at =
            |index: usize, target: &Target| lines.get(index).and_then(|line| line.target.as_ref()) == Some(target);
        if let Some(target) = place.selected.as_ref().filter(|target| !place.moved && !is_at(place.cursor, target)) {
            // An object may be on several lines: the nearest one was selected.
            let same = (0..lines.len()).filter(|index| is_at(*index, target));
            place.cursor = same.min_by_key(|index| index.abs_diff(place.cursor)).unwrap_or(place.cursor);
        }
        let section = place.jump.take().and_then(|key| lines.iter().position(|line| line.key == Some(key)));
        if let Some(heading) = section {
            let own = lines[heading..].iter().skip(1).take_while(|line| line.key.is_none());
            // The first line that can be opened is selected, and its heading is at the top.
            let first = own.enumerate().find(|(_, line)| line.target.is_some()).map_or(0, |(index, _)| index + 1);
            (place.cursor, place.offset) = (heading + first, heading);
        }
        place.cursor = place.cursor.min(last);
        place.moved = false;
        place.selected = lines.get(place.cursor).and_then(|line| line.target.clone());
        if place.cursor < place.offset {
            place.offset = place.cursor;
        } else if place.cursor >= place.offset + height.max(1) {
            place.offset = place.cursor + 1 - height.max(1);
        }
        place.offset = place.offset.min((last + 1).saturating_sub(height));
        (place.offset, place.cursor)
    }

    /// The keys, for the last line of the screen.
    #[must_use]
    pub fn hints(&self) -> String {
        if self.typing {
            return format!("filter: {}_  (Enter: keep, Esc: remove)", self.filter);
        }
        match self.place.page {
            Page::Table if self.filter.is_empty() => {
                format!("Enter open  / filter  1-8 sections  ? keys  q quit  sorted by {}", self.sort.name())
            }
            Page::Table => format!("filter {}  Esc remove  Enter open  ? keys  q quit", self.filter),
            Page::Group(_) => format!("Enter open  / filter  Esc back  ? keys  q quit  sorted by {}", self.sort.name()),
            Page::Object(_) => "Enter open pod  Esc back  ? keys  q quit".to_owned(),
            Page::Help => "Esc back  q quit".to_owned(),
        }
    }

    /// The lines of the page with the keys.
    #[must_use]
    pub fn help() -> Vec<Line> {
        use crate::line::Tone;
        let mut lines = vec![Line::new(Tone::Heading, "Keys"), Line::default()];
        let fixed = [
            ("Up, Down, k, j", "one line up or down"),
            ("PageUp, PageDown, Space", "one page up or down"),
            ("Home, End, g, G", "the first or the last line"),
            ("1", "what needs attention"),
            ("2", "the nodes"),
            ("3", "the NodeClaims on the way"),
            ("4", "the pods without a node"),
            ("5", "disruption in progress"),
            ("6", "the time line"),
            ("7", "all Events, while they are shown"),
            ("Enter", "open the node, pod, NodeClaim or group of nodes of the line"),
            ("Esc, Backspace", "back; on the table, remove the filter"),
            ("/", "show only lines with a text"),
            ("b", "group the nodes by NodePool, zone, instance type or capacity type"),
            ("e", "show or hide all Events, or all of an explanation"),
            ("?, h", "these keys"),
            ("q, Ctrl-C", "quit"),
        ];
        let sorts = Self::sort_keys().map(|(key, name)| (key, format!("sort the nodes of each group by {name}")));
        let fixed = fixed.into_iter().map(|(keys, what)| (keys.to_owned(), what.to_owned()));
        lines.extend(fixed.chain(sorts).map(|(keys, what)| Line::new(Tone::Plain, format!("  {keys:25}{what}"))));
        lines
    }

    fn sort_keys() -> impl Iterator<Item = (String, &'static str)> {
        Sort::KEYS.iter().map(|(key, _, name)| (key.to_string(), *name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::line::Tone;

    fn lines(nodes: &[&str]) -> Vec<Line> {
        let heading = Line::new(Tone::Heading, "NodePool default");
        let node = |name: &&str| Line::new(Tone::Plain, *name).opening(Target::Node((*name).to_owned()));
        [heading].into_iter().chain(nodes.iter().map(node)).collect()
    }

    #[test]
    fn the_selected_node_stays_selected_when_others_come_and_go() {
        let mut screen = Screen::default();
        screen.place(&lines(&["a", "b", "c"]), 10);
        screen.key(Key::Down);
        screen.key(Key::Down);
        assert_eq!(screen.place(&lines(&["a", "b", "c"]), 10), (0, 2));
        assert_eq!(screen.place(&lines(&["a", "aa", "ab", "b", "c"]), 10), (0, 4), "b moved");
        assert_eq!(screen.place(&lines(&["a", "c"]), 10), (0, 2), "b is gone: its place is selected");
    }

    #[test]
    fn the_selected_line_is_visible() {
        let many: Vec<String> = (0..100).map(|number| format!("n{number}")).collect();
        let all = lines(&many.iter().map(String::as_str).collect::<Vec<_>>());
        let mut screen = Screen::default();
        screen.place(&all, 10);
        screen.key(Key::End);
        assert_eq!(screen.place(&all, 10), (91, 100));
        screen.key(Key::PageUp);
        assert_eq!(screen.place(&all, 10), (91, 91));
        screen.key(Key::Up);
        assert_eq!(screen.place(&all, 10), (90, 90));
        assert_eq!(screen.place(&all[..3], 10), (0, 2), "a shorter list is shown from its start");
        assert_eq!(screen.place(&[], 10), (0, 0));
        assert_eq!(screen.place(&all, 0).0, 0, "a window without lines");
    }

    #[test]
    fn enter_opens_and_escape_goes_back_to_the_same_line() {
        let mut screen = Screen::default();
        let all = lines(&["a", "b"]);
        screen.place(&all, 10);
        assert_eq!(screen.key(Key::Enter), KeyAction::None, "a heading opens nothing");
        screen.key(Key::End);
        screen.place(&all, 10);
        assert_eq!(screen.key(Key::Enter), KeyAction::Open(Target::Node("b".into())));
        assert_eq!(*screen.page(), Page::Object(Target::Node("b".into())));
        screen.place(&[Line::new(Tone::Plain, "pod").opening(Target::Pod("shop/web".into()))], 10);
        assert_eq!(screen.key(Key::Enter), KeyAction::Open(Target::Pod("shop/web".into())));
        assert_eq!(screen.key(Key::Char('?')), KeyAction::Redraw);
        assert_eq!(*screen.page(), Page::Help);
        for _ in 0..3 {
            assert_eq!(screen.key(Key::Escape), KeyAction::Redraw);
        }
        assert_eq!(*screen.page(), Page::Table);
        assert_eq!(screen.place(&all, 10), (0, 2));
        assert_eq!(screen.key(Key::Escape), KeyAction::None);
    }

    #[test]
    fn a_number_jumps_to_its_section() {
        let many: Vec<String> = (0..50).map(|number| format!("n{number}")).collect();
        let mut all = lines(&many.iter().map(String::as_str).collect::<Vec<_>>());
        all[40] = Line::new(Tone::Heading, "Pods without a node").at_key('4');
        let mut screen = Screen::default();
        screen.place(&all, 8);
        assert_eq!(screen.key(Key::Char('4')), KeyAction::Redraw);
        assert_eq!(screen.place(&all, 8), (40, 41), "below the heading, so that Enter opens it");
        screen.key(Key::Char('7'));
        assert_eq!(screen.place(&all, 8), (40, 41), "there is no such section");
    }

    #[test]
    fn of_several_lines_of_an_object_the_nearest_stays_selected() {
        let pod = || Line::new(Tone::Plain, "pod").opening(Target::Pod("shop/web".into()));
        let other = || Line::new(Tone::Plain, "");
        let mut screen = Screen::default();
        screen.place(&[pod(), other(), other(), pod()], 10);
        screen.key(Key::End);
        screen.place(&[pod(), other(), other(), pod()], 10);
        assert_eq!(screen.place(&[pod(), other(), other(), other(), pod()], 10).1, 4);
    }

    #[test]
    fn a_filter_takes_letters_that_are_keys_elsewhere() {
        let mut screen = Screen::default();
        for key in "/Q/q".chars() {
            assert_eq!(screen.key(Key::Char(key)), KeyAction::Redraw);
        }
        assert!(screen.is_typing() && screen.filter() == "Q/q");
        screen.key(Key::Backspace);
        screen.key(Key::Backspace);
        screen.key(Key::Enter);
        assert!(!screen.is_typing() && screen.matches(&["a", "sQuid"]) && screen.matches(&["quiet"]));
        assert!(!screen.matches(&["web"]));
        assert_eq!(screen.key(Key::Escape), KeyAction::Redraw);
        assert_eq!(screen.filter(), "");
        assert_eq!(screen.key(Key::Char('q')), KeyAction::Quit);
    }

    #[test]
    fn an_interrupt_ends_every_page() {
        let mut screen = Screen::default();
        screen.key(Key::Char('/'));
        assert_eq!(screen.key(Key::Interrupt), KeyAction::Quit);
    }

    #[test]
    fn each_sort_has_a_key_that_does_nothing_else() {
        for (key, sort, name) in Sort::KEYS {
            let mut screen = Screen::default();
            assert_eq!(screen.key(Key::Char(key)), KeyAction::Redraw);
            assert_eq!((screen.sort(), screen.sort().name()), (sort, name));
        }
        assert!(Screen::help().iter().any(|line| line.text().contains("by memory")));
    }
}
