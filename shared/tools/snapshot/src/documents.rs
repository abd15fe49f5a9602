//! Splits bytes into documents: YAML, JSON, or both.

use crate::fault::{Fault, SourcePlace};
use memchr::memchr;
use nodeless_model::Template;
use nodeless_model::quotes::shortened;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;
use serde_json::value::RawValue;
use std::borrow::Cow;

/// The maximum nesting depth of YAML. Kubernetes' limit for custom resources is lower.
const MAXIMUM_DEPTH: usize = 128;
/// The most bytes of text that the aliases of a document may add to it.
const MAX_REPEATED: usize = 64 * 1024 * 1024;

/// The content of a document, or an item of a List.
pub(crate) enum Body<'a> {
    /// JSON that has not been parsed.
    Raw(&'a RawValue),
    /// The value of YAML.
    Tree(Value),
}

/// A List that is the whole of a text.
pub(crate) struct RawList<'a> {
    /// The apiVersion, or nothing, and the kind.
    pub(crate) kind: (String, String),
    pub(crate) items: Vec<&'a RawValue>,
}

impl<'a> RawList<'a> {
    /// `None` if the text has something else, or if its parts have to be read to find what is wrong.
    pub(crate) fn read(text: &'a str) -> Option<Self> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Whole<'a> {
            #[serde(borrow)]
            api_version: Option<Cow<'a, str>>,
            #[serde(borrow)]
            kind: Cow<'a, str>,
            #[serde(rename = "metadata", default)]
            _metadata: Option<IgnoredAny>,
            #[serde(borrow)]
            items: Vec<&'a RawValue>,
        }
        let Whole { api_version, kind, items, .. } = serde_json::from_str(text).ok()?;
        let kind = (api_version.unwrap_or_default().into_owned(), kind.into_owned());
        kind.1.ends_with("List").then_some(Self { kind, items })
    }
}

/// A part of an export, in order.
pub(crate) enum Found<'a> {
    /// An object or a List.
    Body(SourcePlace, Body<'a>),
    /// A List, with its items.
    List(SourcePlace, RawList<'a>),
    /// Something that cannot be read.
    Fault(Fault),
}

/// Reads all documents of a text.
pub(crate) fn read(source: &str, bytes: &[u8], each: &mut dyn FnMut(Found<'_>)) {
    let bytes = decoded(bytes);
    let mut document = 0;
    for chunk in split(&bytes) {
        let mut place =
            SourcePlace { source: source.to_owned(), document: document + 1, line: chunk.line, items: Vec::new() };
        let text = match std::str::from_utf8(chunk.bytes) {
            Ok(text) => text,
            Err(error) => {
                document += 1;
                each(Found::Fault(place.unreadable(format!("it is not UTF-8 text ({error}); give YAML or JSON"))));
                continue;
            }
        };
        if text.trim_start().starts_with(['{', '[']) {
            document += json(&mut place, text, each);
        } else {
            document += 1;
            yaml(&place, text, each);
        }
    }
}

/// The text as UTF-8. PowerShell writes UTF-16 when output is redirected into a file.
fn decoded(bytes: &[u8]) -> Cow<'_, [u8]> {
    let units = |from: fn([u8; 2]) -> u16| {
        let units = bytes[2..].chunks_exact(2).map(|pair| from([pair[0], pair[1]]));
        let text: String = char::decode_utf16(units).map(|unit| unit.unwrap_or(char::REPLACEMENT_CHARACTER)).collect();
        Cow::Owned(text.into_bytes())
    };
    match bytes {
        [0xff, 0xfe, ..] => units(u16::from_le_bytes),
        [0xfe, 0xff, ..] => units(u16::from_be_bytes),
        [0xef, 0xbb, 0xbf, rest @ ..] => Cow::Borrowed(rest),
        _ => Cow::Borrowed(bytes),
    }
}

/// A document with content.
struct Chunk<'a> {
    bytes: &'a [u8],
    /// The line at which it begins, from 1.
    line: usize,
}

/// Splits at the lines `---` and `...`. Neither YAML nor JSON can have such a line within a document.
fn split(bytes: &[u8]) -> Vec<Chunk<'_>> {
    let mut chunks = Vec::new();
    let (mut start, mut start_line, mut position) = (0, 1, 0);
    let mut close = |from: usize, to: usize, line: usize| {
        if lines(&bytes[from..to]).any(has_content) {
            chunks.push(Chunk { bytes: &bytes[from..to], line });
        }
    };
    for (index, line) in lines(bytes).enumerate() {
        if is_marker(line, b"---") {
            close(start, position, start_line);
            // Text after the marker belongs to the document.
            (start, start_line) = (position + 3, index + 1);
        } else if is_marker(line, b"...") {
            close(start, position, start_line);
            (start, start_line) = (position + line.len(), index + 2);
        }
        position += line.len();
    }
    close(start, bytes.len(), start_line);
    chunks
}

/// The lines, each with its end.
fn lines(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        let end = memchr(b'\n', rest).map_or(rest.len(), |end| end + 1);
        let (line, after) = rest.split_at(end);
        rest = after;
        (!line.is_empty()).then_some(line)
    })
}

fn is_marker(line: &[u8], marker: &[u8]) -> bool {
    line.strip_prefix(marker).is_some_and(|rest| rest.first().is_none_or(u8::is_ascii_whitespace))
}

/// Whether a line has content: it is not blank, a comment or a directive.
fn has_content(line: &[u8]) -> bool {
    let text = line.trim_ascii_start();
    !text.is_empty() && text[0] != b'#' && line[0] != b'%'
}

/// Reads JSON values one after another, and returns their number.
fn json(place: &mut SourcePlace, text: &str, each: &mut dyn FnMut(Found<'_>)) -> usize {
    // Most exports are one List, which is read once.
    if let Some(list) = RawList::read(text) {
        each(Found::List(place.clone(), list));
        return 1;
    }
    let mut read = 0;
    for value in serde_json::Deserializer::from_str(text).into_iter::<&RawValue>() {
        match value {
            Ok(raw) => each(Found::Body(place.clone(), Body::Raw(raw))),
            Err(error) if read == 0 => match tree(text) {
                // YAML has braces and brackets too.
                Ok(value) => each(Found::Body(place.clone(), Body::Tree(value))),
                Err(_) => each(Found::Fault(match Template::find(text) {
                    Some(template) => Syntax::from(template).at(place),
                    None => not_json(place, &error),
                })),
            },
            Err(error) => {
                each(Found::Fault(not_json(place, &error)));
                return read + 1;
            }
        }
        read += 1;
        place.document += 1;
    }
    read
}

fn not_json(place: &SourcePlace, error: &serde_json::Error) -> Fault {
    place.unreadable(format!("it is not JSON: {error}"))
}

fn yaml(place: &SourcePlace, text: &str, each: &mut dyn FnMut(Found<'_>)) {
    match tree(text) {
        Ok(value) => each(Found::Body(place.clone(), Body::Tree(value))),
        Err(error) => each(Found::Fault(Syntax::new(&error, text).at(place))),
    }
}

/// An error of YAML, and its line in the input.
struct Syntax {
    line: Option<usize>,
    problem: String,
}

impl From<Template> for Syntax {
    fn from(template: Template) -> Self {
        Self { line: Some(template.line), problem: template.to_string() }
    }
}

impl Syntax {
    /// The error about this text. Text with templating in it is only sometimes YAML.
    fn new(error: &serde_saphyr::Error, text: &str) -> Self {
        Template::find(text).map_or_else(|| Self::from(error), Self::from)
    }
}

impl From<&serde_saphyr::Error> for Syntax {
    fn from(error: &serde_saphyr::Error) -> Self {
        let plain = error.without_snippet();
        let line = plain.location().and_then(|location| usize::try_from(location.line()).ok());
        let text = plain.to_string();
        // The position in the error is relative to the document.
        let problem = text.split(" at line ").next().unwrap_or(&text).trim_end();
        // The parser adds a key without quotes.
        let problem = problem
            .split_once(": ")
            .map_or_else(|| problem.to_owned(), |(problem, value)| format!("{problem}: {}", shortened(value)));
        Self { line, problem }
    }
}

impl Syntax {
    /// The error in the document at the place.
    fn at(&self, place: &SourcePlace) -> Fault {
        let problem = &self.problem;
        place.unreadable(match self.line {
            Some(line) => format!("it is not YAML: line {}: {problem}", (place.line + line).saturating_sub(1)),
            None => format!("it is not YAML: {problem}"),
        })
    }
}

/// The value of YAML.
fn tree(text: &str) -> Result<Value, serde_saphyr::Error> {
    // The parser's limits against hostile input are meant for small configurations, but exports have millions of lines. The
    // limits against small texts that expand (depth, aliases) are kept.
    let options = serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_depth: MAXIMUM_DEPTH,
            max_events: usize::MAX,
            max_nodes: usize::MAX,
            // Aliases repeat scalars.
            max_total_scalar_bytes: text.len().saturating_add(MAX_REPEATED),
        },
        // A name such as `n` or `on` is a string.
        strict_booleans: true,
    };
    serde_saphyr::from_str_with_options(text, options)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_read_at_once_if_nothing_else_is_in_the_text() {
        let items = |text| RawList::read(text).map(|list| list.items.len());
        assert_eq!(items(r#"{"apiVersion":"v1","kind":"List","items":[{"a":1},2],"metadata":{}}"#), Some(2));
        assert_eq!(items(r#"{"items":[],"kind":"PodList"}"#), Some(0));
        for other in [
            r#"{"kind":"Pod","items":[]}"#,
            r#"{"kind":"List"}"#,
            r#"{"kind":"List","items":null}"#,
            r#"{"kind":"List","items":[]} {"kind":"Pod"}"#,
            r#"{"kind":"List","items":[],"items":[]}"#,
            r#"{"kind":"List","items":[],"metadata":{},"metadata":{}}"#,
            r#"[{"kind":"List","items":[]}]"#,
        ] {
            assert_eq!(items(other), None, "{other}");
        }
    }
}
