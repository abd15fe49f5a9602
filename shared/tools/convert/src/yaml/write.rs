//! Tree to text: block style with two spaces, comments where they were. Characters that are not printable are escaped in strings, and
//! replaced in comments.

use super::node::{Comments, Form, Map, MapEntry, Scalar, Seq, YamlNode};
use super::resolve;
use nodeless_model::printable::{is_printable, printable_json, printable_line};
use serde_json::Value;

/// The longest line of a collection in brackets or braces.
const LONGEST_FLOW: usize = 100;

/// The text of an object, with a line break at its end.
pub(crate) fn write(root: &YamlNode) -> String {
    let mut text = String::new();
    node(root, 0, &mut text);
    text
}

/// The value without comments, in the default notation.
pub(crate) fn plain(node: &YamlNode) -> YamlNode {
    match node {
        YamlNode::Scalar(scalar) => YamlNode::Scalar(match scalar.to_value() {
            Value::String(text) => Scalar::text(text),
            _ => Scalar { text: scalar.text.clone(), form: Form::Bare },
        }),
        YamlNode::Map(map) => {
            let entries = map.entries.iter().map(|entry| MapEntry::new(&entry.key.text, plain(&entry.value)));
            YamlNode::Map(Map { entries: entries.collect(), ..Map::default() })
        }
        YamlNode::Seq(seq) => YamlNode::seq(seq.items.iter().map(|item| plain(&item.value))),
    }
}

fn node(value: &YamlNode, indent: usize, text: &mut String) {
    match value {
        YamlNode::Scalar(scalar) => {
            inline(scalar, indent, None, text);
        }
        YamlNode::Map(map) if map.entries.is_empty() => line(indent, "{}", text),
        YamlNode::Seq(seq) if seq.items.is_empty() => line(indent, "[]", text),
        YamlNode::Map(map) => {
            for entry in &map.entries {
                above(&entry.comments, indent, text);
                pad(indent, text);
                self::entry(entry, indent, text);
            }
            tail(&map.tail, indent, text);
        }
        YamlNode::Seq(seq) => sequence(seq, indent, text),
    }
}

/// A key and its value; the indentation has been written.
fn entry(entry: &MapEntry, indent: usize, text: &mut String) {
    text.push_str(&one_line(&entry.key));
    text.push(':');
    after(&entry.value, &entry.comments, indent, text);
}

/// A value after `key:`.
fn after(value: &YamlNode, comments: &Comments, indent: usize, text: &mut String) {
    if let YamlNode::Scalar(scalar) = value {
        if !scalar.text.is_empty() || scalar.form != Form::Raw(String::new()) {
            text.push(' ');
        }
        return inline(scalar, indent + 2, comments.right.as_deref(), text);
    }
    if let Some(flow) = flow(value) {
        text.push(' ');
        text.push_str(&flow);
        right(comments, text);
        text.push('\n');
        if let YamlNode::Map(Map { tail: lines, .. }) | YamlNode::Seq(Seq { tail: lines, .. }) = value {
            tail(lines, indent + 2, text);
        }
        return;
    }
    right(comments, text);
    text.push('\n');
    node(value, indent + 2, text);
}

fn sequence(seq: &Seq, indent: usize, text: &mut String) {
    for item in &seq.items {
        above(&item.comments, indent, text);
        pad(indent, text);
        text.push('-');
        match &item.value {
            YamlNode::Map(map) if flow(&item.value).is_none() && item.comments.right.is_none() => {
                for (index, entry) in map.entries.iter().enumerate() {
                    if index == 0 && entry.comments.above.is_empty() {
                        text.push(' ');
                    } else {
                        if index == 0 {
                            text.push('\n');
                        }
                        above(&entry.comments, indent + 2, text);
                        pad(indent + 2, text);
                    }
                    self::entry(entry, indent + 2, text);
                }
                tail(&map.tail, indent + 2, text);
            }
            other => after(other, &item.comments, indent, text),
        }
    }
    tail(&seq.tail, indent, text);
}

/// A collection in brackets or braces, if it is one and can be.
fn flow(value: &YamlNode) -> Option<String> {
    let text = match value {
        YamlNode::Map(map) if map.entries.is_empty() => return Some("{}".to_owned()),
        YamlNode::Seq(seq) if seq.items.is_empty() => return Some("[]".to_owned()),
        YamlNode::Scalar(scalar) if scalar.form == Form::Block || scalar.text.contains('\n') => return None,
        YamlNode::Scalar(scalar) => return Some(one_line(scalar)),
        YamlNode::Map(map) if map.flow && map.tail.is_empty() => {
            let entries = map.entries.iter().map(|entry| {
                is_bare(&entry.comments).then_some(())?;
                Some(format!("{}: {}", one_line(&entry.key), flow(&entry.value)?))
            });
            format!("{{ {} }}", entries.collect::<Option<Vec<_>>>()?.join(", "))
        }
        YamlNode::Seq(seq) if seq.flow && seq.tail.is_empty() => {
            let items = seq.items.iter().map(|item| {
                is_bare(&item.comments).then_some(())?;
                flow(&item.value)
            });
            format!("[{}]", items.collect::<Option<Vec<_>>>()?.join(", "))
        }
        YamlNode::Map(_) | YamlNode::Seq(_) => return None,
    };
    (text.len() <= LONGEST_FLOW).then_some(text)
}

fn is_bare(comments: &Comments) -> bool {
    comments.above.is_empty() && comments.right.is_none()
}

/// A scalar after its key or dash, with the comment at the end of the line.
fn inline(scalar: &Scalar, indent: usize, comment: Option<&str>, text: &mut String) {
    let comment = comment.map(|comment| format!(" {}", printable_line(comment))).unwrap_or_default();
    match literal(scalar) {
        Some(header) => {
            text.push_str(header);
            text.push_str(&comment);
            text.push('\n');
            for line in scalar.text.trim_end_matches('\n').split('\n') {
                if !line.is_empty() {
                    pad(indent, text);
                }
                text.push_str(line);
                text.push('\n');
            }
            // With `|+`, each line break after the first is an empty line.
            let breaks = scalar.text.len() - scalar.text.trim_end_matches('\n').len();
            text.push_str(&"\n".repeat(breaks.saturating_sub(1)));
        }
        None => {
            text.push_str(&one_line(scalar));
            text.push_str(&comment);
            text.push('\n');
        }
    }
}

/// The header of a scalar in literal style, if it is written so.
fn literal(scalar: &Scalar) -> Option<&'static str> {
    let text = &scalar.text;
    let multiline =
        scalar.form == Form::Block || (scalar.form == Form::Text && text.trim_end_matches('\n').contains('\n'));
    let first = text.chars().next()?;
    let printable = text.chars().all(|character| character == '\n' || character == '\t' || is_printable(character));
    if !multiline || !printable || first.is_whitespace() || text.contains('\u{feff}') {
        return None;
    }
    Some(match text.len() - text.trim_end_matches('\n').len() {
        0 => "|-",
        1 => "|",
        _ => "|+",
    })
}

fn one_line(scalar: &Scalar) -> String {
    match &scalar.form {
        Form::Raw(raw) if raw.chars().all(is_printable) => raw.clone(),
        Form::Bare => scalar.text.clone(),
        Form::Text | Form::Block if is_plain_text(&scalar.text) => scalar.text.clone(),
        // A string of JSON is a double-quoted scalar of YAML.
        Form::Raw(_) | Form::Text | Form::Block => {
            printable_json(&Value::String(scalar.text.clone()).to_string()).into_owned()
        }
    }
}

/// Whether a string needs no quotes in any place.
fn is_plain_text(text: &str) -> bool {
    let first = text
        .chars()
        .next()
        .is_some_and(|first| first.is_ascii_alphanumeric() || matches!(first, '/' | '_' | '.' | '$'));
    let inner = |character: char| {
        character.is_ascii_alphanumeric() || matches!(character, '/' | '_' | '.' | '-' | '@' | '+' | '$' | '(' | ')')
    };
    let reserved = ["y", "Y", "n", "N", "=", "<<"].contains(&text);
    // A colon without a space after it is part of the string, but not at its end.
    let allowed = text.chars().all(|character| inner(character) || character == ':') && !text.ends_with(':');
    let looks_like_date =
        text.len() >= 8 && text.starts_with(|first: char| first.is_ascii_digit()) && text.contains(['-', ':']);
    first && allowed && !reserved && !looks_like_date && matches!(resolve::plain(text), Value::String(_))
}

fn above(comments: &Comments, indent: usize, text: &mut String) {
    if comments.blank && !text.is_empty() && !text.ends_with("\n\n") {
        text.push('\n');
    }
    tail(&comments.above, indent, text);
}

fn tail(lines: &[String], indent: usize, text: &mut String) {
    for comment in lines {
        if comment.is_empty() {
            text.push('\n');
        } else {
            line(indent, &printable_line(comment), text);
        }
    }
}

fn right(comments: &Comments, text: &mut String) {
    if let Some(comment) = &comments.right {
        text.push(' ');
        text.push_str(&printable_line(comment));
    }
}

fn line(indent: usize, content: &str, text: &mut String) {
    pad(indent, text);
    text.push_str(content);
    text.push('\n');
}

fn pad(indent: usize, text: &mut String) {
    text.extend(std::iter::repeat_n(' ', indent));
}
