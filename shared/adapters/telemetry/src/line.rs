//! Log lines.

use jiff::Timestamp;
use serde::Serialize;
use serde_json::{Map, Value};

/// The severity of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Level {
    /// For the investigation of one decision.
    Debug,
    /// An operation succeeded.
    Info,
    /// An operation failed, and is retried or skipped.
    Warn,
    /// An operation failed, and needs attention.
    Error,
}

impl Level {
    /// The name in the log, as in Lambda's own log format.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Debug => "DEBUG",
            Self::Info => "INFO",
            Self::Warn => "WARN",
            Self::Error => "ERROR",
        }
    }
}

/// A kind of log line: a struct whose fields are the line's fields.
pub trait Line: Serialize {
    /// The name of the event, in words with dashes, such as `claim-stepped`. Searches and alarms use it.
    const EVENT: &'static str;
    /// The severity.
    const LEVEL: Level;
}

/// Declares the log lines of a crate, one type for each: its comment, its name, its event, its level and its fields.
///
/// ```
/// nodeless_telemetry::lines! {
///     /// A claim was written.
///     ClaimWritten, "claim-written", Info { claim: &'a str, }
/// }
/// ```
#[macro_export]
macro_rules! lines {
    ($($(#[doc = $doc:literal])+ $name:ident, $event:literal, $level:ident { $($field:ident: $kind:ty,)* })+) => {
        $(
            $(#[doc = $doc])+
            #[derive(serde::Serialize)]
            #[serde(rename_all = "camelCase")]
            pub struct $name<'a> {
                $(#[allow(missing_docs, reason = "the field has its name in the log")] pub $field: $kind,)*
            }

            impl $crate::Line for $name<'_> {
                const EVENT: &'static str = $event;
                const LEVEL: $crate::Level = $crate::Level::$level;
            }
        )+
    };
}

/// The logged form of a line: one JSON object without line breaks, with the cluster that it is about. Absent fields are omitted.
pub fn render<L: Line>(line: &L, cluster: Option<&str>, at: Timestamp) -> String {
    let mut object = Map::new();
    object.insert("timestamp".to_owned(), Value::String(at.to_string()));
    object.insert("level".to_owned(), Value::String(L::LEVEL.as_str().to_owned()));
    object.insert("event".to_owned(), Value::String(L::EVENT.to_owned()));
    if let Some(cluster) = cluster {
        object.insert("cluster".to_owned(), Value::String(cluster.to_owned()));
    }
    for (name, value) in fields(line) {
        object.entry(name).or_insert(value);
    }
    Value::Object(object).to_string()
}

/// The text form of a line: time of day, level, event, and the fields as `name=value`.
pub fn render_for_people<L: Line>(line: &L, at: Timestamp) -> String {
    let mut text = format!("{} {:5} {}", at.strftime("%H:%M:%S%.3f"), L::LEVEL.as_str(), L::EVENT);
    for (name, value) in fields(line) {
        let value = match value {
            Value::String(plain) if !plain.contains([' ', '"', '\n']) => plain,
            other => other.to_string(),
        };
        text.push_str(&format!(" {name}={value}"));
    }
    text
}

/// The fields of a line. A value that is not serialized as an object becomes the field `value`, so that nothing is lost.
fn fields<L: Line>(line: &L) -> Map<String, Value> {
    match serde_json::to_value(line) {
        Ok(Value::Object(fields)) => fields.into_iter().filter(|(_, value)| !value.is_null()).collect(),
        Ok(other) => Map::from_iter([("value".to_owned(), other)]),
        Err(error) => Map::from_iter([("unserializable".to_owned(), Value::String(error.to_string()))]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct NodeJoined {
        node_claim: String,
        after_seconds: u32,
        note: Option<String>,
    }

    impl Line for NodeJoined {
        const EVENT: &'static str = "node-joined";
        const LEVEL: Level = Level::Info;
    }

    fn joined() -> NodeJoined {
        NodeJoined { node_claim: "default-abcde".into(), after_seconds: 31, note: None }
    }

    #[test]
    fn a_line_is_one_json_object() {
        let text = render(&joined(), Some("prod"), Timestamp::UNIX_EPOCH);
        let expected = r#"{"timestamp":"1970-01-01T00:00:00Z","level":"INFO","event":"node-joined","cluster":"prod","nodeClaim":"default-abcde","afterSeconds":31}"#;
        let parse = |text: &str| serde_json::from_str::<Value>(text).unwrap();
        assert_eq!(parse(&text), parse(expected));
        assert!(!render(&joined(), None, Timestamp::UNIX_EPOCH).contains("cluster"));
        let broken = NodeJoined { note: Some("two\nlines".into()), ..joined() };
        assert!(!render(&broken, None, Timestamp::UNIX_EPOCH).contains('\n'));
    }

    #[test]
    fn the_text_form_is_shorter() {
        let noted = NodeJoined { note: Some("a word more".into()), ..joined() };
        let text = render_for_people(&noted, Timestamp::UNIX_EPOCH);
        assert!(text.starts_with("00:00:00.000 INFO  node-joined "), "{text}");
        assert!(text.contains("nodeClaim=default-abcde") && text.contains(r#"note="a word more""#), "{text}");
    }
}
