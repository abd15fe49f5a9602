//! The JSON paths of printer columns: `.spec.name`, `.metadata.labels.example\.com/x`, `.list[0]`, `[?(@.a=="b")]`.

use serde_json::Value;

/// The values at a path; nothing if printer columns do not use this form of path.
pub(crate) fn find<'a>(object: &'a Value, path: &str) -> Vec<&'a Value> {
    let path = path.trim().trim_start_matches('{').trim_end_matches('}').trim_start_matches('$');
    let mut current = vec![object];
    let mut rest = path;
    while !rest.is_empty() {
        let (step, remaining) = next_step(rest);
        current = current.into_iter().flat_map(|value| apply(value, &step)).collect();
        rest = remaining;
    }
    current
}

enum Step {
    Field(String),
    Index(usize),
    All,
    Filter(String, String),
    Unknown,
}

fn next_step(path: &str) -> (Step, &str) {
    if let Some(inside) = path.strip_prefix('[') {
        let Some(end) = closing_bracket(inside) else { return (Step::Unknown, "") };
        return (bracket(&inside[..end]), &inside[end + 1..]);
    }
    let path = path.strip_prefix('.').unwrap_or(path);
    let mut field = String::new();
    let mut characters = path.char_indices();
    while let Some((index, character)) = characters.next() {
        match character {
            '\\' => field.extend(characters.next().map(|(_, escaped)| escaped)),
            '.' | '[' => return (Step::Field(field), &path[index..]),
            other => field.push(other),
        }
    }
    (Step::Field(field), "")
}

/// The position of the closing bracket, outside of quotes.
fn closing_bracket(inside: &str) -> Option<usize> {
    let mut quote = None;
    for (index, character) in inside.char_indices() {
        match (quote, character) {
            (None, '\'' | '"') => quote = Some(character),
            (Some(open), _) if open == character => quote = None,
            (None, ']') => return Some(index),
            _ => {}
        }
    }
    None
}

fn bracket(inside: &str) -> Step {
    let unquote = |text: &str| text.trim().trim_matches(['\'', '"']).to_owned();
    if inside == "*" {
        return Step::All;
    }
    if let Ok(index) = inside.parse() {
        return Step::Index(index);
    }
    if let Some(filter) = inside.strip_prefix("?(").and_then(|filter| filter.strip_suffix(')')) {
        let Some((left, right)) = filter.split_once("==") else { return Step::Unknown };
        return match left.trim().strip_prefix("@.") {
            Some(field) => Step::Filter(field.trim().to_owned(), unquote(right)),
            None => Step::Unknown,
        };
    }
    if inside.starts_with(['\'', '"']) { Step::Field(unquote(inside)) } else { Step::Unknown }
}

fn apply<'a>(value: &'a Value, step: &Step) -> Vec<&'a Value> {
    match step {
        Step::Field(field) => value.get(field).into_iter().collect(),
        Step::Index(index) => value.get(index).into_iter().collect(),
        Step::All => match value {
            Value::Array(list) => list.iter().collect(),
            Value::Object(map) => map.values().collect(),
            _ => Vec::new(),
        },
        Step::Filter(field, expected) => {
            let matches = |element: &&Value| match element.get(field) {
                Some(Value::String(text)) => text == expected,
                Some(Value::Bool(flag)) => *expected == if *flag { "true" } else { "false" },
                Some(Value::Number(number)) => {
                    expected.parse().is_ok_and(|expected: serde_json::Number| expected == *number)
                }
                Some(_) => false,
                None => false,
            };
            value.as_array().into_iter().flatten().filter(matches).collect()
        }
        Step::Unknown => Vec::new(),
    }
}
