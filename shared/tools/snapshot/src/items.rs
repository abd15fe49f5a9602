//! The items of a YAML List, split by their indentation.

/// A List as text.
pub(crate) struct Items<'a> {
    /// The List without its items.
    pub(crate) header: String,
    /// The items, each as a YAML list with one item.
    pub(crate) items: Vec<Item<'a>>,
}

/// An item of a List.
pub(crate) struct Item<'a> {
    /// The lines.
    pub(crate) text: &'a str,
    /// The number of lines of the document before it.
    pub(crate) line: usize,
}

/// Splits a document at the items of its top-level field `items`, if that is in block style, as in the output of kubectl.
///
/// The indentation is sufficient in YAML: every line of an item is indented deeper than its dash, and the first line that is not
/// ends the list.
pub(crate) fn split_items(text: &str) -> Option<Items<'_>> {
    // An alias may refer to an anchor of another item; then only the complete document can be parsed.
    if has_mark(text, '*') && has_mark(text, '&') {
        return None;
    }
    let mut header = String::new();
    let mut lines = Lines { text, position: 0, number: 0 };
    loop {
        let (line, _, _) = lines.next()?;
        if line.strip_prefix("items:").is_some_and(is_blank) {
            break;
        }
        header.push_str(line);
    }
    let mut items: Vec<Item<'_>> = Vec::new();
    let mut indentation = None;
    let mut start = None;
    let mut close = |start: Option<(usize, usize)>, end: usize| {
        items.extend(start.map(|(from, line)| Item { text: &text[from..end], line }));
    };
    for (line, position, number) in lines {
        if is_blank(line) {
            continue;
        }
        let depth = line.len() - line.trim_start_matches(' ').len();
        let dash = is_dash(&line[depth..]);
        let own = *indentation.get_or_insert(depth);
        if dash && depth == own {
            close(start, position);
            start = Some((position, number));
        } else if depth <= own {
            // The end of the list: only further fields of the List itself may follow.
            if start.is_none() || depth != 0 {
                return None;
            }
            close(start, position);
            header.push_str(&text[position..]);
            // A second list would be lost.
            return Some(Items { header, items })
                .filter(|list| !list.header.lines().any(|line| line.starts_with("items")));
        }
    }
    start?;
    close(start, text.len());
    Some(Items { header, items })
}

/// Whether the text may have anchors (`&name`) or aliases (`*name`).
fn has_mark(text: &str, mark: char) -> bool {
    text.match_indices(mark).any(|(position, _)| {
        let before = text[..position].chars().next_back();
        let after = text[position + 1..].chars().next();
        before.is_none_or(|c| c.is_whitespace() || matches!(c, '[' | '{' | ','))
            && after.is_some_and(|c| c.is_alphanumeric() || c == '_')
    })
}

fn is_blank(line: &str) -> bool {
    let text = line.trim();
    text.is_empty() || text.starts_with('#')
}

fn is_dash(text: &str) -> bool {
    text.strip_prefix('-').is_some_and(|rest| rest.is_empty() || rest.starts_with([' ', '\t', '\r', '\n']))
}

/// Lines with their line ends, each with its position and its number from 0.
struct Lines<'a> {
    text: &'a str,
    position: usize,
    number: usize,
}

impl<'a> Iterator for Lines<'a> {
    type Item = (&'a str, usize, usize);

    fn next(&mut self) -> Option<Self::Item> {
        let rest = &self.text[self.position..];
        if rest.is_empty() {
            return None;
        }
        let length = rest.find('\n').map_or(rest.len(), |end| end + 1);
        let line = (&rest[..length], self.position, self.number);
        self.position += length;
        self.number += 1;
        Some(line)
    }
}
