//! Text to tree.
//!
//! granit-parser (which serde-saphyr uses as well) reports comments with their places, but not what they belong to. Comments
//! are attached in a second step, by line and column.

use super::node::{Comments, Form, Item, Map, MapEntry, Scalar, Seq, YamlNode};
use granit_parser::{Event, Options, Parser, ScalarStyle, ScanError, Span, StructureStyle};
use std::collections::BTreeMap;

/// The maximum nesting depth, more than that of any Kubernetes object.
const MAXIMUM_DEPTH: usize = 100;
/// The maximum number of nodes after aliases are replaced by what they refer to.
const MAXIMUM_NODES: usize = 1_000_000;
/// The place of the document itself; entries and items have places from 1.
const DOCUMENT: usize = 0;

/// Why a text is not YAML that can be converted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Syntax {
    /// The line in the text, from 1.
    pub(crate) line: usize,
    pub(crate) problem: String,
}

/// Parses one document. The result is `None` if it has no content.
pub(crate) fn parse(text: &str) -> Result<Option<YamlNode>, Syntax> {
    let mut options = Options::default();
    options.max_buffered_comment_events = usize::MAX;
    let mut builder = Builder { lines: text.lines().collect(), ..Builder::default() };
    let mut events = Vec::new();
    for next in Parser::new_from_str_with_options(text, options) {
        let (event, span) = next.map_err(|error| unreadable(&error))?;
        match event {
            Event::Comment(comment, _) => builder.found.push(Found {
                line: span.start.line(),
                column: span.start.col(),
                text: format!("#{}", comment.trim_end()),
            }),
            Event::StreamStart | Event::StreamEnd | Event::DocumentStart(..) | Event::DocumentEnd => {}
            event => events.push((event, span)),
        }
    }
    if events.is_empty() {
        return Ok(None);
    }
    let mut events = events.into_iter();
    let (event, span) = events.next().ok_or_else(|| Syntax { line: 1, problem: "it is empty".to_owned() })?;
    let mut root = builder.node(event, span, &mut Events { text, inner: &mut events }, 0)?;
    if let Some((_, span)) = events.next() {
        return Err(Syntax { line: span.start.line(), problem: "there is content after the object".to_owned() });
    }
    builder.place();
    let mut attached = builder.attached;
    if let Some(of_document) = attached.remove(&DOCUMENT) {
        add_tail(&mut root, of_document.tail);
    }
    attach(&mut root, &mut attached);
    Ok(Some(root))
}

fn unreadable(error: &ScanError) -> Syntax {
    let text = error.to_string();
    let problem = text.split(" at line ").next().unwrap_or(&text);
    let problem = problem.split(" at byte ").next().unwrap_or(problem).trim_end().to_owned();
    Syntax { line: error.marker().line(), problem }
}

struct Events<'e, 't> {
    text: &'t str,
    inner: &'e mut std::vec::IntoIter<(Event<'t>, Span)>,
}

/// A comment in the source.
#[derive(Debug)]
struct Found {
    line: usize,
    column: usize,
    text: String,
}

/// An entry or item in the source, in order.
#[derive(Debug)]
struct Anchor {
    line: usize,
    column: usize,
    /// Whether it is in brackets or braces.
    flow: bool,
    /// Anchors around it, from the outermost, which is the first collection's.
    parents: Vec<usize>,
}

/// The comments and blank line of an anchor.
#[derive(Debug, Default)]
struct Attached {
    /// Comments above it, with their lines.
    above: Vec<(usize, String)>,
    right: Option<String>,
    /// Comments after the last child.
    tail: Vec<String>,
    blank: bool,
}

#[derive(Default)]
struct Builder<'t> {
    lines: Vec<&'t str>,
    found: Vec<Found>,
    anchors: Vec<Anchor>,
    open: Vec<usize>,
    attached: BTreeMap<usize, Attached>,
    /// Values by the number of their YAML anchor.
    named: BTreeMap<usize, YamlNode>,
    nodes: usize,
}

impl<'t> Builder<'t> {
    fn node(
        &mut self,
        event: Event<'t>,
        span: Span,
        events: &mut Events<'_, 't>,
        depth: usize,
    ) -> Result<YamlNode, Syntax> {
        let at = |problem: &str| Syntax { line: span.start.line(), problem: problem.to_owned() };
        if depth > MAXIMUM_DEPTH {
            return Err(at("it is nested too deeply"));
        }
        self.nodes += 1;
        if event.tag().is_some_and(|tag| !tag.is_yaml_core_schema()) {
            return Err(at("tags other than those of YAML's core schema are not supported"));
        }
        let (node, name) = match event {
            Event::Scalar(text, style, name, tag) => {
                let tagged_text = tag.is_some_and(|tag| tag.suffix() == "str");
                let raw = span.slice(events.text).unwrap_or_default();
                (YamlNode::Scalar(scalar(text.into_owned(), style, raw, tagged_text)), name)
            }
            Event::SequenceStart(style, name, _) => {
                (YamlNode::Seq(self.sequence(style == StructureStyle::Flow, events, depth)?), name)
            }
            Event::MappingStart(style, name, _) => {
                (YamlNode::Map(self.mapping(style == StructureStyle::Flow, events, depth)?), name)
            }
            Event::Alias(name) => {
                let node = self.named.get(&name).cloned().ok_or_else(|| at("an alias refers to a value around it"))?;
                self.nodes += count(&node);
                (node, 0)
            }
            _ => return Err(at("it is not a value")),
        };
        if self.nodes > MAXIMUM_NODES {
            return Err(at("it has too many values"));
        }
        if name != 0 {
            self.named.insert(name, node.clone());
        }
        Ok(node)
    }

    fn sequence(&mut self, flow: bool, events: &mut Events<'_, 't>, depth: usize) -> Result<Seq, Syntax> {
        let mut seq = Seq { flow, ..Seq::default() };
        while let Some((event, span)) = events.inner.next() {
            if matches!(event, Event::SequenceEnd) {
                break;
            }
            let start = span.start;
            let column = if flow { start.col() } else { self.dash(start.line(), start.col()) };
            let comments = self.begin(start.line(), column, flow);
            let value = self.node(event, span, events, depth + 1)?;
            self.open.pop();
            seq.items.push(Item { comments, value });
        }
        Ok(seq)
    }

    fn mapping(&mut self, flow: bool, events: &mut Events<'_, 't>, depth: usize) -> Result<Map, Syntax> {
        let mut map = Map { flow, ..Map::default() };
        while let Some((event, span)) = events.inner.next() {
            let at = |problem: String| Syntax { line: span.start.line(), problem };
            let key = match event {
                Event::MappingEnd => break,
                Event::Scalar(text, style, 0, _) => {
                    scalar(text.into_owned(), style, span.slice(events.text).unwrap_or_default(), false)
                }
                _ => return Err(at("a key must be a string".to_owned())),
            };
            if map.position(&key.text).is_some() && key.text != "<<" {
                return Err(at(format!("the key {:?} exists twice", key.text)));
            }
            let comments = self.begin(span.start.line(), span.start.col(), flow);
            let (event, its_span) = events.inner.next().ok_or_else(|| at("a value is missing".to_owned()))?;
            let value = self.node(event, its_span, events, depth + 1)?;
            self.open.pop();
            map.entries.push(MapEntry { comments, key, value });
        }
        merge(&mut map);
        Ok(map)
    }

    /// Notes an entry or item, in which the next ones are until it is closed.
    fn begin(&mut self, line: usize, column: usize, flow: bool) -> Comments {
        self.anchors.push(Anchor { line, column, flow, parents: self.open.clone() });
        let place = self.anchors.len();
        self.open.push(place);
        Comments { place, ..Comments::default() }
    }

    /// The column of the dash of an item whose value begins here.
    fn dash(&self, line: usize, column: usize) -> usize {
        let before = self.lines.get(line - 1).map(|line| line.chars().take(column).collect::<String>());
        before.and_then(|before| before.rfind('-')).unwrap_or(column)
    }

    /// Decides what each comment belongs to.
    fn place(&mut self) {
        for found in std::mem::take(&mut self.found) {
            let next = self.anchors.iter().position(|anchor| anchor.line > found.line).map(|index| index + 1);
            let last = next.unwrap_or(self.anchors.len() + 1) - 1;
            if !self.has_own_line(&found) {
                let mut owner = last;
                while owner > 1 && self.anchors[owner - 1].flow {
                    owner -= 1;
                }
                let attached = self.attached.entry(owner).or_default();
                match attached.right {
                    None => attached.right = Some(found.text),
                    Some(_) => attached.above.push((found.line, found.text)),
                }
                continue;
            }
            match next {
                Some(next) if last == DOCUMENT || found.column <= self.anchors[next - 1].column => {
                    self.attached.entry(next).or_default().above.push((found.line, found.text));
                }
                _ => {
                    let owner = self.owner(last, found.column);
                    self.attached.entry(owner).or_default().tail.push(found.text);
                }
            }
        }
        for place in 2..=self.anchors.len() {
            self.note_blank_line(place);
        }
    }

    fn has_own_line(&self, found: &Found) -> bool {
        let line = self.lines.get(found.line - 1);
        line.is_some_and(|line| line.chars().take(found.column).all(char::is_whitespace))
    }

    /// The anchor whose children a comment in this column ends.
    fn owner(&self, last: usize, column: usize) -> usize {
        let Some(anchor) = last.checked_sub(1).and_then(|index| self.anchors.get(index)) else { return DOCUMENT };
        let chain = anchor.parents.iter().copied().chain([last]).collect::<Vec<_>>();
        // The innermost one that begins no further right is a sibling of what the comment would be.
        let sibling = chain.iter().rev().find(|place| self.anchors[**place - 1].column <= column).or(chain.first());
        sibling.and_then(|place| self.anchors[*place - 1].parents.last().copied()).unwrap_or(DOCUMENT)
    }

    fn note_blank_line(&mut self, place: usize) {
        let line = self.anchors[place - 1].line;
        if self.anchors[place - 2].line == line {
            return;
        }
        let first = self.attached.get(&place).and_then(|attached| attached.above.first()).map_or(line, |above| above.0);
        let before = first.checked_sub(2).and_then(|index| self.lines.get(index));
        if before.is_some_and(|line| line.trim().is_empty()) {
            self.attached.entry(place).or_default().blank = true;
        }
    }
}

/// Gives each entry and item its comments. A value that an alias repeats has none.
fn attach(node: &mut YamlNode, attached: &mut BTreeMap<usize, Attached>) {
    let mut child = |comments: &mut Comments, value: &mut YamlNode| {
        let found = attached.remove(&comments.place).unwrap_or_default();
        *comments = Comments { blank: found.blank, above: lines(found.above), right: found.right, place: 0 };
        add_tail(value, found.tail);
        attach(value, attached);
    };
    match node {
        YamlNode::Scalar(_) => {}
        YamlNode::Map(map) => map.entries.iter_mut().for_each(|entry| child(&mut entry.comments, &mut entry.value)),
        YamlNode::Seq(seq) => seq.items.iter_mut().for_each(|item| child(&mut item.comments, &mut item.value)),
    }
}

/// Comments as lines, with one empty line where the source has some.
fn lines(found: Vec<(usize, String)>) -> Vec<String> {
    let mut lines = Vec::new();
    let mut last = None;
    for (line, text) in found {
        if last.is_some_and(|last| line > last + 1) {
            lines.push(String::new());
        }
        last = Some(line);
        lines.push(text);
    }
    lines
}

/// Replaces the merge key `<<` by the entries of the mappings that it names.
fn merge(map: &mut Map) {
    while let Some(entry) = map.take("<<") {
        let values = match entry.value {
            YamlNode::Seq(seq) => seq.items.into_iter().map(|item| item.value).collect(),
            other => vec![other],
        };
        for entry in
            values.into_iter().filter_map(|value| if let YamlNode::Map(map) = value { Some(map) } else { None })
        {
            let added = entry.entries.into_iter().filter(|entry| map.position(&entry.key.text).is_none());
            let added = added.collect::<Vec<_>>();
            map.entries.extend(added);
        }
    }
}

fn add_tail(node: &mut YamlNode, tail: Vec<String>) {
    match node {
        YamlNode::Scalar(_) => {}
        YamlNode::Map(map) => map.tail.extend(tail),
        YamlNode::Seq(seq) => seq.tail.extend(tail),
    }
}

fn count(node: &YamlNode) -> usize {
    1 + match node {
        YamlNode::Scalar(_) => 0,
        YamlNode::Map(map) => map.entries.iter().map(|entry| count(&entry.value)).sum(),
        YamlNode::Seq(seq) => seq.items.iter().map(|item| count(&item.value)).sum(),
    }
}

fn scalar(text: String, style: ScalarStyle, raw: &str, tagged_text: bool) -> Scalar {
    if style == ScalarStyle::Plain && raw.is_empty() {
        return Scalar { text: String::new(), form: Form::Raw(String::new()) };
    }
    let form = match style {
        ScalarStyle::Literal | ScalarStyle::Folded => Form::Block,
        _ if tagged_text || raw.contains('\n') => Form::Text,
        ScalarStyle::Plain | ScalarStyle::SingleQuoted | ScalarStyle::DoubleQuoted => Form::Raw(raw.to_owned()),
    };
    Scalar { text, form }
}
