//! A parser of YAML in the form of kubectl: block style, one scalar per line.
//!
//! Most large exports have this form, and this parser takes a fraction of the time of a complete YAML parser. It reads only
//! unambiguous text. For everything else (block and multi-line scalars, flow style, anchors, tags, comments after values, invalid
//! text) it returns `None`, and the complete parser reads the text or reports the error.

use serde_json::{Map, Value};

/// The maximum nesting depth.
const MAXIMUM_DEPTH: usize = 64;

/// Words that some version of YAML does not treat as strings.
const WORDS: [&str; 12] = ["true", "false", "null", "yes", "no", "on", "off", "y", "n", "nan", "inf", "infinity"];

/// Reads a document. `resolve` decodes a plain scalar that may not be a string.
pub(crate) fn tree(text: &str, resolve: &dyn Fn(&str) -> Option<Value>) -> Option<Value> {
    if !text.bytes().all(|byte| matches!(byte, b'\n' | b' '..=b'~')) {
        return None;
    }
    let mut reader = Reader { lines: lines(text), resolve };
    let first = reader.peek()?.indentation;
    let value = reader.node(first, 0)?;
    reader.peek().is_none().then_some(value)
}

/// A line with content, without its indentation.
#[derive(Clone, Copy)]
struct Line<'a> {
    indentation: usize,
    content: &'a str,
}

/// The lines with content, in reverse order.
fn lines(text: &str) -> Vec<Line<'_>> {
    let mut lines: Vec<Line<'_>> = text
        .split('\n')
        .map(|line| {
            let content = line.trim_start_matches(' ');
            Line { indentation: line.len() - content.len(), content }
        })
        .filter(|line| !(line.content.is_empty() || line.content.starts_with('#')))
        .collect();
    lines.reverse();
    lines
}

struct Reader<'a, 'r> {
    /// The remaining lines, in reverse order.
    lines: Vec<Line<'a>>,
    resolve: &'r dyn Fn(&str) -> Option<Value>,
}

impl<'a> Reader<'a, '_> {
    fn peek(&self) -> Option<Line<'a>> {
        self.lines.last().copied()
    }

    /// The sequence or mapping that begins at the next line.
    fn node(&mut self, indentation: usize, depth: usize) -> Option<Value> {
        if depth > MAXIMUM_DEPTH {
            return None;
        }
        if self.peek()?.is_item() { self.sequence(indentation, depth) } else { self.mapping(indentation, depth) }
    }

    fn sequence(&mut self, indentation: usize, depth: usize) -> Option<Value> {
        let mut items = Vec::new();
        while let Some(line) = self.peek().filter(|line| line.indentation == indentation && line.is_item()) {
            let content = line.content.get(2..)?;
            self.lines.pop();
            if is_entry(content) {
                // The mapping continues in lines that are indented like the text after the dash.
                self.lines.push(Line { indentation: indentation + 2, content });
                items.push(self.mapping(indentation + 2, depth + 1)?);
            } else {
                items.push(self.scalar(content)?);
            }
        }
        // A line with deeper indentation would continue the last item.
        self.peek().is_none_or(|line| line.indentation <= indentation).then_some(Value::Array(items))
    }

    fn mapping(&mut self, indentation: usize, depth: usize) -> Option<Value> {
        if depth > MAXIMUM_DEPTH {
            return None;
        }
        let mut fields = Map::new();
        while let Some(line) = self.peek().filter(|line| line.indentation >= indentation) {
            if line.indentation > indentation || line.is_item() {
                return None;
            }
            let (key, rest) = entry(line.content)?;
            self.lines.pop();
            let value = if rest.is_empty() { self.below(indentation, depth)? } else { self.scalar(rest)? };
            // A duplicate key is an error.
            if fields.insert(key.to_owned(), value).is_some() {
                return None;
            }
        }
        Some(Value::Object(fields))
    }

    /// The value of a key without a scalar on its line. A sequence need not be indented.
    fn below(&mut self, indentation: usize, depth: usize) -> Option<Value> {
        match self.peek() {
            Some(line) if line.indentation > indentation => self.node(line.indentation, depth + 1),
            Some(line) if line.indentation == indentation && line.is_item() => self.sequence(indentation, depth + 1),
            _ => Some(Value::Null),
        }
    }

    fn scalar(&self, text: &str) -> Option<Value> {
        match text {
            "{}" => Some(Value::Object(Map::new())),
            "[]" => Some(Value::Array(Vec::new())),
            _ if text.starts_with('"') => double_quoted(text).map(Value::String),
            _ if text.starts_with('\'') => single_quoted(text).map(Value::String),
            _ => self.plain(text),
        }
    }

    fn plain(&self, text: &str) -> Option<Value> {
        if text.ends_with([' ', ':']) || text.contains(": ") || text.contains(" #") {
            return None;
        }
        let bytes = text.as_bytes();
        match bytes.first()? {
            b'a'..=b'z' | b'A'..=b'Z' | b'/' | b'_' if !is_word(text) => Some(Value::String(text.to_owned())),
            b'-' if is_flag(text) => Some(Value::String(text.to_owned())),
            b'0'..=b'9' if is_number(bytes) => text.parse::<u64>().ok().map(Value::from),
            b'0'..=b'9' if is_no_number(bytes) => Some(Value::String(text.to_owned())),
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' => (self.resolve)(text),
            _ => None,
        }
    }
}

impl Line<'_> {
    fn is_item(&self) -> bool {
        self.content.starts_with("- ")
    }
}

/// Whether the text after a dash is an entry of a mapping, if this parser can read it.
fn is_entry(content: &str) -> bool {
    !content.starts_with(['"', '\'']) && (content.contains(": ") || content.ends_with(':'))
}

/// The key and the text after it.
fn entry(content: &str) -> Option<(&str, &str)> {
    let (key, rest) = content.split_once(':')?;
    let first = key.bytes().next().is_some_and(|byte| byte.is_ascii_alphabetic());
    let others = key.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'/' | b'-'));
    if !(first && others) || is_word(key) {
        return None;
    }
    match rest {
        "" => Some((key, "")),
        _ => Some((key, rest.strip_prefix(' ')?.trim_start_matches(' '))).filter(|(_, rest)| !rest.is_empty()),
    }
}

fn is_word(text: &str) -> bool {
    text.len() <= 8 && WORDS.iter().any(|word| word.eq_ignore_ascii_case(text))
}

/// Whether the text has the form of `--v=2`.
fn is_flag(text: &str) -> bool {
    text.strip_prefix("--").is_some_and(|name| name.starts_with(|letter: char| letter.is_ascii_alphabetic()))
}

/// Whether digits are a number that every version of YAML reads in the same way.
fn is_number(bytes: &[u8]) -> bool {
    bytes.len() <= 18 && (bytes == b"0" || bytes[0] != b'0') && bytes.iter().all(u8::is_ascii_digit)
}

/// Whether a text that begins with a digit cannot be a number: because of a letter that no number has, a sign that is not at the
/// beginning of an exponent, or a second point.
fn is_no_number(bytes: &[u8]) -> bool {
    let letter = |byte: &u8| matches!(byte, b'g'..=b'z' | b'G'..=b'Z') && !matches!(byte, b'o' | b'O' | b'x' | b'X');
    let sign = |pair: &[u8]| pair[1] == b'-' && !matches!(pair[0], b'e' | b'E');
    let points = bytes.iter().filter(|byte| **byte == b'.').count();
    bytes.iter().any(letter) || points > 1 || bytes.windows(2).any(sign)
}

/// A string in double quotes, with the escapes that JSON has too.
fn double_quoted(text: &str) -> Option<String> {
    let inner = text.strip_prefix('"')?.strip_suffix('"')?;
    if !inner.contains(['"', '\\']) {
        return Some(inner.to_owned());
    }
    // In JSON, a character beyond 16 bits is a pair of escapes.
    if inner.contains("\\u") { None } else { serde_json::from_str(text).ok() }
}

/// A string in single quotes, in which two quotes mean one.
fn single_quoted(text: &str) -> Option<String> {
    let inner = text.strip_prefix('\'')?.strip_suffix('\'')?;
    if !inner.contains('\'') {
        return Some(inner.to_owned());
    }
    let unquoted = inner.replace("''", "\u{0}");
    (!unquoted.contains('\'')).then(|| unquoted.replace('\u{0}', "'"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::documents::parsed;
    use proptest::prelude::*;
    use serde_json::json;

    fn read(text: &str) -> Option<Value> {
        tree(text, &|scalar| parsed(scalar).ok())
    }

    #[test]
    fn output_of_kubectl_is_read_by_this_parser() {
        let text = r#"- apiVersion: v1
  kind: Pod
  metadata:
    annotations: {}
    labels:
      app.kubernetes.io/name: web
      hash: 9f7d6c5b4
      quoted: "true"
    uid: 5d3f2e1a-1111-2222-3333-444455556666
  spec:
    containers:
    - args:
      - --v=2
      - 'it''s'
      - "a \"b\": c"
      image: 123456789012.dkr.ecr.us-east-1.amazonaws.com/web:v1
      resources:
        requests:
          cpu: 500m
          memory: 1Gi
    hostNetwork: false
    priority: 0
    restartedAt: 2026-01-02
  status:
    phase:
"#;
        let pod = json!([{
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {
                "annotations": {}, "uid": "5d3f2e1a-1111-2222-3333-444455556666",
                "labels": { "app.kubernetes.io/name": "web", "hash": "9f7d6c5b4", "quoted": "true" },
            },
            "spec": {
                "containers": [{
                    "args": ["--v=2", "it's", "a \"b\": c"],
                    "image": "123456789012.dkr.ecr.us-east-1.amazonaws.com/web:v1",
                    "resources": { "requests": { "cpu": "500m", "memory": "1Gi" } },
                }],
                "hostNetwork": false, "priority": 0, "restartedAt": "2026-01-02",
            },
            "status": { "phase": null },
        }]);
        assert_eq!(read(text), Some(pod));
    }

    #[test]
    fn ambiguous_text_is_left_to_the_complete_parser() {
        for text in [
            "a: |\n  b\n",
            "a: b\n  c\n",
            "a: b # c\n",
            "a: &b c\n",
            "a: !!str 1\n",
            "a: [b]\n",
            "a: b: c\n",
            "a: \"b\n  c\"\n",
            "a: 1\na: 2\n",
            "a:\n  - b\n c: d\n",
            "on: a\n",
            "<<: a\n",
            "a: \u{e9}\n",
            "- - a\n",
            "a\n",
        ] {
            assert_eq!(read(text), None, "{text}");
        }
    }

    /// The lines of documents.
    fn line() -> impl Strategy<Value = String> {
        let key = prop::sample::select(vec!["a", "b", "c-d", "e.f/g", "on", "y", "1", "\"q\"", "-"]);
        let fixed = vec![
            "",
            " ",
            "{}",
            "[]",
            "true",
            "False",
            "null",
            "~",
            "yes",
            "0",
            "007",
            "12",
            "-3",
            "1.5",
            "1.2.3",
            "1e3",
            "0x1f",
            "0o7",
            "1_000",
            "500m",
            "12:30",
            "2026-01-02",
            "9f7d6c5b4",
            "1e-5",
            "5-e",
            ".inf",
            "-.inf",
            "NaN",
            "Infinity",
            "--v=2",
            "---",
            "...",
            "-x",
            "x: y",
            "x:y",
            "x #y",
            "x#y",
            "'it''s'",
            "'a' 'b'",
            "\"a\\n\"",
            "\"a\" \"b\"",
            "\"\\u0041\"",
            "\"",
            "'",
            "&a x",
            "*a",
            "!x y",
            "|",
            ">-",
            "@x",
            "`x",
            "% x",
            "? x",
            "a, b",
            "[a",
            "{a: b}",
            "# x",
        ];
        let scalar = prop_oneof![4 => prop::sample::select(fixed).prop_map(str::to_owned), 1 => "[ -~]{0,8}"];
        let dash = prop_oneof![2 => Just(""), 1 => Just("- ")];
        (0..4_usize, dash, prop::option::weighted(0.8, key), scalar).prop_map(|(depth, dash, key, scalar)| {
            let key = key.map(|key| format!("{key}:{}", if scalar.is_empty() { "" } else { " " })).unwrap_or_default();
            format!("{}{dash}{key}{scalar}\n", "  ".repeat(depth))
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 4_000, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn both_parsers_read_the_same_values(lines in prop::collection::vec(line(), 1..7)) {
            let text = lines.concat();
            if let Some(value) = read(&text) {
                prop_assert_eq!(Some(value), parsed(&text).ok(), "{}", text);
            }
        }
    }
}
